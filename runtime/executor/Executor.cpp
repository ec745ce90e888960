#include "runtime/executor/Executor.h"

#include "runtime/executor/CpuExecutor.h"
#include "runtime/executor/CudaExecutor.h"

namespace ninfer {

Result<std::unique_ptr<Executor>> Executor::create(const Engine &engine, const ContextOptions &options, const Ledger &ledger) {
  if (engine.target().cuda())
    return CudaExecutor::create(engine);
  return CpuExecutor::create(engine, options, ledger);
}

} // namespace ninfer

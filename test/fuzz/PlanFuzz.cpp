// Plans. The digest of the input is made right first, so that the verifier behind it is reached. An accepted plan is
// read the way the executor reads it.
#include "schema/Build.h"
#include "schema/Verify.h"
#include "test/fuzz/Fuzz.h"

#include <vector>

using namespace ninfer;
using namespace ninfer::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const auto *bytes = reinterpret_cast<const std::byte *>(data);
  std::vector<std::byte> file(bytes, bytes + size);
  if (size >= kPlanHeaderBytes)
    sealPlan(file);
  Result<PlanView> view = PlanView::open(file, "fuzz.plan");
  if (!accepted(view))
    return 0;
  volatile uint64_t sink = 0;
  for (const plan::Target *target : *(*view)->targets()) {
    for (const plan::Phase *phase : *target->phases())
      for (const plan::Launch *launch : *phase->launches()) {
        sink = sink + target->kernels()->Get(launch->kernel())->symbol()->size();
        for (const plan::Ref *ref : *launch->args())
          if (ref->space() == plan::Space::Constant)
            sink = sink + static_cast<uint8_t>(view->blob(ref->index())[ref->offset() + ref->bytes() - 1]);
      }
    for (const plan::Kernel *kernel : *target->kernels())
      if (kernel->kind() == plan::KernelKind::Elf)
        for (std::byte b : view->blob(kernel->blob()))
          sink = sink + static_cast<uint8_t>(b);
  }
  return 0;
}

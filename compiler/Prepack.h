// ninfer-build --prepack: the weights of a plan's CUDA targets in the order their kernels read them, written to a file ahead of
// time. The one step of a build that reads the payload. Internal.
#ifndef NINFER_COMPILER_PREPACK_H
#define NINFER_COMPILER_PREPACK_H

#include "artifact/container/Reader.h"
#include "schema/View.h"
#include "support/File.h"
#include "support/Progress.h"
#include "support/Sha256.h"

#include <functional>

namespace ninfer {

struct PrepackOptions {
  unsigned threads = 1;
  ProgressMode progress = ProgressMode::Off;
  std::function<Status()> checkCancelled;
};

struct PrepackSize {
  uint64_t bytes = 0;
  size_t sections = 0; ///< targets that pack alike share one
};

/// Writes header and sections to `file`, which the caller publishes. NB0404 (Failed): a Load phase that the host cannot
/// follow.
Result<PrepackSize> writePacked(AtomicFile &file, const PlanView &plan, const Artifact &artifact, const Sha256Digest &signature,
                                const PrepackOptions &options);

} // namespace ninfer

#endif // NINFER_COMPILER_PREPACK_H

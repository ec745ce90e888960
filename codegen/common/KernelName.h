// Readable, deterministic names of kernels: a pure function of signature and family. Two kernels of
// one plan that still differ in something the name leaves out (an eps, say) are told apart by the
// outliner. Free of MLIR.
#ifndef NINFER_CODEGEN_COMMON_KERNELNAME_H
#define NINFER_CODEGEN_COMMON_KERNELNAME_H

#include "codegen/common/Families.h"

#include <string>

namespace ninfer {

/// "linear_q6g64_n576x192x192_k576_r1_a16_norm", "attention_h9_kv3_d64_c2048_bf16_r1to512",
/// "ref_rms_norm_k576_r1". Letters, digits and '_' only. Rows are "r1", or "r1to512" when they
/// vary.
std::string kernelName(const KernelSignature &signature, const KernelFamily &family);

} // namespace ninfer

#endif // NINFER_CODEGEN_COMMON_KERNELNAME_H

// Bases of the operations and the list of their families.
#ifndef NINFER_DIALECTS_NINFER_NINFEROPS_TD
#define NINFER_DIALECTS_NINFER_NINFEROPS_TD

include "dialects/ninfer/NinferOpBase.td"
include "dialects/ninfer/NinferModuleOps.td"
include "dialects/ninfer/NinferLinearOps.td"
include "dialects/ninfer/NinferNormOps.td"
include "dialects/ninfer/NinferAttentionOps.td"
include "dialects/ninfer/NinferDeltaOps.td"
include "dialects/ninfer/NinferMoeOps.td"
include "dialects/ninfer/NinferHandoverOps.td"
include "dialects/ninfer/NinferRowOps.td"
include "dialects/ninfer/NinferVisionOps.td"
include "dialects/ninfer/NinferKernelOps.td"

#endif // NINFER_DIALECTS_NINFER_NINFEROPS_TD

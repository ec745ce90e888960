// The closed inventories of framings 1 and 2: such an artifact names its model by identity, stores
// fused parents under physical names, and says nothing about use. Here is what each known identity
// stores, and which rows of which object every logical parameter is. Source:
// docs/models/qwen3_5.md, "Identities".
#ifndef NINFER_MODELS_IDENTITY_H
#define NINFER_MODELS_IDENTITY_H

#include "models/ModelSpec.h"

#include <string>
#include <string_view>
#include <vector>

namespace ninfer {

/// Rows [first, first + rows) of a stored tensor are the parameter; a whole tensor that is no
/// matrix is one "row".
struct StoredRows {
  std::string parameter;
  uint64_t first = 0;
  uint64_t rows = 0;
};

/// One tensor of an identity's inventory.
struct StoredTensor {
  std::string name; ///< object id
  std::vector<uint64_t> shape;
  Format format = Format::BF16;
  /// The published format of this role is not established: any registered matrix format is taken.
  bool anyFormat = false;
  /// Parameters stored here, in row order; empty for divisors.
  std::vector<StoredRows> parameters;
  /// Set for an input scale divisor: the tensor whose activation it divides.
  std::string divisorOf;
};

struct StoredModel {
  std::string modelId;
  std::string weightsId;
  HybridConfig config;
  VisionConfig vision;
  uint64_t proposalRows = 0;
  /// NVFP4 matrices allow 4-bit activations and FP8 matrices 8-bit ones; else all are A16Only.
  bool narrowActivations = false;
  std::vector<StoredTensor> tensors;
  std::vector<std::string> resources; ///< object ids "frontend/{role}"
  /// An optional companion that some files carry, or empty: its objects are counted and left
  /// unread.
  std::string companion;
  uint64_t companionTensors = 0;
};

/// Every known identity, in the order messages list them.
const std::vector<Identity> &knownIdentities();

/// Inventory of an identity; nothing when it is unknown. An empty weights id (framing 1, which
/// knows integer formats only) means groupwise-int.
std::optional<StoredModel> storedModel(const Identity &identity);

/// Config of an identity; nothing when it is unknown.
std::optional<HybridConfig> configOfIdentity(const Identity &identity);

/// recogniseModel() for framings 1 and 2 (hybrid_c15). Errors: NB0306 unknown identity, NB0307
/// missing, extra or misshaped objects, all listed.
Result<ModelSpec> recogniseIdentity(const Directory &directory, std::string_view fileName,
                                    const RecogniseOptions &options);

} // namespace ninfer

#endif // NINFER_MODELS_IDENTITY_H

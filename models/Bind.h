// Binding of an inventory to the directory of a framing 3 artifact: every parameter of one
// component present, nothing extra, shapes, formats and row ranges right, every projection with its
// Use. All faults of one kind are listed at once. Shared by the model packages.
#ifndef NINFER_MODELS_BIND_H
#define NINFER_MODELS_BIND_H

#include "models/ModelSpec.h"
#include "support/Shape.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ninfer {

/// True for "text/layers/0/input_norm" and "text".
bool isUnder(std::string_view name, std::string_view component);

/// Collects faults of one kind; turns into one error whose notes list them.
class FaultList {
public:
  void add(std::string text);
  bool empty() const { return count_ == 0; }
  /// Success when nothing was added. The first 64 faults are listed, the rest is counted.
  Status status(ErrorKind kind, const char *code, const std::string &message) const;

private:
  std::vector<std::string> faults_;
  size_t count_ = 0;
};

/// Binds `parameters`, the whole inventory under `component`/. A whole-object binding has the
/// parameter's shape; parts are whole rows (direct parameters: any elements) of one format and
/// layout. Error: NB0304.
Status bindParameters(const Directory &directory, std::string_view fileName,
                      std::string_view component, std::span<ParameterSpec> parameters);

/// Takes policy and divisor of every parameter under `component`/ from its Use. Exactly the
/// parameters with an `input` have a Use at an input of `inputComponent`, and it is that input,
/// with a policy. Uses at inputs of other components are left to them. Error: NB0305.
Status bindUses(const Directory &directory, std::string_view fileName, std::string_view component,
                std::string_view inputComponent, std::span<ParameterSpec> parameters);

/// The Use of `parameter` at `input`, which another component than the parameter's own consumes.
/// Error: NB0305 when it is missing or incomplete.
Result<const Use *> requireUse(const Directory &directory, std::string_view fileName,
                               const std::string &parameter, const std::string &input);

} // namespace ninfer

#endif // NINFER_MODELS_BIND_H

// Rows of a weight matrix as the kernel ABI passes it: one pointer per plane, each at the parameter's first row.
// Decodes one row to binary32 by the reconstruction rule of its format (artifact/formats/Words.h).
#ifndef NINFER_RUNTIME_REFERENCE_WEIGHTROWS_H
#define NINFER_RUNTIME_REFERENCE_WEIGHTROWS_H

#include "artifact/layouts/Layout.h"
#include "runtime/reference/Ops.h"

#include <vector>

namespace ninfer::reference {

class WeightRows {
public:
  /// Reads the attributes format, layout, n (rows) and k (row length).
  explicit WeightRows(AttributeReader &a);

  int64_t n() const { return n_; }
  int64_t k() const { return k_; }
  size_t planes() const { return geometry_.planes.size(); }
  /// Appends one ArgNeed per plane.
  void appendNeeds(std::vector<ArgNeed> &needs) const;
  /// Values of row `row` (0 <= row < n); `planes` are the plane pointers, `out` has k elements.
  void decode(void *const *planes, int64_t row, float *out) const;

private:
  int64_t n_ = 1, k_ = 1;
  EncodedGeometry geometry_;
};

} // namespace ninfer::reference

#endif // NINFER_RUNTIME_REFERENCE_WEIGHTROWS_H

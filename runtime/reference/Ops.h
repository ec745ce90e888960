// Factories of the built-ins, one per symbol, and small helpers shared by their files. Internal.
#ifndef NINFER_RUNTIME_REFERENCE_OPS_H
#define NINFER_RUNTIME_REFERENCE_OPS_H

#include "runtime/reference/Attributes.h"
#include "runtime/reference/Builtin.h"
#include "support/Checked.h"

#include <initializer_list>

namespace ninfer::reference {

using Factory = std::unique_ptr<Builtin> (*)(AttributeReader &);

// Matrix.cpp
std::unique_ptr<Builtin> makeLinear(AttributeReader &);
std::unique_ptr<Builtin> makeEmbedding(AttributeReader &);
// Rows.cpp
std::unique_ptr<Builtin> makeRmsNorm(AttributeReader &);
std::unique_ptr<Builtin> makeHeadNorm(AttributeReader &);
std::unique_ptr<Builtin> makeSwiglu(AttributeReader &);
std::unique_ptr<Builtin> makeAdd(AttributeReader &);
std::unique_ptr<Builtin> makeLastRow(AttributeReader &);
std::unique_ptr<Builtin> makeStoreRows(AttributeReader &);
std::unique_ptr<Builtin> makeLoadRows(AttributeReader &);
std::unique_ptr<Builtin> makeConcat(AttributeReader &);
std::unique_ptr<Builtin> makeReplaceRows(AttributeReader &);
// Attention.cpp
std::unique_ptr<Builtin> makeRope(AttributeReader &);
std::unique_ptr<Builtin> makeKvAppend(AttributeReader &);
std::unique_ptr<Builtin> makeAttention(AttributeReader &);
std::unique_ptr<Builtin> makeRopeTable(AttributeReader &);
std::unique_ptr<Builtin> makePlaceAngles(AttributeReader &);
// Experts.cpp
std::unique_ptr<Builtin> makeMoeRoute(AttributeReader &);
std::unique_ptr<Builtin> makeMoeUp(AttributeReader &);
std::unique_ptr<Builtin> makeMoeDown(AttributeReader &);
// Hybrid.cpp
std::unique_ptr<Builtin> makeSigmoidGate(AttributeReader &);
std::unique_ptr<Builtin> makeCausalConv(AttributeReader &);
std::unique_ptr<Builtin> makeGatedDelta(AttributeReader &);
std::unique_ptr<Builtin> makeGatedHeadNorm(AttributeReader &);

// Vision.cpp
std::unique_ptr<Builtin> makeLayerNorm(AttributeReader &);
std::unique_ptr<Builtin> makeBias(AttributeReader &);
std::unique_ptr<Builtin> makeGelu(AttributeReader &);
std::unique_ptr<Builtin> makeAxialRope(AttributeReader &);
std::unique_ptr<Builtin> makeFullAttention(AttributeReader &);
std::unique_ptr<Builtin> makeInterpolate(AttributeReader &);

/// Product of extents in bytes; 2^64-1 when it does not fit, which no launch argument can satisfy.
inline uint64_t bytesOf(std::initializer_list<int64_t> extents) {
  uint64_t product = 1;
  for (int64_t extent : extents) {
    auto next = checkedMul(product, uint64_t(extent));
    if (!next)
      return UINT64_MAX;
    product = *next;
  }
  return product;
}

} // namespace ninfer::reference

#endif // NINFER_RUNTIME_REFERENCE_OPS_H

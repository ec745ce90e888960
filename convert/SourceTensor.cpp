// Element types of source checkpoints and small queries over tensors.
#include "convert/SourceTensor.h"

#include <algorithm>

namespace ninfer {

namespace {
constexpr SourceTypeInfo kTypes[] = {
    {"F32", 1, 4},      {"F16", 1, 2},      {"BF16", 1, 2},       {"Q8_0", 32, 34},
    {"Q4_0", 32, 18},   {"Q5_0", 32, 22},   {"IQ4_NL", 32, 18},   {"Q4_1", 32, 20},
    {"Q5_1", 32, 24},   {"Q2_K", 256, 84},  {"Q3_K", 256, 110},   {"Q4_K", 256, 144},
    {"Q5_K", 256, 176}, {"Q6_K", 256, 210}, {"IQ4_XS", 256, 136},
    {"packed", 1, 1},   {"other", 1, 1},
};
static_assert(std::size(kTypes) == static_cast<size_t>(SourceType::Other) + 1);
} // namespace

const SourceTypeInfo &sourceTypeInfo(SourceType type) { return kTypes[static_cast<size_t>(type)]; }

bool movesExactlyIntoW8(SourceType type) {
  return type == SourceType::Q8_0 || type == SourceType::Q4_0 || type == SourceType::Q5_0 ||
         type == SourceType::IQ4_NL;
}

uint64_t SourceTensor::rows() const {
  uint64_t n = 1;
  for (size_t i = 0; i + 1 < shape.size(); ++i)
    n *= shape[i];
  return n;
}

const SourceTensor *SourceTensors::find(const std::string &name) const {
  auto it = std::find_if(tensors.begin(), tensors.end(),
                         [&](const SourceTensor &t) { return t.name == name; });
  return it == tensors.end() ? nullptr : &*it;
}

} // namespace ninfer

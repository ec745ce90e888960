// Numbers that follow from the config of the hybrid family.
#include "models/HybridConfig.h"

#include <cmath>

namespace ninfer {

int64_t HybridAttention::rotaryDim() const {
  return static_cast<int64_t>(static_cast<float>(headDim) *
                              static_cast<float>(partialRotaryFactor));
}

std::vector<double> HybridAttention::ropeInverseFrequencies() const {
  const int64_t rotary = rotaryDim();
  std::vector<double> frequencies(static_cast<size_t>(rotary / 2));
  for (size_t i = 0; i < frequencies.size(); ++i)
    frequencies[i] =
        std::pow(ropeTheta, -2.0 * static_cast<double>(i) / static_cast<double>(rotary));
  return frequencies;
}

std::vector<int> HybridAttention::ropeAxes() const {
  std::vector<int> axes(static_cast<size_t>(rotaryDim() / 2));
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t pair = static_cast<int64_t>(i);
    for (int axis : {1, 2})
      if (pair % 3 == axis && pair < 3 * mropeSection[static_cast<size_t>(axis)])
        axes[i] = axis;
  }
  return axes;
}

} // namespace ninfer

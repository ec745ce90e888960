// Rotary frequencies of the decoder family, with the two scalings it knows. Formulas with their
// sources: docs/models/decoder.md, "Rotary frequencies".
#include "models/ModelSpec.h"

#include <cmath>
#include <numbers>

namespace ninfer {

namespace {

/// Long waves (more positions than the original context holds) are slowed by `factor`, short waves
/// stay, and the band between is blended by how often a wave fits into the original context.
double scaleLlama3(double frequency, const DecoderConfig &c) {
  double original = static_cast<double>(c.ropeOriginalMaxPositions);
  double turns = original * frequency / (2.0 * std::numbers::pi);
  if (turns > c.ropeHighFreqFactor)
    return frequency;
  if (turns < c.ropeLowFreqFactor)
    return frequency / c.ropeFactor;
  double blend = (turns - c.ropeLowFreqFactor) / (c.ropeHighFreqFactor - c.ropeLowFreqFactor);
  return (1.0 - blend) * frequency / c.ropeFactor + blend * frequency;
}

} // namespace

std::vector<double> DecoderConfig::ropeInverseFrequencies() const {
  std::vector<double> frequencies(static_cast<size_t>(headDim / 2));
  for (size_t i = 0; i < frequencies.size(); ++i) {
    double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(headDim);
    double frequency = std::pow(ropeTheta, exponent);
    switch (ropeScaling) {
    case RopeScaling::None:
      break;
    case RopeScaling::Linear:
      frequency /= ropeFactor;
      break;
    case RopeScaling::Llama3:
      frequency = scaleLlama3(frequency, *this);
      break;
    }
    frequencies[i] = frequency;
  }
  return frequencies;
}

} // namespace ninfer

// Antialiased bicubic resampling. A pixel of the result is a sum over the pixels below a kernel that is as wide as the
// scale asks for; weights are normalised, so the edges need no rule of their own.
#include "runtime/vision/Preprocess.h"

#include <algorithm>
#include <cmath>

namespace ninfer::vision {

namespace {

/// Keys' cubic convolution kernel with a = -1/2; zero from 2 on.
double cubic(double x) {
  constexpr double a = -0.5;
  x = std::fabs(x);
  if (x < 1)
    return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2)
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

/// The pixels that make one pixel of the result.
struct Taps {
  int64_t first = 0;
  std::vector<double> weights;
};

std::vector<Taps> tapsOf(int64_t from, int64_t to) {
  const double scale = double(from) / double(to), widened = std::max(scale, 1.0), reach = 2 * widened;
  std::vector<Taps> all(static_cast<size_t>(to));
  for (int64_t i = 0; i < to; ++i) {
    const double centre = (double(i) + 0.5) * scale;
    // Pixels whose centres lie in reach.
    const int64_t begin = std::max<int64_t>(0, int64_t(std::floor(centre - reach + 0.5)));
    const int64_t end = std::min<int64_t>(from, int64_t(std::floor(centre + reach + 0.5)));
    Taps &taps = all[size_t(i)];
    taps.first = begin;
    double total = 0;
    for (int64_t p = begin; p < end; ++p) {
      taps.weights.push_back(cubic((double(p) + 0.5 - centre) / widened));
      total += taps.weights.back();
    }
    for (double &weight : taps.weights)
      weight /= total;
  }
  return all;
}

uint8_t rounded(double value) { return uint8_t(std::clamp(std::floor(value + 0.5), 0.0, 255.0)); }

} // namespace

Image resize(const Image &image, int64_t height, int64_t width) {
  Image wide{image.height, width, std::vector<uint8_t>(size_t(image.height * width * 3))};
  const std::vector<Taps> columns = tapsOf(image.width, width);
  for (int64_t y = 0; y < image.height; ++y)
    for (int64_t x = 0; x < width; ++x) {
      const Taps &taps = columns[size_t(x)];
      const uint8_t *from = image.pixels.data() + (y * image.width + taps.first) * 3;
      double sum[3] = {};
      for (size_t t = 0; t < taps.weights.size(); ++t)
        for (size_t c = 0; c < 3; ++c)
          sum[c] += taps.weights[t] * from[3 * t + c];
      for (size_t c = 0; c < 3; ++c)
        wide.pixels[size_t((y * width + x) * 3) + c] = rounded(sum[c]);
    }
  Image out{height, width, std::vector<uint8_t>(size_t(height * width * 3))};
  const std::vector<Taps> rows = tapsOf(image.height, height);
  std::vector<double> sum(size_t(width * 3));
  for (int64_t y = 0; y < height; ++y) {
    const Taps &taps = rows[size_t(y)];
    std::fill(sum.begin(), sum.end(), 0.0);
    for (size_t t = 0; t < taps.weights.size(); ++t) {
      const uint8_t *from = wide.pixels.data() + (taps.first + int64_t(t)) * width * 3;
      for (size_t i = 0; i < sum.size(); ++i)
        sum[i] += taps.weights[t] * from[i];
    }
    for (size_t i = 0; i < sum.size(); ++i)
      out.pixels[size_t(y * width * 3) + i] = rounded(sum[i]);
  }
  return out;
}

} // namespace ninfer::vision

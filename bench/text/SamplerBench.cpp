// ninfer-sampler-bench [VOCABULARY]: microseconds to choose one token from a row of logits, medians, for usual options. Rows are Gaussian:
// a deviation of 3 is the spread of a trained model's row without its peak; of 0.3, that of a model with random weights.
#include "runtime/text/Sampler.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>

using namespace ninfer;

namespace {

/// `peak` is added to twenty tokens, from 0 down to -peak in equal steps below it.
std::vector<float> gaussian(size_t size, double deviation, double peak) {
  std::vector<float> row(size);
  for (size_t i = 0; i < size; ++i) {
    const double u = counterUniform(1, 2 * i), v = counterUniform(1, 2 * i + 1);
    row[i] = float(deviation * std::sqrt(-2 * std::log(1 - u)) * std::cos(2 * M_PI * v));
  }
  for (size_t i = 0; peak > 0 && i < 20; ++i)
    row[i * 7919 % size] = float(peak * (1 - double(i) / 20) + 4 * deviation);
  return row;
}

double microseconds(const SamplingOptions &options, const std::vector<float> &row) {
  Sampler sampler = Sampler::create(options).take();
  for (int32_t token = 0; token < 1000; ++token)
    sampler.accept(token * 7);
  std::vector<double> times;
  for (int i = 0; i < 51; ++i) {
    const auto start = std::chrono::steady_clock::now();
    if (!sampler.sample(row).ok())
      std::exit(1);
    times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + 25, times.end());
  return times[25];
}

} // namespace

int main(int argc, char **argv) {
  const long size = argc > 1 ? std::atol(argv[1]) : 250000;
  if (size < 1) {
    std::fprintf(stderr, "usage: ninfer-sampler-bench [VOCABULARY]\n");
    return 2;
  }
  const struct {
    const char *name;
    SamplingOptions options;
  } cases[] = {
      {"greedy", {}},
      {"greedy, penalties of 1000 tokens", {.repetitionPenalty = 1.1}},
      {"temperature 1", {.temperature = 1.0}},
      {"temperature 1, top-k 40", {.temperature = 1.0, .topK = 40}},
      {"temperature 0.6, top-k 20, top-p 0.95", {.temperature = 0.6, .topK = 20, .topP = 0.95}},
      {"the same, penalties of 1000 tokens", {.temperature = 0.6, .topK = 20, .topP = 0.95, .repetitionPenalty = 1.1}},
      {"temperature 1, min-p 0.05", {.temperature = 1.0, .minP = 0.05}},
      {"temperature 0.7, top-p 0.9", {.temperature = 0.7, .topP = 0.9}},
  };
  std::printf("%-40s %10s %10s %10s   us, %ld tokens\n", "", "peaked", "sigma 3", "sigma 0.3", size);
  const std::vector<float> peaked = gaussian(size_t(size), 3, 10), wide = gaussian(size_t(size), 3, 0),
                           flat = gaussian(size_t(size), 0.3, 0);
  for (const auto &c : cases)
    std::printf("%-40s %10.1f %10.1f %10.1f\n", c.name, microseconds(c.options, peaked), microseconds(c.options, wide),
                microseconds(c.options, flat));
  return 0;
}

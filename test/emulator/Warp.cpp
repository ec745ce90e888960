// Warp-wide operations: a lane deposits its operands and waits; the last one to arrive computes for all 32. Results are
// kept twice, by the parity of the turn, so that a lane may enter the next operation before the others have read.
#include "test/emulator/Machine.h"

#include "test/emulator/Sanitizers.h"
#include "test/emulator/ni_host.h"

#include <array>
#include <bit>
#include <cstring>
#include <span>

namespace ninfer::emulator {

namespace {

float bf16(uint32_t word) { return std::bit_cast<float>(word << 16); }
float f16(uint32_t word) { return float(std::bit_cast<_Float16>(uint16_t(word))); }

/// D = A B + C with all 16 products and C summed in double, rounded once: every order of summation a tensor core may
/// use lies around this value. K is 16 or 8; the fragments of m16n8k8 are those of the first 8 k of m16n8k16. Layout: PTX
/// ISA, "Matrix Fragments for mma.m16n8k16 with floating point type" and "... mma.m16n8k8".
template <uint32_t K>
void computeMma(Warp &warp, float (*number)(uint32_t)) {
  const auto &in = warp.in[warp.turn & 1]; // rows 0..3: A, 4..5: B, 6: C pointers are in `rows`
  float a[16][K], b[K][8];
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t g = lane / 4, t = lane % 4;
    for (uint32_t i = 0; i < K / 4; ++i)
      for (uint32_t half = 0; half < 2; ++half)
        a[g + 8 * (i & 1)][8 * (i >> 1) + 2 * t + half] = number(in[i][lane] >> (16 * half) & 0xffff);
    for (uint32_t i = 0; i < K / 8; ++i)
      for (uint32_t half = 0; half < 2; ++half)
        b[8 * i + 2 * t + half][g] = number(in[4 + i][lane] >> (16 * half) & 0xffff);
  }
  double d[16][8];
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const auto *c = static_cast<const float *>(warp.rows[lane]);
    for (uint32_t i = 0; i < 4; ++i)
      d[lane / 4 + 8 * (i >> 1)][2 * (lane % 4) + (i & 1)] = double(c[i]);
  }
  for (uint32_t m = 0; m < 16; ++m)
    for (uint32_t k = 0; k < K; ++k)
      for (uint32_t n = 0; n < 8; ++n)
        d[m][n] += double(a[m][k]) * double(b[k][n]);
  for (uint32_t lane = 0; lane < 32; ++lane)
    for (uint32_t i = 0; i < 4; ++i)
      warp.out[warp.turn & 1][i][lane] =
          std::bit_cast<uint32_t>(float(d[lane / 4 + 8 * (i >> 1)][2 * (lane % 4) + (i & 1)]));
}

void computeLoadMatrix(Warp &warp, bool transposed) {
  for (uint32_t m = 0; m < 4; ++m)
    for (uint32_t lane = 0; lane < 32; ++lane) {
      const uint32_t g = lane / 4, t = lane % 4;
      uint16_t words[2];
      for (uint32_t half = 0; half < 2; ++half) {
        const uint32_t row = transposed ? 2 * t + half : g, column = transposed ? g : 2 * t + half;
        std::memcpy(&words[half], static_cast<const uint8_t *>(warp.rows[8 * m + row]) + column * 2, 2);
      }
      warp.out[warp.turn & 1][m][lane] = words[0] | uint32_t(words[1]) << 16;
    }
}

const char *collectiveName(Collective op) {
  switch (op) {
  case Collective::Shuffle: return "shuffle";
  case Collective::Sync: return "warp sync";
  case Collective::MmaBf16: return "mma";
  case Collective::MmaF16: return "mma of binary16";
  case Collective::LoadMatrix: return "load matrix";
  case Collective::LoadMatrixTransposed: return "load matrix transposed";
  }
  return "";
}

/// Joins the 31 other lanes. Returns the parity under which the results lie.
uint32_t meet(Collective op, Site site) {
  Fiber *self = current;
  Warp &warp = *self->warp;
  self->site = site;
  if (warp.arrived == 0) {
    warp.op = op;
    warp.site = site;
  } else if (warp.op != op || warp.site.line != site.line || std::strcmp(warp.site.file, site.file) != 0) {
    fail(std::string("lanes of a warp in different collectives: ") + collectiveName(op) + " here, " +
             collectiveName(warp.op) + " at " + describe(warp.site),
         site);
  }
  const uint32_t turn = warp.turn;
  if (op == Collective::Sync)
    sanitizers::release(sanitizers::barrier(&warp, turn));
  if (++warp.arrived == 32) {
    if (op == Collective::MmaBf16)
      computeMma<16>(warp, bf16);
    if (op == Collective::MmaF16)
      computeMma<8>(warp, f16);
    if (op == Collective::LoadMatrix || op == Collective::LoadMatrixTransposed)
      computeLoadMatrix(warp, op == Collective::LoadMatrixTransposed);
    warp.arrived = 0;
    warp.turn++;
    warp.epoch += op == Collective::Sync;
    machine->outcome.collectives++;
    for (uint32_t lane = 0; lane < 32; ++lane)
      if (warp.fibers[lane].state == State::AtCollective)
        warp.fibers[lane].state = State::Ready;
  } else {
    self->state = State::AtCollective;
    yieldLane();
  }
  if (op == Collective::Sync)
    sanitizers::acquire(sanitizers::barrier(&warp, turn));
  return turn & 1;
}

uint32_t roundToBf16(double value) {
  // Twice rounded through binary32 would be wrong on ties that binary32 makes; so tie-breaking looks at the remainder.
  const auto nearest = float(value);
  if (nearest != nearest)
    return 0x7fff;
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  const double rest = value - double(nearest);
  if ((bits & 0xffff) == 0x8000 && rest != 0)
    return (bits >> 16) + ((rest > 0) == (value > 0));
  bits += 0x7fff + ((bits >> 16) & 1);
  return bits >> 16;
}

/// The exact sum of two numbers, to the next odd number where it lies between two: rounding that once more is rounding once.
double sumToOdd(double a, double b) {
  const double sum = a + b, back = sum - a, rest = (a - (sum - back)) + (b - back);
  auto bits = std::bit_cast<uint64_t>(sum);
  if (rest != 0 && sum - sum == 0 && !(bits & 1))
    bits += (rest > 0) == (sum > 0) ? 1 : -1;
  return std::bit_cast<double>(bits);
}

void multiply(Collective op, float *d, std::span<const uint32_t> a, std::array<uint32_t, 2> b, Site site) {
  Warp &warp = *current->warp;
  const uint32_t lane = current->lane();
  auto &in = warp.in[warp.turn & 1];
  for (uint32_t i = 0; i < a.size(); ++i)
    in[i][lane] = a[i];
  in[4][lane] = b[0];
  in[5][lane] = b[1];
  warp.rows[lane] = d;
  const uint32_t parity = meet(op, site);
  for (uint32_t i = 0; i < 4; ++i)
    d[i] = std::bit_cast<float>(warp.out[parity][i][lane]);
}

} // namespace

} // namespace ninfer::emulator

using namespace ninfer::emulator;

extern "C" {

void ni_host_warp_sync(int line, const char *file) { meet(Collective::Sync, {line, file}); }

uint32_t ni_host_shuffle(uint32_t v, uint32_t source, int line, const char *file) {
  Warp &warp = *current->warp;
  warp.in[warp.turn & 1][7][current->lane()] = v;
  const uint32_t parity = meet(Collective::Shuffle, {line, file});
  return warp.in[parity][7][source & 31];
}

void ni_host_not_uniform(int line, const char *file) { fail("lanes of a warp differ in a uniform value", {line, file}); }

void ni_host_mma_bf16(float *d, const uint32_t *a, uint32_t b0, uint32_t b1, int line, const char *file) {
  multiply(Collective::MmaBf16, d, {a, 4}, {b0, b1}, {line, file});
}
void ni_host_mma_f16(float *d, uint32_t a0, uint32_t a1, uint32_t b, int line, const char *file) {
  const uint32_t a[2] = {a0, a1};
  multiply(Collective::MmaF16, d, a, {b, 0}, {line, file});
}

void ni_host_load_matrix(uint32_t *r, const void *row, bool transposed, int line, const char *file) {
  Warp &warp = *current->warp;
  const uint32_t lane = current->lane();
  ni::host::ni_host_access(row, 16, 16, ni::host::Access::SharedRead, line, file);
  sanitizers::read16(row);
  warp.rows[lane] = row;
  const uint32_t parity =
      meet(transposed ? Collective::LoadMatrixTransposed : Collective::LoadMatrix, {line, file});
  for (uint32_t i = 0; i < 4; ++i)
    r[i] = warp.out[parity][i][lane];
}

uint32_t ni_host_fma_f16(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t r = 0;
  for (uint32_t shift = 0; shift < 32; shift += 16) {
    const auto at = [shift](uint32_t v) { return double(f16(v >> shift & 0xffff)); };
    r |= uint32_t(std::bit_cast<uint16_t>(_Float16(sumToOdd(at(a) * at(b), at(c))))) << shift;
  }
  return r;
}

uint32_t ni_host_fma_bf16(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t r = 0;
  for (uint32_t shift = 0; shift < 32; shift += 16) {
    const auto at = [shift](uint32_t v) { return double(bf16(v >> shift & 0xffff)); };
    r |= roundToBf16(at(a) * at(b) + at(c)) << shift;
  }
  return r;
}

} // extern "C"

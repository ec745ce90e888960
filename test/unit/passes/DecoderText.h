// Text of a small decoder graph, as models/graph builds it, with any number of layers.
#ifndef NINFER_TEST_UNIT_PASSES_DECODERTEXT_H
#define NINFER_TEST_UNIT_PASSES_DECODERTEXT_H

#include <string>

namespace ninfer::test {

struct DecoderShape {
  int layers = 1;
  bool headNorms = false;    ///< norms of query and key heads
  bool mixedFormats = false; ///< value in 8 bits, down in BF16; otherwise 4 bits
  bool normFirst = false;    ///< final norm in front of last_row instead of behind it
  int chunk = 8;             ///< rows of a prefill call
  enum { NoTaps, LayerTaps, AllTaps } taps = NoTaps; ///< on the residual stream, or on every value
};

/// A module with `func.func @text`: hidden 64, 4 heads of 16 over 2 KV heads, feed-forward 96, 40
/// tokens, context 64.
std::string decoderText(const DecoderShape &shape);

} // namespace ninfer::test

#endif // NINFER_TEST_UNIT_PASSES_DECODERTEXT_H

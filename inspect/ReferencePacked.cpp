#include "inspect/ReferencePacked.h"

namespace ninfer {

namespace {

uint32_t byteAt(const std::vector<std::byte> &bytes, uint64_t at) {
  return std::to_integer<uint32_t>(bytes[at]);
}

uint32_t wordAt(const std::vector<std::byte> &bytes, uint64_t word) {
  uint32_t out = 0;
  for (uint64_t i = 4; i-- > 0;)
    out = out * 256 + byteAt(bytes, 4 * word + i);
  return out;
}

} // namespace

RawCodes::RawCodes(const PackedWeight &weight)
    : weight_(weight), rows_(weight.shape()[0]), columns_(weight.shape()[1]) {
  const SourceTensor &codes = weight.components().front().tensor;
  const std::vector<uint64_t> &shape = codes.shape;
  const std::string &type = codes.typeName;
  if (shape.size() != 2)
    return;
  if (type == "U8" && shape[0] == rows_ && shape[1] * 2 == columns_)
    form_ = Form::Nibbles;
  else if (type == "F8_E4M3" && shape == weight.shape())
    form_ = Form::Bytes;
  else if (type == "I8" && shape == weight.shape())
    form_ = Form::Int8;
  else if (type == "I32") {
    const bool gptq =
        codes.name.size() > 8 && codes.name.rfind(".qweight") == codes.name.size() - 8;
    for (uint32_t bits : {4u, 8u}) {
      const uint64_t words = (columns_ * bits + 31) / 32;
      if (gptq ? shape[0] != words || shape[1] != rows_ : shape[0] != rows_ || shape[1] != words)
        continue;
      form_ = gptq ? Form::ColumnWords : Form::RowWords;
      bits_ = bits;
    }
  }
}

Status RawCodes::load(uint64_t first, uint64_t count) {
  const PackedComponent &codes = weight_.components().front();
  first_ = first;
  count_ = count;
  if (form_ == Form::Unknown)
    return Status();
  if (form_ != Form::ColumnWords) {
    const uint64_t rowBytes = codes.tensor.bytes / rows_;
    bytes_.resize(count * rowBytes);
    return codes.read(first * rowBytes, bytes_);
  }
  const uint64_t wordRows = codes.tensor.shape[0];
  bytes_.resize(wordRows * count * 4);
  for (uint64_t w = 0; w < wordRows; ++w)
    NINFER_RETURN_IF_ERROR(
        codes.read((w * rows_ + first) * 4, std::span(bytes_).subspan(w * count * 4, count * 4)));
  return Status();
}

void RawCodes::row(uint64_t row, std::vector<int32_t> &out) const {
  const uint64_t r = row - first_, rowBytes = bytes_.size() / count_;
  const uint64_t perWord = bits_ ? 32 / bits_ : 1;
  out.resize(columns_);
  for (uint64_t k = 0; k < columns_; ++k) {
    switch (form_) {
    case Form::Nibbles: {
      const uint32_t pair = byteAt(bytes_, r * rowBytes + k / 2);
      out[k] = int32_t(k % 2 == 0 ? pair % 16 : pair / 16);
      break;
    }
    case Form::Bytes:
      out[k] = int32_t(byteAt(bytes_, r * rowBytes + k));
      break;
    case Form::Int8: {
      const auto u = int32_t(byteAt(bytes_, r * rowBytes + k));
      out[k] = u < 128 ? u : u - 256;
      break;
    }
    case Form::RowWords:
    case Form::ColumnWords: {
      const uint64_t word = k / perWord;
      const uint32_t bits =
          wordAt(bytes_, form_ == Form::RowWords ? r * (rowBytes / 4) + word : word * count_ + r);
      const uint32_t code = (bits >> (bits_ * (k % perWord))) % (1u << bits_);
      out[k] = int32_t(code) - int32_t(1u << (bits_ - 1));
      break;
    }
    case Form::Unknown:
      out[k] = 0;
    }
  }
}

} // namespace ninfer

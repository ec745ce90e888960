#include "DecoderText.h"

#include <map>
#include <sstream>

namespace ninfer::test {
namespace {

constexpr int kHidden = 64, kHeads = 4, kKvHeads = 2, kDim = 16, kFeed = 96, kVocab = 40,
              kContext = 64;

class Writer {
public:
  explicit Writer(const DecoderShape &shape) : shape_(shape) {}

  std::string run() {
    body();
    std::ostringstream out;
    out << "module attributes {ninfer.layers = " << shape_.layers
        << " : i64, ninfer.max_context = " << kContext
        << " : i64, ninfer.prefill_chunk = " << shape_.chunk << " : i64} {\n"
        << symbols_.str() << "func.func @text(%tokens: tensor<?xi32>, %pos: index) -> tensor<1x"
        << kVocab << "xf32> attributes {ninfer.component = \"text\"} {\n"
        << code_.str() << "}\n}\n";
    return out.str();
  }

private:
  static int bytesOf(const std::string &format, int n, int k) {
    auto up = [](int value, int to) { return (value + to - 1) / to * to; };
    int padded = up(k, 128);
    if (format == "BF16")
      return n * k * 2;
    if (format == "W8G32_F16S")
      return up(n * padded, 256) + n * padded / 32 * 2;
    return up(n * padded / 2, 256) + n * padded / 64 * 2; // Q4G64_F16S
  }

  /// Declares a parameter stored in its own object and gives the value of it.
  std::string weight(const std::string &name, int n, int k, std::string format) {
    if (n == 0)
      format = "BF16";
    std::string shape = n ? std::to_string(n) + "x" + std::to_string(k) : std::to_string(k);
    std::string type = "<" + shape + ", " + format +
                       (format == "BF16" ? ", \"contiguous-le-v1\">" : ", \"row-split-k128-v1\">");
    if (!types_.contains(name)) {
      int bytes = bytesOf(format, n ? n : 1, k);
      symbols_ << "ninfer.object @\"" << name << ".bytes\" : " << type << " at " << offset_
               << " size " << bytes << "\nninfer.parameter @\"" << name << "\" : !ninfer.weight"
               << type << " parts [#ninfer.part<@\"" << name << ".bytes\", 0, " << (n ? n : 1) * k
               << ">] policy<A16Only>\n";
      offset_ += (bytes + 255) / 256 * 256;
      types_[name] = type;
    }
    std::string value = fresh();
    code_ << value << " = ninfer.param @\"" << name << "\" : !ninfer.weight" << type << "\n";
    last_ = type;
    return value;
  }

  std::string fresh() { return "%" + std::to_string(next_++); }
  static std::string rows(int width, const char *count = "?") {
    return std::string("tensor<") + count + "x" + std::to_string(width) + "xf32>";
  }
  void at(const std::string &path) { code_ << " loc(\"" << path << "\")\n"; }

  /// y, tapped when the shape says so.
  std::string tapped(const std::string &y, int width, bool residual = false, const char *count = "?") {
    if (shape_.taps == DecoderShape::AllTaps || (residual && shape_.taps == DecoderShape::LayerTaps))
      code_ << "ninfer.tap " << y << " as \"" << y << "\" : " << rows(width, count) << "\n";
    return y;
  }

  std::string norm(const std::string &x, const std::string &name, const char *count = "?") {
    std::string w = weight(name, 0, kHidden, "BF16"), y = fresh();
    code_ << y << " = ninfer.rms_norm " << x << ", " << w
          << " {eps = 1.0e-5} : " << rows(kHidden, count) << ", " << last_;
    at(name);
    return tapped(y, kHidden, false, count);
  }

  std::string linear(const std::string &x, const std::string &name, int n, int k,
                     const std::string &format, const char *count = "?") {
    std::string w = weight(name, n, k, format), y = fresh();
    code_ << y << " = ninfer.linear " << x << ", " << w << " policy<A16Only> : " << rows(k, count)
          << ", " << last_ << " -> " << rows(n, count);
    at(name);
    return tapped(y, n, false, count);
  }

  std::string headNorm(const std::string &x, const std::string &name, int heads) {
    std::string w = weight(name, 0, kDim, "BF16"), y = fresh();
    code_ << y << " = ninfer.head_norm " << x << ", " << w << " {eps = 1.0e-6, heads = " << heads
          << "} : " << rows(heads * kDim) << ", " << last_;
    at(name);
    return tapped(y, heads * kDim);
  }

  std::string rope(const std::string &x, const std::string &table, int heads,
                   const std::string &path) {
    std::string y = fresh();
    code_ << y << " = ninfer.rope " << x << ", " << table << ", %pos {heads = " << heads
          << "} : " << rows(heads * kDim) << ", <" << kContext << "x" << kDim / 2 << ">";
    at(path);
    return tapped(y, heads * kDim);
  }

  std::string add(const std::string &a, const std::string &b, const std::string &path) {
    std::string y = fresh();
    code_ << y << " = ninfer.add " << a << ", " << b << " : " << rows(kHidden);
    at(path);
    return tapped(y, kHidden, true);
  }

  std::string attention(const std::string &x, const std::string &layer) {
    const std::string path = layer + "/attention", cache = path + "/kv";
    const std::string cacheType = "<" + std::to_string(kKvHeads) + "x" + std::to_string(kContext) +
                                  "x" + std::to_string(kDim) + ", bf16>";
    symbols_ << "ninfer.state @\"" << cache << "\" : !ninfer.kv_cache" << cacheType << "\n";
    std::string h = norm(x, layer + "/input_norm");
    std::string q = linear(h, path + "/query", kHeads * kDim, kHidden, "Q4G64_F16S");
    std::string k = linear(h, path + "/key", kKvHeads * kDim, kHidden, "Q4G64_F16S");
    std::string v = linear(h, path + "/value", kKvHeads * kDim, kHidden,
                           shape_.mixedFormats ? "W8G32_F16S" : "Q4G64_F16S");
    if (shape_.headNorms) {
      q = headNorm(q, path + "/query_norm", kHeads);
      k = headNorm(k, path + "/key_norm", kKvHeads);
    }
    std::string table = fresh(), kv = fresh(), mixed = fresh();
    code_ << table << " = ninfer.state_ref @\"text/rope\" : !ninfer.rope_table<" << kContext << "x"
          << kDim / 2 << ">\n"
          << kv << " = ninfer.state_ref @\"" << cache << "\" : !ninfer.kv_cache" << cacheType
          << "\n";
    q = rope(q, table, kHeads, path);
    k = rope(k, table, kKvHeads, path);
    code_ << "ninfer.kv_append " << k << ", " << v << ", " << kv
          << ", %pos : " << rows(kKvHeads * kDim) << ", " << cacheType;
    at(path);
    code_ << mixed << " = ninfer.attention " << q << ", " << kv << ", %pos {heads = " << kHeads
          << ", kv_heads = " << kKvHeads << ", scale = 0.25} : " << rows(kHeads * kDim) << ", "
          << cacheType;
    at(path);
    tapped(mixed, kHeads * kDim);
    return add(linear(mixed, path + "/output", kHidden, kHeads * kDim, "Q4G64_F16S"), x, path);
  }

  std::string feedForward(const std::string &x, const std::string &layer) {
    const std::string path = layer + "/mlp";
    std::string h = norm(x, layer + "/post_attention_norm");
    std::string gate = linear(h, path + "/gate", kFeed, kHidden, "Q4G64_F16S");
    std::string up = linear(h, path + "/up", kFeed, kHidden, "Q4G64_F16S"), product = fresh();
    code_ << product << " = ninfer.swiglu " << gate << ", " << up << " : " << rows(kFeed);
    at(path);
    tapped(product, kFeed);
    return add(x,
               linear(product, path + "/down", kHidden, kFeed,
                      shape_.mixedFormats ? "BF16" : "Q4G64_F16S"),
               path);
  }

  void body() {
    symbols_ << "ninfer.state @\"text/rope\" : !ninfer.rope_table<" << kContext << "x" << kDim / 2
             << "> {inv_freq = array<f64: 1.0, 0.5, 0.25, 0.125, 0.1, 0.05, 0.02, 0.01>}\n";
    std::string table = weight("text/token_embedding", kVocab, kHidden, "W8G32_F16S"), x = fresh();
    code_ << x << " = ninfer.embedding %tokens, " << table << " : tensor<?xi32>, " << last_
          << " -> " << rows(kHidden);
    at("text/token_embedding");
    tapped(x, kHidden, true);
    for (int i = 0; i < shape_.layers; ++i) {
      const std::string layer = "text/layers/" + std::to_string(i);
      x = feedForward(attention(x, layer), layer);
    }
    if (shape_.normFirst)
      x = norm(x, "text/final_norm");
    std::string row = fresh();
    code_ << row << " = ninfer.last_row " << x << " : " << rows(kHidden) << " -> "
          << rows(kHidden, "1");
    at("text/output_head");
    tapped(row, kHidden, false, "1");
    if (!shape_.normFirst)
      row = norm(row, "text/final_norm", "1");
    std::string logits = linear(row, "text/token_embedding", kVocab, kHidden, "W8G32_F16S", "1");
    code_ << "return " << logits << " : " << rows(kVocab, "1") << "\n";
  }

  const DecoderShape &shape_;
  std::ostringstream symbols_, code_;
  std::map<std::string, std::string> types_;
  std::string last_; ///< type of the weight last referred to
  int offset_ = 0, next_ = 0;
};

} // namespace

std::string decoderText(const DecoderShape &shape) { return Writer(shape).run(); }

} // namespace ninfer::test

#include "codegen/cuda/KernelText.h"

#include "artifact/formats/Format.h"

namespace ninfer::cuda {

namespace {

constexpr bool sameNumber(ni::Format kernel, Format registry) {
  return static_cast<uint32_t>(kernel) == static_cast<uint32_t>(registry);
}
static_assert(sameNumber(ni::Format::Bf16, Format::BF16) && sameNumber(ni::Format::Fp32, Format::FP32) &&
                  sameNumber(ni::Format::I32, Format::I32) && sameNumber(ni::Format::Q4, Format::Q4G64_F16S) &&
                  sameNumber(ni::Format::Q5, Format::Q5G64_F16S) && sameNumber(ni::Format::Q6, Format::Q6G64_F16S) &&
                  sameNumber(ni::Format::W8, Format::W8G32_F16S) && sameNumber(ni::Format::Nvfp4, Format::NVFP4) &&
                  sameNumber(ni::Format::Fp8, Format::FP8_E4M3FN_ROW_BF16S),
              "kernels/types.cuh: Format numbers are those of the registry");

std::string_view enumerator(ni::Format format) {
  constexpr std::string_view names[] = {"Bf16", "Fp32", "I32", "Q4", "Q5", "Q6", "W8", "Nvfp4", "Fp8"};
  return names[static_cast<size_t>(format)];
}

/// Text of a designated initialiser list, field by field in declaration order.
class Record {
public:
  Record &number(std::string_view field, uint64_t value) { return text(field, std::to_string(value)); }
  Record &flag(std::string_view field, bool value) { return text(field, value ? "true" : "false"); }
  Record &choice(std::string_view field, std::string_view type, std::string_view enumerator) {
    return text(field, "ni::" + std::string(type) + "::" + std::string(enumerator));
  }
  std::string str() const { return "{" + text_ + "}"; }

private:
  Record &text(std::string_view field, const std::string &value) {
    text_ += (text_.empty() ? "." : ", .") + std::string(field) + " = " + value;
    return *this;
  }
  std::string text_;
};

constexpr std::string_view kPrologues[] = {"None", "RmsNorm", "RmsNormUnitOffset"};
constexpr std::string_view kPrologueSuffix[] = {"", "_norm", "_norm1"};
constexpr std::string_view kEpilogues[] = {"Store", "Residual", "Swiglu"};
constexpr std::string_view kEpilogueSuffix[] = {"", "_add", "_swiglu"};
constexpr std::string_view kOutputs[] = {"Bf16", "Float"};

std::string suffix(uint32_t sm) { return sm ? "_sm" + std::to_string(sm) : std::string(); }

} // namespace

std::string KernelText::source() const { return "#include \"" + header + "\"\n" + line + "\n"; }

std::string_view shortName(ni::Format format) {
  constexpr std::string_view names[] = {"bf16", "fp32", "i32", "q4g64", "q5g64", "q6g64", "w8g32", "nvfp4", "fp8"};
  return names[static_cast<size_t>(format)];
}

KernelText linearKernel(const ni::LinearSpec &s, uint32_t sm) {
  KernelText t;
  t.family = "linear";
  t.header = "linear.cuh";
  t.name = "ni_linear_" + std::string(shortName(s.format)) + "_r" + std::to_string(s.rows) + "_k" + std::to_string(s.k);
  t.name += kPrologueSuffix[static_cast<size_t>(s.prologue)];
  t.name += kEpilogueSuffix[static_cast<size_t>(s.epilogue)];
  t.name += s.output == ni::OutputType::Float ? "_f32" : "";
  t.name += "_w" + std::to_string(s.warpsK) + "x" + std::to_string(s.warpsN) + "d" + std::to_string(s.depth);
  if (s.chunk)
    t.name += "c" + std::to_string(s.chunk);
  t.name += suffix(sm);
  Record record;
  record.choice("format", "Format", enumerator(s.format)).number("rows", s.rows).number("k", s.k);
  record.choice("prologue", "Prologue", kPrologues[static_cast<size_t>(s.prologue)]);
  record.choice("epilogue", "Epilogue", kEpilogues[static_cast<size_t>(s.epilogue)]);
  record.choice("output", "OutputType", kOutputs[static_cast<size_t>(s.output)]);
  record.number("warpsK", s.warpsK).number("warpsN", s.warpsN).number("chunk", s.chunk).number("depth", s.depth);
  record.number("blocksPerSm", s.blocksPerSm);
  t.line = "NI_LINEAR(" + t.name + ", " + record.str() + ")";
  t.params = {{"weight", 8}, {"up", 8}, {"x", 8}, {"norm", 8}, {"residual", 8}, {"out", 8}, {"n", 4}, {"rows", 4}, {"eps", 4}};
  t.threads = ni::linearThreads(s);
  t.sharedBytes = ni::linearShared(s);
  return t;
}

} // namespace ninfer::cuda

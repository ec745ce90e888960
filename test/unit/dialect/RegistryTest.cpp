// The types of the dialect accept exactly the pairs of the registry.
#include "dialects/ninfer/NinferDialect.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/Diagnostics.h"

#include <gtest/gtest.h>

using namespace ninfer;

namespace {

TEST(Registry, EveryPairIsLegalExactlyWhenRegistered) {
  mlir::MLIRContext context;
  context.loadDialect<NinferDialect>();
  mlir::ScopedDiagnosticHandler quiet(&context, [](mlir::Diagnostic &) { return mlir::success(); });
  int legal = 0;
  for (const FormatInfo &format : allFormats())
    for (const LayoutInfo &layout : allLayouts()) {
      std::string text = "!ninfer.weight<256x256, " + std::string(canonicalName(format.format)) +
                         ", \"" + std::string(canonicalName(layout.layout)) + "\">";
      mlir::Type type = mlir::parseType(text, &context);
      EXPECT_EQ(bool(type), isRegisteredPair(format.format, layout.layout)) << text;
      if (!type)
        continue;
      ++legal;
      auto weight = mlir::cast<WeightType>(type);
      EXPECT_EQ(weight.getFormat(), format.format);
      EXPECT_EQ(weight.getLayout(), layout.layout);
      std::string printed;
      llvm::raw_string_ostream(printed) << type;
      EXPECT_EQ(printed, text);
    }
  EXPECT_EQ(legal, 9);
}

TEST(Registry, SizesOfEncodedWeights) {
  mlir::MLIRContext context;
  context.loadDialect<NinferDialect>();
  auto bytes = [&](Format format, llvm::ArrayRef<int64_t> shape) {
    return WeightType::get(&context, shape, format, layoutOf(format)).getEncodedBytes();
  };
  EXPECT_EQ(bytes(Format::BF16, {576}), 576 * 2);
  EXPECT_EQ(bytes(Format::FP32, {4, 3}), 4 * 3 * 4);
  // Rows of 576 codes are padded to 640; groups of 64 (32 for 8 bits) have one 2-byte scale each.
  EXPECT_EQ(bytes(Format::Q4G64_F16S, {256, 576}), 256 * (320 + 10 * 2));
  EXPECT_EQ(bytes(Format::Q5G64_F16S, {256, 576}), 256 * (400 + 10 * 2));
  EXPECT_EQ(bytes(Format::Q6G64_F16S, {256, 576}), 256 * (480 + 10 * 2));
  EXPECT_EQ(bytes(Format::W8G32_F16S, {256, 576}), 256 * (640 + 20 * 2));
}

} // namespace

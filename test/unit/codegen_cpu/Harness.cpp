#include "test/unit/codegen_cpu/Harness.h"

#include "dialects/ninfer/NinferDialect.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

namespace ninfer::test {

namespace {
constexpr size_t guardBytes = 256;
constexpr std::byte guardByte{0xa5};
} // namespace

std::vector<std::string> runnableTargets() {
  Result<CpuTarget> native = resolveCpuTarget("native");
  std::vector<std::string> names;
  for (const char *name : {"x86-64-v3", "x86-64-v4", "znver4"}) {
    Result<CpuTarget> target = resolveCpuTarget(name);
    if (native.ok() && target.ok() && target->level <= native->level)
      names.push_back(name);
  }
  return names;
}

Buffer::Buffer(size_t bytes, size_t align)
    : memory_(bytes + 2 * guardBytes + align, guardByte), bytes_(bytes) {
  auto address = reinterpret_cast<uintptr_t>(memory_.data()) + guardBytes;
  skip_ = guardBytes + (align - address % align) % align;
  data_ = memory_.data() + skip_;
}

bool Buffer::guardsIntact() const {
  auto intact = [](std::byte b) { return b == guardByte; };
  return std::all_of(memory_.begin(), memory_.begin() + static_cast<ptrdiff_t>(skip_), intact) &&
         std::all_of(memory_.begin() + static_cast<ptrdiff_t>(skip_ + bytes_), memory_.end(),
                     intact);
}

Result<CpuObject> compileText(const std::string &text, const CpuTarget &target,
                              const CpuCodegenOptions &options) {
  mlir::DialectRegistry registry;
  registry.insert<NinferDialect>();
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  if (!module)
    return makeError(ErrorKind::Failed, "test", "the module text does not parse:\n" + text);
  return compileKernels(*module, target, options);
}

std::unique_ptr<Compiled> Compiled::fromText(const std::string &text,
                                             const std::string &targetName,
                                             const std::map<std::string, CpuTuning> &tuning) {
  Result<CpuTarget> target = resolveCpuTarget(targetName);
  if (!target.ok()) {
    ADD_FAILURE() << target.error().render();
    return nullptr;
  }
  CpuCodegenOptions options;
  options.threads = 2;
  options.tuning = tuning;
  if (const char *dump = std::getenv("NINFER_TEST_DUMP"))
    options.dumpDir = std::string(dump) + "/" + targetName;
  Result<CpuObject> object = compileText(text, *target, options);
  if (!object.ok()) {
    ADD_FAILURE() << object.error().render();
    return nullptr;
  }
  auto compiled = std::make_unique<Compiled>();
  compiled->object_ = object.take();
  compiled->fd_ = memfd_create("kernels", MFD_CLOEXEC);
  const std::vector<char> &elf = compiled->object_.elf;
  if (write(compiled->fd_, elf.data(), elf.size()) != static_cast<ssize_t>(elf.size())) {
    ADD_FAILURE() << "cannot write the object";
    return nullptr;
  }
  compiled->handle_ =
      dlopen(("/proc/self/fd/" + std::to_string(compiled->fd_)).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!compiled->handle_) {
    ADD_FAILURE() << dlerror();
    return nullptr;
  }
  return compiled;
}

Compiled::~Compiled() {
  if (handle_)
    dlclose(handle_);
  if (fd_ >= 0)
    close(fd_);
}

uint64_t Compiled::scratchBytes(const std::string &kernel) const {
  for (const CpuKernel &entry : object_.kernels)
    if (entry.name == kernel)
      return entry.scratchBytes;
  return 0;
}

void Compiled::run(const std::string &kernel, const std::vector<void *> &args,
                   const std::vector<Buffer *> &outputs, int64_t rows, int64_t position,
                   int64_t tiles, int64_t pieces) const {
  auto entry = reinterpret_cast<ninfer_kernel_fn>(dlsym(handle_, kernel.c_str()));
  ASSERT_NE(entry, nullptr) << kernel;
  int64_t scalars[NINFER_SCALAR_COUNT] = {rows, position, 0, 0};
  // Halves of words, so that bf16 counts too; a half that is all ones counts as not written, which
  // loses nothing.
  constexpr uint16_t unwritten = 0xffff;
  std::vector<std::vector<uint16_t>> all;
  for (Buffer *output : outputs)
    all.emplace_back(output->size() / 2, unwritten);
  for (int64_t piece = pieces; piece-- > 0;) {
    Buffer scratch(scratchBytes(kernel));
    std::memset(scratch.as<char>(), 0xff, scratch.size());
    for (Buffer *output : outputs)
      std::memset(output->as<char>(), 0xff, output->size());
    entry(args.data(), scalars, tiles * piece / pieces, tiles * (piece + 1) / pieces,
          scratch.as<void>());
    ASSERT_TRUE(scratch.guardsIntact()) << kernel << " writes outside its scratch";
    for (size_t i = 0; i < outputs.size(); ++i) {
      ASSERT_TRUE(outputs[i]->guardsIntact()) << kernel << " writes around output " << i;
      const uint16_t *halves = outputs[i]->as<uint16_t>();
      for (size_t h = 0; h < all[i].size(); ++h)
        if (halves[h] != unwritten) {
          ASSERT_EQ(all[i][h], unwritten)
              << kernel << ": two tile ranges write half word " << h << " of output " << i;
          all[i][h] = halves[h];
        }
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i)
    std::memcpy(outputs[i]->as<char>(), all[i].data(), outputs[i]->size());
}

Weight::Weight(Format format, std::vector<uint64_t> shapeIn, uint32_t seed)
    : shape(std::move(shapeIn)) {
  Result<EncodedGeometry> planned = encodedGeometry(format, layoutOf(format), shape);
  if (!planned.ok()) {
    ADD_FAILURE() << planned.error().render();
    return;
  }
  geometry = planned.take();
  object = std::make_unique<Buffer>(geometry.totalBytes, 256);
  std::memset(object->as<char>(), 0, object->size());
  std::span<std::byte> bytes(object->as<std::byte>(), object->size());
  std::mt19937 random(seed);
  const size_t count = geometry.rows * geometry.k;
  Status status;
  switch (formatInfo(format).category) {
  case FormatCategory::Direct: {
    // Numbers between 2^-4 and 2: bf16 is the upper half of the float32 word.
    std::vector<std::byte> words(count * formatInfo(format).bits / 8);
    std::vector<float> values = randomFloats(count, seed);
    for (size_t i = 0; i < count; ++i) {
      uint32_t word;
      std::memcpy(&word, &values[i], 4);
      if (format == Format::BF16) {
        auto half = static_cast<uint16_t>(word >> 16);
        std::memcpy(&words[i * 2], &half, 2);
      } else {
        std::memcpy(&words[i * 4], &word, 4);
      }
    }
    status = encodeRows(geometry, 0, DirectRows{words}, bytes);
    break;
  }
  case FormatCategory::GroupedInteger: {
    const FormatInfo &info = formatInfo(format);
    std::uniform_int_distribution<int> code(info.qmin, info.qmax);
    std::vector<int8_t> codes(count);
    for (int8_t &c : codes)
      c = static_cast<int8_t>(code(random));
    std::vector<uint16_t> scales(geometry.rows * geometry.logicalGroupsPerRow());
    for (uint16_t &s : scales)
      s = static_cast<uint16_t>(0x2000 + random() % 0x800); // 2^-7 .. 2^-5
    status = encodeRows(geometry, 0, GroupedRows{codes, scales}, bytes);
    break;
  }
  case FormatCategory::RowScaledFloat: {
    std::vector<uint8_t> codes(count);
    for (uint8_t &c : codes)
      do
        c = static_cast<uint8_t>(random());
      while ((c & 0x7f) == 0x7f);
    std::vector<uint16_t> scales(geometry.rows);
    for (uint16_t &s : scales)
      s = static_cast<uint16_t>(0x3b00 + random() % 0x80);
    status = encodeRows(geometry, 0, RowScaledRows{codes, scales}, bytes);
    break;
  }
  case FormatCategory::BlockScaledFloat: {
    std::vector<uint8_t> codes(count), scales(count / 16);
    for (uint8_t &c : codes)
      c = random() & 15;
    for (uint8_t &s : scales)
      s = static_cast<uint8_t>(0x28 + random() % 0x20);
    status = encodeRows(geometry, 0, BlockScaledRows{codes, scales, 0x41200000 /* 10 */}, bytes);
    break;
  }
  }
  if (!status.ok())
    ADD_FAILURE() << status.error().render();
  values.resize(count);
  for (uint64_t n = 0; n < geometry.rows; ++n)
    decodeRow(geometry, bytes, n, std::span(values).subspan(n * geometry.k, geometry.k));
}

std::string Weight::type() const {
  std::string dims;
  for (uint64_t d : shape)
    dims += (dims.empty() ? "" : "x") + std::to_string(d);
  return "!ninfer.weight<" + dims + ", " + std::string(canonicalName(geometry.format)) + ", \"" +
         std::string(canonicalName(geometry.layout)) + "\">";
}

void Weight::addPointers(std::vector<void *> &args) {
  for (const PlaneInfo &plane : geometry.planes)
    args.push_back(object->as<char>() + plane.offset);
}

std::vector<float> randomFloats(size_t count, uint32_t seed, float scale) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> values(count);
  for (float &v : values)
    v = normal(random);
  return values;
}

std::unique_ptr<Buffer> floatBuffer(size_t count) { return std::make_unique<Buffer>(count * 4); }

std::unique_ptr<Buffer> bufferOf(const std::vector<float> &values) {
  auto buffer = std::make_unique<Buffer>(values.size() * 4);
  std::copy(values.begin(), values.end(), buffer->as<float>());
  return buffer;
}

void expectWithin(const float *actual, const std::vector<double> &expected,
                  const std::vector<double> &bound, const std::string &what) {
  for (size_t i = 0; i < expected.size(); ++i)
    if (!(std::fabs(actual[i] - expected[i]) <= bound[i])) {
      ADD_FAILURE() << what << ": element " << i << " is " << actual[i] << ", expected "
                    << expected[i] << " +- " << bound[i];
      return;
    }
}

} // namespace ninfer::test

#include "convert/Gguf.h"

#include "support/Bytes.h"
#include "support/Checked.h"
#include "support/Utf8.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

namespace ninfer {

namespace {

const char *const kCode = "NB0313";
constexpr uint32_t kMagic = 0x46554747; // "GGUF"
constexpr uint32_t kVersion = 3;
constexpr uint32_t kDefaultAlignment = 32;
constexpr uint32_t kMaxAlignment = 1u << 16;
constexpr uint64_t kMaxString = 16u << 20;
constexpr size_t kMaxName = 256;
constexpr int kMaxArrayDepth = 4;
constexpr uint64_t kMinEntryBytes = 8 + 1 + 4 + 1; ///< key of one byte, type, value of one byte
constexpr uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;

Error bad(const std::string &fileName, const std::string &text) {
  return makeError(ErrorKind::BadFile, kCode, fileName + ": " + text);
}

enum ValueType : uint32_t {
  TUint8,
  TInt8,
  TUint16,
  TInt16,
  TUint32,
  TInt32,
  TFloat32,
  TBool,
  TString,
  TArray,
  TUint64,
  TInt64,
  TFloat64,
  TCount
};

uint64_t minBytes(uint32_t type) {
  constexpr uint64_t sizes[TCount] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};
  return sizes[type];
}

struct GgmlType {
  uint32_t id;
  SourceType type;
};
constexpr GgmlType kGgmlTypes[] = {
    {0, SourceType::F32},     {1, SourceType::F16},   {30, SourceType::BF16},
    {8, SourceType::Q8_0},    {2, SourceType::Q4_0},  {6, SourceType::Q5_0},
    {20, SourceType::IQ4_NL}, {3, SourceType::Q4_1},  {7, SourceType::Q5_1},
    {10, SourceType::Q2_K},   {11, SourceType::Q3_K}, {12, SourceType::Q4_K},
    {13, SourceType::Q5_K},   {14, SourceType::Q6_K}, {23, SourceType::IQ4_XS},
};

/// Sequential reads with a window, so that the header is never mapped and never read twice.
class Cursor {
public:
  explicit Cursor(const SourceFile &file) : file_(file) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return std::min(file_.size(), kMaxGgufHeader) - position_; }
  /// `count` bytes from here do not fit the file, whatever the limit of the header.
  bool pastEnd(uint64_t count) const { return count > file_.size() - position_; }
  std::string tooShort(const std::string &why) const {
    return "the file is too short (truncated?): " + why + ", the file has " +
           std::to_string(file_.size()) + " bytes";
  }

  Status bytes(void *out, uint64_t count, const char *what) {
    if (count > remaining())
      return bad(file_.name(), pastEnd(count)
                                   ? tooShort(std::string("it ends inside ") + what + " at byte " +
                                              std::to_string(position_))
                                   : "the header exceeds " + std::to_string(kMaxGgufHeader) +
                                         " bytes inside " + what + " at byte " +
                                         std::to_string(position_));
    auto *to = static_cast<std::byte *>(out);
    while (count > 0) {
      if (position_ < windowStart_ || position_ >= windowStart_ + window_.size())
        NINFER_RETURN_IF_ERROR(fill());
      uint64_t at = position_ - windowStart_;
      uint64_t n = std::min<uint64_t>(count, window_.size() - at);
      std::memcpy(to, window_.data() + at, n);
      to += n;
      position_ += n;
      count -= n;
    }
    return Status();
  }

  template <typename T>
  Result<T> integer(const char *what) {
    std::byte raw[sizeof(T)];
    NINFER_RETURN_IF_ERROR(bytes(raw, sizeof raw, what));
    return loadLe<T>(raw);
  }

  Result<std::string> text(const char *what, uint64_t limit) {
    NINFER_ASSIGN_OR_RETURN(uint64_t length, integer<uint64_t>(what));
    if (length <= limit && pastEnd(length))
      return bad(file_.name(),
                 tooShort(std::string(what) + " at byte " + std::to_string(position_) + " has " +
                          std::to_string(length) + " bytes"));
    if (length > limit || length > remaining())
      return bad(file_.name(), std::string(what) + " at byte " + std::to_string(position_) +
                                   " has " + std::to_string(length) + " bytes, at most " +
                                   std::to_string(std::min(limit, remaining())) + " are possible");
    std::string out(length, '\0');
    NINFER_RETURN_IF_ERROR(bytes(out.data(), length, what));
    return out;
  }

private:
  Status fill() {
    constexpr uint64_t kWindow = 1u << 20;
    windowStart_ = position_;
    window_.resize(std::min(kWindow, file_.size() - position_));
    return file_.read(windowStart_, window_);
  }

  const SourceFile &file_;
  std::vector<std::byte> window_;
  uint64_t windowStart_ = 0, position_ = 0;
};

class Parser {
public:
  explicit Parser(const SourceFile &file) : file_(file), in_(file) {}

  Result<GgufFile> run() {
    out_.fileName = file_.name();
    NINFER_RETURN_IF_ERROR(header());
    for (uint64_t i = 0; i < entryCount_; ++i)
      NINFER_RETURN_IF_ERROR(entry());
    NINFER_RETURN_IF_ERROR(alignment());
    for (uint64_t i = 0; i < tensorCount_; ++i)
      NINFER_RETURN_IF_ERROR(tensor());
    NINFER_RETURN_IF_ERROR(placeTensors());
    return std::move(out_);
  }

private:
  Error fault(const std::string &text) const { return bad(file_.name(), text); }

  Status header() {
    NINFER_ASSIGN_OR_RETURN(uint32_t magic, in_.integer<uint32_t>("the magic"));
    if (magic != kMagic)
      return fault("not a GGUF file");
    NINFER_ASSIGN_OR_RETURN(uint32_t version, in_.integer<uint32_t>("the version"));
    if (version == __builtin_bswap32(kVersion))
      return makeError(ErrorKind::Unsupported, "NB0315",
                       file_.name() + ": big-endian GGUF is not supported");
    if (version != kVersion)
      return makeError(ErrorKind::Unsupported, "NB0315",
                       file_.name() + ": GGUF version " + std::to_string(version) +
                           ", supported: " + std::to_string(kVersion));
    NINFER_ASSIGN_OR_RETURN(tensorCount_, in_.integer<uint64_t>("the tensor count"));
    NINFER_ASSIGN_OR_RETURN(entryCount_, in_.integer<uint64_t>("the metadata count"));
    NINFER_RETURN_IF_ERROR(checkCount("tensor count", tensorCount_, kMinTensorBytes, kMaxGgufTensors));
    NINFER_RETURN_IF_ERROR(checkCount("metadata count", entryCount_, kMinEntryBytes, kMaxGgufEntries));
    return Status();
  }

  Status checkCount(const char *what, uint64_t count, uint64_t least, uint64_t limit) const {
    if (count <= in_.remaining() / least)
      return count <= limit ? Status()
                            : Status(fault(std::string(what) + " " + std::to_string(count) + " exceeds the limit of " +
                                           std::to_string(limit)));
    std::string text = std::string(what) + " " + std::to_string(count);
    const std::optional<uint64_t> bytes = checkedMul(count, least);
    return fault(!bytes || in_.pastEnd(*bytes) ? in_.tooShort(text + " exceeds the file")
                                               : text + " exceeds the header limit of " +
                                                     std::to_string(kMaxGgufHeader) + " bytes");
  }

  Status entry() {
    NINFER_ASSIGN_OR_RETURN(std::string key, in_.text("a metadata key", kMaxName));
    if (key.empty() || !isValidUtf8(key))
      return fault("a metadata key is empty or not UTF-8");
    NINFER_ASSIGN_OR_RETURN(uint32_t type, in_.integer<uint32_t>("a metadata type"));
    GgufValue value;
    NINFER_RETURN_IF_ERROR(read(key, type, value));
    if (!out_.metadata.emplace(key, std::move(value)).second)
      return fault("duplicate metadata key '" + key + "'");
    return Status();
  }

  Status read(const std::string &key, uint32_t type, GgufValue &value) {
    if (type == TString) {
      value.kind = GgufValue::Kind::String;
      NINFER_ASSIGN_OR_RETURN(value.text, in_.text("a metadata string", kMaxString));
      return Status();
    }
    if (type == TArray)
      return readArray(key, value, 0);
    return readScalar(key, type, value);
  }

  template <typename T>
  Status readUnsigned(GgufValue &value) {
    value.kind = GgufValue::Kind::Unsigned;
    NINFER_ASSIGN_OR_RETURN(value.unsignedValue, in_.integer<T>("a metadata value"));
    return Status();
  }
  template <typename T>
  Status readSigned(GgufValue &value) {
    value.kind = GgufValue::Kind::Signed;
    NINFER_ASSIGN_OR_RETURN(auto raw, in_.integer<std::make_unsigned_t<T>>("a metadata value"));
    value.signedValue = static_cast<T>(raw);
    return Status();
  }

  Status readScalar(const std::string &key, uint32_t type, GgufValue &value) {
    switch (type) {
    case TUint8:
      return readUnsigned<uint8_t>(value);
    case TUint16:
      return readUnsigned<uint16_t>(value);
    case TUint32:
      return readUnsigned<uint32_t>(value);
    case TUint64:
      return readUnsigned<uint64_t>(value);
    case TInt8:
      return readSigned<int8_t>(value);
    case TInt16:
      return readSigned<int16_t>(value);
    case TInt32:
      return readSigned<int32_t>(value);
    case TInt64:
      return readSigned<int64_t>(value);
    case TFloat32: {
      NINFER_ASSIGN_OR_RETURN(uint32_t raw, in_.integer<uint32_t>("a metadata value"));
      value.kind = GgufValue::Kind::Float;
      value.floatValue = floatFromBits(raw);
      return Status();
    }
    case TFloat64: {
      NINFER_ASSIGN_OR_RETURN(uint64_t raw, in_.integer<uint64_t>("a metadata value"));
      value.kind = GgufValue::Kind::Float;
      value.floatValue = std::bit_cast<double>(raw);
      return Status();
    }
    case TBool:
      NINFER_RETURN_IF_ERROR(readUnsigned<uint8_t>(value));
      value.kind = GgufValue::Kind::Bool;
      if (value.unsignedValue > 1)
        return fault("metadata '" + key + "': boolean byte " + std::to_string(value.unsignedValue));
      return Status();
    default:
      return fault("metadata '" + key + "': unknown value type " + std::to_string(type));
    }
  }

  Status readArray(const std::string &key, GgufValue &value, int depth) {
    value.kind = GgufValue::Kind::Array;
    NINFER_ASSIGN_OR_RETURN(uint32_t type, in_.integer<uint32_t>("an array type"));
    NINFER_ASSIGN_OR_RETURN(uint64_t count, in_.integer<uint64_t>("an array length"));
    if (type >= TCount)
      return fault("metadata '" + key + "': unknown element type " + std::to_string(type));
    if (count > kMaxGgufElements - elements_)
      return fault("metadata '" + key + "': array of " + std::to_string(count) +
                   " elements exceeds the limit of " + std::to_string(kMaxGgufElements));
    if (in_.pastEnd(count * minBytes(type)))
      return fault(in_.tooShort("metadata '" + key + "': array of " + std::to_string(count) +
                                " elements exceeds the file"));
    if (count > in_.remaining() / minBytes(type))
      return fault("metadata '" + key + "': array of " + std::to_string(count) +
                   " elements exceeds the header limit of " + std::to_string(kMaxGgufHeader) +
                   " bytes");
    elements_ += count;
    if (type == TArray) {
      value.elementKind = GgufValue::Kind::Array;
      if (depth + 1 >= kMaxArrayDepth)
        return fault("metadata '" + key + "': arrays are nested deeper than " +
                     std::to_string(kMaxArrayDepth));
      for (uint64_t i = 0; i < count; ++i) {
        GgufValue ignored;
        NINFER_RETURN_IF_ERROR(readArray(key, ignored, depth + 1));
      }
      return Status();
    }
    for (uint64_t i = 0; i < count; ++i)
      NINFER_RETURN_IF_ERROR(readElement(key, type, value));
    return Status();
  }

  Status readElement(const std::string &key, uint32_t type, GgufValue &array) {
    GgufValue element;
    NINFER_RETURN_IF_ERROR(read(key, type, element));
    array.elementKind = element.kind;
    double number = 0;
    switch (element.kind) {
    case GgufValue::Kind::String:
      array.strings.push_back(std::move(element.text));
      return Status();
    case GgufValue::Kind::Unsigned:
    case GgufValue::Kind::Bool:
      number = static_cast<double>(element.unsignedValue);
      break;
    case GgufValue::Kind::Signed:
      number = static_cast<double>(element.signedValue);
      break;
    default:
      number = element.floatValue;
      break;
    }
    constexpr double kExact = 9007199254740992.0;
    if (element.kind != GgufValue::Kind::Float && std::fabs(number) > kExact)
      return fault("metadata '" + key + "': array integer beyond 2^53");
    array.numbers.push_back(number);
    return Status();
  }

  Status alignment() {
    alignment_ = kDefaultAlignment;
    const GgufValue *value = out_.find("general.alignment");
    if (!value)
      return Status();
    if (value->kind != GgufValue::Kind::Unsigned || value->unsignedValue < 8 ||
        value->unsignedValue > kMaxAlignment || !std::has_single_bit(value->unsignedValue))
      return fault("general.alignment must be a power of two in 8.." +
                   std::to_string(kMaxAlignment));
    alignment_ = value->unsignedValue;
    return Status();
  }

  Status tensor() {
    SourceTensor t;
    NINFER_ASSIGN_OR_RETURN(t.name, in_.text("a tensor name", kMaxName));
    if (t.name.empty() || !isValidUtf8(t.name))
      return fault("a tensor name is empty or not UTF-8");
    NINFER_ASSIGN_OR_RETURN(uint32_t rank, in_.integer<uint32_t>("a tensor rank"));
    if (rank < 1 || rank > 4)
      return fault("tensor '" + t.name + "': rank must be in 1..4, got " + std::to_string(rank));
    for (uint32_t i = 0; i < rank; ++i) {
      NINFER_ASSIGN_OR_RETURN(uint64_t dim, in_.integer<uint64_t>("a tensor dimension"));
      if (dim == 0)
        return fault("tensor '" + t.name + "': dimension " + std::to_string(i) + " is zero");
      t.shape.insert(t.shape.begin(), dim); // stored fastest axis first
    }
    NINFER_ASSIGN_OR_RETURN(uint32_t ggmlType, in_.integer<uint32_t>("a tensor type"));
    NINFER_ASSIGN_OR_RETURN(t.offset, in_.integer<uint64_t>("a tensor offset"));
    auto known = std::find_if(std::begin(kGgmlTypes), std::end(kGgmlTypes),
                              [&](const GgmlType &g) { return g.id == ggmlType; });
    if (known == std::end(kGgmlTypes))
      return unsupportedType(t.name, ggmlType);
    t.type = known->type;
    const SourceTypeInfo &info = sourceTypeInfo(t.type);
    t.typeName = info.name;
    if (t.columns() % info.blockElements != 0)
      return fault("tensor '" + t.name + "': " + std::to_string(t.columns()) +
                   " columns are no multiple of the " + info.name + " block of " +
                   std::to_string(info.blockElements));
    std::optional<uint64_t> count = checkedProduct(t.shape);
    std::optional<uint64_t> bytes =
        count ? checkedMul(*count / info.blockElements, info.blockBytes) : std::nullopt;
    if (!bytes)
      return fault("tensor '" + t.name + "': shape " + shapeText(t.shape) +
                   " exceeds 2^64-1 bytes");
    t.bytes = *bytes;
    if (!names_.insert(t.name).second)
      return fault("duplicate tensor name '" + t.name + "'");
    out_.tensors.push_back(std::move(t));
    return Status();
  }

  Status unsupportedType(const std::string &name, uint32_t id) const {
    std::string list;
    for (const GgmlType &g : kGgmlTypes)
      list += (list.empty() ? "" : ", ") + std::string(sourceTypeInfo(g.type).name);
    Status status(makeError(ErrorKind::Unsupported, "NB0315",
                            file_.name() + ": tensor '" + name + "' has ggml type " +
                                std::to_string(id) + ", which is not supported"));
    status.note("supported types: " + list);
    return status;
  }

  /// Offsets become absolute; the tensors fill the data section, aligned, without gap or overlap.
  Status placeTensors() {
    std::optional<uint64_t> start = checkedAlignUp(in_.position(), alignment_);
    if (!start || (*start > file_.size() && !out_.tensors.empty()))
      return fault(in_.tooShort("it ends before its tensor data"));
    uint64_t space = *start > file_.size() ? 0 : file_.size() - *start;
    std::vector<const SourceTensor *> order;
    for (SourceTensor &t : out_.tensors) {
      if (t.offset % alignment_ != 0)
        return fault("tensor '" + t.name + "': offset " + std::to_string(t.offset) +
                     " is no multiple of the alignment " + std::to_string(alignment_));
      if (t.offset > space || t.bytes > space - t.offset)
        return fault(in_.tooShort("tensor '" + t.name + "': bytes [" + std::to_string(t.offset) +
                                  "," + std::to_string(t.offset) + "+" + std::to_string(t.bytes) +
                                  ") lie beyond its " + std::to_string(space) + " data bytes"));
      t.offset += *start;
      order.push_back(&t);
    }
    std::sort(order.begin(), order.end(),
              [](const SourceTensor *a, const SourceTensor *b) { return a->offset < b->offset; });
    for (size_t i = 1; i < order.size(); ++i)
      if (order[i - 1]->offset + order[i - 1]->bytes > order[i]->offset)
        return fault("tensors '" + order[i - 1]->name + "' and '" + order[i]->name + "' overlap");
    // A writer places tensors one behind the other, padded to the alignment. Bytes that belong to no tensor mean
    // that a type or a shape in the header is not the one the data was written with.
    uint64_t next = *start;
    for (const SourceTensor *t : order) {
      if (t->offset != next)
        return fault("tensor '" + t->name + "' begins at byte " + std::to_string(t->offset) + ", expected " +
                     std::to_string(next) + ", right behind the tensor before it");
      next = checkedAlignUp(t->offset + t->bytes, alignment_).value_or(UINT64_MAX);
    }
    if (!order.empty() && file_.size() > next)
      return fault(std::to_string(file_.size() - next) + " bytes behind the last tensor belong to none");
    return Status();
  }

  const SourceFile &file_;
  Cursor in_;
  GgufFile out_;
  std::set<std::string> names_;
  uint64_t tensorCount_ = 0, entryCount_ = 0, elements_ = 0, alignment_ = kDefaultAlignment;
};

} // namespace

const GgufValue *GgufFile::find(const std::string &key) const {
  auto it = metadata.find(key);
  return it == metadata.end() ? nullptr : &it->second;
}

Result<std::optional<uint64_t>> GgufFile::unsignedAt(const std::string &key) const {
  const GgufValue *value = find(key);
  if (!value)
    return std::optional<uint64_t>();
  if (value->kind == GgufValue::Kind::Unsigned)
    return std::optional<uint64_t>(value->unsignedValue);
  if (value->kind == GgufValue::Kind::Signed && value->signedValue >= 0)
    return std::optional<uint64_t>(static_cast<uint64_t>(value->signedValue));
  return bad(fileName, "metadata '" + key + "' must be one integer that is not negative");
}

Result<std::optional<double>> GgufFile::numberAt(const std::string &key) const {
  const GgufValue *value = find(key);
  if (!value)
    return std::optional<double>();
  if (value->kind != GgufValue::Kind::Float || !std::isfinite(value->floatValue))
    return bad(fileName, "metadata '" + key + "' must be one finite floating-point number");
  return std::optional<double>(value->floatValue);
}

Result<std::optional<bool>> GgufFile::boolAt(const std::string &key) const {
  const GgufValue *value = find(key);
  if (!value)
    return std::optional<bool>();
  if (value->kind != GgufValue::Kind::Bool)
    return bad(fileName, "metadata '" + key + "' must be a boolean");
  return std::optional<bool>(value->unsignedValue != 0);
}

Result<std::optional<std::string>> GgufFile::textAt(const std::string &key) const {
  const GgufValue *value = find(key);
  if (!value)
    return std::optional<std::string>();
  if (value->kind != GgufValue::Kind::String || !isValidUtf8(value->text))
    return bad(fileName, "metadata '" + key + "' must be a UTF-8 string");
  return std::optional<std::string>(value->text);
}

Result<GgufFile> readGguf(const SourceFile &file) { return Parser(file).run(); }

} // namespace ninfer

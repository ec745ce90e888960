#include "inspect/Difference.h"

#include "artifact/container/Signature.h"
#include "inspect/List.h"
#include "inspect/Names.h"
#include "inspect/ObjectWords.h"
#include "support/Parallel.h"
#include "support/Sha256.h"

#include <cmath>
#include <cstring>
#include <mutex>
#include <optional>
#include <set>

namespace ninfer {

namespace {

constexpr uint64_t kChunk = uint64_t(1) << 14; // elements compared at once
constexpr uint64_t kMaxDirectoryLines = 1000;

using Lines = std::vector<std::string>;

std::string shortText(const Json &value) {
  if (value.is_null())
    return "none";
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  constexpr size_t kLongest = 100;
  return text.size() > kLongest ? text.substr(0, kLongest) + "..." : text;
}

/// Leaves of two JSON values that differ, by path; objects by member, arrays by position.
void compareJson(const std::string &path, const Json &a, const Json &b, Lines &out) {
  if (a == b || out.size() >= kMaxDirectoryLines)
    return;
  if (a.is_object() && b.is_object()) {
    for (const auto &[name, value] : a.items())
      compareJson(path + "." + name, value, b.contains(name) ? b[name] : Json(nullptr), out);
    for (const auto &[name, value] : b.items())
      if (!a.contains(name))
        compareJson(path + "." + name, nullptr, value, out);
    // Equal as sets of members is equal: the order of members means nothing.
    return;
  }
  if (a.is_array() && b.is_array() && a.size() == b.size()) {
    for (size_t i = 0; i < a.size(); ++i)
      compareJson(path + "[" + std::to_string(i) + "]", a[i], b[i], out);
    return;
  }
  out.push_back(path + ": " + shortText(a) + ", " + shortText(b));
}

/// Uses by their key, so that their order means nothing.
Json usesJson(const Json &list) {
  Json out = Json::object();
  for (const Json &use : list) {
    Json rest = use;
    rest.erase("parameter");
    rest.erase("input");
    jsonAppend(out, use["parameter"].get<std::string>() + " x " + use["input"].get<std::string>(),
               std::move(rest));
  }
  return out;
}

Lines compareDirectories(const Artifact &a, const Artifact &b) {
  Lines out;
  Json left = listJson(a), right = listJson(b);
  for (const char *member : {"framing", "artifact_id", "files", "components", "metadata"})
    compareJson(member, left[member], right[member], out);
  compareJson("bindings", left["bindings"], right["bindings"], out);
  compareJson("uses", usesJson(left["uses"]), usesJson(right["uses"]), out);
  compareJson("provenance", a.directory().provenance, b.directory().provenance, out);
  const auto identity = [](const Artifact &artifact) {
    return artifact.directory().identity
               ? Json{{"model_id", artifact.directory().identity->modelId},
                      {"weights_id", artifact.directory().identity->weightsId}}
               : Json(nullptr);
  };
  compareJson("identity", identity(a), identity(b), out);
  std::map<std::string, size_t> places;
  for (size_t i = 0; i < b.directory().objects.size(); ++i)
    places[b.directory().objects[i].id] = i;
  for (const ObjectEntry &object : a.directory().objects)
    if (const auto other = places.find(object.id); other != places.end())
      if (const uint64_t offset = b.directory().objects[other->second].offset;
          offset != object.offset && out.size() < kMaxDirectoryLines)
        out.push_back("offset of '" + object.id + "': " + std::to_string(object.offset) + ", " +
                      std::to_string(offset));
  if (out.size() >= kMaxDirectoryLines)
    out.push_back("more differences of the directory are not listed");
  return out;
}

Lines compareEntries(const ObjectEntry &a, const ObjectEntry &b) {
  Lines out;
  const auto field = [&](const char *name, const std::string &left, const std::string &right) {
    if (left != right)
      out.push_back(std::string(name) + ": " + left + ", " + right);
  };
  field("kind", a.isTensor ? "tensor" : "resource", b.isTensor ? "tensor" : "resource");
  if (a.isTensor && b.isTensor) {
    field("shape", dimensionsText(a.shape), dimensionsText(b.shape));
    field("format", formatText(a), formatText(b));
    field("layout", layoutText(a), layoutText(b));
  }
  field("bytes", std::to_string(a.bytes), std::to_string(b.bytes));
  return out;
}

/// Differences of one block of rows; joined in row order.
struct BlockDifference {
  uint64_t codes = 0, scales = 0, padding = 0, values = 0;
  double largest = 0, squares = 0, norm = 0;
  std::optional<std::pair<uint64_t, uint64_t>> first;
};

void compareValues(const WordChunk &a, const WordChunk &b, uint64_t row, uint64_t column,
                   BlockDifference &out) {
  for (size_t i = 0; i < a.values.size(); ++i) {
    const double left = a.values[i], right = b.values[i];
    if (std::isfinite(left))
      out.norm += left * left;
    const bool same = left == right || (std::isnan(left) && std::isnan(right));
    if (same)
      continue;
    ++out.values;
    if (!out.first)
      out.first = {row, column + i};
    const double delta = std::fabs(left - right);
    if (std::isfinite(delta)) {
      out.largest = std::max(out.largest, delta);
      out.squares += delta * delta;
    }
  }
}

/// One row of two objects of equal shape. `words`: equal geometry too, so codes and scales are
/// compared as words.
void compareRow(const ObjectWords &a, const ObjectWords &b, uint64_t n, bool words, WordChunk &left,
                WordChunk &right, BlockDifference &out) {
  const uint64_t k = a.geometry().k;
  for (uint64_t begin = 0; begin < k; begin += kChunk) {
    const uint64_t end = std::min(begin + kChunk, k);
    a.read(n, begin, end, left);
    b.read(n, begin, end, right);
    if (words)
      for (size_t i = 0; i < left.codes.size(); ++i)
        if (left.codes[i] != right.codes[i]) {
          ++out.codes;
          if (!out.first)
            out.first = {n, begin + i};
        }
    compareValues(left, right, n, begin, out);
  }
  if (words)
    for (uint64_t group = 0; group < a.scalesPerRow(); ++group)
      if (a.scaleWord(n, group) != b.scaleWord(n, group)) {
        ++out.scales;
        if (!out.first)
          out.first = {n, group * a.scaleSpan()};
      }
}

bool rowBytesEqual(const ObjectWords &a, const ObjectWords &b, uint64_t n) {
  for (const PlaneInfo &plane : a.geometry().planes) {
    const bool tiled = a.geometry().layout == Layout::BlockScaleK16M128x4V1 &&
                       &plane != a.geometry().planes.data();
    if (tiled) {
      for (uint64_t group = 0; plane.rowBytes && group < a.scalesPerRow(); ++group)
        if (a.scaleWord(n, group) != b.scaleWord(n, group))
          return false;
    } else if (std::memcmp(a.bytes().data() + plane.offset + n * plane.rowBytes,
                           b.bytes().data() + plane.offset + n * plane.rowBytes,
                           plane.rowBytes) != 0) {
      return false;
    }
  }
  return true;
}

/// Bytes that differ without any code, scale or divisor that does: padding.
uint64_t paddingDifferences(const ObjectWords &a, const ObjectWords &b) {
  const EncodedGeometry &g = a.geometry();
  uint64_t count = 0;
  const auto bytes = [&](uint64_t begin, uint64_t end) {
    for (uint64_t i = begin; i < end; ++i)
      count += a.bytes()[i] != b.bytes()[i];
  };
  for (size_t i = 0; i + 1 < g.planes.size(); ++i)
    bytes(g.planes[i].offset + g.planes[i].bytes, g.planes[i + 1].offset);
  if (g.layout != Layout::RowSplitK128V1 || g.k == g.paddedK)
    return count;
  const uint32_t bits = formatInfo(g.format).bits;
  for (size_t p = 0; p < g.planes.size(); ++p) {
    const PlaneInfo &plane = g.planes[p];
    const bool scales = p + 1 == g.planes.size();
    // First bit of a row of the plane that is padding.
    const uint64_t from = scales   ? 16 * g.logicalGroupsPerRow()
                          : p == 0 ? g.k * (bits == 8 ? 8 : 4)
                                   : g.k * (bits - 4);
    for (uint64_t n = 0; n < g.rows; ++n) {
      const uint64_t row = plane.offset + n * plane.rowBytes;
      uint64_t byte = from / 8;
      if (from % 8 != 0) {
        const auto delta = a.bytes()[row + byte] ^ b.bytes()[row + byte];
        count += (std::to_integer<unsigned>(delta) >> (from % 8)) != 0;
        ++byte;
      }
      bytes(row + byte, row + plane.rowBytes);
    }
  }
  return count;
}

Status compareTensors(const Artifact &a, size_t i, const Artifact &b, size_t j, bool words,
                      const DiffOptions &options, ObjectDifference &out) {
  NINFER_ASSIGN_OR_RETURN(const ObjectWords left, ObjectWords::open(a, i));
  NINFER_ASSIGN_OR_RETURN(const ObjectWords right, ObjectWords::open(b, j));
  const EncodedGeometry &g = left.geometry();
  const bool divisor = words && left.divisor() != right.divisor();
  const uint64_t step = std::max<uint64_t>(1, (uint64_t(1) << 18) / g.k);
  const uint64_t blocks = (g.rows + step - 1) / step;
  std::vector<BlockDifference> parts(blocks);
  NINFER_RETURN_IF_ERROR(parallelFor(blocks, options.threads, [&](uint64_t block) {
    WordChunk x, y;
    for (uint64_t n = block * step; n < std::min((block + 1) * step, g.rows); ++n) {
      if (words && !divisor && rowBytesEqual(left, right, n)) {
        // Equal rows count in the norm only.
        for (uint64_t begin = 0; begin < g.k; begin += kChunk) {
          left.read(n, begin, std::min(begin + kChunk, g.k), x);
          for (float value : x.values)
            parts[block].norm += std::isfinite(value) ? double(value) * value : 0;
        }
        continue;
      }
      compareRow(left, right, n, words, x, y, parts[block]);
    }
    return Status();
  }));
  BlockDifference total;
  for (const BlockDifference &part : parts) {
    total.codes += part.codes;
    total.scales += part.scales;
    total.values += part.values;
    total.largest = std::max(total.largest, part.largest);
    total.squares += part.squares;
    total.norm += part.norm;
    if (!total.first)
      total.first = part.first;
  }
  out.codes = total.codes;
  out.scales = total.scales;
  out.divisor = divisor;
  out.padding = words ? paddingDifferences(left, right) : 0;
  out.elements = g.rows * g.k;
  out.values = total.values;
  out.largest = total.largest;
  out.relativeL2 = total.norm > 0 ? std::sqrt(total.squares / total.norm) : 0;
  if (total.first) {
    out.firstRow = total.first->first;
    out.firstColumn = total.first->second;
  }
  return {};
}

void compareResources(std::span<const std::byte> a, std::span<const std::byte> b,
                      ObjectDifference &out) {
  out.elements = std::max(a.size(), b.size());
  const size_t common = std::min(a.size(), b.size());
  out.codes = out.elements - common;
  out.firstColumn = common;
  for (size_t i = common; i-- > 0;)
    if (a[i] != b[i]) {
      ++out.codes;
      out.firstColumn = i;
    }
}

/// Nothing when the objects are equal.
Result<std::optional<ObjectDifference>> compareObjects(const Artifact &a, size_t i,
                                                       const Artifact &b, size_t j,
                                                       const DiffOptions &options) {
  const ObjectEntry &left = a.directory().objects[i], &right = b.directory().objects[j];
  ObjectDifference out;
  out.object = left.id;
  out.entry = compareEntries(left, right);
  const auto done = [&](bool differs) {
    if (options.onBytes)
      options.onBytes(left.bytes);
    return differs ? std::optional<ObjectDifference>(std::move(out)) : std::nullopt;
  };
  if (left.isTensor != right.isTensor ||
      (left.isTensor && (left.shape != right.shape || !left.format || !left.layout ||
                         !right.format || !right.layout))) {
    out.kind = ObjectDifference::Kind::Entry;
    return done(true);
  }
  NINFER_ASSIGN_OR_RETURN(const auto x, a.object(i));
  NINFER_ASSIGN_OR_RETURN(const auto y, b.object(j));
  if (out.entry.empty() && std::memcmp(x.data(), y.data(), x.size()) == 0)
    return done(false);
  if (!left.isTensor) {
    out.kind = ObjectDifference::Kind::Bytes;
    compareResources(x, y, out);
    return done(true);
  }
  const bool words = out.entry.empty();
  out.kind = words ? ObjectDifference::Kind::Words : ObjectDifference::Kind::Values;
  NINFER_RETURN_IF_ERROR(compareTensors(a, i, b, j, words, options, out));
  return done(true);
}

const char *kindName(ObjectDifference::Kind kind) {
  switch (kind) {
  case ObjectDifference::Kind::OnlyA:
    return "only_a";
  case ObjectDifference::Kind::OnlyB:
    return "only_b";
  case ObjectDifference::Kind::Entry:
    return "entry";
  case ObjectDifference::Kind::Words:
    return "words";
  case ObjectDifference::Kind::Bytes:
    return "bytes";
  case ObjectDifference::Kind::Values:
    return "values";
  }
  return "";
}

std::string valuesText(const ObjectDifference &d) {
  if (d.values == 0)
    return "values equal";
  char text[160];
  std::snprintf(text, sizeof text, "%llu of %llu values differ, largest %.4g, relative L2 %.4g",
                static_cast<unsigned long long>(d.values),
                static_cast<unsigned long long>(d.elements), d.largest, d.relativeL2);
  return text;
}

} // namespace

Result<ArtifactDifference> diffArtifacts(const Artifact &a, const Artifact &b,
                                         const DiffOptions &options) {
  ArtifactDifference out;
  if (!options.wordsOnly)
    out.directory = compareDirectories(a, b);
  std::map<std::string, size_t> right;
  for (size_t j = 0; j < b.directory().objects.size(); ++j)
    right[b.directory().objects[j].id] = j;
  std::set<std::string> left;
  for (size_t i = 0; i < a.directory().objects.size(); ++i) {
    const ObjectEntry &object = a.directory().objects[i];
    left.insert(object.id);
    const auto other = right.find(object.id);
    if (other == right.end()) {
      ObjectDifference only;
      only.object = object.id;
      only.kind = ObjectDifference::Kind::OnlyA;
      out.objects.push_back(std::move(only));
      continue;
    }
    NINFER_ASSIGN_OR_RETURN(auto difference, compareObjects(a, i, b, other->second, options));
    ++out.comparedObjects;
    out.comparedBytes += object.bytes;
    if (difference)
      out.objects.push_back(std::move(*difference));
    a.release();
    b.release();
  }
  for (const ObjectEntry &object : b.directory().objects)
    if (!left.count(object.id)) {
      ObjectDifference only;
      only.object = object.id;
      only.kind = ObjectDifference::Kind::OnlyB;
      out.objects.push_back(std::move(only));
    }
  return out;
}

std::string diffText(const ArtifactDifference &difference) {
  std::string out;
  for (const std::string &line : difference.directory)
    out += "directory   " + line + "\n";
  for (const ObjectDifference &d : difference.objects) {
    out += "object      " + d.object + ": ";
    const auto place = [&] {
      return "; first at row " + std::to_string(d.firstRow) + ", column " +
             std::to_string(d.firstColumn);
    };
    std::string entry;
    for (const std::string &line : d.entry)
      entry += (entry.empty() ? "" : "; ") + line;
    switch (d.kind) {
    case ObjectDifference::Kind::OnlyA:
      out += "only in A";
      break;
    case ObjectDifference::Kind::OnlyB:
      out += "only in B";
      break;
    case ObjectDifference::Kind::Entry:
      out += entry;
      break;
    case ObjectDifference::Kind::Values:
      out += entry + "; " + valuesText(d) + (d.values ? place() : "");
      break;
    case ObjectDifference::Kind::Bytes:
      out += entry + (entry.empty() ? "" : "; ") + std::to_string(d.codes) + " of " +
             std::to_string(d.elements) + " bytes differ; first at byte " +
             std::to_string(d.firstColumn);
      break;
    case ObjectDifference::Kind::Words: {
      std::string words;
      const auto count = [&](uint64_t n, const char *noun) {
        if (n)
          words +=
              (words.empty() ? "" : ", ") + std::to_string(n) + " " + noun + (n == 1 ? "" : "s");
      };
      count(d.codes, "code");
      count(d.scales, "scale");
      count(d.padding, "padding byte");
      if (d.divisor)
        words += std::string(words.empty() ? "" : ", ") + "divisor";
      out += words + " changed; " + valuesText(d);
      if (d.codes || d.scales)
        out += place();
      break;
    }
    }
    out += "\n";
  }
  const std::string compared = std::to_string(difference.comparedObjects) + " objects, " +
                               std::to_string(difference.comparedBytes) + " bytes compared\n";
  if (difference.equal())
    return "equal: " + compared;
  return out + "different: " + std::to_string(difference.directory.size()) + " in the directory, " +
         std::to_string(difference.objects.size()) + " objects; " + compared;
}

Json diffJson(const ArtifactDifference &difference) {
  Json objects = Json::array();
  for (const ObjectDifference &d : difference.objects) {
    Json entry = {{"object", d.object}, {"kind", kindName(d.kind)}};
    if (!d.entry.empty())
      entry["entry"] = d.entry;
    if (d.kind == ObjectDifference::Kind::Bytes) {
      entry["size"] = d.elements;
      entry["differing"] = d.codes;
      entry["first"] = d.firstColumn;
    }
    if (d.kind == ObjectDifference::Kind::Words) {
      entry["codes"] = d.codes;
      entry["scales"] = d.scales;
      entry["padding_bytes"] = d.padding;
      entry["divisor"] = d.divisor;
    }
    if (d.kind == ObjectDifference::Kind::Words || d.kind == ObjectDifference::Kind::Values) {
      entry["elements"] = d.elements;
      entry["values"] = d.values;
      entry["largest"] = d.largest;
      entry["relative_l2"] = d.relativeL2;
      entry["first"] = {{"row", d.firstRow}, {"column", d.firstColumn}};
    }
    objects.push_back(std::move(entry));
  }
  return {{"equal", difference.equal()},
          {"compared_objects", difference.comparedObjects},
          {"compared_bytes", difference.comparedBytes},
          {"directory", difference.directory},
          {"objects", std::move(objects)}};
}

} // namespace ninfer

#include "inspect/Names.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <set>

namespace ninfer {

std::string dimensionsText(const std::vector<uint64_t> &shape) {
  std::string out;
  for (uint64_t size : shape)
    out += (out.empty() ? "" : "x") + std::to_string(size);
  return out.empty() ? "scalar" : out;
}

std::string binaryBytes(uint64_t bytes) {
  static constexpr const char *kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024)
    return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
  double value = double(bytes);
  size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return fixedText(value, 1) + " " + kUnits[unit];
}

std::string fixedText(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string floatText(float value) {
  if (std::isnan(value))
    return "nan";
  if (std::isinf(value))
    return value < 0 ? "-inf" : "inf";
  char text[64];
  const auto [end, error] = std::to_chars(text, text + sizeof text, value);
  return error == std::errc() ? std::string(text, end) : std::string("?");
}

Json floatJson(float value) {
  if (!std::isfinite(value))
    return floatText(value);
  // The shortest decimal text as a double: the JSON then has those digits, not the 17 of the exact
  // double.
  const std::string text = floatText(value);
  double number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::string hexText(uint64_t word, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%0*llx", digits, static_cast<unsigned long long>(word));
  return text;
}

std::string formatText(const ObjectEntry &object) {
  if (!object.isTensor)
    return object.encoding;
  return object.format ? std::string(canonicalName(*object.format)) : object.formatName;
}

std::string layoutText(const ObjectEntry &object) {
  if (!object.isTensor)
    return "-";
  return object.layout ? std::string(canonicalName(*object.layout)) : object.layoutName;
}

std::string roleOf(std::string_view name) {
  std::string out;
  while (true) {
    const size_t slash = name.find('/');
    const std::string_view part = name.substr(0, slash);
    const bool number = !part.empty() && std::all_of(part.begin(), part.end(),
                                                     [](char c) { return c >= '0' && c <= '9'; });
    out += number ? "*" : part;
    if (slash == std::string_view::npos)
      return out;
    out += "/";
    name.remove_prefix(slash + 1);
  }
}

namespace {

/// Levenshtein distance, for at most a few thousand short names.
size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row[b.size()];
}

} // namespace

Result<size_t> findObjectByName(const Artifact &artifact, const std::string &name) {
  const Directory &directory = artifact.directory();
  for (size_t i = 0; i < directory.objects.size(); ++i)
    if (directory.objects[i].id == name)
      return i;
  if (const auto bound = directory.bindings.find(name); bound != directory.bindings.end()) {
    std::set<uint32_t> objects;
    for (const RangePart &part : bound->second.parts)
      objects.insert(part.object);
    if (objects.size() == 1)
      return size_t(*objects.begin());
    Status status = makeError(ErrorKind::Usage, "NB0120",
                              artifact.path().string() + ": parameter '" + name + "' is bound to " +
                                  std::to_string(objects.size()) + " objects");
    for (uint32_t object : objects)
      status.note("'" + directory.objects[object].id + "'");
    return std::move(status.help("name one of them"));
  }
  Status status = makeError(ErrorKind::Usage, "NB0120",
                            artifact.path().string() + ": no object or parameter '" +
                                name.substr(0, 200) + "'");
  std::vector<std::pair<size_t, std::string>> close;
  if (name.size() <= 200 && directory.objects.size() <= 20000)
    for (const ObjectEntry &object : directory.objects)
      if (object.id.size() <= 200) {
        const bool inside = object.id.find(name) != std::string::npos;
        close.emplace_back(inside ? 0 : editDistance(name, object.id), object.id);
      }
  std::sort(close.begin(), close.end());
  for (size_t i = 0; i < std::min<size_t>(3, close.size()); ++i)
    status.help("is it '" + close[i].second + "'?");
  return std::move(status.help("ninfer-inspect ls lists all objects"));
}

} // namespace ninfer

// Every way one kind of fault can enter a JSON text: a member twice in each of its objects, another spelling at each of
// its integers. Texts are written here, not by the library that reads them.
#ifndef NINFER_TEST_UNIT_HOSTILE_JSONMUTATIONS_H
#define NINFER_TEST_UNIT_HOSTILE_JSONMUTATIONS_H

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ninfer::test {

using TestJson = nlohmann::ordered_json;

struct Mutation {
  std::string where; ///< path of the object or integer: "/objects/0/shape/1"
  std::string text;  ///< the whole document, changed
};

/// Writes `value`; `edit` may return another text for the value at a path, or an empty string.
class MutationWriter {
public:
  /// Extra members in front of the first one of the object at a path.
  using Extra = std::function<std::string(const std::string &path, const std::string &name, const std::string &member)>;
  using Leaf = std::function<std::string(const std::string &path, const TestJson &value)>;

  MutationWriter(Extra extra, Leaf leaf) : extra_(std::move(extra)), leaf_(std::move(leaf)) {}

  std::string write(const TestJson &value, const std::string &path = "") const {
    if (value.is_object()) {
      std::string out = "{";
      bool first = true;
      for (const auto &[name, item] : value.items()) {
        const std::string member = write(item, path + "/" + name), quoted = TestJson(name).dump();
        if (first)
          out += extra_(path, name, member);
        out += (first ? "" : ",") + quoted + ":" + member;
        first = false;
      }
      return out + "}";
    }
    if (value.is_array()) {
      std::string out = "[";
      for (size_t i = 0; i < value.size(); ++i)
        out += (i ? "," : "") + write(value[i], path + "/" + std::to_string(i));
      return out + "]";
    }
    const std::string other = leaf_(path, value);
    return other.empty() ? value.dump() : other;
  }

private:
  Extra extra_;
  Leaf leaf_;
};

inline void paths(const TestJson &value, const std::string &path, bool objects, std::vector<std::string> &out) {
  if (objects ? value.is_object() && !value.empty() : value.is_number_integer())
    out.push_back(path);
  if (value.is_object())
    for (const auto &[name, item] : value.items())
      paths(item, path + "/" + name, objects, out);
  if (value.is_array())
    for (size_t i = 0; i < value.size(); ++i)
      paths(value[i], path + "/" + std::to_string(i), objects, out);
}

/// For every object that has members: its first one twice, with an equal value, with another value, and with an escape
/// in the second spelling.
inline std::vector<Mutation> duplicates(const TestJson &document) {
  std::vector<std::string> objects;
  paths(document, "", true, objects);
  std::vector<Mutation> out;
  for (const std::string &object : objects)
    for (int kind = 0; kind < 3; ++kind) {
      MutationWriter writer(
          [&](const std::string &path, const std::string &name, const std::string &member) -> std::string {
            if (path != object || name.empty())
              return "";
            char escape[8];
            std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned char>(name[0]));
            const bool ascii = static_cast<unsigned char>(name[0]) < 0x80;
            const std::string quoted =
                kind == 2 && ascii ? "\"" + std::string(escape) + TestJson(name.substr(1)).dump().substr(1) : TestJson(name).dump();
            return quoted + ":" + (kind == 1 ? "null" : member) + ",";
          },
          [](const std::string &, const TestJson &) { return std::string(); });
      out.push_back({object, writer.write(document)});
    }
  return out;
}

/// For every integer of the document: spellings that are no plain integer of the field's range. `skip` leaves out
/// paths that the reader does not read.
inline std::vector<Mutation> wrongIntegers(const TestJson &document, const std::function<bool(const std::string &)> &skip) {
  std::vector<std::string> integers;
  paths(document, "", false, integers);
  std::vector<Mutation> out;
  for (const std::string &target : integers)
    if (!skip(target))
      for (const char *text : {"-1", "-0", "64.0", "1e2", "1E0", "true", "false", "\"64\"", "[64]", "{}", "18446744073709551616",
                               "1e400", "0x10", "+1", "01", "NaN"}) {
        MutationWriter writer([](const std::string &, const std::string &, const std::string &) { return std::string(); },
                              [&](const std::string &path, const TestJson &) { return std::string(path == target ? text : ""); });
        out.push_back({target + " = " + text, writer.write(document)});
      }
  return out;
}

} // namespace ninfer::test

#endif // NINFER_TEST_UNIT_HOSTILE_JSONMUTATIONS_H

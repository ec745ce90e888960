// Names of an artifact for pages and messages: shapes, sizes, roles, and the object a user means.
#ifndef NINFER_INSPECT_NAMES_H
#define NINFER_INSPECT_NAMES_H

#include "artifact/container/Reader.h"
#include "support/Json.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ninfer {

/// "576x1536", or "scalar" for rank 0.
std::string dimensionsText(const std::vector<uint64_t> &shape);
/// "12 bytes", "1.4 MiB", "23.4 GiB" (powers of 1024).
std::string binaryBytes(uint64_t bytes);
/// Digits after the point, no exponent.
std::string fixedText(double value, int digits);
/// Shortest text that reads back as the same binary32; "nan", "inf", "-inf".
std::string floatText(float value);
/// A JSON number, or the text of floatText() where JSON has none.
Json floatJson(float value);
/// "0x" and `digits` lower-case hexadecimal digits.
std::string hexText(uint64_t word, int digits);

/// Format, layout and encoding by their canonical spelling where the registry knows them, else as
/// the file spells them.
std::string formatText(const ObjectEntry &object);
std::string layoutText(const ObjectEntry &object);

/// Role of a parameter or object: its name with every number between slashes replaced by "*".
std::string roleOf(std::string_view name);

/// Index of the object with id `name`, or of the one object that parameter `name` is bound to.
/// NB0120 otherwise, with the closest names.
Result<size_t> findObjectByName(const Artifact &artifact, const std::string &name);

} // namespace ninfer

#endif // NINFER_INSPECT_NAMES_H

#include "runtime/reference/Attributes.h"

#include <cmath>

namespace ninfer::reference {

void AttributeReader::fail(const std::string &what) {
  if (failure_.empty())
    failure_ = "kernel '" + kernelName_ + "': built-in " + symbol_ + ": " + what;
}

const AttributeValue *AttributeReader::find(const char *name, bool required) {
  read_.insert(name);
  auto it = attributes_.find(name);
  if (it != attributes_.end())
    return &it->second;
  if (required)
    fail("attribute '" + std::string(name) + "' is missing");
  return nullptr;
}

int64_t AttributeReader::checked(const AttributeValue &value, const char *name, int64_t limit) {
  const int64_t *number = std::get_if<int64_t>(&value);
  if (!number) {
    fail("attribute '" + std::string(name) + "' is not an integer");
    return 1;
  }
  if (*number < 1 || *number > limit) {
    fail("attribute '" + std::string(name) + "' is " + std::to_string(*number) + ", expected 1.." +
         std::to_string(limit));
    return 1;
  }
  return *number;
}

int64_t AttributeReader::extent(const char *name, int64_t limit) {
  const AttributeValue *value = find(name, true);
  return value ? checked(*value, name, limit) : 1;
}

int64_t AttributeReader::offset(const char *name) {
  const AttributeValue *value = find(name, true);
  const auto *number = value ? std::get_if<int64_t>(value) : nullptr;
  if (number && *number == 0)
    return 0;
  return value ? checked(*value, name, kLargestExtent) : 0;
}

int64_t AttributeReader::extentOr(const char *name, int64_t absent) {
  const AttributeValue *value = find(name, false);
  return value ? checked(*value, name, kLargestExtent) : absent;
}

double AttributeReader::number(const char *name) {
  const AttributeValue *value = find(name, true);
  if (!value)
    return 0;
  const double *number = std::get_if<double>(value);
  if (!number || !std::isfinite(*number)) {
    fail("attribute '" + std::string(name) + "' is not a finite number");
    return 0;
  }
  return *number;
}

bool AttributeReader::flag(const char *name) {
  const AttributeValue *value = find(name, false);
  if (!value)
    return false;
  const int64_t *number = std::get_if<int64_t>(value);
  if (!number || (*number != 0 && *number != 1)) {
    fail("attribute '" + std::string(name) + "' is neither 0 nor 1");
    return false;
  }
  return *number == 1;
}

std::string AttributeReader::text(const char *name) {
  const AttributeValue *value = find(name, true);
  if (!value)
    return {};
  const std::string *text = std::get_if<std::string>(value);
  if (!text) {
    fail("attribute '" + std::string(name) + "' is not a string");
    return {};
  }
  return *text;
}

std::vector<double> AttributeReader::numbers(const char *name) {
  const AttributeValue *value = find(name, true);
  if (!value)
    return {};
  const std::vector<double> *numbers = std::get_if<std::vector<double>>(value);
  if (!numbers) {
    fail("attribute '" + std::string(name) + "' is not a list of numbers");
    return {};
  }
  for (double number : *numbers)
    if (!std::isfinite(number)) {
      fail("attribute '" + std::string(name) + "' holds a number that is not finite");
      return {};
    }
  return *numbers;
}

void AttributeReader::require(bool holds, const std::string &rule) {
  if (!holds)
    fail(rule);
}

Status AttributeReader::finish() {
  for (const auto &[name, value] : attributes_)
    if (!read_.contains(name))
      fail("attribute '" + name + "' is not known to this build");
  if (failure_.empty())
    return {};
  return makeError(ErrorKind::BadFile, "NB0621", failure_);
}

} // namespace ninfer::reference

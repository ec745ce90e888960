// Renders the Jinja subset of chat templates: if, for, set, macro, filters, tests, string and dictionary methods,
// namespace, range, raise_exception. Anything else is an error with its line, never skipped.
#ifndef NINFER_RUNTIME_TEXT_JINJA_TEMPLATE_H
#define NINFER_RUNTIME_TEXT_JINJA_TEMPLATE_H

#include "support/Json.h"
#include "support/Status.h"

#include <memory>
#include <string>
#include <string_view>

namespace ninfer::jinja {

class Template {
public:
  /// Errors: Unsupported with name and line.
  static Result<Template> compile(std::string_view source, const std::string &name);
  Template(Template &&) noexcept;
  Template &operator=(Template &&) noexcept;
  ~Template();

  /// Renders with the members of `variables` (an object) as global names. Errors: Failed with the line, also for
  /// raise_exception; more than a million steps, 16 MiB of output, 16 MiB in one value, 512 MiB of values in all, or
  /// 500 levels of blocks and expressions.
  Result<std::string> render(const Json &variables) const;

private:
  struct Impl;
  explicit Template(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

} // namespace ninfer::jinja

#endif // NINFER_RUNTIME_TEXT_JINJA_TEMPLATE_H

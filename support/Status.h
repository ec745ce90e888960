// Status and Result: the one error type of every folder that is free of MLIR.
// A failure carries its kind (which fixes the exit code), a stable id, one message that names file,
// object, rule, expected and actual, then optional notes (why) and help (what to do).
// No exception crosses a library boundary.
#ifndef NINFER_SUPPORT_STATUS_H
#define NINFER_SUPPORT_STATUS_H

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ninfer {

/// Kind of a failure. The value is the documented process exit code (docs/errors.md).
enum class ErrorKind : int {
  Failed = 1,
  Usage = 2,
  BadFile = 3,
  TargetMismatch = 4,
  Unsupported = 5,
  OutOfMemory = 6,
  CacheMiss = 7,
  AccuracyFailed = 8,
  Interrupted = 130,
};

struct Error {
  ErrorKind kind = ErrorKind::Failed;
  std::string code;    ///< stable id such as "NB0412"; docs/errors.md lists the ranges
  std::string message; ///< lower case, no full stop
  std::vector<std::string> notes;
  std::vector<std::string> help;

  /// "error[NB0412]: message\n  note: ...\n  help: ...\n"
  std::string render() const;
};

/// Success, or an Error. Moves only; an ignored Status is a compile-time warning.
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(Error error) : error_(std::make_unique<Error>(std::move(error))) {}

  bool ok() const { return !error_; }
  const Error &error() const { return *error_; }
  Error takeError() { return std::move(*error_); }

  Status &note(std::string text) {
    if (error_)
      error_->notes.push_back(std::move(text));
    return *this;
  }
  Status &help(std::string text) {
    if (error_)
      error_->help.push_back(std::move(text));
    return *this;
  }

private:
  std::unique_ptr<Error> error_;
};

/// A value, or an Error.
template <typename T>
class [[nodiscard]] Result {
public:
  Result(T value) : value_(std::move(value)) {}
  Result(Error error) : status_(std::move(error)) {}
  Result(Status status) : status_(std::move(status)) {}

  bool ok() const { return value_.has_value(); }
  const Error &error() const { return status_.error(); }
  Status takeStatus() { return std::move(status_); }

  T &operator*() { return *value_; }
  const T &operator*() const { return *value_; }
  T *operator->() { return &*value_; }
  const T *operator->() const { return &*value_; }
  T take() { return std::move(*value_); }

private:
  std::optional<T> value_;
  Status status_;
};

Error makeError(ErrorKind kind, std::string code, std::string message);

} // namespace ninfer

#define NINFER_CONCAT_IMPL(a, b) a##b
#define NINFER_CONCAT(a, b) NINFER_CONCAT_IMPL(a, b)

/// Returns the error of `expr` (a Status) from the enclosing function.
#define NINFER_RETURN_IF_ERROR(expr)                                                               \
  do {                                                                                             \
    if (::ninfer::Status status_ = (expr); !status_.ok())                                          \
      return status_;                                                                              \
  } while (false)

/// `NINFER_ASSIGN_OR_RETURN(auto x, f())`: binds the value of a Result or returns its error.
#define NINFER_ASSIGN_OR_RETURN(decl, expr)                                                        \
  NINFER_ASSIGN_OR_RETURN_IMPL(NINFER_CONCAT(result_, __LINE__), decl, expr)
#define NINFER_ASSIGN_OR_RETURN_IMPL(tmp, decl, expr)                                              \
  auto tmp = (expr);                                                                               \
  if (!tmp.ok())                                                                                   \
    return tmp.takeStatus();                                                                       \
  decl = tmp.take()

#endif // NINFER_SUPPORT_STATUS_H

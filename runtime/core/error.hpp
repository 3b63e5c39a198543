#pragma once
// Typed errors. A message names the thing, what was found, what is allowed and what to change.

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace oomb {

// Exit codes of the three programs.
enum class ExitCode : int { kDone = 0, kFailed = 1, kWrongUsage = 2, kDoesNotFit = 3 };

// Base of every error that OOMB raises on purpose; exit code 1.
class Error : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
    virtual ExitCode exit_code() const { return ExitCode::kFailed; }
};

// A file (config, weights, tokens, plan) is missing, damaged or lies about itself.
class FileError : public Error {
  public:
    using Error::Error;
};

// The model or the request is well formed, but asks for what OOMB does not compute (yet).
class UnsupportedError : public Error {
  public:
    using Error::Error;
};

// Loss or a gradient is NaN or infinite.
class NumericError : public Error {
  public:
    using Error::Error;
};

// A flag or a combination of flags is wrong; exit code 2.
class UsageError : public Error {
  public:
    using Error::Error;
    ExitCode exit_code() const override { return ExitCode::kWrongUsage; }
};

// A tier has not the bytes that the plan needs; exit code 3.
class DoesNotFitError : public Error {
  public:
    using Error::Error;
    ExitCode exit_code() const override { return ExitCode::kDoesNotFit; }
};

// A bug in OOMB itself: a broken invariant.
class InternalError : public Error {
  public:
    using Error::Error;
};

// Throws `E` with a formatted message: fail<FileError>("{}: {} bytes, expected {}", path, found, wanted).
template <class E, class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
    throw E(fmt::format(format, std::forward<Args>(args)...));
}

// Throws InternalError when an invariant of our own does not hold.
template <class... Args>
void require(bool holds, fmt::format_string<Args...> format, Args&&... args) {
    if (!holds) {
        throw InternalError(fmt::format(format, std::forward<Args>(args)...));
    }
}

}  // namespace oomb

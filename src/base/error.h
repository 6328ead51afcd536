// Exceptions of Stoa. A message says what was given, what was expected and the nearest valid choice.
// All classes below but InternalError are errors of the user or the system; InternalError is a bug in Stoa.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace stoa {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  // Exit status of the program when this error ends it (1: the command was rejected or failed, 2: wrong
  // usage, 130: interrupted).
  virtual int exit_code() const noexcept { return 1; }
};

class UsageError : public Error {  // wrong command line
 public:
  using Error::Error;
  int exit_code() const noexcept override { return 2; }
};
class Interrupted : public Error {  // SIGINT/SIGTERM ended the work
 public:
  using Error::Error;
  int exit_code() const noexcept override { return 130; }
};
class ConfigError : public Error {
  using Error::Error;
};  // configuration: unknown key, range, contradiction
class ShapeError : public Error {
  using Error::Error;
};  // tensors whose shapes or types do not fit
class IoError : public Error {
  using Error::Error;
};  // files: missing, truncated, unwritable
class DataError : public Error {
  using Error::Error;
};  // content: corrupt file, id beyond vocabulary
class NumericsError : public Error {
  using Error::Error;
};  // NaN losses and the like
class CommError : public Error {
  using Error::Error;
};  // a peer failed, a timeout; names rank and operation
class DeviceError : public Error {
  using Error::Error;
};  // out of memory, driver
class InternalError : public Error {
  using Error::Error;
};  // an invariant of the program is broken

// Throws E with a formatted message.
template <class E, class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw E(fmt::format(format, std::forward<Args>(args)...));
}

// Throws E unless `condition` holds. The message is formatted only on failure.
template <class E, class... Args>
void require(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) [[unlikely]]
    fail<E>(format, std::forward<Args>(args)...);
}

}  // namespace stoa

// Errors of the server's interface, in OpenAI's form:
// {"error": {"message": …, "type": "invalid_request_error", "param": "max_tokens", "code": null}}.
#pragma once

#include <fmt/format.h>

#include <string>

#include "base/error.h"
#include "serve/http/message.h"

namespace stoa::serve {

// Becomes the answer of the request whose handling throws it.
class ApiError : public Error {
 public:
  // `param`: the field that is wrong; `code`: a word for programs. "": none.
  ApiError(int status, const std::string& message, std::string param = {}, std::string code = {})
      : Error(message), status_(status), param_(std::move(param)), code_(std::move(code)) {}

  int status() const { return status_; }
  const std::string& param() const { return param_; }
  const std::string& code() const { return code_; }
  // "invalid_request_error", by the status.
  const char* type() const;
  // The body, for an answer or as an event of a stream.
  std::string body() const;
  http::Reply reply() const { return {status_, "application/json", body(), headers}; }

  http::Headers headers = {};  // Retry-After, Allow

 private:
  int status_;
  std::string param_, code_;
};

// 400 of one field.
template <class... Args>
[[noreturn]] void reject(std::string param, fmt::format_string<Args...> format, Args&&... args) {
  throw ApiError(400, fmt::format(format, std::forward<Args>(args)...), std::move(param));
}
template <class... Args>
void check(bool condition, std::string param, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) [[unlikely]]
    reject(std::move(param), format, std::forward<Args>(args)...);
}

}  // namespace stoa::serve

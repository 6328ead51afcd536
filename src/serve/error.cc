#include "serve/error.h"

#include <nlohmann/json.hpp>

namespace stoa::serve {

using Json = nlohmann::ordered_json;

const char* ApiError::type() const {
  switch (status_) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    default:
      return status_ >= 500 ? "server_error" : "invalid_request_error";
  }
}

std::string ApiError::body() const {
  const auto text_or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  const Json error{
      {"message", what()}, {"type", type()}, {"param", text_or_null(param_)}, {"code", text_or_null(code_)}};
  // "type" is Anthropic's; clients of OpenAI's form pass over it. Messages quote what was sent, which need
  // not be UTF-8.
  return Json{{"type", "error"}, {"error", error}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace stoa::serve

#include "cli/print.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace stoa::cli {
namespace {

template <class Json>
std::string json_text(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

void print(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(STDOUT_FILENO, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    require<IoError>(n > 0, "cannot write to standard output: {}", std::strerror(errno));
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

void print_json(const nlohmann::json& value) { print(json_text(value, 2)); }
void print_json(const nlohmann::ordered_json& value) { print(json_text(value, 2)); }

void print_json_line(const nlohmann::json& value) { print(json_text(value, -1)); }
void print_json_line(const nlohmann::ordered_json& value) { print(json_text(value, -1)); }

}  // namespace stoa::cli

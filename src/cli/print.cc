#include "cli/print.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace stoa::cli {
namespace {

template <class Json>
std::string indented(const Json& value) {
  return value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

void print(std::string_view text) {
  require<IoError>(std::fwrite(text.data(), 1, text.size(), stdout) == text.size(),
                   "cannot write to standard output");
}

void print_json(const nlohmann::json& value) { print(indented(value)); }

void print_json(const nlohmann::ordered_json& value) { print(indented(value)); }

}  // namespace stoa::cli

// A command's answer on standard output. IoError where it cannot be written.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace stoa::cli {

void print(std::string_view text);
// Indented, with a line end; bytes that are not UTF-8 are replaced.
void print_json(const nlohmann::json& value);
void print_json(const nlohmann::ordered_json& value);

}  // namespace stoa::cli

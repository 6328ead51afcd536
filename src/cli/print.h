// A command's answer on standard output. IoError where it cannot be written.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace stoa::cli {

void print(const std::string& text);
// Indented, with a line end; bytes that are not UTF-8 are replaced.
void print(const nlohmann::json& value);
void print(const nlohmann::ordered_json& value);

}  // namespace stoa::cli

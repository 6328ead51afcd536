// A command's answer on standard output. It is written at once: what reads it sees it while the command
// works, and where it cannot be written (a full disk, a pipe that nobody reads) the command ends there, by an
// IoError that says why.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace stoa::cli {

void print(std::string_view text);
// Indented, with a line end; bytes that are not UTF-8 are replaced.
void print_json(const nlohmann::json& value);
void print_json(const nlohmann::ordered_json& value);
// The same in one line.
void print_json_line(const nlohmann::json& value);
void print_json_line(const nlohmann::ordered_json& value);

}  // namespace stoa::cli

// A command's output on standard output, written unbuffered: a reader sees it while the command works, and a
// failed write (a full disk, a pipe whose reader is gone) ends the command with an IoError that gives the
// reason.
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

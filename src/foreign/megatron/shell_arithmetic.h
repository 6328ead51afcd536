// $(( … )) of a shell: whole numbers, variables, + - * / % ** and comparisons.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace stoa::foreign {

using ShellVariable = std::function<std::optional<std::string>(std::string_view name)>;

// No value: a variable that is not known, a division by zero, more than 64 bits, something else than
// arithmetic.
std::optional<std::int64_t> shell_arithmetic(std::string_view text, const ShellVariable& variable);

}  // namespace stoa::foreign

#pragma once

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace stoa::eval {

// JSON has no infinity and no NaN: they are written as texts.
inline nlohmann::ordered_json json_number(double value) {
  if (std::isfinite(value)) return value;
  return fmt::format("{}", value);
}

}  // namespace stoa::eval

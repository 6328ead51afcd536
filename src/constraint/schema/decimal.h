// Decimal numbers of any length, and the texts of numbers within bounds.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "constraint/schema/json_text.h"

namespace stoa::constraint {

// digits * 10^-scale, exactly.
struct Decimal {
  bool negative = false;
  std::string digits = "0";  // without leading zeros
  int scale = 0;             // at least 0, without trailing zeros in a fraction

  static Decimal of(const nlohmann::ordered_json& number);
  std::string text() const;
  bool whole() const { return scale == 0; }
  bool zero() const { return digits == "0"; }
  // Digits before the point and behind it.
  std::string whole_digits() const;
  std::string fraction_digits() const;
};
int compare(const Decimal& a, const Decimal& b);  // below, at or above 0

// What a number may be.
struct NumberBounds {
  std::optional<Decimal> low = {}, high = {};
  bool low_open = false, high_open = false;  // the bound itself is not in it
  bool whole = false, broken = false;        // integers alone, or none of them
  std::vector<Decimal> multiples_of = {};

  bool free() const { return !low && !high && !broken && multiples_of.empty(); }
  void raise(const Decimal& bound, bool open);
  void lower(const Decimal& bound, bool open);
};
// Their texts, without exponents. ConstraintError: multiples of a number with too many digits.
CharAutomaton texts_of(const NumberBounds& bounds, Budget& budget);

}  // namespace stoa::constraint

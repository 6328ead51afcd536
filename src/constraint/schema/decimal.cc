#include "constraint/schema/decimal.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>

namespace stoa::constraint {
namespace {

constexpr std::int64_t kLargestDivisor = 100'000;

void strip(std::string& digits, int& scale) {
  while (scale > 0 && digits.size() > 1 && digits.back() == '0') digits.pop_back(), --scale;
  const std::size_t first = std::min(digits.find_first_not_of('0'), digits.size() - 1);
  digits.erase(0, first);
  if (digits == "0") scale = 0;
}

// Digits read so far compared with those of a bound: which of both numbers is the smaller.
struct Comparison {
  int whole = 0;  // of as many digits of the bound
  int all = 0;    // once the point was passed
  friend auto operator<=>(const Comparison&, const Comparison&) = default;
};

// One bound of the distance from zero.
struct Bound {
  std::string whole, fraction;
  bool open = false;

  Bound(const Decimal& value, bool is_open)
      : whole(value.whole_digits()), fraction(value.fraction_digits()), open(is_open) {}

  static int sign(char a, char b) { return a < b ? -1 : a > b ? 1 : 0; }
  void read_whole(Comparison& c, char digit, int place) const {
    if (c.whole == 0 && place < static_cast<int>(whole.size()))
      c.whole = sign(digit, whole[static_cast<std::size_t>(place)]);
  }
  void end_whole(Comparison& c, int count) const {
    const int size = static_cast<int>(whole.size());
    c.all = count != size ? (count < size ? -1 : 1) : c.whole;
    c.whole = 0;
  }
  void read_fraction(Comparison& c, char digit, int place) const {
    const char other =
        place < static_cast<int>(fraction.size()) ? fraction[static_cast<std::size_t>(place)] : '0';
    if (c.all == 0) c.all = sign(digit, other);
  }
  // After `place` digits of the fraction.
  int end(const Comparison& c, int place) const {
    return c.all == 0 && place < static_cast<int>(fraction.size()) ? -1 : c.all;
  }
};

struct Reading {
  enum Phase : std::uint8_t { kStart, kSign, kZero, kWhole, kPoint, kFraction };
  Phase phase = kStart;
  bool negative = false, fraction_not_zero = false;
  int whole_digits = 0, fraction_digits = 0;
  Comparison low, high;
  std::int64_t rest = 0;  // of the digits, divided
  friend auto operator<=>(const Reading&, const Reading&) = default;
};

// Bounds of the distance from zero of the numbers of one sign; none: no number has this sign.
struct Side {
  bool any = true;
  std::optional<Bound> low, high;
};

Side side_of(const NumberBounds& b, bool negative) {
  Side side;
  const auto& near = negative ? b.high : b.low;  // the bound towards zero, or beyond it
  const auto& far = negative ? b.low : b.high;
  const bool near_open = negative ? b.high_open : b.low_open, far_open = negative ? b.low_open : b.high_open;
  if (far) {
    side.any = far->negative == negative;
    side.high.emplace(*far, far_open);
  }
  if (near && near->negative == negative) side.low.emplace(*near, near_open);
  if (negative && !side.low) side.low.emplace(Decimal{}, true);  // zero has no sign
  return side;
}

}  // namespace

Decimal Decimal::of(const nlohmann::ordered_json& number) {
  Decimal out;
  if (number.is_number_unsigned()) {
    out.digits = fmt::format("{}", number.get<std::uint64_t>());
    return out;
  }
  if (number.is_number_integer()) {
    const auto value = number.get<std::int64_t>();
    out.negative = value < 0;
    out.digits = fmt::format("{}", value);
    if (out.negative) out.digits.erase(0, 1);
    return out;
  }
  // The shortest digits that give the double again: "-1.5e-07".
  std::string text = fmt::format("{}", number.get<double>());
  if (text.starts_with('-')) out.negative = true, text.erase(0, 1);
  int exponent = 0;
  if (const auto e = text.find('e'); e != std::string::npos) {
    exponent = std::stoi(text.substr(e + 1));
    text.resize(e);
  }
  if (const auto point = text.find('.'); point != std::string::npos) {
    exponent -= static_cast<int>(text.size() - point - 1);
    text.erase(point, 1);
  }
  if (exponent > 0) text.append(static_cast<std::size_t>(exponent), '0');
  out.scale = std::max(0, -exponent);
  out.digits = std::move(text);
  strip(out.digits, out.scale);
  if (out.zero()) out.negative = false;
  return out;
}

std::string Decimal::whole_digits() const {
  const auto n = static_cast<int>(digits.size());
  return n > scale ? digits.substr(0, static_cast<std::size_t>(n - scale)) : "0";
}

std::string Decimal::fraction_digits() const {
  const auto n = static_cast<int>(digits.size());
  if (n >= scale) return digits.substr(static_cast<std::size_t>(n - scale));
  return std::string(static_cast<std::size_t>(scale - n), '0') + digits;
}

std::string Decimal::text() const {
  const std::string fraction = fraction_digits();
  return (negative ? "-" : "") + whole_digits() + (fraction.empty() ? "" : "." + fraction);
}

int compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  const std::string x = a.whole_digits(), y = b.whole_digits();
  int sign = x.size() != y.size() ? (x.size() < y.size() ? -1 : 1) : x.compare(y);
  if (sign == 0) sign = a.fraction_digits().compare(b.fraction_digits());
  return a.negative ? -sign : sign;
}

void NumberBounds::raise(const Decimal& bound, bool open) {
  const int order = low ? compare(bound, *low) : 1;
  if (order > 0) low_open = open;
  if (order == 0) low_open |= open;
  if (order > 0) low = bound;
}

void NumberBounds::lower(const Decimal& bound, bool open) {
  const int order = high ? compare(bound, *high) : -1;
  if (order < 0) high_open = open;
  if (order == 0) high_open |= open;
  if (order < 0) high = bound;
}

CharAutomaton texts_of(const NumberBounds& bounds, Budget& budget) {
  // All divisors as one whole number, of numbers with `divisor_scale` digits behind the point.
  std::int64_t divisor = 1;
  int divisor_scale = 0;
  const auto too_fine = [&] {
    fail<ConstraintError>("'multipleOf' with more than {} steps is not supported", kLargestDivisor);
  };
  for (const Decimal& m : bounds.multiples_of) divisor_scale = std::max(divisor_scale, m.scale);
  for (const Decimal& m : bounds.multiples_of) {
    const std::string digits = m.digits + std::string(static_cast<std::size_t>(divisor_scale - m.scale), '0');
    if (digits.size() > 6) too_fine();
    divisor = std::lcm(divisor, std::stoll(digits));
    if (divisor > kLargestDivisor) too_fine();
  }
  const bool divides = !bounds.multiples_of.empty();
  int most_whole = kMostDigits, most_fraction = divides ? divisor_scale : kMostDigits;
  for (const auto& bound : {bounds.low, bounds.high}) {
    if (!bound) continue;
    most_whole = std::max(most_whole, static_cast<int>(bound->whole_digits().size()));
    if (!divides) most_fraction = std::max(most_fraction, bound->scale + 1);
  }
  if (bounds.whole) most_fraction = 0;
  const Side sides[2] = {side_of(bounds, false), side_of(bounds, true)};

  const auto in_bounds = [&](const Reading& r, bool whole_over) {
    const Side& side = sides[r.negative ? 1 : 0];
    if (!side.any) return false;
    const auto order = [&](const std::optional<Bound>& bound, Comparison c) {
      if (!whole_over) bound->end_whole(c, r.whole_digits);
      return bound->end(c, r.fraction_digits);
    };
    if (side.low) {
      const int o = order(side.low, r.low);
      if (o < 0 || (o == 0 && side.low->open)) return false;
    }
    if (side.high) {
      const int o = order(side.high, r.high);
      if (o > 0 || (o == 0 && side.high->open)) return false;
    }
    return true;
  };
  const auto accepts = [&](const Reading& r) {
    if (r.phase != Reading::kZero && r.phase != Reading::kWhole && r.phase != Reading::kFraction)
      return false;
    if (bounds.broken && !r.fraction_not_zero) return false;
    std::int64_t rest = r.rest;
    for (int i = r.fraction_digits; divides && i < divisor_scale; ++i) rest = rest * 10 % divisor;
    return rest == 0 && in_bounds(r, r.phase == Reading::kFraction);
  };
  const auto next = [&](Reading r, char c) -> std::optional<Reading> {
    if (c == '-') {
      if (r.phase != Reading::kStart || !sides[1].any) return std::nullopt;
      r.phase = Reading::kSign;
      r.negative = true;
      return r;
    }
    const Side& side = sides[r.negative ? 1 : 0];
    if (c == '.') {
      if ((r.phase != Reading::kZero && r.phase != Reading::kWhole) || most_fraction == 0)
        return std::nullopt;
      if (side.low) side.low->end_whole(r.low, r.whole_digits);
      if (side.high) side.high->end_whole(r.high, r.whole_digits);
      r.whole_digits = 0;
      r.phase = Reading::kPoint;
      return r;
    }
    const int digit = c - '0';
    if (divides) r.rest = (r.rest * 10 + digit) % divisor;
    switch (r.phase) {
      case Reading::kStart:
      case Reading::kSign:
        if (!side.any) return std::nullopt;
        r.phase = digit == 0 ? Reading::kZero : Reading::kWhole;
        break;
      case Reading::kWhole:
        if (r.whole_digits == most_whole) return std::nullopt;
        break;
      case Reading::kPoint:
      case Reading::kFraction:
        if (r.fraction_digits == most_fraction) return std::nullopt;
        r.phase = Reading::kFraction;
        if (side.low) side.low->read_fraction(r.low, c, r.fraction_digits);
        if (side.high) side.high->read_fraction(r.high, c, r.fraction_digits);
        r.fraction_not_zero |= digit != 0;
        ++r.fraction_digits;
        return r;
      default:
        return std::nullopt;
    }
    if (side.low) side.low->read_whole(r.low, c, r.whole_digits);
    if (side.high) side.high->read_whole(r.high, c, r.whole_digits);
    ++r.whole_digits;
    return r;
  };
  return explore(Reading(), "-.0123456789", budget, next, accepts);
}

}  // namespace stoa::constraint

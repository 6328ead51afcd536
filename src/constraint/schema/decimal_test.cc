#include "constraint/schema/decimal.h"

#include <gtest/gtest.h>

#include <cmath>

namespace stoa::constraint {
namespace {

Decimal decimal(const std::string& text) { return Decimal::of(nlohmann::ordered_json::parse(text)); }

TEST(Decimal, ReadsNumbersExactly) {
  for (const auto& [json, expected] :
       std::vector<std::pair<std::string, std::string>>{{"0", "0"},
                                                        {"-0.0", "0"},
                                                        {"12", "12"},
                                                        {"-9223372036854775808", "-9223372036854775808"},
                                                        {"18446744073709551615", "18446744073709551615"},
                                                        {"0.1", "0.1"},
                                                        {"1.50", "1.5"},
                                                        {"-2.5e-7", "-0.00000025"},
                                                        {"1e3", "1000"},
                                                        {"1.0", "1"},
                                                        {"1e300", "1" + std::string(300, '0')}})
    EXPECT_EQ(decimal(json).text(), expected) << json;
  EXPECT_LT(compare(decimal("-2"), decimal("-1.5")), 0);
  EXPECT_GT(compare(decimal("10"), decimal("9.99")), 0);
  EXPECT_EQ(compare(decimal("1.0"), decimal("1")), 0);
  EXPECT_LT(compare(decimal("0.05"), decimal("0.1")), 0);
}

// Every short spelling against its value.
TEST(Decimal, TextsWithinBoundsAreThoseOfNumbersWithinBounds) {
  struct Case {
    const char *low, *high;
    bool low_open, high_open, whole, broken;
    double multiple;
  };
  const Case cases[] = {
      {"-1.5", "12.25", false, false, false, false, 0}, {"0", "100", true, true, false, false, 0},
      {"-3", "-0.5", false, true, false, false, 0},     {"5", "", false, false, true, false, 0},
      {"", "-7", false, false, true, false, 0},         {"-20", "20", false, false, true, false, 3},
      {"", "", false, false, false, false, 0.25},       {"0", "0", false, false, false, false, 0},
      {"-2", "2", true, true, false, true, 0},          {"9.99", "10.01", false, false, false, false, 0},
      {"3", "2", false, false, false, false, 0}};
  std::vector<std::string> whole, texts;
  for (int i = 0; i < 130; ++i) whole.push_back(std::to_string(i));
  for (const std::string& w : whole)
    for (const char* fraction : {"", ".0", ".5", ".25", ".99", ".01", ".00", ".50", ".125"})
      for (const char* sign : {"", "-"}) texts.push_back(sign + w + fraction);
  for (const Case& c : cases) {
    NumberBounds bounds;
    if (*c.low != 0) bounds.raise(decimal(c.low), c.low_open);
    if (*c.high != 0) bounds.lower(decimal(c.high), c.high_open);
    bounds.whole = c.whole;
    bounds.broken = c.broken;
    if (c.multiple != 0) bounds.multiples_of.push_back(Decimal::of(c.multiple));
    Budget budget;
    const CharAutomaton automaton = texts_of(bounds, budget);
    for (const std::string& text : texts) {
      const double x = std::stod(text);
      bool expected = !(text.starts_with('-') && x == 0);
      if (*c.low != 0) expected &= c.low_open ? x > std::stod(c.low) : x >= std::stod(c.low);
      if (*c.high != 0) expected &= c.high_open ? x < std::stod(c.high) : x <= std::stod(c.high);
      if (c.whole) expected &= text.find('.') == std::string::npos;
      if (c.broken) expected &= x != std::floor(x);
      const auto point = text.find('.');
      if (c.multiple != 0)
        expected &= std::fmod(x, c.multiple) == 0 && (point == std::string::npos || text.size() - point <= 3);
      EXPECT_EQ(automaton.matches(text), expected) << text << " in " << c.low << " to " << c.high;
    }
    for (const char* bad : {"", "-", "01", "1.", ".5", "+1", "1e2", "--1"})
      EXPECT_FALSE(automaton.matches(bad));
  }
}

}  // namespace
}  // namespace stoa::constraint

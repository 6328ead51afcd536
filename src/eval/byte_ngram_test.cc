#include "eval/byte_ngram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "base/error.h"

namespace stoa::eval {
namespace {

// The formula by counting through the text every time.
double brute_force(const std::string& train, const std::string& history, unsigned char byte) {
  const std::string shorter = history.empty() ? "" : history.substr(1);
  const double lower = history.empty() ? 1.0 / 256 : brute_force(train, shorter, byte);
  double total = 0, count = 0;
  std::set<char> kinds;
  for (std::size_t i = history.size(); i < train.size(); ++i) {
    if (train.compare(i - history.size(), history.size(), history) != 0) continue;
    ++total;
    kinds.insert(train[i]);
    if (static_cast<unsigned char>(train[i]) == byte) ++count;
  }
  if (total == 0) return lower;
  const auto t = static_cast<double>(kinds.size());
  return (count + t * lower) / (total + t);
}

const std::string kTrain = "abracadabra, a cab; \xff\xfe abra abra cadabra\n" + std::string(2, '\0') + "aab";

TEST(ByteNgram, EqualsTheFormula) {
  for (const int order : {1, 2, 3, 5, 7}) {
    ByteNgram model(order);
    model.train(kTrain);
    for (const std::string history :
         {"", "a", "ab", "abr", "abra", "xabra", "cadab", "zzzzzz", "\xff", "a c", "qa"})
      for (const unsigned char byte : {'a', 'b', 'z', '\0', static_cast<char>(0xfe)}) {
        const auto used = std::min<std::size_t>(history.size(), static_cast<std::size_t>(order - 1));
        EXPECT_NEAR(model.probability(history, byte),
                    brute_force(kTrain, history.substr(history.size() - used), byte), 1e-15)
            << "order " << order << ", after '" << history << "'";
      }
  }
}

TEST(ByteNgram, ProbabilitiesSumToOne) {
  ByteNgram model;
  model.train(kTrain);
  for (const std::string history : {"", "a", "abra", "cada", "never seen", "\xff\xfe"}) {
    double sum = 0;
    for (int c = 0; c < 256; ++c) sum += model.probability(history, static_cast<unsigned char>(c));
    EXPECT_NEAR(sum, 1.0, 1e-12) << history;
  }
}

TEST(ByteNgram, BitsAreThoseOfTheBytesInTurn) {
  ByteNgram model;
  EXPECT_DOUBLE_EQ(model.bits("xyz"), 24.0);  // nothing learnt: 8 bits per byte
  model.train(kTrain);
  const std::string text = "abracab \x01";
  double sum = 0;
  for (std::size_t i = 0; i < text.size(); ++i)
    sum -= std::log2(brute_force(kTrain,
                                 text.substr(i - std::min<std::size_t>(i, 4), std::min<std::size_t>(i, 4)),
                                 static_cast<unsigned char>(text[i])));
  EXPECT_NEAR(model.bits(text), sum, 1e-9);
}

TEST(ByteNgram, TextsDoNotTouchEachOther) {
  ByteNgram apart, joined;
  apart.train("ab");
  apart.train("cd");
  joined.train("abcd");
  EXPECT_LT(apart.probability("b", 'c'), joined.probability("b", 'c'));
}

TEST(ByteNgram, GrowsBeyondItsFirstTable) {
  std::string text;
  for (int i = 0; i < 20000; ++i) text += static_cast<char>((i * 7919 + i / 3) & 0xff);
  ByteNgram model;
  model.train(text);
  EXPECT_NEAR(model.probability(text.substr(100, 4), static_cast<unsigned char>(text[104])),
              brute_force(text, text.substr(100, 4), static_cast<unsigned char>(text[104])), 1e-15);
}

TEST(ByteNgram, RefusesAnOrderThatCannotBe) {
  EXPECT_THROW(ByteNgram(0), ConfigError);
  EXPECT_THROW(ByteNgram(8), ConfigError);
}

}  // namespace
}  // namespace stoa::eval

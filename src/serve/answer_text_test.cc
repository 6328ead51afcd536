#include "serve/answer_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace stoa::serve {
namespace {

// Bytes as tokens: id = byte.
token::Tokenizer bytes() {
  nlohmann::ordered_json vocabulary = nlohmann::ordered_json::object();
  const token::ByteAlphabet alphabet;
  for (int b = 0; b < 256; ++b) vocabulary[alphabet.to_symbols(std::string(1, static_cast<char>(b)))] = b;
  return token::Tokenizer::from_json(nlohmann::ordered_json{
      {"version", "1.0"},
      {"added_tokens", nlohmann::ordered_json::array()},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", nlohmann::ordered_json::array()}}}}
                                         .dump());
}

TEST(AnswerText, WholeCharactersAndStops) {
  const token::Tokenizer tokenizer = bytes();
  AnswerText answer(tokenizer, {.stop = {"stop"}, .keep_scores = true});
  std::string text;
  std::vector<std::int64_t> offsets;
  bool stopped = false;
  for (const unsigned char c : std::string("a\xe2\x82\xac st stop more")) {
    const AnswerPiece piece = answer.push({{c, 0}, {}}, stopped);
    text += piece.text;
    for (const auto& token : piece.tokens) offsets.push_back(token.offset);
    EXPECT_FALSE(!piece.text.empty() && (piece.text.back() & '\xc0') == '\xc0') << "half a character";
    if (stopped) break;
  }
  EXPECT_TRUE(stopped);
  EXPECT_EQ(text, "a\xe2\x82\xac st ");
  // The tokens of the stop text are left out; the three of a character begin where it does.
  EXPECT_EQ(offsets, (std::vector<std::int64_t>{0, 1, 1, 1, 2, 3, 4, 5}));
}

TEST(AnswerText, TheEndGivesWhatWaited) {
  const token::Tokenizer tokenizer = bytes();
  AnswerText answer(tokenizer, {.stop = {"stop"}, .keep_scores = true});
  bool stopped = false;
  std::string text;
  std::size_t tokens = 0;
  for (const unsigned char c : std::string("sto")) {
    const AnswerPiece piece = answer.push({{c, 0}, {}}, stopped);
    text += piece.text;
    tokens += piece.tokens.size();
  }
  EXPECT_EQ(text, "");
  const AnswerPiece rest = answer.finish();
  EXPECT_EQ(rest.text, "sto");
  EXPECT_EQ(tokens + rest.tokens.size(), 3u);
}

// What is left of a text that comes byte by byte, a millisecond each.
std::string lines_of(std::string_view text, const LineLimits::Options& options) {
  LineLimits limits(options);
  std::string out;
  LineLimits::Clock::time_point now{};
  bool ended = false;
  for (std::size_t i = 0; i < text.size() && !ended; ++i, now += std::chrono::milliseconds(1))
    out += text.substr(i, limits.take(text.substr(i, 1), now, ended));
  return out;
}

TEST(AnswerText, ALineThatIsIndentedLessEndsIt) {
  EXPECT_EQ(lines_of("a\n  b\n\tc\nd", {}), "a\n  b\n\tc\nd");
  EXPECT_EQ(lines_of("a\n  b\n   c\n d\n  e", {.indent = 2}), "a\n  b\n   c\n ");
  EXPECT_EQ(lines_of("a\n  b\n\n  c", {.indent = 2}), "a\n  b\n");
  bool ended = false;
  EXPECT_EQ(LineLimits({.indent = 1}).take("a\n b\nc", {}, ended), 5u);
  EXPECT_TRUE(ended);
}

TEST(AnswerText, TheTimeEndsItOnceALineIsComplete) {
  using std::chrono::milliseconds;
  EXPECT_EQ(lines_of("abcdefgh", {.time = milliseconds(3)}), "abcdefgh");
  EXPECT_EQ(lines_of("ab\ndefgh", {.time = milliseconds(3)}), "ab\nde");
  EXPECT_EQ(lines_of("abcdef\nh", {.time = milliseconds(3)}), "abcdef\n");
}

TEST(AnswerText, LinesThatEndItGiveWhatWaited) {
  const token::Tokenizer tokenizer = bytes();
  AnswerText answer(tokenizer, {.stop = {"\n  stop"}, .keep_scores = true, .lines = {.indent = 3}});
  std::string text;
  bool stopped = false;
  for (const unsigned char c : std::string("a\n  b")) text += answer.push({{c, 0}, {}}, stopped).text;
  EXPECT_TRUE(stopped);
  EXPECT_EQ(text, "a\n  ");
  EXPECT_EQ(answer.stop_text(), "");
}

}  // namespace
}  // namespace stoa::serve

#include "token/split.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "token/normalize.h"
#include "token/test_support.h"

namespace stoa::token {
namespace {

using Words = std::vector<std::string>;

Words split(SplitPattern pattern, std::string_view text) {
  const Splitter splitter(pattern);
  Words words;
  for (const char *p = text.data(), *end = p + text.size(); p < end;) {
    const std::size_t n = splitter.next(p, end);
    words.emplace_back(p, n);
    p += n;
  }
  return words;
}

TEST(Split, Gpt2) {
  EXPECT_EQ(split(SplitPattern::kGpt2, "I'll go  to 123rd st.\n\n x "),
            (Words{"I", "'ll", " go", " ", " to", " 123", "rd", " st", ".", "\n\n", " x", " "}));
  EXPECT_EQ(split(SplitPattern::kGpt2, "I'LL"), (Words{"I", "'", "LL"}));
}

TEST(Split, Llama3) {
  EXPECT_EQ(split(SplitPattern::kLlama3, "I'LL (go) 12345!\n\n \n  x"),
            (Words{"I", "'LL", " (", "go", ")", " ", "123", "45", "!\n\n", " \n", " ", " x"}));
}

TEST(Split, Qwen2) { EXPECT_EQ(split(SplitPattern::kQwen2, "a 12"), (Words{"a", " ", "1", "2"})); }

TEST(Split, Bloom) {
  EXPECT_EQ(split(SplitPattern::kBloom, "I'll go  to (123rd), no.\n\n x "),
            (Words{"I'll", " go", " ", " to", " (", "123rd", "),", " no", ".\n\n", " x", " "}));
  EXPECT_EQ(split(SplitPattern::kBloom, "是的。好，a|b…\u3000\xFF"),
            (Words{"是的", "。", "好", "，", "a", "|", "b", "…\u3000", "\xFF"}));
}

TEST(Split, InvalidBytesArePunctuationOneByOne) {
  EXPECT_EQ(split(SplitPattern::kGpt2, "a\xFF\xC0z \xE4\xBB!"), (Words{"a", "\xFF\xC0", "z", " \xE4\xBB!"}));
  EXPECT_EQ(split(SplitPattern::kGpt2,
                  "\xED\xA0\x80"
                  "a"),
            (Words{"\xED\xA0\x80", "a"}));  // a surrogate
}

TEST(Split, NamesAndRegexesLeadBack) {
  for (const auto p :
       {SplitPattern::kGpt2, SplitPattern::kLlama3, SplitPattern::kQwen2, SplitPattern::kBloom}) {
    EXPECT_EQ(split_pattern_named(name(p)), p);
    EXPECT_EQ(split_pattern_of_regex(regex(p)), p);
  }
  EXPECT_FALSE(split_pattern_of_regex("\\s+").has_value());
  EXPECT_FALSE(split_pattern_of_regex("").has_value());
}

// FNV-1a over what one code point after another gives; the expected values are Hugging Face's (unicode.json).
template <class Each>
std::string checksum_of_unicode(Each&& each) {
  std::uint64_t h = 0xCBF29CE484222325u;
  const auto add = [&h](std::uint8_t byte) { h = (h ^ byte) * 0x100000001B3u; };
  std::string c;
  for (char32_t point = 0; point < 0x110000; ++point) {
    if (point >= 0xD800 && point < 0xE000) continue;
    c.clear();
    append_utf8(point, c);
    each(c, add);
  }
  return fmt::format("{:016x}", h);
}

TEST(Unicode, EveryCodePointSplitsAsHuggingFace) {
  const auto expected = test::read_json(test::fixture("unicode.json"));
  for (const auto pattern :
       {SplitPattern::kGpt2, SplitPattern::kLlama3, SplitPattern::kQwen2, SplitPattern::kBloom}) {
    const Splitter splitter(pattern);
    std::string text;
    const std::string found = checksum_of_unicode([&](const std::string& c, auto&& add) {
      text = "a" + c + "1" + c + "! " + c + c + " \n" + c + "\t" + c + "a'" + c + " " + c + "  ";
      for (const char *p = text.data(), *end = p + text.size(); p < end;) {
        const std::size_t n = splitter.next(p, end);
        add(static_cast<std::uint8_t>(n));
        p += n;
      }
    });
    EXPECT_EQ(found, expected[std::string(name(pattern))].get<std::string>()) << name(pattern);
  }
}

TEST(Unicode, EveryCodePointNormalizesAsHuggingFace) {
  const auto expected = test::read_json(test::fixture("unicode.json"));
  const UnicodeClasses classes;
  std::string storage;
  EXPECT_EQ(checksum_of_unicode([&](const std::string& c, auto&& add) {
              const std::string text =
                  c + "\u0323\u0301q\u0345" + c + "\u0334" + "e" + c + "\u0301" + c + "\u0345";
              for (const char b : normalize_nfc(text, classes, storage)) add(static_cast<std::uint8_t>(b));
            }),
            expected["nfc"].get<std::string>());
}

TEST(Unicode, EveryCodePointIsAWordCharacterAsInHuggingFace) {
  const auto expected = test::read_json(test::fixture("unicode.json"));
  const UnicodeClasses classes;
  EXPECT_EQ(checksum_of_unicode([&](const std::string& c, auto&& add) {
              add(classes.is_word(read_utf8(c.data(), c.data() + c.size())) ? 1 : 0);
            }),
            expected["word"].get<std::string>());
}

TEST(Unicode, NfcKeepsInvalidBytes) {
  const UnicodeClasses classes;
  std::string storage;
  EXPECT_EQ(normalize_nfc("e\u0301\xFF\u0301\xC3", classes, storage), "\u00e9\xFF\u0301\xC3");
  const std::string plain = "plain, n\u00e9e";
  EXPECT_EQ(normalize_nfc(plain, classes, storage).data(), plain.data());  // nothing is copied
}

}  // namespace
}  // namespace stoa::token

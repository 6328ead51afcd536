// Repaired texts beside those of ftfy itself (tests/oracle/make_ftfy_fixtures.py; tests/slow/ftfy_oracle.py
// compares any number of them).
#include "curate/text/fix_text.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/file.h"
#include "base/test_paths.h"
#include "base/utf8.h"
#include "curate/filters/repair.h"
#include "curate/text/canonical_form.h"
#include "curate/text/character.h"

namespace stoa::curate {
namespace {

std::vector<nlohmann::json> ftfy_rows() {
  std::vector<nlohmann::json> rows;
  std::istringstream lines(read_text(test::source_dir() / "tests/fixtures/curate/ftfy.jsonl"));
  for (std::string line; std::getline(lines, line);) rows.push_back(nlohmann::json::parse(line));
  EXPECT_GT(rows.size(), 1000U);
  return rows;
}

std::u32string decoded(std::string_view text) {
  std::u32string out;
  EXPECT_TRUE(decode_strict_utf8(text, false, out));
  return out;
}
std::string fixed(std::string_view text, const FixTextOptions& options = {}) {
  std::string out;
  fix_text(text, options, out);
  return out;
}

TEST(FixText, EqualToFtfy) {
  FixTextOptions plain;
  plain.fix_latin_ligatures = plain.fix_character_width = plain.uncurl_quotes = plain.fix_line_breaks = false;
  plain.normalization = Normalization::kNone;
  int changed = 0;
  for (const auto& row : ftfy_rows()) {
    const std::string text = row["text"];
    EXPECT_EQ(mojibake().is_bad(decoded(text)), row.value("bad", false)) << text;
    EXPECT_EQ(fixed(text), row["fixed"].get<std::string>()) << text;
    EXPECT_EQ(fixed(text, plain), row["plain"].get<std::string>()) << text;
    changed += row["fixed"] != row["text"];
  }
  EXPECT_GT(changed, 500);
}

TEST(FixText, WhatItsDocumentationShows) {
  EXPECT_EQ(fixed("âœ” No problems"), "✔ No problems");
  EXPECT_EQ(fixed("voil\u00c3 le travail"), "voilà le travail");
  EXPECT_EQ(fixed("&macr;\\_(ã\u0083\u0084)_/&macr;"), "¯\\_(ツ)_/¯");
  EXPECT_EQ(fixed("P&EACUTE;REZ &#59; &#xd83d; &#1;x &unknown; &amp"), "PÉREZ &#59; \ufffd x &unknown; &amp");
  EXPECT_EQ(fixed("\x1b[36;44mblue\x1b[0m"), "blue");
  EXPECT_EQ(fixed(""), "");
}

TEST(FixText, ReferencesStayFromTheFirstLineWithMarkupOn) {
  const std::string text = "a &lt; b\nx &amp; <b>y</b>\n&amp;\n";
  FixTextOptions options;
  EXPECT_EQ(fixed(text, options), "a < b\nx &amp; <b>y</b>\n&amp;\n");
  options.unescape_html = UnescapeHtml::kAlways;
  EXPECT_EQ(fixed(text, options), "a < b\nx & <b>y</b>\n&\n");
  options.unescape_html = UnescapeHtml::kNever;
  EXPECT_EQ(fixed(text, options), text);
}

TEST(FixText, EveryRuleCanBeSwitchedOff) {
  const auto without = [](bool FixTextOptions::*rule, std::string_view text) {
    FixTextOptions options;
    EXPECT_NE(fixed(text, options), text);
    options.*rule = false;
    return fixed(text, options) == text;
  };
  EXPECT_TRUE(without(&FixTextOptions::fix_latin_ligatures, "\ufb01nd"));
  EXPECT_TRUE(without(&FixTextOptions::fix_character_width, "\uff21"));
  EXPECT_TRUE(without(&FixTextOptions::uncurl_quotes, "\u201cso\u201d"));
  EXPECT_TRUE(without(&FixTextOptions::fix_line_breaks, "a\r\nb"));
  EXPECT_TRUE(without(&FixTextOptions::remove_control_chars, "a\x01"));
  EXPECT_TRUE(without(&FixTextOptions::fix_encoding, "sÃ³"));
  FixTextOptions options;
  options.remove_terminal_escapes = false;
  EXPECT_EQ(fixed("\x1b[0mx", options), "[0mx");
  options = {};
  options.normalization = Normalization::kNone;
  EXPECT_EQ(fixed("e\u0301", options), "e\u0301");
  EXPECT_EQ(fixed("e\u0301"), "é");
  options = {};
  options.mojibake.restore_byte_a0 = false;
  options.mojibake.decode_inconsistent_utf8 = false;  // parts are repaired by all rules, as in ftfy
  EXPECT_EQ(fixed("voil\u00c3 le", options), "voil\u00c3 le");
  options = {};
  options.mojibake.replace_lossy_sequences = false;
  EXPECT_NE(fixed("â€œ so â€\ufffd", options), fixed("â€œ so â€\ufffd"));
  options = {};
  options.mojibake.decode_inconsistent_utf8 = false;
  EXPECT_NE(fixed("ľš â€™ 漢", options), fixed("ľš â€™ 漢"));
  options = {};
  options.mojibake.fix_c1_controls = false;
  EXPECT_EQ(fixed("漢\u0085x", options), "漢\nx");
  EXPECT_EQ(fixed("漢\u0085x"), "漢…x");
}

TEST(FixText, LongLinesAreRepairedInPieces) {
  FixTextOptions options;
  options.max_decode_length = 4;
  EXPECT_EQ(fixed("ab \u00c3\u00b3x", options), "ab Ã³x");  // cut within the two
  options.max_decode_length = 5;
  EXPECT_EQ(fixed("ab \u00c3\u00b3x", options), "ab óx");
}

TEST(FixText, AStageRewritesTheDocument) {
  Document document{"", "sÃ³ \u201cx\u201d", "", ""};
  Features features;
  features.reset(document.text);
  Verdict verdict;
  make_stage(FixTextOptions{})->apply(document, features, verdict);
  EXPECT_EQ(document.text, "só \"x\"");
  EXPECT_EQ(features.text(), document.text);
  EXPECT_FALSE(verdict.dropped());
}

TEST(CanonicalForm, HangulMarksAndExclusions) {
  const auto composed = [](std::u32string text) {
    canonical_form().compose(text);
    return text;
  };
  EXPECT_EQ(composed(U"\u1100\u1161\u11a8"), U"\uac01");
  EXPECT_EQ(composed(U"\uac00\u11a8\u11a8"), U"\uac01\u11a8");
  EXPECT_EQ(composed(U"a\u0302\u0323"), U"\u1ead");  // marks are ordered first
  EXPECT_EQ(composed(U"a\u0304\u0301"), U"\u0101\u0301");
  EXPECT_EQ(composed(U"a\u0327\u0301"), U"\u00e1\u0327");
  EXPECT_EQ(composed(U"\u0958"), U"\u0915\u093c");  // excluded from composition
  EXPECT_EQ(composed(U"\u212b"), U"\u00c5");
  EXPECT_EQ(composed(U"\u0344"), U"\u0308\u0301");
  EXPECT_EQ(composed(U"\u1fb7\u0323"), U"\u1fb7\u0323");
}

TEST(CanonicalForm, WhatIsNotMarkedAsChangingDoesNotChange) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xd800 && c < 0xe000) continue;
    if ((mojibake().classes(c) & kMayChangeInNfc) != 0) continue;
    std::u32string text{U'e', c, c};
    canonical_form().compose(text);
    ASSERT_EQ(text, (std::u32string{U'e', c, c})) << std::hex << static_cast<std::uint32_t>(c);
  }
}

TEST(Mojibake, StrictUtf8AndItsVariants) {
  std::u32string out;
  for (const char* bad : {"\x80", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe0\x80\x80",
                          "\xf0\x80\x80\x80", "\xf8\x88\x80\x80\x80", "\xe2\x82"})
    EXPECT_FALSE(decode_strict_utf8(bad, false, out)) << bad;
  EXPECT_TRUE(decode_strict_utf8("\xf0\x9f\x98\x80z", false, out));
  EXPECT_EQ(out, U"\U0001f600z");
  EXPECT_TRUE(decode_strict_utf8("\xed\xa0\xbd\xed\xb8\x80\xc0\x80", true, out));
  EXPECT_EQ(out, std::u32string(U"\U0001f600\0", 2));
  EXPECT_FALSE(decode_strict_utf8("\xed\xa0\xbdx", true, out));
  EXPECT_FALSE(decode_strict_utf8("\xed\xb8\x80\xed\xa0\xbd", true, out));
  EXPECT_TRUE(decode_strict_utf8("\xed\x9f\xbf", true, out));
  EXPECT_EQ(out, U"\ud7ff");
}

}  // namespace
}  // namespace stoa::curate

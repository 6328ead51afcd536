// Wikitext and pages of exports from anywhere: read or refused, and never for long.
#include "curate/wiki/dump.h"
#include "curate/wiki/wikitext.h"

#ifndef STOA_LIBFUZZER
#include <gmock/gmock.h>

#include <chrono>
#include <random>
#endif

#include "base/error.h"

namespace stoa::curate {
namespace {

void read_any_wikitext(std::string_view text) {
  WikiSite site = read_wiki_site(text);
  site.language = "zh";
  wikitext_to_text(text, site);
  try {
    const WikiPage page = read_wiki_page(text);
    wikitext_to_text(page.text, site);
    wiki_address(site, page.title);
  } catch (const DataError&) {
  }
}

}  // namespace
}  // namespace stoa::curate

#ifdef STOA_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  // The inputs of the program are valid UTF-8: others are made so.
  std::string text(reinterpret_cast<const char*>(data), size);
  for (char& c : text) c = static_cast<char>(c & 0x7f);
  stoa::curate::read_any_wikitext(text);
  return 0;
}
#else
namespace stoa::curate {
namespace {

constexpr std::string_view kWikiPieces[] = {"{{",
                                            "}}",
                                            "{|",
                                            "|}",
                                            "\n|-",
                                            "|",
                                            "[[",
                                            "]]",
                                            "[http://a ",
                                            "]",
                                            "'''",
                                            "''",
                                            "\n",
                                            "==",
                                            "* ",
                                            "#",
                                            "<ref>",
                                            "</ref>",
                                            "<nowiki>",
                                            "</nowiki>",
                                            "<!--",
                                            "-->",
                                            "-{",
                                            "}-",
                                            "__NOTOC__",
                                            "<table>",
                                            "</table>",
                                            "<source>",
                                            "\n</source>",
                                            "File:",
                                            "a",
                                            " ",
                                            "(",
                                            ")",
                                            "{",
                                            "}",
                                            "&nbsp;",
                                            "\x01",
                                            "\x02",
                                            "zh:",
                                            ";",
                                            "<page>",
                                            "<title>",
                                            "</title>",
                                            "<text>",
                                            "</text>",
                                            "<revision>",
                                            "<namespace key=\"6\">",
                                            "</namespace>",
                                            "<",
                                            ">",
                                            "/",
                                            "\"",
                                            "é"};

TEST(WikitextFuzz, AnyPiecesAreText) {
  std::mt19937 random(28);
  for (int i = 0; i < 4000; ++i) {
    std::string text;
    for (std::size_t n = random() % 60; n > 0; --n) text += kWikiPieces[random() % std::size(kWikiPieces)];
    read_any_wikitext(text);
    const std::string left = wikitext_to_text(text, {});
    EXPECT_EQ(left.find_first_of("\x01\x02"), left.npos) << text;
  }
}

// What is opened over and over and never closed must not take time that grows with its square.
TEST(WikitextFuzz, LongTextsOfOneKindTakeLittleTime) {
  for (const std::string piece :
       {"{{",   "[[",   "{|\n",       "[[a|",           "<ref>", "<table>",  "<!--",     "''",    "(((\x01",
        "</",   "-{a|", "[http://a ", "<table></table", "{{}",   "'''a ''b", "<nowiki>", "* a\n", "#*#\n",
        "\n|}", "]]",   "}}"}) {
    std::string text;
    while (text.size() < (1u << 20)) text += piece;
    const auto start = std::chrono::steady_clock::now();
    read_any_wikitext(text);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20)) << piece;
  }
}

}  // namespace
}  // namespace stoa::curate
#endif

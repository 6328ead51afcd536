// Pages of any bytes: every way to their main text ends, in UTF-8 and in time that grows with the page.
#include "curate/html/charset.h"
#include "curate/html/main_text.h"
#include "data/utf8_scan.h"

#ifndef STOA_LIBFUZZER
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#endif

namespace stoa::curate {
namespace {

void extract_any(std::string_view bytes) {
  const std::string html = page_as_utf8(bytes, {});
  if (data::scan_utf8(html).valid != html.size()) __builtin_trap();
  for (const MainText rule : {MainText::kUnion, MainText::kResiliparse, MainText::kAll}) {
    std::string title;
    const std::string text = MainTextExtractor(rule, "")(html, title);
    if (data::scan_utf8(text).valid != text.size() || data::scan_utf8(title).valid != title.size())
      __builtin_trap();
  }
}

}  // namespace
}  // namespace stoa::curate

#ifdef STOA_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  stoa::curate::extract_any({reinterpret_cast<const char*>(data), size});
  return 0;
}
#else
namespace stoa::curate {
namespace {

TEST(PageFuzz, PiecesInAnyOrder) {
  static constexpr std::string_view kPieces[] = {"<p>",
                                                 "</p>",
                                                 "<div class=nav>",
                                                 "</div>",
                                                 "<a href=x>",
                                                 "</a>",
                                                 "<table>",
                                                 "<tr>",
                                                 "<td>",
                                                 "</table>",
                                                 "<b>",
                                                 "</b>",
                                                 "<script>",
                                                 "</script>",
                                                 "<!--",
                                                 "-->",
                                                 "<![CDATA[",
                                                 "]]>",
                                                 "<title>",
                                                 "</title>",
                                                 "&amp;",
                                                 "&#",
                                                 "&#x",
                                                 "&#55296;",
                                                 "&notin",
                                                 "<",
                                                 ">",
                                                 "\"",
                                                 "'",
                                                 "=",
                                                 "<ul>",
                                                 "<li>",
                                                 "</ul>",
                                                 "<ol>",
                                                 "<pre>",
                                                 "</pre>",
                                                 "<br>",
                                                 "<hr>",
                                                 "<img>",
                                                 "<input>",
                                                 "<th>",
                                                 "</td>",
                                                 "<header>",
                                                 "<main>",
                                                 "<article>",
                                                 "</article>",
                                                 "<h1>",
                                                 "</h2>",
                                                 "text of the page",
                                                 "\xc3\xa9",
                                                 "\xff",
                                                 "\0",
                                                 "\r\n",
                                                 "<select>",
                                                 "<option>",
                                                 "<svg>",
                                                 "<plaintext>",
                                                 "<meta charset=utf-16>",
                                                 "<meta charset=",
                                                 "<dl><dt>",
                                                 "<form>",
                                                 "hidden",
                                                 " role=main "};
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    std::string html;
    for (auto n = random() % 60; n > 0; --n) html += kPieces[random() % std::size(kPieces)];
    extract_any(html);
  }
}

TEST(PageFuzz, TimeGrowsWithThePage) {
  const auto start = std::chrono::steady_clock::now();
  for (const std::string_view piece :
       {"<!--", "<a x='", "<b>", "</b>", "<p>", "<table>", "<li>", "<a href=1>", "&", "<![CDATA[", "<title>",
        "< ", "<td><ul>", "<option>", "<div hidden>"}) {
    std::string html;
    while (html.size() < 300'000) html += piece;
    extract_any(html);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(120));  // quadratic: hours
}

}  // namespace
}  // namespace stoa::curate
#endif

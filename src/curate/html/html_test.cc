// Pages as trees, and their main text, next to jusText's (tests/oracle/make_page_fixtures.py).
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/test_paths.h"
#include "curate/html/charset.h"
#include "curate/html/entities.h"
#include "curate/html/main_text.h"
#include "curate/html/stop_words.h"

namespace stoa::curate {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string shown(std::string_view html) {
  const HtmlTree tree(html);
  return render(tree, mark_all(tree));
}
std::string main_text(std::string_view html, MainText rule = MainText::kStoa) {
  std::string title;
  return MainTextExtractor(rule, "")(html, title);
}
std::string unescaped(std::string_view text) {
  std::string out;
  append_unescaped(text, out);
  return out;
}

TEST(HtmlText, ReferencesAreResolvedAsBrowsersDo) {
  EXPECT_EQ(unescaped("a &amp; b &eacute;&eacute &#233;&#xE9; &#x80; &#0; &#1114112;"),
            "a & b éé éé € \xef\xbf\xbd \xef\xbf\xbd");
  EXPECT_EQ(unescaped("&notit; &notin; &nosuch; & &# &#x &"), "¬it; ∉ &nosuch; & &# &#x &");
  EXPECT_EQ(unescaped("&NotEqualTilde; &CounterClockwiseContourIntegral;"), "≂̸ ∳");
}

TEST(HtmlText, IsLaidOutAsItIsShown) {
  EXPECT_EQ(shown("<p>One <b>two</b>\n three<p>four<br>five</p>six"), "One two three\n\nfour\nfive\n\nsix\n");
  EXPECT_EQ(shown("<ul><li>a<li>b<ol><li>c</li><li>d</ol></ul>e"), "- a\n- b\n  1. c\n  2. d\n\ne\n");
  EXPECT_EQ(shown("<table><tr><th>x<th>y<tr><td>1</td><td> 2 </td></table>"), "x | y\n1 | 2\n");
  EXPECT_EQ(shown("a<pre>\nint  x;\n\ty\n</pre>b"), "a\n\nint  x;\n\ty\n\nb\n");
  EXPECT_EQ(shown("a<script>if (a<b) \"</p>\"</script>b<style>p{}</style><!-- c --><!DOCTYPE x>d"), "abd\n");
  EXPECT_EQ(shown("a < b <c>d</c> <1> </ e>"), "a < b d <1>\n");
  EXPECT_EQ(shown("<a title='>'>x</a><a title=\"a>b\" href=y>z"), "xz\n");
  EXPECT_EQ(shown("<!-- never ended <p>text</p>"), "text\n");
  EXPECT_EQ(shown("<p title=\"never ended>text</p> more"), "text\n\nmore\n");
  EXPECT_EQ(shown(""), "");
}

TEST(HtmlTree, LeftOutTagsArePutIn) {
  const HtmlTree tree("<div><p>a<div>b</div></div><b><p>c</b>d</p><h1>e<h2>f");
  std::vector<std::string> texts;
  for (NodeId id = 0; id < tree.nodes().size(); ++id) {
    if (!tree[id].is_text) continue;
    std::string path;
    for (NodeId up = tree[id].parent; up != 0; up = tree[up].parent) path += std::string(tree[up].text) + ' ';
    texts.push_back(path + ": " + std::string(tree[id].text));
  }
  EXPECT_THAT(texts,
              ::testing::ElementsAre("p div : a", "div div : b", "p b : c", "p b : d", "h1 : e", "h2 : f"));
}

TEST(HtmlTree, WhatIsNestedTooDeepIsFlattened) {
  std::string deep;
  for (int i = 0; i < 1'000'000; ++i) deep += "<div>";
  deep += "text";
  for (int i = 0; i < 1'000'000; ++i) deep += "</div>";
  EXPECT_EQ(shown(deep + "<p>after"), "text\n\nafter\n");
}

std::string paragraphs(int n) {
  std::string html;
  for (int i = 0; i < n; ++i)
    html +=
        "<p>This is the text that the reader of the page came for, and it goes on for a while, as texts do "
        "that have something to say "
        "about what they were written for, which takes some time and more than one line of the page that it "
        "is on.</p>";
  return html;
}

TEST(MainTextOf, MenusAndFootersGo) {
  const std::string html =
      "<html><head><title>The  title</title></head><body><header><nav><a href=/>Home</a> <a "
      "href=/a>About us</a></nav></header>"
      "<div class='sideBar left'><ul><li><a href=1>One</a><li><a href=2>Two</a></ul></div><div "
      "id=content><h1>Heading</h1>" +
      paragraphs(3) +
      "<ul><li>an item</li><li>another</li></ul><pre>code();</pre></div><div class=related><a "
      "href=3>More</a> stories</div>"
      "<footer>All rights reserved</footer></body></html>";
  for (const MainText rule : {MainText::kStoa, MainText::kUnion}) {
    const std::string text = main_text(html, rule);
    EXPECT_THAT(text, HasSubstr("Heading")) << static_cast<int>(rule);
    EXPECT_THAT(text, HasSubstr("- another"));
    EXPECT_THAT(text, HasSubstr("code();"));
    EXPECT_THAT(text, Not(HasSubstr("Home")));
    EXPECT_THAT(text, Not(HasSubstr("Two")));
    EXPECT_THAT(text, Not(HasSubstr("stories")));
    EXPECT_THAT(text, Not(HasSubstr("rights")));
  }
  EXPECT_THAT(main_text(html, MainText::kAll), HasSubstr("About us"));
  EXPECT_THAT(main_text(html, MainText::kJustext), HasSubstr("reader of the page"));
  std::string title;
  MainTextExtractor(MainText::kStoa, "")(html, title);
  EXPECT_EQ(title, "The title");
}

TEST(MainTextOf, HiddenPartsGoAndBigOnesOfAnyNameStay) {
  const std::string html =
      "<body class='has-sidebar'><div style='display: none'>secret words here</div><div class=comments>" +
      paragraphs(4) + "</div><div role=search>find it</div>";
  const std::string text = main_text(html);
  EXPECT_THAT(text, HasSubstr("reader of the page"));
  EXPECT_THAT(text, Not(HasSubstr("secret")));
  EXPECT_THAT(text, Not(HasSubstr("find it")));
}

std::string without_space(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (c != ' ' && c != '\n' && c != '\t') out += c;
  return out;
}

TEST(Justext, TheSameParagraphsAreGood) {
  StopWords words;
  std::istringstream list{std::string(english_stop_words())};
  for (std::string word; list >> word;) {
    for (char& c : word) c = static_cast<char>(std::tolower(c));
    words.insert(word);
  }
  std::istringstream rows(read_text(test::source_dir() / "tests/fixtures/curate/justext.jsonl"));
  int count = 0, with_text = 0;
  for (std::string line; std::getline(rows, line);) {
    const auto row = nlohmann::json::parse(line);
    const std::string html = row["html"];
    const HtmlTree tree(html);
    const Marks marks = mark_justext(tree, words);
    std::string good;
    for (NodeId id = 0; id < marks.size(); ++id)
      if (marks[id]) append_unescaped(tree[id].text, good);
    EXPECT_EQ(without_space(good), without_space(row["good"].get<std::string>())) << html;
    ++count;
    with_text += !good.empty();
  }
  EXPECT_GE(count, 50);
  EXPECT_GE(with_text, 20);
}

// A theme whose navigation holds more text than the page, in elements that are named after it.
TEST(MainTextOf, WhatAPageCallsItsContentStaysWhateverIsAroundIt) {
  std::string menu;
  for (int i = 0; i < 80; ++i) menu += "<li><a href=#>An entry of the menu of this site</a></li>";
  const std::string html =
      "<html><body class=wy-body-for-nav><nav class=wy-nav-side><ul>" + menu +
      "</ul></nav><section class=wy-nav-content-wrap><div class=wy-nav-content><div role=navigation><a "
      "href=/>Home</a></div><div role=main itemtype='http://schema.org/Article'><h1>Heading</h1>" +
      paragraphs(1) +
      "<dl><dt>a</dt><dd>b</dd></dl><table><tr><td>1</td><td>2</td></tr></table><ul><li>last</li></ul></div>"
      "<footer>All rights reserved</footer></div></section></body></html>";
  for (const MainText rule : {MainText::kStoa, MainText::kUnion, MainText::kResiliparse}) {
    const std::string text = main_text(html, rule);
    EXPECT_TRUE(text.starts_with("Heading")) << text;
    EXPECT_TRUE(text.ends_with("a\nb\n\n1 | 2\n\n- last\n")) << text;
  }
}

TEST(Resiliparse, TheSameElementsAreContent) {
  std::istringstream rows(read_text(test::source_dir() / "tests/fixtures/curate/resiliparse.jsonl"));
  int with_text = 0;
  for (std::string line; std::getline(rows, line);) {
    const auto row = nlohmann::json::parse(line);
    const std::string html = row["html"];
    std::istringstream text(main_text(html, MainText::kResiliparse));
    std::vector<std::string> words;  // without the marks of lists and cells
    for (std::string word; text >> word;)
      if (word.front() == 'q') words.push_back(word);
    EXPECT_EQ(words, row["words"].get<std::vector<std::string>>()) << html;
    with_text += !words.empty();
  }
  EXPECT_GE(with_text, 150);
}

TEST(Resiliparse, NamesOfAnyLengthAreReadInTime) {
  const std::string joints(100'000, '-');
  std::string html = "<body><div class=\"l" + joints + "\" id=\"modal" + joints + "\">text</div>";
  for (int i = 0; i < 20'000; ++i) html += " l";
  html += "<div class=\"";
  for (int i = 0; i < 50'000; ++i) html += "l- link-";
  EXPECT_EQ(main_text(html + "\">more</div>", MainText::kResiliparse).substr(0, 4), "text");
}

TEST(PageEncoding, IsThatOfMarkHeaderMetaAndBytesInThisOrder) {
  const std::string e = "caf\xe9", greek = "\xe1\xe2\xe3";
  EXPECT_EQ(page_as_utf8("café", "text/html; charset=iso-8859-1"), "café");  // plainly wrong
  EXPECT_EQ(page_as_utf8(e, "text/html; charset=\"ISO-8859-1\""), "café");
  EXPECT_EQ(page_as_utf8("<meta charset=iso-8859-7>" + greek, ""), "<meta charset=iso-8859-7>αβγ");
  EXPECT_EQ(page_as_utf8("<meta charset=iso-8859-7>" + e, "text/html; charset=latin1"),
            "<meta charset=iso-8859-7>café");
  EXPECT_EQ(page_as_utf8("<META http-equiv='Content-Type' content='text/html; charset=koi8-r'>\xc1", ""),
            "<META http-equiv='Content-Type' content='text/html; charset=koi8-r'>а");
  EXPECT_EQ(page_as_utf8("\xef\xbb\xbf"
                         "a",
                         "text/html; charset=koi8-r"),
            "a");
  EXPECT_EQ(page_as_utf8(std::string("\xff\xfe"
                                     "a\0\xe9\0",
                                     6),
                         ""),
            "aé");
  EXPECT_EQ(page_as_utf8("\x93quoted\x94", "text/html; charset=iso-8859-1"), "“quoted”");
  EXPECT_EQ(page_as_utf8("a\xff z", "text/html; charset=utf-8"), "a\xef\xbf\xbd z");
  EXPECT_EQ(page_as_utf8("<p>\x1b$B9A$N\x1b(B", ""),
            "<p>港の");       // ISO-2022-JP, which has ASCII's bytes alone
  std::string russian, read;  // says UTF-8, and is windows-1251
  for (int i = 0; i < 6; ++i) {
    russian += "\xcb\xee\xe4\xea\xe8 \xe2 \xe3\xe0\xe2\xe0\xed\xe8 \xf3\xf2\xf0\xee\xec. ";
    read += "Лодки в гавани утром. ";
  }
  EXPECT_EQ(page_as_utf8(russian, "text/html; charset=utf-8"), read);
  EXPECT_EQ(page_as_utf8("a\xff z", "text/html; charset=no-such"), "a\xef\xbf\xbd z");
  EXPECT_EQ(page_as_utf8("", ""), "");
}

}  // namespace
}  // namespace stoa::curate

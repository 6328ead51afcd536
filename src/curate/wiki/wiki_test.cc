// Exports of MediaWiki as documents, and their wikitext as text: written cases, and real pages next to what
// mwparserfromhell leaves of them (tests/oracle/make_wiki_fixtures.py).
#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/test_folder.h"
#include "base/test_paths.h"
#include "curate/io/document_reader.h"
#include "curate/io/input_files.h"
#include "curate/text/character.h"
#include "curate/wiki/dump.h"
#include "curate/wiki/wikitext.h"
#include "data/byte_source.h"
#include "data/test_files.h"

namespace stoa::curate {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string plain(std::string_view wikitext, const std::string& language = "en") {
  return wikitext_to_text(wikitext,
                          read_wiki_site("<mediawiki xml:lang=\"" + language + "\"><siteinfo></siteinfo>"));
}

TEST(Wikitext, LinksBecomeTheirLabels) {
  EXPECT_EQ(plain("The [[Cat|cats]] and [[dog]]s of [[Rome, Italy|]]."), "The cats and dogs of Rome, Italy.");
  EXPECT_EQ(plain("See [http://a.b c d] and [https://x.y] or http://z."), "See c d and or http://z.");
  EXPECT_EQ(plain("[[File:A.jpg|thumb|A [[cat]] {{x}}]]Text[[Category:Cats]] [[fr:Chat]]"), "Text");
  EXPECT_EQ(plain("[[Datei:A.jpg|mini|Eine [[Katze]]]]Text [[Bild:B.png]]", "de"), "Text");
  EXPECT_EQ(plain("[[:File:A.jpg]] and [[:Category:Cats|cats]]"), "File:A.jpg and cats");
  EXPECT_EQ(plain("[[Planet (astronomy)|]] [[Help:X|]]"), "Planet X");
  EXPECT_EQ(plain("An open [[link and\nanother line]]"), "An open [[link and\nanother line]]");
}

TEST(Wikitext, TemplatesTablesAndReferencesGo) {
  EXPECT_EQ(plain("{{Infobox\n| a = {{b|c}}\n|}}\nA word{{ref}}, and<ref name=\"x\">{{cite|y}}</ref> "
                  "more.<ref name=x />"),
            "A word, and more.");
  EXPECT_EQ(plain("{{{param|x}}}a{{{{{1}}}}}b"), "ab");
  EXPECT_EQ(plain("Rome ({{lang|it|Roma}}; Latin: Roma) and ({{x}}) here {{y}} now"),
            "Rome (Latin: Roma) and here now");
  EXPECT_EQ(plain("a\n{|class=x\n|-\n| one || {{t|\n|}}\n{|\n|inner\n|}\n|}\nb"), "a\nb");
  EXPECT_EQ(plain("a\n{| never\n| closed\n! row\nb"), "a\nb");
  EXPECT_EQ(plain("{{ never closed [[a|b]]"), "{{ never closed b");
  EXPECT_EQ(plain("closed }} twice ]] |}"), "closed }} twice ]] |}");
  EXPECT_EQ(plain("a <math>x^2</math>b <table><tr><td><table></table>x</td></tr></table>c<!-- d -->e"),
            "a b ce");
}

TEST(Wikitext, LinesAreHeadingsItemsAndText) {
  EXPECT_EQ(
      plain("Intro.\n== Life ==\n=== Youth ===\nBorn.\n== See also ==\n{{x}}\n== Notes ==\n<references/>\n"),
      "Intro.\n\nLife\n\nYouth\nBorn.");
  EXPECT_EQ(plain("* one\n** inner\n* two\n# first\n# second\n#* under\n# third\n: said\n;term"),
            "- one\n- inner\n- two\n1. first\n2. second\n- under\n3. third\nsaid\nterm");
  EXPECT_EQ(plain("'''Bold''', ''italic'' and '''''both'''''. It's 'fine'."),
            "Bold, italic and both. It's 'fine'.");
  EXPECT_EQ(plain("''A Proposal'''s satire"), "A Proposal's satire");
  EXPECT_EQ(plain("a&nbsp;b &amp; c &lt;d&gt;<br>e\n\n\n\nf\n----\n__NOTOC__g"), "a b & c <d>\ne\n\nf\ng");
  EXPECT_EQ(plain("x\n<source lang=\"c\">\nif (a[0]) {\n  # * = '' {{b}}\n}\n</source>\ny "
                  "<nowiki>''[[z]]''</nowiki>"),
            "x\nif (a[0]) {\n  # * = '' {{b}}\n}\n\ny ''[[z]]''");
}

TEST(Wikitext, VariantsOfALanguage) {
  EXPECT_EQ(plain("我-{zh-cn:软件;zh-tw:軟體}-和-{简}-", "zh"), "我软件和简");
  EXPECT_EQ(plain("{{x}}-{H|zh-cn:a;zh-tw:b}-好", "zh"), "好");
  EXPECT_EQ(plain("f(-{x}-)"), "f(-{x}-)");
}

TEST(Wiki, ASiteSaysWhatItCallsNamespaces) {
  const WikiSite site = read_wiki_site(
      "<mediawiki "
      "xml:lang=\"de\"><siteinfo><dbname>dewiki</dbname><base>https://de.wikipedia.org/wiki/"
      "Wikipedia:Hauptseite</base>"
      "<namespaces><namespace key=\"6\" case=\"x\">Datei</namespace><namespace key=\"14\">Neue "
      "Kategorie</namespace></namespaces>");
  EXPECT_EQ(site.base, "https://de.wikipedia.org/wiki/");
  EXPECT_THAT(site.file_names, ElementsAre("file", "image", "datei", "bild"));
  EXPECT_THAT(site.category_names, ElementsAre("category", "kategorie", "neue kategorie"));
  EXPECT_EQ(wiki_address(site, "Straße 5 (Köln)"), "https://de.wikipedia.org/wiki/Stra%C3%9Fe_5_(K%C3%B6ln)");
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  std::size_t begin = 0;
  const auto end_word = [&](std::size_t end) {
    if (end > begin) words.push_back(text.substr(begin, end - begin));
  };
  for (std::size_t at = 0; at < text.size();) {
    const Character c = read_character(text.data() + at);
    if (!characters().has(c.value, kWord)) {
      end_word(at);
      begin = at + c.length;
    }
    at += c.length;
  }
  end_word(text.size());
  return words;
}

TEST(Wiki, RealPagesHaveTheWordsThatMwparserfromhellLeaves) {
  int pages = 0;
  for (const char* edition : {"en", "bg"}) {
    const fs::path folder = test::source_dir() / "tests/fixtures/curate/wiki" / edition;
    std::map<std::string, std::string> expected;
    std::istringstream rows(read_text(folder / "words.jsonl"));
    for (std::string row; std::getline(rows, row);) {
      const auto json = nlohmann::json::parse(row);
      expected[json["title"]] = json["words"];
    }
    WikiReader reader(folder / "pages.xml.bz2");
    for (std::string_view xml; reader.next(xml);) {
      const WikiPage page = read_wiki_page(xml);
      const auto row = expected.find(page.title);
      if (row == expected.end()) continue;
      ++pages;
      const std::string text = wikitext_to_text(page.text, *reader.site());
      EXPECT_EQ(words_of(text), words_of(row->second)) << page.title;
    }
  }
  EXPECT_GE(pages, 7);
}

TEST(Wiki, TruncatedExportsAreFaultsAfterTheirLastPage) {
  const TestFolder folder;
  const std::string whole = read_text(test::source_dir() / "tests/fixtures/curate/wiki/en/pages.xml.bz2");
  const auto read = [&](std::string_view bytes, const char* name) {
    write_text(folder / name, bytes);
    const std::vector<data::TextInput> inputs = find_inputs({folder / name});
    DocumentReader reader(inputs, {}, {});
    std::pair<std::size_t, std::string> out;
    for (InputBlock block; reader.next(block); out.first += block.block.documents.size())
      if (!block.fault.empty()) out.second = block.fault;
    return out;
  };
  const auto all = read(whole, "a.xml.bz2");
  EXPECT_EQ(all.second, "");
  EXPECT_EQ(all.first, 8u);
  const auto half = read(std::string_view(whole).substr(0, whole.size() / 2), "b.xml.bz2");
  EXPECT_THAT(half.second, HasSubstr("truncated"));
  EXPECT_GT(half.first, 0u);
  EXPECT_LT(half.first, 8u);
  std::string corrupt = whole;
  corrupt[whole.size() / 2] ^= 0x55;
  EXPECT_THAT(read(corrupt, "c.xml.bz2").second, HasSubstr("not valid bzip2 data"));
  EXPECT_THAT(read("<mediawiki><page><title>x</title>", "d.xml").second, HasSubstr("within a page"));
  EXPECT_THAT(read("<mediawiki></siteinfo>", "e.xml").second, HasSubstr("ends without </mediawiki>"));
  EXPECT_THAT(read("<html></html>", "f.xml").second, HasSubstr("no export of MediaWiki"));
}

}  // namespace
}  // namespace stoa::curate

// Filters next to the programs whose decisions they repeat (tests/oracle/make_curate_filter_fixtures.py).
#include <gmock/gmock.h>

#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/test_folder.h"
#include "curate/filters/datatrove.h"
#include "curate/filters/dclm.h"
#include "curate/filters/decontaminate.h"
#include "curate/filters/dolma.h"
#include "curate/filters/nemo.h"
#include "curate/filters/pii/finders.h"
#include "curate/filters/pii/ip_address.h"
#include "curate/filters/pii/pii.h"
#include "curate/filters/roots.h"
#include "curate/filters/rpv2.h"
#include "curate/filters/url_filter.h"
#include "curate/text/word_break.h"
#include "data/test_files.h"

namespace stoa::curate {
namespace {

std::vector<nlohmann::json> rows_of(const std::string& name) {
  std::vector<nlohmann::json> rows;
  std::istringstream lines(read_text(test::source_dir() / "tests/fixtures/curate" / name));
  for (std::string line; std::getline(lines, line);) rows.push_back(nlohmann::json::parse(line));
  EXPECT_GT(rows.size(), 50U);
  return rows;
}

Document after(const Stage& stage, Document document, Verdict& verdict) {
  Features features;
  features.reset(document.text);
  stage.apply(document, features, verdict);
  EXPECT_EQ(features.text(), document.text);
  return document;
}

TEST(NemoHeuristics, SameFiltersFailInTheSameOrder) {
  const auto stage = make_stage(NemoHeuristics{});
  std::set<std::string> seen;
  for (const auto& row : rows_of("nemo.jsonl")) {
    const auto fails = row["fails"].get<std::vector<std::string>>();
    seen.insert(fails.begin(), fails.end());
    Verdict deciding, measuring(Verdict::Mode::kMeasure);
    after(*stage, {"", row["text"], "", ""}, deciding);
    EXPECT_EQ(deciding.rule(), fails.empty() ? "" : fails.front()) << row["text"];
    after(*stage, {"", row["text"], "", ""}, measuring);
    std::vector<std::string> all;
    for (const Verdict::Value& value : measuring.values())
      if (value.fails) all.push_back(value.rule);
    EXPECT_EQ(all, fails) << row["text"];
  }
  EXPECT_GE(seen.size(), 15U);
}

// Values by rule, of a text.
std::map<std::string, double> values_of(const Stage& stage, const std::string& text) {
  Verdict measuring(Verdict::Mode::kMeasure);
  after(stage, {"", text, "", ""}, measuring);
  std::map<std::string, double> values;
  for (const Verdict::Value& value : measuring.values()) values[value.rule] = value.value;
  return values;
}

TEST(DolmaTaggers, SameScoresAndLines) {
  const TestFolder folder;
  write_text(folder / "naughty", "harbour\nof the ferry\n");
  DolmaTaggers options;
  options.naughty_words = (folder / "naughty").string();
  const auto v1 = make_stage(options);
  options.ignore_empty_lines = true;
  options.javascript_as_word = true;  // c4_v1
  const auto v2 = make_stage(options);
  DolmaTaggers cut;
  cut.min_word_count = cut.min_required_word_count = 0;
  cut.min_median_word_length = cut.max_median_word_length = cut.max_symbol_to_word_ratio =
      cut.min_words_with_alpha_character = cut.max_lines_starting_with_bullet_point =
          cut.max_lines_ending_with_ellipsis = cut.max_duplicate_lines =
              cut.max_characters_in_duplicate_lines = 0;
  cut.most_common_ngram = cut.duplicate_ngrams = {};
  const auto cutting = make_stage(cut);
  std::set<std::string> seen;
  for (const auto& row : rows_of("dolma.jsonl")) {
    const std::string text = row["text"];
    const auto one = values_of(*v1, text), two = values_of(*v2, text);
    for (const auto& [rule, value] : row["v1"].items()) {
      if (rule == "character_count") continue;
      ASSERT_EQ(one.count(rule), 1U) << rule << ": " << text;
      EXPECT_NEAR(one.at(rule), value.get<double>(), 1e-12) << rule << ": " << text;
      EXPECT_NEAR(two.at(rule), row["v2"][rule].get<double>(), 1e-12) << rule << ": " << text;
      if (value != 0) seen.insert(rule);
    }
    for (const auto& [rule, value] : row["c4"].items()) {
      EXPECT_NEAR(one.at(rule), value.get<double>(), 1e-12) << rule << ": " << text;
      if (value != 0) seen.insert(rule);
    }
    for (const char* rule : {"has_curly_brace", "has_lorem_ipsum", "has_javascript", "has_naughty_word"}) {
      EXPECT_EQ(one.at(rule) != 0, row["c4"].contains(rule)) << rule << ": " << text;
      const auto v1_rules = row["c4_v1"].get<std::vector<std::string>>();
      EXPECT_EQ(two.at(rule) != 0, std::count(v1_rules.begin(), v1_rules.end(), rule) == 1)
          << rule << ": " << text;
    }
    Verdict verdict;
    const Document left = after(*cutting, {"", text, "", ""}, verdict);
    if (!verdict.dropped()) {
      EXPECT_EQ(left.text, row["left"].get<std::string>()) << text;
    }
  }
  EXPECT_GE(seen.size(), 24U);
}

TEST(DclmHeuristics, SamePagesForTheSameReasonAndTheSameLines) {
  const auto stage = make_stage(DclmHeuristics{});
  std::set<std::string> seen;
  for (const auto& row : rows_of("dclm.jsonl")) {
    Verdict verdict;
    const Document left = after(*stage, {"", row["text"], "", ""}, verdict);
    EXPECT_EQ(verdict.rule(), row["rule"].get<std::string>()) << row["text"];
    if (row.contains("left")) {
      EXPECT_EQ(left.text, row["left"].get<std::string>()) << row["text"];
    }
    seen.insert(verdict.rule());
  }
  EXPECT_GE(seen.size(), 10U);
}

TEST(RedPajamaSignals, SameSignals) {
  const TestFolder folder;
  write_text(folder / "bad", "harbour\nof the ferry\n");
  write_text(folder / "stop", "the\nof\nand\nto\na\nin\nis\n");
  RedPajamaSignals options;
  options.bad_words = (folder / "bad").string();
  options.stop_words = (folder / "stop").string();
  const auto stage = make_stage(options);
  std::set<std::string> seen;
  for (const auto& row : rows_of("rpv2.jsonl")) {
    const auto values = values_of(*stage, row["text"]);
    for (const auto& [rule, value] : row.items()) {
      if (rule == "text") continue;
      ASSERT_EQ(values.count(rule), 1U) << rule << ": " << row["text"];
      // Those of lines are rounded one by one there.
      EXPECT_NEAR(values.at(rule), value.get<double>(), rule.starts_with("rps_lines") ? 1e-8 : 1e-12)
          << rule << ": " << row["text"];
      if (value != 0) seen.insert(rule);
    }
  }
  EXPECT_GE(seen.size(), 27U);
  options.stop_words.clear();
  options.min_stop_word_fraction = 0.1;
  EXPECT_THROW(make_stage(options), ConfigError);
}

TEST(C4BadWords, StandAloneOrAnywhere) {
  const TestFolder folder;
  write_text(folder / "bad", "harbour\nRed Boat\n\xe6\x82\xaa\n");
  C4BadWords options;
  options.words = (folder / "bad").string();
  const auto whole = make_stage(options);
  options.whole_words = false;
  const auto anywhere = make_stage(options);
  const auto drops = [](const Stage& stage, const std::string& text) {
    Verdict verdict;
    after(stage, {"", text, "", ""}, verdict);
    return verdict.rule() == "document_removed_with_badwords";
  };
  EXPECT_TRUE(drops(*whole, "In the HARBOUR."));
  EXPECT_TRUE(drops(*whole, "red boat"));
  EXPECT_FALSE(drops(*whole, "The harbours and _harbour and red  boat"));
  EXPECT_TRUE(drops(*whole, "harbours, harbour"));
  EXPECT_FALSE(drops(*whole, "善悪の"));
  EXPECT_TRUE(drops(*anywhere, "善悪の"));
  EXPECT_THROW(make_stage(C4BadWords{}), ConfigError);
}

// Editors of Windows write marks, line ends and encodings of their own, and published lists are compressed.
TEST(C4BadWords, ListsMayBeWrittenInAnyWay) {
  const TestFolder folder;
  const auto drops = [&](const char* name, std::string_view list) {
    write_text(folder / name, list);
    C4BadWords options;
    options.words = (folder / name).string();
    Verdict verdict;
    after(*make_stage(options), {"", "the caf\xc3\xa9 there", "", ""}, verdict);
    return verdict.dropped();
  };
  EXPECT_TRUE(drops("mark",
                    "\xef\xbb\xbf"
                    "caf\xc3\xa9\r\nboat\r\n"));
  EXPECT_TRUE(drops("latin", "caf\xe9\nboat\n"));
  EXPECT_TRUE(drops("wide", std::string_view("\xff\xfe"
                                             "c\0a\0f\0\xe9\0\n\0",
                                             12)));
  const std::string frame =
      std::string("\x28\xb5\x2f\xfd\x00\x58\x31\0\0", 9) + "caf\xc3\xa9\n";  // one block
  EXPECT_TRUE(drops("packed.zst", frame));
  EXPECT_FALSE(drops("other", "boat\n"));
}

// docs/add-a-filter.md shows code as it is.
TEST(C4BadWords, ThePageShowsItsCode) {
  const auto root = test::source_dir();
  std::string code;
  for (const char* file : {"filters/datatrove.h", "filters/c4_bad_words.cc", "run/stage_kinds.cc"})
    code += read_text(root / "src/curate" / file);
  const std::string page = read_text(root / "docs/add-a-filter.md"), begin = "```cpp\n";
  int blocks = 0;
  for (std::size_t at = page.find(begin); at != page.npos; at = page.find(begin, at + 1), ++blocks) {
    const std::size_t from = at + begin.size();
    const std::string block = page.substr(from, page.find("```", from) - from);
    EXPECT_NE(code.find(block), code.npos) << block;
  }
  EXPECT_EQ(blocks, 3);
}

TEST(WordBreaks, AreThoseOfUnicode) {
  for (const auto& row : rows_of("word_breaks.jsonl")) {
    const std::string text = row["text"];
    std::vector<std::string_view> pieces;
    split_at_word_breaks(text, pieces);
    EXPECT_EQ(std::vector<std::string>(pieces.begin(), pieces.end()),
              row["words"].get<std::vector<std::string>>())
        << text;
  }
}

TEST(Pii, ReplacesWhatDatatroveReplaces) {
  PiiOptions options;
  options.email_replacement = {"<mail>"};
  options.ip_replacement = {"<ip>"};
  const auto public_only = make_stage(options);
  options.only_remove_public_ips = false;
  const auto all = make_stage(options);
  for (const auto& row : rows_of("pii.jsonl")) {
    Verdict verdict;
    EXPECT_EQ(after(*public_only, {"", row["text"], "", ""}, verdict).text, row["public"].get<std::string>())
        << row["text"];
    EXPECT_EQ(after(*all, {"", row["text"], "", ""}, verdict).text, row["all"].get<std::string>())
        << row["text"];
  }
}

TEST(Pii, FindsWhatDolmaAndStarCoderFind) {
  const auto name_of = [](PiiKind kind, bool dolma) {
    return kind == PiiKind::kPhone   ? "PHONE_NUMBER"
           : kind != PiiKind::kEmail ? "IP_ADDRESS"
           : dolma                   ? "EMAIL_ADDRESS"
                                     : "EMAIL";
  };
  const auto as_json = [&](const std::vector<PiiMatch>& matches, bool dolma) {
    nlohmann::json rows = nlohmann::json::array();
    for (const PiiMatch& m : matches) rows.push_back({m.begin, m.end, name_of(m.kind, dolma)});
    return rows;
  };
  PiiOptions options;
  options.rule = PiiRule::kStarCoder;
  options.email_replacement = {"<mail>"};
  options.ip_replacement = {"<ip>"};
  options.ipv6_replacement = {"<ipv6>"};
  const auto redact = make_stage(options);
  // Others of the same form: STOA_PII_ROWS=FILE.
  const char* more = std::getenv("STOA_PII_ROWS");
  int redacted = 0;
  for (const auto& row : rows_of(more != nullptr ? more : "pii_dialects.jsonl")) {
    const std::string text = row["text"];
    EXPECT_EQ(as_json(find_dolma_pii(text), true), row["dolma"]) << text;
    EXPECT_EQ(as_json(find_starcoder_pii(text), false), row["starcoder"]) << text;
    if (!row.contains("redacted")) continue;
    ++redacted;
    Verdict verdict;
    EXPECT_EQ(after(*redact, {"", text, "", ""}, verdict).text, row["redacted"].get<std::string>()) << text;
  }
  EXPECT_GT(redacted, 100);
}

TEST(Pii, DolmaMasksFewAddressesAndDropsDocumentsWithMany) {
  PiiOptions options;
  options.rule = PiiRule::kDolma;
  const auto stage = make_stage(options);
  Verdict verdict;
  EXPECT_EQ(
      after(*stage, {"", "Write to joe@host.org or call (212) 555-1234 at 1.2.3.4 now", "", ""}, verdict)
          .text,
      "Write to |||EMAIL_ADDRESS||| or call |||PHONE_NUMBER|||  at  |||IP_ADDRESS|||  now");
  EXPECT_FALSE(verdict.dropped());
  after(*stage, {"", "1.2.3.4 1.2.3.5 1.2.3.6 1.2.3.7 1.2.3.8 1.2.3.9", "", ""}, verdict);
  EXPECT_EQ(verdict.rule(), "doc_count");
}

TEST(Pii, AddressesArePrivateOrGlobalAsPythonSaysIt) {
  EXPECT_FALSE(parse_ipv4("1.2.3.04"));
  EXPECT_FALSE(parse_ipv4("1.2.3"));
  EXPECT_FALSE(parse_ipv4("1.2.3.4.5"));
  EXPECT_TRUE(is_private_ipv4(parse_ipv4("172.31.0.1").value()));
  EXPECT_FALSE(is_private_ipv4(parse_ipv4("100.64.1.1").value()));
  EXPECT_FALSE(is_global_ipv4(parse_ipv4("100.64.1.1").value()));
  for (const char* bad : {"", ":", ":::", "1::2::3", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9",
                          "12345::", "1:2:3:4:5:6:7:8::", "::1%"})
    EXPECT_FALSE(parse_ipv6(bad)) << bad;
  for (const char* inside :
       {"::", "::1", "::ffff:10.0.0.1", "fe80::1%eth0", "fd00::1", "2001:db8::1", "2001:10::", "100::1"})
    EXPECT_TRUE(is_private_ipv6(parse_ipv6(inside).value())) << inside;
  for (const char* outside : {"2001:4860:4860::8888", "::ffff:8.8.8.8", "1:2:3:4:5:6:7::", "2600::", "::2"})
    EXPECT_FALSE(is_private_ipv6(parse_ipv6(outside).value())) << outside;
}

TEST(Pii, TheSameAddressAlwaysBecomesTheSame) {
  const auto stage = make_stage(PiiOptions{});
  Verdict verdict;
  const std::string one = after(*stage, {"", "a@b.org", "", ""}, verdict).text;
  EXPECT_EQ(after(*stage, {"", "x@y.org a@b.org", "", ""}, verdict)
                .text.substr(after(*stage, {"", "x@y.org", "", ""}, verdict).text.size() + 1),
            one);
}

TEST(Roots, MeasuresWhatItsOwnFiltersMeasure) {
  const TestFolder folder;
  write_text(folder / "stop", "the\nof\nand\nto\nin\na\nis\n");
  write_text(folder / "flagged", "files\nblue\n");
  RootsFilter options;
  options.incorrect_word_substrings = {"http", "www", ".com", "href", "//"};
  options.length_word_max_cutoff = 25;
  options.stop_words = (folder / "stop").string();
  options.flagged_words = (folder / "flagged").string();
  const auto stage = make_stage(options);
  for (const auto& row : rows_of("roots.jsonl")) {
    Verdict verdict(Verdict::Mode::kMeasure);
    EXPECT_EQ(after(*stage, {"", row["text"], "", ""}, verdict).text, row["left"].get<std::string>());
    for (const Verdict::Value& value : verdict.values())
      EXPECT_NEAR(value.value, row[value.rule].get<double>(), 1e-12) << value.rule << ": " << row["text"];
    EXPECT_EQ(verdict.values().size(), 7u);
  }
}

// In languages whose words have several pieces, groups of pieces are looked up, too.
TEST(Roots, GroupsOfWordsAreLookedUp) {
  const TestFolder folder;
  const auto share = [&](const std::string& list, const std::string& joint, const std::string& text) {
    write_text(folder / "stop", list);
    RootsFilter options;
    options.stop_words = (folder / "stop").string();
    options.words_augmentation_group_sizes = {2};
    options.words_augmentation_join_char = joint;
    Verdict verdict(Verdict::Mode::kMeasure);
    after(*make_stage(options), {"", text, "", ""}, verdict);
    for (const Verdict::Value& value : verdict.values())
      if (value.rule == "stopwords") return value.value;
    return -1.0;
  };
  EXPECT_DOUBLE_EQ(
      share("b\u1edfi v\u00ec\nv\u00e0\n", " ", "B\u1edfi v\u00ec tr\u1eddi v\u00e0 \u0111\u1ea5t"), 2.0 / 5);
  EXPECT_DOUBLE_EQ(share("\u7684\n\u56e0\u4e3a\n", "", "\u56e0 \u4e3a \u6211 \u7684"), 2.0 / 4);
  EXPECT_DOUBLE_EQ(share("a\na a\n", " ", "a a a"), 1.0);  // never more than all
}

TEST(UrlFilter, ListsDecideInOrder) {
  const TestFolder folder;
  write_text(folder / "domains", "# comment\nbad.org\nsub.fine.org\n");
  write_text(folder / "urls", "http://fine.org/page\n");
  write_text(folder / "words", "casino\n");
  write_text(folder / "soft", "poker\nslots\n");
  write_text(folder / "subwords", "xxxl\n");
  const auto stage = make_stage(UrlFilter{(folder / "domains").string(), (folder / "urls").string(),
                                          (folder / "words").string(), (folder / "soft").string(),
                                          (folder / "subwords").string(), 2});
  const auto rule = [&](const std::string& url) {
    Verdict verdict;
    after(*stage, {"", "text", "", url}, verdict);
    return verdict.rule();
  };
  EXPECT_EQ(rule("https://bad.org/x"), "subdomain");
  EXPECT_EQ(rule("https://user@A.Bad.org:80/x"), "domain");
  EXPECT_EQ(rule("https://notbad.org/x"), "");
  EXPECT_EQ(rule("http://sub.fine.org"), "subdomain");
  EXPECT_EQ(rule("http://fine.org/page"), "url");
  EXPECT_EQ(rule("http://fine.org/casino-x"), "hard_blacklisted");
  EXPECT_EQ(rule("http://fine.org/Casino-x"), "");  // as datatrove: capitals escape
  EXPECT_EQ(rule("http://fine.org/poker"), "");
  EXPECT_EQ(rule("http://fine.org/poker/slots"), "soft_blacklisted");
  EXPECT_EQ(rule("http://fine.org/a-XX-xl"), "blacklisted_subword");
  EXPECT_EQ(rule(""), "no_url");
  write_text(folder / "patterns", "\xef\xbb\xbf*.Wild.org\r\n.dot.org\r\n");
  UrlFilter patterns;
  patterns.domains = (folder / "patterns").string();
  const auto wild = make_stage(patterns);
  for (const char* url : {"http://wild.org/", "http://a.wild.org/", "http://b.dot.org/"}) {
    Verdict verdict;
    after(*wild, {"", "text", "", url}, verdict);
    EXPECT_TRUE(verdict.dropped()) << url;
  }
  EXPECT_THROW(make_stage(UrlFilter{}), ConfigError);
  EXPECT_THROW(make_stage(UrlFilter{.domains = (folder / "none").string(),
                                    .urls = {},
                                    .banned_words = {},
                                    .soft_banned_words = {},
                                    .banned_subwords = {}}),
               IoError);
}

Decontaminate with_tests(Contamination rule, const std::string& file) {
  Decontaminate options;
  options.rule = rule;
  options.files = {file};
  return options;
}

TEST(Decontaminate, CutsAndDropsWhatJanitorAndDatatroveDo) {
  const std::string tests = (test::source_dir() / "tests/fixtures/curate/contamination_tests.jsonl").string();
  const auto gpt3 = make_stage(with_tests(Contamination::kGpt3, tests)),
             datatrove = make_stage(with_tests(Contamination::kDatatrove, tests));
  Decontaminate with_questions = with_tests(Contamination::kDatatrove, tests);
  with_questions.find_query_ngrams = true;
  const auto query = make_stage(with_questions);
  for (const auto& row : rows_of("contaminated.jsonl")) {
    const Document document{"", row["text"], "", ""};
    std::string pieces;
    for (const auto& piece : row["gpt3"]) pieces += (pieces.empty() ? "" : "\n\n") + piece.get<std::string>();
    Verdict cut, drop, drop_query;
    const std::string left = after(*gpt3, document, cut).text;
    EXPECT_EQ(cut.dropped() ? "" : left, pieces) << document.text;
    EXPECT_EQ(cut.rule(), pieces.empty() ? "contamination_tests.jsonl" : "");
    after(*datatrove, document, drop);
    EXPECT_EQ(drop.dropped(), row["datatrove"].get<bool>()) << document.text;
    after(*query, document, drop_query);
    EXPECT_EQ(drop_query.dropped(), row["datatrove_query"].get<bool>()) << document.text;
  }
}

TEST(Decontaminate, ParagraphsOfTestsDropDocuments) {
  const TestFolder folder;
  write_text(
      folder / "tests.txt",
      "one two three four five six seven eight nine ten eleven twelve thirteen\n\ntoo short to be found\n");
  const auto stage = make_stage(with_tests(Contamination::kDolma, (folder / "tests.txt").string()));
  const auto rule = [&](const std::string& text) {
    Verdict verdict;
    after(*stage, {"", text, "", ""}, verdict);
    return verdict.rule();
  };
  EXPECT_EQ(rule("a\n one two three four five six seven eight nine ten eleven twelve thirteen \nb"),
            "tests.txt");
  EXPECT_EQ(rule("one two three four five six seven eight nine ten eleven twelve thirteen fourteen\ntoo "
                 "short to be found"),
            "");
}

TEST(Decontaminate, MistakesAreNamed) {
  const TestFolder folder;
  const auto said = [&](const std::string& name, const std::string& content) {
    write_text(folder / name, content);
    try {
      make_stage(with_tests(Contamination::kGpt3, (folder / name).string()));
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(said("a.jsonl", "{\"q\":1}\n"),
              ::testing::HasSubstr("a.jsonl' line 1: it has neither a text \"question\" nor \"answer\""));
  EXPECT_THAT(said("b.jsonl", "nothing\n"), ::testing::HasSubstr("b.jsonl' line 1: no JSON object"));
  EXPECT_THAT(said("c.txt", "a short one"), ::testing::HasSubstr("no test that is long enough"));
  EXPECT_THROW(make_stage(Decontaminate{}), ConfigError);
}

}  // namespace
}  // namespace stoa::curate

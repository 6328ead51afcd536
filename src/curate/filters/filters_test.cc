// Filters next to the programs whose decisions they repeat (tests/oracle/make_curate_filter_fixtures.py).
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "curate/filters/decontaminate.h"
#include "curate/filters/nemo.h"
#include "curate/filters/pii.h"
#include "curate/filters/url_filter.h"
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

TEST(Pii, TheSameAddressAlwaysBecomesTheSame) {
  const auto stage = make_stage(PiiOptions{});
  Verdict verdict;
  const std::string one = after(*stage, {"", "a@b.org", "", ""}, verdict).text;
  EXPECT_EQ(after(*stage, {"", "x@y.org a@b.org", "", ""}, verdict)
                .text.substr(after(*stage, {"", "x@y.org", "", ""}, verdict).text.size() + 1),
            one);
}

TEST(UrlFilter, ListsDecideInOrder) {
  const data::TestFolder folder;
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
  const data::TestFolder folder;
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
  const data::TestFolder folder;
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

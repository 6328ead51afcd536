#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "base/error.h"
#include "base/test_folder.h"
#include "curate/dedup/clusters.h"
#include "curate/dedup/cutter.h"
#include "curate/dedup/record_sorter.h"
#include "curate/text/ccnet_form.h"
#include "curate/text/word_break.h"
#include "data/test_files.h"

namespace stoa::curate {
namespace {

TEST(Clusters, RanksOfScoresAreInTheOrderOfTheScores) {
  const std::vector<double> scores{std::nan(""), -INFINITY, -2.5, -0.001, 0, 0.001, 2.5, INFINITY};
  for (std::size_t i = 1; i < scores.size(); ++i)
    EXPECT_LT(rank_of_score(scores[i - 1]), rank_of_score(scores[i])) << scores[i];
}

TEST(RecordSorter, SortsWhatDoesNotFitIntoMemory) {
  std::mt19937_64 random(3);
  std::vector<KeyRecord> records(50'000);
  for (auto& r : records) r = {random() % 1000, random() % 1000};
  const TestFolder folder;
  for (const std::size_t memory : {std::size_t{1} << 24, std::size_t{1} << 10}) {
    RecordSorter sorter(folder.path(), memory);
    for (const auto& r : records) sorter.add(r);
    std::vector<KeyRecord> sorted;
    sorter.each([&](const KeyRecord& r) { sorted.push_back(r); });
    EXPECT_EQ(sorter.runs() > 1, memory == 1 << 10);
    ASSERT_EQ(sorted.size(), records.size());
    auto expected = records;
    std::sort(expected.begin(), expected.end());
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      ASSERT_EQ(sorted[i].key, expected[i].key);
      ASSERT_EQ(sorted[i].document, expected[i].document);
    }
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Clusters, JoinedDocumentsShareTheFirstOne) {
  Clusters clusters(6);
  clusters.join(4, 2);
  clusters.join(5, 4);
  clusters.join(0, 3);
  EXPECT_EQ(clusters.root(5), 2U);
  EXPECT_EQ(clusters.root(3), 0U);
  EXPECT_EQ(clusters.root(1), 1U);
  const std::vector<std::uint32_t> lengths = {5, 1, 7, 6, 9, 9};
  EXPECT_THAT(find_removed(clusters, {}), ::testing::ElementsAre(false, false, false, true, true, true));
  EXPECT_THAT(find_removed(clusters, lengths), ::testing::ElementsAre(true, false, true, false, false, true));
}

using Texts = std::vector<std::string>;

// What the cutter leaves of texts; "-" where it drops one.
Texts cut_all(Cutter& cutter, Texts texts) {
  for (int pass = 0; pass < cutter.passes(); ++pass) {
    for (const std::string& text : texts) cutter.see(pass, text);
    cutter.end_pass(pass);
  }
  for (std::string& text : texts)
    if (!cutter.cut(text)) text = "-";
  return texts;
}

TEST(CcnetForm, AsCcnetNormalizesForDeduplication) {
  CcnetForm form;
  EXPECT_EQ(form(" Ünï １23 «Σ» x—y… ok\t\x01z.,! \n"), "ünï 000 σ xy okz.,!");
  EXPECT_EQ(form("！（％）►\u0085a\u00a0b"), "a\u00a0b");
}

TEST(UnitCutter, TheFirstCopiesStay) {
  const TestFolder folder;
  const auto run = [&](Unit unit, UnitCut options, const Texts& texts) {
    fs::remove_all(folder / "own");
    fs::create_directories(folder / "own");
    return cut_all(*make_unit_cutter(unit, options, {folder / "own", 1 << 16}), texts);
  };
  using ::testing::ElementsAre;
  EXPECT_THAT(run(Unit::kLine, {}, {"One 1\ntwo\n\nthree", "one 2\nfour\nTWO", "two", "\n\nfive\nfour"}),
              ElementsAre("One 1\ntwo\n\nthree", "four", "-", "five"));
  EXPECT_THAT(run(Unit::kLine, {.min_characters = 4}, {"two\nthree", "two\nthree"}),
              ElementsAre("two\nthree", "two"));
  EXPECT_THAT(run(Unit::kLine, {.copies = 2}, {"two\na", "two\nb", "two\nc"}),
              ElementsAre("two\na", "two\nb", "c"));
  EXPECT_THAT(run(Unit::kLine, {.compare = UnitForm::kAsWritten}, {"two", "Two", "two"}),
              ElementsAre("two", "Two", "-"));
  EXPECT_THAT(run(Unit::kParagraph, {}, {"a\nb\n\nc", "a\nb\n\n\n\nc d\n\nc", "b\n\nx"}),
              ElementsAre("a\nb\n\nc", "c d", "b\n\nx"));
}

Texts random_texts(std::mt19937_64& random, int count) {
  const Texts stems{"the ", "boat ", "harbour\n", "größe ", "中文字", "sea. ", "a", "of ", "water ", "\n"};
  Texts pieces, texts;
  for (int i = 0; i < 12; ++i) {
    std::string piece;
    for (int k = 0; k < 20; ++k)
      piece += stems[random() % stems.size()] + (random() % 3 == 0 ? std::to_string(random() % 100) : "");
    pieces.push_back(piece);
  }
  for (int i = 0; i < count; ++i) {
    std::string text;
    for (int k = 0; k < 6; ++k) {
      const std::string& piece = pieces[random() % pieces.size()];
      std::size_t from = random() % 3 == 0 ? random() % piece.size() : 0;
      while (from < piece.size() && (static_cast<unsigned char>(piece[from]) & 0xc0) == 0x80) ++from;
      text += piece.substr(from) + std::to_string(random() % 1000000) + " ";
    }
    texts.push_back(std::move(text));
  }
  return texts;
}

// Against all windows of all texts in a map.
TEST(SubstringCutter, CutsWhatOccurredBeforeInWholeWords) {
  std::mt19937_64 random(11);
  constexpr std::size_t kLength = 40;
  const TestFolder folder;
  for (int round = 0; round < 20; ++round) {
    Texts texts = random_texts(random, 12);
    if (round % 4 == 0) texts.push_back(std::string(500, 'a'));
    fs::remove_all(folder / "own");
    fs::create_directories(folder / "own");
    const Texts left =
        cut_all(*make_substring_cutter({.min_bytes = kLength}, {folder / "own", 1 << 16}), texts);
    std::map<std::string, int> counts, seen;
    for (const std::string& text : texts)
      for (std::size_t i = 0; i + kLength <= text.size(); ++i) ++counts[text.substr(i, kLength)];
    for (std::size_t t = 0; t < texts.size(); ++t) {
      const std::string& text = texts[t];
      std::vector<char> copy(text.size()), kept(text.size());
      for (std::size_t i = 0; i + kLength <= text.size(); ++i) {
        const std::string window = text.substr(i, kLength);
        if (counts[window] < 2) continue;
        auto& marks = seen[window]++ == 0 ? kept : copy;
        std::fill_n(marks.begin() + static_cast<std::ptrdiff_t>(i), kLength, 1);
      }
      // Only such bytes go, all but some at the ends of each cut.
      std::size_t may = 0;
      const std::string& out = left[t] == "-" ? std::string() : left[t];
      const std::size_t gone = text.size() - out.size();
      for (std::size_t i = 0; i < text.size(); ++i) may += copy[i] && !kept[i];
      EXPECT_LE(gone, may);
      EXPECT_GE(gone + 200, may) << text;
      for (std::size_t i = 0; i < out.size(); ++i)
        if (i == 0 || out[i - 1] == ' ') {
          EXPECT_NE(static_cast<unsigned char>(out[i]) & 0xc0, 0x80) << "a character was cut";
        }
    }
    for (const auto& [window, count] : counts) {
      if (count < 2) continue;
      bool found = false;
      for (const std::string& text : left) found = found || text.find(window) != text.npos;
      EXPECT_TRUE(found) << "no copy is left of: " << window;
    }
  }
}

// BFF's rule with a set instead of a filter: a paragraph begins with the line end before it.
TEST(BloomCutter, AsBffAndDolmaDecide) {
  std::mt19937_64 random(5);
  const TestFolder folder;
  Texts texts = random_texts(random, 60);
  const auto cutter = make_bloom_cutter(
      {.false_positive_rate = 1e-9, .min_ngram_size = 3, .max_ngram_size = 5}, {folder.path(), 1 << 24});
  const Texts left = cut_all(*cutter, texts);
  std::set<Texts> seen;
  int dropped = 0, cut = 0;
  for (std::size_t t = 0; t < texts.size(); ++t) {
    const std::string& text = texts[t];
    std::vector<std::size_t> ends{0};
    for (std::size_t at = text.find('\n'); at != text.npos; at = text.find('\n', at + 1)) ends.push_back(at);
    ends.push_back(text.size());
    std::string expected;
    std::size_t all = 0, known = 0;
    for (std::size_t p = 0; p + 1 < ends.size(); ++p) {
      const std::string paragraph = text.substr(ends[p], ends[p + 1] - ends[p]);
      std::vector<std::string_view> pieces;
      split_at_word_breaks(paragraph, pieces);
      Texts words;
      for (const auto piece : pieces)
        if (piece.find_first_not_of(" \n") != piece.npos) words.emplace_back(piece);
      std::vector<Texts> grams;
      for (std::size_t i = 0; i + 5 <= words.size(); ++i)
        grams.emplace_back(words.begin() + static_cast<std::ptrdiff_t>(i),
                           words.begin() + static_cast<std::ptrdiff_t>(i) + 5);
      if (grams.empty() && words.size() >= 3) grams.push_back(words);
      const auto own = static_cast<std::size_t>(
          std::count_if(grams.begin(), grams.end(), [&](const Texts& g) { return seen.contains(g); }));
      all += grams.size();
      known += own;
      if (!grams.empty() && static_cast<double>(own) / static_cast<double>(grams.size()) > 0.8) continue;
      seen.insert(grams.begin(), grams.end());
      expected += paragraph;
    }
    if (all > 0 && static_cast<double>(known) / static_cast<double>(all) > 0.8) expected = "-";
    EXPECT_EQ(left[t], expected) << text;
    dropped += expected == "-";
    cut += expected != "-" && expected != text;
  }
  EXPECT_GT(dropped, 3);
  EXPECT_GT(cut, 3);
  BloomCut dolma{.rule = BloomRule::kDolma, .false_positive_rate = 1e-9, .min_length = 2};
  EXPECT_THAT(cut_all(*make_bloom_cutter(dolma, {folder.path(), 1 << 20}),
                      {"one\ntwo\n\nx\none", "two\nx\nthree", "one\ntwo", "One"}),
              ::testing::ElementsAre("one\ntwo\n\nx\n", "x\nthree", "-", "One"));
  EXPECT_THROW(cut_all(*make_bloom_cutter(dolma, {folder.path(), 4}), {"one"}), ConfigError);
}

}  // namespace
}  // namespace stoa::curate

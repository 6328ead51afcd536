#include "data/blend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_folder.h"
#include "data/builder.h"
#include "data/splits.h"
#include "data/test_files.h"

namespace stoa::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::vector<std::pair<std::int64_t, std::int64_t>> pairs(const BlendIndex& index) {
  std::vector<std::pair<std::int64_t, std::int64_t>> out;
  for (std::int64_t i = 0; i < index.dataset.rows(); ++i)
    out.emplace_back(index.dataset.at(i), index.sample.at(i));
  return out;
}

TEST(Blend, MatchesMegatron) {  // megatron-facts B4
  const auto index = build_blend_index(std::vector<double>{0.3, 0.7}, 10);
  EXPECT_THAT(pairs(index), ElementsAre(Pair(1, 0), Pair(0, 0), Pair(1, 1), Pair(1, 2), Pair(0, 1),
                                        Pair(1, 3), Pair(1, 4), Pair(0, 2), Pair(1, 5), Pair(1, 6)));
  EXPECT_EQ(index.dataset.type(), NpyType::kInt16);
  EXPECT_EQ(index.sample.type(), NpyType::kInt64);
}

TEST(Blend, ExhaustiveUsesEverySampleOnce) {
  const auto index = build_exhaustive_blend_index(std::vector<std::int64_t>{3, 0, 9});
  auto got = pairs(index);
  ASSERT_EQ(got.size(), 12u);
  std::sort(got.begin(), got.end());
  EXPECT_EQ(std::unique(got.begin(), got.end()), got.end());
  EXPECT_EQ(got[2], (std::pair<std::int64_t, std::int64_t>{0, 2}));
  EXPECT_EQ(got[11], (std::pair<std::int64_t, std::int64_t>{2, 8}));
}

TEST(Blend, SharesFollowTheSurplusRule) {
  EXPECT_EQ(blend_share(1000, 0.3), 300);
  EXPECT_EQ(blend_share_with_surplus(1000, 0.3), 302);  // 301.5 up
  EXPECT_EQ(blend_share(7, 0.5), 4);
  EXPECT_EQ(blend_share_with_surplus(7, 0.5), 5);
}

TEST(Blend, RefusesBadWeights) {
  EXPECT_THROW(normalize_weights(std::vector<double>{0, 0}), ConfigError);
  EXPECT_THROW(normalize_weights(std::vector<double>{1, -1}), ConfigError);
  EXPECT_THROW(normalize_weights(std::vector<double>{1, NAN}), ConfigError);
}

TEST(Splits, NormaliseAndRoundAsPython) {
  const auto ranges = split_ranges(parse_splits("969,30,1"), 1000);
  EXPECT_THAT(ranges, ElementsAre(Pair(0, 969), Pair(969, 999), Pair(999, 1000)));
  EXPECT_THAT(split_ranges(parse_splits("1, 1"), 5),
              ElementsAre(Pair(0, 2), Pair(2, 5), Pair(5, 5)));  // round(2.5) = 2
  EXPECT_THAT(split_ranges(parse_splits("100,0,0"), 7), ElementsAre(Pair(0, 7), Pair(7, 7), Pair(7, 7)));
}

TEST(Splits, RefuseWhatIsNoSplit) {
  for (const char* text : {"", "a,b", "1,2,3,4", "0,0,0", "-1,2", "1,,2", "nan", "1;2"})
    EXPECT_THROW(parse_splits(text), ConfigError) << text;
}

TEST(DataPrefix, ParsesBothForms) {
  EXPECT_EQ(parse_data_prefix({"a/b"}).weights.size(), 0u);
  const auto blend = parse_data_prefix({"0.3", "a", "0.7", "b"});
  EXPECT_THAT(blend.weights, ElementsAre(0.3, 0.7));
  EXPECT_EQ(blend.prefixes[1], "b");
  EXPECT_EQ(parse_data_prefix({"a", "b"}).prefixes.size(), 2u);
  EXPECT_THROW(parse_data_prefix({}), ConfigError);
  EXPECT_THROW(parse_data_prefix({"0.3", "a", "0.7"}), ConfigError);
  EXPECT_THROW(parse_data_prefix({"a", "0.7"}), ConfigError);
  EXPECT_THROW(parse_data_prefix({"0.3", "0.7"}), ConfigError);
}

TEST(RunSamples, FollowMegatron) {
  const auto n = samples_of_run(800, 100, 30, 5, 8);
  EXPECT_EQ(*n[0], 800);
  EXPECT_EQ(*n[1], 4 * 5 * 8);
  EXPECT_EQ(*n[2], 40);
}

class BuilderTest : public ::testing::Test {
 protected:
  TestFolder folder_;
  BuildOptions options_;
  std::string path(const char* name) const { return (folder_ / name).string(); }
  void SetUp() override {
    for (const int base : {100, 300}) {
      std::vector<std::vector<std::int32_t>> documents;
      for (int d = 0; d < 100; ++d) documents.push_back({base + d, base + d, base + d});
      write_documents(folder_ / (base == 100 ? "a" : "b"), documents);
    }
    options_.gpt.sequence_length = 4;
    options_.splits_string = "80,10,10";
    options_.samples = {40, 8, 0};
  }
};

TEST_F(BuilderTest, SplitsDoNotShareDocuments) {
  options_.data_prefix = {path("a")};
  const auto sets = build_datasets(options_);
  ASSERT_TRUE(sets.train && sets.validation);
  EXPECT_EQ(sets.test, nullptr);  // no samples were asked for
  EXPECT_GE(sets.train->size(), 40);
  for (std::int64_t k = 0; k < sets.train->size(); ++k)
    for (const auto& piece : sets.train->pieces(k)) EXPECT_LT(piece.sequence, 80);
  for (std::int64_t k = 0; k < sets.validation->size(); ++k)
    for (const auto& piece : sets.validation->pieces(k)) {
      EXPECT_GE(piece.sequence, 80);
      EXPECT_LT(piece.sequence, 90);
    }
  EXPECT_TRUE(fs::exists(folder_ / "cache"));
}

TEST_F(BuilderTest, WeightedBlendTakesItsShares) {
  options_.data_prefix = {"3", path("a"), "7", path("b")};
  const auto sets = build_datasets(options_);
  ASSERT_EQ(sets.train->size(), 40);
  int from_b = 0;
  Batch batch;
  for (std::int64_t k = 0; k < 40; ++k) {
    fill_batch(*sets.train, std::vector{k}, batch);
    from_b += batch.tokens[0] >= 300;
  }
  EXPECT_EQ(from_b, 28);
  EXPECT_EQ(sets.train->pieces(0).front().prefix, path("b"));
}

TEST_F(BuilderTest, UnweightedBlendIsOneEpochOfAll) {
  options_.data_prefix = {path("a"), path("b")};
  const auto sets = build_datasets(options_);
  EXPECT_EQ(sets.train->size(), 2 * 59);  // (80 * 3 - 1) / 4
}

TEST_F(BuilderTest, OneListPerSplit) {
  options_.split_prefix = {std::vector{path("a")}, std::vector{path("b")}, {}};
  const auto sets = build_datasets(options_);
  Batch batch;
  fill_batch(*sets.validation, std::vector<std::int64_t>{0}, batch);
  EXPECT_GE(batch.tokens[0], 300);
  options_.data_prefix = {path("a")};
  EXPECT_THROW(build_datasets(options_), ConfigError);
}

TEST_F(BuilderTest, SaysWhenASplitIsEmpty) {
  options_.data_prefix = {path("a")};
  options_.splits_string = "999,1,0";
  try {
    build_datasets(options_);
    FAIL();
  } catch (const DataError& e) {
    EXPECT_THAT(e.what(), HasSubstr("valid split"));
  }
}

TEST_F(BuilderTest, RefusesAnotherTokenizersData) {
  IndexedWriter writer(folder_ / "c", TokenDtype::kUint16);
  writer.add_document(std::vector<std::int32_t>(900, 7));
  Provenance provenance;
  provenance.tokenizer_fingerprint = "aaaa";
  writer.commit(provenance);
  options_.data_prefix = {path("c")};
  options_.splits_string = "1";
  options_.tokenizer_fingerprint = "bbbb";
  EXPECT_THROW(build_datasets(options_), DataError);
  options_.tokenizer_fingerprint = "aaaa";
  EXPECT_NO_THROW(build_datasets(options_));
  options_.data_prefix = {path("a")};  // says nothing about its tokenizer
  int notices = 0;
  build_datasets(options_, [&](std::string_view) { ++notices; });
  EXPECT_EQ(notices, 1);
}

}  // namespace
}  // namespace stoa::data

#include "data/gpt_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <thread>

#include "base/error.h"
#include "base/test_folder.h"
#include "data/numpy_random.h"
#include "data/test_files.h"

namespace stoa::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(NumpyRandom, MatchesNumpy) {  // megatron-facts B3, numpy 1.24
  NumpyRandom raw(1234);
  for (const std::uint32_t expected : {822569775u, 2137449171u, 2671936806u, 3512589365u, 1880026316u})
    EXPECT_EQ(raw.next_u32(), expected);
  NumpyRandom random(1234);
  std::vector<int> values{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  random.shuffle(std::span(values));
  EXPECT_THAT(values, ElementsAre(7, 2, 9, 1, 0, 8, 4, 5, 6, 3));
  NumpyRandom doubles(1234);  // numpy.random.RandomState(1234).random_sample(3)
  EXPECT_EQ(doubles.next_double(), 0.1915194503788923);
  EXPECT_EQ(doubles.next_double(), 0.6221087710398319);
  EXPECT_EQ(doubles.next_double(), 0.4377277390071145);
}

// numpy.random.RandomState(1234).geometric(p, size=8): one formula below 1 / 3, one from there on.
TEST(NumpyRandom, CountsTrials) {
  const auto drawn = [](double p) {
    NumpyRandom random(1234);
    std::vector<std::int64_t> out(8);
    for (auto& trials : out) trials = random.geometric(p);
    return out;
  };
  EXPECT_THAT(drawn(1.0 / 64), ElementsAre(14, 62, 37, 98, 97, 21, 21, 103));
  EXPECT_THAT(drawn(0.2), ElementsAre(1, 5, 3, 7, 7, 2, 2, 8));
  EXPECT_THAT(drawn(1.0 / 3), ElementsAre(1, 3, 2, 4, 4, 1, 1, 4));
  EXPECT_THAT(drawn(1), ElementsAre(1, 1, 1, 1, 1, 1, 1, 1));
}

TEST(NumpyRandom, DrawsWideIntervalsFromTwoWords) {
  NumpyRandom wide(1234);
  const std::uint64_t first = std::uint64_t{822569775u} << 32 | 2137449171u;
  EXPECT_EQ(wide.interval(~std::uint64_t{0}), first);
}

std::vector<std::int64_t> flat(const NpyArray& a) {
  std::vector<std::int64_t> out;
  for (std::int64_t r = 0; r < a.rows(); ++r)
    for (std::int64_t c = 0; c < a.columns(); ++c) out.push_back(a.at(r, c));
  return out;
}

GptIndexInput input_of(const std::vector<std::int64_t>& lengths, std::int64_t s,
                       std::optional<std::int64_t> samples) {
  GptIndexInput in;
  in.last = static_cast<std::int64_t>(lengths.size());
  in.length = [lengths](std::int64_t i) { return lengths[static_cast<std::size_t>(i)]; };
  in.sequence_length = s;
  in.samples = samples;
  return in;
}

TEST(GptIndex, OneEpoch) {  // megatron-facts B3
  const auto in = input_of({5, 3, 7}, 4, 3);
  const auto plan = plan_epochs(in);
  EXPECT_EQ(plan.epochs, 1);
  const auto index = build_gpt_index(in, plan);
  EXPECT_THAT(flat(index.document_index), ElementsAre(0, 1, 2));
  EXPECT_THAT(flat(index.sample_index), ElementsAre(0, 0, 0, 4, 2, 0, 2, 4));
  EXPECT_THAT(flat(index.shuffle_index), ElementsAre(1, 2, 0));
}

TEST(GptIndex, TwoEpochsShuffledTogether) {
  const auto in = input_of({5, 3, 7}, 4, 5);
  const auto plan = plan_epochs(in);
  EXPECT_EQ(plan.epochs, 2);
  EXPECT_FALSE(plan.separate_last);
  const auto index = build_gpt_index(in, plan);
  EXPECT_THAT(flat(index.document_index), ElementsAre(2, 1, 2, 0, 1, 0));
  EXPECT_THAT(flat(index.sample_index), ElementsAre(0, 0, 0, 4, 1, 1, 2, 2, 2, 6, 3, 3, 4, 2, 5, 3));
  EXPECT_THAT(flat(index.shuffle_index), ElementsAre(5, 0, 3, 4, 2, 6, 1));
}

TEST(GptIndex, TwoEpochsTheLastOnItsOwn) {
  const auto in = input_of({5, 3, 7, 6}, 4, 6);
  const auto plan = plan_epochs(in);
  EXPECT_EQ(plan.epochs, 2);
  EXPECT_TRUE(plan.separate_last);
  const auto index = build_gpt_index(in, plan);
  EXPECT_THAT(flat(index.document_index), ElementsAre(0, 1, 2, 3, 1, 2, 3, 0));
  EXPECT_THAT(flat(index.sample_index),
              ElementsAre(0, 0, 0, 4, 2, 0, 2, 4, 3, 1, 3, 5, 5, 0, 5, 4, 6, 1, 6, 5, 7, 3));
  EXPECT_THAT(flat(index.shuffle_index), ElementsAre(0, 2, 4, 3, 1, 5, 9, 8, 7, 6));
}

TEST(GptIndex, TypesAreMegatrons) {
  const auto in = input_of({5, 3, 7}, 4, 3);
  const auto index = build_gpt_index(in, plan_epochs(in));
  EXPECT_EQ(index.document_index.type(), NpyType::kInt32);
  EXPECT_EQ(index.sample_index.type(), NpyType::kInt32);
  EXPECT_EQ(index.shuffle_index.type(), NpyType::kUint32);
}

TEST(GptIndex, RefusesWhatHoldsNothing) {
  EXPECT_THROW(plan_epochs(input_of({0, 0}, 4, 3)), DataError);
  EXPECT_THROW(plan_epochs(input_of({5}, 0, 3)), ConfigError);
  EXPECT_THROW(plan_epochs(input_of({5}, 4, std::int64_t{1} << 62)), ConfigError);
}

class GptDatasetTest : public ::testing::Test {
 protected:
  TestFolder folder_;
  std::vector<std::string> notices_;
  GptOptions options_ = [] {
    GptOptions o;
    o.sequence_length = 4;
    return o;
  }();

  Notice notice() {
    return [this](std::string_view text) { notices_.emplace_back(text); };
  }
  // Documents whose ids say where they are from: document d, token i is 10 * (d + 1) + i; the last is 0 with
  // `eod`.
  std::shared_ptr<const IndexedDataset> documents(const std::vector<int>& lengths, bool eod = false) {
    std::vector<std::vector<std::int32_t>> all;
    for (std::size_t d = 0; d < lengths.size(); ++d) {
      all.emplace_back();
      for (int i = 0; i < lengths[d]; ++i) all.back().push_back(static_cast<std::int32_t>(10 * (d + 1)) + i);
      if (eod) all.back().back() = 0;
    }
    write_documents(folder_ / "corpus", all);
    return std::make_shared<IndexedDataset>(folder_ / "corpus");
  }
  GptDataset dataset(const std::vector<int>& lengths, std::optional<std::int64_t> samples, bool eod = false) {
    auto data = documents(lengths, eod);
    return GptDataset(data, 0, data->sequences(), samples, options_, "train", IndexCache({}));
  }
  static Batch all_of(const Dataset& dataset) {
    std::vector<std::int64_t> samples;
    for (std::int64_t k = 0; k < dataset.size(); ++k) samples.push_back(k);
    Batch batch;
    fill_batch(dataset, samples, batch);
    return batch;
  }
};

TEST_F(GptDatasetTest, SampleIsInputAndNextTokens) {
  const auto data = dataset({5, 3, 7}, 3);  // rows (0,0)(0,4)(2,0)(2,4), shuffle 1 2 0
  const Batch batch = all_of(data);
  EXPECT_THAT(batch.tokens, ElementsAre(14, 20, 21, 22, /**/ 30, 31, 32, 33, /**/ 10, 11, 12, 13));
  EXPECT_THAT(batch.labels, ElementsAre(20, 21, 22, 30, /**/ 31, 32, 33, 34, /**/ 11, 12, 13, 14));
  EXPECT_THAT(batch.position_ids, ElementsAre(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3));
  EXPECT_EQ(batch.valid_tokens, 12);
  EXPECT_THAT(batch.boundaries(1), ElementsAre(0, 4));
  const auto pieces = data.pieces(0);
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(pieces[0].sequence, 0);
  EXPECT_EQ(pieces[0].offset, 4);
  EXPECT_EQ(pieces[2].sequence, 2);
  EXPECT_EQ(pieces[2].length, 1);
}

TEST_F(GptDatasetTest, EveryTokenIsSeenOncePerEpochAndSampleIsPure) {
  options_.sequence_length = 5;
  const auto data = dataset({9, 1, 4, 8, 2, 6, 1}, {});
  ASSERT_EQ(data.size(), 6);  // (31 - 1) / 5
  std::multiset<std::int32_t> labels;
  const Batch batch = all_of(data);
  labels.insert(batch.labels.begin(), batch.labels.end());
  EXPECT_EQ(labels.size(), 30u);
  for (const auto id : labels) EXPECT_EQ(labels.count(id), 1u) << id;
  Batch again;
  fill_batch(data, std::vector<std::int64_t>{3}, again);
  EXPECT_TRUE(std::equal(again.tokens.begin(), again.tokens.end(), batch.tokens.begin() + 15));
}

TEST_F(GptDatasetTest, EodMasksLossAndResetsPositions) {
  options_.eod_id = 0;
  options_.eod_mask_loss = true;
  options_.reset_position_ids = true;
  options_.sequence_length = 6;
  const auto data = dataset({3, 4}, 1, true);  // 10 11 0 20 21 22 0 in some order of the two
  const Batch batch = all_of(data);
  if (batch.tokens[0] == 10) {
    EXPECT_THAT(batch.tokens, ElementsAre(10, 11, 0, 20, 21, 22));
    EXPECT_THAT(batch.loss_mask, ElementsAre(1, 1, 0, 1, 1, 1));
    EXPECT_THAT(batch.position_ids, ElementsAre(0, 1, 2, 0, 1, 2));
  } else {
    EXPECT_THAT(batch.tokens, ElementsAre(20, 21, 22, 0, 10, 11));
    EXPECT_THAT(batch.loss_mask, ElementsAre(1, 1, 1, 0, 1, 1));
    EXPECT_THAT(batch.position_ids, ElementsAre(0, 1, 2, 3, 0, 1));
  }
  EXPECT_EQ(batch.valid_tokens, 5);
  EXPECT_THAT(batch.boundaries(0), ElementsAre(0, 6));  // attention was not asked to reset
}

// No segment of the boundaries may hold tokens of two documents, with end-of-document tokens or without.
TEST_F(GptDatasetTest, BoundariesDoNotLeakDocuments) {
  for (const bool eod : {true, false}) {
    options_.eod_id = eod ? 0 : -1;
    options_.reset_attention_mask = true;
    options_.sequence_length = 11;
    const auto data = dataset({5, 1, 9, 2, 7, 3, 8, 1, 1, 6}, 40, eod);
    const Batch batch = all_of(data);
    int joins = 0;
    for (std::int64_t r = 0; r < batch.rows; ++r) {
      const auto bounds = batch.boundaries(r);
      ASSERT_GE(bounds.size(), 2u);
      EXPECT_EQ(bounds.front(), 0);
      EXPECT_EQ(bounds.back(), 11);
      for (std::size_t b = 0; b + 1 < bounds.size(); ++b) {
        ASSERT_LT(bounds[b], bounds[b + 1]);
        joins += b > 0;
        int document = -1;
        for (int i = bounds[b]; i < bounds[b + 1]; ++i) {
          const int id = batch.tokens[static_cast<std::size_t>(r * 11 + i)];
          if (id == 0) {
            EXPECT_EQ(i + 1, bounds[b + 1]) << "an end of document inside a segment";
            continue;
          }
          if (document < 0) document = id / 10;
          EXPECT_EQ(id / 10, document) << "row " << r << " position " << i;
        }
      }
    }
    EXPECT_GT(joins, 40);
  }
}

TEST_F(GptDatasetTest, ShortSamplesArePaddedAndCarryNoLoss) {
  options_.drop_last_partial = false;
  const auto data = dataset({7}, {});  // 6 positions of label: 4 + 2
  ASSERT_EQ(data.size(), 2);
  const Batch batch = all_of(data);
  const std::size_t at = batch.tokens[0] == 14 ? 0 : 4;
  EXPECT_THAT(std::vector(batch.tokens.begin() + at, batch.tokens.begin() + at + 4),
              ElementsAre(14, 15, 16, 0));
  EXPECT_THAT(std::vector(batch.labels.begin() + at, batch.labels.begin() + at + 4),
              ElementsAre(15, 16, 0, 0));
  EXPECT_THAT(std::vector(batch.loss_mask.begin() + at, batch.loss_mask.begin() + at + 4),
              ElementsAre(1, 1, 0, 0));
  EXPECT_EQ(batch.valid_tokens, 6);
}

TEST_F(GptDatasetTest, WithoutExtraTokenTheLastLabelIsMissing) {
  options_.add_extra_token = false;
  const auto data = dataset({8}, {});
  ASSERT_EQ(data.size(), 2);
  const Batch batch = all_of(data);
  const std::size_t at = batch.tokens[0] == 10 ? 0 : 4;
  EXPECT_THAT(std::vector(batch.tokens.begin() + at, batch.tokens.begin() + at + 4),
              ElementsAre(10, 11, 12, 13));
  EXPECT_THAT(std::vector(batch.labels.begin() + at, batch.labels.begin() + at + 4),
              ElementsAre(11, 12, 13, 0));
  EXPECT_THAT(std::vector(batch.loss_mask.begin() + at, batch.loss_mask.begin() + at + 4),
              ElementsAre(1, 1, 1, 0));
}

TEST_F(GptDatasetTest, EmptySequencesAreHarmless) {
  IndexedWriter writer(folder_ / "corpus", TokenDtype::kUint16);
  writer.add_document(std::vector<std::int32_t>{1, 2, 3, 4, 5}, std::vector<std::int32_t>{0, 3, 0, 2, 0});
  writer.commit({});
  const auto data = std::make_shared<IndexedDataset>(folder_ / "corpus");
  const GptDataset set(data, 0, 5, {}, options_, "train", IndexCache({}));
  ASSERT_EQ(set.size(), 1);
  const Batch batch = all_of(set);
  EXPECT_EQ(batch.valid_tokens, 4);
}

TEST_F(GptDatasetTest, RefusesIdsBeyondTheVocabulary) {
  options_.vocabulary = 16;
  const auto data = dataset({5, 3, 7}, 3);
  try {
    all_of(data);
    FAIL();
  } catch (const DataError& e) {
    EXPECT_THAT(e.what(), HasSubstr("the vocabulary has 16 entries"));
  }
}

TEST_F(GptDatasetTest, SaysWhenThereIsTooLittle) {
  options_.sequence_length = 100;
  EXPECT_THROW(dataset({5, 3, 7}, {}), DataError);
  options_.eod_mask_loss = true;
  options_.sequence_length = 4;
  EXPECT_THROW(dataset({5, 3, 7}, {}), ConfigError);
}

// --- the cache ---

TEST_F(GptDatasetTest, CacheGivesTheSameAndIsNumpys) {
  const auto data = documents({5, 3, 7, 6});
  const fs::path cache = folder_ / "cache";
  const GptDataset first(data, 0, 4, 6, options_, "train", IndexCache(cache, notice()));
  const auto plain = all_of(GptDataset(data, 0, 4, 6, options_, "train", IndexCache({})));
  const GptDataset second(data, 0, 4, 6, options_, "train", IndexCache(cache, notice()));
  EXPECT_EQ(all_of(first).tokens, plain.tokens);
  EXPECT_EQ(all_of(second).tokens, plain.tokens);
  EXPECT_TRUE(notices_.empty());
  int files = 0;
  for (const auto& entry : fs::directory_iterator(cache)) {
    ++files;
    EXPECT_THAT(entry.path().filename().string(), HasSubstr("-GPTDataset-train-"));
    if (entry.path().string().ends_with("sample_index.npy")) {
      const std::string text = read_text(entry.path());
      EXPECT_EQ(text.size(), 128u + 11 * 2 * 4);
      EXPECT_THAT(text, HasSubstr("{'descr': '<i4', 'fortran_order': False, 'shape': (11, 2), }"));
    }
  }
  EXPECT_EQ(files, 5);
}

TEST_F(GptDatasetTest, CacheIsNotUsedForOtherData) {
  const fs::path cache = folder_ / "cache";
  { const GptDataset set(documents({5, 3, 7}), 0, 3, 3, options_, "train", IndexCache(cache)); }
  const GptDataset set(documents({3, 5, 7}), 0, 3, 3, options_, "train",
                       IndexCache(cache));          // prepared again
  EXPECT_EQ(set.index().sample_index.at(1, 0), 1);  // of the new lengths
}

TEST_F(GptDatasetTest, DamagedCacheIsBuiltAgainAndSaid) {
  const auto data = documents({5, 3, 7, 6});
  const fs::path cache = folder_ / "cache";
  const auto expected =
      all_of(GptDataset(data, 0, 4, 6, options_, "train", IndexCache(cache, notice()))).tokens;
  std::vector<fs::path> arrays;
  for (const auto& entry : fs::directory_iterator(cache))
    if (entry.path().extension() == ".npy") arrays.push_back(entry.path());
  ASSERT_EQ(arrays.size(), 3u);
  for (const auto& path : arrays) {
    const std::string whole = read_text(path);
    for (const std::size_t size : {std::size_t{0}, std::size_t{9}, std::size_t{100}, whole.size() - 1}) {
      write_text(path, whole.substr(0, size));
      notices_.clear();
      EXPECT_EQ(all_of(GptDataset(data, 0, 4, 6, options_, "train", IndexCache(cache, notice()))).tokens,
                expected);
      ASSERT_EQ(notices_.size(), 1u);
      EXPECT_THAT(notices_[0], HasSubstr("rebuilt"));
      EXPECT_EQ(read_text(path), whole);
    }
    for (const int flipped : {1, 0x7e}) {  // right shape, other values
      std::string wild = whole;
      wild[wild.size() - 4] = static_cast<char>(wild[wild.size() - 4] ^ flipped);
      write_text(path, wild);
      notices_.clear();
      EXPECT_EQ(all_of(GptDataset(data, 0, 4, 6, options_, "train", IndexCache(cache, notice()))).tokens,
                expected);
      ASSERT_EQ(notices_.size(), 1u);
      EXPECT_THAT(notices_[0], HasSubstr("the checksums differ"));
      EXPECT_EQ(read_text(path), whole);
    }
  }
}

TEST_F(GptDatasetTest, AskedToStopItBuildsNothing) {
  std::stop_source stop;
  stop.request_stop();
  const fs::path cache = folder_ / "cache";
  EXPECT_THROW(GptDataset(documents({5, 3, 7, 6}), 0, 4, 6, options_, "train",
                          IndexCache(cache, notice(), stop.get_token())),
               Interrupted);
  EXPECT_FALSE(fs::exists(cache));
}

TEST_F(GptDatasetTest, UnwritableCacheFallsBackToMemoryAndSaysSo) {
  const auto data = documents({5, 3, 7});
  write_text(folder_ / "file", "not a folder");
  const GptDataset set(data, 0, 3, 3, options_, "train", IndexCache(folder_ / "file" / "cache", notice()));
  EXPECT_EQ(all_of(set).valid_tokens, 12);
  ASSERT_EQ(notices_.size(), 1u);
  EXPECT_THAT(notices_[0], HasSubstr("kept in memory"));
}

TEST_F(GptDatasetTest, ThreadsMayBuildAtOnce) {
  const auto data = documents(std::vector<int>(500, 9));
  const GptDataset plain(data, 0, 500, 5000, options_, "train", IndexCache({}));
  const auto expected = plain.index().shuffle_index.bytes();
  const std::vector<std::byte> bytes(expected.begin(), expected.end());
  for (int round = 0; round < 5; ++round) {
    const fs::path cache = folder_ / fmt::format("cache{}", round);
    std::vector<std::jthread> threads;
    std::atomic<int> same = 0;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        const GptDataset set(data, 0, 500, 5000, options_, "train", IndexCache(cache));
        const auto got = set.index().shuffle_index.bytes();
        same += std::equal(got.begin(), got.end(), bytes.begin(), bytes.end());
      });
    threads.clear();
    EXPECT_EQ(same, 4);
    EXPECT_EQ(std::distance(fs::directory_iterator(cache), {}), 5);  // and no temporary file
  }
}

TEST_F(GptDatasetTest, ProcessesMayBuildAtOnce) {
  const auto data = documents(std::vector<int>(300, 9));
  const fs::path cache = folder_ / "cache";
  std::vector<pid_t> children;
  for (int c = 0; c < 3; ++c) {
    const pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      bool good = false;
      try {
        bool noticed = false;
        const GptDataset set(data, 0, 300, 900, options_, "train",
                             IndexCache(cache, [&](std::string_view) { noticed = true; }));
        good = set.size() >= 900 && !noticed;
      } catch (...) {
      }
      ::_exit(good ? 0 : 1);
    }
    children.push_back(pid);
  }
  for (const pid_t pid : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(cache), {}), 5);
}

}  // namespace
}  // namespace stoa::data

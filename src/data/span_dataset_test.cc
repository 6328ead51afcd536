#include "data/span_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "base/test_folder.h"
#include "data/numpy_random.h"
#include "data/test_files.h"

namespace stoa::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(SpanLengths, AreThoseOfT5) {
  for (const auto& [source, tokens, target] :
       {std::tuple{512, 568, 114}, {1024, 1137, 229}, {256, 284, 58}}) {
    const SpanLengths lengths = fitting_spans(source, 0.15, 3);
    EXPECT_EQ(lengths.tokens, tokens);
    EXPECT_EQ(lengths.source(), source);
    EXPECT_EQ(lengths.target(), target);
  }
  for (std::int64_t source = 4; source < 200; ++source) {
    EXPECT_LE(fitting_spans(source, 0.15, 3).source(), source);
    EXPECT_GE(fitting_spans(source, 0.15, 3).source(), source - 1) << source;
    EXPECT_LE(fitting_spans(source, 0.9, 3).source(), source);
  }
  EXPECT_THROW(fitting_spans(512, 1, 3), ConfigError);
}

TEST(RandomLengths, AddUp) {
  NumpyRandom random(7);
  for (std::int64_t parts = 1; parts <= 12; ++parts) {
    const auto lengths = random_lengths(12, parts, random);
    EXPECT_EQ(static_cast<std::int64_t>(lengths.size()), parts);
    EXPECT_EQ(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}), 12);
    EXPECT_GE(*std::min_element(lengths.begin(), lengths.end()), 1);
  }
}

class Spans : public ::testing::Test {
 protected:
  // One document of the tokens 100, 101 ...: samples are in the order of the document's shuffle.
  std::shared_ptr<const GptDataset> text(std::int64_t tokens) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens) * 3);
    std::iota(ids.begin(), ids.end(), 100);
    write_documents(folder_ / "text", {ids});
    GptOptions options;
    options.sequence_length = tokens;
    options.add_extra_token = false;
    const IndexCache cache(folder_ / "cache", {});
    return std::make_shared<GptDataset>(std::make_shared<IndexedDataset>(folder_ / "text"), 0, 1, 3, options,
                                        "train", cache);
  }
  static SpanOptions options() {
    SpanOptions o;
    o.source_length = 19, o.target_length = 12, o.density = 0.3, o.mean_length = 2;
    o.sentinels = {90, 89, 88, 87};
    o.eos_id = 1;
    return o;
  }
  TestFolder folder_;
};

TEST_F(Spans, SamplesAreThoseOfNumpy) {
  const SpanLengths lengths = fitting_spans(19, 0.3, 2);
  ASSERT_EQ(lengths.tokens, 21);
  const SpanDataset data(text(21), options());
  Batch batch;
  fill_batch(data, std::vector<std::int64_t>{0, 1, 2}, batch);
  EXPECT_EQ(batch.sequence_length, 31);
  for (std::int64_t r = 0; r < 3; ++r) {
    const auto row = batch.row(r);
    // Put together again, source and target are the text.
    std::vector<std::int32_t> whole;
    std::size_t t = 19;
    const auto real = static_cast<std::size_t>(batch.boundaries(r)[1]);
    for (std::size_t i = 0; i + 1 < real; ++i) {
      if (row.tokens[i] >= 100) {
        whole.push_back(row.tokens[i]);
        continue;
      }
      EXPECT_EQ(row.labels[t++], row.tokens[i]);
      while (row.labels[t] >= 100) whole.push_back(row.labels[t++]);
    }
    EXPECT_EQ(row.tokens[real - 1], 1);
    EXPECT_EQ(row.labels[t], 1);
    ASSERT_EQ(whole.size(), 21u);
    for (std::size_t i = 1; i < whole.size(); ++i) EXPECT_EQ(whole[i], whole[i - 1] + 1);
    EXPECT_EQ(row.tokens[19], 0);  // the decoder begins with the start token, then has the labels before
    for (std::size_t i = 20; i <= t; ++i) EXPECT_EQ(row.tokens[i], row.labels[i - 1]);
    float sum = 0;
    for (std::size_t i = 0; i < 31; ++i) {
      sum += row.loss_mask[i];
      EXPECT_TRUE(row.loss_mask[i] == 0 || i >= 19);
    }
    EXPECT_EQ(sum, static_cast<float>(lengths.target()));
    EXPECT_EQ(row.position_ids[18], 18);
    EXPECT_EQ(row.position_ids[19], 0);
  }
  EXPECT_EQ(batch.valid_tokens, 3 * lengths.target());
  Batch again;
  fill_batch(data, std::vector<std::int64_t>{2}, again);
  EXPECT_TRUE(std::equal(again.tokens.begin(), again.tokens.end(), batch.tokens.begin() + 62));
}

TEST(RandomLengths, AreThoseOfNumpy) {
  NumpyRandom random(1234);
  EXPECT_THAT(random_lengths(6, 3, random), ElementsAre(2, 1, 3));
  EXPECT_THAT(random_lengths(14, 3, random), ElementsAre(4, 6, 4));
}

TEST_F(Spans, RefusesWhatDoesNotFit) {
  const auto refusal = [&](auto change) -> std::string {
    SpanOptions o = options();
    change(o);
    try {
      SpanDataset(text(21), o);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal([](SpanOptions&) {}), "");
  EXPECT_THAT(refusal([](SpanOptions& o) { o.target_length = 5; }),
              HasSubstr("t5.seq_length_dec of at least"));
  EXPECT_THAT(refusal([](SpanOptions& o) { o.sentinels.resize(1); }), HasSubstr("--sentinels"));
  EXPECT_THAT(refusal([](SpanOptions& o) { o.eos_id = -1; }), HasSubstr("no end-of-text token"));
  EXPECT_THROW(fitting_spans(3, 0.15, 3), ConfigError);
}

}  // namespace
}  // namespace stoa::data

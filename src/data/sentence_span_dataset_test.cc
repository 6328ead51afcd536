#include "data/sentence_span_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "base/test_folder.h"
#include "data/test_files.h"

namespace stoa::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ids = std::vector<std::int32_t>;

std::vector<std::int32_t> sentinels(std::int32_t count) {
  Ids out(static_cast<std::size_t>(count));
  std::iota(out.begin(), out.end(), 100);
  return out;
}

SentenceSpanOptions options() {
  SentenceSpanOptions out;
  out.source_length = 16, out.target_length = 8;
  out.sentinels = sentinels(4);
  out.eos_id = 59, out.start_id = 1;
  out.continues.assign(60, 0);
  std::fill(out.continues.begin() + 40, out.continues.end(), std::uint8_t{1});
  return out;
}

std::string message(const std::function<void()>& make) {
  try {
    make();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Made by Megatron-LM's data sets (tests/oracle/make_sentence_samples.py).
TEST(SentenceSpans, SamplesAreMegatrons) {
  const TestFolder folder;
  const auto all = read_fixture("t5_samples.json");
  write_sentences(folder / "text", all["documents"].get<std::vector<std::vector<Ids>>>());
  const auto data = std::make_shared<const IndexedDataset>(folder / "text");
  std::map<std::string, int> refused;
  for (const auto& c : all["cases"]) {
    SentenceSpanOptions o = options();
    o.source_length = c["source"], o.target_length = c["target"];
    o.short_probability = c["short"];
    o.ngrams.probability = c["probability"], o.ngrams.longest = c["ngram"];
    o.seed = c["seed"];
    o.sentinels = sentinels(c["sentinels"]);
    std::optional<std::int64_t> samples;
    if (!c["samples"].is_null()) samples = c["samples"].get<std::int64_t>();
    const SentenceSpanDataset set(data, 0, data->documents(), samples, o, "train", IndexCache{std::nullopt});
    ASSERT_EQ(set.size(), static_cast<std::int64_t>(c["rows"].size()));
    ASSERT_EQ(set.sequence_length(), o.source_length + o.target_length);
    for (std::int64_t k = 0; k < set.size(); ++k) {
      SCOPED_TRACE(k);
      const auto& item = c["items"][static_cast<std::size_t>(k)];
      const std::int64_t index[] = {k};
      Batch batch;
      if (item.contains("refused")) {
        const std::string what = item["refused"];
        EXPECT_THAT(message([&] { fill_batch(set, index, batch); }),
                    HasSubstr(what == "target" ? "t5.seq_length_dec" : "--sentinels"));
        ++refused[what];
        continue;
      }
      fill_batch(set, index, batch);
      const Ids source = item["source"], input = item["input"], labels = item["labels"];
      const auto at = batch.tokens.begin() + o.source_length;
      EXPECT_EQ(Ids(batch.tokens.begin(), batch.tokens.begin() + static_cast<std::ptrdiff_t>(source.size())),
                source);
      EXPECT_EQ(Ids(at, at + static_cast<std::ptrdiff_t>(input.size())), input);
      const auto label = batch.labels.begin() + o.source_length;
      EXPECT_EQ(Ids(label, label + static_cast<std::ptrdiff_t>(labels.size())), labels);
      EXPECT_EQ(batch.boundaries(0)[1], static_cast<std::int64_t>(source.size()));
      EXPECT_EQ(batch.valid_tokens, static_cast<std::int64_t>(labels.size()));
      for (std::size_t i = 0; i < batch.loss_mask.size(); ++i) {
        const auto from = static_cast<std::size_t>(o.source_length);
        EXPECT_EQ(batch.loss_mask[i], i >= from && i < from + labels.size() ? 1.0f : 0.0f);
      }
    }
  }
  EXPECT_GT(refused["target"], 0);
  EXPECT_GT(refused["sentinels"], 0);
}

class SentenceSpansRefuse : public ::testing::Test {
 protected:
  std::string made(const std::vector<std::vector<Ids>>& documents, const SentenceSpanOptions& o) {
    const fs::path prefix = folder_ / fmt::format("text{}", files_++);
    write_sentences(prefix, documents);
    const auto data = std::make_shared<const IndexedDataset>(prefix);
    return message([&] {
      const SentenceSpanDataset set(data, 0, data->documents(), {}, o, "train", IndexCache{std::nullopt});
      Batch batch;
      const std::int64_t first[] = {0};
      fill_batch(set, first, batch);
    });
  }
  TestFolder folder_;
  int files_ = 0;
};

TEST_F(SentenceSpansRefuse, WhatCannotWork) {
  const std::vector<std::vector<Ids>> two{{{5, 6, 7}, {8, 9, 41, 10}}};
  EXPECT_EQ(made(two, options()), "");
  SentenceSpanOptions o = options();
  o.sentinels.clear();
  EXPECT_THAT(made(two, o), HasSubstr("--sentinels 2"));
  o = options(), o.eos_id = -1;
  EXPECT_THAT(made(two, o), HasSubstr("no end-of-text token"));
  o = options(), o.target_length = 3;
  EXPECT_THAT(made(two, o), HasSubstr("seq_length_dec of at least 4, or 5 to fit every random sample"));
  o = options(), o.source_length = 3;
  EXPECT_THAT(made(two, o), HasSubstr("expected 4 or more"));
  EXPECT_THAT(made({{{5, 6}, {7, 99}}}, options()), HasSubstr("id 99"));
}

TEST_F(SentenceSpansRefuse, TextsWithoutSentences) {
  EXPECT_EQ(made({{{5, 6}}, {{7, 8, 9}}}, options()), "") << "short texts may be of one sentence";
  EXPECT_THAT(
      made({{Ids(40, 7)}, {{7, 8, 9}}}, options()),
      AllOf(HasSubstr("no sentence boundaries"), HasSubstr("up to 40 tokens, of which a source takes 14"),
            HasSubstr("--split-sentences")));
  EXPECT_EQ(made({{Ids(40, 7)}, {{7, 8}, {9}}}, options()), "") << "one long sentence is cut off";
  EXPECT_THAT(made({{Ids(513, 7), {8}}}, options()), HasSubstr("none longer than 512 tokens"));
}

}  // namespace
}  // namespace stoa::data

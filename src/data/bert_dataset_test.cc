#include "data/bert_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_folder.h"
#include "data/test_files.h"

namespace stoa::data {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<std::int32_t>;

MaskingTokens tokens() {
  MaskingTokens out;
  out.cls = 2, out.sep = 3, out.mask = 4, out.pad = 0;
  out.vocabulary = 60;
  for (int id = 0; id < 60; ++id) out.continues.push_back(id >= 40);
  return out;
}

// Made by Megatron-LM's data sets (tests/oracle/make_sentence_samples.py).
TEST(BertDataset, SamplesAreMegatrons) {
  const TestFolder folder;
  const auto all = read_fixture("bert_samples.json");
  write_sentences(folder / "text", all["documents"].get<std::vector<std::vector<Ids>>>());
  const auto data = std::make_shared<const IndexedDataset>(folder / "text");
  for (const auto& c : all["cases"]) {
    BertOptions options;
    options.sequence_length = c["length"];
    options.seed = c["seed"];
    options.sentence_pairs = c["pairs"];
    options.short_probability = c["short"];
    options.tokens = tokens();
    std::optional<std::int64_t> samples;
    if (!c["samples"].is_null()) samples = c["samples"].get<std::int64_t>();
    for (const bool cached : {false, true}) {
      const IndexCache cache(cached ? std::optional(folder / "cache") : std::nullopt);
      const BertDataset set(data, 0, data->documents(), samples, options, "train", cache);
      ASSERT_EQ(set.size(), static_cast<std::int64_t>(c["rows"].size()));
      for (std::int64_t k = 0; k < set.size(); ++k) {
        const auto& item = c["items"][static_cast<std::size_t>(k)];
        const std::int64_t index[] = {k};
        Batch batch;
        fill_batch(set, index, batch);
        const Ids labels = item["labels"].get<Ids>(), masked = item["tokens"].get<Ids>(),
                  types = item["types"].get<Ids>(), chosen = item["chosen"].get<Ids>();
        const auto length = static_cast<std::ptrdiff_t>(labels.size());
        ASSERT_EQ(Ids(batch.tokens.begin(), batch.tokens.begin() + length), masked) << "sample " << k;
        ASSERT_EQ(Ids(batch.labels.begin(), batch.labels.begin() + length), labels);
        ASSERT_EQ(Ids(batch.token_types.begin(), batch.token_types.begin() + length), types);
        ASSERT_EQ(batch.sentence_labels[0], item["swapped"].get<std::int32_t>());
        ASSERT_EQ(batch.boundaries(0).back(), length);
        ASSERT_EQ(batch.valid_tokens, static_cast<std::int64_t>(chosen.size()));
        for (const std::int32_t i : chosen) ASSERT_EQ(batch.loss_mask[static_cast<std::size_t>(i)], 1.0f);
        for (auto i = static_cast<std::size_t>(length); i < batch.tokens.size(); ++i)
          ASSERT_EQ(batch.tokens[i], 0);
      }
    }
  }
}

TEST(BertDataset, AskedToStopItBuildsNothing) {
  const TestFolder folder;
  write_sentences(folder / "text", {{{5, 6}, {7, 9}}, {{8}, {9, 10}}});
  const auto data = std::make_shared<const IndexedDataset>(folder / "text");
  BertOptions options;
  options.sequence_length = 16;
  options.tokens = tokens();
  std::stop_source stop;
  const IndexCache cache(folder / "cache", {}, stop.get_token());
  stop.request_stop();
  EXPECT_THROW(BertDataset(data, 0, data->documents(), {}, options, "train", cache), Interrupted);
  EXPECT_FALSE(fs::exists(folder / "cache"));
  const IndexCache none(std::nullopt, {}, stop.get_token());
  EXPECT_THROW(BertDataset(data, 0, data->documents(), {}, options, "train", none), Interrupted);
}

TEST(BertDataset, WhatCannotWorkIsRefused) {
  const TestFolder folder;
  write_sentences(folder / "single", {{{5, 6, 7, 8}}, {{9, 10}}});
  write_sentences(folder / "wild", {{{5, 6}, {7, 99}}});
  const auto open = [&](const char* name) { return std::make_shared<const IndexedDataset>(folder / name); };
  BertOptions options;
  options.sequence_length = 16;
  options.tokens = tokens();
  const IndexCache none{std::nullopt};
  const auto message = [&](const std::shared_ptr<const IndexedDataset>& data) -> std::string {
    try {
      const BertDataset set(data, 0, data->documents(), {}, options, "train", none);
      Batch batch;
      const std::int64_t first[] = {0};
      fill_batch(set, first, batch);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message(open("single")), HasSubstr("--split-sentences"));
  EXPECT_THAT(message(open("wild")), HasSubstr("id 99"));
  options.tokens.mask = -1;
  EXPECT_THAT(message(open("wild")), HasSubstr("[MASK]"));
}

}  // namespace
}  // namespace stoa::data

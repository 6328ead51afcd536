#include "tune/chat_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "data/numpy_random.h"
#include "tune/packing.h"
#include "tune/tuning_files.h"

namespace stoa::tune {
namespace {

using ::testing::ElementsAre;

TEST(Packing, BestFitDecreasing) {
  const std::vector<std::int64_t> lengths{4, 8, 1, 4, 2, 1};
  EXPECT_THAT(pack(lengths, 10),
              ElementsAre(ElementsAre(1, 4), ElementsAre(0, 2, 3, 5)));  // 8 + 2, 4 + 4 + 1 + 1
  EXPECT_THAT(pack(std::vector<std::int64_t>{3, 3, 3}, 5),
              ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2)));
}

TEST(Packing, EverySampleOnceAndNoRowTooFull) {
  data::NumpyRandom random(5);
  std::vector<std::int64_t> lengths;
  for (int i = 0; i < 3000; ++i)
    lengths.push_back(1 + static_cast<std::int64_t>(random.interval(99) * random.interval(9)) / 9);
  const auto rows = pack(lengths, 100);
  std::vector<int> seen(lengths.size());
  std::int64_t total = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  for (const auto& row : rows) {
    std::int64_t filled = 0;
    for (const auto sample : row) ++seen[sample], filled += lengths[sample];
    EXPECT_LE(filled, 100);
  }
  EXPECT_THAT(seen, ::testing::Each(1));
  EXPECT_LE(static_cast<std::int64_t>(rows.size()), total / 100 + total / 100 / 50 + 2);  // nearly full
}

EncodedSample sample(std::vector<token::TokenId> tokens, std::vector<std::uint8_t> trained,
                     std::int64_t record) {
  return {{std::move(tokens), std::move(trained)}, {}, {}, record};
}

std::shared_ptr<const EncodedFiles> three_samples() {
  auto files = std::make_shared<EncodedFiles>();
  files->samples = {sample({11, 12, 13, 14}, {0, 0, 1, 1}, 0), sample({21, 22, 23}, {1, 1, 1}, 1),
                    sample({31, 32}, {0, 1}, 2)};
  files->records = {{"a", 1}, {"a", 2}, {"b", 1}};
  return files;
}

TEST(ChatDataset, ARowHoldsSamplesThatDoNotSeeEachOther) {
  const ChatDataset packed(three_samples(), std::nullopt, {.sequence_length = 8, .packed = true, .pad = 9});
  ASSERT_EQ(packed.size(), 2);
  data::Batch batch;
  for (std::int64_t k = 0; k < 2; ++k) {
    const std::vector<std::int64_t> rows{k};
    data::fill_batch(packed, rows, batch);
    if (batch.tokens[0] == 31) {
      EXPECT_THAT(batch.tokens, ElementsAre(31, 32, 9, 9, 9, 9, 9, 9));
      continue;
    }
    EXPECT_THAT(batch.tokens, ElementsAre(11, 12, 13, 14, 21, 22, 23, 9));
    EXPECT_THAT(batch.labels, ElementsAre(12, 13, 14, 0, 22, 23, 0, 0));
    EXPECT_THAT(batch.loss_mask, ElementsAre(0, 1, 1, 0, 1, 1, 0, 0));
    EXPECT_THAT(batch.position_ids, ElementsAre(0, 1, 2, 3, 0, 1, 2, 0));
    EXPECT_THAT(batch.cu_seqlens, ElementsAre(0, 4, 7, 8));
    EXPECT_EQ(batch.valid_tokens, 4);
    const auto pieces = packed.pieces(k);
    ASSERT_EQ(pieces.size(), 2U);
    EXPECT_EQ(pieces[1].prefix, "a");
    EXPECT_EQ(pieces[1].sequence, 2);
  }
  const ChatDataset padded(three_samples(), std::nullopt,
                           {.sequence_length = 4, .packed = false, .shuffled = false});
  const std::vector<std::int64_t> rows{0, 1, 2};
  data::fill_batch(padded, rows, batch);
  EXPECT_THAT(batch.tokens, ElementsAre(11, 12, 13, 14, 21, 22, 23, 0, 31, 32, 0, 0));
  EXPECT_EQ(batch.valid_tokens, 5);
}

TEST(ChatDataset, RowsAreAPureFunctionOfTheirNumber) {
  const ChatDataset short_run(three_samples(), 5, {.sequence_length = 4, .packed = true});
  const ChatDataset long_run(three_samples(), 50, {.sequence_length = 4, .packed = true});
  for (std::int64_t k = 0; k < 5; ++k) {
    data::Batch a, b;
    const std::vector<std::int64_t> rows{k};
    data::fill_batch(short_run, rows, a);
    data::fill_batch(long_run, rows, b);
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_EQ(a.loss_mask, b.loss_mask);
  }
  // Every epoch has every sample once.
  std::vector<int> seen(3);
  for (std::int64_t k = 0; k < long_run.rows_per_epoch(); ++k)
    for (const RowText& text : long_run.texts(k)) ++seen[text.sample];
  EXPECT_THAT(seen, ::testing::Each(1));
}

TEST(ChatDataset, PairsLieTogether) {
  auto files = std::make_shared<EncodedFiles>();
  files->samples = {sample({1, 2, 3}, {0, 1, 1}, 0)};
  files->samples[0].rejected = EncodedText{{1, 4}, {0, 1}};
  files->records = {{"a", 1}};
  const ChatDataset set(files, std::nullopt, {.sequence_length = 6});
  const auto texts = set.texts(0);
  ASSERT_EQ(texts.size(), 2U);
  EXPECT_FALSE(texts[0].rejected);
  EXPECT_TRUE(texts[1].rejected);
  EXPECT_EQ(texts[1].begin, 3);
  EXPECT_EQ(texts[1].end, 5);
}

TEST(TuningFiles, ThreadsChangeNothing) {
  std::string lines;
  for (int i = 0; i < 200; ++i)
    lines += fmt::format("{{\"prompt\":\"question {}\",\"completion\":\"answer {}\"}}\n", i, i * i);
  std::vector<RecordFile> files;
  files.emplace_back("q.jsonl", lines);
  const TuningFiles tuning(std::move(files));
  EXPECT_THAT(tuning.descriptions(), ElementsAre("q.jsonl: 200 records, prompts and completions"));
  token::TokenizerSpec spec;
  for (int c = 0; c < 256; ++c)
    spec.vocabulary.push_back(token::ByteAlphabet().to_symbols(std::string(1, static_cast<char>(c))));
  spec.vocabulary.push_back("<|endoftext|>");
  spec.added = {{.id = 256, .content = "<|endoftext|>"}};
  spec.eos = "<|endoftext|>";
  const token::Tokenizer tokenizer(spec);
  const ChatText text = chat_text(tokenizer);
  const auto one = tuning.encode(0, 200, {tokenizer, text, 64, 1}),
             four = tuning.encode(0, 200, {tokenizer, text, 64, 4});
  ASSERT_EQ(one.files.samples.size(), 200U);
  for (std::size_t i = 0; i < 200; ++i) {
    EXPECT_EQ(one.files.samples[i].text.tokens, four.files.samples[i].text.tokens);
    EXPECT_EQ(one.files.samples[i].record, four.files.samples[i].record);
  }
  EXPECT_EQ(one.files.records[7].text(), "q.jsonl record 8");
}

TEST(ChatDataset, ATextWithAScoreHasItAtItsLastToken) {
  const std::vector<token::TokenId> text{11, 9, 12, 9, 9};
  EXPECT_EQ(scored_token(text, std::nullopt), 4);
  EXPECT_EQ(scored_token(text, 9), 2);                     // as transformers, where padding ends texts
  EXPECT_EQ(scored_token(std::span(text).last(2), 9), 1);  // of padding alone
  ChatDataset::Options options{.sequence_length = 8, .packed = true, .pad = 9};
  options.scored = true;
  options.unscored = 14;
  const ChatDataset rows(three_samples(), std::nullopt, options);
  data::Batch batch;
  std::vector<float> marked;
  for (std::int64_t k = 0; k < rows.size(); ++k) {
    data::fill_batch(rows, std::span(&k, 1), batch);
    for (const RowText& place : rows.texts(k))
      for (auto i = place.begin; i < place.end; ++i)
        if (batch.loss_mask[static_cast<std::size_t>(i)] != 0)
          marked.push_back(static_cast<float>(batch.tokens[static_cast<std::size_t>(i)]));
  }
  std::sort(marked.begin(), marked.end());
  EXPECT_THAT(marked, ElementsAre(13, 23, 32));
  EXPECT_EQ(rows.trained_tokens(), 3);
}

}  // namespace
}  // namespace stoa::tune

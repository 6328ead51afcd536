// Configuration of the training data (`model.data`) and of the tokenizer (`model.tokenizer`).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/schema.h"

namespace stoa::data {

struct WeightedPrefix {
  double weight = 1.0;
  std::string prefix;  // path without .bin / .idx
};

// `data_prefix`: PREFIX, [PREFIX…] (equal weights), [weight, PREFIX, …], or NeMo's {train: …, validation: …,
// test: …}.
struct DataPrefix {
  std::vector<WeightedPrefix> blend;                    // split by splits_string
  std::vector<WeightedPrefix> train, validation, test;  // instead: one blend per split
  bool empty() const { return blend.empty() && train.empty() && validation.empty() && test.empty(); }
};

// How samples of an encoder-decoder are made.
enum class DatasetType {
  kT5,           // data/span_dataset.h
  kT5Sentences,  // data/sentence_span_dataset.h
};
std::span<const config::EnumName<DatasetType>> enum_names(DatasetType);

struct DataConfig {
  DataPrefix data_prefix;
  std::string splits_string = "980,10,10";
  std::int64_t seq_length = 1024;  // the same value as model.encoder_seq_length
  bool eod_mask_loss = false;
  bool reset_position_ids = false;
  bool reset_attention_mask = false;
  // For models of kinds bert and t5.
  DatasetType dataset_type = DatasetType::kT5;
  double masked_lm_prob = 0.15;                // share of tokens to be predicted
  double short_seq_prob = 0.1;                 // share of samples shortened on purpose
  std::optional<double> mean_ngram_size;       // t5: mean length in tokens of a span to be predicted
  std::optional<std::int64_t> max_ngram_size;  // most words to be predicted together
  std::int64_t doc_stride = 128;               // question answering: tokens between the starts of two windows
  std::optional<std::string> index_mapping_dir;  // cached sample and shuffle indices; null: next to the data
};

enum class TokenizerLibrary { kHuggingface, kMegatron, kSentencepiece };
std::span<const config::EnumName<TokenizerLibrary>> enum_names(TokenizerLibrary);

struct TokenizerConfig {
  TokenizerLibrary library = TokenizerLibrary::kHuggingface;
  std::optional<std::string>
      type;  // huggingface: a directory with tokenizer.json; megatron: GPT2BPETokenizer
  std::optional<std::string> vocab_file;  // megatron
  std::optional<std::string> merge_file;  // megatron
  std::optional<std::string> model;       // sentencepiece: the .model file
  std::int64_t num_sentinel_tokens = 0;   // sentencepiece
};

void declare(config::Section<DataConfig>& s);
void declare(config::Section<TokenizerConfig>& s);

}  // namespace stoa::data

template <>
struct stoa::config::Codec<stoa::data::DataPrefix> {
  static stoa::data::DataPrefix parse(const Node& node);
  static Node print(const stoa::data::DataPrefix& value);
  static std::string type() { return "path, or list [weight, path, ...]"; }
};

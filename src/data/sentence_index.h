// Which sentences make which sample of a masked language model: Megatron's mapping of sentence-split
// documents (megatron/core/datasets/helpers.cpp, build_mapping). A pure function of lengths, seed and sizes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>

#include "data/indexed_dataset.h"
#include "data/npy_array.h"

namespace stoa::data {

struct SentenceIndexInput {
  const IndexedDataset* data = nullptr;  // sequences are sentences
  std::int64_t first = 0, last = 0;      // documents [first, last)
  std::optional<std::int64_t> samples;   // epochs follow until there are so many; unset: one epoch
  std::int64_t longest = 0;              // tokens of a sample, special ones not counted
  double short_probability = 0.1;        // share of samples that are made shorter on purpose
  std::int64_t least_sentences = 1;      // documents with fewer give no sample
  std::uint32_t seed = 1234;
  std::stop_token stop = {};  // Interrupted when it is requested
};

// Documents with a longer sentence (where they have more than one) are left out.
inline constexpr std::int64_t kLongestSentence = 512;

// Rows (first sentence, sentence past the last, most tokens), shuffled: 3 numbers each in one array.
// DataError: no document gives a sample.
NpyArray build_sentence_index(const SentenceIndexInput& input);

}  // namespace stoa::data

// Which tokens make which sample: Megatron's document, sample and shuffle indices
// (megatron/core/datasets/gpt_dataset.py and helpers.cpp). Pure functions of lengths, seed and sizes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <vector>

#include "data/npy_array.h"

namespace stoa::data {

struct GptIndexInput {
  std::int64_t first = 0, last = 0;                  // sequences [first, last) of the data set
  std::function<std::int64_t(std::int64_t)> length;  // tokens of a sequence
  std::int64_t sequence_length = 0;                  // S
  std::optional<std::int64_t> samples;               // N requested; unset = one epoch
  std::uint32_t seed = 1234;
  bool extra_token = true;  // x = 1: samples overlap by one token
  bool drop_last_partial = true;
  std::stop_token stop = {};  // Interrupted when it is requested
};

struct EpochPlan {
  std::int64_t tokens_per_epoch = 0;     // T
  std::int64_t epochs = 1;               // E
  bool separate_last = false;            // the last epoch is shuffled on its own
  std::int64_t samples_before_last = 0;  // samples that the first E - 1 epochs hold
  std::int64_t samples = 0;              // n
};

struct GptIndex {
  NpyArray document_index;  // [E * sequences]
  NpyArray sample_index;    // [n + 1, 2]: position in document_index, offset
  NpyArray shuffle_index;   // [n]
};

// DataError when the sequences hold no tokens.
EpochPlan plan_epochs(const GptIndexInput& input);
GptIndex build_gpt_index(const GptIndexInput& input, const EpochPlan& plan);

}  // namespace stoa::data

// What the kinds of attention have in common: self, latent and cross attention.
#pragma once

#include "nn/linear.h"
#include "ops/attention.h"

namespace stoa::nn {

// Columns of a matrix that belong to heads.
inline parallel::Part head_columns(const parallel::Part& heads, std::int64_t head_size) {
  return {heads.begin * head_size, heads.count * head_size};
}

struct HeadOutputOptions {
  std::string name;          // of the layer
  std::int64_t heads, size;  // of all ranks; columns that a head gives
  parallel::Part own;        // heads of this rank
  std::int64_t hidden;
  bool bias = false;
  double deviation = 0.02;
  parallel::TensorPlace place;
};

// From what the heads give [T, own heads * size] to the stream [T, hidden].
Linear head_output(const HeadOutputOptions& options);

// Options of core attention, scores' dropout among them, for the heads `own` of `heads`.
ops::AttentionOptions core_options(const Pass& pass, const std::string& name, std::int64_t heads,
                                   const parallel::Part& own, float dropout);

}  // namespace stoa::nn

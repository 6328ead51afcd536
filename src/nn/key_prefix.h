// Trained keys and values in front of those of every text (PrefixOptions in nn/adapter_policy.h): the rows of
// virtual tokens in a layer's keys and values are replaced by them, after any norm and rotation. What virtual
// tokens compute themselves reaches nothing: their outputs have no loss, and no other token sees more of them
// than these rows.
#pragma once

#include "nn/adapter_policy.h"
#include "nn/module.h"

namespace stoa::nn {

class KeyPrefix {
 public:
  struct Options {
    std::string layer;            // "layers.0.attention"
    parallel::Part groups;        // heads of keys on this rank
    std::int64_t all_groups = 0;  // of all ranks
    std::int64_t head_size = 0;
    bool shared = false, first_copy = true;  // as in ShardPiece: other ranks hold the same heads
    // Indices in Pass::constants: row_numbers(), and minus_ones() of as many rows as there are tokens.
    int rows = -1, minus_ones = -1;
    std::int64_t vocabulary = 0;  // the first virtual token's id
  };

  // Nothing without a prefix in the policy of `params`.
  void declare(ParamList& params, const Options& options);
  explicit operator bool() const { return static_cast<bool>(values_); }

  // Replaces rows of keys, or of values, [T, groups, d]; rows may be strided.
  void replace_keys(Pass& pass, TensorView keys) const { replace(pass, 0, keys); }
  void replace_values(Pass& pass, TensorView values) const { replace(pass, 1, values); }
  // The gradients of the prefix into the main gradients; the rows of virtual tokens become zero.
  void backward(Pass& pass, TensorView dkeys, TensorView dvalues) const;

  // Constants: 0, 1, ... of a microbatch's tokens (int32 [T, 1]); -1 for every virtual token [P, 1].
  static std::vector<double> row_numbers(std::int64_t tokens);

 private:
  // rows - rows of virtual tokens, [T, groups d], in scratch of the current frame.
  TensorView without_virtual(Pass& pass, TensorView rows) const;
  void replace(Pass& pass, std::int64_t which, TensorView rows) const;

  Options options_;
  std::int64_t tokens_ = 0;
  Param values_;  // [2 P, groups d]: keys, then values
};

}  // namespace stoa::nn

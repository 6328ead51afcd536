// The low-rank branch of the embedding of tokens (nn/adapter_policy.h): y += scale B A[:, id], of A [rank,
// vocabulary] and B [hidden, rank]. Both are held transposed: rows of A^T are looked up as those of the table
// are, and multiplied by B^T. Within a tensor-parallel group A^T is split as the table is, and every rank has
// all of B^T, whose gradient it knows for its own ids. What the branch reads are ids: there is no dropout of
// them, as in PEFT. A starts at zero, B with standard normal values.
#pragma once

#include "nn/dropout.h"
#include "nn/module.h"

namespace stoa::nn {

class LowRankRows {
 public:
  static constexpr const char *kA = ".lora_embedding_A", *kB = ".lora_embedding_B";  // ends of names
  static constexpr const char* kTable = "embedding.tokens";  // the piece that the policy is asked for

  struct Options {
    std::int64_t vocabulary = 0, padded_vocabulary = 0, hidden = 0;
    DType compute = DType::kBF16;
    parallel::TensorPlace place;
    parallel::Part ids;  // that this rank has of the vocabulary
  };
  explicit LowRankRows(const Options& options) : options_(options) {}

  // Nothing if the table has no branch.
  void declare(ParamList& params);
  explicit operator bool() const { return static_cast<bool>(a_); }
  bool trains() const { return a_.trained() || b_.trained(); }

  // y [T, hidden] += this rank's part of the branch of ids [T], with the dropout of embeddings.
  void forward(Pass& pass, TensorView ids, const DropoutRows& dropout, TensorView y) const;
  // Into the main gradients, from dy [T, hidden] of all rows.
  void backward(Pass& pass, TensorView ids, const DropoutRows& dropout, TensorView dy) const;

 private:
  // scale A[:, id] of this rank's ids, zero of others; in scratch.
  TensorView inner(Pass& pass, TensorView ids) const;
  void scale(Pass& pass, TensorView rows) const;
  // The rows of this rank's ids, without padding where ids are split.
  TensorView ids_of(TensorView table) const;
  // Tells a lookup in this rank's part of A^T which ids there are.
  template <class Op>
  void set_part(Op& op) const {
    if (options_.place.split()) op.first_id = options_.ids.begin, op.vocabulary = options_.vocabulary;
  }

  Options options_;
  std::int64_t rank_ = 0;
  double scale_ = 1;
  Param a_, b_;
};

}  // namespace stoa::nn

// Rows of the embedding or of the head that are trained while the others are frozen: those of some tokens,
// held apart, in whose place they are used (nn/adapter_policy.h). Every rank of a tensor-parallel group holds
// all of them; the gradient of a row is computed by the rank that has its token.
#pragma once

#include <vector>

#include "nn/module.h"

namespace stoa::nn {

class TokenRows {
 public:
  // Canonical names; a tied head has those of the embedding.
  static constexpr const char *kEmbedding = "embedding.token_rows.weight", *kHead = "head.token_rows.weight";

  struct Options {
    std::int64_t hidden = 0;
    double deviation = 0.02;  // of initial values, where there are no rows of a model
    parallel::TensorPlace place;
    parallel::Part ids;  // that this rank has of the vocabulary
  };
  // Neighbours: rows [row, row + count) of the table are ids [id, id + count).
  struct Run {
    std::int64_t row = 0, id = 0, count = 0;
  };

  // `tokens`: the id of every row.
  TokenRows(std::vector<std::int64_t> tokens, const Options& options);

  // `tied_apart`: the other end of a pipeline holds a copy, whose gradient must be added.
  void declare(ParamList& params, const char* name, bool tied_apart = false);
  // A further use of what was declared as the embedding's.
  void tie(ParamList& params);

  std::int64_t count() const { return static_cast<std::int64_t>(tokens_.size()); }
  bool trains() const { return rows_.trained(); }
  TensorView table(Pass& pass) const { return pass.params.get(rows_.value); }  // [count, hidden]
  // Those in this rank's part of the vocabulary.
  const std::vector<Run>& runs() const { return runs_; }
  // The main gradient of the table, zeroed before the first use of a step.
  TensorView target(Pass& pass) const;
  void notify(Pass& pass) const { pass.grads->notify(rows_.grad); }

  // By id below `vocabulary`: itself, or for a token of these vocabulary + its row.
  static std::vector<double> renumbered(const std::vector<std::int64_t>& tokens, std::int64_t vocabulary);

 private:
  ParamSpec spec(const char* name) const;

  std::vector<std::int64_t> tokens_;
  Options options_;
  std::vector<Run> runs_;
  Param rows_;
};

}  // namespace stoa::nn

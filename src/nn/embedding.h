// Token embedding: words, learned positions (optional), types of tokens (optional), norm of their sum
// (optional), dropout: the start of the residual stream. The sum is made again in the backward pass of the
// norm.
#pragma once

#include <optional>

#include "nn/dropout.h"
#include "nn/module.h"
#include "nn/norm.h"

namespace stoa::nn {

struct EmbeddingOptions {
  std::int64_t vocabulary = 0;         // without padding
  std::int64_t padded_vocabulary = 0;  // rows in memory; those beyond the vocabulary are zero
  std::int64_t hidden = 0;
  std::int64_t positions = 0;       // rows of the table of learned positions; 0: none
  std::int64_t first_position = 0;  // row of position 0
  std::int64_t token_types = 0;     // 0: none
  double scale = 1;                 // of the words
  std::optional<NormOptions> norm;
  float dropout = 0;
  double deviation = 0.02;
  Precision precision;
  parallel::TensorPlace place;  // ids are split among the ranks of a tensor-parallel group
};

// Ids that a rank holds, and rows of its matrix in memory: those beyond the ids are padding.
struct VocabularyPart {
  parallel::Part ids;
  std::int64_t rows = 0;
};
VocabularyPart vocabulary_part(std::int64_t vocabulary, std::int64_t padded,
                               const parallel::TensorPlace& place);
// The parameter `name` [vocabulary, hidden] with padding rows in memory.
ParamSpec vocabulary_matrix(std::string name, std::int64_t vocabulary, std::int64_t padded,
                            std::int64_t hidden, double deviation, const parallel::TensorPlace& place);

class Embedding {
 public:
  explicit Embedding(const EmbeddingOptions& options);

  // `tied_apart`: a head on another pipeline rank holds a copy, whose gradient is to be added.
  void declare(ParamList& params, bool tied_apart = false);
  // For a tied head.
  ParamId tokens() const { return tokens_.value; }

  // This rank's rows of the stream [T, hidden], in residual precision. Of an encoder-decoder: first those of
  // the source, then those of the target.
  void forward(Pass& pass, TensorView out) const;
  void backward(Pass& pass, TensorView dout) const;

 private:
  void forward_part(Pass& pass, TensorView out) const;
  // Adds to gradients of the tables, the latter of positions or none.
  void backward_part(Pass& pass, TensorView dout, TensorView dtable, TensorView dpositions) const;
  // Calls f(pass over a part of the tokens, its rows of the stream) for every part that has tokens.
  template <class F>
  void each_part(Pass& pass, TensorView stream, F&& f) const;
  // A table that every rank of a tensor-parallel group holds.
  ParamSpec whole_table(const char* name, std::int64_t rows) const;
  // The rows of ids, without padding where the table is split.
  TensorView ids_of(TensorView table) const;
  TensorView positions_of(TensorView table) const;
  // Dropout of all tokens, before the ranks' parts are added: without a norm.
  DropoutRows dropout(const Pass& pass) const;
  // Dropout of the normed rows of this rank.
  DropoutRows normed_dropout(const Pass& pass) const;
  // Sum of words and positions to `out`, this rank's rows of the stream.
  void add_tables(Pass& pass, TensorView out) const;
  // That, with types added, and its norm (none: not wanted).
  void norm(Pass& pass, TensorView sum, TensorView normed, TensorView stats) const;
  TensorView types_of(const Pass& pass, std::int64_t rows) const;
  // The operation adds single rows: before the first microbatch of a step the others must be zero.
  TensorView target(Pass& pass, GradId id) const;

  EmbeddingOptions options_;
  VocabularyPart part_;
  std::optional<Norm> norm_;
  Param tokens_, positions_, types_;
};

}  // namespace stoa::nn

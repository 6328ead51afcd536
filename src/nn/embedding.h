// The start of the residual stream: embeddings of tokens, of learned positions (optional) and of token types
// (optional), norm of their sum (optional), dropout. The sum is not kept: the backward pass of the norm
// recomputes it from the tables. Virtual tokens (nn/adapter_policy.h) have embeddings of their own, or none;
// those of words may have a low-rank branch.
#pragma once

#include <optional>

#include "nn/dropout.h"
#include "nn/low_rank_rows.h"
#include "nn/module.h"
#include "nn/norm.h"
#include "nn/prompt_encoder.h"
#include "nn/token_rows.h"

namespace stoa::nn {

struct EmbeddingOptions {
  std::int64_t vocabulary = 0;         // without padding
  std::int64_t padded_vocabulary = 0;  // rows in memory; those beyond the vocabulary are zero
  std::int64_t hidden = 0;
  std::int64_t positions = 0;       // rows of the table of learned positions; 0: none
  std::int64_t first_position = 0;  // row of position 0
  std::int64_t token_types = 0;     // 0: none
  double scale = 1;                 // of token embeddings
  std::optional<NormOptions> norm;
  float dropout = 0;
  double deviation = 0.02;
  Precision precision;
  parallel::TensorPlace place;  // ids are split among the ranks of a tensor-parallel group
  int renumbered = -1;          // constant of trained rows: TokenRows::renumbered [vocabulary, 1]
};

// Ids that a rank holds, and rows of its matrix in memory: rows beyond the ids are padding.
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

  // `tied_apart`: a head on another pipeline rank holds a copy, whose gradient must be added.
  void declare(ParamList& params, bool tied_apart = false);
  // For a tied head.
  ParamId tokens() const { return tokens_.value; }

  // Writes this rank's rows of the stream [T, hidden], in residual precision. In an encoder-decoder those of
  // the source come before those of the target.
  void forward(Pass& pass, TensorView out) const;
  // Nothing if all of it is frozen.
  void backward(Pass& pass, TensorView dout) const;

 private:
  void forward_part(Pass& pass, TensorView out) const;
  // Adds to the gradients of the tables; those of frozen ones are none.
  void backward_part(Pass& pass, TensorView dout, TensorView dtable, TensorView dpositions) const;
  // Calls f(pass over a part of the tokens, its rows of the stream) for every part that has tokens.
  template <class F>
  void each_part(Pass& pass, TensorView stream, F&& f) const;
  // The spec of a table that every rank of a tensor-parallel group holds.
  ParamSpec whole_table(const char* name, std::int64_t rows) const;
  // The rows of this rank's ids, without padding if other ids are possible.
  TensorView ids_of(TensorView table) const;
  TensorView positions_of(TensorView table) const;
  // Whether dropout follows a norm or the types, which are added last; otherwise it is applied before the
  // ranks' parts are added.
  bool has_late_dropout() const { return norm_ || options_.token_types > 0; }
  // The early one, of all tokens. With `place`, of this rank's rows of the stream.
  DropoutRows dropout(const Pass& pass, const parallel::TensorPlace& place = {}) const;
  // The late one, of this rank's rows.
  DropoutRows late_dropout(const Pass& pass) const;
  bool is_part() const { return options_.place.split() || beyond_ > 0; }
  // Tells a lookup in this rank's part of the table which ids there are.
  template <class Op>
  void set_part(Op& op) const {
    if (is_part()) op.first_id = part_.ids.begin, op.vocabulary = options_.vocabulary + beyond_;
  }
  // The ids that are looked up: those of trained rows follow the vocabulary. In scratch, or the pass's own.
  TensorView looked_up(Pass& pass) const;
  // Adds rows of `table`, of the ids beyond the vocabulary, with their positions, to this rank's rows of the
  // stream. `ids`: looked_up().
  void add_beyond(Pass& pass, TensorView ids, TensorView table, TensorView out) const;
  // Targets of encoder-decoders have no virtual tokens.
  bool has_prompt(const Pass& pass) const;
  void prompt_backward(Pass& pass, TensorView dstream) const;
  void token_rows_backward(Pass& pass, TensorView ids, TensorView dy) const;
  // Rows of the tokens with those of their positions; zeros where another rank holds them.
  void look_up(Pass& pass, TensorView ids, const ops::Dropout& run, std::int64_t begin, TensorView y) const;
  // The sum of token and position embeddings in `out`, this rank's rows of the stream.
  void add_tables(Pass& pass, TensorView out) const;
  // The same with types added in `sum`, and its norm in `normed` (none: not needed).
  void norm(Pass& pass, TensorView sum, TensorView normed, TensorView stats) const;
  TensorView types_of(const Pass& pass, std::int64_t rows) const;
  // Embeddings of the types of this rank's rows, in scratch.
  TensorView type_rows(Pass& pass, DType type, Shape shape) const;
  bool trains() const {
    return tokens_.trained() || positions_.trained() || types_.trained() || (norm_ && norm_->trains()) ||
           (prompt_ && prompt_->trains()) || (token_rows_ && token_rows_->trains()) || low_rank_.trains();
  }
  // The operation adds to single rows: before the first microbatch of a step the others must be zeroed.
  TensorView target(Pass& pass, GradId id) const;

  EmbeddingOptions options_;
  VocabularyPart part_;
  std::optional<Norm> norm_;
  std::optional<PromptEncoder> prompt_;
  std::optional<TokenRows> token_rows_;
  LowRankRows low_rank_;
  std::int64_t beyond_ = 0;  // ids that follow the vocabulary: of virtual tokens, or of trained rows
  Param tokens_, positions_, types_;
  quant::MatrixShape stored_;  // ParamSpec::stored of the tokens
};

}  // namespace stoa::nn

// The last step of every head: projection of normed rows to the vocabulary, and the loss of the prediction.
//
// The gradient's factor (loss_scale / N) is known before the step, so training's forward pass also does the
// whole backward pass, a piece of the rows at a time: logits of the piece -> their gradient in place ->
// those of the rows and of the weights. No [all rows, vocabulary] tensor exists and logits are computed only
// once.
//
// In a tensor-parallel group the vocabulary is split: every rank has the logits of its ids, and ranks
// exchange four numbers per row, from which each computes the loss and its part of the gradient.
#pragma once

#include <optional>

#include "nn/embedding.h"
#include "nn/low_rank.h"
#include "nn/tensor_rows.h"
#include "nn/token_rows.h"

namespace stoa::nn {

struct OutputLayerOptions {
  std::int64_t vocabulary = 0, padded_vocabulary = 0, hidden = 0;
  bool bias = false;   // a number per id, "head.bias"
  double softcap = 0;  // logits become cap tanh(logit / cap); 0: no cap
  double deviation = 0.02;
  Precision precision;
  parallel::TensorPlace place;
  double smoothing = 0, z_weight = 0;  // of the training loss (ops/loss.h)
};

class OutputLayer {
 public:
  explicit OutputLayer(const OutputLayerOptions& options);

  // As in Head.
  void declare(ParamList& params, ParamId tied);
  void declare_tied_copy(ParamList& params);

  // What rows should predict; element i is for row i.
  struct Targets {
    TensorView labels;  // int32 [rows]
    TensorView mask;    // fp32 [rows]
    TensorView losses;  // [rows] accumulation type: written
  };
  // Losses of all rows; x [rows, hidden], whole on every rank, is replaced by its gradient. If ranks have
  // partial sums of it, they are added, unless the stream is split (then the caller scatters them). `probe`:
  // rows are the tokens of the microbatch, and the probe gets the logits.
  void train(Pass& pass, TensorView x, const Targets& targets, bool probe) const;
  // Logits [rows, columns()] of x, with the cap applied.
  void project(Pass& pass, TensorView x, TensorView logits) const;
  // Losses of rows [begin, begin + logits.rows()) from their logits, which become their gradient in place
  // when `train`.
  void loss(Pass& pass, TensorView logits, const Targets& targets, std::int64_t begin, bool train) const;

  // The same of a distillation, whose losses compare with a teacher. Without `train` targets.losses and the
  // logits stay as they are. `second`: memory of the shape of `logits` where needs_second() says so.
  void distil(Pass& pass, TensorView logits, TensorView second, const Targets& targets, std::int64_t begin,
              bool train) const;
  static bool needs_second(const Distillation& how, bool train) {
    return how && (how.teacher || (train && how.loss->cross_entropy_weight > 0));
  }

  // Columns of logits on this rank.
  std::int64_t columns() const { return part_.rows; }
  // Most rows of a piece: kLogitsBytes of logits, but at least 64 rows.
  std::int64_t largest_piece(DType type) const;
  static constexpr std::int64_t kLogitsBytes = 128 << 20;

 private:
  // Those of all ranks, [rows, vocabulary], in scratch of the current frame.
  TensorView logits_of_all(Pass& pass, TensorView logits) const;
  struct Compared {
    TensorView logits, mask;
    TensorView losses;    // written
    TensorView gradient;  // by logits: written; none: not asked for
    std::int64_t begin;   // of the rows
  };
  // By the teacher's logits, which are written to `teacher`.
  void compare(Pass& pass, const Compared& rows, TensorView teacher) const;
  void compare_kept(Pass& pass, const Compared& rows) const;
  // Runs compute(this rank's) of a tensor [ranks, rows, n], and gathers all.
  template <class F>
  void gather(Pass& pass, TensorView of_ranks, F&& compute) const;
  // Rows per piece: pieces are as even as possible.
  std::int64_t piece(std::int64_t rows, DType type) const;
  // `first`: the place of the first row in the microbatch.
  void project_uncapped(Pass& pass, TensorView x, TensorView logits, std::int64_t first = 0) const;
  // As a linear layer, for its low-rank branch.
  LinearOptions linear_options() const;
  void declare_rows(ParamList& params, bool tied, bool apart);
  // Their gradient, and the columns of dlogits [rows, columns] of their tokens, which become zero: for a
  // matrix whose rows are not theirs. None: no rows are trained here.
  TensorView take_rows(Pass& pass, TensorView x, TensorView dlogits, TensorView target) const;
  // dx += of those columns.
  void add_rows_input(Pass& pass, TensorView taken, TensorView dx) const;
  // raw /= cap; logits = cap tanh(raw), which may overwrite raw.
  void cap(Pass& pass, TensorView raw, TensorView logits) const;
  ParamSpec matrix(std::string name) const;
  void declare_bias(ParamList& params);
  TensorView bias(Pass& pass) const { return bias_ ? pass.params.get(bias_.value) : TensorView(); }

  OutputLayerOptions options_;
  VocabularyPart part_;
  Param weight_, bias_;
  quant::MatrixShape stored_;  // ParamSpec::stored of the matrix
  LowRank low_rank_;           // the tied embedding has one of its own, or none
  std::optional<TokenRows> token_rows_;
};

}  // namespace stoa::nn

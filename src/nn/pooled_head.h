// Head of an embedding model: the vector of a text is the mean of its tokens' states, or the state of one
// token (MaskedTargets::rows). It has no parameters and no loss of its own: an objective compares the vectors
// of a whole batch on the host (tune/contrastive.h), and what reaches this head is the gradient of every
// vector (MaskedTargets::vector_gradients).
#pragma once

#include "nn/head.h"

namespace stoa::nn {

struct PooledHeadOptions {
  std::int64_t hidden = 0;
  Precision precision;
  parallel::TensorPlace place;
};

class PooledHead final : public Head {
 public:
  explicit PooledHead(const PooledHeadOptions& options) : options_(options) {}

  void declare(ParamList&, ParamId) override {}
  void declare_tied_copy(ParamList&) override {}
  // Adds no loss.
  void train(Pass& pass, TensorView x) const override;
  // Zeros.
  void evaluate(Pass& pass, TensorView x, TensorView losses) const override;
  // States [rows.size(), hidden] of tokens, of which the host makes vectors.
  void logits(Pass& pass, TensorView x, std::span<const std::int32_t> rows, TensorView logits) const override;

 private:
  PooledHeadOptions options_;
};

}  // namespace stoa::nn

// The head of an encoder-decoder: another head, on the target's rows of a stream that holds both sequences.
#pragma once

#include <memory>

#include "nn/head.h"

namespace stoa::nn {

class TargetHead final : public Head {
 public:
  TargetHead(std::unique_ptr<Head> head, const parallel::TensorPlace& place)
      : head_(std::move(head)), place_(place) {}

  void declare(ParamList& params, ParamId tied) override { head_->declare(params, tied); }
  void declare_tied_copy(ParamList& params) override { head_->declare_tied_copy(params); }
  void train(Pass& pass, TensorView x) const override;
  // Losses of the source's tokens are 0.
  void evaluate(Pass& pass, TensorView x, TensorView losses) const override;
  void logits(Pass& pass, TensorView x, std::span<const std::int32_t> rows, TensorView logits) const override;

 private:
  TensorView target_of(const Pass& pass, TensorView x) const;

  std::unique_ptr<Head> head_;
  parallel::TensorPlace place_;
};

}  // namespace stoa::nn

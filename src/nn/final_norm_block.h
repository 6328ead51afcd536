// The last block of a stack whose stream is normalised at its end: out = norm(block(x)). Where nothing but a
// head reads the stream, that norm may be the head's (nn/lm_head.h); embeddings of texts are made of the
// stream itself.
#pragma once

#include <memory>

#include "nn/norm.h"

namespace stoa::nn {

struct FinalNormOptions {
  std::string name;  // "final_norm"
  NormOptions norm;
  std::int64_t hidden = 0;
  Precision precision;
  parallel::TensorPlace place;
};

class FinalNormBlock final : public Block {
 public:
  FinalNormBlock(const FinalNormOptions& options, std::unique_ptr<Block> block);
  FinalNormBlock(const FinalNormBlock&) = delete;  // activations refer to it
  FinalNormBlock& operator=(const FinalNormBlock&) = delete;

  void declare(ParamList& params, ActivationTable& table, std::int64_t tokens) override;
  int input() const override { return block_->input(); }
  void forward(Pass& pass, Saved& saved, TensorView out) override;
  void backward(Pass& pass, Saved& saved, Which which, TensorView dout, TensorView din) override;

 private:
  void make_stream(Pass& pass, Saved& saved);
  void make_statistics(Pass& pass, Saved& saved) const;

  FinalNormOptions options_;
  std::unique_ptr<Block> block_;
  Norm norm_;
  int stream_ = -1, stats_ = -1;
};

}  // namespace stoa::nn

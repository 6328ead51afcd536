// The engine's passes on a decoder with one contiguous cache: one sequence at a time.
#pragma once

#include "infer/decoder_rank.h"
#include "infer/engine/pass_plan.h"

namespace stoa::serve {

class SinglePass : public infer::PassModel {
 public:
  // `context`: tokens of a prompt and its answer.
  SinglePass(infer::OpenModel& model, std::int64_t context);

  const infer::PassLimits& limits() const override { return limits_; }
  std::span<const float> run(const infer::PassPlan& plan) override;
  void share_out(std::int64_t tasks, const std::function<void(std::int64_t)>& body) override;

 private:
  const std::unique_ptr<infer::DecoderRank> rank_;
  infer::PassLimits limits_;
  std::vector<float> logits_;
};

// Memory of the keys and values of one token, over all layers.
std::size_t cache_bytes_per_token(const model::ModelSpec& model, nn::Precision precision);

}  // namespace stoa::serve

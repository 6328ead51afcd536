#include "nn/embedding.h"

#include "nn/dropout.h"

namespace stoa::nn {

ParamSpec vocabulary_matrix(std::string name, std::int64_t vocabulary, std::int64_t padded,
                            std::int64_t hidden, double deviation) {
  ParamSpec spec;
  spec.name = name;
  spec.shard = ShardSpec::whole(std::move(name), {vocabulary, hidden});
  spec.shard.local = {padded, hidden};
  spec.init = {InitKind::kNormal, deviation};
  return spec;
}

void Embedding::declare(ParamList& params) {
  const auto& o = options_;
  tokens_ = params.add(
      vocabulary_matrix("embedding.tokens.weight", o.vocabulary, o.padded_vocabulary, o.hidden, o.deviation));
  if (o.positions > 0)
    positions_ = params.add(
        vocabulary_matrix("embedding.positions.weight", o.positions, o.positions, o.hidden, o.deviation));
}

void Embedding::forward(Pass& pass, TensorView out) const {
  ops::EmbeddingForward op{
      .tokens = pass.batch.tokens,
      .table = pass.params.get(tokens_.value),
      .positions = {},
      .position_table = {},
      .dropout = dropout_of(pass, options_.dropout, RandomPurpose::kEmbeddingDropout, "embedding"),
      .y = out};
  if (positions_) op.positions = pass.batch.positions, op.position_table = pass.params.get(positions_.value);
  ops::run(pass.ops, op);
}

void Embedding::backward(Pass& pass, TensorView dout) const {
  // The operation adds single rows: before the first microbatch of a step the others must be zero.
  const auto target = [&](GradId id) {
    const GradTarget out = pass.grads->target(id);
    if (!out.accumulate) ops::run(pass.ops, ops::FillZero{.y = out.tensor});
    return out.tensor;
  };
  ops::EmbeddingBackward op{
      .tokens = pass.batch.tokens,
      .positions = {},
      .dropout = dropout_of(pass, options_.dropout, RandomPurpose::kEmbeddingDropout, "embedding"),
      .dy = dout,
      .dtable = target(tokens_.grad),
      .dposition_table = {}};
  if (positions_) op.positions = pass.batch.positions, op.dposition_table = target(positions_.grad);
  ops::run(pass.ops, op);
  pass.grads->notify(tokens_.grad);
  if (positions_) pass.grads->notify(positions_.grad);
}

}  // namespace stoa::nn

#include "nn/branch_norm_block.h"

namespace stoa::nn {
namespace {

NormedBranchOptions branch(const TransformerBlockOptions& o, const char* before, const char* after,
                           bool reads_block_input, const char* label) {
  return {.name = o.name,
          .before_name = before,
          .after_name = after,
          .label = label,
          .norm = o.norm,
          .norm_before = o.norm_placement == NormPlacement::kBoth,
          .reads_block_input = reads_block_input,
          .hidden = o.attention.hidden,
          .dropout = o.dropout,
          .precision = o.precision,
          .place = o.attention.place};
}

}  // namespace

BranchNormBlock::BranchNormBlock(const TransformerBlockOptions& o)
    : options_(o),
      attention_(branch(o, "norm1", "attention_norm", true, "attention"), make_attention(o)),
      mlp_(branch(o, "norm2", "mlp_norm", false, "mlp"), make_mlp(o)) {}

void BranchNormBlock::declare(ParamList& params, ActivationTable& table, std::int64_t tokens) {
  const Shape stream{options_.attention.place.stream_rows(tokens), options_.attention.hidden};
  const DType type = options_.precision.residual;
  input_ = table.declare(
      {.tensor = {options_.name + ".input", type, stream}, .producer = Producer::kInput, .make = {}});
  attention_.declare(params, table, tokens, input_);
  middle_ = table.declare(
      {.tensor = {options_.name + ".middle", type, stream},
       // Without a norm before the MLP nothing needs it but what the MLP reads.
       .producer = options_.norm_placement == NormPlacement::kAfter ? Producer::kBranch : Producer::kSum,
       .make = [this](Pass& pass, Saved& saved) {
         attention_.prepare(pass, saved);
         const TensorView middle = saved.put(pass, middle_);
         attention_.add(pass, saved, middle);
         pass.show(options_.name, ".middle", middle);
       }});
  mlp_.declare(params, table, tokens, middle_);
}

void BranchNormBlock::forward(Pass& pass, Saved& saved, TensorView out) {
  saved.get(pass, middle_);
  mlp_.prepare(pass, saved);
  mlp_.add(pass, saved, out);
  pass.show(options_.name, ".output", out);
}

void BranchNormBlock::backward(Pass& pass, Saved& saved, Which which, TensorView dout, TensorView din) {
  if (which == Which::kWeight) {
    mlp_.backward_weight(pass, saved);
    attention_.backward_weight(pass, saved);
    return;
  }
  pass.show_gradient(options_.name, ".output", dout);
  mlp_.backward(pass, saved, which, dout, din);
  pass.show_gradient(options_.name, ".middle", din);
  attention_.backward(pass, saved, which, din, din);
}

}  // namespace stoa::nn

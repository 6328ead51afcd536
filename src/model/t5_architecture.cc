#include "model/t5_architecture.h"

#include <cmath>

#include "model/adapter_plan.h"
#include "nn/encoder_decoder_block.h"
#include "nn/lm_head.h"
#include "nn/target_head.h"

namespace stoa::model {
namespace {

// Indices in Pass::constants.
constexpr int kEncoderBuckets = 0, kDecoderBuckets = 1;

bool is_relative(const ModelConfig& c) { return c.position_embedding_type == PositionEmbedding::kRelative; }

nn::RelativeBuckets buckets_of(const ModelConfig& c, bool encoder) {
  return {.count = c.t5.relative_attention_num_buckets,
          .max_distance = c.t5.relative_attention_max_distance,
          .bidirectional = encoder};
}

// The biases of a stack, for the heads of this rank; as one of its layers uses them.
nn::RelativeBiasOptions bias_options(const ModelConfig& c, bool encoder, const parallel::TensorPlace& place,
                                     std::int64_t layer = -1) {
  nn::RelativeBiasOptions out;
  out.name = encoder ? "encoder.relative_bias" : "decoder.relative_bias";
  if (c.t5.relative_bias_per_layer) {
    out.name = fmt::format("{}.{}.relative_bias", encoder ? "encoder" : "decoder", layer);
    out.own = true;
  }
  out.buckets = buckets_of(c, encoder);
  out.heads = c.num_attention_heads;
  out.deviation = c.init_method_std;
  out.index = encoder ? kEncoderBuckets : kDecoderBuckets;
  out.local = parallel::head_part(c.num_attention_heads, c.num_attention_heads, place).heads;
  out.place = place;
  out.layers = encoder ? c.encoder_layers() : c.num_layers - c.encoder_layers();
  out.layer = layer;
  return out;
}

}  // namespace

Traits T5Architecture::traits(const ModelConfig&) { return {.samples = Samples::kPairs}; }

std::vector<Constant> T5Architecture::constants() const {
  if (!is_relative(spec_.config)) return {};
  std::vector<Constant> out;
  for (const bool encoder : {true, false}) {
    const nn::RelativeBuckets buckets = buckets_of(spec_.config, encoder);
    Constant& constant = out.emplace_back();
    constant.tensor = {encoder ? "encoder buckets" : "decoder buckets", DType::kI32, {buckets.offsets()}};
    constant.values = [buckets](std::int64_t) { return buckets.buckets_of_offsets(); };
  }
  return out;
}

void T5Architecture::declare_shared(nn::ParamList& params) const {
  if (!is_relative(spec_.config) || spec_.config.t5.relative_bias_per_layer) return;
  const nn::RelativeBiasOptions encoder = bias_options(spec_.config, true, options_.place);
  if (nn::RelativeBias::find(params, encoder)) return;
  params.begin_unit(false);
  nn::RelativeBias::declare_table(params, encoder);
  nn::RelativeBias::declare_table(params, bias_options(spec_.config, false, options_.place));
}

std::unique_ptr<nn::Embedding> T5Architecture::embedding() const {
  return std::make_unique<nn::Embedding>(embedding_options(spec_, options_.precision, options_.place));
}

std::unique_ptr<nn::Block> T5Architecture::block(std::int64_t layer) const {
  const ModelConfig& c = spec_.config;
  const std::int64_t encoder_layers = c.encoder_layers();
  const bool encoder = layer < encoder_layers;
  const std::int64_t in_stack = encoder ? layer : layer - encoder_layers;
  const std::string stack = encoder ? "encoder" : "decoder", name = fmt::format("{}.{}", stack, in_stack);
  nn::TransformerBlockOptions same = block_options(spec_, layer, options_.precision, options_.place, {});
  nn::EncoderDecoderBlockOptions o;
  o.name = name;
  o.norm = same.norm;
  o.attention = same.attention;
  o.attention.name = name + ".attention";
  o.attention.causal = !encoder;
  if (!c.t5.scale_attention) o.attention.scale = 1;
  if (is_relative(c)) o.attention.relative_bias = bias_options(c, encoder, options_.place, in_stack);
  o.mlp = same.mlp;
  // Files name the one matrix of a plain layer unlike the two of a gated one.
  o.mlp.name = name + (o.mlp.gated ? ".mlp" : ".dense");
  if (spec_.adapters) {
    o.attention_adapter = spec_.adapters->bottleneck({layer, name, true}, options_.place);
    o.mlp_adapter = spec_.adapters->bottleneck({layer, name, false}, options_.place);
  }
  o.dropout = same.dropout;
  o.precision = options_.precision;
  o.source_tokens = options_.tokens * c.encoder_seq_length / c.sample_length();
  if (layer == encoder_layers - 1) o.final_norm = "encoder.final_norm";
  if (!encoder)
    o.cross = nn::CrossAttentionOptions{
        .name = name + ".cross_attention",
        .layer = layer,
        .hidden = c.hidden_size,
        .heads = c.num_attention_heads,
        .head_size = c.head_size(),
        .bias = same.attention.bias,
        .scale = c.t5.scale_attention ? 1 / std::sqrt(static_cast<double>(c.head_size())) : 1,
        .dropout = same.attention.dropout,
        .deviation = same.attention.deviation,
        .output_deviation = same.attention.output_deviation,
        .place = options_.place};
  return std::make_unique<nn::EncoderDecoderBlock>(o);
}

std::unique_ptr<nn::Head> T5Architecture::head() const {
  nn::LmHeadOptions o = head_options(spec_, options_.precision, options_.place);
  if (spec_.config.t5.scale_decoder_outputs)
    o.scale = 1 / std::sqrt(static_cast<double>(spec_.config.hidden_size));
  return std::make_unique<nn::TargetHead>(std::make_unique<nn::LmHead>(o), options_.place);
}

}  // namespace stoa::model

#include "model/bert_architecture.h"

#include "model/position_constants.h"
#include "nn/class_head.h"
#include "nn/final_norm_block.h"
#include "nn/masked_lm_head.h"
#include "nn/pooled_head.h"
#include "nn/post_norm_block.h"
#include "nn/span_head.h"
#include "nn/transformer_block.h"
#include "nn/window_bias.h"

namespace stoa::model {
namespace {

constexpr std::int64_t kMaxDistance = 128;  // of MPNet's buckets, which transformers does not let choose

ops::ActivationKind pooler_kind(PoolerActivation activation) {
  switch (activation) {
    case PoolerActivation::kTanh:
      return ops::ActivationKind::kTanh;
    case PoolerActivation::kRelu:
      return ops::ActivationKind::kRelu;
    case PoolerActivation::kGelu:
      return ops::ActivationKind::kGelu;
  }
  fail<InternalError>("unknown activation of a pooler");
}

nn::RelativeBuckets buckets_of(const BertConfig& c) {
  return {.count = *c.relative_attention_num_buckets, .max_distance = kMaxDistance, .bidirectional = true};
}

}  // namespace

Traits BertArchitecture::traits(const ModelConfig& config) {
  Traits out;
  out.samples = config.task.labelled() ? Samples::kLabelled : Samples::kMaskedText;
  if (!config.task.labelled() && !config.bert.lm_head)
    out.untrainable = "a bare encoder has no head to train: set model.bert.lm_head to true";
  return out;
}

// After the rotary tables: that of the windows, or the buckets of distances.
std::vector<Constant> BertArchitecture::constants() const {
  const ModelConfig& c = spec_.config;
  if (options_.layers == 0) return {};
  std::vector<Constant> out = rope_constants(c, options_);
  if (c.window_size)
    out.push_back({{"windows by distance",
                    options_.precision.vectors(),
                    {nn::window_bias_rows(*c.window_size), c.num_attention_heads}},
                   [heads = c.num_attention_heads, window = *c.window_size](std::int64_t) {
                     return nn::window_bias(heads, window);
                   }});
  if (c.bert.relative_attention_num_buckets) {
    const nn::RelativeBuckets buckets = buckets_of(c.bert);
    out.push_back({{"buckets of distances", DType::kI32, {buckets.offsets()}},
                   [buckets](std::int64_t) { return buckets.buckets_of_offsets(); }});
  }
  return out;
}

nn::RelativeBiasOptions BertArchitecture::relative_bias(std::int64_t layer) const {
  const ModelConfig& c = spec_.config;
  nn::RelativeBiasOptions out;
  out.name = "encoder.relative_bias";
  out.buckets = buckets_of(c.bert);
  out.heads = c.num_attention_heads;
  out.deviation = c.init_method_std;
  out.index = static_cast<int>(rope_tables(c).size());
  out.local = parallel::head_part(c.num_attention_heads, c.num_attention_heads, options_.place).heads;
  out.place = options_.place;
  out.layers = c.num_layers;
  out.layer = layer;
  return out;
}

void BertArchitecture::declare_shared(nn::ParamList& params) const {
  if (!spec_.config.bert.relative_attention_num_buckets) return;
  const nn::RelativeBiasOptions bias = relative_bias();
  if (nn::RelativeBias::find(params, bias)) return;
  params.begin_unit(false);
  nn::RelativeBias::declare_table(params, bias);
}

std::unique_ptr<nn::Embedding> BertArchitecture::embedding() const {
  const ModelConfig& c = spec_.config;
  nn::EmbeddingOptions o = embedding_options(spec_, options_.precision, options_.place);
  if (o.positions > 0) o.positions = c.max_positions() + c.bert.first_position;
  o.first_position = c.bert.first_position;
  o.token_types = c.bert.num_token_types;
  if (c.bert.embedding_norm) o.norm = norm_options(c);
  return std::make_unique<nn::Embedding>(o);
}

std::unique_ptr<nn::Block> BertArchitecture::pre_norm_block(nn::TransformerBlockOptions o,
                                                            std::int64_t layer) const {
  const ModelConfig& c = spec_.config;
  o.attention_norm = layer > 0 || !c.bert.embedding_norm;
  std::unique_ptr<nn::Block> block = nn::make_block(o);
  if (layer + 1 < c.num_layers) return block;
  return std::make_unique<nn::FinalNormBlock>(nn::FinalNormOptions{.name = "final_norm",
                                                                   .norm = o.norm,
                                                                   .hidden = c.hidden_size,
                                                                   .precision = o.precision,
                                                                   .place = options_.place},
                                              std::move(block));
}

std::unique_ptr<nn::Block> BertArchitecture::block(std::int64_t layer) const {
  nn::TransformerBlockOptions o =
      block_options(spec_, layer, options_.precision, options_.place, options_.experts);
  o.attention.causal = false;
  o.attention.window = 0;  // a bias by distance
  if (spec_.config.bert.relative_attention_num_buckets) o.attention.relative_bias = relative_bias(layer);
  if (spec_.config.bert.pre_norm) return pre_norm_block(std::move(o), layer);
  return std::make_unique<nn::PostNormBlock>(
      nn::PostNormBlockOptions{.name = o.name,
                               .norm = o.norm,
                               .attention = o.attention,
                               .mlp = o.mlp,
                               .attention_adapter = o.attention_adapter,
                               .mlp_adapter = o.mlp_adapter,
                               .dropout = o.dropout,
                               .precision = o.precision});
}

std::unique_ptr<nn::Head> BertArchitecture::class_head() const {
  const ModelConfig& c = spec_.config;
  if (c.task.embeds())
    return std::make_unique<nn::PooledHead>(
        nn::PooledHeadOptions{c.hidden_size, options_.precision, options_.place});
  if (c.task.type == Task::kQuestionAnswering)
    return std::make_unique<nn::SpanHead>(nn::SpanHeadOptions{.hidden = c.hidden_size,
                                                              .deviation = c.init_method_std,
                                                              .precision = options_.precision,
                                                              .place = options_.place});
  const bool pooled = c.task.type == Task::kSequenceClassification;
  return std::make_unique<nn::ClassHead>(nn::ClassHeadOptions{
      .name = pooled ? "head.classes" : "head.tags",
      .hidden = c.hidden_size,
      .classes = c.task.classes(),
      .pooled = pooled,
      .pooler = pooler_kind(c.bert.pooler_activation),
      .deviation = c.init_method_std,
      .dropout = static_cast<float>(c.task.classifier_dropout.value_or(c.hidden_dropout)),
      .precision = options_.precision,
      .place = options_.place,
      .smoothing = c.label_smoothing,
      .z_weight = c.z_loss_coeff,
      .regression = c.task.regression()});
}

std::unique_ptr<nn::Head> BertArchitecture::head() const {
  if (spec_.config.task.labelled()) return class_head();
  if (!spec_.config.bert.lm_head) return nullptr;
  nn::LmHeadOptions o = head_options(spec_, options_.precision, options_.place);
  o.output.bias = true;
  return std::make_unique<nn::MaskedLmHead>(
      nn::MaskedLmHeadOptions{.output = o.output,
                              .norm = o.norm,
                              .activation = activation_kind(spec_.config.masked_head_activation()),
                              .dense_bias = spec_.config.bert.classifier_bias,
                              .binary = spec_.config.judges_sentences()});
}

}  // namespace stoa::model

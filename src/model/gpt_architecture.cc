#include "model/gpt_architecture.h"

#include "model/adapter_plan.h"
#include "model/position_constants.h"
#include "nn/alibi.h"
#include "nn/class_head.h"
#include "nn/final_norm_block.h"
#include "nn/key_prefix.h"
#include "nn/lm_head.h"
#include "nn/pooled_head.h"
#include "nn/score_head.h"
#include "nn/token_rows.h"
#include "nn/transformer_block.h"

namespace stoa::model {

Traits GptArchitecture::traits(const ModelConfig& config) {
  Traits out;
  // A score is trained by objectives (tune/objective.h), on rows of texts as a language model's.
  const bool picks = config.task.labelled() && !config.task.regression();
  out.samples = picks ? Samples::kLabelled : Samples::kNextToken;
  out.continues_text = !config.task.labelled();
  return out;
}

std::vector<Constant> GptArchitecture::constants() const {
  std::vector<Constant> out = block_constants();
  const std::int64_t vocabulary = spec_.vocabulary;
  if (options_.embedding && spec_.adapters && !spec_.adapters->token_rows().empty())
    out.push_back({{"looked-up rows", DType::kI32, {vocabulary, 1}},
                   [tokens = spec_.adapters->token_rows(), vocabulary](std::int64_t) {
                     return nn::TokenRows::renumbered(tokens, vocabulary);
                   }});
  return out;
}

std::vector<Constant> GptArchitecture::block_constants() const {
  const ModelConfig& c = spec_.config;
  if (options_.layers == 0) return {};
  std::vector<Constant> out = rope_constants(c, options_);
  if (c.position_embedding_type == PositionEmbedding::kAlibi) {
    const std::int64_t positions = table_positions(c, options_);
    out.push_back({{"biases by distance", options_.precision.vectors(), {positions, c.num_attention_heads}},
                   [heads = c.num_attention_heads, positions](std::int64_t) {
                     return nn::alibi_table(heads, positions);
                   }});
  }
  if (c.peft.peft_scheme != PeftScheme::kPrefix) return out;
  const std::int64_t tokens = options_.tokens, count = c.peft.virtual_count();
  out.push_back({{"numbers of rows", DType::kI32, {tokens, 1}},
                 [tokens](std::int64_t) { return nn::KeyPrefix::row_numbers(tokens); }});
  out.push_back({{"minus ones", options_.precision.vectors(), {count, 1}}, [count](std::int64_t) {
                   return std::vector<double>(static_cast<std::size_t>(count), -1.0);
                 }});
  return out;
}

std::unique_ptr<nn::Embedding> GptArchitecture::embedding() const {
  nn::EmbeddingOptions o = embedding_options(spec_, options_.precision, options_.place);
  o.renumbered = static_cast<int>(block_constants().size());
  return std::make_unique<nn::Embedding>(o);
}

std::unique_ptr<nn::Block> GptArchitecture::block(std::int64_t layer) const {
  const ModelConfig& c = spec_.config;
  const auto o = block_options(spec_, layer, options_.precision, options_.place, options_.experts);
  std::unique_ptr<nn::Block> block = nn::make_block(o);
  // The head of a language model has the final norm itself; that of a classification reads a few tokens.
  if (!c.task.labelled() || layer + 1 < c.num_layers) return block;
  return std::make_unique<nn::FinalNormBlock>(nn::FinalNormOptions{.name = "final_norm",
                                                                   .norm = norm_options(c),
                                                                   .hidden = c.hidden_size,
                                                                   .precision = o.precision,
                                                                   .place = options_.place},
                                              std::move(block));
}

std::unique_ptr<nn::Head> GptArchitecture::head() const {
  const ModelConfig& c = spec_.config;
  if (c.task.embeds())
    return std::make_unique<nn::PooledHead>(
        nn::PooledHeadOptions{c.hidden_size, options_.precision, options_.place});
  if (c.task.regression())
    return std::make_unique<nn::ScoreHead>(nn::ScoreHeadOptions{.name = "head.classes",
                                                                .hidden = c.hidden_size,
                                                                .deviation = c.init_method_std,
                                                                .precision = options_.precision,
                                                                .place = options_.place});
  if (c.task.labelled()) {
    const bool texts = c.task.type == Task::kSequenceClassification;
    return std::make_unique<nn::ClassHead>(nn::ClassHeadOptions{
        .name = texts ? "head.classes" : "head.tags",
        .hidden = c.hidden_size,
        .classes = c.task.classes(),
        .bias = !texts,
        .deviation = c.init_method_std,
        .dropout = texts ? 0 : static_cast<float>(c.task.classifier_dropout.value_or(c.hidden_dropout)),
        .precision = options_.precision,
        .place = options_.place,
        .smoothing = c.label_smoothing,
        .z_weight = c.z_loss_coeff});
  }
  return std::make_unique<nn::LmHead>(head_options(spec_, options_.precision, options_.place));
}

}  // namespace stoa::model

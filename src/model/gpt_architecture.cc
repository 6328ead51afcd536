#include "model/gpt_architecture.h"

#include "model/position_constants.h"
#include "nn/alibi.h"
#include "nn/blocks.h"
#include "nn/lm_head.h"

namespace stoa::model {

std::vector<Constant> GptArchitecture::constants() const {
  const ModelConfig& c = gpt_.config;
  if (options_.layers == 0) return {};
  if (c.position_embedding_type != PositionEmbedding::kAlibi) return rope_constants(c, options_);
  const std::int64_t positions = table_positions(c, options_);
  return {{{"biases by distance", options_.precision.vectors(), {positions, c.num_attention_heads}},
           [heads = c.num_attention_heads, positions](std::int64_t) {
             return nn::alibi_table(heads, positions);
           }}};
}

std::unique_ptr<nn::Embedding> GptArchitecture::embedding() const {
  return std::make_unique<nn::Embedding>(embedding_options(gpt_, options_.precision, options_.place));
}

std::unique_ptr<nn::Block> GptArchitecture::block(std::int64_t layer) const {
  return nn::make_block(block_options(gpt_, layer, options_.precision, options_.place, options_.experts));
}

std::unique_ptr<nn::Head> GptArchitecture::head() const {
  return std::make_unique<nn::LmHead>(head_options(gpt_, options_.precision, options_.place));
}

}  // namespace stoa::model

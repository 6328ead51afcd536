#include "model/gpt_architecture.h"

#include "nn/blocks.h"
#include "nn/lm_head.h"

namespace stoa::model {

std::vector<Constant> GptArchitecture::constants() const {
  const auto rope = rope_options(gpt_.config);
  if (!rope || options_.layers == 0) return {};
  const std::int64_t positions = options_.positions > 0 ? options_.positions : gpt_.config.max_positions();
  return {{{"rotary table", options_.precision.vectors(), {positions, 2, rope->size / 2}},
           [rope, positions](std::int64_t sequence) { return nn::rope_table(*rope, positions, sequence); }}};
}

std::unique_ptr<nn::Embedding> GptArchitecture::embedding() const {
  return std::make_unique<nn::Embedding>(embedding_options(gpt_, options_.precision, options_.place));
}

std::unique_ptr<nn::Block> GptArchitecture::block(std::int64_t layer) const {
  const int rope_table = rope_options(gpt_.config) ? 0 : -1;
  return nn::make_block(block_options(gpt_, layer, options_.precision, rope_table, options_.place, options_.experts));
}

std::unique_ptr<nn::Head> GptArchitecture::head() const {
  return std::make_unique<nn::LmHead>(head_options(gpt_, options_.precision, options_.place));
}

}  // namespace stoa::model

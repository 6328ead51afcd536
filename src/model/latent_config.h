// Configuration of multi-head latent attention (DeepSeek-V2, 2405.04434, section 2.1): the keys of Megatron
// under `model`.
#pragma once

#include <cstdint>
#include <optional>

#include "config/schema.h"

namespace stoa::model {

struct LatentConfig {
  bool multi_latent_attention = false;
  std::optional<std::int64_t> q_lora_rank;  // null: queries are projected from the stream
  std::int64_t kv_lora_rank = 512;
  std::int64_t qk_head_dim = 128;         // of a head's keys, without the rotated part
  std::int64_t qk_pos_emb_head_dim = 64;  // the rotated part, whose keys all heads share
  std::int64_t v_head_dim = 128;

  std::int64_t head_size() const { return qk_head_dim + qk_pos_emb_head_dim; }
};

void declare_latent(config::Section<LatentConfig>& s);

}  // namespace stoa::model

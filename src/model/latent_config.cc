#include "model/latent_config.h"

namespace stoa::model {

void declare_latent(config::Section<LatentConfig>& s) {
  using C = LatentConfig;
  constexpr double kMost = 65536;
  s.field("multi_latent_attention", &C::multi_latent_attention)
      .help(
          "Multi-head latent attention: keys and values of all heads are computed from one latent vector per "
          "token (DeepSeek-V2, V3). The following five keys are used only with it; kv_channels is the sum of "
          "both parts of a head.");
  s.field("q_lora_rank", &C::q_lora_rank)
      .range(1, kMost)
      .help("Width of the latent vector of queries. null: queries are projected from the stream.");
  s.field("kv_lora_rank", &C::kv_lora_rank)
      .range(1, kMost)
      .help("Width of the latent vector of keys and values.");
  s.field("qk_head_dim", &C::qk_head_dim)
      .range(1, kMost)
      .help("Width of a head's queries and keys, without the part that rotates.");
  s.field("qk_pos_emb_head_dim", &C::qk_pos_emb_head_dim)
      .range(2, kMost)
      .help("Width of the part that rotates, whose key all heads share.");
  s.field("v_head_dim", &C::v_head_dim)
      .range(1, kMost)
      .help("Width of a head's values; at most that of its keys.");
}

}  // namespace stoa::model

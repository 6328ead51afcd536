// DeepSeek-V3 (2412.19437) and Kimi K2: latent attention; sigmoid router scores, groups of experts, a
// selection bias, shared experts; the first layers are dense.
#include "model/huggingface/expert_keys.h"
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/latent_keys.h"
#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {
namespace {

void read_deepseek_v3(JsonKeys& keys, ModelConfig& c) {
  read_llama_keys(
      keys, c,
      {.vocabulary = 129280, .hidden = 7168, .layers = 61, .heads = 128, .ffn = 18432, .positions = 4096});
  read_latent(keys, c);
  read_grouped_experts(keys, c, {256, 8, 2048, 1, 8, 4, 3, true, 2.5});
  keys.ignore("rope_interleave");  // how rows stand in the file: of the variants below
}

void write_deepseek_v3(const ModelSpec& spec, Json& json, bool interleaved) {
  const ModelConfig& c = spec.config;
  write_llama_keys(spec, json);
  write_latent(c, json);
  json["rope_interleave"] = interleaved;
  write_grouped_experts(c, json);
}

template <bool kInterleaved>
NameMap deepseek_v3_names() {
  NameMap out = llama_names();
  out.needless = is_further_layer;
  add_rules(out, grouped_expert_names());
  add_rules(out, latent_names(kInterleaved));
  return out;
}

void write_interleaved(const ModelSpec& spec, Json& json) { write_deepseek_v3(spec, json, true); }
void write_halves(const ModelSpec& spec, Json& json) { write_deepseek_v3(spec, json, false); }

// rope_interleave false: the rotated rows of queries and keys stand as the rotation of halves wants them.
const Family kDeepseekV3Halves{"deepseek_v3", "DeepseekV3ForCausalLM", read_deepseek_v3, write_halves,
                               deepseek_v3_names<false>};

const Family* deepseek_v3_variant(const nlohmann::json& config) {
  const auto found = config.find("rope_interleave");
  return found != config.end() && *found == false ? &kDeepseekV3Halves : nullptr;
}

}  // namespace

const Family kDeepseekV3{"deepseek_v3",     "DeepseekV3ForCausalLM", read_deepseek_v3,
                         write_interleaved, deepseek_v3_names<true>, deepseek_v3_variant};

// The same under another model_type (2507.20534).
const Family kKimiK2{"kimi_k2", "DeepseekV3ForCausalLM", read_deepseek_v3, write_interleaved,
                     deepseek_v3_names<true>};

}  // namespace stoa::model::huggingface

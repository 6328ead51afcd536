// OLMo (2402.00838): llama with LayerNorms without parameters.
#include "model/huggingface/families/families.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {
namespace {

constexpr double kOlmoEpsilon = 1e-5;

void read_olmo(JsonKeys& keys, ModelConfig& c) {
  read_llama_keys(keys, c, {.vocabulary = 50304});
  keys.ignore("rms_norm_eps");
  c.normalization = Normalization::kLayerNorm;
  c.norm_weight = c.norm_bias = false;
  c.layernorm_epsilon = kOlmoEpsilon;
  read_attention_bias(keys, c);
  require<ConfigError>(
      !keys.has("clip_qkv"),
      "config.json: clip_qkv is not supported: queries, keys and values are not clipped here; only null");
  keys.ignore("clip_qkv");
}

void write_olmo(const ModelSpec& spec, Json& json) {
  write_llama_keys(spec, json);
  json.erase("rms_norm_eps");
  json["attention_bias"] = spec.config.has_qkv_bias();
  json["clip_qkv"] = Json();
}

}  // namespace

const Family kOlmo{"olmo", "OlmoForCausalLM", read_olmo, write_olmo, llama_names};

}  // namespace stoa::model::huggingface

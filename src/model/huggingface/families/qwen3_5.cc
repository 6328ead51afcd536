// Qwen3.5, text only: layers as in Qwen3-Next, with separate projection matrices; dense, or with experts in
// every layer. Its rotary positions distinguish rows and columns of images, which coincide for text. The
// published models (qwen3_5 and qwen3_5_moe) also accept images.
#include "model/huggingface/families/families.h"
#include "model/huggingface/hybrid_keys.h"
#include "model/huggingface/json_keys.h"
#include "model/huggingface/text_part.h"

namespace stoa::model::huggingface {
namespace {

constexpr RopeDefaults kRope{.share = 0.25, .grids = true};

void read_qwen3_5_text(JsonKeys& keys, ModelConfig& c) {
  read_hybrid_keys(keys, c,
                   {.vocabulary = 248320,
                    .hidden = 4096,
                    .layers = 32,
                    .heads = 16,
                    .ffn = 12288,
                    .groups = 4,
                    .head_size = 256,
                    .positions = 32768,
                    .rope = kRope});
}

void read_qwen3_5_moe_text(JsonKeys& keys, ModelConfig& c) {
  read_hybrid_keys(keys, c,
                   {.vocabulary = 248320,
                    .hidden = 2048,
                    .layers = 40,
                    .heads = 16,
                    .ffn = 512,
                    .groups = 2,
                    .head_size = 256,
                    .positions = 32768,
                    .rope = kRope});
  read_hybrid_experts(keys, c, 256, 8);
}

void write_qwen3_5_moe_text(const ModelSpec& spec, Json& json) {
  write_hybrid_keys(spec, json);
  json.erase("intermediate_size");
  write_hybrid_experts(spec.config, json);
}

NameMap qwen3_5_names() {
  return hybrid_names({{"model.layers.{}.linear_attn.in_proj_qkv",
                        {"layers.{}.delta.q", "layers.{}.delta.k", "layers.{}.delta.v"}},
                       {"model.layers.{}.linear_attn.in_proj_z", {"layers.{}.delta.z"}},
                       {"model.layers.{}.linear_attn.in_proj_b", {"layers.{}.delta.b"}},
                       {"model.layers.{}.linear_attn.in_proj_a", {"layers.{}.delta.a"}}});
}

void read_qwen3_5(JsonKeys& keys, ModelConfig& c) {
  read_text_part(keys, c, "qwen3_5_text", read_qwen3_5_text);
}

void write_qwen3_5(const ModelSpec& spec, Json& json) {
  Json text;
  text["model_type"] = "qwen3_5_text";
  write_hybrid_keys(spec, text);
  json["text_config"] = std::move(text);
  json["tie_word_embeddings"] = spec.config.share_embeddings_and_output_weights;
}

void read_qwen3_5_moe(JsonKeys& keys, ModelConfig& c) {
  read_text_part(keys, c, "qwen3_5_moe_text", read_qwen3_5_moe_text);
}

void write_qwen3_5_moe(const ModelSpec& spec, Json& json) {
  Json text;
  text["model_type"] = "qwen3_5_moe_text";
  write_qwen3_5_moe_text(spec, text);
  json["text_config"] = std::move(text);
  json["tie_word_embeddings"] = spec.config.share_embeddings_and_output_weights;
}

NameMap names_beside_images() { return names_of_text_part(qwen3_5_names()); }

}  // namespace

const Family kQwen35{"qwen3_5",           "Qwen3_5ForConditionalGeneration",
                     read_qwen3_5,        write_qwen3_5,
                     names_beside_images, nullptr,
                     always_refused};
const Family kQwen35Moe{"qwen3_5_moe",       "Qwen3_5MoeForConditionalGeneration",
                        read_qwen3_5_moe,    write_qwen3_5_moe,
                        names_beside_images, nullptr,
                        always_refused};
const Family kQwen35Text{"qwen3_5_text", "Qwen3_5ForCausalLM", read_qwen3_5_text, write_hybrid_keys,
                         qwen3_5_names};
const Family kQwen35MoeText{"qwen3_5_moe_text", "Qwen3_5MoeForCausalLM", read_qwen3_5_moe_text,
                            write_qwen3_5_moe_text, qwen3_5_names};

}  // namespace stoa::model::huggingface

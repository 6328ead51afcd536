#include "model/huggingface/latent_keys.h"

#include "model/huggingface/json_keys.h"
#include "model/huggingface/llama_keys.h"

namespace stoa::model::huggingface {

void read_latent(JsonKeys& keys, ModelConfig& c) {
  LatentConfig& l = c.latent;
  const auto size = [&](const char* key, std::int64_t fallback) {
    return keys.integer(key, 1).value_or(fallback);
  };
  l.multi_latent_attention = true;
  l.q_lora_rank = keys.integer("q_lora_rank", 1);
  if (!keys.contains("q_lora_rank")) l.q_lora_rank = 1536;
  l.kv_lora_rank = size("kv_lora_rank", 512);
  l.qk_head_dim = size("qk_nope_head_dim", 128);
  l.qk_pos_emb_head_dim = size("qk_rope_head_dim", 64);
  l.v_head_dim = size("v_head_dim", 128);
  keys.ignore("qk_head_dim");  // the sum of the two
  const bool bias = keys.boolean("attention_bias").value_or(false);
  set_biases(c, bias, bias, false);
  // Every head has keys of its own; head_dim means the rotated part in some files.
  c.num_query_groups = c.num_attention_heads;
  c.kv_channels = l.head_size();
}

void write_latent(const ModelConfig& c, Json& json) {
  const LatentConfig& l = c.latent;
  json["head_dim"] = l.qk_pos_emb_head_dim;
  json["attention_bias"] = c.has_qkv_bias();
  json["q_lora_rank"] = l.q_lora_rank ? Json(*l.q_lora_rank) : Json();
  json["kv_lora_rank"] = l.kv_lora_rank;
  json["qk_nope_head_dim"] = l.qk_head_dim;
  json["qk_rope_head_dim"] = l.qk_pos_emb_head_dim;
  json["v_head_dim"] = l.v_head_dim;
}

namespace {

// Rows [file, file + 2 n) hold pairs that rotate side by side; canonical ones, first members before second.
void add_pairs(std::vector<RowRun>& runs, std::int64_t file, std::int64_t row, std::int64_t size) {
  for (std::int64_t i = 0; i < size / 2; ++i) {
    runs.push_back({0, file + 2 * i, row + i, 1});
    runs.push_back({0, file + 2 * i + 1, row + size / 2 + i, 1});
  }
}

void add_rotated(std::vector<RowRun>& runs, std::int64_t file, std::int64_t row, std::int64_t size,
                 bool interleaved) {
  if (interleaved)
    add_pairs(runs, file, row, size);
  else
    runs.push_back({0, file, row, size});
}

// Files: each head's own dimensions, then the rotated ones; canonical: the other way round.
template <bool kInterleaved>
std::vector<RowRun> query_heads(const ModelConfig& c, const std::vector<CanonicalTensor>&) {
  const std::int64_t own = c.latent.qk_head_dim, rotated = c.latent.qk_pos_emb_head_dim;
  std::vector<RowRun> out;
  for (std::int64_t h = 0, row = 0; h < c.num_attention_heads; ++h, row += own + rotated) {
    out.push_back({0, row, row + rotated, own});
    add_rotated(out, row + own, row, rotated, kInterleaved);
  }
  return out;
}

// The latent, then the key that all heads share.
template <bool kInterleaved>
std::vector<RowRun> latent_and_key(const ModelConfig& c, const std::vector<CanonicalTensor>&) {
  const std::int64_t rank = c.latent.kv_lora_rank;
  std::vector<RowRun> out{{0, 0, 0, rank}};
  add_rotated(out, rank, rank, c.latent.qk_pos_emb_head_dim, kInterleaved);
  return out;
}

template <bool kInterleaved>
std::vector<NameRule> latent_rules() {
  return {{"model.layers.{}.self_attn.q_proj", {"layers.{}.attention.q"}, query_heads<kInterleaved>},
          {"model.layers.{}.self_attn.q_a_proj", {"layers.{}.attention.q_a"}},
          {"model.layers.{}.self_attn.q_a_layernorm", {"layers.{}.attention.q_a_norm"}},
          {"model.layers.{}.self_attn.q_b_proj", {"layers.{}.attention.q_b"}, query_heads<kInterleaved>},
          {"model.layers.{}.self_attn.kv_a_proj_with_mqa",
           {"layers.{}.attention.kv_a"},
           latent_and_key<kInterleaved>},
          {"model.layers.{}.self_attn.kv_a_layernorm", {"layers.{}.attention.kv_a_norm"}},
          {"model.layers.{}.self_attn.kv_b_proj", {"layers.{}.attention.kv_b"}}};
}

}  // namespace

std::vector<NameRule> latent_names(bool interleaved) {
  return interleaved ? latent_rules<true>() : latent_rules<false>();
}

}  // namespace stoa::model::huggingface

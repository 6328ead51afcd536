#include "foreign/checkpoint/megatron_names.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>
#include <vector>

#include "base/error.h"
#include "model/huggingface/latent_keys.h"

namespace stoa::foreign {
namespace {

namespace hf = model::huggingface;
using model::CanonicalTensor, model::ModelConfig;

bool gated(const ModelConfig& c) { return model::is_gated(c.activation); }
bool plain(const ModelConfig& c) { return !gated(c); }
bool latent(const ModelConfig& c) { return c.latent.multi_latent_attention; }
bool bert(const ModelConfig& c) { return c.kind == model::ModelKind::kBert; }

using Parts = std::vector<std::string_view>;

hf::NameRule rule(std::string_view file, Parts parts, hf::Arrangement arrange = hf::stacked) {
  return {.file = file, .parts = std::move(parts), .arrange = arrange};
}
hf::NameRule rule(std::string_view file, Parts parts, bool (*when)(const ModelConfig&),
                  hf::Arrangement arrange = hf::stacked) {
  return {.file = file, .parts = std::move(parts), .arrange = arrange, .when = when};
}
// The names are complete.
hf::NameRule exact(std::string_view file, std::string_view part) {
  return {.file = file, .parts = {part}, .suffix = false};
}

std::vector<hf::NameRule> decoder_rules() {
  return {
      rule("embedding.word_embeddings", {"embedding.tokens"}),
      rule("embedding.position_embeddings", {"embedding.positions"}),
      rule("decoder.layers.{}.input_layernorm", {"layers.{}.norm1"}),
      rule("decoder.layers.{}.self_attention.linear_qkv",
           {"layers.{}.attention.q", "layers.{}.attention.k", "layers.{}.attention.v"}, hf::by_group),
      rule("decoder.layers.{}.self_attention.q_layernorm", {"layers.{}.attention.q_norm"}),
      rule("decoder.layers.{}.self_attention.k_layernorm", {"layers.{}.attention.k_norm"}),
      rule("decoder.layers.{}.self_attention.linear_proj", {"layers.{}.attention.out"}),
      exact("decoder.layers.{}.self_attention.core_attention.softmax_offset", "layers.{}.attention.sinks"),
      rule("decoder.layers.{}.pre_mlp_layernorm", {"layers.{}.norm2"}),
      rule("decoder.layers.{}.mlp.linear_fc1", {"layers.{}.mlp.gate", "layers.{}.mlp.up"}, gated),
      rule("decoder.layers.{}.mlp.linear_fc1", {"layers.{}.mlp.up"}, plain),
      rule("decoder.layers.{}.mlp.linear_fc2", {"layers.{}.mlp.down"}),
      exact("decoder.layers.{}.mlp.router.expert_bias", "layers.{}.moe.router.expert_bias"),
      rule("decoder.layers.{}.mlp.router", {"layers.{}.moe.router"}),
      rule("decoder.layers.{}.mlp.experts.{}.linear_fc1",
           {"layers.{}.moe.experts.{}.gate", "layers.{}.moe.experts.{}.up"}, gated),
      rule("decoder.layers.{}.mlp.experts.{}.linear_fc1", {"layers.{}.moe.experts.{}.up"}, plain),
      rule("decoder.layers.{}.mlp.experts.{}.linear_fc2", {"layers.{}.moe.experts.{}.down"}),
      rule("decoder.layers.{}.mlp.shared_experts.linear_fc1",
           {"layers.{}.moe.shared.gate", "layers.{}.moe.shared.up"}, gated),
      rule("decoder.layers.{}.mlp.shared_experts.linear_fc1", {"layers.{}.moe.shared.up"}, plain),
      rule("decoder.layers.{}.mlp.shared_experts.linear_fc2", {"layers.{}.moe.shared.down"}),
      exact("decoder.layers.{}.mlp.shared_experts.gate_weight", "layers.{}.moe.shared_gate.weight"),
      rule("decoder.final_layernorm", {"final_norm"}),
      rule("output_layer", {"head"})};
}

// Arranged as in DeepSeek's files, under other names.
std::vector<hf::NameRule> latent_decoder_rules() {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kFiles{{
      {"layers.{}.attention.q", "decoder.layers.{}.self_attention.linear_q_proj"},
      {"layers.{}.attention.q_a", "decoder.layers.{}.self_attention.linear_q_down_proj"},
      {"layers.{}.attention.q_a_norm", "decoder.layers.{}.self_attention.q_layernorm"},
      {"layers.{}.attention.q_b", "decoder.layers.{}.self_attention.linear_q_up_proj"},
      {"layers.{}.attention.kv_a", "decoder.layers.{}.self_attention.linear_kv_down_proj"},
      {"layers.{}.attention.kv_a_norm", "decoder.layers.{}.self_attention.kv_layernorm"},
      {"layers.{}.attention.kv_b", "decoder.layers.{}.self_attention.linear_kv_up_proj"},
  }};
  std::vector<hf::NameRule> rules = hf::latent_names(true);
  for (hf::NameRule& each : rules) {
    const auto found = std::find_if(kFiles.begin(), kFiles.end(),
                                    [&](const auto& file) { return file.first == each.parts.front(); });
    require<InternalError>(found != kFiles.end(), "Megatron has no name for '{}'", each.parts.front());
    each.file = found->second;
    each.when = latent;
  }
  return rules;
}

// The stacks of an encoder-decoder.
std::vector<hf::NameRule> stack_rules() {
  return {
      rule("encoder_relative_pos_emb.relative_attention_bias", {"encoder.relative_bias"}),
      rule("decoder_relative_pos_emb.relative_attention_bias", {"decoder.relative_bias"}),
      rule("encoder.layers.{}.input_layernorm", {"encoder.{}.norm1"}),
      rule("encoder.layers.{}.self_attention.linear_qkv",
           {"encoder.{}.attention.q", "encoder.{}.attention.k", "encoder.{}.attention.v"}, hf::by_group),
      rule("encoder.layers.{}.self_attention.linear_proj", {"encoder.{}.attention.out"}),
      rule("encoder.layers.{}.pre_mlp_layernorm", {"encoder.{}.norm2"}),
      rule("encoder.layers.{}.mlp.linear_fc1", {"encoder.{}.mlp.gate", "encoder.{}.mlp.up"}),
      rule("encoder.layers.{}.mlp.linear_fc1", {"encoder.{}.dense.up"}),
      rule("encoder.layers.{}.mlp.linear_fc2", {"encoder.{}.mlp.down"}),
      rule("encoder.layers.{}.mlp.linear_fc2", {"encoder.{}.dense.down"}),
      rule("encoder.final_layernorm", {"encoder.final_norm"}),
      rule("decoder.layers.{}.input_layernorm", {"decoder.{}.norm1"}),
      rule("decoder.layers.{}.self_attention.linear_qkv",
           {"decoder.{}.attention.q", "decoder.{}.attention.k", "decoder.{}.attention.v"}, hf::by_group),
      rule("decoder.layers.{}.self_attention.linear_proj", {"decoder.{}.attention.out"}),
      rule("decoder.layers.{}.pre_cross_attn_layernorm", {"decoder.{}.cross_norm"}),
      rule("decoder.layers.{}.cross_attention.linear_q", {"decoder.{}.cross_attention.q"}),
      rule("decoder.layers.{}.cross_attention.linear_kv",
           {"decoder.{}.cross_attention.k", "decoder.{}.cross_attention.v"}, hf::by_head),
      rule("decoder.layers.{}.cross_attention.linear_proj", {"decoder.{}.cross_attention.out"}),
      rule("decoder.layers.{}.pre_mlp_layernorm", {"decoder.{}.norm2"}),
      rule("decoder.layers.{}.mlp.linear_fc1", {"decoder.{}.mlp.gate", "decoder.{}.mlp.up"}),
      rule("decoder.layers.{}.mlp.linear_fc1", {"decoder.{}.dense.up"}),
      rule("decoder.layers.{}.mlp.linear_fc2", {"decoder.{}.mlp.down"}),
      rule("decoder.layers.{}.mlp.linear_fc2", {"decoder.{}.dense.down"}),
  };
}

// One stack, and a head of two kinds.
std::vector<hf::NameRule> bert_rules() {
  std::vector<hf::NameRule> rules{
      rule("encoder.layers.{}.input_layernorm", {"layers.{}.norm1"}),
      rule("encoder.layers.{}.self_attention.linear_qkv",
           {"layers.{}.attention.q", "layers.{}.attention.k", "layers.{}.attention.v"}, hf::by_group),
      rule("encoder.layers.{}.self_attention.linear_proj", {"layers.{}.attention.out"}),
      rule("encoder.layers.{}.pre_mlp_layernorm", {"layers.{}.norm2"}),
      rule("encoder.layers.{}.mlp.linear_fc1", {"layers.{}.mlp.up"}),
      rule("encoder.layers.{}.mlp.linear_fc2", {"layers.{}.mlp.down"}),
      rule("encoder.final_layernorm", {"final_norm"}),
      rule("embedding.tokentype_embeddings", {"embedding.types"}),
      rule("lm_head.dense", {"head.dense"}),
      rule("lm_head.layer_norm", {"head.norm"}),
      rule("pooler.dense", {"head.pooler"}),
      rule("binary_head", {"head.sentence"})};
  for (hf::NameRule& each : rules) each.when = bert;
  return rules;
}

hf::NameMap megatron_name_map() {
  hf::NameMap names{.prefix = "", .rules = stack_rules()};
  hf::add_rules(names, decoder_rules());
  hf::add_rules(names, latent_decoder_rules());
  hf::add_rules(names, bert_rules());
  return names;
}

// Parts of names: of older versions, or of Transformer Engine's fused layers, and in the spelling of the
// family. The first that is found is replaced.
constexpr std::pair<std::string_view, std::string_view> kSpellings[] = {
    {"self_attention.linear_qkv.layer_norm_", "input_layernorm."},
    {"mlp.linear_fc1.layer_norm_", "pre_mlp_layernorm."},
    {"cross_attention.linear_q.layer_norm_", "pre_cross_attn_layernorm."},
    {"self_attention.linear_q_up_proj.layer_norm_", "self_attention.q_layernorm."},
    {"self_attention.linear_kv_up_proj.layer_norm_", "self_attention.kv_layernorm."},
    {"self_attention.linear_q_proj.layer_norm_", "input_layernorm."},
    {"self_attention.query_key_value.", "self_attention.linear_qkv."},
    {"self_attention.dense.", "self_attention.linear_proj."},
    {"mlp.dense_h_to_4h.", "mlp.linear_fc1."},
    {"mlp.dense_4h_to_h.", "mlp.linear_fc2."},
    {"input_norm.", "input_layernorm."},
    {"post_attention_layernorm.", "pre_mlp_layernorm."},
    {"post_attention_norm.", "pre_mlp_layernorm."},
    {"final_norm.", "final_layernorm."},
    {"lm_head.layernorm.", "lm_head.layer_norm."},
    {"lm_head.output_layer.", "output_layer."},  // which T5 has twice
};

constexpr std::string_view kPrefixes[] = {"model.", "module.", "language_model."};

bool is_needless(std::string_view name) {
  const auto has = [&](std::string_view part) { return name.find(part) != name.npos; };
  return name.ends_with("_extra_state") || has("._extra_state/") || name.ends_with("inv_freq") ||
         name.ends_with("local_tokens_per_expert") || has("word_embeddings_for_head") ||
         name.starts_with("optimizer") || name.starts_with("rng_state") || name.starts_with("rerun_state") ||
         name.starts_with("chained_") || name.starts_with("mtp.");
}

bool is_number(std::string_view word) {
  return !word.empty() && word.find_first_not_of("0123456789") == word.npos;
}

std::string_view first_word(std::string_view text) { return text.substr(0, text.find('.')); }

// "experts.3.linear_fc1.weight", "experts.linear_fc1.weight" (all), "local_experts.3.linear_fc1.weight",
// "linear_fc1.weight3" after "mlp.experts.".
void read_expert(std::string& rest, MegatronName& out) {
  constexpr std::string_view kStem = "mlp.experts.";
  if (!rest.starts_with(kStem)) return;
  std::string_view after = std::string_view(rest).substr(kStem.size());
  std::string number;
  for (const std::string_view holder : {"experts.", "local_experts."})
    if (after.starts_with(holder)) after.remove_prefix(holder.size());
  if (is_number(first_word(after))) {
    number = first_word(after);
    after.remove_prefix(number.size() + 1);
  } else if (const std::size_t tail = after.find_last_not_of("0123456789") + 1; tail < after.size()) {
    number = after.substr(tail);
    after = after.substr(0, tail);
  }
  out.experts = number.empty();
  rest = std::string(kStem) + (number.empty() ? "{}" : number) + "." + std::string(after);
}

}  // namespace

const hf::Family& megatron_family() {
  static constexpr hf::Family kMegatron{
      .type = "Megatron", .architecture = "", .read = nullptr, .write = nullptr, .names = megatron_name_map};
  return kMegatron;
}

std::optional<MegatronName> megatron_name(std::string_view stored, bool encoder_is_decoder) {
  for (bool again = true; again;) {
    again = false;
    for (const std::string_view prefix : kPrefixes)
      if (stored.starts_with(prefix)) {
        stored.remove_prefix(prefix.size());
        again = true;
      }
  }
  if (is_needless(stored)) return std::nullopt;
  MegatronName out;
  std::string text(stored);
  if (text == "position_embeddings.weight") text = "embedding." + text;  // T5's, under another of its names
  for (const auto& [end, half] :
       {std::pair("_w", MegatronName::Half::kGate), std::pair("_v", MegatronName::Half::kUp)})
    if (text.ends_with(end) && text.find("linear_fc1.") != text.npos) {
      out.half = half;
      text.resize(text.size() - 2);
    }
  if (encoder_is_decoder && text.starts_with("encoder.")) text.replace(0, 7, "decoder");
  for (const auto& [from, to] : kSpellings) {
    const auto at = text.find(from);
    if (at == text.npos || (at > 0 && text[at - 1] != '.')) continue;
    text.replace(at, from.size(), to);
    break;
  }
  const std::string_view stack = first_word(text);
  const std::string layers = std::string(stack) + ".layers.";
  if ((stack == "decoder" || stack == "encoder") && text.starts_with(layers)) {
    std::string rest = text.substr(layers.size());
    std::string number(first_word(rest));
    if (is_number(number))
      rest.erase(0, number.size() + 1);
    else
      number = "{}";
    out.layers = number == "{}";
    read_expert(rest, out);
    text = layers + number + "." + rest;
  }
  out.name = std::move(text);
  return out;
}

std::optional<std::int64_t> number_after(std::string_view name, std::string_view stem) {
  const auto at = name.find(stem);
  if (at == name.npos) return std::nullopt;
  std::int64_t number = -1;
  const auto read = std::from_chars(name.data() + at + stem.size(), name.data() + name.size(), number);
  return read.ec == std::errc() && number >= 0 ? std::optional(number) : std::nullopt;
}

}  // namespace stoa::foreign

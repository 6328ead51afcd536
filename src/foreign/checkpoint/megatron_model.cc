#include "foreign/checkpoint/megatron_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "config/reader.h"
#include "foreign/megatron_arguments.h"

namespace stoa::foreign {
namespace {

using ckpt::torch::Value, ckpt::torch::ValueKind;

enum class Given : std::uint8_t {
  kTrue,   // a flag, given where the attribute is True
  kFalse,  // a flag, given where it is False
  kValue,
  kNotZero,  // a value, given where it is not 0
  kLatent,   // a value, of latent attention alone
  kNotLatent,
  kBertFalse,
  kExperts,  // of a mixture of experts alone
  kExpertsTrue,
  kRope
};
struct Attribute {
  const char* name;
  const char* argument;
  Given given;
};

// Those that say what the model computes.
constexpr Attribute kAttributes[] = {
    {"num_layers", "num-layers", Given::kValue},
    {"hidden_size", "hidden-size", Given::kValue},
    {"ffn_hidden_size", "ffn-hidden-size", Given::kValue},
    {"num_attention_heads", "num-attention-heads", Given::kValue},
    {"group_query_attention", "group-query-attention", Given::kTrue},
    {"kv_channels", "kv-channels", Given::kNotLatent},
    {"max_position_embeddings", "max-position-embeddings", Given::kValue},
    {"position_embedding_type", "position-embedding-type", Given::kValue},
    {"use_rotary_position_embeddings", "use-rotary-position-embeddings", Given::kTrue},
    {"add_position_embedding", "no-position-embedding", Given::kFalse},
    {"rotary_base", "rotary-base", Given::kRope},
    {"rotary_percent", "rotary-percent", Given::kRope},
    {"rotary_interleaved", "rotary-interleaved", Given::kTrue},
    {"rotary_seq_len_interpolation_factor", "rotary-seq-len-interpolation-factor", Given::kRope},
    {"use_rope_scaling", "use-rope-scaling", Given::kTrue},
    {"rope_scaling_factor", "rope-scaling-factor", Given::kRope},
    {"no_rope_freq", "no-rope-freq", Given::kValue},
    {"yarn_original_max_position_embeddings", "yarn-original-max-position-embeddings", Given::kValue},
    {"normalization", "normalization", Given::kValue},
    {"norm_epsilon", "norm-epsilon", Given::kValue},
    {"layernorm_epsilon", "layernorm-epsilon", Given::kValue},
    {"apply_layernorm_1p", "apply-layernorm-1p", Given::kTrue},
    {"apply_residual_connection_post_layernorm", "apply-residual-connection-post-layernorm", Given::kTrue},
    {"qk_layernorm", "qk-layernorm", Given::kTrue},
    {"qk_l2_norm", "qk-l2-norm", Given::kTrue},
    {"swiglu", "swiglu", Given::kTrue},
    {"squared_relu", "squared-relu", Given::kTrue},
    {"openai_gelu", "openai-gelu", Given::kTrue},
    {"quick_geglu", "quick-geglu", Given::kTrue},
    {"glu_linear_offset", "glu-linear-offset", Given::kNotZero},
    {"activation_func_clamp_value", "activation-func-clamp-value", Given::kNotZero},
    {"add_bias_linear", "disable-bias-linear", Given::kFalse},
    {"add_qkv_bias", "add-qkv-bias", Given::kTrue},
    {"untie_embeddings_and_output_weights", "untie-embeddings-and-output-weights", Given::kTrue},
    {"hidden_dropout", "hidden-dropout", Given::kValue},
    {"attention_dropout", "attention-dropout", Given::kValue},
    {"init_method_std", "init-method-std", Given::kValue},
    {"softmax_type", "softmax-type", Given::kValue},
    {"window_size", "window-size", Given::kValue},
    {"window_attn_skip_freq", "window-attn-skip-freq", Given::kValue},
    {"attention_output_gate", "attention-output-gate", Given::kTrue},
    {"embed_layernorm", "embed-layernorm", Given::kTrue},
    {"experimental_attention_variant", "experimental-attention-variant", Given::kValue},
    {"multi_latent_attention", "multi-latent-attention", Given::kTrue},
    {"q_lora_rank", "q-lora-rank", Given::kLatent},
    {"kv_lora_rank", "kv-lora-rank", Given::kLatent},
    {"qk_head_dim", "qk-head-dim", Given::kLatent},
    {"qk_pos_emb_head_dim", "qk-pos-emb-head-dim", Given::kLatent},
    {"v_head_dim", "v-head-dim", Given::kLatent},
    {"rope_type", "rope-type", Given::kLatent},
    {"rotary_scaling_factor", "rotary-scaling-factor", Given::kLatent},
    {"mscale", "mscale", Given::kLatent},
    {"mscale_all_dim", "mscale-all-dim", Given::kLatent},
    {"num_experts", "num-experts", Given::kExperts},
    {"moe_layer_freq", "moe-layer-freq", Given::kExperts},
    {"moe_ffn_hidden_size", "moe-ffn-hidden-size", Given::kExperts},
    {"moe_shared_expert_intermediate_size", "moe-shared-expert-intermediate-size", Given::kExperts},
    {"moe_shared_expert_gate", "moe-shared-expert-gate", Given::kExpertsTrue},
    {"moe_router_topk", "moe-router-topk", Given::kExperts},
    {"moe_router_score_function", "moe-router-score-function", Given::kExperts},
    {"moe_router_pre_softmax", "moe-router-pre-softmax", Given::kExpertsTrue},
    {"moe_router_topk_scaling_factor", "moe-router-topk-scaling-factor", Given::kExperts},
    {"moe_router_num_groups", "moe-router-num-groups", Given::kExperts},
    {"moe_router_group_topk", "moe-router-group-topk", Given::kExperts},
    {"moe_router_enable_expert_bias", "moe-router-enable-expert-bias", Given::kExpertsTrue},
    {"moe_expert_capacity_factor", "moe-expert-capacity-factor", Given::kExperts},
    {"bert_binary_head", "bert-no-binary-head", Given::kBertFalse},
    {"moe_latent_size", "moe-latent-size", Given::kExperts},
};

class Arguments {
 public:
  Arguments(const Value& values, const std::string& source) : values_(values), source_(source) {}

  std::optional<Value> find(std::string_view name) const {
    const auto found = values_.is(ValueKind::kDict) ? values_.find(name) : values_.attribute(name);
    return found && !found->is(ValueKind::kNone) ? found : std::nullopt;
  }
  bool flag(std::string_view name, bool otherwise = false) const {
    const auto found = find(name);
    return found && found->is(ValueKind::kBool) ? found->boolean() : otherwise;
  }
  std::optional<std::int64_t> number(std::string_view name) const {
    const auto found = find(name);
    return found && found->is(ValueKind::kInt) ? std::optional(found->integer()) : std::nullopt;
  }
  // As on a command line.
  std::string text(const Value& value) const {
    switch (value.kind()) {
      case ValueKind::kString:
        // Megatron-DeepSpeed writes norms in lower case.
        return value.text() == "rmsnorm"     ? "RMSNorm"
               : value.text() == "layernorm" ? "LayerNorm"
                                             : std::string(value.text());
      case ValueKind::kInt:
        return std::to_string(value.integer());
      case ValueKind::kFloat:
        return fmt::format("{}", value.number());
      case ValueKind::kList:
      case ValueKind::kTuple: {
        std::string out = "[";
        for (std::size_t i = 0; i < value.size(); ++i) out += (i > 0 ? "," : "") + text(value[i]);
        return out + "]";
      }
      case ValueKind::kObject:  // an enumerator: its value
        if (value.arguments().size() == 1) return text(value.arguments()[0]);
        [[fallthrough]];
      default:
        fail<DataError>("'{}': an argument of the model is {}", source_, value);
    }
  }

 private:
  const Value& values_;
  const std::string& source_;
};

bool is_given(Given given, const std::optional<Value>& value, bool latent, bool experts, bool rope,
              bool bert) {
  if (!value) return false;
  switch (given) {
    case Given::kTrue:
      return value->is(ValueKind::kBool) && value->boolean();
    case Given::kFalse:
      return value->is(ValueKind::kBool) && !value->boolean();
    case Given::kBertFalse:
      return bert && value->is(ValueKind::kBool) && !value->boolean();
    case Given::kNotZero:
      return value->number() != 0;
    case Given::kLatent:
      return latent;
    case Given::kNotLatent:
      return !latent;
    case Given::kExperts:
      return experts;
    case Given::kExpertsTrue:
      return experts && value->is(ValueKind::kBool) && value->boolean();
    case Given::kRope:
      return rope;
    case Given::kValue:
      return true;
  }
  return false;
}

bool takes_value(Given given) {
  return given != Given::kTrue && given != Given::kFalse && given != Given::kBertFalse &&
         given != Given::kExpertsTrue;
}

// The list of DeepSpeed with one entry is that entry.
Value only_entry(const Value& value) {
  return (value.is(ValueKind::kList) || value.is(ValueKind::kTuple)) && value.size() == 1 ? value[0] : value;
}

}  // namespace

std::string padding_is_kept(std::int64_t entries) {
  return fmt::format(
      "the checkpoint does not say how many of the {} entries of its vocabulary are padding: all are kept "
      "(--vocab-size gives their number)",
      entries);
}

MegatronModel model_of_megatron(const Value& values, model::ModelKind kind,
                                std::optional<std::int64_t> vocabulary, const std::string& source) {
  const Arguments arguments(values, source);
  const bool latent = arguments.flag("multi_latent_attention"), pairs = kind == model::ModelKind::kT5;
  const auto count = arguments.find("num_experts");
  const Value* const experts_value = count ? &*count : nullptr;
  const bool experts = experts_value && only_entry(*experts_value).is(ValueKind::kInt) &&
                       only_entry(*experts_value).integer() > 1;
  const auto positions = arguments.find("position_embedding_type");
  const std::string position_type = positions ? arguments.text(*positions) : "learned_absolute";
  const bool rope = latent || position_type == "rope" || position_type == "yarn" ||
                    arguments.flag("use_rotary_position_embeddings");
  std::vector<std::string> words{pairs                             ? "pretrain_t5.py"
                                 : kind == model::ModelKind::kBert ? "pretrain_bert.py"
                                                                   : "pretrain_gpt.py"};
  for (const Attribute& attribute : kAttributes) {
    const auto value = arguments.find(attribute.name);
    if (!is_given(attribute.given, value, latent, experts, rope, kind == model::ModelKind::kBert)) continue;
    words.push_back(fmt::format("--{}", attribute.argument));
    if (takes_value(attribute.given)) words.push_back(arguments.text(only_entry(*value)));
  }
  if (arguments.flag("group_query_attention"))
    if (const auto groups = arguments.number("num_query_groups"))
      words.insert(words.end(), {"--num-query-groups", std::to_string(*groups)});
  if (!arguments.flag("bias_gelu_fusion")) words.emplace_back("--no-bias-gelu-fusion");
  if (pairs)
    for (const auto& [name, argument] : {std::pair("decoder_num_layers", "--decoder-num-layers"),
                                         {"decoder_seq_length", "--decoder-seq-length"}})
      if (const auto count_of = arguments.number(name))
        words.insert(words.end(), {argument, std::to_string(*count_of)});
  const auto length = arguments.number(pairs ? "encoder_seq_length" : "seq_length");
  words.insert(words.end(),
               {"--seq-length",
                std::to_string(length.value_or(arguments.number("max_position_embeddings").value_or(2048)))});
  MegatronModel out;
  std::int64_t entries = vocabulary.value_or(arguments.number("vocab_size").value_or(0));
  if (entries == 0) {
    entries = arguments.number("padded_vocab_size").value_or(0);
    require<DataError>(entries > 0, "'{}' says neither vocab_size nor padded_vocab_size in its args", source);
    out.notes.push_back(padding_is_kept(entries));
  }
  words.insert(words.end(), {"--vocab-size", std::to_string(entries)});
  MegatronArguments read;
  try {
    read = read_megatron_words(words);
  } catch (const UsageError& error) {
    std::string_view reason = error.what();
    constexpr std::string_view kOption = "--from-megatron: ";
    if (reason.starts_with(kOption)) reason.remove_prefix(kOption.size());
    fail<DataError>("'{}' holds a model of Megatron's that Stoa does not have: {}", source, reason);
  }
  out.config = model_of_overrides(read.overrides, source);
  return out;
}

namespace {

struct ModelRoot {
  model::ModelConfig model;
};
config::Section<ModelRoot> model_section() {
  config::Section<ModelRoot> section;
  section.section("model", &ModelRoot::model,
                  [](config::Section<model::ModelConfig>& s) { model::declare(s); });
  return section;
}

// Without keys that say nothing of the model.
config::Node own_keys(const config::Node& node, const config::Schema& schema, const std::string& path) {
  config::Node out = node;
  if (!node.is_map() || schema.find(path)) return out;
  out.entries.clear();
  for (const auto& [key, value] : node.entries) {
    const std::string below = config::join_path(path, key);
    if (!schema.find(below) && !schema.is_section(below)) continue;
    config::Node inner = own_keys(value, schema, below);
    if (!inner.is_null()) out.entries.emplace_back(key, std::move(inner));
  }
  return out;
}

}  // namespace

model::ModelConfig model_of_overrides(std::span<const std::string> overrides, const std::string& source) {
  return model_of_tree(
      config::merge_layers(model_section().schema(), {}, config::parse_overrides(overrides, 1)), source);
}

model::ModelConfig model_of_tree(const config::Node& root, const std::string& source) {
  const auto section = model_section();
  ModelRoot read;
  try {
    config::read_object(section.schema(), own_keys(root, section.schema(), ""), &read, {});
  } catch (const Error& error) {
    fail<DataError>("'{}' describes a model that does not exist: {}", source, error.what());
  }
  return read.model;
}

}  // namespace stoa::foreign

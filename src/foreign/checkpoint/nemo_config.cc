#include "foreign/checkpoint/nemo_config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "foreign/checkpoint/nemo_checkpoint.h"
#include "foreign/checkpoint/read_back.h"
#include "foreign/checkpoint/shared_keys.h"
#include "model/config.h"

namespace stoa::foreign {
namespace {

using Json = nlohmann::ordered_json;
using model::Activation, model::BiasKind, model::ModelConfig, model::ModelKind, model::PositionEmbedding,
    model::RopeScaling;

// "torch.nn.functional.silu": a class or function of Python.
struct PythonName {
  std::string_view module, name;
  std::string dotted() const { return fmt::format("{}.{}", module, name); }
};

// Keys with their values, in the order in which they are written.
class Keys {
 public:
  template <class T>
  void put(const char* name, const T& value) {
    values.emplace_back(name, value);
  }
  void put(const char* name, const std::optional<std::int64_t>& value) {
    values.emplace_back(name, value ? Json(*value) : Json(nullptr));
  }

  std::vector<std::pair<std::string, Json>> values;
};

// YAML's readers in Python take a number with an exponent for a text unless it has a point.
std::string yaml_value(const Json& value) {
  std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  if (value.is_number_float())
    if (const auto exponent = text.find('e'); exponent != text.npos && text.find('.') == text.npos)
      text.insert(exponent, ".0");
  return text;
}

std::string yaml_lines(const Keys& keys, std::string_view indent) {
  std::string out;
  for (const auto& [name, value] : keys.values)
    out += fmt::format("{}{}: {}\n", indent, name, yaml_value(value));
  return out;
}

// A tree of Fiddle's configurations in its JSON, version 0.0.1: every object once, with references to others.
class FiddleText {
 public:
  static Json leaf(const Json& value, const std::string& path) {
    return {{"type", "leaf"}, {"value", value}, {"paths", {path}}};
  }
  static Json python(const PythonName& name) {
    return {{"type", "pyref"}, {"module", name.module}, {"name", name.name}};
  }
  static Json python(const PythonName& name, const std::string& path) {
    Json out = python(name);
    out["paths"] = {path};
    return out;
  }

  Json list(const Json& values, const std::string& path) {
    Json items = Json::array();
    for (std::size_t i = 0; i < values.size(); ++i)
      items.push_back({fmt::format("Index(index={})", i), leaf(values[i], fmt::format("{}[{}]", path, i))});
    return object("list",
                  {{"type", python(kList)}, {"items", items}, {"metadata", nullptr}, {"paths", {path}}});
  }
  Json empty_dict(const std::string& path = "") {
    Json value{{"type", python(kDict)},
               {"items", Json::array()},
               {"metadata", {{"type", python(kTuple)}, {"items", Json::array()}, {"metadata", nullptr}}}};
    if (!path.empty()) value["paths"] = {path};
    return object("dict", std::move(value));
  }
  // fdl.Config(what, **arguments)
  Json config(const PythonName& what, const std::vector<std::pair<std::string, Json>>& arguments,
              const std::string& path) {
    Json names = Json::array(), items = Json::array();
    for (const auto& [name, value] : arguments) {
      names.push_back({fmt::format("Index(index={})", names.size()), name});
      items.push_back({attribute(name), value});
    }
    Json tuple =
        object("tuple", {{"type", python(kTuple)}, {"items", std::move(names)}, {"metadata", nullptr}});
    Json metadata =
        object("buildable_traverser_metadata",
               {{"type", python(kMetadata)},
                {"items", Json::array({Json::array({attribute("fn_or_cls"), python(what)}),
                                       Json::array({attribute("argument_names"), std::move(tuple)}),
                                       Json::array({attribute("argument_tags"), empty_dict()}),
                                       Json::array({attribute("argument_history"), empty_dict()})})},
                {"metadata", python(kMetadata)}});
    return object("config", {{"type", python(kConfig)},
                             {"items", std::move(items)},
                             {"metadata", std::move(metadata)},
                             {"paths", {path}}});
  }
  std::string finish(const Json& root) {
    Json counts = Json::object();
    for (const auto& [key, value] : objects_.items()) counts[key] = 1;
    const Json all{{"root", root}, {"objects", objects_}, {"refcounts", counts}, {"version", "0.0.1"}};
    return all.dump();
  }

 private:
  static constexpr PythonName kList{"builtins", "list"}, kTuple{"builtins", "tuple"},
      kDict{"builtins", "dict"}, kConfig{"fiddle._src.config", "Config"},
      kMetadata{"fiddle._src.config", "BuildableTraverserMetadata"};

  static std::string attribute(std::string_view name) { return fmt::format("Attr(name='{}')", name); }
  Json object(std::string_view kind, Json value) {
    const std::string key = fmt::format("{}_{}", kind, objects_.size() + 1);
    objects_[key] = std::move(value);
    return {{"type", "ref"}, {"key", key}};
  }

  Json objects_ = Json::object();
};

// How NeMo 2 says an activation; no function: it has none such.
struct Nemo2Activation {
  std::optional<PythonName> function;
  bool gated = false;
};
Nemo2Activation nemo2_activation(Activation activation) {
  constexpr std::string_view kTorch = "torch.nn.functional", kNemo = "nemo.collections.llm.fn.activation";
  switch (activation) {
    case Activation::kGelu:
      return {PythonName{kTorch, "gelu"}};
    case Activation::kGeluTanh:
      return {PythonName{kNemo, "openai_gelu"}};
    case Activation::kRelu:
      return {PythonName{kTorch, "relu"}};
    case Activation::kSquaredRelu:
      return {PythonName{kNemo, "squared_relu"}};
    case Activation::kSwiglu:
      return {PythonName{kTorch, "silu"}, true};
    case Activation::kGeglu:
      return {PythonName{kTorch, "gelu"}, true};
    case Activation::kGegluTanh:
      return {PythonName{kNemo, "openai_gelu"}, true};
    default:
      return {};
  }
}

// The keys that both versions have alike.
void put_sizes(Keys& out, const ModelConfig& c) {
  out.put("num_layers", c.kind == ModelKind::kT5 ? c.num_layers - c.encoder_layers() : c.num_layers);
  out.put("hidden_size", c.hidden_size);
  out.put("ffn_hidden_size", c.ffn_size());
  out.put("num_attention_heads", c.num_attention_heads);
  if (!c.latent.multi_latent_attention) {
    out.put("num_query_groups", c.query_groups());
    out.put("kv_channels", c.head_size());
  }
  out.put("hidden_dropout", c.hidden_dropout);
  out.put("attention_dropout", c.attention_dropout);
  out.put("layernorm_epsilon", c.layernorm_epsilon);
  out.put("init_method_std", c.init_method_std);
  out.put("qk_layernorm", c.qk_layernorm || c.latent.multi_latent_attention);
  out.put("bias_activation_fusion", false);  // the fused kernel of GELU computes the tanh form
  out.put("position_embedding_type", position_word(c));
  if (c.position_embedding_type == PositionEmbedding::kRope) out.put("rotary_base", c.rotary_base);
  out.put("share_embeddings_and_output_weights", c.share_embeddings_and_output_weights);
  if (!c.moe.num_moe_experts) return;
  out.put("num_moe_experts", *c.moe.num_moe_experts);
  out.put("moe_router_topk", c.moe.moe_router_topk);
}

void put_experts(Keys& out, const ModelConfig& c) {
  const model::MoeConfig& m = c.moe;
  if (!m.num_moe_experts) return;
  out.put("moe_layer_freq", expert_layers(c));
  out.put("moe_ffn_hidden_size", c.moe_ffn_size());
  out.put("moe_shared_expert_intermediate_size", m.moe_shared_expert_intermediate_size);
  if (m.moe_shared_expert_gate) out.put("moe_shared_expert_gate", true);
  put_router(out, m);
}

void put_latent(Keys& out, const ModelConfig& c) {
  const model::LatentConfig& latent = c.latent;
  if (!latent.multi_latent_attention) return;
  const model::RopeScalingConfig& scaling = c.rope_scaling;
  const bool yarn = scaling.type == RopeScaling::kYarn;
  put_latent_sizes(out, latent);
  out.put("rope_type", yarn ? "yarn" : "rope");
  if (!yarn) return;
  out.put("rotary_scaling_factor", scaling.factor.value_or(1));
  if (scaling.original_max_position_embeddings)
    out.put("original_max_position_embeddings", *scaling.original_max_position_embeddings);
  out.put("beta_fast", scaling.beta_fast);
  out.put("beta_slow", scaling.beta_slow);
  out.put("mscale", scaling.mscale.value_or(1));
  out.put("mscale_all_dim", scaling.mscale_all_dim.value_or(0));
}

struct Nemo2Classes {
  PythonName model, config;
};
Nemo2Classes nemo2_classes(const ModelConfig& c) {
  if (c.kind == ModelKind::kT5)
    return {{"nemo.collections.llm.t5.model.t5", "T5Model"},
            {"nemo.collections.llm.t5.model.t5", "T5Config"}};
  if (c.latent.multi_latent_attention)
    return {{"nemo.collections.llm.gpt.model.deepseek", "DeepSeekModel"},
            {"nemo.collections.llm.gpt.model.deepseek", "DeepSeekConfig"}};
  if (c.rope_scaling.type == RopeScaling::kLlama3)
    return {{"nemo.collections.llm.gpt.model.llama", "LlamaModel"},
            {"nemo.collections.llm.gpt.model.llama", "Llama31Config"}};
  return {{"nemo.collections.llm.gpt.model.base", "GPTModel"},
          {"nemo.collections.llm.gpt.model.base", "GPTConfig"}};
}

Keys nemo2_keys(const model::ModelSpec& spec) {
  const ModelConfig& c = spec.config;
  Keys out;
  put_sizes(out, c);
  out.put("normalization", c.normalization == model::Normalization::kRmsNorm ? "RMSNorm" : "LayerNorm");
  out.put("add_bias_linear", c.has_mlp_bias());
  out.put("add_qkv_bias", c.has_qkv_bias());
  out.put("gated_linear_unit", nemo2_activation(c.activation).gated);
  if (c.kind == ModelKind::kT5) {
    out.put("encoder_num_layers", c.encoder_layers());
    out.put("seq_length_dec", c.t5.seq_length_dec);
    out.put("max_position_embeddings", c.max_positions());
  }
  // Rows of the table of positions, where there is one.
  const bool table =
      c.position_embedding_type == PositionEmbedding::kLearnedAbsolute && c.kind == ModelKind::kGpt;
  out.put("seq_length", table ? c.max_positions() : c.encoder_seq_length);
  if (c.latent.multi_latent_attention) out.put("max_position_embeddings", c.max_positions());
  if (c.position_embedding_type == PositionEmbedding::kRope) out.put("rotary_percent", c.rotary_percentage);
  if (c.rope_scaling.type == RopeScaling::kLinear)
    out.put("seq_len_interpolation_factor", c.rope_scaling.factor.value_or(1));
  if (c.rope_scaling.type == RopeScaling::kLlama3) {
    out.put("scale_factor", c.rope_scaling.factor.value_or(8));
    out.put("low_freq_factor", c.rope_scaling.low_freq_factor);
    out.put("high_freq_factor", c.rope_scaling.high_freq_factor);
    if (c.rope_scaling.original_max_position_embeddings)
      out.put("old_context_len", *c.rope_scaling.original_max_position_embeddings);
  }
  put_experts(out, c);
  put_latent(out, c);
  out.put("vocab_size", spec.vocabulary);
  return out;
}

constexpr PythonName kAutoTokenizer{"nemo.collections.common.tokenizers.huggingface.auto_tokenizer",
                                    "AutoTokenizer"};

std::string nemo2_yaml(const Nemo2Classes& classes, const Keys& keys, const PythonName& activation,
                       bool tokenizer) {
  std::string out =
      fmt::format("_target_: {}\nconfig:\n  _target_: {}\n", classes.model.dotted(), classes.config.dotted());
  out += yaml_lines(keys, "  ");
  out += fmt::format("  activation_func:\n    _target_: {}\n    _call_: false\n", activation.dotted());
  if (tokenizer)
    out += fmt::format("tokenizer:\n  _target_: {}\n  pretrained_model_name: {}\n", kAutoTokenizer.dotted(),
                       kNemoTokenizer);
  return out;
}

std::string nemo2_json(const Nemo2Classes& classes, const Keys& keys, const PythonName& activation,
                       bool tokenizer) {
  FiddleText text;
  const std::string model = "<root>.model", config = model + ".config";
  std::vector<std::pair<std::string, Json>> shape, parts;
  for (const auto& [name, value] : keys.values) {
    const std::string path = fmt::format("{}.{}", config, name);
    shape.emplace_back(name, value.is_array() ? text.list(value, path) : FiddleText::leaf(value, path));
  }
  shape.emplace_back("activation_func", FiddleText::python(activation, config + ".activation_func"));
  parts.emplace_back("config", text.config(classes.config, shape, config));
  if (tokenizer) {
    const std::string path = model + ".tokenizer";
    parts.emplace_back("tokenizer",
                       text.config(kAutoTokenizer,
                                   {{"pretrained_model_name",
                                     FiddleText::leaf(kNemoTokenizer, path + ".pretrained_model_name")}},
                                   path));
  }
  Json whole = text.config(classes.model, parts, model);
  return text.finish(text.config({"nemo.lightning.io.pl", "TrainerContext"},
                                 {{"model", std::move(whole)},
                                  {"trainer", FiddleText::leaf(nullptr, "<root>.trainer")},
                                  {"extra", text.empty_dict("<root>.extra")}},
                                 "<root>"));
}

// NeMo 1's word for an activation, which may need another key: openai_gelu.
const char* nemo1_activation(Activation activation) {
  switch (activation) {
    case Activation::kGelu:
    case Activation::kGeluTanh:
      return "gelu";
    case Activation::kGeglu:
    case Activation::kGegluTanh:
      return "geglu";
    case Activation::kSwiglu:
      return "swiglu";
    case Activation::kSquaredRelu:
      return "squared-relu";
    case Activation::kRelu:
      return "relu";
    default:  // is lost, which the comparison says
      return "fast-geglu";
  }
}

}  // namespace

NemoContext nemo2_context(const model::ModelSpec& spec, bool tokenizer) {
  const Nemo2Classes classes = nemo2_classes(spec.config);
  const Keys keys = nemo2_keys(spec);
  const PythonName activation =
      nemo2_activation(spec.config.activation).function.value_or(PythonName{"torch.nn.functional", "silu"});
  NemoContext out{nemo2_yaml(classes, keys, activation, tokenizer),
                  nemo2_json(classes, keys, activation, tokenizer)};
  require_same_model("NeMo 2", spec,
                     [&] { return model_of_nemo2(out.model_yaml, "the model for NeMo 2", spec.vocabulary); });
  return out;
}

std::string nemo1_config(const model::ModelSpec& spec, const Nemo1Tokenizer& tokenizer) {
  const ModelConfig& c = spec.config;
  Keys out;
  out.put("mcore_gpt", true);
  for (const char* one : {"micro_batch_size", "global_batch_size", "tensor_model_parallel_size",
                          "pipeline_model_parallel_size"})
    out.put(one, 1);
  out.put("encoder_seq_length", c.encoder_seq_length);
  out.put("max_position_embeddings", c.max_positions());
  put_sizes(out, c);
  out.put("rotary_percentage", c.rotary_percentage);
  if (c.rope_scaling.type == RopeScaling::kLlama3) out.put("scale_positional_embedding", true);
  if (c.rope_scaling.type == RopeScaling::kLinear)
    out.put("seq_len_interpolation_factor", c.rope_scaling.factor.value_or(1));
  out.put("normalization", c.normalization == model::Normalization::kRmsNorm ? "rmsnorm" : "layernorm");
  out.put("transformer_block_type", "pre_ln");
  out.put("bias", c.has_mlp_bias());
  if (c.has_qkv_bias() && !c.has_mlp_bias()) out.put("qkv_bias", true);
  out.put("activation", nemo1_activation(c.activation));
  if (c.activation == Activation::kGeluTanh || c.activation == Activation::kGegluTanh)
    out.put("openai_gelu", true);
  out.put("override_vocab_size", spec.vocabulary);
  out.put("make_vocab_size_divisible_by", 1);
  out.put("dist_ckpt_format", "torch_dist");
  out.put("precision", "bf16");
  std::string text = yaml_lines(out, "");
  text += "tokenizer:\n";
  if (!tokenizer.sentencepiece.empty())
    text +=
        fmt::format("  library: sentencepiece\n  type: null\n  model: nemo:{}\n", tokenizer.sentencepiece);
  else if (!tokenizer.vocabulary.empty())
    text += fmt::format(
        "  library: megatron\n  type: GPT2BPETokenizer\n  vocab_file: nemo:{}\n  merge_file: nemo:{}\n",
        tokenizer.vocabulary, tokenizer.merges);
  else
    text += "  library: huggingface\n  type: null\n";
  text += "target: nemo.collections.nlp.models.language_modeling.megatron_gpt_model.MegatronGPTModel\n";
  text += "nemo_version: 1.23.0\n";
  require_same_model("NeMo 1", spec,
                     [&] { return model_of_nemo1(text, "the model for NeMo 1", spec.vocabulary); });
  return text;
}

}  // namespace stoa::foreign

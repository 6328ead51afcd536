#include "ckpt/import_megatron.h"

#include "base/error.h"
#include "ckpt/import_builder.h"
#include "ckpt/torch/distributed_checkpoint.h"

namespace stoa::ckpt {
namespace {

using torch::Value, torch::ValueKind;

// What the training command was: the Namespace `args` in common.pt.
class MegatronArguments {
 public:
  MegatronArguments(const torch::TorchFile& file) : source_(file.source()), arguments_(find(file)) {}

  const std::string& source() const { return source_; }
  std::optional<Value> given(std::string_view name) const {
    const auto found = arguments_.attribute(name);
    return found && !found->is(ValueKind::kNone) ? found : std::nullopt;
  }
  std::int64_t number(std::string_view name) const {
    const auto found = given(name);
    require<DataError>(found.has_value(), "'{}' does not say '{}' in its args", source_, name);
    return found->integer();
  }
  std::int64_t number(std::string_view name, std::int64_t otherwise) const {
    const auto found = given(name);
    return found ? found->integer() : otherwise;
  }
  double real(std::string_view name, double otherwise) const {
    const auto found = given(name);
    return found ? found->number() : otherwise;
  }
  bool flag(std::string_view name, bool otherwise = false) const {
    const auto found = given(name);
    return found ? found->boolean() : otherwise;
  }
  // Refuses everything but `wanted` where the argument is given.
  void require_text(std::string_view name, std::string_view wanted) const {
    if (const auto found = given(name))
      require<DataError>(found->is(ValueKind::kString) && found->text() == wanted,
                         "'{}': {} is {}, and only models with '{}' are imported yet", source_, name,
                         found->described(), wanted);
  }
  void require_flag(std::string_view name, bool wanted) const {
    require<DataError>(flag(name, wanted) == wanted, "'{}': models with {} = {} are not imported yet",
                       source_, name, !wanted);
  }

 private:
  static Value find(const torch::TorchFile& file) {
    const Value root = file.root();
    const auto found = root.is(ValueKind::kDict) ? root.find("args") : std::nullopt;
    require<DataError>(found && found->is(ValueKind::kObject),
                       "'{}' holds no args: what the model is cannot be read from it", file.source());
    return *found;
  }

  const std::string source_;
  const Value arguments_;
};

LlamaShape shape_of(const MegatronArguments& args) {
  args.require_text("normalization", "RMSNorm");
  args.require_text("position_embedding_type", "rope");
  args.require_flag("swiglu", true);
  args.require_flag("add_bias_linear", false);
  args.require_flag("multi_latent_attention", false);
  args.require_flag("rotary_interleaved", false);
  args.require_flag("use_rope_scaling", false);
  args.require_flag("apply_residual_connection_post_layernorm", false);
  require<DataError>(!args.given("num_experts"), "'{}': models of experts are not imported yet",
                     args.source());
  require<DataError>(args.real("rotary_percent", 1) == 1,
                     "'{}': models with rotary positions on a part of each head are not imported yet",
                     args.source());
  LlamaShape shape;
  shape.layers = args.number("num_layers");
  shape.hidden = args.number("hidden_size");
  shape.heads = args.number("num_attention_heads");
  require<DataError>(shape.layers > 0 && shape.hidden > 0 && shape.heads > 0,
                     "'{}' says {} layers, hidden_size {} and {} heads", args.source(), shape.layers,
                     shape.hidden, shape.heads);
  shape.ffn = args.number("ffn_hidden_size");
  shape.groups =
      args.flag("group_query_attention") ? args.number("num_query_groups", shape.heads) : shape.heads;
  shape.head_dim = args.number("kv_channels", shape.hidden / shape.heads);
  require<DataError>(shape.groups > 0 && shape.heads % shape.groups == 0 && shape.head_dim > 0,
                     "'{}' says {} heads in {} groups of {} channels", args.source(), shape.heads,
                     shape.groups, shape.head_dim);
  shape.positions = args.number("max_position_embeddings", 2048);
  shape.norm_epsilon = args.real("norm_epsilon", 1e-5);
  shape.rope_base = args.real("rotary_base", 1e4);
  shape.tied = !args.flag("untie_embeddings_and_output_weights");
  shape.qkv_bias = args.flag("add_qkv_bias");
  shape.qk_norm = args.flag("qk_layernorm");
  require<DataError>(!(shape.qkv_bias && shape.qk_norm),
                     "'{}': models with biases and norms of queries and keys are not imported yet",
                     args.source());
  return shape;
}

// Rows of queries, keys and values in Megatron's matrix, which holds them group by group.
struct FusedRows {
  std::vector<ImportBuilder::Rows> queries, keys, values;
  std::int64_t all = 0;
};
FusedRows fused_rows(const LlamaShape& shape) {
  FusedRows out;
  const std::int64_t queries = shape.heads / shape.groups * shape.head_dim;
  for (std::int64_t group = 0; group < shape.groups; ++group) {
    out.queries.push_back({out.all, queries});
    out.keys.push_back({out.all + queries, shape.head_dim});
    out.values.push_back({out.all + queries + shape.head_dim, shape.head_dim});
    out.all += queries + 2 * shape.head_dim;
  }
  return out;
}

// NeMo and Megatron-Bridge write a prefix.
std::string prefix_of(const ImportBuilder& builder) {
  for (const char* prefix : {"model.", "module.", "model.module."})
    if (builder.has(std::string(prefix) + "embedding.word_embeddings.weight")) return prefix;
  return "";
}

// States of Transformer Engine, of the optimizer and of random generators.
bool is_needless(const std::string& name) {
  return name.ends_with("_extra_state") || name.find("._extra_state/") != name.npos ||
         name.starts_with("optimizer") || name.starts_with("chained_") || name.starts_with("rng_state") ||
         name.starts_with("rerun_state_machine");
}

}  // namespace

ImportedModel import_megatron(const fs::path& directory, const ImportOptions& options) {
  ImportedModel out;
  out.kind = "Megatron-Core (torch_dist)";
  out.source = std::make_unique<torch::DistributedCheckpoint>(directory);
  const torch::TorchFile common(directory / "common.pt");
  const MegatronArguments args(common);
  LlamaShape shape = shape_of(args);

  ImportBuilder builder(*out.source);
  const std::string prefix = prefix_of(builder), layers = prefix + "decoder.layers.";
  const std::string words = prefix + "embedding.word_embeddings.weight";
  const TensorEntry& embedding = out.source->entry(words);
  require<DataError>(embedding.shape.size() == 2, "'{}': '{}' is {}, and not a matrix", directory.string(),
                     words, embedding.shape_text());
  const std::int64_t padded = embedding.shape[0];
  const auto known = args.given("vocab_size");
  shape.vocabulary = options.vocabulary.value_or(known ? known->integer() : padded);
  if (!options.vocabulary && !known)
    out.notes.push_back(fmt::format(
        "the checkpoint does not say how many of its {} embedding rows are padding: all are kept", padded));
  const auto vocabulary = builder.vocabulary(shape.vocabulary, padded);
  builder.add("model.embed_tokens.weight", builder.whole(words, {padded, shape.hidden}), vocabulary);

  const FusedRows fused = fused_rows(shape);
  for (std::int64_t i = 0; i < shape.layers; ++i) {
    const auto part = [&](const std::string& name, const std::vector<std::int64_t>& size) {
      return builder.layer(layers, name, i, shape.layers, size);
    };
    // Transformer Engine fuses a norm with the matrix after it, and the checkpoint names it so.
    const auto norm = [&](const std::string& fused_name, const std::string& own) {
      const std::string name = fused_name + ".layer_norm_weight";
      return part(builder.has_layer(layers, name) ? name : own + ".weight", {shape.hidden});
    };
    const std::string to = fmt::format("model.layers.{}.", i);
    builder.add(to + "input_layernorm.weight", norm("self_attention.linear_qkv", "input_layernorm"));
    const SourcePart qkv = part("self_attention.linear_qkv.weight", {fused.all, shape.hidden});
    builder.add(to + "self_attn.q_proj.weight", qkv, fused.queries);
    builder.add(to + "self_attn.k_proj.weight", qkv, fused.keys);
    builder.add(to + "self_attn.v_proj.weight", qkv, fused.values);
    if (shape.qkv_bias) {
      const SourcePart bias = part("self_attention.linear_qkv.bias", {fused.all});
      builder.add(to + "self_attn.q_proj.bias", bias, fused.queries);
      builder.add(to + "self_attn.k_proj.bias", bias, fused.keys);
      builder.add(to + "self_attn.v_proj.bias", bias, fused.values);
    }
    if (shape.qk_norm) {
      builder.add(to + "self_attn.q_norm.weight",
                  part("self_attention.q_layernorm.weight", {shape.head_dim}));
      builder.add(to + "self_attn.k_norm.weight",
                  part("self_attention.k_layernorm.weight", {shape.head_dim}));
    }
    builder.add(to + "self_attn.o_proj.weight",
                part("self_attention.linear_proj.weight", {shape.hidden, shape.heads * shape.head_dim}));
    builder.add(to + "post_attention_layernorm.weight", norm("mlp.linear_fc1", "pre_mlp_layernorm"));
    const SourcePart up = part("mlp.linear_fc1.weight", {2 * shape.ffn, shape.hidden});
    builder.add(to + "mlp.gate_proj.weight", up, {{0, shape.ffn}});
    builder.add(to + "mlp.up_proj.weight", up, {{shape.ffn, shape.ffn}});
    builder.add(to + "mlp.down_proj.weight", part("mlp.linear_fc2.weight", {shape.hidden, shape.ffn}));
  }
  builder.add("model.norm.weight", builder.whole(prefix + "decoder.final_layernorm.weight", {shape.hidden}));
  if (!shape.tied)
    builder.add("lm_head.weight", builder.whole(prefix + "output_layer.weight", {padded, shape.hidden}),
                vocabulary);
  out.tensors = builder.finish(is_needless);
  out.config = shape.config(out.tensors.front().entry.type);
  return out;
}

}  // namespace stoa::ckpt

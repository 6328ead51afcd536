#include "foreign/checkpoint/megatron_args.h"

#include <fmt/format.h>

#include <algorithm>
#include <concepts>

#include "base/error.h"
#include "foreign/checkpoint/megatron_model.h"
#include "foreign/checkpoint/read_back.h"
#include "foreign/checkpoint/shared_keys.h"

namespace stoa::foreign {
namespace {

using ckpt::torch::PickleWriter;
using model::Activation, model::BiasKind, model::ModelConfig, model::ModelKind, model::PositionEmbedding,
    model::RopeScaling;

class Namespace {
 public:
  explicit Namespace(PickleWriter& pickle) : pickle_(pickle) {
    pickle_.global("argparse", "Namespace").begin_tuple().end_tuple().object().begin_dict();
  }
  void number(const char* name, std::int64_t value) { pickle_.text(name).integer(value); }
  void number(const char* name, const std::optional<std::int64_t>& value) {
    if (value) number(name, *value);
  }
  void real(const char* name, double value) { pickle_.text(name).real(value); }
  void flag(const char* name, bool value) { pickle_.text(name).boolean(value); }
  void text(const char* name, std::string_view value) { pickle_.text(name).text(value); }
  void list(const char* name, const std::vector<std::int64_t>& values) {
    pickle_.text(name).begin_list();
    for (const std::int64_t value : values) pickle_.integer(value);
    pickle_.end_list();
  }
  // By the type of the value.
  void put(const char* name, std::same_as<bool> auto value) { flag(name, value); }
  void put(const char* name, double value) { real(name, value); }
  void put(const char* name, const std::optional<std::int64_t>& value) { number(name, value); }
  void put(const char* name, std::int64_t value) { number(name, value); }
  void put(const char* name, std::string_view value) { text(name, value); }
  void end() { pickle_.end_dict().state(); }

 private:
  PickleWriter& pickle_;
};

void write_positions(Namespace& out, const ModelConfig& c) {
  const bool rope = c.position_embedding_type == PositionEmbedding::kRope;
  out.text("position_embedding_type", position_word(c));
  out.flag("add_position_embedding", c.position_embedding_type == PositionEmbedding::kLearnedAbsolute);
  if (!rope) return;
  out.real("rotary_base", c.rotary_base);
  out.real("rotary_percent", c.rotary_percentage);
  const model::RopeScalingConfig& scaling = c.rope_scaling;
  if (scaling.type == RopeScaling::kLinear)
    out.real("rotary_seq_len_interpolation_factor", scaling.factor.value_or(1));
  out.flag("use_rope_scaling", scaling.type == RopeScaling::kLlama3);
  if (scaling.type == RopeScaling::kLlama3) out.real("rope_scaling_factor", scaling.factor.value_or(8));
  if (!c.latent.multi_latent_attention) return;
  const bool yarn = scaling.type == RopeScaling::kYarn;
  out.text("rope_type", yarn ? "yarn" : "rope");
  if (!yarn) return;
  out.real("rotary_scaling_factor", scaling.factor.value_or(1));
  out.number("yarn_original_max_position_embeddings", scaling.original_max_position_embeddings);
  out.real("mscale", scaling.mscale.value_or(1));
  out.real("mscale_all_dim", scaling.mscale_all_dim.value_or(0));
}

void write_experts(Namespace& out, const ModelConfig& c) {
  const model::MoeConfig& m = c.moe;
  if (!m.num_moe_experts) return;
  out.number("num_experts", *m.num_moe_experts);
  const std::vector<std::int64_t> layers = expert_layers(c);
  if (std::count(layers.begin(), layers.end(), 0) == 0)
    out.number("moe_layer_freq", 1);
  else
    out.list("moe_layer_freq", layers);
  out.number("moe_ffn_hidden_size", c.moe_ffn_size());
  out.number("moe_shared_expert_intermediate_size", m.moe_shared_expert_intermediate_size);
  out.flag("moe_shared_expert_gate", m.moe_shared_expert_gate);
  out.number("moe_router_topk", m.moe_router_topk);
  put_router(out, m);
}

void write_shape(Namespace& out, const model::ModelSpec& spec) {
  const ModelConfig& c = spec.config;
  const bool pairs = c.kind == ModelKind::kT5;
  out.number("num_layers", pairs ? c.encoder_layers() : c.num_layers);
  if (pairs) {
    out.number("decoder_num_layers", c.num_layers - c.encoder_layers());
    out.number("encoder_seq_length", c.encoder_seq_length);
    out.number("decoder_seq_length", c.t5.seq_length_dec);
  }
  out.number("hidden_size", c.hidden_size);
  out.number("ffn_hidden_size", c.ffn_size());
  out.number("num_attention_heads", c.num_attention_heads);
  const model::LatentConfig& latent = c.latent;
  if (latent.multi_latent_attention) {
    put_latent_sizes(out, latent);
  } else {
    out.flag("multi_latent_attention", false);
    out.number("kv_channels", c.head_size());
    out.flag("group_query_attention", c.query_groups() != c.num_attention_heads);
    out.number("num_query_groups", c.query_groups());
  }
  out.flag("qk_layernorm", c.qk_layernorm || latent.multi_latent_attention);
  out.number("seq_length", c.encoder_seq_length);
  out.number("max_position_embeddings", c.max_positions());
  out.text("normalization", c.normalization == model::Normalization::kRmsNorm ? "RMSNorm" : "LayerNorm");
  out.real("norm_epsilon", c.layernorm_epsilon);
  out.flag("swiglu", c.activation == Activation::kSwiglu);
  out.flag("squared_relu", c.activation == Activation::kSquaredRelu);
  out.flag("openai_gelu", c.activation == Activation::kGeluTanh);
  out.flag("bias_gelu_fusion", false);
  out.flag("add_bias_linear", c.bias == BiasKind::kAll);
  out.flag("add_qkv_bias", c.bias == BiasKind::kQkv);
  out.flag("untie_embeddings_and_output_weights", !c.share_embeddings_and_output_weights);
  out.real("hidden_dropout", c.hidden_dropout);
  out.real("attention_dropout", c.attention_dropout);
  out.real("init_method_std", c.init_method_std);
  if (c.attention_sinks) out.text("softmax_type", "learnable");
  if (c.kind == ModelKind::kBert) out.flag("bert_binary_head", c.bert.binary_head);
  out.number("vocab_size", spec.vocabulary);
  out.number("padded_vocab_size", spec.vocabulary);
}

}  // namespace

void write_megatron_args(PickleWriter& pickle, const model::ModelSpec& spec,
                         const MegatronCounters& counters) {
  const auto write = [&](PickleWriter& to) {
    Namespace out(to);
    write_shape(out, spec);
    write_positions(out, spec.config);
    write_experts(out, spec.config);
    out.number("tensor_model_parallel_size", 1);
    out.number("pipeline_model_parallel_size", 1);
    out.number("iteration", counters.iteration);
    out.number("consumed_train_samples", counters.samples);
    out.number("consumed_valid_samples", 0);
    out.end();
  };
  // What a reader makes of them must be the same model.
  PickleWriter alone;
  write(alone);
  const std::string text = alone.finish();
  const ckpt::torch::Pickle read(std::as_bytes(std::span(text)), "the arguments for Megatron");
  require_same_model("Megatron", spec, [&] {
    return model_of_megatron(read.root(), spec.config.kind, spec.vocabulary, read.source()).config;
  });
  write(pickle);
}

}  // namespace stoa::foreign

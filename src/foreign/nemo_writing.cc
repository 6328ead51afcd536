#include "foreign/nemo_writing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "config/value.h"
#include "config/yaml.h"

namespace stoa::foreign {
namespace {

using config::Node;

// Keys of NeMo 1.x that have Stoa's name and meaning.
constexpr const char* kSameKeys[] = {"trainer.devices",
                                     "trainer.num_nodes",
                                     "trainer.max_steps",
                                     "trainer.log_every_n_steps",
                                     "trainer.val_check_interval",
                                     "trainer.limit_val_batches",
                                     "trainer.gradient_clip_val",
                                     "exp_manager.explicit_log_dir",
                                     "model.micro_batch_size",
                                     "model.global_batch_size",
                                     "model.rampup_batch_size",
                                     "model.tensor_model_parallel_size",
                                     "model.pipeline_model_parallel_size",
                                     "model.virtual_pipeline_model_parallel_size",
                                     "model.context_parallel_size",
                                     "model.expert_model_parallel_size",
                                     "model.sequence_parallel",
                                     "model.encoder_seq_length",
                                     "model.max_position_embeddings",
                                     "model.num_layers",
                                     "model.hidden_size",
                                     "model.ffn_hidden_size",
                                     "model.num_attention_heads",
                                     "model.num_query_groups",
                                     "model.kv_channels",
                                     "model.position_embedding_type",
                                     "model.rotary_base",
                                     "model.normalization",
                                     "model.layernorm_epsilon",
                                     "model.share_embeddings_and_output_weights",
                                     "model.hidden_dropout",
                                     "model.attention_dropout",
                                     "model.init_method_std",
                                     "model.use_scaled_init_method",
                                     "model.make_vocab_size_divisible_by",
                                     "model.fp32_residual_connection",
                                     "model.qk_layernorm",
                                     "model.apply_embedding_scaling",
                                     "model.num_moe_experts",
                                     "model.seed",
                                     "model.activations_checkpoint_granularity",
                                     "model.activations_checkpoint_method",
                                     "model.activations_checkpoint_num_layers",
                                     "model.cpu_offloading",
                                     "model.optim.lr",
                                     "model.optim.weight_decay",
                                     "model.optim.betas",
                                     "model.optim.eps",
                                     "model.optim.sched.warmup_steps",
                                     "model.optim.sched.constant_steps",
                                     "model.optim.sched.min_lr",
                                     "model.tokenizer.library",
                                     "model.tokenizer.type",
                                     "model.tokenizer.vocab_file",
                                     "model.tokenizer.merge_file",
                                     "model.tokenizer.model",
                                     "model.data.data_prefix",
                                     "model.data.splits_string",
                                     "model.data.seq_length",
                                     "model.data.eod_mask_loss",
                                     "model.data.reset_position_ids",
                                     "model.data.reset_attention_mask",
                                     "model.data.index_mapping_dir"};

struct RecipeKey {
  const char *own, *nemo2, *bridge;
};
constexpr RecipeKey kRecipeKeys[] = {
    {"trainer.devices", "trainer.devices", nullptr},
    {"trainer.num_nodes", "trainer.num_nodes", nullptr},
    {"model.micro_batch_size", "data.micro_batch_size", "train.micro_batch_size"},
    {"model.global_batch_size", "data.global_batch_size", "train.global_batch_size"},
    {"model.tensor_model_parallel_size", "trainer.strategy.tensor_model_parallel_size",
     "model.tensor_model_parallel_size"},
    {"model.pipeline_model_parallel_size", "trainer.strategy.pipeline_model_parallel_size",
     "model.pipeline_model_parallel_size"},
    {"model.virtual_pipeline_model_parallel_size", "trainer.strategy.virtual_pipeline_model_parallel_size",
     "model.virtual_pipeline_model_parallel_size"},
    {"model.context_parallel_size", "trainer.strategy.context_parallel_size", "model.context_parallel_size"},
    {"model.expert_model_parallel_size", "trainer.strategy.expert_model_parallel_size",
     "model.expert_model_parallel_size"},
    {"model.expert_tensor_parallel_size", "trainer.strategy.expert_tensor_parallel_size",
     "model.expert_tensor_parallel_size"},
    {"model.sequence_parallel", "trainer.strategy.sequence_parallel", "model.sequence_parallel"},
    {"model.activations_checkpoint_granularity", "model.config.recompute_granularity",
     "model.recompute_granularity"},
    {"model.activations_checkpoint_method", "model.config.recompute_method", "model.recompute_method"},
    {"model.activations_checkpoint_num_layers", "model.config.recompute_num_layers",
     "model.recompute_num_layers"},
    {"model.account_for_embedding_in_pipeline_split",
     "trainer.strategy.account_for_embedding_in_pipeline_split",
     "model.account_for_embedding_in_pipeline_split"},
    {"model.account_for_loss_in_pipeline_split", "trainer.strategy.account_for_loss_in_pipeline_split",
     "model.account_for_loss_in_pipeline_split"},
    {"model.cpu_offloading", "model.config.cpu_offloading", "model.cpu_offloading"},
    {"model.cpu_offloading_num_layers", "model.config.cpu_offloading_num_layers",
     "model.cpu_offloading_num_layers"}};

std::string yaml_of(const Node& node) {
  if (node.is_null()) return "null";
  if (node.is_sequence()) {
    std::vector<std::string> items;
    for (const Node& item : node.items) items.push_back(yaml_of(item));
    return fmt::format("[{}]", fmt::join(items, ", "));
  }
  std::string text = config::write_yaml(node);
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

class NemoWriting {
 public:
  explicit NemoWriting(const Node& root) : root_(root) {}

  std::vector<NemoSetting> nemo() {
    put("trainer.precision", is("trainer.precision", "fp32")   ? "32"
                             : is("trainer.precision", "fp16") ? "16"
                                                               : "bf16");
    for (const char* path : kSameKeys)
      if (const Node* node = root_.find_path(path)) put(path, value(path, *node));
    shape();
    sharding();
    if (given("model.num_moe_experts")) {
      copy("model.moe_router_topk");
      copy("model.moe_aux_loss_coeff");
    }
    if (is("model.cpu_offloading", "true")) copy("model.cpu_offloading_num_layers");
    copy("model.optim.sched.name");
    if (given("model.optim.sched.decay_steps"))
      copy("model.optim.sched.decay_steps", "model.optim.sched.max_steps");
    if (is("trainer.precision", "fp16"))
      for (const char* key :
           {"model.native_amp_init_scale", "model.native_amp_growth_interval", "model.hysteresis"})
        copy(key);
    return std::move(out_);
  }

  std::vector<NemoSetting> recipe(bool bridge) {
    for (const RecipeKey& key : kRecipeKeys)
      if (const Node* node = root_.find_path(key.own))
        if (const char* name = bridge ? key.bridge : key.nemo2) put(name, value(key.own, *node));
    const char* shards = is("model.zero_stage", "0") ? "false" : "true";
    put(bridge ? "optimizer.use_distributed_optimizer" : "optim.config.use_distributed_optimizer", shards);
    if (bridge) put("ddp.use_distributed_optimizer", shards);
    return std::move(out_);
  }

 private:
  bool is(const char* path, std::string_view text) const {
    const Node* node = root_.find_path(path);
    return node && node->is_scalar() && node->scalar == text;
  }
  bool given(const char* path) const {
    const Node* node = root_.find_path(path);
    return node && !node->is_null() && !(node->is_scalar() && node->scalar == "null");
  }
  void put(std::string path, std::string value) { out_.push_back({std::move(path), std::move(value)}); }
  void copy(const char* path, const char* name = nullptr) {
    if (given(path)) put(name ? name : path, yaml_of(*root_.find_path(path)));
  }
  // NeMo's word for no recomputation is null.
  std::string value(std::string_view path, const Node& node) const {
    if (path == "model.activations_checkpoint_granularity" && node.is_scalar() && node.scalar == "none")
      return "null";
    if (path == "trainer.gradient_clip_val" && yaml_of(node) == "null") return "0.0";
    return yaml_of(node);
  }

  void shape() {
    copy("model.vocab_size", "model.override_vocab_size");
    const std::string activation = root_.find_path("model.activation")->scalar;
    if (activation == "gelu_tanh" || activation == "geglu_tanh") {
      put("model.activation", activation == "gelu_tanh" ? "gelu" : "geglu");
      put("model.openai_gelu", "true");
    } else {
      put("model.activation", activation);
    }
    put("model.bias", is("model.bias", "all") ? "true" : "false");
    if (is("model.bias", "qkv")) put("model.qkv_bias", "true");
    if (is("model.position_embedding_type", "rope")) copy("model.rotary_percentage");
    if (is("model.rope_scaling.type", "llama3") && is("model.rope_scaling.factor", "8.0"))
      put("model.scale_positional_embedding", "true");
    if (given("model.window_size")) {
      const auto keys = config::parse_integer(root_.find_path("model.window_size")->scalar);
      put("model.window_size", fmt::format("[{}, 0]", keys.value_or(1) - 1));  // without the token itself
    }
    if (!given("model.fp8")) return;
    put("model.transformer_engine", "true");
    put("model.fp8", "true");
    put(is("model.fp8", "e4m3") ? "model.fp8_e4m3" : "model.fp8_hybrid", "true");
    for (const char* key : {"model.fp8_margin", "model.fp8_amax_history_len", "model.fp8_amax_compute_algo"})
      copy(key);
  }

  void sharding() {
    const bool adam = is("model.optim.name", "adamw") || is("model.optim.name", "adam");
    const bool shards = !is("model.zero_stage", "0");
    put("model.optim.name", !adam    ? root_.find_path("model.optim.name")->scalar
                            : shards ? "mcore_distributed_optim"
                                     : "fused_adam");
    if (!is("model.zero_stage", "2") && !is("model.zero_stage", "3")) return;
    put("model.fsdp", "true");
    put("model.fsdp_sharding_strategy", is("model.zero_stage", "2") ? "grad" : "full");
  }

  const Node& root_;
  std::vector<NemoSetting> out_;
};

}  // namespace

std::vector<NemoSetting> write_nemo(const Node& resolved) { return NemoWriting(resolved).nemo(); }

std::vector<NemoSetting> write_nemo2(const Node& resolved, bool bridge) {
  return NemoWriting(resolved).recipe(bridge);
}

std::vector<NemoSetting> changed_settings(const std::vector<NemoSetting>& before,
                                          const std::vector<NemoSetting>& after) {
  std::vector<NemoSetting> out;
  const auto find = [](const std::vector<NemoSetting>& list, const std::string& path) {
    return std::find_if(list.begin(), list.end(), [&](const auto& s) { return s.path == path; });
  };
  for (const NemoSetting& s : after) {
    const auto was = find(before, s.path);
    if (was == before.end() || was->value != s.value) out.push_back(s);
  }
  for (const NemoSetting& s : before)
    if (find(after, s.path) == after.end()) out.push_back({s.path, "null"});
  return out;
}

std::vector<YamlChange> yaml_changes(const std::vector<NemoSetting>& changed, const Node& root) {
  std::vector<YamlChange> out;
  for (const NemoSetting& s : changed) {
    const Node* was = root.find_path(s.path);
    if (!was && s.value == "null") continue;
    if (was && yaml_of(*was) == s.value) continue;
    out.push_back({s.path, s.value, was ? "was " + was->summary() : "added"});
  }
  return out;
}

std::string nemo_file_text(const std::vector<NemoSetting>& settings, const std::string& title) {
  Node root = Node::map();
  for (const NemoSetting& s : settings) {
    if (s.value != "null") root.make_path(s.path) = config::parse_yaml(s.value, "plan");
  }
  root.make_path("model.mcore_gpt") = Node::plain("true");
  root.make_path("trainer.accelerator") = Node::plain("gpu");
  return fmt::format("# {}\n{}", title, config::write_yaml(root));
}

}  // namespace stoa::foreign

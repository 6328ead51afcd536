#include "foreign/nemo2_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/nearest.h"

namespace stoa::foreign {
namespace {

using config::Node;

// Key of a recipe and the key of Stoa that means the same.
struct Pair {
  std::string_view theirs, ours;
};
constexpr Pair kPairs[] = {
    {"model.config.num_layers", "model.num_layers"},
    {"model.config.hidden_size", "model.hidden_size"},
    {"model.config.ffn_hidden_size", "model.ffn_hidden_size"},
    {"model.config.num_attention_heads", "model.num_attention_heads"},
    {"model.config.num_query_groups", "model.num_query_groups"},
    {"model.config.kv_channels", "model.kv_channels"},
    {"model.config.seq_length", "model.encoder_seq_length"},
    {"model.config.hidden_dropout", "model.hidden_dropout"},
    {"model.config.attention_dropout", "model.attention_dropout"},
    {"model.config.layernorm_epsilon", "model.layernorm_epsilon"},
    {"model.config.init_method_std", "model.init_method_std"},
    {"model.config.rotary_base", "model.rotary_base"},
    {"model.config.rotary_percent", "model.rotary_percentage"},
    {"model.config.position_embedding_type", "model.position_embedding_type"},
    {"model.config.share_embeddings_and_output_weights", "model.share_embeddings_and_output_weights"},
    {"model.config.make_vocab_size_divisible_by", "model.make_vocab_size_divisible_by"},
    {"model.config.vocab_size", "model.vocab_size"},
    {"model.config.qk_layernorm", "model.qk_layernorm"},
    {"model.config.num_moe_experts", "model.num_moe_experts"},
    {"model.config.moe_router_topk", "model.moe_router_topk"},
    {"model.config.moe_ffn_hidden_size", "model.moe_ffn_hidden_size"},
    {"model.config.moe_aux_loss_coeff", "model.moe_aux_loss_coeff"},
    {"model.config.recompute_granularity", "model.activations_checkpoint_granularity"},
    {"model.config.recompute_method", "model.activations_checkpoint_method"},
    {"model.config.recompute_num_layers", "model.activations_checkpoint_num_layers"},
    {"data.seq_length", "model.encoder_seq_length"},
    {"data.micro_batch_size", "model.micro_batch_size"},
    {"data.global_batch_size", "model.global_batch_size"},
    {"trainer.devices", "trainer.devices"},
    {"trainer.num_nodes", "trainer.num_nodes"},
    {"trainer.max_steps", "trainer.max_steps"},
    {"trainer.log_every_n_steps", "trainer.log_every_n_steps"},
    {"trainer.limit_val_batches", "trainer.limit_val_batches"},
    {"trainer.val_check_interval", "trainer.val_check_interval"},
    {"trainer.plugins.precision", "trainer.precision"},
    {"trainer.plugins.fp8", "model.fp8"},
    {"trainer.plugins.fp8_recipe", "model.fp8_recipe"},
    {"trainer.plugins.fp8_margin", "model.fp8_margin"},
    {"trainer.plugins.fp8_amax_history_len", "model.fp8_amax_history_len"},
    {"trainer.plugins.fp8_amax_compute_algo", "model.fp8_amax_compute_algo"},
    {"trainer.plugins.fp8_wgrad", "model.fp8_wgrad"},
    {"trainer.plugins.first_last_layers_bf16", "model.first_last_layers_bf16"},
    {"trainer.plugins.num_layers_at_start_in_bf16", "model.num_layers_at_start_in_bf16"},
    {"trainer.plugins.num_layers_at_end_in_bf16", "model.num_layers_at_end_in_bf16"},
    {"trainer.strategy.tensor_model_parallel_size", "model.tensor_model_parallel_size"},
    {"trainer.strategy.pipeline_model_parallel_size", "model.pipeline_model_parallel_size"},
    {"trainer.strategy.virtual_pipeline_model_parallel_size", "model.virtual_pipeline_model_parallel_size"},
    {"trainer.strategy.context_parallel_size", "model.context_parallel_size"},
    {"trainer.strategy.expert_model_parallel_size", "model.expert_model_parallel_size"},
    {"trainer.strategy.sequence_parallel", "model.sequence_parallel"},
    {"trainer.strategy.account_for_embedding_in_pipeline_split",
     "model.account_for_embedding_in_pipeline_split"},
    {"trainer.strategy.account_for_loss_in_pipeline_split", "model.account_for_loss_in_pipeline_split"},
    {"trainer.strategy.ddp.overlap_grad_reduce", "model.optim.overlap_grad_sync"},
    {"optim.config.lr", "model.optim.lr"},
    {"optim.config.weight_decay", "model.optim.weight_decay"},
    {"optim.config.clip_grad", "trainer.gradient_clip_val"},
    {"optim.config.adam_eps", "model.optim.eps"},
    {"optim.lr_scheduler.warmup_steps", "model.optim.sched.warmup_steps"},
    {"optim.lr_scheduler.constant_steps", "model.optim.sched.constant_steps"},
    {"optim.lr_scheduler.min_lr", "model.optim.sched.min_lr"},
};

// Shapes that a class stands for: nemo/collections/llm/gpt/model (2.x), and the papers of the models.
struct Shape {
  std::string_view name;
  std::int64_t layers, hidden, heads, groups, ffn, sequence, vocabulary;
  enum Kind { kGpt, kLlama, kMixtral } kind;
};
constexpr Shape kShapes[] = {
    {"GPTConfig126M", 12, 768, 12, 12, 3072, 2048, 50257, Shape::kGpt},
    {"GPTConfig5B", 24, 4096, 32, 32, 16384, 2048, 50257, Shape::kGpt},
    {"GPTConfig7B", 32, 4096, 32, 32, 10880, 2048, 50257, Shape::kGpt},
    {"GPTConfig20B", 44, 6144, 48, 48, 24576, 2048, 50257, Shape::kGpt},
    {"GPTConfig40B", 48, 8192, 64, 64, 32768, 2048, 50257, Shape::kGpt},
    {"GPTConfig175B", 96, 12288, 96, 96, 49152, 2048, 50257, Shape::kGpt},
    {"Llama2Config7B", 32, 4096, 32, 32, 11008, 4096, 32000, Shape::kLlama},
    {"Llama2Config13B", 40, 5120, 40, 40, 13824, 4096, 32000, Shape::kLlama},
    {"Llama2Config70B", 80, 8192, 64, 8, 28672, 4096, 32000, Shape::kLlama},
    {"Llama3Config8B", 32, 4096, 32, 8, 14336, 8192, 128256, Shape::kLlama},
    {"Llama3Config70B", 80, 8192, 64, 8, 28672, 8192, 128256, Shape::kLlama},
    {"Llama31Config8B", 32, 4096, 32, 8, 14336, 8192, 128256, Shape::kLlama},
    {"Llama31Config70B", 80, 8192, 64, 8, 28672, 8192, 128256, Shape::kLlama},
    {"Llama31Config405B", 126, 16384, 128, 8, 53248, 8192, 128256, Shape::kLlama},
    {"Llama32Config1B", 16, 2048, 32, 8, 8192, 8192, 128256, Shape::kLlama},
    {"Llama32Config3B", 28, 3072, 24, 8, 8192, 8192, 128256, Shape::kLlama},
    {"MistralConfig7B", 32, 4096, 32, 8, 14336, 4096, 32000, Shape::kLlama},
    {"MixtralConfig8x7B", 32, 4096, 32, 8, 14336, 4096, 32000, Shape::kMixtral},
    {"MixtralConfig8x22B", 56, 6144, 48, 8, 16384, 4096, 32768, Shape::kMixtral},
};

std::string last_part(const std::string& dotted) { return dotted.substr(dotted.rfind('.') + 1); }

class Nemo2Reading {
 public:
  explicit Nemo2Reading(const Node& root) : root_(root) {}

  Nemo2Config read() {
    shape();
    for (const Pair& pair : kPairs) {
      const Node* node = root_.find_path(pair.theirs);
      if (!node) continue;
      used_.insert(std::string(pair.theirs));
      if (!node->is_null())
        set(std::string(pair.ours), node->is_scalar() ? node->scalar : config::write_yaml(*node));
    }
    sharding();
    betas();
    activation();
    for (const auto& [key, value] : root_.entries) list_rest(key, value);
    if (last_.find("model.num_layers") == last_.end()) no_shape();
    for (const auto& [key, value] : last_) out_.overrides.push_back(key + "=" + value);
    return std::move(out_);
  }

 private:
  void set(const std::string& key, std::string value) {
    while (!value.empty() && value.back() == '\n') value.pop_back();
    if (key == "model.position_embedding_type" || key == "model.normalization")
      std::transform(value.begin(), value.end(), value.begin(),
                     [](unsigned char c) { return std::tolower(c); });
    last_[key] = value;
  }

  const Node* take(const char* path) {
    const Node* node = root_.find_path(path);
    if (node) used_.insert(path);
    return node && !node->is_null() ? node : nullptr;
  }

  void shape() {
    const Node* target = take("model.config._target_");
    if (!target) return;
    class_ = last_part(target->scalar);
    for (const Shape& s : kShapes) {
      if (s.name != class_) continue;
      set("model.num_layers", std::to_string(s.layers));
      set("model.hidden_size", std::to_string(s.hidden));
      set("model.num_attention_heads", std::to_string(s.heads));
      if (s.groups != s.heads) set("model.num_query_groups", std::to_string(s.groups));
      set("model.ffn_hidden_size", std::to_string(s.ffn));
      set("model.encoder_seq_length", std::to_string(s.sequence));
      set("model.vocab_size", std::to_string(s.vocabulary));
      if (s.kind == Shape::kGpt) {
        set("model.activation", "gelu");
      } else {
        set("model.activation", "swiglu");
        set("model.normalization", "rmsnorm");
        set("model.position_embedding_type", "rope");
        set("model.bias", "none");
        set("model.share_embeddings_and_output_weights",
            s.name == "Llama32Config1B" || s.name == "Llama32Config3B" ? "true" : "false");
      }
      if (s.kind == Shape::kMixtral) {
        set("model.num_moe_experts", "8");
        set("model.moe_router_topk", "2");
      }
      out_.notes.push_back(
          fmt::format("shape of {}: {} layers, hidden {}, {} heads", s.name, s.layers, s.hidden, s.heads));
    }
  }

  [[noreturn]] void no_shape() const {
    std::vector<std::string> names;
    for (const Shape& s : kShapes) names.emplace_back(s.name);
    fail<ConfigError>(
        "the recipe's model is '{}', whose sizes Stoa does not know{}: give model.num_layers, "
        "model.hidden_size and "
        "model.num_attention_heads, or a recipe with model.config.num_layers and kin",
        class_.empty() ? "not named" : class_, did_you_mean(class_, names));
  }

  void sharding() {
    if (const Node* node = take("optim.config.use_distributed_optimizer"); node && node->scalar == "true")
      set("model.zero_stage", "1");
    if (const Node* node = take("trainer.strategy.fsdp"); node && node->scalar != "false")
      set("model.zero_stage", "3");
  }

  void betas() {
    const Node *first = take("optim.config.adam_beta1"), *second = take("optim.config.adam_beta2");
    if (first || second)
      set("model.optim.betas",
          fmt::format("[{}, {}]", first ? first->scalar : "0.9", second ? second->scalar : "0.999"));
  }

  void activation() {
    const Node* gated = take("model.config.gated_linear_unit");
    if (gated && gated->scalar == "true") set("model.activation", "swiglu");
    if (const Node* bias = take("model.config.add_bias_linear"); bias && bias->scalar == "false")
      set("model.bias", "none");
    if (const Node* norm = take("model.config.normalization")) set("model.normalization", norm->scalar);
  }

  void list_rest(const std::string& path, const Node& node) {
    if (used_.contains(path)) return;
    if (node.is_map() && !node.entries.empty()) {
      for (const auto& [key, value] : node.entries) list_rest(path + "." + key, value);
      return;
    }
    const std::string name = last_part(path);
    const bool of_python = name.starts_with("_");
    out_.ignored.push_back(fmt::format(
        "{} ({})", path,
        of_python ? "a choice of Python class" : "part of NeMo 2's recipe: no effect on the plan"));
  }

  const Node& root_;
  Nemo2Config out_;
  std::string class_;
  std::map<std::string, std::string> last_;
  std::set<std::string> used_;
};

}  // namespace

bool is_nemo2(const Node& root) {
  return root.is_map() && (root.find_path("model.config") || root.find_path("trainer.strategy._target_"));
}

Nemo2Config read_nemo2(const Node& root) { return Nemo2Reading(root).read(); }

}  // namespace stoa::foreign

#include "foreign/megatron/writing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>

#include "config/value.h"
#include "foreign/megatron/shell_script.h"
#include "foreign/megatron/shell_statements.h"

namespace stoa::foreign {
namespace {

using config::Node;

// Arguments that have the value of a key, where it has one.
constexpr std::pair<const char*, const char*> kModelKeys[] = {
    {"num-layers", "model.num_layers"},
    {"hidden-size", "model.hidden_size"},
    {"ffn-hidden-size", "model.ffn_hidden_size"},
    {"num-attention-heads", "model.num_attention_heads"},
    {"seq-length", "model.encoder_seq_length"},
    {"max-position-embeddings", "model.max_position_embeddings"},
    {"norm-epsilon", "model.layernorm_epsilon"},
    {"hidden-dropout", "model.hidden_dropout"},
    {"attention-dropout", "model.attention_dropout"},
    {"init-method-std", "model.init_method_std"},
    {"vocab-size", "model.vocab_size"},
    {"make-vocab-size-divisible-by", "model.make_vocab_size_divisible_by"}};
constexpr std::pair<const char*, const char*> kExpertKeys[] = {
    {"num-experts", "model.num_moe_experts"},
    {"moe-router-topk", "model.moe_router_topk"},
    {"moe-ffn-hidden-size", "model.moe_ffn_hidden_size"},
    {"moe-shared-expert-intermediate-size", "model.moe_shared_expert_intermediate_size"},
    {"moe-router-score-function", "model.moe_router_score_function"},
    {"moe-router-topk-scaling-factor", "model.moe_router_topk_scaling_factor"},
    {"moe-router-num-groups", "model.moe_router_num_groups"},
    {"moe-router-group-topk", "model.moe_router_group_topk"},
    {"moe-router-load-balancing-type", "model.moe_router_load_balancing_type"},
    {"moe-aux-loss-coeff", "model.moe_aux_loss_coeff"}};
constexpr std::pair<const char*, const char*> kRunKeys[] = {
    {"train-iters", "trainer.max_steps"},
    {"lr", "model.optim.lr"},
    {"weight-decay", "model.optim.weight_decay"},
    {"start-weight-decay", "model.optim.start_weight_decay"},
    {"end-weight-decay", "model.optim.end_weight_decay"},
    {"lr-warmup-iters", "model.optim.sched.warmup_steps"},
    {"lr-warmup-fraction", "model.optim.sched.warmup_ratio"},
    {"lr-decay-iters", "model.optim.sched.decay_steps"},
    {"lr-wsd-decay-iters", "model.optim.sched.wsd_decay_steps"},
    {"seed", "model.seed"},
    {"split", "model.data.splits_string"}};

class MegatronWriting {
 public:
  explicit MegatronWriting(const Node& root) : root_(root) {}

  std::vector<WrittenArgument> list() {
    shape();
    positions();
    attention();
    activation();
    if (given("model.num_moe_experts")) experts();
    layout();
    sharding();
    recomputation();
    precision();
    estimated();
    run();
    return std::move(out_);
  }

 private:
  std::string text(const char* key) const {
    const Node* node = root_.find_path(key);
    return node && node->is_scalar() ? node->scalar : std::string();
  }
  bool given(const char* key) const {
    const Node* node = root_.find_path(key);
    return node && !node->is_null() && !(node->is_sequence() && node->items.empty()) &&
           !(node->is_scalar() && node->scalar == "null");
  }
  bool is(const char* key, std::string_view value) const { return text(key) == value; }
  bool on(const char* key) const { return is(key, "true"); }
  std::int64_t whole(const char* key, std::int64_t otherwise) const {
    return config::parse_integer(text(key)).value_or(otherwise);
  }
  double real(const char* key, double otherwise) const {
    return config::parse_real(text(key)).value_or(otherwise);
  }
  std::vector<std::string> items(const char* key) const {
    std::vector<std::string> out;
    if (const Node* node = root_.find_path(key))
      for (const Node& item : node->items) out.push_back(item.scalar);
    return out;
  }

  void flag(bool is_on, const char* name) {
    if (is_on) out_.push_back({name, {}});
  }
  void put(const char* name, std::string value) { out_.push_back({name, {std::move(value)}}); }
  void key(const char* name, const char* path) {
    if (given(path)) put(name, text(path));
  }

  // One entry a layer: `inside` for those of the list, `outside` for the others, "[1]*3+[0]*29".
  std::string layer_list(const char* path, int inside, int outside) const {
    const std::vector<std::string> list = items(path);
    std::string out;
    int before = -1, run = 0;
    const auto flush = [&] {
      if (run > 0) out += fmt::format("{}[{}]*{}", out.empty() ? "" : "+", before, run);
    };
    for (std::int64_t i = 0; i < whole("model.num_layers", 0); ++i) {
      const bool in = std::find(list.begin(), list.end(), std::to_string(i)) != list.end();
      const int now = in ? inside : outside;
      if (now != before) flush(), run = 0;
      before = now;
      ++run;
    }
    flush();
    return fmt::format("({})", out);
  }

  void shape() {
    for (const auto& [name, path] : kModelKeys) key(name, path);
    if (!given("model.max_position_embeddings"))
      put("max-position-embeddings", text("model.encoder_seq_length"));
    put("normalization", is("model.normalization", "rmsnorm") ? "RMSNorm" : "LayerNorm");
    flag(is("model.bias", "none") || is("model.bias", "qkv"), "disable-bias-linear");
    flag(is("model.bias", "qkv"), "add-qkv-bias");
    flag(!on("model.share_embeddings_and_output_weights"), "untie-embeddings-and-output-weights");
    flag(on("model.fp32_residual_connection"), "fp32-residual-connection");
    if (!on("model.use_mup")) return;
    flag(true, "use-mup");
    key("mup-base-hidden-size", "model.mup_base_hidden_size");
    key("mup-base-head-dim", "model.mup_base_head_dim");
    key("mup-output-mult", "model.mup_output_mult");
    key("mup-embedding-mult", "model.embedding_multiplier");
  }

  void positions() {
    const bool latent = on("model.multi_latent_attention");
    const std::string scaling = text("model.rope_scaling.type");
    const bool yarn = scaling == "yarn";
    if (!is("model.position_embedding_type", "alibi"))  // of BigScience's copy alone
      put("position-embedding-type", yarn && !latent ? "yarn" : text("model.position_embedding_type"));
    if (is("model.position_embedding_type", "rope")) {
      const double base = real("model.rotary_base", 10000);
      put("rotary-base", fmt::format("{:.0f}", base));  // a whole number there
      if (real("model.rotary_percentage", 1) != 1) key("rotary-percent", "model.rotary_percentage");
      if (given("model.no_rope_layers")) put("no-rope-freq", layer_list("model.no_rope_layers", 1, 0));
    }
    if (scaling == "linear") key("rotary-seq-len-interpolation-factor", "model.rope_scaling.factor");
    if (scaling == "llama3") {
      flag(true, "use-rope-scaling");
      key("rope-scaling-factor", "model.rope_scaling.factor");
    }
    if (latent) put("rope-type", yarn ? "yarn" : "rope");
    if (!yarn) return;
    key("rotary-scaling-factor", "model.rope_scaling.factor");
    if (!latent) {
      key("yarn-original-max-position-embeddings", "model.rope_scaling.original_max_position_embeddings");
      key("yarn-beta-fast", "model.rope_scaling.beta_fast");
      key("yarn-beta-slow", "model.rope_scaling.beta_slow");
      flag(is("model.rope_scaling.truncate", "false"), "no-yarn-correction-range-round-to-int");
    } else {
      key("mscale", "model.rope_scaling.mscale");
      key("mscale-all-dim", "model.rope_scaling.mscale_all_dim");
    }
  }

  void attention() {
    const std::int64_t groups = whole("model.num_query_groups", 0);
    if (groups > 0 && groups != whole("model.num_attention_heads", 0)) {
      flag(true, "group-query-attention");
      put("num-query-groups", std::to_string(groups));
    }
    const bool latent = on("model.multi_latent_attention");
    flag(on("model.qk_layernorm") || latent, "qk-layernorm");
    if (given("model.window_size")) {
      put("window-size", fmt::format("{},0", whole("model.window_size", 1) - 1));  // without the token itself
      if (given("model.window_layers"))
        put("window-attn-skip-freq", layer_list("model.window_layers", 1, 0));
      else
        key("window-attn-skip-freq", "model.window_attn_skip_freq");
    }
    if (on("model.attention_sinks")) put("softmax-type", "learnable");
    flag(on("model.attention_output_gate"), "attention-output-gate");
    if (latent) {
      flag(true, "multi-latent-attention");
      key("q-lora-rank", "model.q_lora_rank");
      key("kv-lora-rank", "model.kv_lora_rank");
      key("qk-head-dim", "model.qk_head_dim");
      key("qk-pos-emb-head-dim", "model.qk_pos_emb_head_dim");
      key("v-head-dim", "model.v_head_dim");
    } else {
      key("kv-channels", "model.kv_channels");
    }
    const bool every = given("model.linear_attention_freq");
    if (!every && !given("model.linear_attention_layers")) return;
    put("experimental-attention-variant", "gated_delta_net");
    put("linear-attention-freq",
        every ? text("model.linear_attention_freq") : layer_list("model.linear_attention_layers", 1, 0));
    key("linear-conv-kernel-dim", "model.linear_conv_kernel_dim");
    key("linear-key-head-dim", "model.linear_key_head_dim");
    key("linear-value-head-dim", "model.linear_value_head_dim");
    key("linear-num-key-heads", "model.linear_num_key_heads");
    key("linear-num-value-heads", "model.linear_num_value_heads");
  }

  void activation() {
    const std::string kind = text("model.activation");
    flag(kind == "swiglu", "swiglu");
    flag(kind == "squared_relu", "squared-relu");
    flag(kind == "gelu", "no-bias-gelu-fusion");  // whose kernel computes the tanh form
    flag(kind == "gelu_tanh", "openai-gelu");
    if (kind != "swiglu_oai") return;
    flag(true, "quick-geglu");
    put("glu-linear-offset", "1.0");
    key("activation-func-clamp-value", "model.activation_limit");
  }

  void experts() {
    for (const auto& [name, path] : kExpertKeys) key(name, path);
    flag(on("model.moe_shared_expert_gate"), "moe-shared-expert-gate");
    flag(on("model.moe_router_pre_softmax"), "moe-router-pre-softmax");
    if (given("model.moe_dense_layers"))
      put("moe-layer-freq", layer_list("model.moe_dense_layers", 0, 1));
    else if (whole("model.moe_layer_freq", 1) > 1)
      key("moe-layer-freq", "model.moe_layer_freq");
    if (on("model.moe_router_enable_expert_bias")) {
      flag(true, "moe-router-enable-expert-bias");
      key("moe-router-bias-update-rate", "model.moe_router_bias_update_rate");
    }
    if (real("model.moe_z_loss_coeff", 0) > 0) key("moe-z-loss-coeff", "model.moe_z_loss_coeff");
    if (given("model.moe_expert_capacity_factor")) {
      key("moe-expert-capacity-factor", "model.moe_expert_capacity_factor");
      key("moe-token-drop-policy", "model.moe_token_drop_policy");
      flag(on("model.moe_pad_expert_input_to_capacity"), "moe-pad-expert-input-to-capacity");
    }
    put("moe-token-dispatcher-type", "alltoall");
    flag(true, "moe-grouped-gemm");
  }

  void layout() {
    key("micro-batch-size", "model.micro_batch_size");
    key("global-batch-size", "model.global_batch_size");
    if (given("model.rampup_batch_size"))
      out_.push_back({"rampup-batch-size", items("model.rampup_batch_size")});
    key("tensor-model-parallel-size", "model.tensor_model_parallel_size");
    key("pipeline-model-parallel-size", "model.pipeline_model_parallel_size");
    const std::int64_t chunks = whole("model.virtual_pipeline_model_parallel_size", 1);
    const bool hybrid = !text("model.hybrid_override_pattern").empty();  // its pattern says where stages end
    if (!hybrid && given("model.pipeline_layers")) {
      // E embedding, t a layer, L loss; stages are parted by bars.
      std::string parts;
      for (const std::string& n : items("model.pipeline_layers"))
        parts += (parts.empty() ? "E" : "|") + (n == "0" ? "" : "t*" + n);
      const std::int64_t further = whole("model.mtp_num_layers", 0);
      if (further > 0) parts += fmt::format("m*{}", further);
      put("pipeline-model-parallel-layout", parts + "L");
    } else if (!hybrid) {
      if (chunks > 1) put("num-virtual-stages-per-pipeline-rank", std::to_string(chunks));
      flag(on("model.account_for_embedding_in_pipeline_split"), "account-for-embedding-in-pipeline-split");
      flag(on("model.account_for_loss_in_pipeline_split"), "account-for-loss-in-pipeline-split");
    }
    if (chunks > 1)
      key("microbatch-group-size-per-virtual-pipeline-stage", "model.microbatch_group_size_per_vp_stage");
    if (whole("model.context_parallel_size", 1) > 1) {
      key("context-parallel-size", "model.context_parallel_size");
      key("cp-comm-type", "model.cp_comm_type");
      if (given("model.hierarchical_context_parallel_sizes"))
        out_.push_back(
            {"hierarchical-context-parallel-sizes", items("model.hierarchical_context_parallel_sizes")});
    }
    if (whole("model.expert_model_parallel_size", 1) > 1)
      key("expert-model-parallel-size", "model.expert_model_parallel_size");
    if (given("model.num_moe_experts"))
      key("expert-tensor-parallel-size", "model.expert_tensor_parallel_size");
    flag(on("model.sequence_parallel") && whole("model.tensor_model_parallel_size", 1) > 1,
         "sequence-parallel");
  }

  void sharding() {
    const std::int64_t stage = whole("model.zero_stage", 0);
    const bool overlaps = on("model.optim.overlap_grad_sync");
    flag(stage == 1, "use-distributed-optimizer");
    if (stage >= 2) {
      flag(true, "use-megatron-fsdp");
      put("data-parallel-sharding-strategy", stage == 2 ? "optim_grads" : "optim_grads_params");
    }
    flag(overlaps, "overlap-grad-reduce");
    flag(overlaps && stage >= 1, "overlap-param-gather");
    flag(is("model.optim.grad_reduce_type", "bf16"), "grad-reduce-in-bf16");
  }

  void recomputation() {
    const std::string granularity = text("model.activations_checkpoint_granularity");
    if (granularity == "selective") {
      put("recompute-granularity", "selective");
      std::vector<std::string> modules{"core_attn", "layernorm"};
      for (std::string& more : items("model.recompute_modules")) modules.push_back(std::move(more));
      out_.push_back({"recompute-modules", std::move(modules)});
    } else if (granularity == "full") {
      put("recompute-granularity", "full");
      const bool block = is("model.activations_checkpoint_method", "block");
      put("recompute-method", block ? "block" : "uniform");
      put("recompute-num-layers", std::to_string(whole("model.activations_checkpoint_num_layers", 1)));
    }
    if (on("model.cpu_offloading")) key("cpu-offloading-num-layers", "model.cpu_offloading_num_layers");
  }

  // The letters of a hybrid's layers, with bars between the chunks of the pipeline.
  std::string pattern_of_stages() const {
    const std::string pattern = text("model.hybrid_override_pattern");
    std::vector<std::string> parts = items("model.pipeline_layers");
    const std::int64_t chunks = whole("model.virtual_pipeline_model_parallel_size", 1) *
                                whole("model.pipeline_model_parallel_size", 1);
    const auto layers = static_cast<std::int64_t>(pattern.size());
    if (parts.empty() && chunks > 1 && layers % chunks == 0)
      parts.assign(static_cast<std::size_t>(chunks), std::to_string(layers / chunks));
    std::string out;
    std::size_t at = 0;
    for (const std::string& n : parts) {
      const auto count = static_cast<std::size_t>(config::parse_integer(n).value_or(0));
      out += (&n != &parts.front() ? "|" : "") + pattern.substr(std::min(at, pattern.size()), count);
      at += count;
    }
    return parts.empty() ? pattern : out;
  }

  // What Stoa does not train.
  void estimated() {
    if (whole("model.mtp_num_layers", 0) > 0) key("mtp-num-layers", "model.mtp_num_layers");
    flag(on("model.fp8_params"), "fp8-param-gather");
    flag(on("model.use_tp_pp_dp_mapping"), "use-tp-pp-dp-mapping");
    flag(on("model.overlap_moe_expert_parallel_comm"), "overlap-moe-expert-parallel-comm");
    if (whole("model.num_distributed_optimizer_instances", 1) > 1)
      key("num-distributed-optimizer-instances", "model.num_distributed_optimizer_instances");
    bool aware = false;
    for (const auto& [name, path] : {std::pair("exp-avg-dtype", "model.exp_avg_dtype"),
                                     std::pair("exp-avg-sq-dtype", "model.exp_avg_sq_dtype"),
                                     std::pair("main-params-dtype", "model.main_params_dtype"),
                                     std::pair("main-grads-dtype", "model.main_grads_dtype")}) {
      if (!given(path) || is(path, "fp32")) continue;
      key(name, path);
      aware = true;
    }
    flag(aware, "use-precision-aware-optimizer");
    if (text("model.hybrid_override_pattern").empty()) return;
    put("hybrid-layer-pattern", pattern_of_stages());
    key("mamba-state-dim", "model.mamba_state_dim");
    key("mamba-head-dim", "model.mamba_head_dim");
    key("mamba-num-groups", "model.mamba_num_groups");
    key("mamba-num-heads", "model.mamba_num_heads");
  }

  void precision() {
    flag(is("trainer.precision", "bf16"), "bf16");
    if (is("trainer.precision", "fp16")) {
      flag(true, "fp16");
      key("initial-loss-scale", "model.native_amp_init_scale");
      key("loss-scale-window", "model.native_amp_growth_interval");
      key("hysteresis", "model.hysteresis");
      key("min-loss-scale", "model.min_loss_scale");
    }
    if (!given("model.fp8")) return;
    // Every argument: Megatron's defaults (delayed, a history of one step, the most recent) are not Stoa's.
    key("fp8-format", "model.fp8");
    key("fp8-recipe", is("model.fp8_blocks", "none") ? "model.fp8_recipe" : "model.fp8_blocks");
    key("fp8-margin", "model.fp8_margin");
    if (is("model.fp8_recipe", "delayed")) {
      key("fp8-amax-history-len", "model.fp8_amax_history_len");
      key("fp8-amax-compute-algo", "model.fp8_amax_compute_algo");
    }
    flag(is("model.fp8_wgrad", "false"), "no-fp8-wgrad");
    if (!on("model.first_last_layers_bf16")) return;
    flag(true, "first-last-layers-bf16");
    key("num-layers-at-start-in-bf16", "model.num_layers_at_start_in_bf16");
    key("num-layers-at-end-in-bf16", "model.num_layers_at_end_in_bf16");
  }

  void run() {
    static const std::map<std::string, const char*> kShapes{
        {"WarmupAnnealing", "linear"},
        {"CosineAnnealing", "cosine"},
        {"Constant", "constant"},
        {"InverseSquareRootAnnealing", "inverse-square-root"},
        {"WSD", "WSD"}};
    for (const auto& [name, path] : kRunKeys) key(name, path);
    // Steps at the end that stay at the least rate end the decay earlier.
    if (!given("model.optim.sched.decay_steps") && whole("model.optim.sched.constant_steps", 0) > 0)
      put("lr-decay-iters",
          std::to_string(whole("trainer.max_steps", 1) - whole("model.optim.sched.constant_steps", 0)));
    const std::string optimizer = text("model.optim.name");
    put("optimizer", optimizer == "sgd" || optimizer == "muon" ? optimizer : "adam");
    if (optimizer == "sgd") key("sgd-momentum", "model.optim.momentum");
    const std::vector<std::string> betas = items("model.optim.betas");
    if (betas.size() == 2 && optimizer != "sgd") {
      put("adam-beta1", betas[0]);
      put("adam-beta2", betas[1]);
      key("adam-eps", "model.optim.eps");
    }
    if (optimizer == "muon") {
      key("muon-momentum", "model.optim.muon_momentum");
      flag(on("model.optim.muon_use_nesterov"), "muon-nesterov");
      key("muon-num-ns-steps", "model.optim.muon_num_ns_steps");
      key("muon-coefficient-type", "model.optim.muon_coefficient_type");
      key("muon-scale-mode", "model.optim.muon_scale_mode");
      key("muon-extra-scale-factor", "model.optim.muon_extra_scale_factor");
    }
    put("clip-grad", given("trainer.gradient_clip_val") ? text("trainer.gradient_clip_val") : "0.0");
    const auto shape = kShapes.find(text("model.optim.sched.name"));
    if (shape != kShapes.end()) put("lr-decay-style", shape->second);
    if (!is("model.optim.sched.name", "Constant")) key("min-lr", "model.optim.sched.min_lr");
    if (is("model.optim.sched.name", "WSD")) key("lr-wsd-decay-style", "model.optim.sched.wsd_decay_style");
    if (real("model.optim.sched.warmup_init_lr", 0) > 0)
      key("lr-warmup-init", "model.optim.sched.warmup_init_lr");
    if (!is("model.optim.weight_decay_incr_style", "constant"))
      key("weight-decay-incr-style", "model.optim.weight_decay_incr_style");
    flag(on("model.data.eod_mask_loss"), "eod-mask-loss");
    flag(on("model.data.reset_position_ids"), "reset-position-ids");
    flag(on("model.data.reset_attention_mask"), "reset-attention-mask");
    if (whole("trainer.val_check_interval", 0) > 0) {
      key("eval-interval", "trainer.val_check_interval");
      key("eval-iters", "trainer.limit_val_batches");
    }
    key("log-interval", "trainer.log_every_n_steps");
  }

  const Node& root_;
  std::vector<WrittenArgument> out_;
};

}  // namespace

std::string shell_quoted(std::string_view word) {
  constexpr std::string_view kPlain = "-_./,:=+@%^";
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [&](char c) {
    return is_name_char(c) || kPlain.find(c) != std::string_view::npos;
  });
  if (plain) return std::string(word);
  std::string out = "\"";
  for (std::size_t at = 0; at < word.size(); ++at) {
    const char c = word[at];
    if (c == kOpen) {
      const auto end = word.find(kClose, at);
      const std::string_view name = word.substr(at + 1, end - at - 1);
      const bool name_only = std::all_of(name.begin(), name.end(), is_name_char);
      out += name_only ? fmt::format("${{{}}}", name) : fmt::format("${}", name);
      if (end == std::string_view::npos) break;
      at = end;
      continue;
    }
    if (c == '"' || c == '\\' || c == '$' || c == '`') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string WrittenArgument::text() const {
  std::string out = "--" + name;
  for (const std::string& v : values) out += " " + shell_quoted(v);
  return out;
}

std::vector<WrittenArgument> write_megatron(const config::Node& resolved) {
  return MegatronWriting(resolved).list();
}

}  // namespace stoa::foreign

#include "foreign/megatron_arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/nearest.h"
#include "config/value.h"

namespace stoa::foreign {
namespace {

// Arguments whose value becomes that of a key.
struct Valued {
  std::string_view name, key;
};
constexpr Valued kValued[] = {
    {"num-layers", "model.num_layers"},
    {"hidden-size", "model.hidden_size"},
    {"ffn-hidden-size", "model.ffn_hidden_size"},
    {"num-attention-heads", "model.num_attention_heads"},
    {"kv-channels", "model.kv_channels"},
    {"seq-length", "model.encoder_seq_length"},
    {"encoder-seq-length", "model.encoder_seq_length"},
    {"max-position-embeddings", "model.max_position_embeddings"},
    {"position-embedding-type", "model.position_embedding_type"},
    {"rotary-base", "model.rotary_base"},
    {"rotary-percent", "model.rotary_percentage"},
    {"norm-epsilon", "model.layernorm_epsilon"},
    {"hidden-dropout", "model.hidden_dropout"},
    {"attention-dropout", "model.attention_dropout"},
    {"vocab-size", "model.vocab_size"},
    {"padded-vocab-size", "model.vocab_size"},
    {"make-vocab-size-divisible-by", "model.make_vocab_size_divisible_by"},
    {"init-method-std", "model.init_method_std"},
    {"seed", "model.seed"},
    {"num-experts", "model.num_moe_experts"},
    {"moe-router-topk", "model.moe_router_topk"},
    {"moe-ffn-hidden-size", "model.moe_ffn_hidden_size"},
    {"moe-shared-expert-intermediate-size", "model.moe_shared_expert_intermediate_size"},
    {"moe-layer-freq", "model.moe_layer_freq"},
    {"moe-aux-loss-coeff", "model.moe_aux_loss_coeff"},
    {"moe-z-loss-coeff", "model.moe_z_loss_coeff"},
    {"moe-router-score-function", "model.moe_router_score_function"},
    {"moe-router-topk-scaling-factor", "model.moe_router_topk_scaling_factor"},
    {"moe-router-num-groups", "model.moe_router_num_groups"},
    {"moe-router-group-topk", "model.moe_router_group_topk"},
    {"moe-expert-capacity-factor", "model.moe_expert_capacity_factor"},
    {"moe-token-drop-policy", "model.moe_token_drop_policy"},
    {"micro-batch-size", "model.micro_batch_size"},
    {"global-batch-size", "model.global_batch_size"},
    {"tensor-model-parallel-size", "model.tensor_model_parallel_size"},
    {"pipeline-model-parallel-size", "model.pipeline_model_parallel_size"},
    {"num-virtual-stages-per-pipeline-rank", "model.virtual_pipeline_model_parallel_size"},
    {"microbatch-group-size-per-virtual-pipeline-stage", "model.microbatch_group_size_per_vp_stage"},
    {"context-parallel-size", "model.context_parallel_size"},
    {"expert-model-parallel-size", "model.expert_model_parallel_size"},
    {"recompute-granularity", "model.activations_checkpoint_granularity"},
    {"recompute-method", "model.activations_checkpoint_method"},
    {"recompute-num-layers", "model.activations_checkpoint_num_layers"},
    {"train-iters", "trainer.max_steps"},
    {"clip-grad", "trainer.gradient_clip_val"},
    {"lr", "model.optim.lr"},
    {"min-lr", "model.optim.sched.min_lr"},
    {"weight-decay", "model.optim.weight_decay"},
    {"adam-eps", "model.optim.eps"},
    {"lr-warmup-iters", "model.optim.sched.warmup_steps"},
    {"lr-warmup-fraction", "model.optim.sched.warmup_ratio"},
    {"lr-decay-iters", "model.optim.sched.decay_steps"},
    {"eval-interval", "trainer.val_check_interval"},
    {"eval-iters", "trainer.limit_val_batches"},
    {"log-interval", "trainer.log_every_n_steps"},
    {"fp8-format", "model.fp8"},
    {"fp8-recipe", "model.fp8_recipe"},
    {"fp8-margin", "model.fp8_margin"},
    {"fp8-amax-history-len", "model.fp8_amax_history_len"},
    {"fp8-amax-compute-algo", "model.fp8_amax_compute_algo"},
    {"num-layers-at-start-in-bf16", "model.num_layers_at_start_in_bf16"},
    {"num-layers-at-end-in-bf16", "model.num_layers_at_end_in_bf16"},
    {"nproc-per-node", "trainer.devices"},
    {"nproc_per_node", "trainer.devices"},
    {"nnodes", "trainer.num_nodes"},
};

// Arguments without a value.
struct Flag {
  std::string_view name, setting;
};
constexpr Flag kFlags[] = {
    {"use-rotary-position-embeddings", "model.position_embedding_type=rope"},
    {"swiglu", "model.activation=swiglu"},
    {"squared-relu", "model.activation=squared_relu"},
    {"openai-gelu", "model.activation=gelu_tanh"},
    {"disable-bias-linear", "model.bias=none"},
    {"untie-embeddings-and-output-weights", "model.share_embeddings_and_output_weights=false"},
    {"qk-layernorm", "model.qk_layernorm=true"},
    {"fp32-residual-connection", "model.fp32_residual_connection=true"},
    {"sequence-parallel", "model.sequence_parallel=true"},
    {"recompute-activations", "model.activations_checkpoint_granularity=selective"},
    {"bf16", "trainer.precision=bf16"},
    {"fp16", "trainer.precision=fp16"},
    {"overlap-grad-reduce", "model.optim.overlap_grad_sync=true"},
    {"account-for-embedding-in-pipeline-split", "model.account_for_embedding_in_pipeline_split=true"},
    {"account-for-loss-in-pipeline-split", "model.account_for_loss_in_pipeline_split=true"},
    {"no-fp8-wgrad", "model.fp8_wgrad=false"},
    {"first-last-layers-bf16", "model.first_last_layers_bf16=true"},
    {"moe-router-pre-softmax", "model.moe_router_pre_softmax=true"},
    {"moe-pad-expert-input-to-capacity", "model.moe_pad_expert_input_to_capacity=true"},
};

// Known arguments without effect on a plan: prefixes of their names, and the reason.
struct Group {
  std::string_view beginning, reason;
};
constexpr Group kIgnored[] = {
    {"save", "files of a run"},
    {"load", "files of a run"},
    {"ckpt", "files of a run"},
    {"async-save", "files of a run"},
    {"dist-ckpt", "files of a run"},
    {"data", "the data of a run"},
    {"train-data", "the data of a run"},
    {"valid-data", "the data of a run"},
    {"test-data", "the data of a run"},
    {"split", "the data of a run"},
    {"mock-data", "the data of a run"},
    {"num-workers", "the data of a run"},
    {"reset-", "the data of a run"},
    {"eod-mask-loss", "the data of a run"},
    {"tokenizer", "the tokenizer of a run: --vocab-size is used"},
    {"vocab-file", "the tokenizer of a run: --vocab-size is used"},
    {"merge-file", "the tokenizer of a run: --vocab-size is used"},
    {"tensorboard", "logging"},
    {"wandb", "logging"},
    {"log-", "logging"},
    {"timing-log", "logging"},
    {"profile", "logging"},
    {"use-pytorch-profiler", "logging"},
    {"no-", "a choice of kernels or fusions: Stoa's own are used"},
    {"use-flash-attn", "attention never forms the s x s matrix"},
    {"attention-softmax-in-fp32", "softmax is always computed in fp32"},
    {"attention-backend", "a choice of kernels"},
    {"cross-entropy", "a choice of kernels"},
    {"transformer-impl", "a choice of Python class"},
    {"use-mcore-models", "a choice of Python class"},
    {"use-legacy", "a choice of Python class"},
    {"distributed-", "how processes find each other"},
    {"master-", "of torchrun"},
    {"node-rank", "of torchrun"},
    {"node_rank", "of torchrun"},
    {"rdzv", "of torchrun"},
    {"overlap-param-gather", "overlap: does not affect memory"},
    {"tp-comm-overlap", "overlap: does not affect memory"},
    {"overlap-p2p", "overlap: does not affect memory"},
    {"align-", "overlap: does not affect memory"},
    {"defer-embedding", "overlap: does not affect memory"},
    {"accumulate-allreduce-grads-in-fp32", "gradients are always added in fp32"},
    {"loss-scale", "the loss scale does not affect the plan"},
    {"initial-loss-scale", "the loss scale does not affect the plan"},
    {"min-loss-scale", "the loss scale does not affect the plan"},
    {"hysteresis", "the loss scale does not affect the plan"},
    {"lr-decay-style", "the learning rate does not affect the plan"},
    {"lr-warmup-init", "the learning rate does not affect the plan"},
    {"lr-wsd", "the learning rate does not affect the plan"},
    {"start-weight-decay", "weight decay does not affect the plan"},
    {"end-weight-decay", "weight decay does not affect the plan"},
    {"weight-decay-incr", "weight decay does not affect the plan"},
    {"apply-layernorm-1p", "storage of norm weights; no effect on results"},
    {"apply-query-key-layer-scaling", "no effect on exact results"},
    {"moe-token-dispatcher", "a choice of kernels"},
    {"moe-grouped-gemm", "a choice of kernels"},
    {"moe-permute-fusion", "a choice of kernels"},
    {"exit-", "when a run ends"},
    {"manual-gc", "Python's garbage collector"},
    {"empty-unused-memory", "PyTorch's allocator; Stoa's memory is laid out before the first step"},
    {"use-cpu-initialization", "initial weights are a function of seed and element"},
    {"deterministic-mode", "results do not depend on it"},
    {"rerun-", "of Megatron's run"},
    {"enable-", "of Megatron's run"},
};

std::vector<std::string> shell_words(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool inside = false;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote) {
      if (c == quote)
        quote = 0;
      else
        word += c;
    } else if (c == '\'' || c == '"') {
      quote = c;
      inside = true;
    } else if (c == '\\' && i + 1 < text.size()) {
      if (text[i + 1] != '\n') word += text[i + 1], inside = true;  // a line that continues
      ++i;
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      if (inside) words.push_back(std::move(word));
      word.clear();
      inside = false;
    } else {
      word += c;
      inside = true;
    }
  }
  require<UsageError>(quote == 0, "--from-megatron: a quote ({}) is not closed", quote);
  if (inside) words.push_back(std::move(word));
  return words;
}

struct Argument {
  std::string name;
  std::vector<std::string> values;
};

std::vector<Argument> arguments_of(std::string_view text) {
  std::vector<Argument> out;
  for (const std::string& word : shell_words(text)) {
    if (word.starts_with("--") && word.size() > 2) {
      const auto equals = word.find('=');
      out.push_back({word.substr(2, equals == std::string::npos ? equals : equals - 2), {}});
      if (equals != std::string::npos) out.back().values.push_back(word.substr(equals + 1));
    } else if (!out.empty() && !word.ends_with(".py")) {
      out.back().values.push_back(word);
    }
  }
  return out;
}

class MegatronReading {
 public:
  explicit MegatronReading(std::vector<Argument> arguments) : arguments_(std::move(arguments)) {}

  MegatronArguments read() {
    for (const Argument& a : arguments_) take(a);
    combine();
    return std::move(out_);
  }

 private:
  std::string one(const Argument& a) const {
    require<UsageError>(a.values.size() == 1, "--from-megatron: --{} takes one value, got {}", a.name,
                        a.values.empty() ? "none" : fmt::format("{}", fmt::join(a.values, " ")));
    return a.values.front();
  }
  std::int64_t integer(const Argument& a) const {
    const auto value = config::parse_integer(one(a));
    require<UsageError>(value.has_value(), "--from-megatron: --{} {}: expected a whole number", a.name,
                        one(a));
    return *value;
  }
  void set(std::string key, const std::string& value) {
    values_[key] = value;
    out_.overrides.push_back(std::move(key) + "=" + value);
  }
  void ignore(const Argument& a, std::string_view reason) {
    out_.ignored.push_back(
        fmt::format("--{}{}{} ({})", a.name, a.values.empty() ? "" : " ", fmt::join(a.values, " "), reason));
  }
  bool has(std::string_view name) const {
    return std::any_of(arguments_.begin(), arguments_.end(), [&](const auto& a) { return a.name == name; });
  }

  void take(const Argument& a) {
    for (const Valued& v : kValued)
      if (v.name == a.name) return set(std::string(v.key), one(a));
    for (const Flag& f : kFlags) {
      if (f.name != a.name) continue;
      const auto equals = f.setting.find('=');
      return set(std::string(f.setting.substr(0, equals)), std::string(f.setting.substr(equals + 1)));
    }
    if (special(a)) return;
    for (const Group& g : kIgnored)
      if (a.name.starts_with(g.beginning)) return ignore(a, g.reason);
    ignore(a, "unknown to Stoa: no effect on the plan" + did_you_mean(a.name, known()));
  }

  static std::vector<std::string> known() {
    std::vector<std::string> names;
    for (const Valued& v : kValued) names.emplace_back(v.name);
    for (const Flag& f : kFlags) names.emplace_back(f.name);
    return names;
  }

  // Handles arguments that do not correspond to a single key. False: not one of them.
  bool special(const Argument& a) {
    const std::string& n = a.name;
    if (n == "normalization") {
      set("model.normalization", one(a) == "RMSNorm"     ? "rmsnorm"
                                 : one(a) == "LayerNorm" ? "layernorm"
                                                         : one(a));
    } else if (n == "num-query-groups") {
      if (has("group-query-attention"))
        set("model.num_query_groups", one(a));
      else
        ignore(a, "used with --group-query-attention only");
    } else if (n == "group-query-attention") {
      if (!has("num-query-groups")) set("model.num_query_groups", "1");
    } else if (n == "add-qkv-bias") {
      if (has("disable-bias-linear")) set("model.bias", "qkv");
    } else if (n == "use-distributed-optimizer") {
      set("model.zero_stage", "1");
    } else if (n == "use-torch-fsdp2") {
      set("model.zero_stage", "3");
    } else if (n == "use-megatron-fsdp") {
      if (!has("data-parallel-sharding-strategy"))
        ignore(a, "without --data-parallel-sharding-strategy nothing is sharded");
    } else if (n == "data-parallel-sharding-strategy") {
      static const std::map<std::string, std::string> kStages{
          {"no_shard", "0"}, {"optim", "1"}, {"optim_grads", "2"}, {"optim_grads_params", "3"}};
      const auto stage = kStages.find(one(a));
      require<UsageError>(
          stage != kStages.end(),
          "--from-megatron: --{} {}: expected no_shard, optim, optim_grads or optim_grads_params", n, one(a));
      set("model.zero_stage", stage->second);
    } else if (n == "expert-tensor-parallel-size") {
      ignore(a, "experts are split by --tensor-model-parallel-size");
    } else if (n == "ddp-bucket-size") {  // of fp32 numbers
      set("model.optim.bucket_cap_mb", fmt::format("{}", static_cast<double>(integer(a)) * 4 / (1 << 20)));
    } else if (n == "cpu-offloading-num-layers") {
      set("model.cpu_offloading", integer(a) > 0 ? "true" : "false");
      set("model.cpu_offloading_num_layers", one(a));
    } else if (n == "rampup-batch-size") {
      require<UsageError>(a.values.size() == 3, "--from-megatron: --{} takes three values, got {}", n,
                          a.values.size());
      set("model.rampup_batch_size", fmt::format("[{}]", fmt::join(a.values, ", ")));
    } else if (n == "window-size") {
      window(a);
    } else if (n == "optimizer") {
      require<UsageError>(one(a) == "adam" || one(a) == "sgd",
                          "--from-megatron: --optimizer {}: expected adam or sgd", one(a));
      set("model.optim.name", one(a) == "adam" ? "adamw" : "sgd");
    } else if (n == "moe-router-load-balancing-type") {
      const bool sequence = one(a) == "seq_aux_loss" || one(a) == "aux_loss";
      if (sequence || one(a) == "none")
        set("model.moe_router_load_balancing_type", sequence ? "sequence" : "none");
      else
        ignore(a, "load balancing does not affect the plan");
    } else if (n == "use-rope-scaling" || n == "rope-scaling-factor") {
      ignore(a, "rotary options do not affect the plan");
    } else if (n == "fp8-format" || n == "fp4-format") {
      ignore(a, "FP8 GEMMs: give model.fp8 as an override, or --precision fp8");
    } else if (n == "adam-beta1" || n == "adam-beta2" || n == "train-samples" ||
               n == "num-layers-per-virtual-pipeline-stage" || n == "decoder-first-pipeline-num-layers" ||
               n == "decoder-last-pipeline-num-layers") {
      later_[n] = one(a);
    } else if (n == "lr-warmup-samples" || n == "lr-decay-samples") {
      ignore(a, "the learning rate does not affect the plan");
    } else {
      return false;
    }
    return true;
  }

  void window(const Argument& a) {
    std::string first = a.values.empty() ? "" : a.values.front();
    first =
        first.substr(first.find_first_not_of("( ") == std::string::npos ? 0 : first.find_first_not_of("( "));
    first = first.substr(0, first.find(','));
    const auto keys = config::parse_integer(first);
    require<UsageError>(keys && *keys >= 0, "--from-megatron: --window-size {}: expected two numbers",
                        fmt::join(a.values, " "));
    set("model.window_size", std::to_string(*keys + 1));  // itself included
  }

  std::int64_t number(const std::string& key, std::int64_t otherwise) const {
    const auto it = values_.find(key);
    if (it == values_.end()) return otherwise;
    return config::parse_integer(it->second).value_or(otherwise);
  }

  void combine() {
    for (const char* needed : {"model.num_layers", "model.hidden_size", "model.num_attention_heads"})
      require<UsageError>(values_.contains(needed), "--from-megatron: --{} is missing",
                          megatron_name(needed));
    require<UsageError>(values_.contains("model.encoder_seq_length"),
                        "--from-megatron: --seq-length is missing");
    // Defaults of Megatron that differ from Stoa's.
    if (!values_.contains("trainer.precision")) set("trainer.precision", "fp32");
    for (const char* dropout : {"model.hidden_dropout", "model.attention_dropout"})
      if (!values_.contains(dropout)) {
        set(dropout, "0.1");
        out_.notes.push_back(fmt::format("{} 0.1: Megatron's default", dropout));
      }
    if (!values_.contains("model.activation")) set("model.activation", "gelu");
    if (values_.contains("model.fp8")) eight_bits();
    const std::int64_t layers = number("model.num_layers", 1),
                       stages = number("model.pipeline_model_parallel_size", 1);
    if (const auto it = later_.find("num-layers-per-virtual-pipeline-stage"); it != later_.end()) {
      const auto per = config::parse_integer(it->second).value_or(0);
      require<UsageError>(
          per > 0 && layers % (stages * per) == 0,
          "--from-megatron: --num-layers-per-virtual-pipeline-stage {}: {} layers on {} stages must be "
          "a multiple of it",
          it->second, layers, stages);
      set("model.virtual_pipeline_model_parallel_size", std::to_string(layers / stages / per));
    }
    uneven(layers, stages);
    if (later_.contains("adam-beta1") || later_.contains("adam-beta2"))
      set("model.optim.betas",
          fmt::format("[{}, {}]", later_.contains("adam-beta1") ? later_["adam-beta1"] : "0.9",
                      later_.contains("adam-beta2") ? later_["adam-beta2"] : "0.999"));
    if (const auto it = later_.find("train-samples"); it != later_.end()) {
      const auto samples = config::parse_integer(it->second).value_or(0);
      const std::int64_t batch = number("model.global_batch_size", 1);
      set("trainer.max_steps",
          std::to_string(std::max<std::int64_t>(1, samples / std::max<std::int64_t>(1, batch))));
    }
  }

  // Megatron's defaults for the keys that --fp8-format enables.
  void eight_bits() {
    constexpr std::pair<const char*, const char*> kDefaults[] = {
        {"model.fp8_recipe", "delayed"},
        {"model.fp8_amax_history_len", "1"},
        {"model.fp8_amax_compute_algo", "most_recent"}};
    for (const auto& [key, value] : kDefaults) {
      if (values_.contains(key)) continue;
      set(key, value);
      out_.notes.push_back(fmt::format("{} {}: Megatron's default", key, value));
    }
  }

  // Sets the layers of the first and the last stage as given, and distributes the rest evenly.
  void uneven(std::int64_t layers, std::int64_t stages) {
    const auto of = [&](const char* name) -> std::optional<std::int64_t> {
      const auto it = later_.find(name);
      return it == later_.end() ? std::nullopt : config::parse_integer(it->second);
    };
    const auto first = of("decoder-first-pipeline-num-layers"), last = of("decoder-last-pipeline-num-layers");
    if (!first && !last) return;
    const std::int64_t ends = first.has_value() + last.has_value();
    const std::int64_t rest = layers - first.value_or(0) - last.value_or(0), between = stages - ends;
    require<UsageError>(
        between > 0 && rest % between == 0,
        "--from-megatron: {} layers without the first and the last stage do not divide evenly into {} "
        "stages",
        rest, between);
    require<UsageError>(
        number("model.virtual_pipeline_model_parallel_size", 1) == 1,
        "--from-megatron: --decoder-first/last-pipeline-num-layers with several chunks per stage: give "
        "model.pipeline_layers instead");
    std::vector<std::int64_t> each(static_cast<std::size_t>(stages), rest / between);
    if (first) each.front() = *first;
    if (last) each.back() = *last;
    set("model.pipeline_layers", fmt::format("[{}]", fmt::join(each, ", ")));
  }

  static std::string megatron_name(std::string_view key) {
    for (const Valued& v : kValued)
      if (v.key == key) return std::string(v.name);
    return std::string(key);
  }

  const std::vector<Argument> arguments_;
  MegatronArguments out_;
  std::map<std::string, std::string> values_, later_;
};

}  // namespace

MegatronArguments read_megatron_arguments(std::string_view text) {
  return MegatronReading(arguments_of(text)).read();
}

}  // namespace stoa::foreign

#include "foreign/megatron/current.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "config/value.h"

namespace stoa::foreign {
namespace {

using Names = std::vector<std::string_view>;

// One name for another, with the same value.
const std::map<std::string_view, const char*> kRenamed{
    {"model-parallel-size", "tensor-model-parallel-size"},
    {"layernorm-epsilon", "norm-epsilon"},
    {"muon-use-nesterov", "muon-nesterov"},
    {"use-custom-fsdp", "use-megatron-fsdp"},
    {"distribute-checkpointed-activations", "distribute-saved-activations"},
    {"rotary-position-embeddings-theta", "rotary-base"},
    {"topk", "moe-router-topk"},
    {"min-scale", "min-loss-scale"},
    {"pad-vocab-size-to", "padded-vocab-size"},
    {"tokenizer-name-or-path", "tokenizer-model"},
    {"no-delay-grad-reduce", "overlap-grad-reduce"},
    {"override-lr-scheduler", "override-opt_param-scheduler"},
    {"use-checkpoint-lr-scheduler", "use-checkpoint-opt_param-scheduler"}};

struct Retired {
  Names names;
  Names said_by;  // arguments of the plan that say it now
  const char* why;
};

const std::vector<Retired>& retired() {
  static const Names kSharding{"use-distributed-optimizer", "use-megatron-fsdp",
                               "data-parallel-sharding-strategy", "overlap-grad-reduce",
                               "overlap-param-gather"},
      kRecompute{"recompute-granularity", "recompute-method", "recompute-num-layers", "recompute-modules"};
  static const std::vector<Retired> kList{
      {{"deepspeed", "zero-stage", "deepspeed-config", "deepspeed_config"},
       kSharding,
       "DeepSpeed's; the arguments of sharding say it"},
      {{"checkpoint-activations", "checkpoint-num-layers", "activations-checkpoint-method",
        "activations-checkpoint-num-layers", "activations-checkpoint-granularity",
        "deepspeed-activation-checkpointing", "moe-layer-recompute"},
       kRecompute,
       "the arguments of recomputation say it"},
      {{"ds-sequence-parallel-size", "force-ds-sequence-parallel"},
       {"context-parallel-size", "cp-comm-type"},
       "DeepSpeed's; context parallelism says it"},
      {{"pp-partition-method"},
       {"account-for-embedding-in-pipeline-split", "account-for-loss-in-pipeline-split",
        "pipeline-model-parallel-layout"},
       "the split of the pipeline says it"},
      {{"num-key-value-heads"}, {"group-query-attention", "num-query-groups"}, "query groups say it"},
      {{"expert-interval"}, {"moe-layer-freq"}, "--moe-layer-freq says it"},
      {{"fp8-e4m3", "fp8-hybrid"}, {"fp8-format"}, "--fp8-format says it"},
      {{"glu-activation"}, {"swiglu"}, "BigScience's; --swiglu is the one that Megatron-LM has"},
      {{"embed-layernorm"}, {}, "BigScience's"},
      {{"enable-zbh1-pipeline", "enable-zbh1-exact-semantics"}, {}, "DeepSpeed's schedule"},
      {{"pipeline-model-parallel-split-rank"}, {}, "encoder and decoder share the stages"},
      {{"data-impl", "mmap-warmup", "use-dataset-only", "repeated-dataloader", "return-data-index",
        "train-desc-path", "train-doc-idx-path", "train-idx-path", "train-sample-idx-path",
        "train-shuffle-idx-path", "s3-cache-path", "tokenizer-hf-include-special-tokens", "valid-num-workers",
        "renormalize-blend-weights"},
       {},
       "Megatron-LM finds it out, or always does so"},
      {{"train-weighted-split-paths", "valid-weighted-split-paths", "test-weighted-split-paths",
        "train-weighted-split-paths-path", "valid-weighted-split-paths-path",
        "test-weighted-split-paths-path"},
       {},
       "BigScience's; give the data by --data-path or --per-split-data-args-path"},
      {{"DDP-impl", "use-contiguous-buffers-in-ddp", "no-contiguous-buffers-in-local-ddp",
        "no-async-tensor-model-parallel-allreduce", "no-scatter-gather-tensors-in-pipeline",
        "overlap-p2p-communication", "sync-tp-duplicated-parameters", "synchronize-each-layer",
        "no-pipeline-parallel", "delay-param-gather", "fp32-allreduce", "local_rank"},
       {},
       "Megatron-LM has one way now"},
      {{"contigious-checkpointing",
        "deepscale",
        "deepscale_config",
        "deepspeed_mpi",
        "use-pin-memory",
        "zero-allgather-bucket-size",
        "zero-contigious-gradients",
        "zero-reduce-bucket-size",
        "zero-reduce-scatter",
        "ds_fused_adam",
        "disable-mem-efficient-ln",
        "split-transformers",
        "tile-factor",
        "scattered-embeddings",
        "remote-device",
        "memory-centric-tiled-linear",
        "partition-activations",
        "checkpoint-in-cpu",
        "cpu-optimizer",
        "cpu_torch_adam",
        "mlp-type",
        "moe-expert-parallel-size",
        "moe-loss-coeff",
        "moe-min-capacity",
        "moe-train-capacity-factor",
        "moe-eval-capacity-factor",
        "create-moe-param-group",
        "use-tutel",
        "enable-expert-tensor-parallelism",
        "disable-moe-top2-2nd-expert-sampling",
        "universal-checkpoint",
        "load-tag",
        "no-load-lr-state",
        "reset-progress",
        "reset-iteration",
        "eval-only",
        "inference",
        "ds-inference"},
       {},
       "DeepSpeed's"},
      {{"abort-on-unmet-fused-kernel-constraints", "no-query-key-layer-scaling",
        "no-scaled-masked-softmax-fusion", "scaled-upper-triang-masked-softmax-fusion",
        "use-flash-attn-builder", "use-flash-attn-triton", "use-flash-attn-v1", "use-flash-attn-v2",
        "use-legacy-models", "moe-use-legacy-grouped-gemm", "legacy-tokenizer"},
       {},
       "a choice of kernels that Megatron-LM has no more"},
      {{"log-batch-size-to-tensorboard", "log-level", "log-level-replica",
        "log-optimizer-states-to-tensorboard", "log-path", "no-log-learnig-rate-to-tensorboard",
        "one-logger-entity", "enable-one-logger", "profile-backward", "profile_steps",
        "report-topk-accuracies", "codecarbon-dir", "kill-switch-path", "kill-switch-file",
        "aml-data-download-path"},
       {},
       "records and switches that Megatron-LM does not have"},
      {{"hybrid-attention-ratio",
        "hybrid-mlp-ratio",
        "kitchen-config-file",
        "kitchen-recipe-number",
        "skip-train-iteration-range",
        "standalone-embedding-stage",
        "moe-extended-tp",
        "moe-ncclep-static-shape",
        "num-experts-switch",
        "num-experts-teacher",
        "ds-sequence-parallel-fpdt",
        "ds-sequence-parallel-fpdt-chunk-size",
        "ds-sequence-parallel-fpdt-offloading",
        "encoder-pipeline-model-parallel-size",
        "encoder-tensor-model-parallel-size",
        "keep-fp8-transpose-cache-when-using-custom-fsdp",
        "embedding-weights-in-fp32",
        "hidden-size-teacher",
        "kd",
        "kd-alpha-ce",
        "kd-beta-ce",
        "kd-temp",
        "load-teacher",
        "mos",
        "norm-target-loss",
        "num-attention-heads-teacher",
        "num-layers-teacher",
        "reweight-loss-based-on-position-frequency",
        "use-bnb-optimizer",
        "data-efficiency-curriculum-learning",
        "disable-moe-token-dropping",
        "disable-stream-ckpt-dequant",
        "loss-on-targets-only",
        "mean-noise-span-length",
        "no-stream-ckpt-dequant",
        "noise-density",
        "tiktoken-special-tokens",
        "disable-chunked-prefill",
        "faiss-use-gpu",
        "grpo-default-temperature",
        "grpo-default-top-p",
        "img-dim",
        "inference-dynamic-batching-buffer-guaranteed-fraction",
        "inference-dynamic-batching-buffer-overflow-factor",
        "inference-dynamic-batching-cuda-graph-max-tokens",
        "inference-dynamic-batching-max-requests-override",
        "inference-dynamic-batching-max-tokens-override",
        "inference-max-batch-size",
        "langrl-external-server",
        "langrl-inference-server-conversation-template",
        "langrl-inference-server-type",
        "no-langrl-external-server",
        "no-rl-calculate-intra-group-similarity",
        "no-rl-offload-kv-cache-during-training",
        "no-rl-remove-kv-cache-during-training",
        "no-rl-reset-cuda-graphs",
        "random-ltd",
        "retriever-seq-length",
        "retro-add-retriever",
        "retro-attention-gate",
        "retro-cyclic-train-iters",
        "retro-encoder-attention-dropout",
        "retro-encoder-hidden-dropout",
        "retro-encoder-layers",
        "retro-no-verify-neighbor-count",
        "retro-num-neighbors",
        "retro-num-retrieved-chunks",
        "retro-project-dir",
        "retro-return-doc-ids",
        "retro-workdir",
        "rl-calculate-intra-group-similarity",
        "rl-generation-batch-size",
        "rl-num-parallel-generation-batches",
        "rl-num-parallel-generations",
        "rl-offload-kv-cache-during-training",
        "rl-parallel-generation-tasks",
        "rl-remove-kv-cache-during-training",
        "rl-reset-cuda-graphs",
        "rl-sequence-packing-bin-size",
        "tokenizer-hf-use-fast",
        "train-data-exact-num-epochs"},
       {},
       "Megatron-LM does not have it"}};
  return kList;
}

const Retired* retirement(std::string_view name) {
  for (const Retired& r : retired())
    if (std::find(r.names.begin(), r.names.end(), name) != r.names.end()) return &r;
  return nullptr;
}

// Tokens are counted in samples, where the run is, or in steps.
class Counts {
 public:
  Counts(const std::vector<WrittenArgument>& given, const std::vector<WrittenArgument>& plan)
      : sequence_(number(plan, "seq-length", 1)), batch_(number(plan, "global-batch-size", 1)) {
    in_samples_ = find(given, "train-tokens") || find(given, "train-samples");
    samples_ = number(given, "train-samples", 0);
  }
  static bool of_tokens(std::string_view name) {
    return name == "train-tokens" || name == "lr-warmup-tokens" || name == "lr-decay-tokens";
  }
  // The argument that says it, "lr-warmup-samples 1024". The first limit reached ends the run.
  WrittenArgument written(const WrittenArgument& a) const {
    const std::int64_t tokens = config::parse_integer(a.values.front()).value_or(0);
    std::int64_t samples = tokens / sequence_;
    if (a.name == "train-tokens" && samples_ > 0) samples = std::min(samples, samples_);
    const std::string what = a.name.substr(0, a.name.size() - std::string_view("tokens").size());
    if (in_samples_) return {what + "samples", {std::to_string(samples)}};
    return {what + "iters", {std::to_string((samples + batch_ - 1) / batch_)}};
  }

 private:
  static bool find(const std::vector<WrittenArgument>& list, std::string_view name) {
    return std::any_of(list.begin(), list.end(), [&](const auto& a) { return a.name == name; });
  }
  static std::int64_t number(const std::vector<WrittenArgument>& list, std::string_view name,
                             std::int64_t otherwise) {
    for (const WrittenArgument& a : list)
      if (a.name == name && !a.values.empty())
        return config::parse_integer(a.values.front()).value_or(otherwise);
    return otherwise;
  }

  std::int64_t sequence_, batch_, samples_ = 0;
  bool in_samples_ = false;
};

// Values that have another name, or none.
void rename_value(WrittenArgument& a) {
  if (a.values.size() != 1) return;
  if (a.name == "tokenizer-type" && a.values[0] == "PretrainedFromHF")
    a.values = {"HuggingFaceTokenizer"}, a.mark = "was PretrainedFromHF";
}

}  // namespace

bool is_retired(std::string_view name) {
  return retirement(name) || kRenamed.contains(name) || Counts::of_tokens(name);
}

CurrentWords in_current_words(std::vector<WrittenArgument> given, const std::vector<WrittenArgument>& plan) {
  CurrentWords out;
  const Counts counts(given, plan);
  const auto has = [&](std::string_view name) {
    return std::any_of(given.begin(), given.end(), [&](const auto& a) { return a.name == name; });
  };
  for (WrittenArgument a : given) {
    const std::string was = a.text();
    if (const auto fresh = kRenamed.find(a.name); fresh != kRenamed.end()) {
      if (has(fresh->second)) {
        out.removed.push_back(fmt::format("{}: --{} is given", was, fresh->second));
        continue;
      }
      a.name = fresh->second;
      a.mark = "was " + was;
    } else if (Counts::of_tokens(a.name)) {
      a = counts.written(a);
      a.mark = "was " + was;
    } else if (const Retired* r = retirement(a.name)) {
      out.removed.push_back(fmt::format("{}: {}", was, r->why));
      out.said_anew.insert(out.said_anew.end(), r->said_by.begin(), r->said_by.end());
      continue;
    } else if (a.name == "position-embedding-type" && a.values == std::vector<std::string>{"alibi"}) {
      out.removed.push_back(was + ": BigScience's");
      continue;
    } else if (a.name == "train-samples" && has("train-tokens")) {
      continue;  // said with the tokens
    }
    rename_value(a);
    out.arguments.push_back(std::move(a));
  }
  return out;
}

}  // namespace stoa::foreign

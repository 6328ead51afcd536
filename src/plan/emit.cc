#include "plan/emit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"

namespace stoa::plan {
namespace {

using model::RecomputeGranularity;

class Arguments {
 public:
  template <class T>
  void value(const char* name, const T& v) {
    list_.push_back(fmt::format("--{} {}", name, v));
  }
  std::vector<std::string> take() { return std::move(list_); }

 private:
  std::vector<std::string> list_;
};

// torchtitan trains the families of Llama 3, Qwen3 and DeepSeek-V3.
void require_family(const model::ModelSpec& spec) {
  const model::ModelConfig& m = spec.config;
  std::vector<std::string> others;
  const auto other = [&](bool is_other, const char* words) {
    if (is_other) others.emplace_back(words);
  };
  other(m.kind != model::ModelKind::kGpt, "encoders and encoder-decoders");
  other(m.position_embedding_type != model::PositionEmbedding::kRope, "positions other than rotary ones");
  other(m.normalization != model::Normalization::kRmsNorm, "LayerNorm");
  other(m.activation != model::Activation::kSwiglu, "activations other than swiglu");
  other(m.has_mlp_bias() || m.has_qkv_bias() || m.has_attention_output_bias(), "biases");
  other(m.rotary_percentage != 1 || !m.no_rope_layers.empty(), "heads or layers that rotate in part");
  other(m.window_size.has_value(), "attention within a window");
  other(m.norm_placement != model::NormPlacement::kBefore || m.use_parallel_residual,
        "norms behind the branches, or branches side by side");
  other(m.attn_logit_softcapping || m.final_logit_softcapping || m.apply_embedding_scaling ||
            m.attention_sinks || m.attention_output_gate || m.linear.any() || m.embedding_layernorm ||
            m.qk_layernorm_all_heads || m.moe.moe_shared_expert_gate || m.mup.use_mup,
        "soft caps, scaled or normalised embeddings, sinks, gates, linear attention, muP");
  other(m.embedding_multiplier != 1 || m.residual_multiplier != 1 || m.logit_scale != 1 || m.softmax_scale,
        "multipliers of embeddings, residuals, scores or logits");
  other(m.hidden_dropout > 0 || m.attention_dropout > 0, "dropout");
  other(!m.freeze.empty() || m.peft.active(), "parameters that are not trained");
  require<ConfigError>(
      others.empty(),
      "torchtitan has the families of Llama 3, Qwen3 and DeepSeek-V3, and nothing is written "
      "for this model: it has no {}",
      fmt::join(others, "; no "));
}

}  // namespace

std::vector<std::string> torchtitan_arguments(const Found& found, const EmitModel& model,
                                              std::vector<std::string>& notes) {
  require_family(model.spec);
  const Workload& w = found.workload;
  Arguments a;
  a.value("training.seq_len", w.model.sequence);
  a.value("training.local_batch_size", w.global_batch / (w.dp));
  a.value("training.global_batch_size", w.global_batch);
  if (model.steps > 0) a.value("training.steps", model.steps);
  a.value("parallelism.tensor_parallel_degree", w.tp);
  a.value("parallelism.context_parallel_degree", w.cp);
  a.value("parallelism.pipeline_parallel_degree", w.pp);
  if (w.pp > 1) {
    a.value("parallelism.pipeline_parallel_microbatch_size", w.micro_batch);
    a.value("parallelism.pipeline_parallel_schedule", w.schedule == "interleaved" ? "Interleaved1F1B"
                                                      : w.schedule == "zb-v"      ? "ZBVZeroBubble"
                                                                                  : "1F1B");
    if (w.vpp > 1) a.value("parallelism.pipeline_parallel_layers_per_stage", w.model.layers / (w.pp * w.vpp));
  } else if (w.microbatches() > 1) {
    notes.push_back(
        fmt::format("without a pipeline torchtitan takes its microbatch from local_batch_size {}: set it to "
                    "{} and accumulate to the global batch",
                    w.global_batch / w.dp, w.micro_batch));
  }
  if (w.ep > 1) a.value("parallelism.expert_parallel_degree", w.ep);
  const bool shards = w.zero_stage >= 1;
  a.value("parallelism.data_parallel_replicate_degree", shards ? 1 : w.dp);
  a.value("parallelism.data_parallel_shard_degree", shards ? w.dp : 1);
  if (w.zero_stage == 1 || w.zero_stage == 2)
    a.value("parallelism.fsdp_reshard_after_forward",
            "never");  // the nearest to sharded optimizer state alone
  if (w.zero_stage == 1)
    notes.push_back(
        "torchtitan also shards weights (FSDP2 without resharding): less memory than planned, and one gather "
        "per step");
  switch (found.point.recompute.granularity) {
    case RecomputeGranularity::kNone:
      a.value("activation_checkpoint.mode", "none");
      break;
    case RecomputeGranularity::kSelective:
      a.value("activation_checkpoint.mode", "selective");
      a.value("activation_checkpoint.selective_ac_option", "op");
      break;
    case RecomputeGranularity::kFull: {
      const auto every = w.recomputed_share > 0 ? static_cast<std::int64_t>(1 / w.recomputed_share) : 1;
      if (w.recomputed_share >= 1) {
        a.value("activation_checkpoint.mode", "full");
      } else {
        a.value("activation_checkpoint.mode", "selective");
        a.value("activation_checkpoint.selective_ac_option", std::max<std::int64_t>(1, every));
        notes.push_back(fmt::format("torchtitan recomputes every {}th layer, the plan {:.0f} % of them",
                                    std::max<std::int64_t>(1, every), 100 * w.recomputed_share));
      }
      break;
    }
  }
  if (model.format == Format::kFp8) a.value("model.converters", "float8");
  notes.push_back("name the model's flavour (--model.name, --model.flavor) and the data yourself");
  return a.take();
}

JobScript job_of(const std::string& name, const Workload& w, const Cluster& cluster, bool per_device) {
  JobScript job;
  job.name = name;
  const std::int64_t per_node = std::min(w.devices(), cluster.links.devices_per_node);
  job.nodes = (w.devices() + per_node - 1) / per_node;
  job.tasks_per_node = per_device ? per_node : 1;
  if (!cluster.links.host_is_device && !cluster.links.shared_device) job.gpus_per_node = per_node;
  return job;
}

std::string sbatch_script(const JobScript& job) {
  std::string out =
      fmt::format("#!/bin/bash\n#SBATCH --job-name={}\n#SBATCH --nodes={}\n#SBATCH --ntasks-per-node={}\n",
                  job.name, job.nodes, job.tasks_per_node);
  if (job.gpus_per_node > 0) out += fmt::format("#SBATCH --gpus-per-node={}\n", job.gpus_per_node);
  out += "#SBATCH --exclusive\n#SBATCH --output=%x-%j.log\n#SBATCH --open-mode=append\n";
  if (job.body.empty()) out += "#SBATCH --requeue\n#SBATCH --signal=B:USR1@300\n";
  out +=
      "# CONTAINER=IMAGE runs it in a container (pyxis), SRUN_ARGS=\"…\" are further arguments of srun.\n\n"
      "set -euo pipefail\ncd \"${SLURM_SUBMIT_DIR:-.}\"\n";
  for (const std::string& need : job.needs) {
    const auto colon = need.find(':');
    out += fmt::format(": \"${{{}:?{}}}\"\n", need.substr(0, colon), need.substr(colon + 2));
  }
  out +=
      "export MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n"
      "export MASTER_PORT=${MASTER_PORT:-$((20000 + SLURM_JOB_ID % 20000))}\n"
      "run=(srun --kill-on-bad-exit=1 ${SRUN_ARGS:-})\n"
      "if [ -n \"${CONTAINER:-}\" ]; then\n"
      "  run+=(--container-image=\"$CONTAINER\" --container-mounts=\"$PWD:$PWD\" "
      "--container-workdir=\"$PWD\")\nfi\n\n";
  if (!job.body.empty()) return out + job.body;
  return out +
         fmt::format(
             "# Five minutes before the time limit, and when the job is asked to end, the run saves; the "
             "job is queued again.\n"
             "again=0\n"
             "trap 'again=1; scancel --signal=TERM \"$SLURM_JOB_ID\"' USR1 TERM\n"
             "\"${{run[@]}}\" {} &\njob=$!\n"
             "while :; do\n  wait \"$job\" && status=0 || status=$?\n"
             "  kill -0 \"$job\" 2>/dev/null || break\ndone\n"
             "if [ \"$again\" = 1 ]; then scontrol requeue \"$SLURM_JOB_ID\"; fi\n"
             "exit \"$status\"\n",
             job.command);
}

}  // namespace stoa::plan

#include "plan/emit.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace stoa::plan {
namespace {

using model::RecomputeGranularity;
using model::RecomputeMethod;

class Arguments {
 public:
  void flag(bool on, const char* name) {
    if (on) list_.push_back(fmt::format("--{}", name));
  }
  template <class T>
  void value(const char* name, const T& v) {
    list_.push_back(fmt::format("--{} {}", name, v));
  }
  std::vector<std::string> take() { return std::move(list_); }

 private:
  std::vector<std::string> list_;
};

void latent_attention(Arguments& a, const model::LatentConfig& l) {
  if (!l.multi_latent_attention) return;
  a.flag(true, "multi-latent-attention");
  if (l.q_lora_rank) a.value("q-lora-rank", *l.q_lora_rank);
  a.value("kv-lora-rank", l.kv_lora_rank);
  a.value("qk-head-dim", l.qk_head_dim);
  a.value("qk-pos-emb-head-dim", l.qk_pos_emb_head_dim);
  a.value("v-head-dim", l.v_head_dim);
}

void shape(Arguments& a, const EmitModel& model) {
  const model::ModelConfig& m = model.spec.config;
  require<ConfigError>(
      m.position_embedding_type != model::PositionEmbedding::kAlibi && !m.embedding_layernorm &&
          m.norm_placement == model::NormPlacement::kBefore && !m.use_parallel_residual &&
          !m.qk_layernorm_all_heads && !m.attn_logit_softcapping && !m.final_logit_softcapping &&
          !m.apply_embedding_scaling && !m.attention_sinks &&
          m.activation != model::Activation::kClampedSwiglu && !m.linear.any() && !m.attention_output_gate,
      "Megatron-LM has no arguments known to Stoa for alibi, embedding_layernorm, norm_placement, "
      "use_parallel_residual, qk_layernorm_all_heads, soft caps, scaled embeddings, attention_sinks, "
      "swiglu_oai, linear attention or attention_output_gate: the layout cannot be written for this model");
  require<ConfigError>(
      m.embedding_multiplier == 1 && m.residual_multiplier == 1 && m.logit_scale == 1 && !m.softmax_scale &&
          m.no_rope_layers.empty() && m.norm_weight && m.norm_bias && !m.lm_head_bias &&
          m.first_position == 0 && !m.qk_layernorm_after_rope && !m.moe.moe_shared_expert_gate &&
          m.freeze.empty(),
      "Megatron-LM has no arguments for embedding_multiplier, residual_multiplier, logit_scale, "
      "softmax_scale, "
      "no_rope_layers, norm_weight, norm_bias, lm_head_bias, first_position, qk_layernorm_after_rope, "
      "moe_shared_expert_gate or freeze: the layout cannot be written for this model");
  latent_attention(a, m.latent);
  a.flag(true, "use-mcore-models");
  a.value("num-layers", m.num_layers);
  a.value("hidden-size", m.hidden_size);
  a.value("ffn-hidden-size", m.ffn_size());
  a.value("num-attention-heads", m.num_attention_heads);
  if (m.kv_channels && !m.latent.multi_latent_attention) a.value("kv-channels", *m.kv_channels);
  if (m.query_groups() != m.num_attention_heads) {
    a.flag(true, "group-query-attention");
    a.value("num-query-groups", m.query_groups());
  }
  a.value("seq-length", m.encoder_seq_length);
  a.value("max-position-embeddings", m.max_positions());
  const bool rope = m.position_embedding_type == model::PositionEmbedding::kRope;
  a.value("position-embedding-type", rope ? "rope"
                                     : m.position_embedding_type == model::PositionEmbedding::kNone
                                         ? "none"
                                         : "learned_absolute");
  if (rope) a.value("rotary-base", static_cast<std::int64_t>(m.rotary_base));
  a.value("normalization", m.normalization == model::Normalization::kRmsNorm ? "RMSNorm" : "LayerNorm");
  a.value("norm-epsilon", m.layernorm_epsilon);
  a.flag(m.activation == model::Activation::kSwiglu, "swiglu");
  a.flag(m.activation == model::Activation::kSquaredRelu, "squared-relu");
  a.flag(!m.has_mlp_bias(), "disable-bias-linear");
  a.flag(m.has_qkv_bias() && !m.has_mlp_bias(), "add-qkv-bias");
  a.flag(!m.share_embeddings_and_output_weights, "untie-embeddings-and-output-weights");
  a.flag(m.qk_layernorm, "qk-layernorm");
  a.value("hidden-dropout", m.hidden_dropout);
  a.value("attention-dropout", m.attention_dropout);
  a.value("vocab-size", model.spec.vocabulary);
  if (!m.moe.num_moe_experts) return;
  a.value("num-experts", *m.moe.num_moe_experts);
  a.value("moe-router-topk", m.moe.moe_router_topk);
  a.value("moe-ffn-hidden-size", m.moe_ffn_size());
  if (m.moe.moe_expert_capacity_factor) {
    a.value("moe-expert-capacity-factor", *m.moe.moe_expert_capacity_factor);
    a.value("moe-token-drop-policy",
            m.moe.moe_token_drop_policy == model::TokenDropPolicy::kProbs ? "probs" : "position");
    a.flag(m.moe.moe_pad_expert_input_to_capacity, "moe-pad-expert-input-to-capacity");
  }
  a.value("moe-token-dispatcher-type", "alltoall");
  a.flag(true, "moe-grouped-gemm");
}

// Every argument: Megatron's defaults (delayed, a history of one step, the most recent) are not Stoa's.
void eight_bits(Arguments& a, const model::Fp8Config& c) {
  const auto name = [](auto choice) {
    const auto names = enum_names(choice);
    return std::find_if(names.begin(), names.end(), [&](const auto& n) { return n.value == choice; })->name;
  };
  a.value("fp8-format", name(c.fp8.value_or(model::Fp8Format::kHybrid)));
  a.value("fp8-recipe", name(c.fp8_recipe));
  a.value("fp8-margin", c.fp8_margin);
  if (c.fp8_recipe == model::Fp8Recipe::kDelayed) {
    a.value("fp8-amax-history-len", c.fp8_amax_history_len);
    a.value("fp8-amax-compute-algo", name(c.fp8_amax_compute_algo));
  }
  a.flag(!c.fp8_wgrad, "no-fp8-wgrad");
  if (!c.first_last_layers_bf16) return;
  a.flag(true, "first-last-layers-bf16");
  a.value("num-layers-at-start-in-bf16", c.num_layers_at_start_in_bf16);
  a.value("num-layers-at-end-in-bf16", c.num_layers_at_end_in_bf16);
}

}  // namespace

std::vector<std::string> megatron_arguments(const Found& found, const EmitModel& model) {
  const Workload& w = found.workload;
  Arguments a;
  shape(a, model);
  a.value("micro-batch-size", w.micro_batch);
  a.value("global-batch-size", w.global_batch);
  if (model.steps > 0) a.value("train-iters", model.steps);
  a.value("tensor-model-parallel-size", w.tp);
  a.value("pipeline-model-parallel-size", w.pp);
  if (w.vpp > 1) a.value("num-virtual-stages-per-pipeline-rank", w.vpp);
  if (w.cp > 1) a.value("context-parallel-size", w.cp);
  if (w.ep > 1) a.value("expert-model-parallel-size", w.ep);
  a.flag(w.sequence_parallel && w.tp > 1, "sequence-parallel");
  const std::vector<std::int64_t> split = w.split();
  if (std::adjacent_find(split.begin(), split.end(), std::not_equal_to<>()) != split.end()) {
    // Its layout string: E embedding, t a layer, L loss; stages are parted by bars.
    std::string layout = "E";
    for (std::size_t i = 0; i < split.size(); ++i)
      layout += (i > 0 ? "|" : "") + (split[i] > 0 ? fmt::format("t*{}", split[i]) : std::string());
    a.value("pipeline-model-parallel-layout", "\"" + layout + "L\"");
  }
  a.flag(w.zero_stage >= 1, "use-distributed-optimizer");
  a.flag(w.dp * w.cp > 1, "overlap-grad-reduce");
  a.flag(w.zero_stage >= 1, "overlap-param-gather");
  switch (found.point.recompute.granularity) {
    case RecomputeGranularity::kNone:
      break;
    case RecomputeGranularity::kSelective:
      a.value("recompute-granularity", "selective");
      a.value("recompute-modules", "core_attn layernorm");
      break;
    case RecomputeGranularity::kFull:
      a.value("recompute-granularity", "full");
      a.value("recompute-method",
              found.point.recompute.method == RecomputeMethod::kBlock ? "block" : "uniform");
      a.value("recompute-num-layers", found.point.recompute.num_layers.value_or(1));
      break;
  }
  if (const model::OffloadConfig& offload = found.point.recompute.offload; offload.cpu_offloading)
    a.value("cpu-offloading-num-layers", offload.layers_of(w.model.layers));
  a.flag(model.format == Format::kBf16 || model.format == Format::kFp8, "bf16");
  a.flag(model.format == Format::kFp16, "fp16");
  if (model.format == Format::kFp8) eight_bits(a, model.spec.config.fp8);
  return a.take();
}

std::vector<std::string> torchtitan_arguments(const Found& found, const EmitModel& model,
                                              std::vector<std::string>& notes) {
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

std::string sbatch_script(const std::string& name, const Workload& w, const Cluster& cluster,
                          const std::string& command, bool per_device) {
  const std::int64_t per_node = std::min(w.devices(), cluster.links.devices_per_node);
  const std::int64_t nodes = (w.devices() + per_node - 1) / per_node;
  std::string out = "#!/bin/bash\n";
  out += fmt::format("#SBATCH --job-name={}\n#SBATCH --nodes={}\n#SBATCH --ntasks-per-node={}\n", name, nodes,
                     per_device ? per_node : 1);
  out += fmt::format("#SBATCH --gpus-per-node={}\n#SBATCH --exclusive\n#SBATCH --output=%x-%j.log\n\n",
                     per_node);
  out += "set -euo pipefail\n";
  if (!per_device)
    out +=
        "export MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\nexport "
        "MASTER_PORT=29500\n";
  return out + command + "\n";
}

}  // namespace stoa::plan

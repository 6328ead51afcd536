#include "plan/memory_estimate.h"

#include <algorithm>

#include "nn/offload_ring.h"
#include "plan/pipeline_time.h"
#include "plan/workload.h"

namespace stoa::plan {
namespace {

// Tokens of a microbatch in a layer. An upper bound for encoder-decoders, whose layers hold sources or
// targets.
double tokens(const Workload& w) {
  return real(w.micro_batch * std::max(w.model.sequence, w.model.target)) / real(w.cp);
}

// Whether what GEMMs read is kept in 8 bits, and what is cheap compared with them is recomputed.
bool keeps_fp8(const Workload& w) {
  return w.software.keeps_fp8 && w.format == Format::kFp8 && w.recompute == Recompute::kSelective;
}

// Queries, keys, values and result. Selective recomputation repeats those made of latents, and
// keeps the latents.
double attention_bytes(const Workload& w) {
  const ModelShape& m = w.model;
  const double n = tokens(w), t = real(w.tp);
  const double q = real(m.heads * m.head_size) / t, kv = real(m.kv_heads * m.head_size) / t;
  if (m.latent_rank == 0) return 2 * n * (2 * q + 2 * kv);
  const double values = real(m.heads * m.value_size) / t,
               latents = real(m.query_rank + m.latent_rank + m.rotated);
  const bool again = w.recompute == Recompute::kSelective && (!w.modules.named || w.modules.up_projections);
  return n * ((keeps_fp8(w) ? 1 : 2) * latents + 2 * (values + (again ? 0 : q + kv + values)));
}

// A state-space layer keeps what its input is projected to, the result of its states, and the rows of its
// output projection; the convolution is recomputed.
double state_bytes(const Workload& w) {
  const ModelShape& m = w.model;
  return 2 * tokens(w) * real(m.state_columns() + 2 * m.state_inner()) / real(w.tp);
}

double score_bytes(const Workload& w) {  // softmax output, dropout mask, dropout output: 5 a s^2 b / t
  const ModelShape& m = w.model;
  return (m.dropout > 0 ? 5.0 : 2.0) * real(m.heads) / real(w.tp) * real(m.sequence) * tokens(w);
}

}  // namespace

RankBytes rank_bytes(const MemorySplit& split) {
  RankBytes out;
  const auto put = [&](MemoryCategory category, double bytes) {
    out.categories[static_cast<std::size_t>(category)] = static_cast<std::size_t>(bytes);
    out.total += static_cast<std::size_t>(bytes);
  };
  put(MemoryCategory::kWeights, split.weights);
  put(MemoryCategory::kGradients, split.gradients);
  put(MemoryCategory::kOptimizer, split.optimizer);
  put(MemoryCategory::kActivations, split.activations);
  put(MemoryCategory::kScratch, split.logits + split.working);
  out.offloaded = static_cast<std::size_t>(split.offloaded);
  return out;
}

double activation_bytes(const Workload& w, bool experts) {
  const ModelShape& m = w.model;
  const double n = tokens(w), h = real(m.hidden), t = real(w.tp);
  if (w.recompute == Recompute::kFull && w.recomputed_share >= 1)
    return 2 * n * h / (w.sequence_parallel ? t : 1);
  const bool dropout = m.dropout > 0;
  // Outside the tensor-parallel region: two norms' inputs, the inputs of the two blocks, dropout masks.
  const bool small = keeps_fp8(w);
  const double outside =
      m.branches() * ((small ? 4 : 8) + (dropout ? 2 : 0)) * n * h / (w.sequence_parallel ? t : 1);
  const double attention = m.attention_share() * attention_bytes(w) + m.state_share() * state_bytes(w);
  const double width = real(experts ? m.expert_ffn : m.ffn) / t;
  const double rows = experts ? n * real(m.top_k) * w.declared_load() : n;
  // Experts and shared experts, with copies of the tokens. In 8 bits without what the activation gives.
  const double inner = small ? width * (m.gated ? 2 : 1) : 2 * width * (m.gated ? 3 : 2);
  const double copies = (small ? 1 : 2) * rows * h / t;
  // What selective recomputation computes again has its input kept, outside.
  const bool named = w.recompute == Recompute::kSelective && w.modules.named;
  double ffn = named && (experts ? w.modules.experts : w.modules.mlp) ? 0 : rows * inner;
  if (experts && !(named && w.modules.experts))
    ffn += copies +
           (named && w.modules.shared_experts ? 0 : n * inner * real(m.shared_ffn) / real(m.expert_ffn));
  const bool unfused = w.software.attention == AttentionKernel::kUnfused;
  const double scores =
      unfused && w.recompute != Recompute::kSelective ? m.attention_share() * score_bytes(w) : 0;
  double all = outside + attention + m.mlp_share() * ffn + scores;
  if (w.recompute == Recompute::kOperators) all = 0.55 * all;
  if (w.recompute == Recompute::kFull)
    all = w.recomputed_share * 2 * n * h / (w.sequence_parallel ? t : 1) + (1 - w.recomputed_share) * all;
  return all;
}

double layer_activation_bytes(const Workload& w) {
  const double with_experts = w.model.expert_share();
  return (1 - with_experts) * activation_bytes(w, false) +
         (with_experts > 0 ? with_experts * activation_bytes(w, true) : 0);
}

PaperActivations paper_activations(const Workload& w) {
  const ModelShape& m = w.model;
  const double s = real(m.sequence), b = real(w.micro_batch), h = real(m.hidden), t = real(w.tp),
               p = real(w.pp);
  const double a = real(m.heads), v = real(m.vocabulary), layers = real(m.layers), chunks = real(w.vpp);
  const double sbh = s * b * h;
  PaperActivations out;
  const double scores = w.recompute == Recompute::kNone ? 5 * a * s / (h * t) : 0;
  if (w.recompute == Recompute::kFull)
    out.per_layer = 2 * sbh;
  else
    out.per_layer = sbh * ((w.sequence_parallel ? 34 / t : 10 + 24 / t) + scores);
  out.extras = sbh * layers / t * (p / layers + (w.pp == 1 ? 4 / layers * (1 + v / h) : 0));
  const double interleaved = w.vpp > 1 ? 1 + (p - 1) / (p * chunks) : 1;
  out.total = out.per_layer * layers * interleaved + out.extras;
  out.states = 18 * 12 * layers * h * h / (t * p);
  return out;
}

RankParameters rank_parameters(const Workload& w, double layers, bool first, bool last, double embedding,
                               double head) {
  const ModelShape& m = w.model;
  const double t = real(w.tp), experts = m.expert_parameters(), further = last ? real(m.mtp_layers) : 0;
  const double share = m.expert_share();
  // The layers that predict further tokens are like the last one.
  const double with_experts = layers * share + (share > 0 ? further : 0);
  RankParameters out;
  out.expert = with_experts * experts / real(w.expert_degree() * w.ep);
  out.dense =
      (layers * (1 - share) * m.layer_parameters(false) +
       (share > 0 ? layers * share * (m.layer_parameters(true) - experts) : 0) +
       further * (m.mtp_parameters() - (share > 0 ? experts : 0)) +
       (m.encoder_layers > 0 ? layers * real(m.cross_layers()) / real(m.layers) * m.cross_parameters() : 0)) /
      t;
  // They read the embedding, too.
  const bool embeds_again = further > 0 && !first && !m.tied;
  out.vocabulary = real(m.vocabulary * m.hidden) / t *
                   ((first || embeds_again ? embedding : 0) + (last && !(first && m.tied) ? head : 0));
  if (first && m.positions) out.positions = embedding * real(m.sequence * m.hidden);
  return out;
}

MemorySplit stage_memory(const Workload& w, std::int64_t stage) {
  const ModelShape& m = w.model;
  MemorySplit out;
  const double layers = real(w.layers_of_ranks()[static_cast<std::size_t>(stage)]),
               backward = real(w.backward_layers_of_ranks()[static_cast<std::size_t>(stage)]);
  const double t = real(w.tp), h = real(m.hidden), n = tokens(w);
  const bool first = stage == 0, last = stage == w.head_rank();
  const RankParameters all = rank_parameters(w, layers, first, last),
                       trained = rank_parameters(w, backward * w.trained.layers, first, last,
                                                 w.trained.embedding, w.trained.head);

  const double shard = real(w.ranks_of_shards());
  const double expert_shard = w.expert_replicas(w.ranks_of_shards());
  const auto cut = [&](const RankParameters& of, int stage_from, double bytes) {
    const double dense = of.dense + of.vocabulary + of.positions;
    return w.zero_stage >= stage_from ? bytes * (dense / shard + of.expert / expert_shard)
                                      : bytes * (dense + of.expert);
  };
  const bool full = w.format == Format::kFp32;
  out.weights = cut(all, 3, full ? 4 : 2);
  // Data-parallel programs that keep their model in fp32 (FSDP) gather it in 16 bit.
  out.gradients = cut(trained, w.zero_stage >= 3 ? 3 : 2, w.zero_stage >= 3 ? 4 : w.software.gradient_bytes);
  out.optimizer = cut(trained, 1, full ? 8 : w.software.optimizer_bytes);
  if (w.zero_stage >= 3) out.weights = 0;  // the fp32 master is the parameter

  const double per_layer = layer_activation_bytes(w);
  const double microbatches = real(w.global_batch / (w.dp * w.micro_batch));
  double flying =
      microbatches_in_flight(w.schedule_name(), w.pp, stage, w.global_batch / (w.dp * w.micro_batch), w.vpp);
  if (w.two_microbatches) flying = std::min(flying + 1, microbatches);
  double moved = 0;
  const std::vector<std::int64_t> offloaded = w.offloaded_layers();
  for (std::size_t c = 0; c < offloaded.size(); ++c)
    if (w.rank_of_chunk(static_cast<std::int64_t>(c)) == stage) moved += real(offloaded[c]);
  out.offloaded = per_layer * moved * flying;
  out.activations =
      per_layer * ((backward - moved) * flying + std::min<double>(moved, nn::OffloadRing::kMostPlaces));
  if (first) out.activations += (m.dropout > 0 ? 1 : 0) * n * h * flying / (w.sequence_parallel ? t : 1);

  if (last && m.mtp_layers > 0)  // with the two streams that are joined, and their norms
    out.activations += real(m.mtp_layers) * flying *
                       (activation_bytes(w, m.expert_layers > 0) + 8 * n * h / (w.sequence_parallel ? t : 1));
  if (last)
    out.logits =
        real(1 + m.mtp_layers) * (n * real(m.vocabulary) / t * (w.software.compiled ? 8 : 10) + 4 * n * h);
  Workload kept = w;
  kept.recompute = Recompute::kNone;
  if (w.recompute == Recompute::kFull || w.recompute == Recompute::kSelective)
    out.working =
        activation_bytes(kept, m.expert_layers > 0) - (w.recompute == Recompute::kSelective ? per_layer : 0);
  out.working += 4 * n * h;  // gradient of the residual stream, in and out
  out.overhead = w.software.memory_context_gb * 1e9 + w.software.memory_fragmentation * out.activations;
  if (w.zero_stage >= 3) out.working += 2 * 3 * m.layer_parameters(m.expert_layers > 0) / t;
  return out;
}

MemorySplit estimate_memory(const Workload& w, std::int64_t* stage) {
  MemorySplit worst;
  double most = -1;
  for (std::int64_t at = 0; at < w.pp; ++at) {
    const MemorySplit here = stage_memory(w, at);
    const double sum = std::max(here.sum(), 0.0);
    if (sum <= most) continue;
    most = sum;
    worst = here;
    if (stage) *stage = at;
  }
  return worst;
}

}  // namespace stoa::plan

#include "train/layout_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "ops/fp8.h"
#include "parallel/tensor_place.h"
#include "run/offload.h"

namespace stoa::train {
namespace {

using grid::Axis;

std::string nearest_divisors(std::int64_t of, std::int64_t near) {
  std::int64_t below = std::min(of, near), above = std::min(of, near);
  while (below > 1 && of % below != 0) --below;
  while (above < of && of % above != 0) ++above;
  return below == above ? fmt::format("{}", below) : fmt::format("{} or {}", below, above);
}

std::string nearest_multiples(std::int64_t of, std::int64_t near) {
  const std::int64_t below = near / of * of;
  return below == 0 ? fmt::format("{}", of) : fmt::format("{} or {}", below, below + of);
}

// "the nearest is 4", "the nearest are 2 or 4".
std::string nearest(const std::string& numbers) {
  return (numbers.find(" or ") == std::string::npos ? "the nearest is " : "the nearest are ") + numbers;
}

class Problems {
 public:
  template <class... Args>
  void unless(bool good, fmt::format_string<Args...> text, Args&&... args) {
    if (!good) problems_.push_back(fmt::format(text, std::forward<Args>(args)...));
  }
  template <class Body>
  void of(const Body& body) {
    try {
      body();
    } catch (const ConfigError& error) {
      problems_.emplace_back(error.what());
    }
  }
  bool none() const { return problems_.empty(); }
  void fail_if_any(int ranks) const {
    if (problems_.empty()) return;
    if (problems_.size() == 1) fail<ConfigError>("{}", problems_.front());
    fail<ConfigError>("the layout of {} rank{} does not fit:\n  {}", ranks, ranks == 1 ? "" : "s",
                      fmt::join(problems_, "\n  "));
  }

 private:
  std::vector<std::string> problems_;
};

void check_tensor(const RunConfig& config, Problems& problems) {
  const std::int64_t tp = config.layout.tensor_model_parallel_size;
  if (tp == 1) return;
  const auto& m = config.model;
  problems.unless(m.num_attention_heads >= tp,
                  "tensor_model_parallel_size {} is more than num_attention_heads {}: at most {}", tp,
                  m.num_attention_heads, m.num_attention_heads);
  problems.unless(m.ffn_size() >= tp,
                  "tensor_model_parallel_size {} is more than ffn_hidden_size {}: at most {}", tp,
                  m.ffn_size(), m.ffn_size());
  const std::int64_t tokens =
      config.batch.micro_batch_size * m.sample_length() / config.layout.context_parallel_size;
  problems.unless(
      !config.layout.sequence_parallel || tokens % tp == 0,
      "sequence_parallel splits the {} tokens of a microbatch (micro_batch_size x encoder_seq_length / "
      "context_parallel_size) "
      "among {} ranks: tensor_model_parallel_size must divide them, {}",
      tokens, tp, nearest(nearest_divisors(tokens, tp)));
}

parallel::ContextKind context_kind(const LayoutConfig& l) {
  switch (l.cp_comm_type) {
    case ContextCommunication::kP2p:
      return parallel::ContextKind::kRing;
    case ContextCommunication::kAllGather:
      return parallel::ContextKind::kAllGather;
    case ContextCommunication::kA2a:
      return parallel::ContextKind::kAllToAll;
    case ContextCommunication::kA2aP2p:
      return parallel::ContextKind::kHierarchical;
  }
  fail<InternalError>("unknown cp_comm_type");
}

void check_pairs(const RunConfig& config, Problems& problems) {
  const auto& m = config.model;
  const LayoutConfig& l = config.layout;
  if (model::traits(m).samples != model::Samples::kPairs) return;
  problems.unless(l.context_parallel_size == 1,
                  "context_parallel_size {} with kind t5: pairs of source and target are not split; use 1",
                  l.context_parallel_size);
  const std::int64_t tp = l.tensor_model_parallel_size,
                     source = config.batch.micro_batch_size * m.source_length(),
                     target = config.batch.micro_batch_size * (m.sample_length() - m.source_length());
  problems.unless(
      !l.sequence_parallel || (source % tp == 0 && target % tp == 0),
      "sequence_parallel splits the {} source tokens and the {} target tokens of a microbatch among {} "
      "ranks: tensor_model_parallel_size must divide both, {}",
      source, target, tp, nearest(nearest_divisors(std::gcd(source, target), tp)));
}

void check_linear_attention(const RunConfig& config, Problems& problems) {
  const model::LinearAttentionConfig& linear = config.model.linear;
  const LayoutConfig& l = config.layout;
  if (!linear.any()) return;
  problems.unless(l.context_parallel_size == 1,
                  "context_parallel_size {} with linear attention: its state passes along a text, which is "
                  "not split over ranks; use 1",
                  l.context_parallel_size);
  problems.unless(
      l.tensor_model_parallel_size <= linear.linear_num_key_heads,
      "tensor_model_parallel_size {} is more than linear_num_key_heads {}: a rank would have none",
      l.tensor_model_parallel_size, linear.linear_num_key_heads);
}

// Layers of every stage if the first `split` stages hold the encoder.
std::vector<std::int64_t> stages_of_stacks(const RunConfig& config, std::int64_t split) {
  const auto& m = config.model;
  const LayoutConfig& l = config.layout;
  const std::int64_t stages = l.pipeline_model_parallel_size, rest = stages - split,
                     encoder = m.encoder_layers(), decoder = m.num_layers - encoder;
  require<ConfigError>(
      model::traits(m).samples == model::Samples::kPairs,
      "pipeline_model_parallel_split_rank {} separates an encoder from a decoder: it is for kind t5 only",
      split);
  require<ConfigError>(
      !l.pipeline_layers && l.virtual_pipeline_model_parallel_size.value_or(1) == 1,
      "pipeline_model_parallel_split_rank determines the layers of a stage: leave it out with "
      "pipeline_layers or several chunks per stage");
  require<ConfigError>(
      rest >= 1,
      "pipeline_model_parallel_split_rank {} of {} stages: expected fewer than the stages, or 0 for none",
      split, stages);
  require<ConfigError>(
      encoder % split == 0 && decoder % rest == 0,
      "pipeline_model_parallel_split_rank {} distributes {} layers of the encoder over {} stages and {} of "
      "the decoder over {}: the numbers must be divisible; or give pipeline_layers",
      split, encoder, split, decoder, rest);
  std::vector<std::int64_t> out(static_cast<std::size_t>(split), encoder / split);
  out.insert(out.end(), static_cast<std::size_t>(rest), decoder / rest);
  return out;
}

void check_context(const RunConfig& config, const run::Layout& layout, Problems& problems) {
  const LayoutConfig& l = config.layout;
  if (l.context_parallel_size == 1) return;
  const auto& m = config.model;
  const auto tp = static_cast<int>(l.tensor_model_parallel_size);
  if (m.num_attention_heads < tp) return;
  problems.of([&] {
    for (int rank = 0; rank < tp; ++rank) {
      const auto part = parallel::head_part(m.num_attention_heads, m.query_groups(), {rank, tp});
      parallel::check_context(layout.context_place(0), m.encoder_seq_length, part.heads.count,
                              part.groups.count);
    }
  });
}

// The experts of a layer are distributed over all ranks of a pipeline stage, independently of its other axes.
grid::ExpertDegrees expert_degrees(const RunConfig& config, std::int64_t stage_ranks, Problems& problems) {
  const LayoutConfig& l = config.layout;
  const auto& m = config.model;
  const std::int64_t ep = l.expert_model_parallel_size,
                     etp = l.expert_tensor_parallel_size.value_or(l.tensor_model_parallel_size);
  if (!m.moe.num_moe_experts) {
    problems.unless(
        ep == 1 && !l.expert_tensor_parallel_size,
        "expert_model_parallel_size and expert_tensor_parallel_size are used only with num_moe_experts");
    return {};
  }
  problems.of([&] {
    parallel::check_experts({0, static_cast<int>(ep), 0, static_cast<int>(etp)}, *m.moe.num_moe_experts,
                            m.moe_ffn_size());
  });
  if (stage_ranks % (ep * etp) == 0) return {static_cast<int>(etp), static_cast<int>(ep)};
  problems.unless(
      false,
      "expert_tensor_parallel_size {} x expert_model_parallel_size {} = {} must divide the {} ranks of a "
      "pipeline stage (tensor x context x data): {}",
      etp, ep, etp * ep, stage_ranks, nearest(nearest_divisors(stage_ranks, etp * ep)));
  return {};
}

// During the ramp-up every batch size has a schedule of its own. Only the smallest kMostSizes are checked: a
// schedule's constraints (a minimum, or multiples) show up in them.
void check_ramp_up(const RunConfig& config, const run::Layout& layout, std::int64_t granule,
                   Problems& problems) {
  if (!config.batch.rampup_batch_size) return;
  constexpr int kMostSizes = 64;
  const std::int64_t increment = (*config.batch.rampup_batch_size)[1];
  std::int64_t size = config.batch.rampup_batch_size->front();
  for (int i = 0; i < kMostSizes && size < config.batch.global(); ++i, size += increment) {
    problems.of([&] {
      require<ConfigError>(size % granule == 0,
                           "rampup_batch_size: a batch of {} is not a multiple of micro_batch_size x "
                           "data-parallel ranks = {}",
                           size, granule);
      try {
        run::step_schedule(layout, size / granule);
      } catch (const ConfigError& error) {
        fail<ConfigError>("rampup_batch_size: with a batch of {}: {}", size, error.what());
      }
    });
    if (!problems.none()) return;
  }
}

// Rejects sizes that FP8 GEMMs do not support, on any rank of a tensor-parallel group.
void check_fp8(const RunConfig& config, Problems& problems) {
  const auto& m = config.model;
  bool covered = false;
  for (std::int64_t layer = 0; layer < m.num_layers; ++layer)
    covered = covered || m.fp8.covers(layer, m.num_layers);
  if (!covered) return;
  constexpr std::int64_t kMultiple = ops::ScaledProduct::kMultiple;
  problems.unless(m.hidden_size % kMultiple == 0,
                  "fp8: hidden_size {} is not a multiple of {}: choose another, or leave out model.fp8",
                  m.hidden_size, kMultiple);
  const auto tp = static_cast<int>(config.layout.tensor_model_parallel_size);
  bool dense = false;
  for (std::int64_t layer = 0; layer < m.num_layers; ++layer)
    dense = dense || (m.fp8.covers(layer, m.num_layers) && !m.moe.has_experts(layer));
  for (int rank = 0; dense && rank < tp; ++rank) {
    const std::int64_t columns = parallel::part_of(m.ffn_size(), tp, rank).count;
    problems.unless(
        columns % kMultiple == 0,
        "fp8: ffn_hidden_size {} gives a rank {} columns, expected a multiple of {}: choose another "
        "size, fewer tensor-parallel ranks, or leave out model.fp8",
        m.ffn_size(), columns, kMultiple);
    if (columns % kMultiple != 0) break;
  }
  if (m.num_attention_heads < tp || m.latent.multi_latent_attention) return;
  for (int rank = 0; rank < tp; ++rank) {
    const std::int64_t heads = parallel::head_part(m.num_attention_heads, m.query_groups(), {rank, tp})
                                   .heads.count,
                       channels = heads * m.head_size();
    problems.unless(
        channels % kMultiple == 0,
        "fp8: the {} heads of a rank have {} channels together, expected a multiple of {}: choose "
        "other sizes, fewer tensor-parallel ranks, or leave out model.fp8",
        heads, channels, kMultiple);
    if (channels % kMultiple != 0) return;
  }
}

}  // namespace

int ranks_of(const RunConfig& config) {
  const LayoutConfig& l = config.layout;
  if (!config.trainer.devices && !config.trainer.num_nodes) {
    const std::int64_t dense = l.tensor_model_parallel_size * l.context_parallel_size,
                       experts = l.expert_model_parallel_size *
                                 l.expert_tensor_parallel_size.value_or(l.tensor_model_parallel_size);
    return static_cast<int>(l.pipeline_model_parallel_size *
                            (config.model.moe.num_moe_experts ? std::lcm(dense, experts) : dense));
  }
  return static_cast<int>(config.trainer.devices.value_or(1) * config.trainer.num_nodes.value_or(1));
}

run::Layout plan_layout(const RunConfig& config) {
  const LayoutConfig& l = config.layout;
  const int ranks = ranks_of(config);
  const std::int64_t tp = l.tensor_model_parallel_size, pp = l.pipeline_model_parallel_size,
                     cp = l.context_parallel_size, model = tp * pp * cp;
  Problems problems;
  problems.unless(
      ranks % model == 0,
      "tensor_model_parallel_size {} x pipeline_model_parallel_size {} x context_parallel_size {} = {} "
      "must divide the {} ranks (trainer.devices x num_nodes, --ranks or the launcher's): use {} ranks, "
      "or sizes whose product is {}",
      tp, pp, cp, model, ranks, nearest_multiples(model, ranks), nearest_divisors(ranks, model));
  check_tensor(config, problems);
  check_fp8(config, problems);

  run::Layout layout;
  layout.context_kind = context_kind(l);
  if (l.hierarchical_context_parallel_sizes)
    layout.context_neighbours = static_cast<int>(l.hierarchical_context_parallel_sizes->front());
  const std::int64_t dp = std::max<std::int64_t>(1, ranks / model);
  layout.grid = grid::RankGrid(
      {static_cast<int>(tp), static_cast<int>(cp), 1, static_cast<int>(dp), static_cast<int>(pp)},
      expert_degrees(config, tp * cp * dp, problems));
  check_context(config, layout, problems);
  check_pairs(config, problems);
  check_linear_attention(config, problems);
  layout.sequence_parallel = l.sequence_parallel && tp > 1;
  layout.chunks = static_cast<int>(l.virtual_pipeline_model_parallel_size.value_or(0));
  layout.schedule = l.pipeline_schedule.value_or(layout.chunks > 1 ? "interleaved" : "1f1b");
  layout.microbatch_group = static_cast<int>(l.microbatch_group_size_per_vp_stage.value_or(0));
  if (l.pipeline_layers) layout.layers = *l.pipeline_layers;
  if (const std::int64_t split = l.pipeline_model_parallel_split_rank.value_or(0); split > 0)
    problems.of([&] { layout.layers = stages_of_stacks(config, split); });
  layout.embedding_as_layer = l.account_for_embedding_in_pipeline_split;
  layout.head_as_layer = l.account_for_loss_in_pipeline_split;
  layout.zero_stage = static_cast<int>(l.zero_stage);
  layout.bucket_bytes = static_cast<std::int64_t>(config.sharding.bucket_cap_mb * (1 << 20));
  layout.overlap_grad_reduce = config.sharding.overlap_grad_sync;
  layout.reduce_each_microbatch = config.sharding.reduce_each_microbatch;
  if (config.sharding.grad_reduce_type == GradReduceType::kBf16) layout.grad_reduce_type = DType::kBF16;

  const std::int64_t granule = config.batch.micro_batch_size * dp, batch = config.batch.global();
  problems.unless(
      batch % granule == 0,
      "global_batch_size {} must be a multiple of micro_batch_size {} x {} data-parallel ranks = {}: {}",
      batch, config.batch.micro_batch_size, dp, granule, nearest(nearest_multiples(granule, batch)));
  problems.of([&] {
    run::offloaded_layers(run::place_chunks(layout, config.model.num_layers), config.model.recompute.offload);
  });
  if (problems.none()) problems.of([&] { run::step_schedule(layout, batch / granule); });
  if (problems.none()) check_ramp_up(config, layout, granule, problems);
  problems.fail_if_any(ranks);
  return layout;
}

std::string layout_text(const run::Layout& layout) {
  const auto degree = [&](Axis axis) { return layout.grid.degree(axis); };
  std::string out = fmt::format("{} rank{} = TP{}", layout.grid.size(), layout.grid.size() == 1 ? "" : "s",
                                degree(Axis::kTensor));
  if (layout.sequence_parallel) out += " SP";
  out += fmt::format(" PP{}", degree(Axis::kPipeline));
  if (layout.chunks > 1) out += fmt::format(" VPP{}", layout.chunks);
  if (degree(Axis::kContext) > 1)
    out += fmt::format(" CP{} {}", degree(Axis::kContext), parallel::name_of(layout.context_kind));
  out += fmt::format(" DP{}", degree(Axis::kData));
  const parallel::ExpertPlace experts = layout.expert_place(0);
  if (experts.size > 1) out += fmt::format(" EP{}", experts.size);
  if (experts.tensor_size != degree(Axis::kTensor)) out += fmt::format(" ETP{}", experts.tensor_size);
  if (layout.zero_stage > 0) out += fmt::format(" ZeRO-{}", layout.zero_stage);
  if (degree(Axis::kPipeline) > 1) out += ", " + layout.schedule;
  return out;
}

}  // namespace stoa::train

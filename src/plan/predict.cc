#include "plan/predict.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "plan/error_band.h"
#include "plan/layer_time.h"
#include "plan/memory_estimate.h"
#include "plan/offload_time.h"
#include "plan/pipeline_time.h"
#include "plan/workload.h"

namespace stoa::plan {
namespace {

// Reductions of gradients and gathers of parameters that are not hidden in a step. `n`: those that are
// trained.
double data_seconds(const Workload& w, const Constants& k, const CollectiveTime& comm,
                    const RankParameters& all, const RankParameters& n, const StageTime& stage,
                    double microbatches, double layers) {
  const Software& s = w.software;
  const std::int64_t replicas = w.dp * w.cp;
  const std::int64_t stride = w.replica_stride();
  const CommGroup group{replicas, stride};
  const CommGroup experts{static_cast<std::int64_t>(w.expert_replicas(replicas)), w.expert_stride()};
  const double exposed = k[Constant::kDataExposed];
  const double dense = n.dense + n.vocabulary, g = std::min(4.0, s.gradient_bytes);
  const auto hidden = [&](bool overlap, double time, double work) {
    return overlap ? exposed * time + std::max(0.0, (1 - exposed) * time - work) : time;
  };
  if (w.zero_stage >= 3) {
    const std::int64_t ranks = w.ranks_of_shards();
    const CommGroup shards{ranks, stride};
    const double pieces = layers + 1;  // gathered one after the other
    const double gather = pieces * comm.all_gather(2 * (all.dense + all.vocabulary) / pieces, shards);
    const double reduce = pieces * comm.all_gather(g * dense / pieces, shards);
    const double backward = stage.backward_input + stage.backward_weight;
    const double per = hidden(s.overlap_parameters, gather, stage.forward) +
                       hidden(s.overlap_gradients, (w.reshard ? gather : 0) + reduce, backward);
    const CommGroup copies{replicas / ranks, stride * ranks};
    return microbatches * per + comm.all_reduce(g * dense / real(ranks), copies);
  }
  const double backward = stage.backward_input + stage.backward_weight;
  if (w.zero_stage == 0) {
    const double time = comm.all_reduce(g * dense, group) + comm.all_reduce(g * n.expert, experts);
    return hidden(s.overlap_gradients, time, backward);
  }
  if (w.optimizer_instances > 1) {
    const std::int64_t ranks = w.ranks_of_shards();
    // Within a group of replicas; what each then holds of the gradients between the groups.
    const auto of_experts = static_cast<std::int64_t>(w.expert_replicas(ranks));
    const CommGroup shards{ranks, stride}, expert_shards{of_experts, w.expert_stride()},
        copies{replicas / ranks, stride * ranks};
    const auto sharded = [&](double of_dense, double of_expert) {
      return comm.all_gather(of_dense, shards) + comm.all_gather(of_expert, expert_shards);
    };
    const double added = comm.all_reduce(g * dense / real(ranks) + g * n.expert / real(of_experts), copies);
    return hidden(s.overlap_gradients, sharded(g * dense, g * n.expert) + added, backward) +
           hidden(s.overlap_parameters, sharded(2 * dense, 2 * n.expert), stage.forward);
  }
  const double reduce = comm.all_gather(g * dense, group) + comm.all_gather(g * n.expert, experts);
  const double sent = w.format == Format::kFp8 && w.fp8_parameters ? 1 : 2;  // bytes
  const double gather =
      comm.all_gather(sent * n.dense + 2 * n.vocabulary, group) + comm.all_gather(sent * n.expert, experts);
  return hidden(s.overlap_gradients, reduce, backward) + hidden(s.overlap_parameters, gather, stage.forward);
}

double optimizer_seconds(const Workload& w, const Cluster& c, const Constants& k, const RankParameters& n) {
  const double dense = n.dense + n.vocabulary;
  const double sharded =
      w.zero_stage > 0 ? dense / real(w.ranks_of_shards()) + n.expert / w.expert_replicas(w.ranks_of_shards())
                       : dense + n.expert;
  const double local = w.zero_stage >= 3 ? sharded : dense + n.expert;
  const double bandwidth = c.device.memory_bandwidth_gbs * 1e9 * k[Constant::kMemory];
  return (k[Constant::kOptimizer] * sharded + 6 * local) / bandwidth;
}

void add(TimeSplit& split, const LayerTime& layer, double times, bool head) {
  const KindTime forward = layer.forward + layer.backward_input + layer.backward_weight;
  if (head) {
    split.head += times * (forward.sum() + layer.again.sum());
    return;
  }
  split.linear += times * forward.linear;
  split.attention += times * forward.attention;
  split.elementwise += times * forward.elementwise;
  split.host += times * forward.host;
  split.tensor += times * forward.tensor;
  split.context += times * forward.context;
  split.expert += times * forward.expert;
  split.recompute += times * layer.again.sum();
}

}  // namespace

double TimeSplit::sum() const {
  return linear + attention + elementwise + head + recompute + host + tensor + context + expert + pipeline +
         data + offload + bubble + optimizer + straggler;
}

std::vector<std::pair<std::string_view, double>> TimeSplit::parts() const {
  std::vector<std::pair<std::string_view, double>> all{
      {"linear layers", linear},    {"attention", attention},      {"element-wise", elementwise},
      {"head and loss", head},      {"recomputation", recompute},  {"host", host},
      {"tensor parallel", tensor},  {"context parallel", context}, {"expert parallel", expert},
      {"pipeline sends", pipeline}, {"data parallel", data},       {"activation offload", offload},
      {"bubble", bubble},           {"optimizer", optimizer},      {"stragglers", straggler}};
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return all;
}

namespace {

// How long a pipeline rank waits for its own copies, per microbatch.
struct Waits {
  double forward = 0, backward_input = 0, backward_weight = 0;
  double sum() const { return forward + backward_input + backward_weight; }
};

std::vector<Waits> offload_waits(const Workload& w, const Cluster& c, const LayerTime& layer,
                                 const LayerTime& head) {
  std::vector<Waits> out(static_cast<std::size_t>(w.pp));
  if (!w.offload.cpu_offloading) return out;
  const std::vector<std::int64_t> chunks = w.split(), offloaded = w.offloaded_layers();
  const double copy = layer_activation_bytes(w) / c.host_link();
  const double input = layer.backward_input.sum() + layer.again.sum(), weight = layer.backward_weight.sum();
  const bool split = splits_backward(w.schedule_name());
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    Waits& rank = out[static_cast<std::size_t>(w.rank_of_chunk(static_cast<std::int64_t>(i)))];
    const double moved = real(offloaded[i]);
    if (c.links.host_is_device || c.links.shared_device) {
      rank.forward += moved * copy;
      rank.backward_input += moved * copy;
      if (split) rank.backward_weight += moved * copy;
      continue;
    }
    OffloadedChunk chunk{moved, real(chunks[i]) - moved, copy, layer.forward.sum(),
                         input + (split ? 0 : weight)};
    chunk.turns = i + 1 == chunks.size();
    if (chunk.turns) chunk.end = head.all() - (split ? head.backward_weight.sum() : 0);
    const OffloadWait wait = offload_wait(chunk);
    rank.forward += wait.forward;
    rank.backward_input += wait.backward;
    if (!split || moved == 0) continue;
    // The weight gradients read the same activations again, in a separate pass.
    chunk.backward = weight;
    chunk.turns = false;
    chunk.end = 0;
    rank.backward_weight += offload_wait(chunk).backward;
  }
  return out;
}

// Transfers between pipeline stages, and the part of them for which a rank waits. A stage has as many devices
// as its tensor, context and data axes together; stages follow each other.
class StageTransfers {
 public:
  StageTransfers(const Workload& w, const Constants& k, const CollectiveTime& comm)
      : w_(w),
        comm_(comm),
        share_((w.software.overlap_pipeline ? 0.3 : 1) * k[Constant::kPipelineExposed]),
        // Behind an encoder, its output travels with the rows of the targets.
        whole_(2 * real(w.micro_batch * w.model.sample()) / real(w.cp) * real(w.model.hidden)),
        sliced_(w.sequence_parallel || w.software.sliced_sends) {
    if (sliced_ && !w.sequence_parallel) gather_ = comm.all_gather(whole_, {w.tp, 1});
  }

  // Seconds from a rank to the next, and from the last to the first if chunks go around the ranks.
  double send(std::int64_t rank) const {
    const std::int64_t stage = w_.stage_stride();
    return comm_.send(whole_ / (sliced_ ? real(w_.tp) : 1), rank * stage, (rank + 1) % w_.pp * stage);
  }

  // Per microbatch, both directions: the part of transfers that computation does not hide, and the gathers of
  // slices, which the next operation needs at once.
  double waited(std::int64_t rank) const {
    if (w_.pp == 1) return 0;
    // If chunks go around the ranks, every rank has two neighbours; otherwise the ends have one, both ways.
    const bool around = w_.vpp > 1 && !is_v(w_.schedule_name());
    const std::int64_t before = rank > 0 || around ? (rank + w_.pp - 1) % w_.pp : rank;
    const std::int64_t after = rank + 1 < w_.pp || around ? rank : before;
    return real(w_.vpp) * (share_ * (send(before) + send(after)) + 2 * gather_);
  }

 private:
  const Workload& w_;
  const CollectiveTime& comm_;
  double share_, whole_;  // exposed share; bytes of a boundary
  bool sliced_;           // each tensor-parallel rank sends its part
  double gather_ = 0;
};

// The share of a processor that each of its ranks has while it runs.
Cluster share_of(Cluster c, std::int64_t ranks) {
  const double share = 1 / real(std::min(ranks, c.device.compute_units));
  c.device.fp32_tflops *= share;
  c.device.bf16_tflops *= share;
  c.device.fp16_tflops *= share;
  c.device.memory_bandwidth_gbs *= share;
  c.links.shared_device = false;
  c.links.host_is_device = true;
  return c;
}

// Frozen weights have no gradient.
LayerTime trained(LayerTime part, double of_weights) {
  part.backward_weight = part.backward_weight * of_weights;
  return part;
}

// Layers that take the same time, and how many of them each pipeline rank has, and runs backward.
struct Layers {
  LayerTime time;
  std::vector<double> all, backward;
};

std::vector<Layers> layers_by_kind(const Workload& w, const LayerModel& model) {
  std::vector<Layers> out;
  const auto add_kind = [&](const LayerTime& time, std::int64_t begin, std::int64_t end, double share) {
    Layers kind{trained(time, w.trained.layers), {}, {}};
    for (const std::int64_t layers : w.layers_of_ranks(begin, end)) kind.all.push_back(share * real(layers));
    for (const std::int64_t layers : w.layers_of_ranks(std::max(begin, w.trained.first_layer), end))
      kind.backward.push_back(share * real(layers));
    out.push_back(std::move(kind));
  };
  const ModelShape& m = w.model;
  if (m.encoder_layers > 0) {
    add_kind(model.encoder(), 0, m.encoder_layers, 1);
    add_kind(model.decoder(), m.encoder_layers, m.layers, 1);
    return out;
  }
  const double experts = m.expert_share();
  if (m.expert_layers < m.layers) add_kind(model.dense(), 0, m.layers, 1 - experts);
  if (m.expert_layers > 0) add_kind(model.experts(), 0, m.layers, experts);
  return out;
}

TimeSplit time_with(decltype(pipeline_seconds)& pipeline_time, const Workload& w, const Cluster& c,
                    const Constants& k, std::vector<StageTime>* table, double crowd = 1) {
  if (const std::int64_t ranks = std::min(w.devices(), c.links.devices_per_node);
      c.links.shared_device && ranks > 1)
    return time_with(pipeline_time, w, share_of(c, ranks), k, table,
                     std::max(1.0, real(ranks) / real(c.device.compute_units)));
  const LayerModel model(w, c, k);
  const CollectiveTime comm(c, k);
  const std::vector<Layers> kinds = layers_by_kind(w, model);
  const LayerTime embedding = trained(model.embedding(), w.trained.embedding),
                  head = trained(model.head(), w.trained.head);
  const double further = real(w.model.mtp_layers);
  const LayerTime mtp =
      w.model.mtp_layers > 0 ? trained(model.further_token(), w.trained.layers) : LayerTime{};
  LayerTime average;
  for (const Layers& kind : kinds)
    average = average + kind.time * (std::reduce(kind.all.begin(), kind.all.end()) / real(w.model.layers));
  const std::vector<Waits> waits = offload_waits(w, c, average, head);
  const double microbatches = real(w.global_batch) / real(w.dp * w.micro_batch);
  const std::vector<std::int64_t> layers_of_ranks = w.layers_of_ranks(),
                                  backward_of_ranks = w.backward_layers_of_ranks();
  const std::int64_t last = w.head_rank();

  const std::int64_t stage_ranks = w.stage_stride();
  const StageTransfers transfers(w, k, comm);

  std::vector<StageWork> work(static_cast<std::size_t>(w.pp));
  std::vector<StageTime> stages(static_cast<std::size_t>(w.pp));
  for (std::int64_t rank = 0; rank < w.pp; ++rank) {
    StageTime& stage = stages[static_cast<std::size_t>(rank)];
    stage.layers = layers_of_ranks[static_cast<std::size_t>(rank)];
    const auto collect = [&](const LayerTime& layer, double times, double backward) {
      stage.forward += times * layer.forward.sum();
      stage.backward_input += backward * (layer.backward_input.sum() + layer.again.sum());
      stage.backward_weight += backward * layer.backward_weight.sum();
    };
    for (const Layers& kind : kinds)
      collect(kind.time, kind.all[static_cast<std::size_t>(rank)],
              kind.backward[static_cast<std::size_t>(rank)]);
    if (rank == 0) collect(embedding, 1, 1);
    if (rank == last) collect(head, 1, 1);
    if (rank == last && further > 0) collect(mtp, further, further);
    const Waits& wait = waits[static_cast<std::size_t>(rank)];
    stage.forward += wait.forward;
    stage.backward_input += wait.backward_input;
    stage.backward_weight += wait.backward_weight;
    StageWork& item = work[static_cast<std::size_t>(rank)];
    const double waited = transfers.waited(rank);
    item = {stage.forward + 0.5 * waited, stage.backward_input + 0.5 * waited, stage.backward_weight,
            transfers.send(rank)};
    stage.busy = microbatches * item.all();
  }
  // Ranks in excess of the cores first fill each other's bubbles before they slow each other down.
  double crowded = 0;
  for (const StageTime& stage : stages) crowded += crowd * stage.busy / real(w.pp);
  const double pipeline = pipeline_time(w.schedule_name(), work, w.microbatches(), w.vpp);

  const auto slow = std::max_element(stages.begin(), stages.end(),
                                     [](const auto& a, const auto& b) { return a.busy < b.busy; });
  const std::int64_t pace = slow - stages.begin();
  const StageTime& slowest = *slow;
  TimeSplit split;
  for (const Layers& kind : kinds) {
    const double all = kind.all[static_cast<std::size_t>(pace)],
                 backward = kind.backward[static_cast<std::size_t>(pace)];
    add(split, kind.time, microbatches * backward, false);
    LayerTime forward;
    forward.forward = kind.time.forward;
    add(split, forward, microbatches * (all - backward), false);
  }
  if (pace == 0) add(split, embedding, microbatches, true);
  if (pace == last) add(split, head, microbatches, true);
  if (pace == last && further > 0) add(split, mtp, microbatches * further, false);
  split.pipeline = microbatches * transfers.waited(pace);
  split.offload = microbatches * waits[static_cast<std::size_t>(pace)].sum();
  split.bubble = std::max(pipeline, crowded) - slowest.busy;

  double data = 0, optimizer = 0;
  for (std::int64_t rank = 0; rank < w.pp; ++rank) {
    const StageTime& stage = stages[static_cast<std::size_t>(rank)];
    const double trained_layers = real(backward_of_ranks[static_cast<std::size_t>(rank)]) * w.trained.layers;
    const bool first = rank == 0, ends = rank == last;
    const RankParameters all = rank_parameters(w, real(stage.layers), first, ends),
                         own = rank_parameters(w, trained_layers, first, ends, w.trained.embedding,
                                               w.trained.head);
    data = std::max(data, data_seconds(w, k, comm, all, own, stage, microbatches, real(stage.layers)));
    optimizer = std::max(optimizer, optimizer_seconds(w, c, k, own));
  }
  if (last > 0 && w.model.tied)  // both copies of the embedding add their gradients
    data += w.trained.embedding * comm.all_reduce(w.software.gradient_bytes *
                                                      real(w.model.vocabulary * w.model.hidden) / real(w.tp),
                                                  {2, stage_ranks * (w.pp - 1)});
  split.data = crowd * data;
  split.optimizer = crowd * optimizer;
  split.host += k[Constant::kHostStep];
  const double nodes = std::max(1.0, real(w.devices()) / real(c.links.devices_per_node));
  split.straggler = split.sum() * k[Constant::kStraggler] * std::log2(nodes);
  if (table) *table = std::move(stages);
  return split;
}

}  // namespace

TimeSplit predict_time(const Workload& w, const Cluster& c, const Constants& k,
                       std::vector<StageTime>* stages) {
  return time_with(pipeline_seconds, w, c, k, stages);
}

double least_seconds(const Workload& w, const Cluster& c, const Constants& k) {
  return time_with(least_pipeline_seconds, w, c, k, nullptr).sum();
}

Prediction predict(const Workload& w, const Cluster& c, const Calibration& calibration,
                   const CountedMemory* counted, double reserve) {
  validate(w);
  if (c.nodes)
    require<ConfigError>(w.devices() <= *c.nodes * c.links.devices_per_node,
                         "{} devices are asked for, cluster '{}' has {}", w.devices(), c.name,
                         *c.nodes * c.links.devices_per_node);
  Prediction out;
  std::string why;
  const Calibration::Entry& entry = calibration.find(c.device.family, w.software.release, &why);
  out.notes.push_back(why);
  out.time = predict_time(w, c, entry.constants, &out.stages);
  out.seconds = out.time.sum();
  const ErrorBand band = error_band(w, c, calibration);
  out.low = out.seconds * band.low;
  out.high = out.seconds * band.high;
  if (!band.why.empty()) out.notes.push_back("a wide range: " + band.why);
  out.counted = counted != nullptr;
  out.memory = counted ? counted->fullest : estimate_memory(w);
  out.reserve = reserve;
  for (std::size_t stage = 0; stage < out.stages.size(); ++stage)
    out.stages[stage].memory =
        counted ? counted->stages.at(stage) : stage_memory(w, static_cast<std::int64_t>(stage)).sum();
  const double host_room = c.host_room(w.devices());
  out.fits = out.memory.sum() + out.reserve <= c.device.memory_gb * 1e9 && out.memory.offloaded <= host_room;
  const double devices = real(w.devices());
  out.model_flops = model_flops(w) / out.seconds / devices;
  out.hardware_flops = hardware_flops(w) / out.seconds / devices;
  out.share_of_peak = out.model_flops / c.peak(w.format);
  out.tokens_per_second = w.tokens() / out.seconds;
  if (out.memory.offloaded > host_room)
    out.notes.push_back(
        fmt::format("does not fit: a device's share of host memory is {:.1f} GB", host_room / 1e9));
  if (w.offload.cpu_offloading)
    out.notes.push_back(fmt::format(
        "{:.1f} GB of activations are kept in host memory, over a link of {:.1f} GB/s{}",
        out.memory.offloaded / 1e9, c.host_link() / 1e9,
        c.links.host_bandwidth_gbs || c.links.host_is_device ? ""
                                                             : ", a default: the cluster file says nothing"));
  return out;
}

}  // namespace stoa::plan

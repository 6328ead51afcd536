#include "plan/search_space.h"

#include <algorithm>

#include "base/error.h"

namespace stoa::plan {

std::vector<std::int64_t> divisors(std::int64_t n) {
  std::vector<std::int64_t> out;
  for (std::int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    out.push_back(d);
    if (d * d != n) out.push_back(n / d);
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::string> schedules_of(SearchTarget target) {
  switch (target) {
    case SearchTarget::kStoa:
      return {"1f1b", "interleaved", "zb-h1",  "zb-h2", "interleaved-zb",
              "zb-v", "dualpipev",   "v-half", "v-min"};
    case SearchTarget::kMegatron:
    case SearchTarget::kNemo:
      return {"1f1b", "interleaved"};
    case SearchTarget::kTorchtitan:
      return {"1f1b", "interleaved", "zb-v"};
  }
  fail<InternalError>("unknown target");
}

bool searched_by_default(const std::string& schedule) {
  return schedule == "1f1b" || schedule == "interleaved" || schedule == "zb-h1" || schedule == "zb-v" ||
         schedule == "dualpipev";
}

SearchTarget usual_target(const Cluster& cluster) {
  const bool cpu = cluster.links.host_is_device || cluster.links.shared_device ||
                   cluster.device.family.find("CPU") != std::string::npos;
  return cpu ? SearchTarget::kStoa : SearchTarget::kMegatron;
}

bool of_megatron(SearchTarget target) {
  return target == SearchTarget::kMegatron || target == SearchTarget::kNemo;
}

bool takes_chunks(const std::string& schedule) {
  return schedule == "interleaved" || schedule == "interleaved-zb" || schedule == "bfs";
}

bool takes_microbatches(const std::string& schedule, std::int64_t stages, std::int64_t microbatches) {
  if (schedule == "interleaved" || schedule == "interleaved-zb") return microbatches % stages == 0;
  if (schedule == "dualpipev") return microbatches >= 2 * stages;
  return true;
}

bool splits_heads(const ModelShape& model, std::int64_t tensor) {
  return model.heads % tensor == 0 && model.state_heads % tensor == 0 && model.state_groups % tensor == 0;
}

bool leaves_nodes(const Cluster& cluster, std::int64_t devices, std::int64_t group) {
  const std::int64_t node = std::max(cluster.links.devices_per_island, cluster.links.devices_per_node);
  return devices > node && group < node && node % group != 0;
}

namespace {

class Layouts {
 public:
  Layouts(const SearchRequest& request, const Cluster& cluster) : r_(request), cluster_(cluster) {}

  std::vector<Workload> list() {
    const ModelShape& m = r_.workload.model;
    for (const std::int64_t tp : divisors(r_.devices)) {
      if (!splits_heads(m, tp) || !allowed(r_.space.tensor, tp)) continue;
      if (r_.space.tensor.empty() && (tp > std::max<std::int64_t>(8, cluster_.links.devices_per_island) ||
                                      leaves_nodes(cluster_, r_.devices, tp)))
        continue;
      for (const std::int64_t cp : divisors(r_.devices / tp)) {
        if (m.sequence % (2 * cp) != 0 && cp > 1) continue;
        if (!allowed(r_.space.context, cp)) continue;
        if (r_.space.context.empty() && cp > 1 && m.sequence / cp < 2048) continue;
        for (const std::int64_t pp : divisors(r_.devices / tp / cp))
          if (pp <= m.layers && allowed(r_.space.pipeline, pp)) stages(tp, cp, pp);
      }
    }
    return std::move(out_);
  }

 private:
  // Whether every batch of the ramp-up has the property.
  template <class Property>
  bool each_batch(const Property& holds) const {
    return std::all_of(r_.smaller_batches.begin(), r_.smaller_batches.end(), holds);
  }

  void stages(std::int64_t tp, std::int64_t cp, std::int64_t pp) {
    const ModelShape& m = r_.workload.model;
    Workload w = with_recompute(r_.workload, {});
    w.tp = tp;
    w.cp = cp;
    w.pp = pp;
    w.dp = r_.devices / (tp * cp * pp);
    for (const std::int64_t ep : divisors(std::max<std::int64_t>(1, m.experts))) {
      if (w.dp % ep != 0 || !allowed(r_.space.expert, ep)) continue;
      w.ep = ep;
      const std::int64_t wanted = r_.workload.global_batch;
      const std::int64_t share = std::max<std::int64_t>(1, (wanted + w.dp / 2) / w.dp);
      const double off = std::abs(static_cast<double>(share * w.dp - wanted)) / static_cast<double>(wanted);
      if (off > (r_.smaller_batches.empty() ? r_.batch_tolerance : 0)) continue;
      w.global_batch = share * w.dp;
      for (const std::int64_t micro : divisors(share)) {
        if (!allowed(r_.space.micro_batches, micro) || (r_.space.micro_batches.empty() && micro > 32))
          continue;
        if (!each_batch([&](std::int64_t batch) { return batch % (w.dp * micro) == 0; })) continue;
        w.micro_batch = micro;
        w.sequence_parallel = tp > 1 && micro * m.sequence / cp % tp == 0;
        schedules(w);
      }
    }
  }

  void schedules(Workload w) {
    const std::int64_t microbatches = w.microbatches();
    if (w.pp == 1) {
      w.schedule = "1f1b";
      w.vpp = 1;
      if (allowed(r_.space.schedules, w.schedule) && allowed<std::int64_t>(r_.space.virtual_stages, 1))
        shards(w);
      return;
    }
    for (const std::string& schedule : schedules_of(r_.target)) {
      if (!allowed(r_.space.schedules, schedule) || !takes_microbatches(schedule, w.pp, microbatches))
        continue;
      if (!each_batch([&](std::int64_t batch) {
            return takes_microbatches(schedule, w.pp, batch / (w.dp * w.micro_batch));
          }))
        continue;
      if (r_.space.schedules.empty() && !searched_by_default(schedule)) continue;
      w.schedule = schedule;
      if (!takes_chunks(schedule)) {
        w.vpp = is_v(schedule) ? 2 : 1;
        if (w.pp * w.vpp <= w.model.layers && allowed(r_.space.virtual_stages, w.vpp)) splits(w);
        continue;
      }
      const std::int64_t most = w.model.layers / w.pp;
      for (std::int64_t v = 2; v <= most; ++v) {
        if (!allowed(r_.space.virtual_stages, v)) continue;
        if (r_.space.virtual_stages.empty() && v > 16) break;
        // With several chunks, Megatron and torchtitan distribute layers evenly only.
        if (w.model.layers % (w.pp * v) != 0 && r_.target != SearchTarget::kStoa) continue;
        // Uneven chunks of an interleaved pipeline wait for the longest one: even splits are about as good as
        // any other.
        if (w.model.layers % (w.pp * v) != 0 && r_.space.virtual_stages.empty() && v != most) continue;
        w.vpp = v;
        splits(w);
      }
    }
  }

  // Layers of the chunks: even, or as even as possible; embedding and head count as layers if that makes the
  // split even.
  void splits(Workload w) {
    const std::int64_t chunks = w.pp * w.vpp, layers = w.model.layers;
    w.chunk_layers.clear();
    const std::vector<std::int64_t> even = w.split();
    w.chunk_layers = even;
    const bool only_even = r_.target == SearchTarget::kNemo;  // which has no key for another split
    if (layers % chunks == 0 || !only_even) shards(w);
    if (chunks < 3 || only_even) return;
    for (const auto& [first, last] : {std::pair(0, 1), std::pair(1, 1)}) {
      if ((layers + first + last) % chunks != 0) continue;
      w.chunk_layers.assign(static_cast<std::size_t>(chunks), (layers + first + last) / chunks);
      w.chunk_layers.front() -= first;
      w.chunk_layers.back() -= last;
      if (w.chunk_layers.back() >= 0 && w.chunk_layers != even) shards(w);
    }
  }

  void shards(Workload w) {
    if ((w.dp * w.cp) % w.optimizer_instances != 0) return;
    const bool alone = w.dp * w.cp == 1;
    for (std::int64_t stage = 0; stage <= 3; ++stage) {
      if (!allowed(r_.space.zero_stages, stage) || (alone && stage > 0)) continue;
      // Between stages 1 and 3: whole gradients are held anyway if they accumulate over microbatches.
      if (stage == 2 && w.microbatches() > 1 && r_.space.zero_stages.empty()) continue;
      if (stage == 2 && r_.target != SearchTarget::kStoa) continue;
      if (stage == 3 && of_megatron(r_.target)) continue;
      w.zero_stage = static_cast<int>(stage);
      out_.push_back(w);
    }
  }

  const SearchRequest& r_;
  const Cluster& cluster_;
  std::vector<Workload> out_;
};

}  // namespace

std::vector<Workload> layouts(const SearchRequest& request, const Cluster& cluster) {
  return Layouts(request, cluster).list();
}

}  // namespace stoa::plan

#include "plan/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <queue>
#include <set>

#include "base/error.h"
#include "plan/pipeline_time.h"
#include "plan/search_space.h"

namespace stoa::plan {

std::span<const config::EnumName<SearchTarget>> enum_names(SearchTarget) {
  static constexpr std::array<config::EnumName<SearchTarget>, 4> kNames{
      {{"stoa", SearchTarget::kStoa},
       {"megatron", SearchTarget::kMegatron},
       {"torchtitan", SearchTarget::kTorchtitan},
       {"nemo", SearchTarget::kNemo}}};
  return kNames;
}

std::string_view name_of(SearchTarget target) {
  for (const auto& name : enum_names(target))
    if (name.value == target) return name.name;
  fail<InternalError>("unknown target");
}

std::string_view whose_bytes(SearchTarget target) {
  switch (target) {
    case SearchTarget::kStoa:
      return "Stoa's own bytes, counted";
    case SearchTarget::kMegatron:
      return "estimated for Megatron-LM";
    case SearchTarget::kTorchtitan:
      return "estimated for torchtitan";
    case SearchTarget::kNemo:
      return "estimated for NeMo";
  }
  fail<InternalError>("unknown program");
}

RankBytes fullest_device(SearchTarget target, MemoryModel& memory, const Workload& workload,
                         const MemoryPoint& point) {
  if (target == SearchTarget::kStoa) return memory.worst(point);
  validate(workload);
  return rank_bytes(estimate_memory(workload));
}

namespace {

using Granularity = model::RecomputeGranularity;
using Method = model::RecomputeMethod;

// By how many bytes a plan exceeds the device or its share of the host, whichever is worse; negative if it
// fits.
double over_device(const RankBytes& bytes, const SearchRequest& request) {
  return static_cast<double>(bytes.total) - request.memory;
}
double over_host(const RankBytes& bytes, const SearchRequest& request, const Cluster& cluster) {
  return static_cast<double>(bytes.offloaded) - cluster.host_room(request.devices);
}
bool within(const RankBytes& bytes, const SearchRequest& request, const Cluster& cluster) {
  return over_device(bytes, request) <= 0 && over_host(bytes, request, cluster) <= 0;
}
std::string what_is_over(const RankBytes& bytes, const SearchRequest& request, const Cluster& cluster) {
  const double device = over_device(bytes, request);
  if (device > 0) return fmt::format("{:.1f} GB too much", device / 1e9);
  return fmt::format("{:.1f} GB too much for the host, per device", over_host(bytes, request, cluster) / 1e9);
}

// A lower bound for any plan, in bytes: whole weights, gradients and moments of an average rank.
double least_bytes(const Workload& w, const nn::Precision& precision) {
  const double parameters = w.model.parameters(), ranks = static_cast<double>(w.tp * w.pp);
  const double experts = static_cast<double>(w.model.expert_layers * w.model.experts * w.model.hidden *
                                             w.model.expert_ffn * (w.model.gated ? 3 : 2));
  const double held = ((parameters - experts) + experts / static_cast<double>(w.ep)) / ranks;
  const double shards = static_cast<double>(w.dp * w.cp), split = w.zero_stage >= 1 ? shards : 1;
  const auto value = static_cast<double>(size_of(precision.compute));
  const double weights = value / (w.zero_stage >= 3 ? shards : 1), gradients = w.zero_stage >= 2 ? 0 : 4;
  return 0.9 * held * (weights + gradients + (8 + (value < 4 ? 4 : 0)) / split);
}

constexpr double kFarSlower = 1.1;  // than the best: not looked at, however few were found

// What is known of a layout in the queue: nothing (its time is a bound for its schedule), not its bytes (its
// time is that without recomputation), that it does not fit that way (its time is that with the least
// recomputation of whole layers), or everything but its bytes.
enum class Known { kBound, kNothing, kTooLarge, kSettled };

struct Entry {
  double per_token = 0;  // seconds, or a bound
  std::size_t layout = 0;
  Known known = Known::kNothing;
  model::RecomputeConfig recompute;
  bool operator<(const Entry& other) const {  // for a queue whose top is the fastest
    return per_token != other.per_token ? per_token > other.per_token : layout > other.layout;
  }
};

class Search {
 public:
  Search(MemoryModel& memory, const SearchRequest& request, const Cluster& cluster,
         const Constants& constants)
      : memory_(memory), r_(request), cluster_(cluster), constants_(constants) {}

  SearchResult run() {
    all_ = layouts(r_, cluster_);
    result_.layouts = all_.size();
    const nn::Precision precision = memory_.options({}).precision;
    for (std::size_t i = 0; i < all_.size(); ++i)
      if (least_bytes(all_[i], precision) <= r_.memory)
        enter(i, least_seconds(all_[i], cluster_, constants_) / all_[i].tokens());
    std::sort(bounds_.begin(), bounds_.end());
    while (!queue_.empty() && result_.looked_at < r_.most_looked_at) {
      const Entry entry = queue_.top();
      const double within =
          result_.best.size() >= r_.top ? r_.front_within : std::max(r_.front_within, kFarSlower);
      if (!result_.best.empty() && entry.per_token > within * best_per_token()) break;
      queue_.pop();
      examined_ += entry.known == Known::kBound;
      if (r_.progress) report_progress(within);
      look_at(entry);
    }
    result_.bounded = queue_.size();
    if (result_.best.empty()) find_nearest();
    make_front();
    if (result_.best.size() > r_.top) result_.best.resize(r_.top);
    result_.wired = memory_.wired();
    return std::move(result_);
  }

 private:
  double seconds_of(const Workload& w) const { return predict_time(w, cluster_, constants_).sum(); }
  double best_per_token() const {
    return result_.best.front().seconds / result_.best.front().workload.tokens();
  }

  void enter(std::size_t layout, double bound) {
    queue_.push({bound, layout, Known::kBound, {}});
    bounds_.push_back(bound);
  }

  void report_progress(double within) const {
    SearchProgress p;
    p.examined = examined_;
    const auto end = result_.best.empty()
                         ? bounds_.end()
                         : std::upper_bound(bounds_.begin(), bounds_.end(), within * best_per_token());
    p.left = static_cast<std::size_t>(
        std::max<std::ptrdiff_t>(0, end - bounds_.begin() - static_cast<std::ptrdiff_t>(examined_)));
    if (!result_.best.empty()) p.best_seconds = result_.best.front().seconds;
    r_.progress(p);
  }

  RankBytes bytes_of(const Workload& w, const model::RecomputeConfig& recompute) {
    ++result_.looked_at;
    return fullest_device(r_.bytes, memory_, with_recompute(w, recompute),
                          memory_point(w, recompute, memory_.layout()));
  }

  bool fits(const RankBytes& bytes) const { return within(bytes, r_, cluster_); }

  void accept(const Entry& entry, RankBytes bytes) {
    Found found;
    found.workload = with_recompute(all_[entry.layout], entry.recompute);
    found.point = memory_point(all_[entry.layout], entry.recompute, memory_.layout());
    found.time = predict_time(found.workload, cluster_, constants_);
    found.seconds = found.time.sum();
    found.memory = std::move(bytes);
    result_.best.push_back(std::move(found));
  }

  void look_at(const Entry& entry) {
    if (entry.known == Known::kBound && !has_closed_form(all_[entry.layout].schedule))
      return push(entry.layout, {}, Known::kNothing);
    if (entry.known == Known::kTooLarge)
      return entry.recompute.offload.cpu_offloading ? fewest_offloaded(entry) : fewest_layers(entry);
    const Workload& w = all_[entry.layout];
    RankBytes bytes;
    try {
      bytes = bytes_of(w, entry.recompute);
    } catch (const ConfigError&) {
      return;  // sizes that the program does not cut so
    }
    remember_nearest(entry, bytes);
    if (fits(bytes) && (entry.known == Known::kSettled || allowed<std::string>(r_.space.recompute, "none")))
      return accept(entry, bytes);
    if (entry.known != Known::kSettled) recompute(entry);
  }

  void push(std::size_t layout, const model::RecomputeConfig& recompute, Known known = Known::kSettled) {
    const Workload w = with_recompute(all_[layout], recompute);
    queue_.push({seconds_of(w) / w.tokens(), layout, known, recompute});
  }

  bool may(const char* kind) const { return allowed<std::string>(r_.space.recompute, kind); }
  static model::RecomputeConfig block(std::int64_t layers) {
    return {Granularity::kFull, Method::kBlock, layers};
  }
  std::int64_t longest_chunk(const Workload& w) const {
    const std::vector<std::int64_t> split = w.split();
    return *std::max_element(split.begin(), split.end());
  }

  static model::RecomputeConfig offloaded(Granularity granularity, std::int64_t layers) {
    return {granularity, {}, {}, {.cpu_offloading = true, .cpu_offloading_num_layers = layers}};
  }
  // Megatron supports offloading neither with pipeline stages nor with recomputation.
  bool may_offload(const Workload& w, Granularity granularity) const {
    if (!may("offload") || cluster_.links.host_is_device || cluster_.links.shared_device) return false;
    if (granularity == Granularity::kSelective && !may("selective")) return false;
    if (of_megatron(r_.target)) return w.pp == 1 && granularity == Granularity::kNone;
    return r_.target == SearchTarget::kStoa;
  }

  // Variants of a layout that need less memory: recompute cheap operations, offload activations, or recompute
  // whole layers.
  void recompute(const Entry& entry) {
    if (may("selective")) push(entry.layout, {Granularity::kSelective, {}, {}});
    for (const Granularity granularity : {Granularity::kNone, Granularity::kSelective})
      if (may_offload(all_[entry.layout], granularity))
        push(entry.layout, offloaded(granularity, 1), Known::kTooLarge);
    if (may("block"))
      push(entry.layout, block(1), Known::kTooLarge);
    else if (may("full"))
      push(entry.layout, block(longest_chunk(all_[entry.layout])), Known::kTooLarge);
  }

  // Finds the smallest number of recomputed layers per chunk that fits.
  void fewest_layers(const Entry& entry) {
    const Workload& w = all_[entry.layout];
    const std::int64_t longest = longest_chunk(w);
    const auto fits_with = [&](const model::RecomputeConfig& config) { return fits(bytes_of(w, config)); };
    if (fits_with(block(longest))) {
      // Recomputing more layers needs no more memory and takes more time: the fewest that fit are the best.
      std::int64_t low = may("block") ? 1 : longest, high = longest;
      while (low < high) {
        const std::int64_t middle = (low + high) / 2;
        if (fits_with(block(middle)))
          high = middle;
        else
          low = middle + 1;
      }
      push(entry.layout, block(high));
    } else if (may("full")) {
      for (std::int64_t kept = 2; kept <= std::min<std::int64_t>(longest, 8); ++kept)
        push(entry.layout, {Granularity::kFull, Method::kUniform, kept});
    }
  }

  // Finds the smallest number of offloaded layers per pipeline rank that fits: more are never faster.
  void fewest_offloaded(const Entry& entry) {
    const Workload& w = all_[entry.layout];
    const Granularity granularity = entry.recompute.granularity;
    const auto fits_with = [&](const model::RecomputeConfig& config) {
      return fits(fullest_device(r_.bytes, memory_, with_recompute(w, config),
                                 memory_point(w, config, memory_.layout())));
    };
    ++result_.looked_at;
    // Then nothing has to be offloaded; without recomputation it is known not to fit.
    if (granularity != Granularity::kNone && fits_with({granularity, {}, {}})) return;
    const std::vector<std::int64_t> layers = w.layers_of_ranks();
    std::int64_t most = *std::max_element(layers.begin(), layers.end());
    if (of_megatron(r_.target)) --most;  // which keeps the last
    for (std::int64_t moved = 1; moved <= most; ++moved)
      if (fits_with(offloaded(granularity, moved))) return push(entry.layout, offloaded(granularity, moved));
  }

  void remember_nearest(const Entry& entry, const RankBytes& bytes) {
    if (nearest_ && nearest_bytes_.total <= bytes.total) return;
    nearest_ = entry;
    nearest_bytes_ = bytes;
  }

  // Includes layouts that were rejected because of their lower bound of bytes.
  void find_nearest() {
    if (!nearest_) {
      const nn::Precision precision = memory_.options({}).precision;
      std::vector<std::size_t> order(all_.size());
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return least_bytes(all_[a], precision) < least_bytes(all_[b], precision);
      });
      const model::RecomputeConfig full{Granularity::kFull, Method::kUniform, 1};
      for (std::size_t i = 0; i < std::min<std::size_t>(order.size(), 20); ++i) {
        try {
          remember_nearest({0, order[i], Known::kSettled, full}, bytes_of(all_[order[i]], full));
        } catch (const ConfigError&) {
        }
      }
    }
    if (!nearest_) return;
    accept(*nearest_, nearest_bytes_);
    result_.nearest = std::move(result_.best.back());
    result_.best.pop_back();
  }

  void make_front() {
    std::size_t least = SIZE_MAX;
    for (const Found& found : result_.best) {
      if (found.memory.total >= least) continue;
      least = found.memory.total;
      result_.front.push_back(found);
    }
  }

  MemoryModel& memory_;
  const SearchRequest& r_;
  const Cluster& cluster_;
  const Constants& constants_;
  std::vector<Workload> all_;
  std::priority_queue<Entry> queue_;
  std::vector<double> bounds_;  // of all layouts, ascending
  std::size_t examined_ = 0;    // of them
  std::optional<Entry> nearest_;
  RankBytes nearest_bytes_;
  SearchResult result_;
};

}  // namespace

MemoryPoint memory_point(const Workload& w, const model::RecomputeConfig& recompute,
                         const run::Layout& base) {
  MemoryPoint point;
  run::Layout& l = point.layout;
  if (base.context_kind == parallel::ContextKind::kRing) l.context_kind = base.context_kind;
  l.grid = grid::RankGrid(
      {static_cast<int>(w.tp), static_cast<int>(w.cp), 1, static_cast<int>(w.dp), static_cast<int>(w.pp)},
      {static_cast<int>(w.expert_tp), static_cast<int>(w.ep)});
  l.sequence_parallel = w.sequence_parallel;
  l.schedule = w.schedule_name();
  l.chunks = w.vpp > 1 ? static_cast<int>(w.vpp) : 0;
  const std::vector<std::int64_t> split = w.split();
  if (std::adjacent_find(split.begin(), split.end(), std::not_equal_to<>()) != split.end()) l.layers = split;
  l.zero_stage = w.zero_stage;
  l.overlap_grad_reduce = w.software.overlap_gradients;
  point.micro_batch = w.micro_batch;
  point.microbatches = w.microbatches();
  point.recompute = recompute;
  return point;
}

Workload with_recompute(Workload w, const model::RecomputeConfig& recompute) {
  w.recomputed_share = 1;
  w.offload = recompute.offload;
  switch (recompute.granularity) {
    case Granularity::kNone:
      w.recompute = Recompute::kNone;
      break;
    case Granularity::kSelective:
      w.recompute = Recompute::kSelective;
      break;
    case Granularity::kFull: {
      w.recompute = Recompute::kFull;
      const std::int64_t number = recompute.num_layers.value_or(1);
      if (recompute.method == Method::kBlock) {
        std::int64_t again = 0;
        for (const std::int64_t layers : w.split()) again += std::min(layers, number);
        w.recomputed_share = static_cast<double>(again) / static_cast<double>(w.model.layers);
      } else {
        // Layers that share a kept input run forward once more, to recompute the inputs between them.
        w.recomputed_share = 1 + static_cast<double>(number - 1) / static_cast<double>(number);
      }
      break;
    }
  }
  return w;
}

SearchResult search(MemoryModel& memory, const SearchRequest& request, const Cluster& cluster,
                    const Constants& constants) {
  return Search(memory, request, cluster, constants).run();
}

std::string largest_growth(const TimeSplit& from, const TimeSplit& to) {
  std::string_view item;
  double most = 0;
  for (const auto& [name, seconds] : to.parts())
    for (const auto& [other, before] : from.parts())
      if (name == other && seconds - before > most) {
        most = seconds - before;
        item = name;
      }
  return item.empty() ? "nothing grew" : fmt::format("{} +{:.3g} s", item, most);
}

std::vector<Neighbour> neighbours(MemoryModel& memory, const SearchRequest& request, const Cluster& cluster,
                                  const Constants& constants, const Found& found) {
  std::vector<Neighbour> out;
  const auto consider = [&](std::string change, Workload w, const model::RecomputeConfig& recompute) {
    Neighbour n;
    n.change = std::move(change);
    try {
      w = with_recompute(std::move(w), recompute);
      validate(w);
      const std::int64_t microbatches = w.microbatches();
      require<ConfigError>(w.pp == 1 || takes_microbatches(w.schedule, w.pp, microbatches),
                           "{} microbatches do not suit the schedule {} of {} stages", microbatches,
                           w.schedule, w.pp);
      const RankBytes bytes =
          fullest_device(request.bytes, memory, w, memory_point(w, recompute, memory.layout()));
      n.bytes = static_cast<double>(bytes.total);
      const TimeSplit time = predict_time(w, cluster, constants);
      n.seconds = time.sum();
      n.fits = within(bytes, request, cluster);
      const double ratio = n.seconds / found.seconds * found.workload.tokens() / w.tokens();
      const std::string speed =
          ratio >= 1 ? fmt::format("{:.1f} % slower: {}", 100 * (ratio - 1), largest_growth(found.time, time))
                     : fmt::format("{:.1f} % faster", 100 * (1 - ratio));
      n.verdict =
          n.fits ? speed : fmt::format("does not fit: {} ({})", what_is_over(bytes, request, cluster), speed);
    } catch (const ConfigError& error) {
      n.verdict = fmt::format("cannot run: {}", error.what());
    }
    out.push_back(std::move(n));
  };
  const Workload& w = found.workload;
  const model::RecomputeConfig& now = found.point.recompute;
  const std::int64_t devices = w.devices();
  // Degrees to vary; the data-parallel degree follows.
  struct Degree {
    const char* name;
    std::int64_t Workload::*value;
  };
  constexpr Degree kDegrees[] = {{"TP", &Workload::tp}, {"PP", &Workload::pp}, {"CP", &Workload::cp}};
  for (const Degree& d : kDegrees) {
    const std::int64_t value = w.*d.value;
    std::int64_t below = value - 1, above = value + 1;
    const auto unfit = [&](std::int64_t other) {
      return devices % other != 0 || (d.value == &Workload::tp && (!splits_heads(w.model, other) ||
                                                                   leaves_nodes(cluster, devices, other)));
    };
    while (below > 1 && unfit(below)) --below;
    while (above <= devices && unfit(above)) ++above;
    for (const std::int64_t other : {below, above}) {
      if (other < 1 || other > devices) continue;
      if (d.value == &Workload::cp && other > 1 && w.model.sequence % (2 * other) != 0) continue;
      Workload changed = w;
      changed.*d.value = other;
      const std::int64_t model = changed.tp * changed.pp * changed.cp;
      if (devices % model != 0) continue;
      changed.dp = devices / model;
      if (changed.ep > 1 && changed.dp % changed.ep != 0) continue;
      changed.chunk_layers.clear();
      changed.sequence_parallel = changed.tp > 1;
      if (changed.pp == 1) changed.schedule = "1f1b", changed.vpp = 1;
      if (changed.dp * changed.cp == 1) changed.zero_stage = 0;
      if (changed.pp * changed.vpp > changed.model.layers) changed.vpp = 1, changed.schedule = "1f1b";
      if (changed.global_batch % (changed.dp * changed.micro_batch) != 0 &&
          changed.global_batch % changed.dp == 0)
        changed.micro_batch = 1;
      consider(fmt::format("{} {} -> {}", d.name, value, other), changed, now);
    }
  }
  const std::int64_t share = w.global_batch / w.dp;
  const std::vector<std::int64_t> micro = divisors(share);
  const auto at = std::find(micro.begin(), micro.end(), w.micro_batch);
  for (const int step : {-1, 1}) {
    if ((step < 0 && at == micro.begin()) || (step > 0 && (at == micro.end() || at + 1 == micro.end())))
      continue;
    Workload changed = w;
    changed.micro_batch = *(at + step);
    consider(fmt::format("microbatch {} -> {}", w.micro_batch, changed.micro_batch), changed, now);
  }
  if (w.pp > 1) {
    for (const std::string& schedule : schedules_of(request.target)) {
      if (schedule == w.schedule || takes_chunks(schedule)) continue;
      if (request.space.schedules.empty() ? !searched_by_default(schedule)
                                          : !allowed(request.space.schedules, schedule))
        continue;
      Workload changed = w;
      changed.schedule = schedule;
      changed.vpp = is_v(schedule) ? 2 : 1;
      changed.chunk_layers.clear();
      if (changed.pp * changed.vpp > w.model.layers) continue;
      consider(fmt::format("schedule {} -> {}", w.schedule, schedule), changed, now);
    }
    std::set<std::int64_t> virtual_stages;
    for (const std::int64_t v : divisors(std::max<std::int64_t>(1, w.model.layers / w.pp)))
      if (v > 1 && w.model.layers % (w.pp * v) == 0) virtual_stages.insert(v);
    for (const std::int64_t v : virtual_stages) {
      if (takes_chunks(w.schedule) && v == w.vpp) continue;
      Workload changed = w;
      changed.schedule = w.schedule == "interleaved-zb" ? w.schedule : "interleaved";
      changed.vpp = v;
      changed.chunk_layers.clear();
      consider(fmt::format("{} {} -> interleaved {}", w.schedule, w.vpp, v), changed, now);
    }
  }
  for (const int stage : {0, 1, 3}) {
    if (stage == w.zero_stage || w.dp * w.cp == 1) continue;
    if (stage == 3 && of_megatron(request.target)) continue;
    Workload changed = w;
    changed.zero_stage = stage;
    consider(fmt::format("ZeRO {} -> {}", w.zero_stage, stage), changed, now);
  }
  if (!now.offload.cpu_offloading && now.granularity != Granularity::kFull &&
      request.target == SearchTarget::kStoa && !cluster.links.host_is_device && !cluster.links.shared_device)
    consider("activations offloaded", w,
             {now.granularity, {}, {}, {.cpu_offloading = true, .cpu_offloading_num_layers = {}}});
  if (now.offload.cpu_offloading) consider("no offloading", w, {now.granularity, now.method, now.num_layers});
  if (now.granularity != Granularity::kNone) consider("no recomputation", w, {});
  if (now.granularity != Granularity::kSelective)
    consider("selective recomputation", w, {Granularity::kSelective, {}, {}});
  if (now.granularity != Granularity::kFull)
    consider("full recomputation", w, {Granularity::kFull, Method::kUniform, 1});
  return out;
}

}  // namespace stoa::plan

#include <cmath>

#include "ops/cuda/kernels/launch.h"
#include "ops/cuda/kernels/reduce.h"
#include "ops/cuda/kernels/router.h"
#include "ops/cuda/kernels/step_slot.h"

namespace stoa::ops::cuda {
namespace {

constexpr double kTiny = 1e-20;  // DeepSeek-V3's, below the sum of sigmoid scores

STOA_DEVICE std::int64_t sequence_of(const SequenceArgs& s, std::int64_t token) {
  return (s.first + token) / s.run % s.count;
}

// A warp processes one token; its lanes share the experts.
struct RouterWarp {
  const Thread& t;
  const RouterArgs& a;
  const std::int64_t token;
  double* scores;  // [experts], shared

  STOA_DEVICE RouterWarp(const Thread& thread, const RouterArgs& args)
      : t(thread),
        a(args),
        token(thread.block_x() * thread.warps() + thread.warp()),
        scores(reinterpret_cast<double*>(thread.shared<unsigned char>() + thread.warp() * args.shared)) {}

  template <class Body>
  STOA_DEVICE void each_expert(Body&& body) const {
    for (std::int64_t e = t.lane(); e < a.experts; e += 32) body(e);
  }
  STOA_DEVICE double logit(std::int64_t e) const {
    return static_cast<double>(a.logits[token * a.experts + e]);
  }
  // The largest logit, and the sum of exponentials relative to it.
  struct Exponentials {
    double most, sum;
  };
  STOA_DEVICE Exponentials exponentials() const {
    double most = -INFINITY, sum = 0;
    each_expert([&](std::int64_t e) { most = Max::of(most, logit(e)); });
    most = warp_reduce<Max>(t, most);
    each_expert([&](std::int64_t e) { sum += exp(logit(e) - most); });
    return {most, warp_reduce<Add>(t, sum)};
  }
  STOA_DEVICE void make_scores() const {
    if (a.sigmoid) {
      each_expert([&](std::int64_t e) { scores[e] = 1 / (1 + exp(-logit(e))); });
    } else {
      const Exponentials all = exponentials();
      each_expert([&](std::int64_t e) { scores[e] = exp(logit(e) - all.most) / all.sum; });
    }
    t.sync_warp();
  }
  // Sums the scores of the chosen experts in their order; every lane computes the whole sum.
  STOA_DEVICE double sum_of_chosen() const {
    double sum = a.sigmoid ? kTiny : 0;
    for (std::int64_t j = 0; j < a.k; ++j) sum += scores[a.ids[token * a.k + j]];
    return sum;
  }
};

struct RouterForwardKernel {
  using Args = RouterArgs;
  static constexpr const char* kName = "router forward";
  static constexpr int kThreads = 256;

  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const RouterWarp w(t, a);
    if (w.token >= a.tokens) return;
    double* group_scores = w.scores + a.experts;
    auto* open = reinterpret_cast<std::int32_t*>(group_scores + a.groups);
    w.make_scores();
    const auto value = [&](std::int64_t e) {
      return a.bias ? w.scores[e] + static_cast<double>(a.bias[e]) : w.scores[e];
    };
    open_groups(w, group_scores, open, value);
    for (std::int64_t j = 0; j < a.k; ++j) {
      std::int32_t best = -1;
      double most = 0;
      w.each_expert([&](std::int64_t e) {
        if (open[e] == 0 || (best >= 0 && !(value(e) > most))) return;
        best = static_cast<std::int32_t>(e), most = value(e);
      });
      for (int step = 16; step > 0; step /= 2) {
        const std::int32_t other = t.shuffle_xor(best, step);
        const double other_most = t.shuffle_xor(most, step);
        const bool better = best < 0 || other_most > most || (!(most > other_most) && other < best);
        if (other >= 0 && better) best = other, most = other_most;
      }
      best = t.shuffle(best, 0);  // lanes disagree where values are no numbers
      if (t.lane() == 0) {
        a.ids[w.token * a.k + j] = best;
        open[best] = 0;
      }
      t.sync_warp();
    }
    const double factor = a.normalize ? a.scale / w.sum_of_chosen() : a.scale;
    for (std::int64_t j = t.lane(); j < a.k; j += 32) {
      const std::int64_t i = w.token * a.k + j;
      a.weights[i] = static_cast<float>(w.scores[a.ids[i]] * factor);
    }
  }

  // open[e] = whether the group of e is among those with the best scores; ties go to the lower index.
  template <class Value>
  STOA_DEVICE static void open_groups(const RouterWarp& w, double* scores, std::int32_t* open,
                                      const Value& value) {
    const Args& a = w.a;
    if (a.chosen_groups == a.groups) {
      w.each_expert([&](std::int64_t e) { open[e] = 1; });
      w.t.sync_warp();
      return;
    }
    const std::int64_t size = a.experts / a.groups;
    for (std::int64_t g = w.t.lane(); g < a.groups; g += 32) {
      double best = -INFINITY, second = -INFINITY;
      for (std::int64_t e = g * size; e < (g + 1) * size; ++e) {
        const double x = value(e);
        if (x > best)
          second = best, best = x;
        else if (x > second)
          second = x;
      }
      scores[g] = size > 1 ? best + second : best;
    }
    w.t.sync_warp();
    w.each_expert([&](std::int64_t e) {
      const std::int64_t g = e / size;
      std::int64_t before = 0;
      for (std::int64_t other = 0; other < a.groups; ++other)
        if (scores[other] > scores[g] || (scores[other] == scores[g] && other < g)) ++before;
      open[e] = before < a.chosen_groups;
    });
    w.t.sync_warp();
  }
};

struct RouterBackwardKernel {
  using Args = RouterArgs;
  static constexpr const char* kName = "router backward";
  static constexpr int kThreads = 256;

  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const RouterWarp w(t, a);
    if (w.token >= a.tokens) return;
    double* dscores = w.scores + a.experts;
    const std::int32_t* ids = a.ids + w.token * a.k;
    const float* dweights = a.dweights + w.token * a.k;
    const double seed = a.seed ? *a.seed : 0;
    w.make_scores();
    w.each_expert([&](std::int64_t e) { dscores[e] = 0; });
    t.sync_warp();
    // w_j = scale s_j / S: dw_j/ds_i = scale (delta_ij - s_j / S) / S.
    double sum = 1, dot = 0;
    if (a.normalize) {
      sum = w.sum_of_chosen();
      for (std::int64_t j = 0; j < a.k; ++j) dot += static_cast<double>(dweights[j]) * w.scores[ids[j]];
    }
    for (std::int64_t j = t.lane(); j < a.k; j += 32)
      dscores[ids[j]] = a.scale * (static_cast<double>(dweights[j]) - dot / sum) / sum;
    t.sync_warp();
    if (a.balance != 0) add_balance(w, seed * a.balance, dscores);
    float* dlogits = a.dlogits + w.token * a.experts;
    double through = 0;  // what lowers all scores of a softmax
    if (!a.sigmoid) {
      w.each_expert([&](std::int64_t e) { through += dscores[e] * w.scores[e]; });
      through = warp_reduce<Add>(t, through);
    }
    double lse = 0;
    if (a.z != 0) {
      const RouterWarp::Exponentials all = w.exponentials();
      lse = all.most + log(all.sum);
    }
    w.each_expert([&](std::int64_t e) {
      const double s = w.scores[e];
      double dx = a.sigmoid ? dscores[e] * s * (1 - s) : s * (dscores[e] - through);
      if (a.z != 0) dx += 2 * seed * a.z * lse * exp(w.logit(e) - lse);
      dlogits[e] = static_cast<float>(dx);
    });
  }

  // Through p = scores, or normalised sigmoid scores. Each lane adds to its own experts.
  STOA_DEVICE static void add_balance(const RouterWarp& w, double factor, double* dscores) {
    const float* counts = w.a.counts + sequence_of(w.a.sequences, w.token) * w.a.experts;
    double sum = 1, mean = 0;
    if (w.a.sigmoid) {
      double part = 0, dot = 0;
      w.each_expert([&](std::int64_t e) {
        part += w.scores[e];
        dot += w.scores[e] * static_cast<double>(counts[e]);
      });
      sum = kTiny + warp_reduce<Add>(w.t, part);
      mean = warp_reduce<Add>(w.t, dot) / sum;
    }
    w.each_expert(
        [&](std::int64_t e) { dscores[e] += factor * (static_cast<double>(counts[e]) - mean) / sum; });
  }
};

// As many warps per block as 48 KiB of shared memory permit.
template <class Kernel>
void launch_warps(RouterArgs a, std::int64_t bytes, void* stream) {
  const std::int64_t fit = (48 << 10) / bytes, warps = fit < 1 ? 1 : fit > 8 ? 8 : fit;
  a.shared = bytes;
  launch<Kernel>({.x = ceil_div(a.tokens, warps),
                  .threads = static_cast<int>(32 * warps),
                  .shared = static_cast<std::size_t>(warps * bytes)},
                 stream, a);
}

// A block processes one sequence.
struct CountKernel {
  using Args = CountAssignmentsArgs;
  static constexpr const char* kName = "count assignments";
  static constexpr int kThreads = 512;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    auto* counts = t.shared<std::int32_t>();
    count_in_block(t, counts, a.experts, [&](const auto& count) {
      const SequenceArgs& s = a.sequences;
      for (std::int64_t run = t.block_x(); run * s.run < s.first + a.tokens; run += s.count) {
        std::int64_t begin = run * s.run - s.first, end = begin + s.run;
        if (begin < 0) begin = 0;
        if (end > a.tokens) end = a.tokens;
        for (std::int64_t i = begin * a.k + t.index(); i < end * a.k; i += t.count())
          if (a.ids[i] >= 0 && a.ids[i] < a.experts) count(a.ids[i]);
      }
    });
    for (std::int64_t e = t.index(); e < a.experts; e += t.count())
      a.counts[t.block_x() * a.experts + e] =
          static_cast<float>(a.offset + a.scale * static_cast<double>(counts[e]));
  }
};

struct PlaceKernel {
  using Args = PlaceChoicesArgs;
  static constexpr const char* kName = "place choices";
  static constexpr int kThreads = 256;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const std::int64_t i = t.block_x() * t.count() + t.index();
    if (i >= a.tokens * a.k) return;
    const SequenceArgs& s = a.places.sequences;
    const std::int64_t token = i / a.k, j = i - token * a.k, at = s.first + token, run = at / s.run;
    const std::int64_t row = run % s.count * a.places.length + a.places.begin[run / s.count] + at % s.run;
    a.choices[row * 2 * a.k + j] = static_cast<float>(a.ids[i]);
    a.choices[row * 2 * a.k + a.k + j] = a.weights[i];
  }
};

// Block (x, y) processes the experts e with e % kShare = y of sequence x. It finds the capacity-th largest
// weight digit by digit; among equal weights the first assignments are kept.
struct LimitKernel {
  using Args = LimitExpertsArgs;
  static constexpr const char* kName = "limit experts";
  static constexpr int kThreads = 512;
  static constexpr std::int64_t kShare = 64;
  static constexpr int kDigits = 256;
  struct Shared {
    std::int32_t counts[kDigits];
    std::int32_t slots[kThreads / 32];
    float most[kThreads / 32];
    std::uint32_t digit;
    std::int64_t left;  // how many of the equal ones stay
  };

  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    auto& shared = *t.shared<Shared>();
    const std::int64_t assignments = a.places.length * a.k;
    float most = -1;
    for (std::int64_t i = t.index(); i < assignments; i += t.count()) most = Max::of(most, id(t, a, i));
    most = block_reduce<Max>(t, most, shared.most);
    for (std::int64_t e = t.block_y(); static_cast<float>(e) <= most; e += kShare) {
      std::uint32_t least = 0;  // of those that stay
      std::int64_t left = a.capacity;
      if (a.by_weight) find_least(t, a, static_cast<float>(e), shared, least, left);
      keep(t, a, static_cast<float>(e), shared, least, left);
    }
  }

  STOA_DEVICE static const float* row(const Thread& t, const Args& a, std::int64_t i) {
    return a.choices + (t.block_x() * a.places.length + i / a.k) * 2 * a.k + i % a.k;
  }
  STOA_DEVICE static float id(const Thread& t, const Args& a, std::int64_t i) { return *row(t, a, i); }
  // Keys in the order of the weights; 0 for all if the policy ignores weights.
  STOA_DEVICE static std::uint32_t key(const Thread& t, const Args& a, std::int64_t i) {
    if (!a.by_weight) return 0;
    const float weight = row(t, a, i)[a.k];
    if (weight == 0) return 0x80000000u;
    const std::uint32_t bits = bits_of(weight);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  }

  STOA_DEVICE static void find_least(const Thread& t, const Args& a, float expert, Shared& shared,
                                     std::uint32_t& least, std::int64_t& left) {
    std::uint32_t known = 0;  // digits
    for (int shift = 24; shift >= 0; shift -= 8) {
      count_in_block(t, shared.counts, kDigits, [&](const auto& count) {
        for (std::int64_t i = t.index(); i < a.places.length * a.k; i += t.count()) {
          if (id(t, a, i) != expert) continue;
          const std::uint32_t k = key(t, a, i);
          if ((k & known) == least) count((k >> shift) & 255u);
        }
      });
      if (t.index() == 0) {
        int d = kDigits - 1;
        for (; d > 0 && shared.counts[d] < left; --d) left -= shared.counts[d];
        shared.digit = static_cast<std::uint32_t>(d);
        shared.left = left;
      }
      t.sync();
      least |= shared.digit << shift;
      left = shared.left;
      known |= 255u << shift;
    }
  }

  STOA_DEVICE static void keep(const Thread& t, const Args& a, float expert, Shared& shared,
                               std::uint32_t least, std::int64_t left) {
    const std::int64_t assignments = a.places.length * a.k;
    std::int64_t equals = 0;
    for (std::int64_t first = 0; first < assignments; first += t.count()) {
      const std::int64_t i = first + t.index();
      const bool mine = i < assignments && id(t, a, i) == expert;
      const std::uint32_t k = mine ? key(t, a, i) : 0;
      const Prefix<std::int32_t> equal =
          block_prefix(t, static_cast<std::int32_t>(mine && k == least), shared.slots);
      const bool stays = k > least || (k == least && equals + equal.before < left);
      equals += equal.all;
      if (mine) store(t, a, i, stays ? static_cast<std::int32_t>(expert) : -1);
    }
  }

  // Stores the choice for the token of this rank at the place of assignment i, if there is one.
  STOA_DEVICE static void store(const Thread& t, const Args& a, std::int64_t i, std::int32_t expert) {
    const SequenceArgs& s = a.places.sequences;
    const std::int64_t place = i / a.k, j = i - place * a.k;
    for (int part = 0; part < 2; ++part) {
      const std::int64_t at = place - a.places.begin[part];
      const std::int64_t token = (part * s.count + t.block_x()) * s.run + at - s.first;
      if (at >= 0 && at < s.run && token >= 0 && token < a.tokens) a.kept[token * a.k + j] = expert;
    }
  }
};

struct BiasKernel {
  using Args = ExpertBiasArgs;
  static constexpr const char* kName = "expert bias update";
  static constexpr int kThreads = 256;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const std::int64_t e = t.block_x() * t.count() + t.index();
    if (e >= a.count || slot(a.state, StepSlot::kFoundInf) != 0) return;
    const double step = a.excess[e] > 0 ? a.rate : a.excess[e] < 0 ? -a.rate : 0.0;
    a.bias[e] = static_cast<float>(static_cast<double>(a.bias[e]) - step);
  }
};

}  // namespace

void launch_router_forward(const RouterArgs& a, void* stream) {
  // Room for scores, group scores, and whether an expert may (still) be chosen.
  launch_warps<RouterForwardKernel>(a, (a.experts + a.groups) * 8 + (a.experts + 1) / 2 * 8, stream);
}

void launch_router_backward(const RouterArgs& a, void* stream) {
  launch_warps<RouterBackwardKernel>(a, a.experts * 16, stream);  // scores and their gradients
}

void launch_count_assignments(const CountAssignmentsArgs& a, void* stream) {
  launch<CountKernel>({.x = a.sequences.count,
                       .threads = CountKernel::kThreads,
                       .shared = static_cast<std::size_t>(a.experts) * sizeof(std::int32_t)},
                      stream, a);
}

void launch_place_choices(const PlaceChoicesArgs& a, void* stream) {
  launch<PlaceKernel>({.x = ceil_div(a.tokens * a.k, 256), .threads = 256}, stream, a);
}

void launch_limit_experts(const LimitExpertsArgs& a, void* stream) {
  launch<LimitKernel>({.x = a.places.sequences.count,
                       .y = LimitKernel::kShare,
                       .threads = LimitKernel::kThreads,
                       .shared = sizeof(LimitKernel::Shared)},
                      stream, a);
}

void launch_expert_bias_update(const ExpertBiasArgs& a, void* stream) {
  launch<BiasKernel>({.x = ceil_div(a.count, 256), .threads = 256}, stream, a);
}

}  // namespace stoa::ops::cuda

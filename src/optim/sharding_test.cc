// Data-parallel ranks share a step in every way that is offered, and get the same bits.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <mutex>

#include "comm/threads/thread_world.h"
#include "device/host/host_device.h"
#include "device/meta/meta_device.h"
#include "device/scratch.h"
#include "ops/cpu/cpu_backend.h"
#include "ops/meta/meta_backend.h"
#include "ops/step_state.h"
#include "optim/optimizer.h"
#include "parallel/meta_contexts.h"
#include "parallel/thread_contexts.h"

namespace stoa::optim {
namespace {

constexpr auto kSlots = static_cast<std::int64_t>(ops::StepSlot::kCount);

struct Setting {
  int ranks = 2;
  int stage = 0;
  std::int64_t bucket_bytes = 160 << 20;
  bool overlap = false, each = false, tied = false;
  std::optional<DType> travel;
  DType compute = DType::kF32;
  int microbatches = 1;
  OptimizerKind kind = OptimizerKind::kAdamW;
  bool masked = false;  // no rank has a valid token
  int poisoned = -1;    // rank whose gradient has an infinity
};

// A chunk with an embedding, three blocks and a head; sizes that no number of ranks divides.
nn::ParamList make_params(bool tied) {
  nn::ParamList params;
  const auto add = [&](const std::string& name, Shape shape) {
    nn::ParamSpec spec;
    spec.name = name;
    spec.shard = ShardSpec::whole(name, shape);
    spec.decay = shape.rank() == 2;
    return params.add(spec);
  };
  params.begin_unit(false);
  const nn::Param embedding = add("embedding", {211, 37});
  for (int i = 0; i < 3; ++i) {
    params.begin_unit(true);
    add("layers." + std::to_string(i) + ".norm", {37});
    nn::ParamSpec fused;  // two canonical tensors in one, and a row of padding
    fused.name = "layers." + std::to_string(i) + ".fused";
    fused.shard.local = {404, 201};
    fused.shard.pieces = {{fused.name + ".a", {73, 201}, 0, 73, 0, 0, 201},
                          {fused.name + ".b", {330, 201}, 0, 330, 73, 0, 201}};
    params.add(fused);
    add("layers." + std::to_string(i) + ".out", {500, 300});  // 3 blocks of the norm
  }
  params.begin_unit(false);
  add("final", {37});
  if (tied)
    params.tie(embedding.value);
  else
    add("head", {211, 37});
  return params;
}

double value_of(std::int64_t a, std::int64_t b, std::int64_t c) {
  const auto x = static_cast<std::uint64_t>(a * 7919 + b * 104729 + c * 1299709 + 12345);
  return static_cast<double>((x * 2654435761ull >> 7) % 20001) / 10000.0 - 1.0;
}

template <class Body>
void for_each(TensorView view, const Body& body) {
  for (std::int64_t i = 0; i < view.elements(); ++i)
    if (view.dtype == DType::kF64)
      body(i, view.as<double>()[i]);
    else
      body(i, view.as<float>()[i]);
}

struct Result {
  std::map<std::string, std::vector<double>> masters, values, gradients;  // of all ranks, put together
  std::vector<double> state;
  MemoryTable declared{}, touched{};
};

class Rank {
 public:
  Rank(const Setting& s, const parallel::ParallelContext& context, Device& device, ops::Backend& backend)
      : setting_(s),
        params_(make_params(s.tied)),
        device_(device),
        stream_(device.create_stream()),
        arena_(device),
        precision_{s.compute, s.compute},
        scratch_memory_(device.allocate(1 << 20)),
        scratch_(TensorView(scratch_memory_.data(), DType::kU8, {1 << 20}, device.kind())),
        ops_{backend, *stream_, scratch_} {
    DataParallel parallel{context, *stream_, s.stage, s.bucket_bytes, s.overlap, s.each, s.travel};
    parameters_ = std::make_unique<ParameterStore>(arena_, params_, precision_, parallel);
    gradients_ = std::make_unique<GradientStore>(arena_, params_, precision_, *parameters_);
    OptimConfig config;
    config.name = s.kind;
    optimizer_ = std::make_unique<Optimizer>(arena_, *parameters_, *gradients_, config, precision_);
    state_ = arena_.declare(MemoryCategory::kScalars, {"state", DType::kF64, {kSlots}});
    arena_.commit();
  }

  void initialize() {
    for (std::size_t p = 0; p < params_.specs().size(); ++p) {
      const nn::ParamId id{static_cast<int>(p)};
      const FlatRange held = parameters_->held_range(id);
      for_each(parameters_->master(id), [&](std::int64_t i, auto& x) {
        x = static_cast<std::remove_reference_t<decltype(x)>>(
            value_of(static_cast<std::int64_t>(p), 999, held.begin + i) * 0.1);
      });
    }
    optimizer_->refresh_values(ops_);
    optimizer_->reset(ops_);
    const TensorView state = arena_.view(state_);
    std::fill_n(state.as<double>(), kSlots, 0.0);
    slot(ops::StepSlot::kLossScale) = 1;
  }

  void step(int step) {
    const int rank = parameters_->data_parallel()->shard(parallel::Group::kDataContext);
    const TensorView state = arena_.view(state_);
    ops::run(ops_, ops::BeginStep{state, setting_.masked ? 0.0 : 64.0});
    if (arena_.device().kind() == DeviceKind::kHost) slot(ops::StepSlot::kLossSum) = 1.5 + rank;
    gradients_->begin_step(ops_, setting_.microbatches);
    for (int m = 0; m < setting_.microbatches; ++m) {
      for (std::size_t p = 0; p < params_.specs().size(); ++p) parameters_->get({static_cast<int>(p)});
      for (std::size_t p = params_.specs().size(); p-- > 0;) parameters_->get({static_cast<int>(p)});
      for (std::size_t g = params_.grads().size(); g-- > 0;) {
        const nn::GradId id{static_cast<int>(g)};
        const nn::GradTarget target = gradients_->target(id);
        if (target.tensor.device == DeviceKind::kHost)
          for_each(target.tensor, [&](std::int64_t i, auto& x) {
            using T = std::remove_reference_t<decltype(x)>;
            const T y =
                setting_.masked
                    ? T(0)
                    : static_cast<T>(value_of(rank * 17 + m * 3 + step, static_cast<std::int64_t>(g), i));
            x = target.accumulate ? x + y : y;
            if (rank == setting_.poisoned && i == 5) x = std::numeric_limits<T>::infinity();
          });
        gradients_->notify(id);
      }
    }
    gradients_->finish(ops_);
    ops::PrepareUpdate update;
    update.state = state;
    update.max_norm = 1;
    update.rate.peak = 0.01;
    update.weight_decay.start = update.weight_decay.end = 0.1;
    update.samples = 8;
    optimizer_->step(ops_, update);
  }

  // Each rank adds what it holds; all ranks see all values.
  void collect(Result& result) {
    for (std::size_t p = 0; p < params_.specs().size(); ++p) {
      const nn::ParamId id{static_cast<int>(p)};
      const auto& spec = params_.specs()[p];
      const FlatRange held = parameters_->held_range(id);
      const auto put = [&](auto& map, TensorView view) {
        auto& all = map[spec.name];
        all.resize(static_cast<std::size_t>(spec.shard.local.elements()));
        for_each(view, [&](std::int64_t i, auto x) {
          all[static_cast<std::size_t>(held.begin + i)] = static_cast<double>(x);
        });
      };
      if (held.begin == held.end) continue;
      put(result.masters, parameters_->master(id));
      put(result.gradients, gradients_->gradient(id));
    }
  }
  void collect_values(Result& result) {
    for (std::size_t p = 0; p < params_.specs().size(); ++p) {
      const TensorView value = parameters_->get({static_cast<int>(p)});
      std::vector<double> all;
      dispatch_float(value.dtype, [&]<class T>() {
        for (std::int64_t i = 0; i < value.elements(); ++i) {
          if constexpr (std::is_same_v<T, double>)
            all.push_back(value.as<T>()[i]);
          else
            all.push_back(static_cast<double>(static_cast<float>(value.as<T>()[i])));
        }
      });
      result.values[params_.specs()[p].name] = std::move(all);
    }
    result.state.assign(arena_.view(state_).as<double>(), arena_.view(state_).as<double>() + kSlots);
    result.declared = arena_.declared();
    result.touched = arena_.touched();
  }

  Arena& arena() { return arena_; }
  GradientStore& gradients() { return *gradients_; }
  const nn::ParamList& params() const { return params_; }
  double& slot(ops::StepSlot which) { return arena_.view(state_).as<double>()[static_cast<int>(which)]; }

 private:
  const Setting setting_;
  const nn::ParamList params_;
  Device& device_;
  std::unique_ptr<Stream> stream_;
  Arena arena_;
  nn::Precision precision_;
  Buffer scratch_memory_;
  Scratch scratch_;
  ops::OpContext ops_;
  std::unique_ptr<ParameterStore> parameters_;
  std::unique_ptr<GradientStore> gradients_;
  std::unique_ptr<Optimizer> optimizer_;
  Arena::Id state_;
};

Result run(const Setting& setting, int steps = 2) {
  Result result;
  std::vector<Result> per_rank(static_cast<std::size_t>(setting.ranks));
  comm::ThreadWorld world(setting.ranks);
  const grid::RankGrid grid({1, 1, 1, setting.ranks, 1});
  const auto contexts = parallel::make_contexts(world, grid);
  std::mutex mutex;
  world.run([&](int r) {
    HostDevice device;
    WorkerPool pool(1);
    ops::cpu::CpuBackend backend(pool);
    Rank rank(setting, contexts[static_cast<std::size_t>(r)], device, backend);
    rank.initialize();
    for (int s = 0; s < steps; ++s) rank.step(s);
    Result& own = per_rank[static_cast<std::size_t>(r)];
    rank.collect_values(own);
    const std::lock_guard lock(mutex);
    rank.collect(result);
    if (steps > 0) {
      EXPECT_EQ(rank.arena().declared(), rank.arena().touched()) << "rank " << r;
    }
  });
  for (const Result& own : per_rank) {
    EXPECT_EQ(own.values, per_rank.front().values);
    EXPECT_EQ(own.state, per_rank.front().state);
  }
  result.values = per_rank.front().values;
  result.state = per_rank.front().state;
  result.declared = per_rank.front().declared;
  return result;
}

void expect_same(const Result& a, const Result& b) {
  EXPECT_EQ(a.state, b.state);
  ASSERT_EQ(a.masters.size(), b.masters.size());
  for (const auto& [name, values] : a.masters) EXPECT_TRUE(values == b.masters.at(name)) << "master " << name;
  for (const auto& [name, values] : a.gradients)
    EXPECT_TRUE(values == b.gradients.at(name)) << "gradient " << name;
  for (const auto& [name, values] : a.values) EXPECT_TRUE(values == b.values.at(name)) << "value " << name;
}

TEST(Sharding, StagesBucketsAndOverlapDoNotChangeABit) {
  for (const bool second : {false, true}) {
    Setting plain;
    plain.ranks = second ? 3 : 2;
    plain.tied = second;
    plain.compute = second ? DType::kBF16 : DType::kF64;
    plain.microbatches = second ? 2 : 1;
    const Result expected = run(plain);
    for (int stage = 0; stage <= 3; ++stage)
      for (const std::int64_t bytes : {std::int64_t{1}, std::int64_t{700000}})
        for (const bool overlap : {false, true}) {
          SCOPED_TRACE(fmt::format("{} ranks, stage {}, buckets of {}, overlap {}", plain.ranks, stage, bytes,
                                   overlap));
          Setting s = plain;
          s.stage = stage;
          s.bucket_bytes = bytes;
          s.overlap = overlap;
          s.each = s.microbatches == 1;
          expect_same(run(s), expected);
          if (HasFailure()) return;
        }
  }
}

TEST(Sharding, EveryOptimizer) {
  for (const OptimizerKind kind : {OptimizerKind::kAdam, OptimizerKind::kSgd}) {
    Setting s;
    s.kind = kind;
    const Result expected = run(s);
    s.stage = 3;
    s.bucket_bytes = 100000;
    s.overlap = true;
    expect_same(run(s), expected);
  }
}

// Reduced after every microbatch: the order of the sum differs, stages 2 and 3 agree with each other.
TEST(Sharding, GradientsReducedAfterEachMicrobatch) {
  Setting s;
  s.compute = DType::kF64;
  s.microbatches = 3;
  s.tied = true;
  const Result once = run(s, 1);
  s.stage = 2;
  s.each = true;
  const Result second = run(s, 1);
  s.stage = 3;
  s.overlap = true;
  expect_same(run(s, 1), second);
  for (const auto& [name, values] : once.gradients)
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(values[i], second.gradients.at(name)[i], 1e-14) << name << " " << i;
}

TEST(Sharding, GradientsMayTravelInBf16) {
  Setting s;
  s.ranks = 3;
  const Result exact = run(s, 1);
  s.travel = DType::kBF16;
  const Result rounded = run(s, 1);
  for (const auto& [name, values] : exact.gradients)
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(values[i], rounded.gradients.at(name)[i], 3.0 * 0x1p-8) << name << " " << i;
  EXPECT_NE(exact.state, rounded.state);
  for (const int stage : {1, 3}) {
    s.stage = stage;
    s.overlap = true;
    s.bucket_bytes = 300000;
    expect_same(run(s, 1), rounded);
  }
}

// The norm of a gradient does not depend on how many ranks hold it, nor on how.
TEST(Sharding, NormIsThatOfOneRank) {
  Setting one;
  one.ranks = 1;
  const Result alone = run(one, 1);
  double squares = 0;
  for (const auto& [name, values] : alone.gradients) {
    const bool fused = name.find("fused") != std::string::npos;  // its last row is padding, not counted
    for (std::size_t i = 0; i < values.size() - (fused ? 201 : 0); ++i) squares += values[i] * values[i];
  }
  const double norm = alone.state[static_cast<std::size_t>(ops::StepSlot::kGradNorm)];
  EXPECT_NEAR(norm, std::sqrt(squares), 1e-12 * norm);
}

TEST(Sharding, AllRanksAgreeOnInfinityAndOnEmptySteps) {
  for (const int stage : {0, 1, 2, 3}) {
    SCOPED_TRACE(stage);
    Setting s;
    s.stage = stage;
    s.each = true;
    const Result before = run(s, 0);
    s.poisoned = 1;
    const Result infinite = run(s, 1);
    EXPECT_EQ(infinite.state[static_cast<std::size_t>(ops::StepSlot::kSkipped)], 1);
    EXPECT_TRUE(infinite.values == before.values);
    s.poisoned = -1;
    s.masked = true;
    const Result masked = run(s, 1);
    EXPECT_EQ(masked.state[static_cast<std::size_t>(ops::StepSlot::kSkipped)], 1);
    EXPECT_TRUE(masked.values == before.values);
  }
}

TEST(Sharding, LossesOfAllRanksAreAdded) {
  Setting s;
  s.ranks = 3;
  EXPECT_EQ(run(s, 1).state[static_cast<std::size_t>(ops::StepSlot::kLossSum)], 1.5 + 2.5 + 3.5);
}

}  // namespace
}  // namespace stoa::optim

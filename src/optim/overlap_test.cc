// When communication is posted and when it is waited for.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "comm/meta/meta_communicator.h"
#include "device/meta/meta_device.h"
#include "ops/cpu/cpu_backend.h"
#include "ops/meta/meta_backend.h"
#include "ops/step_state.h"
#include "optim/optimizer.h"
#include "parallel/meta_contexts.h"

namespace stoa::optim {
namespace {

using Log = std::vector<std::string>;

class LoggedEvent final : public Event {
 public:
  LoggedEvent(Log& log, std::string name) : log_(log), name_(std::move(name)) {}
  bool ready() const override { return false; }
  void wait() override { log_.push_back("wait " + name_); }

 private:
  Log& log_;
  const std::string name_;
};

// A group of two that moves nothing and writes down what is asked of it, with a number for each kind.
class LoggedCommunicator final : public comm::Communicator {
 public:
  explicit LoggedCommunicator(Log& log) : Communicator("logged"), log_(log) {}
  int size() const override { return 2; }
  int rank() const override { return 0; }
  std::unique_ptr<Event> all_reduce(TensorView, comm::ReduceOp, Stream&) override { return post("reduce"); }
  std::unique_ptr<Event> all_gather(TensorView, TensorView, Stream&) override { return post("gather"); }
  std::unique_ptr<Event> reduce_scatter(TensorView, TensorView, Stream&) override { return post("reduce"); }
  std::unique_ptr<Event> all_to_all(TensorView, TensorView, Stream&) override { return post("other"); }
  std::unique_ptr<Event> all_to_all_v(TensorView, std::span<const std::int64_t>, TensorView,
                                      std::span<const std::int64_t>, Stream&) override {
    return post("other");
  }
  std::unique_ptr<Event> broadcast(TensorView, int, Stream&) override { return post("other"); }
  std::unique_ptr<Event> send(TensorView, int, Stream&) override { return post("send"); }
  std::unique_ptr<Event> receive(TensorView, int, Stream&) override { return post("receive"); }
  void barrier() override {}

 private:
  std::unique_ptr<Event> post(const std::string& kind) {
    const std::string name = kind + " " + std::to_string(counts_[kind]++);
    log_.push_back(name);
    return std::make_unique<LoggedEvent>(log_, name);
  }
  Log& log_;
  std::map<std::string, int> counts_;
};

// Two steps of three blocks with one matrix each, in a bucket each; the log of the first data-parallel rank.
Log log_of(int stage, bool overlap, Shape matrix = {64, 64}) {
  Log log;
  MetaDevice device;
  WorkerPool pool(1);
  ops::cpu::CpuBackend kernels(pool);
  ops::MetaBackend backend(kernels);
  const auto stream = device.create_stream();
  const grid::RankGrid grid({1, 1, 1, 2, 1});
  parallel::ParallelContext::Communicators communicators;
  for (int g = 0; g < parallel::kGroups; ++g) {
    const auto group = static_cast<parallel::Group>(g);
    const int size = static_cast<int>(parallel::members(grid, 0, group).size());
    if (group == parallel::Group::kDataContext)
      communicators[static_cast<std::size_t>(g)] = std::make_unique<LoggedCommunicator>(log);
    else
      communicators[static_cast<std::size_t>(g)] = std::make_unique<comm::MetaCommunicator>("", size, 0);
  }
  const parallel::ParallelContext context(grid, 0, std::move(communicators));
  nn::ParamList params;
  for (int i = 0; i < 3; ++i) {
    params.begin_unit(true);
    nn::ParamSpec spec;
    spec.name = "block " + std::to_string(i);
    spec.shard = ShardSpec::whole(spec.name, matrix);
    params.add(spec);
  }
  Arena arena(device);
  const nn::Precision precision{DType::kBF16, DType::kBF16};
  ParameterStore parameters(arena, params, precision, {context, *stream, stage, 1, overlap, true});
  GradientStore gradients(arena, params, precision, parameters);
  Optimizer optimizer(arena, parameters, gradients, {}, precision);
  const auto state = arena.declare(
      MemoryCategory::kScalars, {"state", DType::kF64, {static_cast<std::int64_t>(ops::StepSlot::kCount)}});
  arena.commit();
  Scratch scratch;
  ops::OpContext ops{backend, *stream, scratch};
  ops::PrepareUpdate update;
  update.state = arena.view(state);
  for (int step = 0; step < 2; ++step) {
    log.push_back("step");
    gradients.begin_step(ops, 1);
    for (int i = 0; i < 3; ++i) {
      parameters.get({i});
      log.push_back("forward " + std::to_string(i));
    }
    for (int i = 3; i-- > 0;) {
      parameters.get({i});
      gradients.target({i});
      log.push_back("backward " + std::to_string(i));
      gradients.notify({i});
    }
    log.push_back("finish");
    gradients.finish(ops);
    optimizer.step(ops, update);
  }
  return log;
}

// Position of an entry in the second step; what is not there fails.
std::ptrdiff_t at(const Log& log, const std::string& entry) {
  const auto second = std::find(std::find(log.begin(), log.end(), "step") + 1, log.end(), "step");
  const auto it = std::find(second, log.end(), entry);
  EXPECT_NE(it, log.end()) << entry;
  return it - log.begin();
}

TEST(Overlap, GradientsTravelWhileBackwardGoesOn) {
  for (const int stage : {0, 1, 2}) {
    SCOPED_TRACE(stage);
    const Log log = log_of(stage, true);  // the second step's buckets are numbers 3, 4, 5
    EXPECT_LT(at(log, "backward 2"), at(log, "reduce 3"));
    EXPECT_LT(at(log, "reduce 3"), at(log, "backward 1"));
    EXPECT_LT(at(log, "backward 1"), at(log, "wait reduce 3"));
    EXPECT_LT(at(log, "reduce 4"), at(log, "backward 0"));
    EXPECT_LT(at(log, "backward 0"), at(log, "wait reduce 4"));
    EXPECT_LT(at(log, "finish"), at(log, "wait reduce 5"));
  }
  for (const int stage : {0, 1}) {
    const Log log = log_of(stage, false);
    EXPECT_LT(at(log, "finish"), at(log, "reduce 3")) << "without overlap, stage " << stage;
  }
}

TEST(Overlap, UpdatedWeightsTravelWhileForwardGoesOn) {
  const Log log = log_of(1, true);  // gathered at the end of the first step, the last block first
  for (const int bucket : {0, 1, 2}) {
    const std::string gather = "wait gather " + std::to_string(bucket);
    EXPECT_LT(at(log, gather), at(log, "forward " + std::to_string(2 - bucket)));
    if (bucket < 2) {
      EXPECT_LT(at(log, "forward " + std::to_string(1 - bucket)), at(log, gather));
    }
  }
}

TEST(Overlap, ShardedWeightsAreFetchedABlockAhead) {
  // Blocks 0, 1, 2 in forward; in backward 2 and 1 are still there. So gathers 4 to 7 are of the second step.
  const Log log = log_of(3, true);
  EXPECT_LT(at(log, "gather 5"), at(log, "wait gather 4"));
  EXPECT_LT(at(log, "gather 6"), at(log, "forward 1"));
  EXPECT_LT(at(log, "forward 1"), at(log, "wait gather 6"));
  EXPECT_LT(at(log, "gather 7"), at(log, "backward 1"));
  EXPECT_LT(at(log, "backward 1"), at(log, "wait gather 7"));
  EXPECT_EQ(std::find(log.begin(), log.end(), "gather 8"), log.end());
}

TEST(GlobalNorm, ShardsExchangeWhereTheyCutABlock) {
  const auto exchanges = [](Shape matrix) {
    const Log log = log_of(1, false, matrix);
    return std::count_if(log.begin(), log.end(),
                         [](const std::string& entry) { return entry.starts_with("other"); });
  };
  EXPECT_EQ(exchanges({64, 64}), 2 * 3) << "a block of 65,536 elements, halved";
  EXPECT_EQ(exchanges({512, 256}), 0) << "two blocks, one for each";
  EXPECT_EQ(exchanges({512, 512}), 0);
  EXPECT_EQ(exchanges({768, 256}), 2 * 3) << "three blocks, of which the second is halved";
}

}  // namespace
}  // namespace stoa::optim

#include "run/training_rank.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <thread>

#include "data/whole_rows.h"
#include "device/host/host_device.h"
#include "ops/cpu/cpu_backend.h"

namespace stoa::run {
namespace {

infer::Machine host_machine(int threads) {
  infer::Machine machine;
  machine.pool = std::make_unique<WorkerPool>(threads);
  machine.device = std::make_unique<HostDevice>();
  machine.backend = std::make_unique<ops::cpu::CpuBackend>(*machine.pool);
  machine.stream = machine.device->create_stream();
  return machine;
}

TrainingOptions micro_options(std::int64_t seed, DType type) {
  model::ModelConfig config;
  config.num_layers = 2;
  config.hidden_size = 32;
  config.num_attention_heads = 2;
  config.encoder_seq_length = 16;
  config.vocab_size = 61;
  config.seed = seed;
  config.hidden_dropout = 0.1;
  TrainingOptions options;
  options.model = model::resolve_model(config);
  options.precision = {type, type};
  options.micro_batch = 2;
  options.length = 16;
  options.max_norm = 1;
  options.rate.peak = options.rate.minimum = 1e-3;
  options.rate.decay_samples = 1000;
  return options;
}

data::Batch batch_of(std::int64_t rows, std::int64_t length, std::int64_t first) {
  data::Batch batch = data::whole_rows(rows, length, [&](std::int64_t i) {
    const std::int64_t token = (first * 7 + i * 13 + i / 5) % 61;
    return std::pair(static_cast<std::int32_t>(token), static_cast<std::int32_t>((token * 3 + 1) % 61));
  });
  for (std::size_t i = 0; i < batch.loss_mask.size(); i += 7) {
    batch.loss_mask[i] = 0;
    --batch.valid_tokens;
  }
  return batch;
}

// Losses of a few steps of four rows each, and the weights after them.
std::vector<double> losses_of(std::int64_t seed, DType type, int threads,
                              std::vector<float>* weights = nullptr) {
  infer::Machine machine = host_machine(threads);
  infer::Machine meta = infer::make_meta_machine(machine);
  const TrainingOptions options = micro_options(seed, type);
  TrainingRank rank(machine, options, parallel::ParallelContext::single(*machine.device),
                    TrainingRank::measure_scratch(meta, options));
  rank.initialize();
  std::vector<double> losses;
  for (std::int64_t step = 0; step < 6; ++step) {
    const data::Batch batch = batch_of(4, 16, 0);
    rank.step(batch, step * 4);
    const StepScalars scalars = rank.read_scalars();
    losses.push_back(scalars[ops::StepSlot::kLossSum] / scalars[ops::StepSlot::kTokens]);
  }
  const TensorView embedding = rank.parameters().master({0});
  if (weights) weights->assign(embedding.as<float>(), embedding.as<float>() + embedding.elements());
  return losses;
}

TEST(TrainingRank, LossFallsInEveryPrecision) {
  for (const DType type : {DType::kF32, DType::kBF16}) {
    const auto losses = losses_of(1, type, 1);
    EXPECT_NEAR(losses.front(), std::log(61.0), 0.3);
    EXPECT_LT(losses.back(), losses.front());
  }
}

TEST(TrainingRank, ThreadsDoNotChangeABit) {
  std::vector<float> one, three;
  EXPECT_EQ(losses_of(1, DType::kBF16, 1, &one), losses_of(1, DType::kBF16, 3, &three));
  ASSERT_EQ(one.size(), three.size());
  EXPECT_EQ(std::memcmp(one.data(), three.data(), one.size() * sizeof(float)), 0);
}

TEST(TrainingRank, TwoRanksInOneProcessDoNotMeet) {
  const auto first = losses_of(1, DType::kF32, 1), second = losses_of(2, DType::kF32, 2);
  EXPECT_NE(first, second);
  std::vector<double> beside_first, beside_second;
  std::thread a([&] { beside_first = losses_of(1, DType::kF32, 1); });
  std::thread b([&] { beside_second = losses_of(2, DType::kF32, 2); });
  a.join();
  b.join();
  EXPECT_EQ(beside_first, first);
  EXPECT_EQ(beside_second, second);
}

TEST(TrainingRank, PlanEqualsArenaEqualsWhatIsTouched) {
  infer::Machine machine = host_machine(2);
  infer::Machine meta = infer::make_meta_machine(machine);
  const TrainingOptions options = micro_options(1, DType::kBF16);
  const std::size_t scratch = TrainingRank::measure_scratch(meta, options);
  TrainingRank plan(meta, options, parallel::ParallelContext::single(*meta.device), scratch);
  TrainingRank rank(machine, options, parallel::ParallelContext::single(*machine.device), scratch);
  rank.initialize();
  const data::Batch batch = batch_of(4, 16, 0);
  rank.step(batch, 0);
  rank.evaluate(batch);
  EXPECT_EQ(plan.arena().declared(), rank.arena().declared());
  EXPECT_EQ(rank.arena().declared(), rank.arena().touched());
  EXPECT_EQ(rank.scratch().high_water(), scratch) << "the dry run is the run";
}

TEST(TrainingRank, AStepWithoutValidTokensChangesNothing) {
  infer::Machine machine = host_machine(1);
  infer::Machine meta = infer::make_meta_machine(machine);
  const TrainingOptions options = micro_options(1, DType::kF32);
  TrainingRank rank(machine, options, parallel::ParallelContext::single(*machine.device),
                    TrainingRank::measure_scratch(meta, options));
  rank.initialize();
  const TensorView weights = rank.parameters().master({0});
  const std::vector<float> before(weights.as<float>(), weights.as<float>() + weights.elements());
  data::Batch batch = batch_of(4, 16, 0);
  std::fill(batch.loss_mask.begin(), batch.loss_mask.end(), 0.0f);
  batch.valid_tokens = 0;
  rank.step(batch, 0);
  EXPECT_EQ(std::memcmp(before.data(), weights.data, before.size() * sizeof(float)), 0);
  EXPECT_EQ(rank.read_scalars()[ops::StepSlot::kSkipped], 1);
}

}  // namespace
}  // namespace stoa::run

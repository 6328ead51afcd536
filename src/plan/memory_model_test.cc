#include "plan/memory_model.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "device/host/host_device.h"
#include "device/meta/meta_device.h"
#include "ops/cpu/cpu_backend.h"
#include "ops/meta/meta_backend.h"
#include "parallel/meta_contexts.h"

namespace stoa::plan {
namespace {

using grid::RankGrid;

struct Counting {
  WorkerPool pool{1};
  ops::cpu::CpuBackend cpu{pool};
  infer::Machine machine;
  Counting() {
    machine.device = std::make_unique<MetaDevice>();
    machine.backend = std::make_unique<ops::MetaBackend>(cpu);
    machine.stream = machine.device->create_stream();
  }
};

run::TrainingOptions small_options() {
  run::TrainingOptions o;
  model::ModelConfig config;
  config.num_layers = 12;
  config.hidden_size = 64;
  config.num_attention_heads = 4;
  config.encoder_seq_length = 32;
  config.vocab_size = 256;
  o.model = model::resolve_model(config);
  o.precision = {DType::kBF16, DType::kBF16};
  o.length = 32;
  return o;
}

// The same by wiring the rank as training does.
MemoryTable wired_bytes(infer::Machine& meta, const run::TrainingOptions& options, int rank) {
  const std::size_t scratch = run::TrainingRank::measure_scratch(meta, options, rank);
  run::TrainingRank wired(meta, options, parallel::make_meta_context(options.layout.grid, rank, *meta.device),
                          scratch);
  return wired.arena().declared();
}

void expect_equal(MemoryModel& model, infer::Machine& meta, const MemoryPoint& point) {
  const run::TrainingOptions options = model.options(point);
  std::size_t most = 0;
  for (int rank = 0; rank < point.layout.grid.size(); ++rank) {
    const MemoryTable wired = wired_bytes(meta, options, rank);
    most = std::max(most, device_bytes(wired));
    const RankBytes quick = model.rank(point, rank);
    EXPECT_EQ(quick.total, device_bytes(wired)) << "rank " << rank << " schedule " << point.layout.schedule;
    EXPECT_EQ(host_bytes(quick.categories), host_bytes(wired)) << "rank " << rank;
  }
  EXPECT_EQ(model.worst(point).total, most);
}

MemoryPoint point_of(std::array<int, 5> degrees, const char* schedule, int chunks,
                     std::int64_t microbatches) {
  MemoryPoint point;
  point.layout.grid = RankGrid(degrees);
  point.layout.schedule = schedule;
  point.layout.chunks = chunks;
  point.microbatches = microbatches;
  return point;
}

TEST(MemoryModel, EqualsWiredRanks) {
  Counting counting;
  run::TrainingOptions base = small_options();
  for (const bool evaluation : {true, false}) {
    base.evaluation = evaluation;
    MemoryModel model(counting.machine, base);
    for (const int zero : {0, 1, 2, 3})
      for (MemoryPoint point :
           {point_of({1, 1, 1, 1, 1}, "1f1b", 0, 3), point_of({2, 1, 1, 2, 2}, "1f1b", 0, 9),
            point_of({1, 1, 1, 1, 3}, "1f1b", 0, 1), point_of({1, 1, 1, 2, 2}, "interleaved", 3, 8),
            point_of({1, 1, 1, 3, 2}, "zb-h1", 0, 11), point_of({2, 1, 1, 1, 2}, "zb-v", 2, 9),
            point_of({1, 1, 1, 2, 3}, "dualpipev", 2, 7), point_of({1, 1, 1, 1, 2}, "gpipe", 0, 5),
            point_of({4, 1, 1, 1, 4}, "interleaved", 3, 16)}) {
        point.layout.zero_stage = zero;
        point.layout.sequence_parallel = true;
        expect_equal(model, counting.machine, point);
      }
  }
}

TEST(MemoryModel, EqualsWiredRanksWithRecomputation) {
  Counting counting;
  MemoryModel model(counting.machine, small_options());
  using G = model::RecomputeGranularity;
  using M = model::RecomputeMethod;
  const model::RecomputeConfig kinds[] = {{G::kSelective, {}, {}},
                                          {G::kFull, M::kUniform, 1},
                                          {G::kFull, M::kUniform, 2},
                                          {G::kFull, M::kBlock, 1},
                                          {G::kFull, M::kBlock, 3}};
  for (const model::RecomputeConfig& recompute : kinds)
    for (MemoryPoint point :
         {point_of({1, 1, 1, 2, 1}, "1f1b", 0, 2), point_of({2, 1, 1, 1, 3}, "1f1b", 0, 7),
          point_of({1, 1, 1, 1, 2}, "interleaved", 2, 6), point_of({1, 1, 1, 1, 2}, "zb-v", 2, 6)}) {
      point.recompute = recompute;
      point.micro_batch = 2;
      expect_equal(model, counting.machine, point);
    }
}

TEST(MemoryModel, EqualsWiredRanksWithOffloading) {
  Counting counting;
  MemoryModel model(counting.machine, small_options());
  model::RecomputeConfig config;
  config.offload.cpu_offloading = true;
  for (const auto granularity : {model::RecomputeGranularity::kNone, model::RecomputeGranularity::kSelective})
    for (const std::optional<std::int64_t> layers : {std::optional<std::int64_t>(), {1}, {2}, {4}})
      for (MemoryPoint point :
           {point_of({1, 1, 1, 2, 1}, "1f1b", 0, 2), point_of({2, 1, 1, 1, 3}, "1f1b", 0, 7),
            point_of({1, 1, 1, 1, 2}, "interleaved", 2, 6), point_of({1, 1, 1, 1, 2}, "zb-v", 2, 6),
            point_of({1, 1, 1, 1, 2}, "zb-h1", 0, 6)}) {
        config.granularity = granularity;
        config.offload.cpu_offloading_num_layers = layers;
        point.recompute = config;
        expect_equal(model, counting.machine, point);
      }
}

TEST(MemoryModel, EqualsWiredRanksOfUnevenStages) {
  Counting counting;
  MemoryModel model(counting.machine, small_options());
  MemoryPoint point = point_of({1, 1, 1, 2, 4}, "1f1b", 0, 6);
  point.layout.layers = {2, 4, 4, 2};
  expect_equal(model, counting.machine, point);
  point.layout.layers = {0, 5, 7, 0};
  expect_equal(model, counting.machine, point);
}

TEST(MemoryModel, EqualsWiredRanksOfExperts) {
  Counting counting;
  run::TrainingOptions base = small_options();
  model::ModelConfig config = base.model.config;
  config.bias = model::BiasKind::kNone;
  config.moe.num_moe_experts = 4;
  config.moe.moe_layer_freq = 2;
  base.model = model::resolve_model(config);
  MemoryModel model(counting.machine, base);
  expect_equal(model, counting.machine, point_of({1, 1, 1, 2, 3}, "1f1b", 0, 4));
  expect_equal(model, counting.machine, point_of({1, 1, 1, 1, 2}, "interleaved", 3, 4));
}

// Layers of linear and of softmax attention keep other activations.
TEST(MemoryModel, EqualsWiredRanksOfLinearAttention) {
  Counting counting;
  run::TrainingOptions base = small_options();
  model::ModelConfig config = base.model.config;
  config.linear = {3, {}, 2, 4, 8, 8, 4};
  base.model = model::resolve_model(config);
  MemoryModel model(counting.machine, base);
  expect_equal(model, counting.machine, point_of({1, 1, 1, 2, 3}, "1f1b", 0, 4));
  expect_equal(model, counting.machine, point_of({2, 1, 1, 1, 2}, "interleaved", 3, 4));
}

// Stages with nothing to train keep nothing and receive no gradients.
TEST(MemoryModel, EqualsWiredRanksWithFrozenParameters) {
  Counting counting;
  using G = model::RecomputeGranularity;
  for (const std::vector<std::string>& freeze : {std::vector<std::string>{"embedding", "layers.0-6"},
                                                 {"*", "!layers.9.norm1"},
                                                 {"layers.0-3"},
                                                 {"*", "!head"}}) {
    run::TrainingOptions base = small_options();
    model::ModelConfig config = base.model.config;
    config.share_embeddings_and_output_weights = false;
    config.freeze = freeze;
    base.model = model::resolve_model(config);
    MemoryModel model(counting.machine, base);
    for (MemoryPoint point :
         {point_of({1, 1, 1, 2, 4}, "1f1b", 0, 6), point_of({2, 1, 1, 1, 2}, "interleaved", 3, 6),
          point_of({1, 1, 1, 1, 3}, "zb-v", 2, 6), point_of({1, 1, 1, 1, 3}, "zb-h1", 0, 6)}) {
      expect_equal(model, counting.machine, point);
      point.recompute = {G::kFull, model::RecomputeMethod::kUniform, 3};
      expect_equal(model, counting.machine, point);
      point.recompute = {};
      point.recompute.offload.cpu_offloading = true;
      expect_equal(model, counting.machine, point);
    }
  }
}

// A teacher's weights, and what it says of all tokens of a step, in stages that are not those of the model.
TEST(MemoryModel, EqualsWiredRanksWithATeacher) {
  Counting counting;
  for (const bool evaluation : {true, false}) {
    run::TrainingOptions base = small_options();
    base.evaluation = evaluation;
    model::ModelConfig teacher = base.model.config;
    teacher.num_layers = 14;
    teacher.hidden_size = 96;
    teacher.position_embedding_type = model::PositionEmbedding::kRope;
    teacher.share_embeddings_and_output_weights = false;
    base.teacher = run::TeacherOptions{model::resolve_model(teacher), {{}, 0.5}};
    MemoryModel model(counting.machine, base);
    for (const int zero : {0, 1, 3})
      for (MemoryPoint point :
           {point_of({1, 1, 1, 1, 1}, "1f1b", 0, 3), point_of({2, 1, 1, 2, 2}, "1f1b", 0, 9),
            point_of({1, 1, 1, 1, 3}, "1f1b", 0, 1), point_of({1, 2, 1, 2, 2}, "interleaved", 3, 8),
            point_of({2, 1, 1, 1, 2}, "zb-v", 2, 9), point_of({1, 1, 1, 1, 2}, "gpipe", 0, 5)}) {
        point.layout.zero_stage = zero;
        point.layout.sequence_parallel = point.layout.grid.degree(grid::Axis::kTensor) > 1;
        expect_equal(model, counting.machine, point);
      }
  }
}

// What was kept of a teacher is part of the microbatches of the head.
TEST(MemoryModel, EqualsWiredRanksWithKeptPredictions) {
  Counting counting;
  run::TrainingOptions base = small_options();
  base.kept = run::TrainingOptions::Kept{9, {{}, 0.5}};
  MemoryModel model(counting.machine, base);
  for (MemoryPoint point :
       {point_of({1, 1, 1, 1, 1}, "1f1b", 0, 3), point_of({2, 1, 1, 2, 2}, "1f1b", 0, 9),
        point_of({1, 2, 1, 2, 2}, "interleaved", 3, 8), point_of({2, 1, 1, 1, 2}, "zb-v", 2, 9)}) {
    point.layout.sequence_parallel = point.layout.grid.degree(grid::Axis::kTensor) > 1;
    expect_equal(model, counting.machine, point);
  }
}

// Layers in 8 bits have temporaries and histories of their own.
TEST(MemoryModel, EqualsWiredRanksOfEightBits) {
  Counting counting;
  run::TrainingOptions base = small_options();
  for (const auto recipe : {model::Fp8Recipe::kTensorwise, model::Fp8Recipe::kDelayed})
    for (const bool but_some : {false, true}) {
      model::ModelConfig config = small_options().model.config;
      config.fp8.fp8 = model::Fp8Format::kHybrid;
      config.fp8.fp8_recipe = recipe;
      config.fp8.first_last_layers_bf16 = but_some;
      config.fp8.num_layers_at_start_in_bf16 = 5;
      base.model = model::resolve_model(config);
      MemoryModel model(counting.machine, base);
      expect_equal(model, counting.machine, point_of({2, 1, 1, 1, 4}, "1f1b", 0, 5));
      expect_equal(model, counting.machine, point_of({1, 1, 1, 2, 2}, "interleaved", 3, 4));
    }
}

TEST(MemoryModel, EqualsWiredRanksThatShareExpertsAndContext) {
  Counting counting;
  run::TrainingOptions base = small_options();
  model::ModelConfig config = base.model.config;
  config.bias = model::BiasKind::kNone;
  config.moe.num_moe_experts = 4;
  base.model = model::resolve_model(config);
  MemoryModel model(counting.machine, base);
  config.peft.peft_scheme = model::PeftScheme::kLora;
  base.model = model::resolve_model(config);
  MemoryModel adapted(counting.machine, base);
  struct Case {
    std::array<int, 5> degrees;
    grid::ExpertDegrees experts;
    const char* schedule;
    int chunks;
  };
  for (const Case& c :
       {Case{{1, 1, 1, 4, 1}, {1, 4}, "1f1b", 0}, Case{{2, 1, 1, 2, 2}, {2, 2}, "1f1b", 0},
        Case{{1, 1, 1, 4, 2}, {1, 2}, "interleaved", 2}, Case{{2, 1, 1, 2, 2}, {1, 2}, "zb-h1", 0},
        Case{{1, 2, 1, 2, 1}, {1, 2}, "1f1b", 0}, Case{{1, 2, 1, 2, 2}, {1, 4}, "zb-v", 2}})
    for (const int zero : {0, 1, 3}) {
      MemoryPoint point = point_of(c.degrees, c.schedule, c.chunks, 4);
      point.layout.grid = RankGrid(c.degrees, c.experts);
      point.layout.sequence_parallel = c.degrees[0] > 1;
      point.layout.zero_stage = zero;
      expect_equal(model, counting.machine, point);
      expect_equal(adapted, counting.machine, point);
    }
}

TEST(MemoryModel, EqualsWiredRanksWithExpertsInEightBits) {
  Counting counting;
  run::TrainingOptions base = small_options();
  for (const auto recipe : {model::Fp8Recipe::kTensorwise, model::Fp8Recipe::kDelayed}) {
    model::ModelConfig config = small_options().model.config;
    config.bias = model::BiasKind::kNone;
    config.moe.num_moe_experts = 4;
    config.fp8.fp8 = model::Fp8Format::kHybrid;
    config.fp8.fp8_recipe = recipe;
    base.model = model::resolve_model(config);
    MemoryModel model(counting.machine, base);
    MemoryPoint point = point_of({1, 1, 1, 4, 2}, "1f1b", 0, 4);
    point.layout.grid = RankGrid({1, 1, 1, 4, 2}, {2, 2});
    expect_equal(model, counting.machine, point);
  }
}

// Eight experts, two per token, over four ranks: activations and scratch, which are what a load changes.
TEST(MemoryModel, DeclaresAFactorOfAnEvenLoadForExperts) {
  Counting counting;
  MemoryPoint point = point_of({1, 1, 1, 4, 1}, "1f1b", 0, 4);
  point.layout.grid = RankGrid({1, 1, 1, 4, 1}, {1, 4});
  const auto bytes_with = [&](double factor, model::RecomputeGranularity granularity) {
    run::TrainingOptions base = small_options();
    model::ModelConfig config = base.model.config;
    config.bias = model::BiasKind::kNone;
    config.encoder_seq_length = base.length = 1024;
    config.ffn_hidden_size = 256;
    config.moe.num_moe_experts = 8;
    config.moe.moe_buffer_factor = factor;
    base.model = model::resolve_model(config);
    MemoryModel model(counting.machine, base);
    point.recompute = {granularity, {}, {}};
    const MemoryTable categories = model.worst(point).categories;
    return categories[static_cast<std::size_t>(MemoryCategory::kActivations)] +
           categories[static_cast<std::size_t>(MemoryCategory::kScratch)];
  };
  using G = model::RecomputeGranularity;
  for (const G granularity : {G::kNone, G::kSelective, G::kFull}) {
    const double even = static_cast<double>(bytes_with(1, granularity));
    EXPECT_LE(static_cast<double>(bytes_with(1.5, granularity)), 1.6 * even);
    EXPECT_GT(static_cast<double>(bytes_with(1000, granularity)), 2 * even);
  }
}

TEST(MemoryModel, SaysWhatOtherLoadsOfExpertsWouldTake) {
  Counting counting;
  run::TrainingOptions base = small_options();
  model::ModelConfig config = base.model.config;
  config.bias = model::BiasKind::kNone;
  config.moe.num_moe_experts = 4;
  base.model = model::resolve_model(config);
  MemoryPoint point = point_of({1, 1, 1, 4, 1}, "1f1b", 0, 4);
  EXPECT_FALSE(MemoryModel(counting.machine, base).expert_loads(point, 0));  // every rank has all experts
  point.layout.grid = RankGrid({1, 1, 1, 4, 1}, {1, 4});
  MemoryModel model(counting.machine, base);
  const auto loads = model.expert_loads(point, 0);
  ASSERT_TRUE(loads);
  EXPECT_LT(loads->even, model.rank(point, 0).total);
  EXPECT_GT(loads->worst, model.rank(point, 0).total);
}

TEST(MemoryModel, WiresFewRanks) {
  Counting counting;
  MemoryModel model(counting.machine, small_options());
  MemoryPoint point = point_of({1, 1, 1, 2, 12}, "1f1b", 0, 400);
  model.worst(point);
  EXPECT_LE(model.wired(), 3u);  // first, last and one between
}

TEST(MemoryModel, RefusesWhatCannotRun) {
  Counting counting;
  MemoryModel model(counting.machine, small_options());
  EXPECT_THROW(model.worst(point_of({1, 1, 1, 1, 5}, "1f1b", 0, 4)), ConfigError);  // 12 layers on 5 stages
  EXPECT_THROW(model.worst(point_of({1, 1, 1, 1, 3}, "dualpipev", 2, 3)),
               ConfigError);  // too few microbatches
}

}  // namespace
}  // namespace stoa::plan

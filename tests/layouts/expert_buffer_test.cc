// Experts whose memory is declared for a multiple of an even load (model.moe_buffer_factor): what comes
// beyond is handled in parts. No bit of a result shows it, whatever the router decides.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emulated_gpu.h"
#include "family_runs.h"
#include "ops/cpu/cpu_backend.h"

namespace stoa::layouts {
namespace {

using ::testing::IsEmpty;

constexpr double kAll = 1000;  // memory for whatever may come

// A microbatch of a rank has 128 tokens and 256 rows of experts.
TestRun dropless() {
  TestRun run = tiny_run();
  run.steps = 2;
  run.rows = 8;
  run.micro_batch = 2;
  model::ModelConfig& c = run.config;
  c.num_layers = 2;
  c.encoder_seq_length = 64;
  c.bias = model::BiasKind::kNone;
  c.activation = model::Activation::kSwiglu;
  c.ffn_hidden_size = 24;
  c.moe.num_moe_experts = 8;
  c.moe.moe_ffn_hidden_size = 12;
  c.moe.moe_shared_expert_intermediate_size = 8;
  c.moe.moe_aux_loss_coeff = 0.02;
  return run;
}

struct Axes {
  int tensor = 1, context = 1, data = 1, pipeline = 1;
  grid::ExpertDegrees experts = {};  // parts of an expert, groups of experts
  bool sequence = false;
  const char* schedule = "1f1b";
  int chunks = 0;

  run::Layout layout(int zero_stage = 0) const {
    run::Layout layout;
    layout.grid = grid::RankGrid({tensor, context, 1, data, pipeline}, experts);
    layout.sequence_parallel = sequence;
    layout.schedule = schedule;
    layout.chunks = chunks;
    layout.zero_stage = zero_stage;
    layout.bucket_bytes = 20000;
    return layout;
  }
};

RunResult with_buffer(TestRun run, const run::Layout& layout, double factor) {
  run.config.moe.moe_buffer_factor = factor;
  return run_layout(run, layout);
}

// `factor`: so small that every rank's rows come in several parts, however even the load.
void expect_no_bit_changed(const TestRun& run, const run::Layout& layout, double factor = 0.3) {
  const RunResult whole = with_buffer(run, layout, kAll), parts = with_buffer(run, layout, factor);
  EXPECT_THAT(whole.faults, IsEmpty());
  EXPECT_THAT(parts.faults, IsEmpty());
  EXPECT_THAT(differences(whole, parts, 0), IsEmpty());
}

// Every token chooses the first experts: of equal scores the lower ones win.
void all_to_the_first(TestRun& run) {
  run.before = [](int, run::TrainingRank& rank) {
    const auto& specs = rank.params().specs();
    for (std::size_t p = 0; p < specs.size(); ++p) {
      if (!specs[p].name.ends_with(".router.weight")) continue;
      const nn::ParamId id{static_cast<int>(p)};
      for (const TensorView& tensor : {rank.parameters().get(id), rank.parameters().master(id)})
        std::memset(tensor.data, 0, tensor.bytes());
    }
  };
}

TEST(ExpertBuffer, PartsChangeNoBitOnAnyAxis) {
  for (const Axes& axes :
       {Axes{.data = 2, .experts = {1, 2}}, Axes{.data = 2, .experts = {2, 1}},
        Axes{.data = 4, .experts = {1, 4}}, Axes{.data = 4, .experts = {2, 2}},
        Axes{.tensor = 2, .experts = {1, 2}}, Axes{.tensor = 2, .experts = {1, 2}, .sequence = true},
        Axes{.tensor = 2, .data = 2, .experts = {2, 2}, .sequence = true},
        Axes{.context = 2, .data = 2, .experts = {1, 4}}})
    expect_no_bit_changed(dropless(), axes.layout());
}

TEST(ExpertBuffer, PartsChangeNoBitInAnySchedule) {
  TestRun run = dropless();
  run.config.num_layers = 4;
  run.config.moe.moe_dense_layers = {1};
  const Axes axes{.data = 2, .pipeline = 2, .experts = {1, 2}};
  for (const auto& [schedule, chunks] :
       {std::pair{"1f1b", 0}, std::pair{"interleaved", 2}, std::pair{"zb-h1", 0}, std::pair{"zb-v", 2}}) {
    SCOPED_TRACE(schedule);
    Axes row = axes;
    row.schedule = schedule;
    row.chunks = chunks;
    expect_no_bit_changed(run, row.layout(1));
    run.config.recompute = {model::RecomputeGranularity::kFull, model::RecomputeMethod::kUniform, 1};
    expect_no_bit_changed(run, row.layout());
    run.config.recompute = {};
  }
}

TEST(ExpertBuffer, PartsChangeNoBitWithStagesRecomputationAndOffloading) {
  const Axes axes{.data = 4, .experts = {1, 2}};
  TestRun run = dropless();
  for (const int stage : {1, 2, 3}) {
    run::Layout layout = axes.layout(stage);
    layout.overlap_grad_reduce = true;
    expect_no_bit_changed(run, layout);
  }
  run.config.recompute = {model::RecomputeGranularity::kSelective, {}, {}};
  expect_no_bit_changed(run, axes.layout());
  run.config.recompute = {};
  run.config.num_layers = 4;
  run.config.recompute.offload.cpu_offloading = true;
  expect_no_bit_changed(run, axes.layout());
}

// One rank's expert gets every row of the group: with the default factor all others wait for its parts.
TEST(ExpertBuffer, OneExpertMayGetEverything) {
  TestRun run = dropless();
  all_to_the_first(run);
  for (const std::int64_t chosen : {1, 2}) {
    run.config.moe.moe_router_topk = chosen;
    expect_no_bit_changed(run, Axes{.data = 4, .experts = {1, 4}}.layout(), 1.5);
    expect_no_bit_changed(run, Axes{.tensor = 2, .data = 2, .experts = {1, 4}}.layout(), 1.5);
    expect_no_bit_changed(run, Axes{.data = 4, .experts = {2, 2}}.layout(), 1.5);
  }
}

// Biases of experts, and a capacity.
TEST(ExpertBuffer, PartsChangeNoBitOfOtherKinds) {
  const Axes axes{.data = 2, .experts = {1, 2}};
  TestRun biased = family_run("gpt-oss");
  biased.config.encoder_seq_length = 64;
  biased.micro_batch = 2;
  biased.steps = 2;
  expect_no_bit_changed(biased, axes.layout());
  expect_no_bit_changed(biased, Axes{.data = 2, .experts = {2, 1}}.layout());
  TestRun limited = dropless();
  limited.config.moe.moe_expert_capacity_factor = 0.8;
  expect_no_bit_changed(limited, axes.layout());
  TestRun frozen = dropless();
  frozen.config.freeze = {"*.experts.*"};
  expect_no_bit_changed(frozen, axes.layout());
}

// Low-rank branches of experts, their inputs and their gradients. B begins with zeros: the second step is the
// first that moves A.
TestRun with_adapters(TestRun run) {
  run.steps = 3;
  run.rate = 0.05;
  model::PeftConfig& peft = run.config.peft;
  peft.peft_scheme = model::PeftScheme::kLora;
  peft.lora.adapter_dim = 3;
  peft.lora.alpha = 6;
  return run;
}

TEST(ExpertBuffer, PartsChangeNoBitOfAdaptersOfExperts) {
  const TestRun run = with_adapters(dropless());
  const RunResult result = with_buffer(run, Axes{.data = 2, .experts = {1, 2}}.layout(), 0.3);
  for (const char* part : {"gate", "up", "down"})
    for (const char* matrix : {"A", "B"})
      EXPECT_TRUE(
          result.gradients.contains(fmt::format("layers.1.moe.experts.7.{}.lora_{}.weight", part, matrix)));
  EXPECT_FALSE(result.gradients.contains("layers.1.moe.experts.7.down.weight"));
  for (const Axes& axes :
       {Axes{.data = 2, .experts = {1, 2}}, Axes{.data = 2, .experts = {2, 1}},
        Axes{.data = 4, .experts = {2, 2}}, Axes{.tensor = 2, .experts = {1, 2}, .sequence = true},
        Axes{.context = 2, .data = 2, .experts = {1, 4}}})
    expect_no_bit_changed(run, axes.layout());
  for (const char* schedule : {"1f1b", "zb-h1"})
    expect_no_bit_changed(run,
                          Axes{.data = 2, .pipeline = 2, .experts = {1, 2}, .schedule = schedule}.layout(1));
  TestRun recomputed = run;
  recomputed.config.recompute.granularity = model::RecomputeGranularity::kSelective;
  expect_no_bit_changed(recomputed, Axes{.data = 2, .experts = {1, 2}}.layout(3));
  // Some branches; other matrices of the experts are trained as such.
  TestRun some = run;
  some.config.peft.lora.target_modules = {"up"};
  some.config.peft.lora.alpha = 3;
  some.config.peft.modules_to_save = {"down"};
  expect_no_bit_changed(some, Axes{.data = 2, .experts = {1, 2}}.layout());
  TestRun biased = with_adapters(family_run("gpt-oss"));
  biased.config.encoder_seq_length = 64;
  biased.micro_batch = 2;
  expect_no_bit_changed(biased, Axes{.data = 2, .experts = {1, 2}}.layout());
}

TEST(ExpertBuffer, OneAdaptedExpertMayGetEverything) {
  TestRun run = with_adapters(dropless());
  all_to_the_first(run);
  expect_no_bit_changed(run, Axes{.data = 4, .experts = {1, 4}}.layout(), 1.5);
  expect_no_bit_changed(run, Axes{.data = 4, .experts = {2, 2}}.layout(), 1.5);
}

infer::Machine cpu_machine() {
  infer::Machine machine;
  machine.device = std::make_unique<HostDevice>();
  machine.pool = std::make_unique<WorkerPool>(1);
  machine.backend = std::make_unique<ops::cpu::CpuBackend>(*machine.pool);
  machine.stream = machine.device->create_stream();
  return machine;
}

TEST(ExpertBuffer, PartsChangeNoBitOfFastKernels) {
  for (const DType type : {DType::kF32, DType::kBF16}) {
    TestRun run = dropless();
    run.type = type;
    run.config.hidden_size = 32;
    run.machine = cpu_machine;
    expect_no_bit_changed(run, Axes{.data = 2, .experts = {1, 2}}.layout());
    expect_no_bit_changed(with_adapters(run), Axes{.data = 2, .experts = {1, 2}}.layout());
    run.machine = emulated_machine;
    run.steps = 1;
    run.config.num_layers = 1;
    expect_no_bit_changed(run, Axes{.data = 2, .experts = {1, 2}}.layout());
    expect_no_bit_changed(with_adapters(run), Axes{.data = 2, .experts = {1, 2}}.layout());
  }
}

}  // namespace
}  // namespace stoa::layouts

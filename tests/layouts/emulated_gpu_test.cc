// Whole models on the kernels of the CUDA backend, which the block emulator runs, against the reference: what
// any kind of model, optimizer or kind of parallelism asks for is there, and fits together.
#include "emulated_gpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <set>
#include <string_view>

#include "adapted_runs.h"
#include "comm/nccl/fake_nccl.h"
#include "family_runs.h"
#include "layout_run.h"

namespace stoa::layouts {
namespace {

using ::testing::IsEmpty;

// fp32 on either side, sums in another order.
constexpr double kSingleRounding = 1e-4;

TestRun small(TestRun run = tiny_run()) {
  run.type = DType::kF32;
  run.steps = 2;
  run.rows = 4;
  run.micro_batch = 2;
  run.config.num_layers = 2;
  return run;
}

void expect_like_reference(const TestRun& run, const run::Layout& layout = data_parallel(1),
                           double tolerance = kSingleRounding) {
  TestRun kernels = run;
  kernels.machine = emulated_machine;
  const RunResult expected = run_layout(run, layout);
  ASSERT_THAT(expected.faults, IsEmpty());
  EXPECT_THAT(differences(expected, run_layout(kernels, layout), tolerance), IsEmpty());
}

TestRun small_experts() {
  TestRun run = small();
  auto& c = run.config;
  c.bias = model::BiasKind::kNone;
  c.activation = model::Activation::kSwiglu;
  c.moe.num_moe_experts = 4;
  c.moe.moe_ffn_hidden_size = 12;
  c.moe.moe_shared_expert_intermediate_size = 8;
  c.moe.moe_aux_loss_coeff = 0.02;
  c.moe.moe_z_loss_coeff = 0.001;
  c.moe.moe_expert_capacity_factor = 1;
  return run;
}

TEST(EmulatedGpu, Decoders) {
  TestRun run = small();
  expect_like_reference(run);
  run.packed = true;
  run.config.position_embedding_type = model::PositionEmbedding::kAlibi;
  expect_like_reference(run);
}

// In memory of the host that is another than the device's.
TEST(EmulatedGpu, OffloadedActivations) {
  TestRun run = small();
  run.config.num_layers = 5;
  run.machine = emulated_machine;
  const RunResult kept = run_layout(run, data_parallel(1));
  run.config.recompute.offload.cpu_offloading = true;
  EXPECT_THAT(differences(kept, run_layout(run, data_parallel(1)), 0), IsEmpty());
  run::Layout stages = layout_of(1, 1, 1, 1, 2);
  stages.layers = {4, 1};
  EXPECT_THAT(differences(kept, run_layout(run, stages), kSingleRounding), IsEmpty());
}

// A number between two codes falls to one side here and to the other there: the tolerance is that of some
// codes.
TEST(EmulatedGpu, EightBits) {
  TestRun run = small();
  run.config.hidden_size = 32;
  run.config.ffn_hidden_size = 64;
  run.config.fp8.fp8 = model::Fp8Format::kHybrid;
  expect_like_reference(run, data_parallel(1), 0.05);
  run::Layout layout = layout_of(2, 1, 1, 1, 1);
  layout.sequence_parallel = true;
  expect_like_reference(run, layout, 0.05);
  run.config.fp8.fp8_recipe = model::Fp8Recipe::kDelayed;
  expect_like_reference(run, layout, 0.05);
}

TEST(EmulatedGpu, ExpertsInEightBits) {
  TestRun run = small_experts();
  run.config.hidden_size = 32;
  run.config.ffn_hidden_size = 64;
  run.config.moe.moe_ffn_hidden_size = 32;
  run.config.moe.moe_shared_expert_intermediate_size = 32;
  run.config.fp8.fp8 = model::Fp8Format::kHybrid;
  expect_like_reference(run, data_parallel(1), 0.05);
  run.config.fp8.fp8_recipe = model::Fp8Recipe::kDelayed;
  expect_like_reference(run, layout_of(1, 1, 2, 2, 1), 0.05);
}

TEST(EmulatedGpu, Experts) { expect_like_reference(small_experts()); }

TEST(EmulatedGpu, LatentAttentionAndExpertsInGroups) {
  TestRun run = small();
  auto& c = run.config;
  c.position_embedding_type = model::PositionEmbedding::kRope;
  c.normalization = model::Normalization::kRmsNorm;
  c.activation = model::Activation::kSwiglu;
  c.bias = model::BiasKind::kNone;
  c.num_query_groups = 4;
  c.latent = {true, 6, 5, 4, 2, 3};
  auto& moe = c.moe;
  moe.num_moe_experts = 8;
  moe.moe_router_topk = 3;
  moe.moe_ffn_hidden_size = 12;
  moe.moe_router_score_function = model::RouterScoreFunction::kSigmoid;
  moe.moe_router_num_groups = 4;
  moe.moe_router_group_topk = 2;
  moe.moe_router_enable_expert_bias = true;
  moe.moe_router_bias_update_rate = 0.05;
  expect_like_reference(run);
}

TEST(EmulatedGpu, SinksAndBiasesOfExperts) {
  TestRun run = small(family_run("gpt-oss"));
  run.config.moe.moe_dense_layers.clear();
  expect_like_reference(run);
}

// Of adapters: DoRA's magnitudes, IA3's factors.
TEST(EmulatedGpu, MagnitudesAndFactors) {
  TestRun run = small();
  model::PeftConfig& peft = run.config.peft;
  peft.peft_scheme = model::PeftScheme::kLora;
  peft.lora.use_dora = true;
  expect_like_reference(run);
  peft = {};
  peft.peft_scheme = model::PeftScheme::kIa3;
  expect_like_reference(run);
}

TEST(EmulatedGpu, Muon) {
  TestRun run = small();
  run.optimizer = optim::OptimizerKind::kMuon;
  run.config.bias = model::BiasKind::kQkv;
  expect_like_reference(run);
}

TEST(EmulatedGpu, Encoders) {
  TestRun run = small();
  run.config.kind = model::ModelKind::kBert;
  run.config.num_query_groups.reset();
  expect_like_reference(run);
}

TEST(EmulatedGpu, EncoderDecoders) { expect_like_reference(small(tiny_pairs_run())); }

// The largest distance of a tensor's values from what is expected, of their length; tensors that are nothing
// but rounding (biases of keys) are measured by `least`.
double distance(const Tensors& expected, const Tensors& other, double least) {
  double largest = 0;
  for (const auto& [name, values] : expected) {
    double between = 0, length = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      between += std::pow(other.at(name).at(i) - values[i], 2);
      length += std::pow(values[i], 2);
    }
    largest = std::max(largest, std::sqrt(between) / std::max(least, std::sqrt(length)));
  }
  return largest;
}

// The kernels on matrix units: attention with dropout, packed documents, slopes, relative biases and a ring,
// products of experts. Either side rounds to 8 bits of mantissa, at other places.
// In bf16, beside the reference in bf16.
void expect_near_reference(TestRun run, const run::Layout& layout = data_parallel(1)) {
  run.type = DType::kBF16;
  const RunResult expected = run_layout(run, layout);
  run.machine = emulated_machine;
  const RunResult other = run_layout(run, layout);
  EXPECT_LT(distance(expected.gradients, other.gradients, 1e-4), 0.02);
  for (std::size_t step = 0; step < expected.losses.size(); ++step)
    EXPECT_NEAR(other.losses[step] / expected.losses[step], 1, 0.002);
}

TEST(EmulatedGpu, SixteenBits) {
  TestRun decoder = small();
  decoder.packed = true;
  decoder.config.attention_dropout = 0.2;
  decoder.config.position_embedding_type = model::PositionEmbedding::kAlibi;
  expect_near_reference(decoder);
  expect_near_reference(small(tiny_pairs_run()));
  TestRun dropless = small_experts();
  dropless.config.moe.moe_expert_capacity_factor.reset();
  expect_near_reference(dropless);
  run::Layout ring = layout_of(1, 2, 1, 1, 1);
  ring.context_kind = parallel::ContextKind::kRing;
  expect_near_reference(small(), ring);
}

// Every family finds its operations in bf16, or is told which of them has no kernel.
TEST(EmulatedGpu, Families) {
  const std::set<std::string_view> without_kernels{"Qwen3-Next", "Qwen3-Next of experts"};
  for (const FamilyRun& family : family_runs()) {
    SCOPED_TRACE(family.name);
    TestRun run = small(family.run);
    run.config.num_layers = family.run.config.num_layers;  // some layers are named
    run.steps = 1;
    if (!without_kernels.contains(family.name)) {
      expect_near_reference(run);
      continue;
    }
    run.machine = emulated_machine;
    EXPECT_THROW(static_cast<void>(run_layout(run, data_parallel(1))), ConfigError);
  }
}

// Low-rank adapters of a frozen model in 16, 8 and 4 bits.
TEST(EmulatedGpu, AdaptersOfPackedModels) {
  for (const model::BaseFormat format :
       {model::BaseFormat::kNone, model::BaseFormat::kInt8, model::BaseFormat::kNf4}) {
    TestRun run = on_packed_base(llama_like(), format);
    run.type = DType::kF32;
    run.steps = 2;
    expect_like_reference(run);
    if (format == model::BaseFormat::kNf4) expect_near_reference(run);
  }
}

// Groups of one rank copy nothing that they cannot reach.
TEST(EmulatedGpu, ZeroStagesOfOneRank) {
  for (const int stage : {1, 2, 3}) {
    run::Layout alone = data_parallel(1);
    alone.zero_stage = stage;
    expect_like_reference(small(), alone);
  }
}

// Ranks that are threads and share the device.
TEST(EmulatedGpu, OverRanks) {
  run::Layout context = layout_of(1, 2, 1, 1, 1), ring = context, spread = layout_of(2, 1, 1, 1, 1),
              stages = layout_of(1, 1, 1, 2, 2);
  ring.context_kind = parallel::ContextKind::kRing;
  spread.sequence_parallel = true;
  expect_like_reference(small(), context);
  expect_like_reference(small(), ring);
  stages.zero_stage = 3;
  expect_like_reference(small(), spread);
  expect_like_reference(small(), stages);
  expect_like_reference(small_experts(), spread);
  expect_like_reference(small_experts(), layout_of(1, 1, 2, 2, 1));
  TestRun dropless = small_experts();
  dropless.config.moe.moe_expert_capacity_factor.reset();
  expect_like_reference(dropless, layout_of(1, 1, 2, 2, 1));
}

// Ranks with a GPU each, by functions in NCCL's place: the bits of ranks that share one.
void expect_same_on_own_gpus(TestRun run, const run::Layout& layout) {
  run.machine = emulated_machine;
  const RunResult shared = run_layout(run, layout);
  ASSERT_THAT(shared.faults, IsEmpty());
  const comm::suite::FakeNccl fake;
  run.nccl = comm::suite::FakeNccl::api;
  EXPECT_THAT(differences(shared, run_layout(run, layout), 0), IsEmpty());
}

TEST(EmulatedGpu, OnGpusOfTheirOwn) {
  run::Layout ring = layout_of(1, 2, 1, 1, 1), spread = layout_of(2, 1, 1, 1, 1);
  ring.context_kind = parallel::ContextKind::kRing;
  spread.sequence_parallel = true;
  expect_same_on_own_gpus(small(), ring);
  expect_same_on_own_gpus(small(), spread);
  expect_same_on_own_gpus(small_experts(), layout_of(1, 1, 2, 2, 1));
}

// Of a context's groups of neighbours those send each other keys that are no neighbours.
TEST(EmulatedGpu, GroupsOfNeighboursOnGpusOfTheirOwn) {
  TestRun run = small();
  run.config.encoder_seq_length = 16;
  run::Layout layout = layout_of(1, 4, 1, 1, 1);
  layout.context_kind = parallel::ContextKind::kHierarchical;
  layout.context_neighbours = 2;
  expect_like_reference(run, layout);
  expect_same_on_own_gpus(run, layout);
}

// Shards of optimizer and gradients cut blocks of the norm between ranks that need not be neighbours.
TEST(EmulatedGpu, ShardsOnGpusOfTheirOwn) {
  for (const int stage : {1, 2, 3}) {
    run::Layout shards = data_parallel(4);
    shards.zero_stage = stage;
    TestRun run = small();
    run.micro_batch = 1;
    expect_same_on_own_gpus(run, shards);
  }
  run::Layout stages = layout_of(1, 1, 1, 2, 2), overlapped = layout_of(2, 1, 1, 2, 1);
  stages.zero_stage = overlapped.zero_stage = 2;
  expect_same_on_own_gpus(small(), stages);
  // Two groups' collectives are under way at once.
  overlapped.overlap_grad_reduce = true;
  overlapped.bucket_bytes = 4096;
  expect_same_on_own_gpus(small(), overlapped);
  TestRun muon = small();
  muon.optimizer = optim::OptimizerKind::kMuon;
  muon.config.bias = model::BiasKind::kQkv;
  stages.zero_stage = 1;
  expect_same_on_own_gpus(muon, stages);
}

// A stream that counts recordings when it ends.
class CountingStream final : public comm::suite::RecordingStream {
 public:
  explicit CountingStream(std::atomic<int>& recordings)
      : RecordingStream(std::make_unique<PatientStream>(), true), recordings_(recordings) {}
  ~CountingStream() override { recordings_ += started; }

 private:
  std::atomic<int>& recordings_;
};

// Ranks with a GPU each record their steps, from the second one on: the bits of steps that are not recorded.
TEST(EmulatedGpu, RecordedStepsOnGpusOfTheirOwn) {
  run::Layout shards = data_parallel(2), ahead = shards, spread = layout_of(2, 1, 1, 1, 1),
              ring = layout_of(1, 2, 1, 1, 1), stages = layout_of(1, 1, 1, 2, 2);
  ahead.zero_stage = 1;  // what is gathered at the end of a step is waited for in the next one
  ahead.overlap_grad_reduce = true;
  ahead.bucket_bytes = 4096;
  shards.zero_stage = 3;
  spread.sequence_parallel = true;
  ring.context_kind = parallel::ContextKind::kRing;
  stages.zero_stage = 2;
  TestRun encoder = small(), pairs = small(tiny_pairs_run());
  encoder.config.kind = model::ModelKind::kBert;
  encoder.config.num_query_groups.reset();
  std::vector<std::pair<TestRun, run::Layout>> runs{{encoder, data_parallel(2)}, {pairs, data_parallel(2)}};
  for (const run::Layout& layout : {shards, ahead, spread, ring, stages}) runs.emplace_back(small(), layout);
  for (auto& [run, layout] : runs) {
    run.steps = 3;
    run.machine = emulated_machine;
    const RunResult plain = run_layout(run, layout);
    ASSERT_THAT(plain.faults, IsEmpty());
    const comm::suite::FakeNccl fake;
    std::atomic<int> recordings = 0;
    run.nccl = comm::suite::FakeNccl::api;
    run.machine = [&] {
      infer::Machine machine = emulated_machine();
      machine.stream = std::make_unique<CountingStream>(recordings);
      return machine;
    };
    EXPECT_THAT(differences(plain, run_layout(run, layout), 0), IsEmpty());
    EXPECT_EQ(recordings, 2 * layout.grid.size());
  }
}

TEST(EmulatedGpu, SpreadExpertsAreNotRecorded) {
  TestRun run = small_experts();
  std::atomic<int> recordings = 0;
  run.machine = [&] {
    infer::Machine machine = emulated_machine();
    machine.stream = std::make_unique<CountingStream>(recordings);
    return machine;
  };
  const comm::suite::FakeNccl fake;
  run.nccl = comm::suite::FakeNccl::api;
  EXPECT_THAT([&] { run_layout(run, layout_of(1, 1, 2, 2, 1)); },
              testing::ThrowsMessage<ConfigError>(::testing::HasSubstr("distributed over 2 ranks")));
}

}  // namespace
}  // namespace stoa::layouts

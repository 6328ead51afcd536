// Exact memory (docs/design.md): what was planned is what is used, category by category, and nothing large
// lives elsewhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string_view>

#include "base/console.h"
#include "base/test_paths.h"
#include "block_counter.h"
#include "cli/machine_factory.h"
#include "cli/schema.h"
#include "data/labelled_dataset.h"
#include "data/whole_rows.h"
#include "ops/cuda/cuda_backend.h"
#include "ops/cuda/emulation/matmul.h"
#include "plan/memory_plan.h"
#include "train/trainer.h"
#include "train/training_plan.h"
#include "workplace.h"

namespace stoa::e2e {
namespace {

struct Case {
  const char* name;
  Arguments overrides;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> list{
      {"fp32", {"trainer.precision=fp32"}},
      {"bf16", {"trainer.precision=bf16"}},
      {"fp16", {"trainer.precision=fp16"}},
      {"bf16, fp32 residual", {"trainer.precision=bf16", "model.fp32_residual_connection=true"}},
      {"dropout",
       {"trainer.precision=bf16", "model.hidden_dropout=0.1", "model.attention_dropout=0.1",
        "model.embedding_dropout=0.1"}},
      {"selective recompute",
       {"trainer.precision=bf16", "model.activations_checkpoint_granularity=selective"}},
      {"full recompute",
       {"trainer.precision=bf16", "model.activations_checkpoint_granularity=full",
        "model.activations_checkpoint_method=uniform", "model.activations_checkpoint_num_layers=2"}},
      {"block recompute, dropout",
       {"trainer.precision=fp16", "model.activations_checkpoint_granularity=full",
        "model.activations_checkpoint_method=block", "model.activations_checkpoint_num_layers=1",
        "model.hidden_dropout=0.1"}},
      {"8-bit products", {"trainer.precision=bf16", "model.fp8=hybrid"}},
      {"8-bit products, delayed scaling",
       {"trainer.precision=bf16", "model.fp8=hybrid", "model.fp8_recipe=delayed"}},
      {"8-bit products, recompute",
       {"trainer.precision=fp16", "model.fp8=e4m3", "model.activations_checkpoint_granularity=full",
        "model.activations_checkpoint_method=uniform", "model.activations_checkpoint_num_layers=2"}},
      {"packed documents",
       {"trainer.precision=fp32", "model.data.reset_attention_mask=true",
        "model.data.reset_position_ids=true"}},
      {"llama",
       {"trainer.precision=bf16", "model.position_embedding_type=rope", "model.normalization=rmsnorm",
        "model.activation=swiglu", "model.bias=false", "model.share_embeddings_and_output_weights=false",
        "model.num_query_groups=1"}},
      {"offload", {"trainer.precision=bf16", "model.cpu_offloading=true"}},
      {"experts",
       {"trainer.precision=bf16", "model.normalization=rmsnorm", "model.activation=swiglu",
        "model.bias=false", "model.num_moe_experts=4", "model.moe_shared_expert_intermediate_size=32",
        "model.moe_aux_loss_coeff=0.01"}},
      {"experts in 8 bits",
       {"trainer.precision=bf16", "model.activation=swiglu", "model.bias=false", "model.num_moe_experts=4",
        "model.fp8=hybrid"}},
      {"experts in 8 bits, delayed scaling",
       {"trainer.precision=bf16", "model.activation=swiglu", "model.bias=false", "model.num_moe_experts=4",
        "model.fp8=hybrid", "model.fp8_recipe=delayed"}},
      {"no validation", {"trainer.val_check_interval=0"}},
      {"frozen", {"trainer.precision=bf16", "model.freeze=[embedding,layers.0-1]"}},
      {"all frozen but biases", {"trainer.precision=bf16", "model.freeze=['*','!*.bias']"}},
      {"frozen in fp32", {"trainer.precision=fp32", "model.freeze=['*.mlp',final_norm]"}},
      {"frozen in fp8",
       {"trainer.precision=bf16", "model.fp8=hybrid", "model.fp8_recipe=delayed",
        "model.freeze=[embedding,'layers.*.weight','!layers.1']"}},
      {"factors", {"trainer.precision=bf16", "model.peft.peft_scheme=ia3"}},
      {"magnitudes of adapters",
       {"trainer.precision=bf16", "model.peft.peft_scheme=lora", "model.peft.lora_tuning.use_dora=true",
        "model.peft.lora_tuning.adapter_dropout=0.1", "model.peft.lora_tuning.exclude_modules=[mlp_fc1]"}},
      {"adapters", {"trainer.precision=bf16", "model.peft.peft_scheme=lora"}},
      {"adapters with dropout of pieces, saved modules",
       {"trainer.precision=fp32", "model.peft.peft_scheme=lora", "model.activation=swiglu",
        "model.position_embedding_type=rope", "model.normalization=rmsnorm", "model.bias=false",
        "model.share_embeddings_and_output_weights=false", "model.peft.lora_tuning.adapter_dropout=0.1",
        "model.peft.lora_tuning.target_modules=[q_proj,v_proj,down_proj]",
        "model.peft.modules_to_save=[norm]"}},
      {"scores of texts",
       {"trainer.precision=bf16", "model.task=sequence_classification", "model.labels=[score]"}},
      {"vectors of texts", {"trainer.precision=bf16", "model.task=embedding"}},
      {"vectors of texts, means of tokens",
       {"trainer.precision=fp32", "model.task=embedding", "model.pooling=mean"}},
      {"adapters below a head of scores",
       {"trainer.precision=bf16", "model.task=sequence_classification", "model.labels=[score]",
        "model.peft.peft_scheme=lora"}},
      {"adapters of experts",
       {"trainer.precision=bf16", "model.activation=swiglu", "model.bias=false", "model.num_moe_experts=4",
        "model.peft.peft_scheme=lora"}},
      {"adapters below 8-bit products",
       {"trainer.precision=bf16", "model.fp8=hybrid", "model.peft.peft_scheme=lora"}},
      {"adapters of embedding and head",
       {"trainer.precision=bf16", "model.peft.peft_scheme=lora", "model.peft.lora_tuning.adapter_dropout=0.1",
        "model.peft.lora_tuning.target_modules=[wte,lm_head]"}},
      {"bottlenecks", {"trainer.precision=bf16", "model.peft.peft_scheme=adapter"}},
      {"bottlenecks of branches, recomputed",
       {"trainer.precision=bf16", "model.peft.peft_scheme=adapter",
        "model.peft.adapter_tuning.type=double_seq_bn", "model.activations_checkpoint_granularity=full",
        "model.activations_checkpoint_method=uniform"}},
      {"adapters on a model in 4 bits",
       {"trainer.precision=bf16", "model.peft.peft_scheme=lora", "model.peft.quantize_base=nf4",
        "model.ffn_hidden_size=128"}},
      {"adapters on a model in 8 bits, some layers trained",
       {"trainer.precision=bf16", "model.peft.peft_scheme=ia3", "model.peft.quantize_base=int8",
        "model.peft.modules_to_save=[ln_f]"}},
      {"sgd", {"model.optim.name=sgd", "trainer.precision=fp32"}},
      {"accumulation", {"model.micro_batch_size=1", "model.global_batch_size=4"}},
  };
  return list;
}

infer::Machine two_threads() {
  cli::MachineOptions options;
  options.threads = 2;
  return cli::make_machine(options);
}

train::RunConfig configuration(const Arguments& more) {
  const auto overrides =
      Arguments{
          "model.num_layers=3",          "model.hidden_size=64",     "model.num_attention_heads=4",
          "model.encoder_seq_length=64", "model.micro_batch_size=2", "model.global_batch_size=4",
          "model.vocab_size=301",        "trainer.max_steps=10",     "model.optim.sched.warmup_steps=1"} +
      more;
  return cli::load_run_config((test::source_dir() / "configs/tiny.yaml").string(), overrides);
}

data::Batch batch_of(const train::TrainingPlan& plan) {
  return data::whole_rows(plan.batch.largest(), plan.options.length, [](std::int64_t i) {
    return std::pair(static_cast<std::int32_t>(i * 7 % 301), static_cast<std::int32_t>((i * 7 + 7) % 301));
  });
}

// Texts as long as a row, each with the gradient of its vector.
data::Batch batch_of_texts(const train::TrainingPlan& plan) {
  const std::int64_t rows = plan.batch.largest(), length = plan.options.length,
                     hidden = plan.options.model.config.hidden_size;
  data::LabelledRow text;
  text.tokens.assign(static_cast<std::size_t>(length), 7);
  text.token_types.assign(text.tokens.size(), 0);
  text.labels = {{0, 0}};
  data::LabelledDataset::Options options;
  options.sequence_length = length;
  const data::LabelledDataset texts(std::vector(static_cast<std::size_t>(rows), text), rows, options);
  std::vector<std::int64_t> samples(static_cast<std::size_t>(rows));
  std::iota(samples.begin(), samples.end(), 0);
  data::Batch batch;
  data::fill_batch(texts, samples, batch);
  batch.vector_gradients.assign(static_cast<std::size_t>(rows * hidden), 0.5f);
  return batch;
}

// The kernels of GPUs, run by the block emulator.
infer::Machine emulated_gpu() {
  infer::Machine machine = two_threads();
  machine.backend = std::make_unique<ops::cuda::CudaBackend>(
      std::make_shared<ops::cuda::emulation::HostMatmul>(), nullptr, DeviceKind::kHost,
      ops::cuda::KernelChoice{.few_tokens = false});
  return machine;
}

void expect_exact(const train::RunConfig& config, infer::Machine machine = two_threads()) {
  const auto plan = train::plan_training(config, 0);
  infer::Machine meta = infer::make_meta_machine(machine);
  const auto planned = plan::plan_memory(meta, plan.options);
  const std::size_t scratch = run::TrainingRank::measure_scratch(meta, plan.options);
  run::TrainingRank rank(machine, plan.options, parallel::ParallelContext::single(*machine.device), scratch);
  rank.initialize();
  const bool embeds = config.model.task.embeds();
  const auto batch = embeds ? batch_of_texts(plan) : batch_of(plan);
  const auto ignore = [](std::int64_t, TensorView) {};
  for (int step = 0; step < 2; ++step) rank.step(batch, step * batch.rows);
  if (plan.options.evaluation)
    rank.evaluate(batch, 0, embeds ? run::TrainingRank::AnswerSink(ignore) : nullptr);
  const auto declared = rank.arena().declared(), touched = rank.arena().touched();
  for (std::size_t i = 0; i < declared.size(); ++i) {
    const auto category = name_of(static_cast<MemoryCategory>(i));
    EXPECT_EQ(planned.categories[i], declared[i]) << category;
    EXPECT_EQ(touched[i], declared[i]) << category;
  }
  for (const auto& entry : rank.arena().entries()) EXPECT_TRUE(entry.touched) << entry.spec.name;
  // The scratch stack is one entry of the arena: what was used of it is its own high-water mark.
  EXPECT_EQ(rank.scratch().high_water(), scratch);
}

TEST(ExactMemory, PlannedDeclaredAndTouchedAreEqualByCategory) {
  for (const auto& c : cases()) {
    SCOPED_TRACE(c.name);
    expect_exact(configuration(c.overrides));
  }
}

// What `stoa plan memory` counts for a GPU is what its kernels declare and touch. Where there is no GPU to
// ask, the command takes the workspaces of the CPU's kernels, and everything else is the same.
TEST(ExactMemory, PlannedDeclaredAndTouchedAreEqualOnAnEmulatedGpu) {
  for (const char* name : {"fp32", "bf16", "dropout", "full recompute", "8-bit products", "packed documents",
                           "llama", "offload", "experts"}) {
    SCOPED_TRACE(name);
    const auto c = std::find_if(cases().begin(), cases().end(),
                                [&](const Case& one) { return one.name == std::string_view(name); });
    ASSERT_NE(c, cases().end());
    const train::RunConfig config = configuration(c->overrides);
    expect_exact(config, emulated_gpu());
    const auto options = train::plan_training(config, 0).options;
    infer::Machine kernels = emulated_gpu(), of_kernels = infer::make_meta_machine(kernels),
                   of_command = cli::make_planning_machine({.backend = "cuda", .threads = 2});
    const auto expected = plan::plan_memory(of_kernels, options),
               said = plan::plan_memory(of_command, options);
    for (std::size_t i = 0; i < said.categories.size(); ++i) {
      if (static_cast<MemoryCategory>(i) == MemoryCategory::kScratch) continue;
      EXPECT_EQ(said.categories[i], expected.categories[i]) << name_of(static_cast<MemoryCategory>(i));
    }
  }
}

// What is frozen has no gradient, no moments and no master; its value stays.
TEST(ExactMemory, FrozenParametersHaveTheirValueAlone) {
  const auto planned = [](const Arguments& more) {
    const auto plan = train::plan_training(configuration(Arguments{"trainer.precision=bf16"} + more), 0);
    infer::Machine machine = two_threads(), meta = infer::make_meta_machine(machine);
    return plan::plan_memory(meta, plan.options).categories;
  };
  const auto all = planned({}), some = planned({"model.freeze=['*','!final_norm']"});
  const auto of = [](const auto& table, MemoryCategory c) { return table[static_cast<std::size_t>(c)]; };
  EXPECT_EQ(of(some, MemoryCategory::kMaster), 0u);
  const std::size_t norm = 2 * 64 * sizeof(float);  // weight and bias
  EXPECT_EQ(of(some, MemoryCategory::kGradients), norm);
  EXPECT_EQ(of(some, MemoryCategory::kOptimizer), 2 * norm);
  EXPECT_GT(of(all, MemoryCategory::kMaster), 100 * norm);
  EXPECT_NEAR(static_cast<double>(of(some, MemoryCategory::kWeights)),
              static_cast<double>(of(all, MemoryCategory::kWeights)), 4096);
}

// Of a model with an adapter: its weights without gradients, moments and masters, and the activations of a
// model without.
TEST(ExactMemory, AdaptersCostWhatTheyAre) {
  const auto planned = [](const Arguments& more) {
    const auto plan = train::plan_training(configuration(Arguments{"trainer.precision=bf16"} + more), 0);
    infer::Machine machine = two_threads(), meta = infer::make_meta_machine(machine);
    return plan::plan_memory(meta, plan.options).categories;
  };
  const auto of = [](const auto& table, MemoryCategory c) {
    return static_cast<std::int64_t>(table[static_cast<std::size_t>(c)]);
  };
  const auto all = planned({}),
             lora = planned({"model.peft.peft_scheme=lora", "model.peft.lora_tuning.adapter_dim=4"});
  // c_attn, c_proj, c_fc, c_proj of three layers of width 64, rank 4.
  const std::int64_t elements = 3 * 4 * (64 + 192 + 64 + 64 + 64 + 256 + 256 + 64);
  EXPECT_EQ(of(lora, MemoryCategory::kGradients), elements * 4);
  EXPECT_EQ(of(lora, MemoryCategory::kMaster), elements * 4);
  EXPECT_EQ(of(lora, MemoryCategory::kOptimizer), 2 * elements * 4);
  EXPECT_LE(of(lora, MemoryCategory::kActivations), of(all, MemoryCategory::kActivations));
}

// The shapes of the presets, with few layers and ids so that they fit a test.
TEST(ExactMemory, PresetsWithEveryKindOfRecomputation) {
  const std::vector<Arguments> kinds{
      {},
      {"model.activations_checkpoint_granularity=selective"},
      {"model.activations_checkpoint_granularity=full", "model.activations_checkpoint_method=uniform",
       "model.activations_checkpoint_num_layers=1"}};
  const std::vector<std::pair<const char*, Arguments>> presets{
      {"tiny", {}},
      {"gpt2-124m", {}},
      {"gpt-126m", {}},
      {"llama-1b",
       {"model.hidden_size=512", "model.ffn_hidden_size=1376", "model.num_attention_heads=8",
        "model.num_query_groups=4"}},
      {"llama-7b",
       {"model.hidden_size=256", "model.ffn_hidden_size=688", "model.num_attention_heads=4",
        "model.num_query_groups=4"}}};
  for (const auto& [preset, shape] : presets)
    for (const auto& kind : kinds) {
      SCOPED_TRACE(std::string(preset) + (kind.empty() ? "" : " " + kind.front()));
      const auto overrides = Arguments{"model.num_layers=2",
                                       "model.vocab_size=1000",
                                       "model.encoder_seq_length=64",
                                       "model.micro_batch_size=1",
                                       "model.global_batch_size=2",
                                       "trainer.max_steps=10",
                                       "model.optim.sched.warmup_steps=1"} +
                             shape + kind;
      expect_exact(
          cli::load_run_config((test::source_dir() / "configs/").string() + preset + ".yaml", overrides));
    }
}

// Starts counting after the second step, ends before the checkpoint that a run's end saves.
class CountingObserver final : public watch::RunObserver {
 public:
  explicit CountingObserver(std::int64_t last) : last_(last) {}
  void on_step(const watch::StepReport& report) override {
    if (report.step == 2) memory_test::start_counting_blocks();
    if (report.step == last_) blocks = memory_test::stop_counting_blocks();
  }
  memory_test::LargeBlocks blocks{-1, 0};

 private:
  const std::int64_t last_;
};

class SteadyMemory : public Workplace {};

TEST_F(SteadyMemory, NoLargeBlockOutsideTheArenaFromTheThirdStepOn) {
  if (!memory_test::can_count_blocks()) GTEST_SKIP() << "the heap cannot be watched in this build";
  for (const auto& c : cases()) {
    SCOPED_TRACE(c.name);
    // Blocks of nf4 have 64 numbers.
    const bool blocks = std::find(c.overrides.begin(), c.overrides.end(), "model.peft.quantize_base=nf4") !=
                        c.overrides.end();
    // A microbatch of 9 x 512 tokens: its ids alone are above 16 KiB, so that nothing of its size goes
    // unseen.
    const auto config = configuration(
        c.overrides +
        Arguments{"model.vocab_size=null", "model.data=" + path("data").string(),
                  "model.data.splits_string='80,20,0'", "model.tokenizer=" + path("tok").string(),
                  "model.encoder_seq_length=512", "model.num_layers=2",
                  blocks ? "model.hidden_size=64" : "model.hidden_size=32", "model.num_attention_heads=2",
                  "model.micro_batch_size=9", "model.global_batch_size=9", "trainer.max_steps=5",
                  "trainer.val_check_interval=4", "trainer.limit_val_batches=1",
                  "trainer.log_every_n_steps=1", "exp_manager.create_checkpoint_callback=false",
                  "exp_manager.explicit_log_dir=" + path("run").string()});
    // Trained on texts one by one, not on prepared data.
    if (config.model.task.regression() || config.model.task.embeds()) continue;
    CountingObserver observer(5);
    Console quiet(Console::Level::kQuiet);
    train::Trainer trainer({config,
                            cli::show_run_config(config),
                            "",
                            {},
                            train::read_inputs(config, train::find_start(config), [](std::string_view) {}),
                            train::only_seat(),
                            two_threads,
                            quiet,
                            {&observer},
                            {},
                            {},
                            "",
                            "",
                            {},
                            {}});
    trainer.run();
    EXPECT_EQ(observer.blocks.count, 0) << "largest: " << observer.blocks.largest << " bytes";
  }
}

TEST(BlockCounter, SeesBlocks) {
  if (!memory_test::can_count_blocks()) GTEST_SKIP() << "the heap cannot be watched in this build";
  memory_test::start_counting_blocks();
  {
    const std::vector<char> large(100000), small(1000);
    EXPECT_NE(large.data(), small.data());
  }
  EXPECT_EQ(memory_test::stop_counting_blocks().count, 1);
}

}  // namespace
}  // namespace stoa::e2e

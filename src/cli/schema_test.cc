#include "cli/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>

#include "base/console.h"
#include "base/error.h"
#include "base/file.h"
#include "base/test_folder.h"
#include "base/test_paths.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/key_conditions.h"
#include "cli/preset_changes.h"
#include "foreign/nemo_keys.h"
#include "model/model_spec.h"

namespace stoa::cli {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

std::string error_of(const std::string& yaml, std::vector<std::string> overrides = {}) {
  try {
    parse_run_config(yaml, overrides);
  } catch (const Error& error) {
    return error.what();
  }
  return "(no error)";
}

// The keys of the launcher's GPT training files (values of the 5B one), the cluster's own paths made
// relative.
constexpr const char* kNemoFile = R"(
defaults:
  - _self_
  - optional tp_overlap@model.ub_tp_comm_overlap_cfg:
run:
  name: gpt3_5b
  results_dir: ${base_results_dir}/${.name}
  time_limit: "6-00:00:00"
  dependency: "singleton"
trainer:
  num_nodes: 1
  devices: 1
  accelerator: gpu
  precision: bf16
  logger: False
  enable_checkpointing: False
  use_distributed_sampler: False
  max_epochs: null
  max_steps: 75000
  max_time: "05:23:30:00"
  log_every_n_steps: 10
  val_check_interval: 2000
  limit_val_batches: 50
  limit_test_batches: 50
  accumulate_grad_batches: 1
  gradient_clip_val: 1.0
exp_manager:
  explicit_log_dir: results/${training.run.name}
  exp_dir: null
  name: megatron_gpt
  create_wandb_logger: False
  wandb_logger_kwargs:
    project: nemo_gpt3
    name: ${training.run.name}
  resume_if_exists: True
  resume_ignore_no_checkpoint: True
  create_checkpoint_callback: True
  checkpoint_callback_params:
    monitor: val_loss
    save_top_k: 10
    mode: min
    always_save_nemo: False
    save_nemo_on_train_end: False
    filename: 'megatron_gpt--{val_loss:.2f}-{step}-{consumed_samples}'
    model_parallel_size: ${multiply:${training.model.tensor_model_parallel_size}, ${training.model.pipeline_model_parallel_size}}
  log_step_timing: True
  step_timing_kwargs:
    sync_cuda: True
    buffer_size: 5
model:
  micro_batch_size: 4
  global_batch_size: 2048
  rampup_batch_size: null
  context_parallel_size: 1
  tensor_model_parallel_size: 1
  pipeline_model_parallel_size: 1
  virtual_pipeline_model_parallel_size: null
  resume_from_checkpoint: null
  encoder_seq_length: 2048
  max_position_embeddings: 2048
  num_layers: 24
  hidden_size: 4096
  ffn_hidden_size: ${multiply:4, ${.hidden_size}}
  num_attention_heads: 32
  num_query_groups: null
  init_method_std: 0.01
  hidden_dropout: 0.1
  attention_dropout: 0.1
  kv_channels: null
  apply_query_key_layer_scaling: True
  layernorm_epsilon: 1e-5
  make_vocab_size_divisible_by: 128
  pre_process: True
  post_process: True
  persist_layer_norm: True
  gradient_as_bucket_view: True
  grad_div_ar_fusion: True
  gradient_accumulation_fusion: True
  bias_activation_fusion: True
  bias_dropout_add_fusion: True
  masked_softmax_fusion: True
  activations_checkpoint_granularity: null
  activations_checkpoint_method: null
  activations_checkpoint_num_layers: null
  num_micro_batches_with_partial_activation_checkpoints: null
  activations_checkpoint_layers_per_pipeline: null
  cpu_offloading: False
  cpu_offloading_num_layers: ${sum:${.num_layers},-1}
  cpu_offloading_activations: True
  cpu_offloading_weights: True
  sequence_parallel: False
  overlap_p2p_comm: False
  batch_p2p_comm: True
  fsdp: False
  fsdp_sharding_strategy: full
  fsdp_grad_reduce_dtype: bf16
  fsdp_sharded_checkpoint: False
  tokenizer:
    library: megatron
    type: GPT2BPETokenizer
    model: null
    delimiter: null
    vocab_file: bpe/vocab.json
    merge_file: bpe/merges.txt
  native_amp_init_scale: 4294967296
  native_amp_growth_interval: 1000
  hysteresis: 2
  fp32_residual_connection: False
  fp16_lm_cross_entropy: False
  megatron_amp_O2: True
  grad_allreduce_chunk_size_mb: 125
  sharp: False
  mcore_gpt: True
  transformer_engine: True
  fp8: False
  fp8_e4m3: False
  fp8_hybrid: True
  fp8_margin: 0
  fp8_interval: 1
  fp8_amax_history_len: 1024
  fp8_amax_compute_algo: max
  fp8_wgrad: True
  ub_tp_comm_overlap: False
  seed: 1234
  sync_batch_comm: False
  use_cpu_initialization: False
  onnx_safe: False
  apex_transformer_log_level: 30
  gc_interval: 100
  nsys_profile:
    enabled: False
    trace: [nvtx, cuda]
    start_step: 10
    end_step: 10
    ranks: [0]
    gen_shape: False
  optim:
    name: mcore_distributed_optim
    bucket_cap_mb: 400
    overlap_grad_sync: True
    overlap_param_sync: True
    contiguous_grad_buffer: True
    contiguous_param_buffer: True
    lr: 1.6e-4
    weight_decay: 0.1
    betas:
      - 0.9
      - 0.95
    sched:
      name: CosineAnnealing
      warmup_steps: 115
      constant_steps: 12500
      min_lr: 1.6e-5
  data:
    data_impl: mmap
    splits_string: "99990,8,2"
    seq_length: 2048
    skip_warmup: True
    num_workers: 2
    dataloader_type: single
    reset_position_ids: False
    reset_attention_mask: False
    eod_mask_loss: False
    index_mapping_dir: null
    data_prefix:
      - .0333
      - my-gpt3_00_text_document
      - .0334
      - my-gpt3_01_text_document
)";

TEST(RunConfigNemo, TrainingFileIsRead) {
  config::Report report;
  const RunConfig run = parse_run_config(kNemoFile, {}, &report);
  EXPECT_EQ(run.model.ffn_hidden_size, 16384);
  EXPECT_EQ(run.model.recompute.granularity, model::RecomputeGranularity::kNone);
  EXPECT_EQ(run.model.recompute.offload.layers_of(24), 0);
  EXPECT_EQ(run.model.activation, model::Activation::kGelu) << "NeMo's default";
  EXPECT_EQ(run.exp_manager.explicit_log_dir, "results/gpt3_5b");
  EXPECT_EQ(run.exp_manager.checkpoint.save_top_k, 10);
  EXPECT_EQ(run.trainer.max_time->seconds, ((5 * 24 + 23) * 60 + 30) * 60);
  EXPECT_EQ(run.optim.name, optim::OptimizerKind::kAdamW);
  EXPECT_EQ(run.optim.sched.constant_steps, 12500);
  EXPECT_EQ(run.data.data_prefix.blend.size(), 2U);
  EXPECT_EQ(run.tokenizer.library, data::TokenizerLibrary::kMegatron);
  EXPECT_GE(report.ignored.size(), 50U);
  EXPECT_THAT(report.ignored, ::testing::Contains(HasSubstr("model.transformer_engine")));
}

TEST(RunConfigNemo, WhatCannotBeHonouredIsRefused) {
  EXPECT_THAT(error_of(kNemoFile, {"model.fp8=true"}),
              AllOf(HasSubstr("model.fp8"), HasSubstr("one of e4m3, hybrid, false")));
  EXPECT_THAT(error_of(kNemoFile, {"model.headscale=true"}),
              AllOf(HasSubstr("model.headscale"), HasSubstr("cannot be honoured")));
  EXPECT_THAT(error_of(kNemoFile, {"+defaults=[gpt3/5b]"}), HasSubstr("base: FILE"));
  EXPECT_THAT(error_of(kNemoFile, {"model.position_embedding_type=kerple"}),
              HasSubstr("one of learned_absolute"));
  EXPECT_EQ(error_of(kNemoFile, {"model.ffn_dropout=0.0", "model.transformer_block_type=pre_ln"}),
            "(no error)");
}

TEST(RunConfigNemo, OffloadsAllLayersButTheLast) {
  const RunConfig run = parse_run_config(
      kNemoFile, std::vector<std::string>{"model.cpu_offloading=true", "model.cpu_offloading_weights=false"});
  EXPECT_EQ(run.model.recompute.offload.layers_of(24), 23);
}

TEST(RunConfigNemo, EightBitsAreOffWhereAFileSaysFalse) {
  EXPECT_FALSE(parse_run_config(kNemoFile).model.fp8.fp8);
}

TEST(RunConfigNemo, TableAndSchemaDoNotOverlap) {
  const auto section = run_schema();
  for (const auto& key : foreign::nemo_keys())
    EXPECT_EQ(section.schema().find(key.pattern), nullptr) << key.pattern;
}

TEST(RunConfig, TheExampleOfUsers) {
  const RunConfig run = parse_run_config(R"(
name: shakespeare
trainer: {max_steps: 500, precision: bf16, log_every_n_steps: 10, val_check_interval: 100, limit_val_batches: 20, gradient_clip_val: 1.0}
exp_manager: {explicit_log_dir: runs/shakespeare, resume_if_exists: true}
model:
  micro_batch_size: 4
  global_batch_size: 16
  tensor_model_parallel_size: 1
  seed: 1234
  num_layers: 6
  hidden_size: 384
  num_attention_heads: 6
  encoder_seq_length: 512
  max_position_embeddings: 512
  tokenizer: {library: huggingface, type: tok}
  data: {data_prefix: [1.0, data/shakespeare], splits_string: "980,10,10", seq_length: 512}
  optim: {name: adamw, lr: 6.0e-4, weight_decay: 0.1, betas: [0.9, 0.95], sched: {name: CosineAnnealing, warmup_steps: 50, min_lr: 6.0e-5}}
)");
  EXPECT_EQ(run.name, "shakespeare");
  EXPECT_EQ(run.batch.global(), 16);
  EXPECT_EQ(run.model.head_size(), 64);
  EXPECT_EQ(run.model.hidden_dropout, 0.0);
  EXPECT_EQ(run.data.seq_length, 512);
  EXPECT_EQ(run.data.data_prefix.blend[0].prefix, "data/shakespeare");
}

TEST(RunConfig, ShortFormsAndSpellings) {
  const RunConfig run = parse_run_config(
      "model: {tokenizer: tok, data: some/prefix, encoder_seq_length: 64}\ntrainer: {precision: 16-mixed, "
      "max_time: 90m}\n",
      std::vector<std::string>{"model.data.eod_mask_loss=true", "model.bias=false"});
  EXPECT_EQ(run.tokenizer.type, "tok");
  EXPECT_EQ(run.data.data_prefix.blend[0].prefix, "some/prefix");
  EXPECT_EQ(run.data.seq_length, 64);
  EXPECT_EQ(run.model.max_positions(), 64);
  EXPECT_TRUE(run.data.eod_mask_loss);
  EXPECT_EQ(run.trainer.precision, train::Precision::kFp16);
  EXPECT_EQ(run.trainer.max_time->seconds, 5400);
  EXPECT_EQ(run.model.bias, model::BiasKind::kNone);
  EXPECT_EQ(parse_run_config("trainer: {precision: 32}").trainer.precision, train::Precision::kFp32);
}

TEST(RunConfig, ContradictorySizesAreRefused) {
  EXPECT_THAT(
      error_of("model:\n  hidden_size: 100\n  num_attention_heads: 7\n"),
      AllOf(HasSubstr("model.hidden_size (text:2)"), HasSubstr("not divisible by num_attention_heads 7")));
  EXPECT_EQ(error_of("model: {hidden_size: 100, num_attention_heads: 7, kv_channels: 16}"), "(no error)");
  EXPECT_THAT(error_of("model: {num_attention_heads: 12, num_query_groups: 5}"),
              HasSubstr("num_query_groups 5"));
  EXPECT_THAT(error_of("model: {encoder_seq_length: 512, data: {seq_length: 256}}"),
              HasSubstr("contradicts"));
  EXPECT_THAT(error_of("model: {encoder_seq_length: 512, max_position_embeddings: 256}"),
              HasSubstr("do not fit"));
  EXPECT_THAT(error_of("model: {micro_batch_size: 3, global_batch_size: 8}"),
              HasSubstr("multiple of micro_batch_size"));
  EXPECT_THAT(error_of("model: {global_batch_size: 8, rampup_batch_size: [2, 4, 100]}"),
              HasSubstr("never equals 8"));
  EXPECT_THAT(error_of("model: {global_batch_size: 8, rampup_batch_size: [2, 4]}"), HasSubstr("3 values"));
  EXPECT_THAT(error_of("model: {optim: {lr: 1e-4, sched: {min_lr: 1e-3}}}"), HasSubstr("above lr"));
  EXPECT_THAT(error_of("model: {optim: {betas: [0.9, 1.0]}}"), HasSubstr("below 1"));
  EXPECT_THAT(error_of("model: {position_embedding_type: rope, rope_scaling: {type: yarn}}"),
              HasSubstr("needs a factor"));
  EXPECT_THAT(
      error_of("model: {position_embedding_type: rope, rope_scaling: {type: longrope, short_factor: [1]}}"),
      HasSubstr("longrope needs 32"));
  EXPECT_THAT(error_of("model: {rope_scaling: {type: linear, factor: 2}}"),
              HasSubstr("only with position_embedding_type rope"));
  EXPECT_THAT(error_of("model: {position_embedding_type: rope, rotary_percentage: 0.01}"),
              HasSubstr("pairs"));
  EXPECT_THAT(error_of("model: {activations_checkpoint_granularity: full}"), HasSubstr("needs a method"));
  EXPECT_THAT(error_of("model: {cpu_offloading: true, activations_checkpoint_granularity: full, "
                       "activations_checkpoint_method: uniform}"),
              HasSubstr("keep nothing to move"));
  EXPECT_THAT(error_of("model: {cpu_offloading: true, cpu_offloading_weights: true}"),
              HasSubstr("only activations are moved"));
  EXPECT_THAT(error_of("model: {cpu_offloading: true, cpu_offloading_activations: false}"),
              HasSubstr("moves nothing"));
  EXPECT_THAT(error_of("model: {num_layers: 2, cpu_offloading: true, cpu_offloading_num_layers: 3}"),
              HasSubstr("more than num_layers 2"));
  EXPECT_THAT(error_of("model: {data: {splits_string: \"a,b\"}}"), HasSubstr("980,10,10"));
  EXPECT_THAT(error_of("model: {data: {data_prefix: [1.0, a, 2.0]}}"), HasSubstr("[weight, path"));
  EXPECT_THAT(error_of("model: {data: {data_prefix: [-1.0, a]}}"), HasSubstr("weights above 0"));
  EXPECT_THAT(error_of("trainer: {max_time: soon}"), HasSubstr("DD:HH:MM:SS"));
  EXPECT_THAT(error_of("max_steps: 3"), HasSubstr("'trainer.max_steps'"));
  EXPECT_THAT(error_of("model: {hiden_size: 3}"), HasSubstr("'model.hidden_size'"));
}

TEST(RunConfig, ShownConfigurationReadsBack) {
  for (const char* text : {"{}", kNemoFile}) {
    const std::string shown = show_run_config(parse_run_config(text));
    EXPECT_EQ(show_run_config(parse_run_config(shown)), shown);
  }
}

TEST(Presets, EveryFileIsValid) {
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator(test::source_dir() / "configs")) {
    if (entry.is_directory()) continue;  // clusters and calibrations of the planner
    SCOPED_TRACE(entry.path().string());
    config::Report report;
    RunConfig run;
    ASSERT_NO_THROW(run = load_run_config(entry.path().string(), {}, &report));
    EXPECT_TRUE(report.ignored.empty() && report.notes.empty());
    EXPECT_EQ(run.name, entry.path().stem().string());
    ++count;
  }
  EXPECT_GE(count, 14U);
}

// Parameters by the sizes of a preset; the published counts of these models.
TEST(Presets, HaveTheSizesOfTheirNames) {
  const std::pair<const char*, double> kExpected[] = {
      {"gpt2-124m", 124.4e6},        {"gpt2-355m", 354.8e6},    {"gpt2-774m", 774.0e6},
      {"gpt2-1.5b", 1557.6e6},       {"gpt-126m", 125.2e6},     {"gpt-5b", 5.05e9},
      {"gpt-20b", 20.2e9},           {"gpt-40b", 39.1e9},       {"gpt-175b", 174.6e9},
      {"gpt-530b", 529.6e9},         {"gpt-1t", 1008e9},        {"llama-1b", 1.2358e9},
      {"llama-7b", 6.738e9},         {"mixtral-8x7b", 46.70e9}, {"pythia-1.4b", 1.4146e9},
      {"phi3-mini", 3.821e9},        {"olmo2-7b", 7.299e9},     {"gemma2-2b", 2.614e9},
      {"gemma3-1b", 0.9999e9},       {"bloom-560m", 559.2e6},   {"bloom-176b", 176.2e9},
      {"deepseek-v3-671b", 671.0e9}, {"gpt-oss-20b", 20.91e9},  {"gpt-oss-120b", 116.83e9},
      {"qwen3-next-80b", 79.67e9},   {"llama3-8b", 8.030e9},    {"llama3-70b", 70.55e9},
      {"llama3-405b", 405.85e9}};
  for (const auto& [name, expected] : kExpected) {
    config::Report report;
    const auto m = load_run_config((test::source_dir() / "configs" / (std::string(name) + ".yaml")).string(),
                                   {}, &report)
                       .model;
    const double parameters = static_cast<double>(model::parameter_count(model::resolve_model(m)));
    EXPECT_NEAR(parameters, expected, expected * 0.003) << name;
  }
}

TEST(Presets, EncodersHaveTheSizesOfTheirNames) {
  for (const auto& [name, expected] : {std::pair{"bert-110m", 109.5e6}, std::pair{"bert-4b", 3.86e9},
                                       std::pair{"bert-20b", 21.95e9}, std::pair{"bert-100b", 98.2e9}}) {
    const auto path = test::source_dir() / "configs" / (std::string(name) + ".yaml");
    const auto spec = model::resolve_model(load_run_config(path.string(), {}).model);
    EXPECT_NEAR(static_cast<double>(model::parameter_count(spec)), expected, expected * 0.005) << name;
  }
}

TEST(Presets, AreFoundByName) {
  ASSERT_FALSE(presets_directory().empty());
  EXPECT_EQ(load_run_config("tiny", std::vector<std::string>{"model.num_layers=2"}).model.num_layers, 2);
  EXPECT_THROW(load_run_config("gpt2-124", {}), ConfigError);
}

TEST(Presets, ChangesAgainstThemAreListed) {
  const auto changes = [&](const std::string& config, const std::vector<std::string>& overrides) {
    const auto found = changes_against_preset(config, load_run_config(config, overrides));
    std::string text = found.preset + ":";
    for (const auto& c : found.changes) text += fmt::format(" {} {}->{}", c.path, c.from, c.to);
    return text;
  };
  EXPECT_EQ(changes("tiny", {}), "tiny:");
  const std::vector<std::string> two{"model.num_layers=6", "model.optim.betas=[0.8,0.9]"};
  EXPECT_EQ(changes("tiny", two), "tiny: model.num_layers 4->6 model.optim.betas [0.9, 0.95]->[0.8, 0.9]");
  const TestFolder folder;
  const fs::path file = folder / "changes.yaml";
  write_text(file, "base: tiny\nmodel: {num_layers: 2}\n");
  EXPECT_EQ(changes(file.string(), {}), "tiny: model.num_layers 4->2");
  write_text(file, "trainer: {max_steps: 7}\n");
  EXPECT_EQ(changes(file.string(), {}), ": trainer.max_steps null->7");
}

TEST(ConfigCommand, ReferencePageIsUpToDate) {
  EXPECT_EQ(read_text(test::source_dir() / "docs" / "configuration.md"), reference_page())
      << "write it anew: stoa config reference > docs/configuration.md";
}

TEST(ConfigCommand, ShowsAndRefuses) {
  Console console(Console::Level::kQuiet);
  InterruptScope interrupt(console);
  Context context{console, interrupt};
  const auto run = [&](std::vector<std::string> arguments) {
    CLI::App app;
    add_config_command(app, context);
    std::reverse(arguments.begin(), arguments.end());
    testing::internal::CaptureStdout();
    try {
      app.parse(arguments);
    } catch (...) {
      testing::internal::GetCapturedStdout();
      throw;
    }
    return testing::internal::GetCapturedStdout();
  };
  EXPECT_THAT(run({"config", "show", "tiny", "model.num_layers=3", "--output", "runs/x y"}),
              AllOf(HasSubstr("num_layers: 3"), HasSubstr("explicit_log_dir: runs/x y")));
  EXPECT_THAT(run({"config", "show", "tiny", "--json"}), HasSubstr("\"num_layers\": 4"));
  EXPECT_THAT(run({"config", "check", "tiny"}), HasSubstr("valid"));
  EXPECT_THAT(run({"config", "reference"}), HasSubstr("# Configuration reference"));
  EXPECT_THROW(run({"config", "check", "tiny", "model.nope=1"}), ConfigError);
  EXPECT_THROW(run({"config", "show"}), UsageError);
}

// Layouts that do not fit: one message with the rule, the values and the nearest valid choices.
constexpr const char* kSixLayers =
    "trainer: {max_steps: 1}\n"
    "model: {num_layers: 6, hidden_size: 48, num_attention_heads: 4, encoder_seq_length: 30, "
    "max_position_embeddings: 30, micro_batch_size: 1, global_batch_size: 6}\n";

TEST(RunConfigLayout, GoodLayoutsPass) {
  EXPECT_EQ(error_of(kSixLayers, {"trainer.devices=6"}), "(no error)");
  EXPECT_EQ(
      error_of(kSixLayers, {"trainer.devices=4", "trainer.num_nodes=3", "model.tensor_model_parallel_size=2",
                            "model.pipeline_model_parallel_size=3", "model.sequence_parallel=true"}),
      "(no error)");
}

TEST(RunConfigLayout, WhatDoesNotFitIsSaidOnce) {
  EXPECT_THAT(error_of(kSixLayers, {"trainer.devices=4", "model.tensor_model_parallel_size=3"}),
              AllOf(HasSubstr("tensor_model_parallel_size 3"), HasSubstr("must divide the 4 ranks"),
                    HasSubstr("use 3 or 6 ranks")));
  EXPECT_THAT(error_of(kSixLayers, {"trainer.devices=4"}),
              AllOf(HasSubstr("global_batch_size 6"), HasSubstr("4 data-parallel ranks"),
                    HasSubstr("the nearest are 4 or 8")));
  EXPECT_THAT(error_of(kSixLayers, {"model.tensor_model_parallel_size=8"}),
              AllOf(HasSubstr("num_attention_heads 4"), HasSubstr("at most 4")));
  EXPECT_THAT(error_of(kSixLayers, {"model.pipeline_model_parallel_size=4"}),
              AllOf(HasSubstr("6 layers"), HasSubstr("4 chunks"), HasSubstr("4 or 8 layers")));
  EXPECT_THAT(error_of(kSixLayers, {"model.tensor_model_parallel_size=4", "model.sequence_parallel=true"}),
              AllOf(HasSubstr("30 tokens"), HasSubstr("nearest are 3 or 5")));
  EXPECT_THAT(error_of(kSixLayers, {"model.pipeline_schedule=1f1g"}), HasSubstr("1f1b"));
  EXPECT_THAT(error_of(kSixLayers, {"model.tensor_model_parallel_size=2", "model.sequence_parallel=true",
                                    "model.encoder_seq_length=1", "model.max_position_embeddings=1"}),
              AllOf(HasSubstr("1 tokens"), HasSubstr("the nearest is 1")));
  // What a step would find only later.
  EXPECT_THAT(error_of(kSixLayers, {"model.fp8=hybrid", "model.hidden_size=40"}),
              HasSubstr("fp8: hidden_size 40 is not a multiple of 16"));
  EXPECT_THAT(error_of(kSixLayers, {"model.fp8=hybrid", "model.ffn_hidden_size=72"}),
              HasSubstr("fp8: ffn_hidden_size 72 gives a rank 72 columns"));
  EXPECT_THAT(error_of(kSixLayers, {"model.fp8=hybrid", "model.tensor_model_parallel_size=2",
                                    "model.num_attention_heads=6"}),
              HasSubstr("fp8: the 3 heads of a rank have 24 channels"));
  EXPECT_EQ(error_of(kSixLayers, {"model.fp8=hybrid"}), "(no error)");
  const std::vector<std::string> ramp{"model.pipeline_model_parallel_size=2",
                                      "model.virtual_pipeline_model_parallel_size=3",
                                      "model.rampup_batch_size=[1,1,6]"};
  EXPECT_THAT(error_of(kSixLayers, ramp), HasSubstr("rampup_batch_size: with a batch of 1: "));
  // Several at once.
  EXPECT_THAT(
      error_of(kSixLayers, {"trainer.devices=4", "model.pipeline_model_parallel_size=4",
                            "model.tensor_model_parallel_size=8"}),
      AllOf(HasSubstr("must divide the 4 ranks"), HasSubstr("num_attention_heads 4"), HasSubstr("4 chunks")));
}

// The places before a message are those of the keys that it names.
TEST(RunConfigMessages, NameThePlacesThatMatter) {
  const std::string error = error_of("model:\n  hidden_size: 100\n  num_attention_heads: 7\n");
  EXPECT_THAT(error,
              AllOf(HasSubstr("model.hidden_size (text:2)"), HasSubstr("model.num_attention_heads (text:3)"),
                    HasSubstr("hidden_size 100 is not divisible")));
  EXPECT_THAT(error, Not(AnyOf(HasSubstr("num_query_groups"), HasSubstr("ffn_hidden_size"),
                               HasSubstr("encoder_seq_length"))));
  EXPECT_THAT(
      error_of("model: {bias: none, num_moe_experts: 4, moe_router_topk: 3, moe_router_num_groups: 2, "
               "moe_router_group_topk: 1, moe_router_score_function: sigmoid}"),
      HasSubstr("moe_router_topk 3 is more than the 2 experts of one group (moe_router_group_topk)"));
}

// A key that would do nothing is refused; where a later layer made it so, or in NeMo's files, it is reported.
TEST(KeyConditions, WhatChangesNothingIsRefused) {
  EXPECT_THAT(error_of("model: {rotary_base: 500}"),
              AllOf(HasSubstr("text:1: model.rotary_base: 500 has no effect"),
                    HasSubstr("is used only with position_embedding_type rope"), HasSubstr("leave it out")));
  EXPECT_EQ(error_of("model: {rotary_base: 500, position_embedding_type: rope}"), "(no error)");
  EXPECT_EQ(error_of("model: {rotary_base: 10000}"), "(no error)");  // the default
  EXPECT_THAT(error_of("model: {optim: {muon_momentum: 0.5}}"),
              HasSubstr("is used only with optim.name muon"));
  EXPECT_THAT(error_of("model: {t5: {seq_length_dec: 5}}"), HasSubstr("is used only with kind t5"));
  EXPECT_THAT(error_of("trainer: {sample_max_tokens: 5}"), HasSubstr("is used only with sample_prompts"));

  config::Report report;
  const std::string file = "model: {rotary_base: 500, position_embedding_type: rope}";
  const RunConfig later =
      parse_run_config(file, std::vector<std::string>{"model.position_embedding_type=alibi"}, &report);
  ASSERT_EQ(report.notes.size(), 1u);
  EXPECT_THAT(report.notes[0], AllOf(HasSubstr("model.rotary_base (text:1)"), HasSubstr("has no effect")));
  EXPECT_EQ(later.model.rotary_base, RunConfig().model.rotary_base);
  EXPECT_EQ(show_run_config(parse_run_config(show_run_config(later))), show_run_config(later));

  report = {};
  parse_run_config("run: {}\nmodel: {rotary_base: 500}", {}, &report);
  EXPECT_THAT(report.ignored, Contains(HasSubstr("model.rotary_base (text:2): used only with")));
}

TEST(KeyConditions, NameKeysThatExist) {
  const auto section = run_schema();
  const config::Schema& schema = section.schema();
  const RunConfig defaults;
  for (const auto& condition : key_conditions()) {
    for (const auto& key : condition.keys)
      EXPECT_TRUE(key.ends_with(".*") ? schema.is_section(key.substr(0, key.size() - 2))
                                      : schema.find(key) != nullptr)
          << key;
    for (const auto& key : condition.on) EXPECT_NE(schema.find(key), nullptr) << key;
  }
}

// What people have in the names of their files.
TEST(ConfigFiles, NamesWithLineBreaksAndBracesAreNames) {
  const auto type = [](const std::string& name) {
    return parse_run_config("", std::vector<std::string>{"model.tokenizer.type=" + name})
        .tokenizer.type.value_or("");
  };
  EXPECT_EQ(type("a\nb"), "a\nb");
  EXPECT_EQ(type("a{b}c"), "a{b}c");
  EXPECT_EQ(type("'{x}/tok'"), "{x}/tok");
  EXPECT_THAT(error_of("", {"model.tokenizer.type={x}/tok"}), HasSubstr("text that begins with a brace"));
}

TEST(ConfigFiles, PipesAndDirectoriesAreNamed) {
  const TestFolder folder;
  fs::create_directories(folder / "run");
  write_text(folder / "run/config.yaml", "name: x\n");
  const auto error = [&](const fs::path& file) {
    try {
      load_run_config(file.string(), {});
    } catch (const ConfigError& refused) {
      return std::string(refused.what());
    }
    return std::string("(no error)");
  };
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(error(folder / "pipe"), HasSubstr("is a pipe or a device, expected a file"));
  EXPECT_THAT(error(folder / "run"), AllOf(HasSubstr("is a directory"), HasSubstr("run/config.yaml'")));
  EXPECT_THAT(error("/dev/null"), HasSubstr("is a pipe or a device"));
}

}  // namespace
}  // namespace stoa::cli

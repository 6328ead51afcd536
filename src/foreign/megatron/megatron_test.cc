#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/test_folder.h"
#include "base/test_paths.h"
#include "foreign/megatron/command_line.h"
#include "foreign/megatron/current.h"
#include "foreign/megatron/shell_script.h"
#include "foreign/megatron/table.h"
#include "foreign/megatron_arguments.h"

namespace stoa::foreign {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kSmall =
    "--num-layers 61 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --vocab-size 100 "
    "--micro-batch-size 1 ";

MegatronArguments read_small(const std::string& more, MegatronOptions options = {}) {
  return read_megatron_arguments(kSmall + more, options);
}

std::string message_of(const std::string& text, const MegatronOptions& options = {}) {
  try {
    read_megatron_arguments(text, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

bool any_with(const std::vector<std::string>& lines, std::string_view part) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const auto& l) { return l.find(part) != std::string::npos; });
}

TEST(MegatronTable, HasEachArgumentOnceWithAReason) {
  std::set<std::string_view> names;
  for (const MegatronTheme& theme : megatron_themes())
    for (const MegatronArgument& a : theme.arguments) {
      EXPECT_TRUE(names.insert(a.name).second) << a.name << " stands twice";
      EXPECT_FALSE(a.text.empty()) << a.name;
      EXPECT_TRUE(a.neutral.empty() || a.use == Use::kRefused || a.use == Use::kNotTrained) << a.name;
      if (a.use == Use::kKey) {
        EXPECT_EQ(a.arity == Arity::kFlag, a.text.find('=') != std::string_view::npos) << a.name;
        EXPECT_TRUE(a.arity == Arity::kFlag || a.arity == Arity::kOne) << a.name;
      }
    }
  EXPECT_GT(names.size(), 1000u);
  for (const char* old : {"checkpoint-activations", "activations-checkpoint-method", "DDP-impl", "zero-stage",
                          "deepspeed", "partition-activations", "pipeline-model-parallel-layout"})
    EXPECT_TRUE(names.contains(old)) << old;
}

TEST(MegatronTable, ItsPageIsCurrent) {
  EXPECT_TRUE(read_text(test::source_dir() / "docs" / "megatron-arguments.md") == megatron_table_page())
      << "write it anew: stoa config megatron-arguments > docs/megatron-arguments.md";
}

TEST(MegatronCommand, TakesItsWordsApartAsArgparseDoes) {
  const MegatronCommand command =
      read_megatron_command(shell_words("torchrun --nproc-per-node=8 --nnodes 2 pretrain_gpt.py "
                                        "--num-layers=24 --bf16 --iterations-to-skip 3 -4 5 "
                                        "--data-path 0.5 a 0.5 b --lr 1 --lr 2"));
  EXPECT_EQ(command.script, "pretrain_gpt.py");
  EXPECT_EQ(command.devices, 8);
  EXPECT_EQ(command.nodes, 2);
  ASSERT_EQ(command.arguments.size(), 5u);
  EXPECT_THAT(command.arguments[0].values, ElementsAre("24"));
  EXPECT_THAT(command.arguments[1].values, ElementsAre());
  EXPECT_THAT(command.arguments[2].values, ElementsAre("3", "-4", "5"));
  EXPECT_THAT(command.arguments[3].values, ElementsAre("0.5", "a", "0.5", "b"));
  EXPECT_THAT(command.arguments[4].values, ElementsAre("2")) << "the last one counts";
}

TEST(MegatronCommand, ValuesTooManyOrMissingAreErrors) {
  EXPECT_THAT(message_of("--num-layers"), HasSubstr("--num-layers takes one value, got none"));
  EXPECT_THAT(message_of("--num-layers 2 3"),
              HasSubstr("'3' belongs to no argument: --num-layers takes one value"));
  EXPECT_THAT(message_of("--bf16 true"), HasSubstr("'true' belongs to no argument: --bf16 takes no value"));
  EXPECT_THAT(message_of("--bf16=true"), HasSubstr("--bf16 takes no value, got 'true'"));
  EXPECT_THAT(message_of("--num-layers --bf16"), HasSubstr("--num-layers takes one value"));
  // Megatron's parser does not accept abbreviations (allow_abbrev=False).
  EXPECT_THAT(message_of(kSmall + "--tensor-model-parallel 2"),
              HasSubstr("--tensor-model-parallel (did you mean 'tensor-model-parallel-size'?)"));
}

TEST(MegatronArguments, WhatIsNotHonouredIsAnErrorUnlessIgnored) {
  const std::string three = "--fp16-lm-cross-entropy --fp4-format e2m1 --optimizer-cpu-offload";
  const std::string message = message_of(kSmall + three);
  EXPECT_THAT(message, HasSubstr("these 3 arguments"));
  EXPECT_THAT(message, HasSubstr("--fp4-format e2m1 (FP4 GEMMs"));
  EXPECT_THAT(message,
              HasSubstr("--ignore fp16-lm-cross-entropy --ignore fp4-format --ignore optimizer-cpu-offload"));
  const auto read =
      read_small(three, {{}, {"fp16-lm-cross-entropy", "--fp4-format", "optimizer-cpu-offload"}});
  EXPECT_TRUE(any_with(read.notes, "left out by --ignore: --fp4-format e2m1"));
  EXPECT_THAT(message_of(kSmall, {{}, {"fp4-format"}}), HasSubstr("the command line of Megatron-LM has no"));
  // A value that asks for what Stoa does anyway.
  EXPECT_TRUE(any_with(read_small("--output-logit-dtype fp32 --mtp-num-layers 0").ignored,
                       "--output-logit-dtype fp32"));
  for (const char* refused :
       {"--exp-avg-dtype bf16", "--main-grads-dtype bf16", "--recompute-activations --recompute-modules mhc",
        "--partition-activations", "--checkpoint-in-cpu", "--cpu-optimizer", "--optimizer lion", "--spec a b",
        "--hybrid-layer-pattern MEM*"})
    EXPECT_THAT(message_of(kSmall + refused), HasSubstr("Stoa does not do what")) << refused;
}

// Plans estimate what Megatron-LM trains and Stoa does not; runs are refused by the argument.
TEST(MegatronArguments, WhatIsOnlyEstimatedIsPlanned) {
  const std::pair<const char*, const char*> estimated[] = {
      {"--mtp-num-layers 1", "model.mtp_num_layers=1"},
      {"--hybrid-layer-pattern M-*-", "model.hybrid_override_pattern='M-*-'"},
      {"--fp8-format hybrid --fp8-param-gather", "model.fp8_params=true"},
      {"--fp8-format hybrid --fp8-recipe mxfp8", "model.fp8_blocks=mxfp8"},
      {"--recompute-activations --recompute-modules mlp core_attn", "model.recompute_modules=[mlp]"},
      {"--moe-layer-recompute", "model.recompute_modules=[moe]"},
      {"--use-precision-aware-optimizer --exp-avg-dtype bf16", "model.exp_avg_dtype=bf16"},
      {"--use-tp-pp-dp-mapping", "model.use_tp_pp_dp_mapping=true"},
      {"--num-distributed-optimizer-instances 2", "model.num_distributed_optimizer_instances=2"},
      {"--num-experts 8 --overlap-moe-expert-parallel-comm", "model.overlap_moe_expert_parallel_comm=true"}};
  for (const auto& [text, key] : estimated) {
    EXPECT_THAT(read_small(text).overrides, Contains(key)) << text;
    for (const Purpose purpose : {Purpose::kTrain, Purpose::kBench})
      EXPECT_THAT(message_of(kSmall + text, {{}, {}, purpose, {}}), HasSubstr("Stoa does not do what"))
          << text;
    EXPECT_TRUE(any_with(read_small(text, {{}, {}, Purpose::kShow, {}}).notes, "Plans estimate it")) << text;
  }
  const auto stages =
      read_small("--pipeline-model-parallel-size 2 --hybrid-layer-pattern M-M|*-M|M|-").overrides;
  EXPECT_THAT(stages, Contains("model.num_layers=8"));
  EXPECT_THAT(stages, Contains("model.pipeline_layers=[3, 3, 1, 1]"));
  EXPECT_THAT(stages, Contains("model.virtual_pipeline_model_parallel_size=2"));
  EXPECT_THAT(message_of(kSmall + "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout Et|tmL"),
              HasSubstr("--mtp-num-layers is 0"));
  const auto split = [&](const std::string& layout) {
    return message_of(kSmall + "--mtp-num-layers 2 --pipeline-model-parallel-size 2 " +
                      "--pipeline-model-parallel-layout " + layout);
  };
  EXPECT_EQ(split("Et*30|t*31mmL"), "");
  for (const char* layout : {"Et*30mm|t*31L", "Et*30m|t*31mL"})
    EXPECT_THAT(split(layout), HasSubstr("(m) outside the last stage")) << layout;
}

TEST(MegatronArguments, WhatChangesNothingIsCounted) {
  const auto read = read_small("--save x --no-gradient-accumulation-fusion --use-precision-aware-optimizer");
  EXPECT_TRUE(any_with(read.ignored, "--save x (has no effect in this command: when training"));
  EXPECT_TRUE(any_with(read.ignored, "--no-gradient-accumulation-fusion ("));
  EXPECT_TRUE(any_with(read.ignored, "--use-precision-aware-optimizer ("));
  EXPECT_TRUE(
      any_with(read_small("--kv-lora-rank 32").ignored, "--kv-lora-rank 32 (has no effect in this command"));
}

TEST(MegatronArguments, AnUnknownArgumentNamesTheNearest) {
  EXPECT_THAT(message_of(kSmall + "--micro-batchsize 2"), HasSubstr("(did you mean 'micro-batch-size'?)"));
  EXPECT_THAT(message_of(kSmall + "--some-new-option 7"),
              HasSubstr("neither Megatron-LM nor Megatron-DeepSpeed has the argument --some-new-option"));
  read_small("--some-new-option 7", {{}, {"some-new-option"}});
}

TEST(MegatronArguments, BalancingSaysTheWordOfTheSchema) {
  const std::string experts = "--num-experts 8 --moe-aux-loss-coeff 0.01 --moe-router-load-balancing-type ";
  EXPECT_THAT(read_small(experts + "seq_aux_loss").overrides,
              Contains("model.moe_router_load_balancing_type=seq_aux_loss"));
  EXPECT_THAT(read_small(experts + "aux_loss").overrides,
              Contains("model.moe_router_load_balancing_type=seq_aux_loss"))
      << "with one sequence in a microbatch they are one";
  for (const std::string& other : {experts + "aux_loss --micro-batch-size 2", experts + "global_aux_loss",
                                   experts + "none --moe-apply-probs-on-input", std::string("--qk-l2-norm"),
                                   std::string("--position-embedding-type rope --rotary-interleaved")}) {
    EXPECT_TRUE(any_with(read_small(other).notes, "The plan is the same; 'stoa train' refuses it")) << other;
    for (const Purpose purpose : {Purpose::kTrain, Purpose::kBench})
      EXPECT_THAT(message_of(kSmall + other, {{}, {}, purpose, {}}), HasSubstr("Stoa does not do what"))
          << other;
  }
  EXPECT_THAT(message_of(kSmall + experts + "aux_loss --micro-batch-size 2", {{}, {}, Purpose::kTrain, {}}),
              HasSubstr("microbatches of several"));
  EXPECT_THAT(read_small("--qk-l2-norm").overrides, Contains("model.qk_layernorm=true"));
  EXPECT_THAT(message_of(kSmall + experts + "quantile_balancing"), HasSubstr("expected seq_aux_loss"));
}

TEST(MegatronArguments, WhatChangesTheNumbersOfATrainingAloneIsPlanned) {
  for (const char* other :
       {"--decoupled-lr 5e-4 --decoupled-min-lr 1e-5", "--apply-wd-to-qk-layernorm", "--fim-data",
        "--error-injection-rate 100", "--eval-global-batch-size 8", "--per-split-data-args-path x",
        "--num-experts 8 --moe-router-load-balancing-type sinkhorn"}) {
    EXPECT_TRUE(any_with(read_small(other).notes, "The plan is the same; 'stoa train' refuses it")) << other;
    EXPECT_THAT(message_of(kSmall + other, {{}, {}, Purpose::kTrain, {}}), HasSubstr("Stoa does not do what"))
        << other;
  }
  EXPECT_THAT(read_small("--num-experts 8 --moe-router-load-balancing-type sinkhorn").overrides,
              Contains("model.moe_router_load_balancing_type=none"));
  EXPECT_TRUE(any_with(read_small("--dataloader-type single").ignored, "asks for what Stoa does anyway"));
}

TEST(MegatronArguments, ListsOfLayers) {
  EXPECT_THAT(read_small("--num-experts 8 --moe-layer-freq ([0]*3+[1]*58)").overrides,
              Contains("model.moe_dense_layers=[0, 1, 2]"));
  EXPECT_THAT(read_small("--num-experts 8 --moe-layer-freq 2").overrides, Contains("model.moe_layer_freq=2"));
  EXPECT_THAT(read_small("--num-experts 8 --num-layers 4 --moe-layer-freq [1,0]*2").overrides,
              Contains("model.moe_dense_layers=[1, 3]"));
  EXPECT_THAT(message_of(kSmall + "--num-experts 8 --moe-layer-freq [0]*3"),
              HasSubstr("3 entries for 61 layers"));
  EXPECT_THAT(message_of(kSmall + "--num-experts 8 --moe-layer-freq print(1)"),
              HasSubstr("expected a whole number or a list"));
  EXPECT_THAT(read_small("--num-layers 4 --num-experts 8 --expert-interval 2").overrides,
              Contains("model.moe_dense_layers=[0, 2]"));
}

TEST(MegatronArguments, LayersOfEncoderAndDecoder) {
  const std::string rest = "--hidden-size 64 --num-attention-heads 4 --seq-length 32 --vocab-size 100 ";
  EXPECT_THAT(read_megatron_arguments(rest + "--encoder-num-layers 6").overrides,
              Contains("model.num_layers=6"));
  const auto t5 = read_megatron_arguments(
      "pretrain_t5.py " + rest + "--encoder-num-layers 6 --decoder-num-layers 4 --decoder-seq-length 16");
  EXPECT_THAT(t5.overrides, Contains("model.kind=t5"));
  EXPECT_THAT(t5.overrides, Contains("model.num_layers=10"));
  EXPECT_THAT(t5.overrides, Contains("model.t5.encoder_layers=6"));
  EXPECT_THAT(message_of(rest), HasSubstr("--num-layers is missing"));
}

TEST(MegatronArguments, TheGlobalBatchIsMicroTimesDataRanks) {
  const auto with = [&](const std::string& more, MegatronOptions options = {}) {
    return read_small("--micro-batch-size 2 --tensor-model-parallel-size 4 " + more, options).overrides;
  };
  EXPECT_THAT(with("", {64, {}}), Contains("model.global_batch_size=32"));
  EXPECT_THAT(with("", {}), Contains("model.global_batch_size=2"));
  EXPECT_THAT(
      read_megatron_arguments("torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py " + kSmall).overrides,
      Contains("model.global_batch_size=16"));
  EXPECT_TRUE(any_with(read_small("").notes, "--global-batch-size is not given: 1"));
  const auto other =
      read_megatron_arguments("torchrun --nproc_per_node 8 pretrain_gpt.py " + kSmall, {32, {}});
  EXPECT_TRUE(any_with(other.notes, "the command starts 8 ranks: read for 32"));
  EXPECT_FALSE(any_with(other.overrides, "trainer.devices"));
}

TEST(MegatronArguments, SamplesBecomeStepsWithTheRamp) {
  const auto steps = [&](const std::string& more) {
    for (const std::string& o : read_small(more).overrides)
      if (o.starts_with("trainer.max_steps=")) return o.substr(18);
    return std::string();
  };
  EXPECT_EQ(steps("--global-batch-size 8 --train-samples 801"), "100");
  // 2, 4 and 6 for 60 samples each (30, 15, 10 steps), then 8: 180 samples in 55 steps, 621 in 77.
  EXPECT_EQ(steps("--global-batch-size 8 --rampup-batch-size 2 2 180 --train-samples 801"), "132");
}

TEST(MegatronArguments, TheVocabularyIsSaid) {
  const std::string rest = "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 ";
  EXPECT_TRUE(any_with(read_megatron_arguments(rest).notes, "--vocab-size is not given: 50257 assumed"));
  EXPECT_TRUE(any_with(
      read_megatron_arguments(rest + "--tokenizer-type HuggingFaceTokenizer --tokenizer-model a/b").notes,
      "--tokenizer-model a/b is not here"));
  EXPECT_TRUE(any_with(read_megatron_arguments(rest + "--tokenizer-type BertWordPieceCase").notes, "28996"));
  const TestFolder folder;
  const fs::path file = folder / "vocabulary.txt";
  write_text(file, "a\nb\nc\n");
  EXPECT_THAT(read_megatron_arguments(rest + "--vocab-file " + file.string()).overrides,
              Contains("model.vocab_size=3"));
}

TEST(MegatronArguments, LatentAttentionHasMegatronsWidths) {
  const auto read = read_small(
      "--multi-latent-attention --qk-layernorm --normalization RMSNorm --disable-bias-linear --kv-channels "
      "16 --kv-lora-rank 512 --v-head-dim 64 --q-lora-rank 1536 "
      "--rotary-scaling-factor 40 --mscale 1.0 --mscale-all-dim 1.0");
  for (const char* expected : {"model.multi_latent_attention=true", "model.kv_lora_rank=512",
                               "model.v_head_dim=64", "model.q_lora_rank=1536", "model.qk_head_dim=128",
                               "model.rope_scaling.type=yarn", "model.rope_scaling.factor=40",
                               "model.rope_scaling.mscale_all_dim=1.0", "model.position_embedding_type=rope"})
    EXPECT_THAT(read.overrides, Contains(expected));
  EXPECT_FALSE(any_with(read.overrides, "model.kv_channels"));
  EXPECT_FALSE(any_with(read.overrides, "model.qk_layernorm"));
  EXPECT_THAT(message_of(kSmall + "--multi-latent-attention"), HasSubstr("it needs --qk-layernorm"));
}

TEST(MegatronArguments, LayoutsOfStages) {
  const auto small = read_small(
      "--num-layers 6 --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout Et|(tt|)*2,tL");
  EXPECT_THAT(small.overrides, Contains("model.pipeline_layers=[1, 2, 2, 1]"));
  EXPECT_THAT(small.overrides, Contains("model.virtual_pipeline_model_parallel_size=2"));
  EXPECT_THAT(
      message_of(kSmall + "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout Et|tt|L"),
      HasSubstr("3 parts cannot be distributed over 2 stages"));
  EXPECT_THAT(
      read_small("--num-layers 10 --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 "
                 "--decoder-first-pipeline-num-layers 4")
          .overrides,
      Contains("model.pipeline_layers=[2, 3, 2, 3]"));
}

TEST(MegatronArguments, OldNamesOfRecomputationAndZero) {
  const auto old = read_small(
      "--checkpoint-activations --deepspeed --deepspeed_config a.json --zero-stage 2 --DDP-impl local");
  EXPECT_THAT(old.overrides, Contains("model.activations_checkpoint_granularity=full"));
  EXPECT_THAT(old.overrides, Contains("model.activations_checkpoint_method=uniform"));
  EXPECT_THAT(old.overrides, Contains("model.activations_checkpoint_num_layers=1"));
  EXPECT_THAT(old.overrides, Contains("model.zero_stage=2"));
  EXPECT_THAT(
      read_small("--activations-checkpoint-method block --activations-checkpoint-num-layers 3").overrides,
      Contains("model.activations_checkpoint_num_layers=3"));
  EXPECT_THAT(message_of(kSmall + "--deepspeed --deepspeed_config a.json"),
              HasSubstr("give --zero-stage too"));
  EXPECT_THAT(read_small("--grad-reduce-in-bf16 --bf16").overrides,
              Contains("model.optim.grad_reduce_type=bf16"));
  EXPECT_THAT(read_small("--use-megatron-fsdp").overrides, Contains("model.zero_stage=3"));
  EXPECT_THAT(read_small("--ds-sequence-parallel-size 4").overrides, Contains("model.cp_comm_type=a2a"));
}

// A run: what it needs besides, or what to give instead.
class MegatronRun : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(directory_ / "tok"); }
  std::string at(const std::string& name) const { return (directory_ / name).string(); }
  static MegatronOptions options(std::vector<std::string> changes = {}) {
    return {{}, {}, Purpose::kTrain, std::move(changes)};
  }
  // Everything that a run needs but `without`.
  std::string command(std::string_view without = "") const {
    std::string text =
        "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --micro-batch-size 1";
    const std::pair<const char*, std::string> parts[] = {
        {"lr", "--lr 1e-3"},
        {"steps", "--train-iters 5"},
        {"tokenizer", "--tokenizer-type HuggingFaceTokenizer --tokenizer-model " + at("tok")},
        {"data", "--data-path a"}};
    for (const auto& [name, part] : parts)
      if (name != without) text += " " + part;
    return text + " ";
  }
  const TestFolder directory_;
};

TEST_F(MegatronRun, TakesDataTokenizerAndEnds) {
  const auto read = read_megatron_arguments(
      command("data") +
          "--data-path 0.3 a/b 0.7 c --split 90,5,5 --save out --load out --seed 7 --eval-iters "
          "3 --save-interval 4 --exit-interval 5 --vocab-size 100 --data-cache-path cache",
      options());
  for (const std::string& expected :
       {std::string("model.data.data_prefix=[0.3, \"a/b\", 0.7, \"c\"]"),
        std::string("model.data.splits_string=90,5,5"), std::string("model.data.index_mapping_dir=\"cache\""),
        std::string("exp_manager.explicit_log_dir=\"out\""), std::string("model.seed=7"),
        std::string("trainer.val_check_interval=1000"), std::string("trainer.limit_val_batches=3"),
        std::string("exp_manager.checkpoint_callback_params.every_n_train_steps=4"),
        std::string("model.tokenizer.library=huggingface"), "model.tokenizer.type=" + at("tok")})
    EXPECT_THAT(read.overrides, Contains(expected));
  EXPECT_FALSE(any_with(read.overrides, "model.vocab_size")) << "the tokenizer's size counts";
  const auto parts = read_megatron_arguments(
      command("data") + "--train-data-path a --valid-data-path 1 b 2 c --test-data-path d", options());
  EXPECT_THAT(
      parts.overrides,
      Contains("model.data.data_prefix={train: \"a\", validation: [1, \"b\", 2, \"c\"], test: \"d\"}"));
  const auto plain = read_megatron_arguments(command(), options());
  EXPECT_THAT(plain.overrides, Contains("model.data.splits_string=969,30,1"));
  EXPECT_THAT(plain.overrides, Contains("model.data.data_prefix=\"a\""));
  // A plan needs none of these.
  EXPECT_FALSE(any_with(read_megatron_arguments(command()).overrides, "model.data.data_prefix"));
}

TEST_F(MegatronRun, SaysWhatToGiveWhereSomethingIsMissing) {
  const std::pair<const char*, const char*> missing[] = {
      {"lr", "--lr is missing: give model.optim.lr=RATE"},
      {"steps", "--train-iters is missing: give trainer.max_steps=N"},
      {"tokenizer", "no tokenizer is named: give model.tokenizer=DIR"},
      {"data", "--data-path is missing: give model.data=PREFIX"}};
  const std::vector<std::string> changes{"model.optim.lr=1", "trainer.max_steps=2", "model.tokenizer=t",
                                         "+model.data=d"};
  for (const auto& [name, words] : missing) {
    EXPECT_THAT(message_of(command(name), options()), HasSubstr(words));
    EXPECT_EQ(message_of(command(name), options(changes)), "") << name;
    EXPECT_EQ(message_of(command(name)), "") << "a plan";
  }
  fs::create_directories(at("theirs"));
  write_text(at("theirs/latest_checkpointed_iteration.txt"), "7");
  const std::pair<std::string, std::string> refused[] = {
      {"--data-path a b c", "paths without weights"},
      {"--data-path a b", "give model.data=[WEIGHT, PREFIX"},
      {"--mock-data", "give model.data=PREFIX"},
      {"--data-impl lazy", "expected mmap"},
      {"--tokenizer-model nowhere/tok", "no tokenizer that Stoa reads is there: give model.tokenizer=DIR"},
      {"--exit-interval 3", "give --stop-after 3"},
      {"--load " + at("theirs"), "stoa checkpoint import"},
      {"--pretrained-checkpoint nowhere", "restore_from_path=MODEL"},
      {"--load nowhere --exit-on-missing-checkpoint", "there is no checkpoint"},
      {"--vocab-extra-ids 100", "<extra_id_0>"}};
  for (const auto& [more, words] : refused) {
    EXPECT_THAT(message_of(command() + more, options()), HasSubstr(words)) << more;
    EXPECT_EQ(message_of(command() + more), "") << "a plan: " << more;
  }
  EXPECT_TRUE(any_with(read_megatron_arguments(command() + "--load nowhere", options()).notes,
                       "begins with fresh weights"));
  EXPECT_EQ(message_of(command() + "--load " + at("theirs"), options({"restore_from_path=m"})), "");
}

TEST_F(MegatronRun, VariablesThatAScriptDoesNotSet) {
  const fs::path file = directory_ / "run.sh";
  write_text(file, "python pretrain_gpt.py " + command("data") +
                       "--data-path $DATA/x --save $OUT --load $OUT --tokenizer-model $TOK\n");
  try {
    read_megatron(file.string(), options());
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--data-path $DATA/x: give model.data=PREFIX"));
    EXPECT_THAT(error.what(), HasSubstr("--save $OUT: give --output DIR"));
    EXPECT_THAT(error.what(), HasSubstr("--tokenizer-model $TOK: "));
  }
  const auto read = read_megatron(
      file.string(), options({"model.data=d", "model.tokenizer=t", "exp_manager.explicit_log_dir=o"}));
  EXPECT_FALSE(any_with(read.overrides, "data_prefix"));
  EXPECT_FALSE(any_with(read.overrides, "tokenizer"));
}

TEST_F(MegatronRun, ABertHasMegatronsNormsAndItsHead) {
  const std::string bert = "pretrain_bert.py " + command();
  EXPECT_EQ(message_of(bert), "");
  for (const Purpose purpose : {Purpose::kTrain, Purpose::kBench})
    EXPECT_EQ(message_of(bert, {{}, {}, purpose, {}}), "");
  const auto read = read_megatron_arguments(bert);
  for (const char* key : {"model.bert.pre_norm=true", "model.bert.embedding_norm=false",
                          "model.bert.head_activation=gelu", "model.activation=gelu_tanh"})
    EXPECT_TRUE(any_with(read.overrides, key)) << key;
  // The types of segments are those of its question.
  const auto alone = read_megatron_arguments(bert + " --bert-no-binary-head --no-bias-gelu-fusion");
  for (const char* key :
       {"model.bert.binary_head=false", "model.bert.num_token_types=0", "model.activation=gelu"})
    EXPECT_TRUE(any_with(alone.overrides, key)) << key;
}

TEST_F(MegatronRun, ADisplaySaysWhatARunStillNeeds) {
  const auto shown = read_megatron_arguments(command("data") + "--save out", {{}, {}, Purpose::kShow, {}});
  EXPECT_TRUE(any_with(shown.notes, "before it can be trained: --data-path is missing"));
  EXPECT_THAT(shown.overrides, Contains("exp_manager.explicit_log_dir=\"out\""));
  EXPECT_THAT(shown.overrides, Contains("model.tokenizer.type=" + at("tok")));
}

TEST_F(MegatronRun, ARunResumesWithAllOfItsCheckpoint) {
  const std::string own = "--save " + at("run") + " --load " + at("run") + " ";
  for (const char* more : {"--finetune", "--no-load-optim", "--ckpt-step 3", "--reset-iteration"})
    EXPECT_EQ(message_of(command() + own + more, options()), "") << "nothing is there yet: " << more;
  fs::create_directories(at("run/checkpoints"));
  EXPECT_EQ(message_of(command() + own, options()), "");
  for (const char* more : {"--finetune", "--no-load-optim", "--ckpt-step 3", "--reset-iteration"})
    EXPECT_THAT(message_of(command() + own + more, options()), HasSubstr("with all of its newest checkpoint"))
        << more;
}

TEST(MegatronArguments, ProgramsThatDoNotPretrainAreRefused) {
  for (const char* program :
       {"tasks/main.py", "examples/multimodal/train.py", "evaluate_gpt.py",
        "tools/run_text_generation_server.py", "examples/mimo/train.py", "pretrain_vlm.py"})
    EXPECT_THAT(message_of(fmt::format("torchrun {} {}", program, kSmall)),
                HasSubstr("expected pretrain_gpt.py"))
        << program;
  for (const char* program : {"tasks/pretrain_gpt.py", "multimodal_team/train.py", "train_llama.py"})
    EXPECT_EQ(message_of(fmt::format("torchrun {} {}", program, kSmall)), "") << program;
  const std::string prompts = "python finetune_t0.py " + kSmall + " --norm-target-loss";
  EXPECT_EQ(message_of(prompts), "");
  EXPECT_THAT(message_of(prompts, {.ranks = {}, .ignore = {}, .purpose = Purpose::kTrain}),
              HasSubstr("prompts and their targets"));
}

TEST(MegatronArguments, WordsOfItsCopies) {
  EXPECT_THAT(read_small("--enable-gpt-oss").overrides,
              AllOf(Contains("model.position_embedding_type=rope"), Contains("model.rope_scaling.type=yarn"),
                    Contains("model.rope_scaling.factor=32")));
  EXPECT_THAT(read_small("--position-embedding-type rotary").overrides,
              Contains("model.position_embedding_type=rope"));
  EXPECT_THAT(read_small("--normalization rmsnorm").overrides, Contains("model.normalization=rmsnorm"));
}

// The list is what the parser of Megatron-LM, main of August 2026, takes.
TEST(MegatronCurrent, EveryArgumentIsCurrentOrHasAnotherWayNow) {
  const std::string list = read_text(test::source_dir() / "tests/fixtures/megatron/current_arguments.txt");
  const auto current = [&](const std::string& name) {
    return ("\n" + list).find("\n" + name + "\n") != std::string::npos;
  };
  ASSERT_TRUE(current("num-layers"));
  for (const std::string& name : megatron_argument_names()) {
    // In the list and retired: the parser takes these and says that they are deprecated.
    const bool says_so =
        name == "checkpoint-activations" || name == "model-parallel-size" || name == "moe-layer-recompute";
    EXPECT_EQ(current(name) && !says_so, !is_retired(name)) << name;
    const CurrentWords words = in_current_words({{name, {"1"}}}, {});
    EXPECT_EQ(words.arguments.size() + words.removed.size(), 1u) << name;
    for (const WrittenArgument& a : words.arguments) EXPECT_TRUE(current(a.name)) << name << " -> " << a.name;
    for (const std::string_view said : words.said_anew) EXPECT_TRUE(current(std::string(said))) << said;
  }
}

TEST(MegatronCurrent, TokensAreCountedInSamplesOrSteps) {
  const std::vector<WrittenArgument> plan{{"seq-length", {"2048"}}, {"global-batch-size", {"512"}}};
  const auto texts = [&](std::vector<WrittenArgument> given) {
    std::vector<std::string> out;
    for (const auto& a : in_current_words(std::move(given), plan).arguments) out.push_back(a.text());
    return out;
  };
  EXPECT_THAT(texts({{"train-tokens", {"2097152000"}}, {"lr-warmup-tokens", {"2048000"}}}),
              ElementsAre("--train-samples 1024000", "--lr-warmup-samples 1000"));
  // The first limit reached ends the run.
  EXPECT_THAT(texts({{"train-samples", {"500"}}, {"train-tokens", {"2097152000"}}}),
              ElementsAre("--train-samples 500"));
  EXPECT_THAT(texts({{"train-iters", {"100"}}, {"lr-decay-tokens", {"2097152000"}}}),
              ElementsAre("--train-iters 100", "--lr-decay-iters 2000"));
}

TEST(MegatronYaml, ReadsModelArguments) {
  const TestFolder folder;
  const fs::path file = folder / "model.yaml";
  write_text(file,
             "MODEL_ARGS:\n  --num-layers: 12\n  --hidden-size: 512\n  --num-attention-heads: 8\n"
             "  --seq-length: 1024\n  --bf16: true\n  --fp16: false\n  --data-path: ${DATA}/x\n  "
             "--vocab-size: 100\n"
             "  --micro-batch-size: 4\n  --global-batch-size: 8\n  --rampup-batch-size: 4 4 8\n");
  const auto read = read_megatron(file.string());
  EXPECT_THAT(read.overrides, Contains("trainer.precision=bf16"));
  EXPECT_THAT(read.overrides, Contains("model.rampup_batch_size=[4, 4, 8]"));
  EXPECT_TRUE(any_with(read.ignored, "--data-path $DATA/x"));
  const std::string twice =
      "MODEL_ARGS:\n  --num-layers: 12\n  --hidden-size: 512\n  --hidden-size: 64\n  "
      "--num-attention-heads: 8\n  --seq-length: 32\n  --vocab-size: 100\n";
  write_text(file, twice);
  EXPECT_THAT(read_megatron(file.string()).overrides, Contains("model.hidden_size=64"));
  EXPECT_TRUE(any_with(read_megatron(file.string()).notes, "--hidden-size is given twice"));
  for (const auto& [text, message] :
       {std::pair{"model: 1\n", "no MODEL_ARGS"},
        {"num_layers: 12\nhidden_size: 8\n", "GPT-NeoX"},
        {"MODE: inference\nMODEL_ARGS:\n  --num-layers: 2\n", "MODE: inference"},
        {"MODEL_ARGS:\n  --trainer.devices: 8\n", "argument of NeMo 2"}}) {
    write_text(file, text);
    try {
      read_megatron(file.string());
      ADD_FAILURE() << text;
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr(message));
    }
  }
  EXPECT_THAT([] { read_megatron(std::string("train.py")); },
              ::testing::ThrowsMessage<UsageError>(HasSubstr("--from-megatron train.py: no argument in it")));
  const MegatronText vision =
      megatron_text(MegatronText::Kind::kYaml, twice, "test_cases/multimodal-llava/a/model_config.yaml");
  EXPECT_THROW(read_megatron(vision), UsageError);
}

}  // namespace
}  // namespace stoa::foreign

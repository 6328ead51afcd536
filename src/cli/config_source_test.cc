#include "cli/config_source.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/test_folder.h"
#include "cli/schema.h"
#include "foreign/megatron_arguments.h"

namespace stoa::cli {
namespace {

constexpr const char* kMegatron =
    "torchrun --nproc-per-node 8 --nnodes 2 pretrain_gpt.py --use-mcore-models --num-layers 24 --hidden-size "
    "4096 "
    "--num-attention-heads 32 --group-query-attention --num-query-groups 8 --seq-length 2048 "
    "--max-position-embeddings 2048 --position-embedding-type rope --swiglu --normalization RMSNorm "
    "--disable-bias-linear --untie-embeddings-and-output-weights --ffn-hidden-size 14336 --vocab-size 32000 "
    "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage "
    "2 "
    "--sequence-parallel --use-distributed-optimizer --micro-batch-size 1 --global-batch-size 128 --bf16 "
    "--adam-beta2 0.95 --lr 3e-4 --save /checkpoints --no-gradient-accumulation-fusion --overlap-grad-reduce "
    "--recompute-granularity full --recompute-method block --recompute-num-layers 1 --hidden-dropout 0 "
    "--attention-dropout 0";

FoundConfig of_megatron(std::string text, std::vector<std::string> overrides = {}) {
  ConfigArguments arguments;
  arguments.from_megatron = std::move(text);
  arguments.overrides = std::move(overrides);
  return read_config(arguments, Purpose::kPlan);
}

TEST(ConfigSource, ReadsMegatronArguments) {
  const FoundConfig plan = of_megatron(kMegatron);
  const train::RunConfig& run = plan.run;
  EXPECT_EQ(run.model.num_layers, 24);
  EXPECT_EQ(run.model.query_groups(), 8);
  EXPECT_EQ(run.model.activation, model::Activation::kSwiglu);
  EXPECT_EQ(run.model.normalization, model::Normalization::kRmsNorm);
  EXPECT_FALSE(run.model.share_embeddings_and_output_weights);
  EXPECT_EQ(run.layout.tensor_model_parallel_size, 2);
  EXPECT_EQ(run.layout.virtual_pipeline_model_parallel_size, 3);  // 24 / 4 / 2
  EXPECT_EQ(run.layout.zero_stage, 1);
  EXPECT_TRUE(run.sharding.overlap_grad_sync);
  EXPECT_EQ(run.trainer.devices, 8);
  EXPECT_EQ(run.trainer.num_nodes, 2);
  EXPECT_DOUBLE_EQ(run.optim.betas[1], 0.95);
  EXPECT_EQ(run.model.recompute.num_layers, 1);
  const auto ignored = [&](const char* name) {
    return std::any_of(plan.ignored.begin(), plan.ignored.end(),
                       [&](const std::string& line) { return line.starts_with(name); });
  };
  EXPECT_TRUE(ignored("--save"));
  EXPECT_TRUE(ignored("--no-gradient-accumulation-fusion"));
}

TEST(ConfigSource, ReadsMegatronsCapacityOfExperts) {
  const FoundConfig plan =
      of_megatron(std::string(kMegatron) +
                  " --num-experts 8 --moe-router-topk 2 --moe-expert-capacity-factor 1.5 "
                  "--moe-pad-expert-input-to-capacity --moe-token-drop-policy position");
  EXPECT_EQ(plan.run.model.moe.moe_expert_capacity_factor, 1.5);
  EXPECT_TRUE(plan.run.model.moe.moe_pad_expert_input_to_capacity);
  EXPECT_EQ(plan.run.model.moe.moe_token_drop_policy, model::TokenDropPolicy::kPosition);
}

TEST(ConfigSource, ReadsWhatMegatronSaysOfEightBits) {
  const model::Fp8Config all =
      of_megatron(std::string(kMegatron) +
                  " --fp8-format e4m3 --fp8-recipe delayed --fp8-margin 2 --fp8-amax-history-len 16 "
                  "--fp8-amax-compute-algo max --no-fp8-wgrad --first-last-layers-bf16 "
                  "--num-layers-at-start-in-bf16 2 --num-layers-at-end-in-bf16 3")
          .run.model.fp8;
  EXPECT_EQ(all.fp8, model::Fp8Format::kE4M3);
  EXPECT_EQ(all.fp8_recipe, model::Fp8Recipe::kDelayed);
  EXPECT_EQ(all.fp8_margin, 2);
  EXPECT_EQ(all.fp8_amax_history_len, 16);
  EXPECT_EQ(all.fp8_amax_compute_algo, model::Fp8AmaxAlgorithm::kMax);
  EXPECT_FALSE(all.fp8_wgrad);
  EXPECT_TRUE(all.first_last_layers_bf16);
  EXPECT_EQ(all.num_layers_at_start_in_bf16, 2);
  EXPECT_EQ(all.num_layers_at_end_in_bf16, 3);
  // Its defaults, where it has 8 bits at all.
  const model::Fp8Config least = of_megatron(std::string(kMegatron) + " --fp8-format hybrid").run.model.fp8;
  EXPECT_EQ(least.fp8, model::Fp8Format::kHybrid);
  EXPECT_EQ(least.fp8_recipe, model::Fp8Recipe::kDelayed);
  EXPECT_EQ(least.fp8_amax_history_len, 1);
  EXPECT_EQ(least.fp8_amax_compute_algo, model::Fp8AmaxAlgorithm::kMostRecent);
  EXPECT_TRUE(least.fp8_wgrad);
  const FoundConfig none = of_megatron(kMegatron);
  EXPECT_FALSE(none.run.model.fp8.fp8);
  for (const std::string& note : none.notes) EXPECT_EQ(note.find("fp8"), std::string::npos) << note;
  EXPECT_EQ(of_megatron(std::string(kMegatron) + " --fp8-format hybrid --fp8-recipe mxfp8")
                .run.estimated.fp8_blocks,
            model::Fp8Blocks::kMxfp8);
}

TEST(ConfigSource, MegatronsDefaultsCount) {
  const FoundConfig plan =
      of_megatron("--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --vocab-size 100");
  EXPECT_EQ(plan.run.trainer.precision, train::Precision::kFp32);
  EXPECT_DOUBLE_EQ(plan.run.model.hidden_dropout, 0.1);
  EXPECT_FALSE(plan.notes.empty());
}

TEST(ConfigSource, OverridesComeAfterMegatronArguments) {
  EXPECT_EQ(of_megatron(kMegatron, {"model.micro_batch_size=2"}).run.batch.micro_batch_size, 2);
}

TEST(ConfigSource, WrongMegatronArgumentsAreNamed) {
  const auto message = [](const char* text) {
    try {
      foreign::read_megatron_arguments(text);
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_NE(message("--num-layers").find("--num-layers takes one value"), std::string::npos);
  EXPECT_NE(
      message("--hidden-size 64 --num-attention-heads 4 --seq-length 8").find("--num-layers is missing"),
      std::string::npos);
  EXPECT_NE(message("--num-layers 'two").find("not closed"), std::string::npos);
  EXPECT_NE(message("--num-layers 10 --hidden-size 64 --num-attention-heads 4 --seq-length 8 "
                    "--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 3")
                .find("must be a multiple"),
            std::string::npos);
}

class SourceFiles : public ::testing::Test {
 protected:
  FoundConfig read(const fs::path& path, std::vector<std::string> overrides = {}) {
    ConfigArguments arguments;
    arguments.config = path.string();
    arguments.overrides = std::move(overrides);
    return read_config(arguments, Purpose::kPlan);
  }
  const TestFolder directory_;
};

TEST_F(SourceFiles, ReadsRecipesOfNemo2) {
  const fs::path file = directory_ / "recipe.yaml";
  write_text(
      file,
      "_target_: nemo.collections.llm.api.pretrain\n"
      "model:\n  _target_: nemo.collections.llm.gpt.model.llama.LlamaModel\n  config:\n"
      "    _target_: nemo.collections.llm.gpt.model.llama.Llama3Config70B\n    seq_length: 8192\n"
      "trainer:\n  _target_: nemo.lightning.pytorch.trainer.Trainer\n  devices: 8\n  num_nodes: 4\n"
      "  max_steps: 1000\n  strategy:\n"
      "    _target_: nemo.lightning.pytorch.strategies.megatron_strategy.MegatronStrategy\n"
      "    tensor_model_parallel_size: 4\n    pipeline_model_parallel_size: 4\n"
      "    virtual_pipeline_model_parallel_size: 5\n    sequence_parallel: true\n"
      "  plugins:\n    _target_: nemo.lightning.pytorch.plugins.mixed_precision.MegatronMixedPrecision\n"
      "    precision: bf16-mixed\n    fp8: hybrid\n    fp8_recipe: delayed\n    fp8_margin: 1\n"
      "    fp8_amax_history_len: 16\n    fp8_amax_compute_algo: most_recent\n    fp8_wgrad: false\n"
      "    first_last_layers_bf16: true\n    num_layers_at_start_in_bf16: 2\n"
      "data: {global_batch_size: 128, micro_batch_size: 1, seq_length: 8192}\n"
      "optim:\n  config: {lr: 0.0003, use_distributed_optimizer: true, adam_beta1: 0.9, adam_beta2: 0.95}\n"
      "log: {ckpt: {save_last: true}}\n");
  const FoundConfig plan = read(file);
  EXPECT_EQ(plan.run.model.num_layers, 80);
  EXPECT_EQ(plan.run.model.query_groups(), 8);
  EXPECT_EQ(plan.run.model.encoder_seq_length, 8192);
  EXPECT_EQ(plan.run.layout.virtual_pipeline_model_parallel_size, 5);
  EXPECT_EQ(plan.run.layout.zero_stage, 1);
  EXPECT_EQ(plan.run.batch.global(), 128);
  const model::Fp8Config& fp8 = plan.run.model.fp8;
  EXPECT_EQ(fp8.fp8, model::Fp8Format::kHybrid);
  EXPECT_EQ(fp8.fp8_recipe, model::Fp8Recipe::kDelayed);
  EXPECT_EQ(fp8.fp8_margin, 1);
  EXPECT_EQ(fp8.fp8_amax_history_len, 16);
  EXPECT_EQ(fp8.fp8_amax_compute_algo, model::Fp8AmaxAlgorithm::kMostRecent);
  EXPECT_FALSE(fp8.fp8_wgrad);
  EXPECT_TRUE(fp8.first_last_layers_bf16);
  EXPECT_EQ(fp8.num_layers_at_start_in_bf16, 2);
  EXPECT_TRUE(std::any_of(plan.ignored.begin(), plan.ignored.end(),
                          [](const std::string& line) { return line.starts_with("log.ckpt.save_last"); }));
}

TEST_F(SourceFiles, UnknownRecipesSayWhatIsMissing) {
  const fs::path file = directory_ / "recipe.yaml";
  write_text(file, "model: {config: {_target_: nemo.collections.llm.Llama4Config8B}}\n");
  try {
    read(file);
    FAIL() << "expected an error";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("Llama4Config8B"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("model.config.num_layers"), std::string::npos);
  }
}

TEST_F(SourceFiles, ReadsHuggingFaceConfigurations) {
  write_text(
      directory_ / "config.json",
      R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
                 "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
                 "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
                 "tie_word_embeddings": false})");
  for (const fs::path& path : {directory_.path(), directory_ / "config.json"}) {
    const FoundConfig plan = read(path, {"model.tensor_model_parallel_size=4"});
    EXPECT_EQ(plan.run.model.num_layers, 32);
    EXPECT_EQ(plan.run.model.encoder_seq_length, 4096);
    EXPECT_EQ(plan.run.layout.tensor_model_parallel_size, 4);
    EXPECT_FALSE(plan.notes.empty()) << "says how long samples are";
  }
  EXPECT_EQ(read(directory_.path(), {"model.encoder_seq_length=8192"}).run.model.encoder_seq_length, 8192);
}

TEST_F(SourceFiles, AModelGivesARunItsTokenizerAndWeights) {
  write_text(directory_ / "config.json",
             R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
                 "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 300,
                 "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "tie_word_embeddings": false})");
  ConfigArguments arguments;
  arguments.config = directory_.path().string();
  FoundConfig found = read_config(arguments, Purpose::kTrain);
  EXPECT_FALSE(found.run.restore_from_path);
  EXPECT_FALSE(found.run.tokenizer.type);
  EXPECT_FALSE(found.notes.empty()) << "says that weights are fresh";
  write_text(directory_ / "tokenizer.json", "{}");
  write_text(directory_ / "model.safetensors", "");
  found = read_config(arguments, Purpose::kTrain);
  EXPECT_EQ(found.run.restore_from_path, directory_.path().string());
  EXPECT_EQ(found.run.tokenizer.type, directory_.path().string());
  EXPECT_FALSE(read_config(arguments, Purpose::kBench).run.restore_from_path);
  arguments.overrides = {"restore_from_path=null", "model.tokenizer=tok"};
  found = read_config(arguments, Purpose::kTrain);
  EXPECT_FALSE(found.run.restore_from_path);
  EXPECT_EQ(found.run.tokenizer.type, "tok");
  EXPECT_EQ(arguments.stoa_file(), "");
}

TEST_F(SourceFiles, ChangesWithoutEffectAreRefusedWhateverTheyChange) {
  const fs::path json = directory_ / "config.json";
  write_text(json, R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
                       "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 300,
                       "max_position_embeddings": 128})");
  ConfigArguments from_json, from_megatron;
  from_json.config = json.string();
  from_megatron.from_megatron = kMegatron;
  for (ConfigArguments arguments : {from_json, from_megatron}) {
    arguments.overrides = {"model.optim.muon_momentum=0.9"};
    EXPECT_THROW(read_config(arguments, Purpose::kPlan), ConfigError);
    arguments.overrides.push_back("model.optim.name=muon");
    EXPECT_DOUBLE_EQ(read_config(arguments, Purpose::kPlan).run.optim.muon_momentum, 0.9);
  }
}

// Random data, as NeMo's recipes name, is enough for planning and benchmarks.
TEST_F(SourceFiles, RecipesOfNemo2AreTrainedOnlyWithData) {
  const fs::path file = directory_ / "recipe.yaml";
  write_text(file, "model: {config: {_target_: nemo.collections.llm.Llama3Config8B}}\n");
  ConfigArguments arguments;
  arguments.config = file.string();
  for (const Purpose looked_at : {Purpose::kPlan, Purpose::kShow, Purpose::kBench})
    EXPECT_EQ(read_config(arguments, looked_at).run.model.num_layers, 32);
  EXPECT_THROW(read_config(arguments, Purpose::kTrain), ConfigError);
}

TEST_F(SourceFiles, ADirectoryWithoutAConfigurationSaysSo) {
  EXPECT_THROW(read(directory_.path()), ConfigError);
}

TEST(ConfigSource, NothingGivenSaysWhatToGive) {
  EXPECT_THROW(read_config({}, Purpose::kPlan), UsageError);
  ConfigArguments both;
  both.config = "gpt-5b";
  both.from_megatron = kMegatron;
  EXPECT_THROW(read_config(both, Purpose::kPlan), UsageError);
}

TEST(ConfigSource, FilesOfProgramsThatTuneAreNamed) {
  const TestFolder folder;
  const auto message_of = [&](const char* yaml) {
    write_text(folder / "a.yaml", yaml);
    try {
      (void)load_run_config((folder / "a.yaml").string(), {});
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("read");
  };
  for (const auto& [yaml, program] :
       {std::pair{"base_model: a/b\nadapter: lora\nsequence_len: 2048\n", "axolotl"},
        {"model_name_or_path: a/b\nstage: sft\nfinetuning_type: lora\n", "LLaMA-Factory"},
        {"model_name_or_path: a/b\nlearning_rate: 1e-5\n", "TRL"},
        {"model:\n  _component_: torchtune.models.llama3.llama3_8b\n", "torchtune"}}) {
    const std::string message = message_of(yaml);
    EXPECT_NE(message.find(std::string("its keys are those of ") + program), message.npos) << message;
    EXPECT_NE(message.find("stoa finetune MODEL --data"), message.npos) << message;
  }
}

}  // namespace
}  // namespace stoa::cli

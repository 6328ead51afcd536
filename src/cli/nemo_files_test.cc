// Files of NeMo's launcher and examples as they lie there: composed by Hydra, with what they leave open.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "base/test_folder.h"
#include "cli/config_source.h"

namespace stoa::cli {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr const char* kTraining = R"(
defaults:
  - _self_
  - optional tp_overlap@model.ub_tp_comm_overlap_cfg:
hydra: {searchpath: ["file:///opt/NeMo"]}
run: {name: small, results_dir: "${base_results_dir}/${.name}"}
trainer: {num_nodes: 2, devices: 4, accelerator: gpu, precision: bf16, max_steps: 10, max_epochs: -1}
exp_manager:
  explicit_log_dir: ${training.run.results_dir}/results
  create_wandb_logger: False
  checkpoint_callback_params:
    model_parallel_size: ${multiply:${training.model.tensor_model_parallel_size}, 2}
model:
  mcore_gpt: True
  micro_batch_size: 2
  global_batch_size: 16
  tensor_model_parallel_size: 2
  pipeline_model_parallel_size: 1
  encoder_seq_length: 64
  num_layers: 4
  hidden_size: 32
  ffn_hidden_size: ${multiply:4, ${.hidden_size}}
  num_attention_heads: 4
  activations_checkpoint_granularity: null
  activations_checkpoint_method: block
  activations_checkpoint_num_layers: 0
  tokenizer:
    library: megatron
    type: GPT2BPETokenizer
    vocab_file: ${data_dir}/bpe/vocab.json
    merge_file: ${data_dir}/bpe/merges.txt
  optim: {name: distributed_fused_adam, lr: 1e-4, sched: {name: CosineAnnealing, warmup_steps: 1, min_lr: 1e-5}}
  data: {data_impl: mmap, seq_length: 64, data_prefix: [1.0, "${data_dir}/text_document"]}
)";

class NemoFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(conf_ / "training/gpt3");
    write_text(conf_ / "config.yaml",
               "defaults:\n  - _self_\n  - cluster: bcm\n  - training: gpt3/small\n  - evaluation: null\n"
               "  - override hydra/job_logging: stdout\nhydra: {run: {dir: .}}\nstages: [training]\n"
               "launcher_scripts_path: ???\ndata_dir: ${launcher_scripts_path}/data\n"
               "base_results_dir: ${launcher_scripts_path}/results\n");
    write_text(training(), kTraining);
  }
  fs::path training() const { return conf_ / "training/gpt3/small.yaml"; }

  FoundConfig read(const fs::path& path, std::vector<std::string> overrides = {}) {
    ConfigArguments arguments;
    arguments.config = path.string();
    arguments.overrides = std::move(overrides);
    return read_config(arguments, Purpose::kPlan);
  }
  std::string error_of_run(const fs::path& path, std::vector<std::string> overrides = {}) {
    ConfigArguments arguments;
    arguments.config = path.string();
    arguments.overrides = std::move(overrides);
    try {
      read_config(arguments, Purpose::kTrain);
    } catch (const Error& error) {
      return error.what();
    }
    return "(no error)";
  }
  const TestFolder conf_;
};

TEST_F(NemoFiles, ATrainingFileAndTheConfigurationAroundItAreOne) {
  for (const fs::path& path : {training(), conf_ / "config.yaml"}) {
    const FoundConfig plan = read(path);
    EXPECT_EQ(plan.run.model.ffn_hidden_size, 128) << path;
    EXPECT_EQ(plan.run.model.vocab_size, 50257);
    EXPECT_EQ(plan.run.layout.tensor_model_parallel_size, 2);
    EXPECT_EQ(plan.run.layout.zero_stage, 1) << "the optimizer is distributed";
    EXPECT_EQ(plan.run.model.recompute.granularity, model::RecomputeGranularity::kNone);
    EXPECT_EQ(plan.run.batch.global(), 16);
    EXPECT_FALSE(plan.run.trainer.max_epochs);
    EXPECT_DOUBLE_EQ(plan.run.model.embedding_dropout, 0.1) << "NeMo's default of the layers";
    EXPECT_THAT(plan.notes, Contains(HasSubstr("GPT2BPETokenizer")));
    EXPECT_THAT(plan.notes, Contains(AllOf(HasSubstr("left open"), HasSubstr("model.data.data_prefix"))));
  }
  EXPECT_THAT(read(conf_ / "config.yaml").notes, Contains(HasSubstr("cluster, evaluation")));
}

TEST_F(NemoFiles, OverridesAreThoseOfTheLauncherOrOfStoa) {
  write_text(
      conf_ / "training/gpt3/large.yaml",
      "defaults: [gpt3/small, _self_]\nmodel: {num_layers: 8, activations_checkpoint_granularity: full}\n");
  const FoundConfig plan =
      read(conf_ / "config.yaml", {"training=gpt3/large", "training.model.hidden_size=64",
                                   "model.micro_batch_size=1", "data_dir=/d", "base_results_dir=/r"});
  EXPECT_EQ(plan.run.model.num_layers, 8);
  EXPECT_EQ(plan.run.model.recompute.method, model::RecomputeMethod::kBlock);
  EXPECT_EQ(plan.run.model.hidden_size, 64);
  EXPECT_EQ(plan.run.model.ffn_hidden_size, 256);
  EXPECT_EQ(plan.run.batch.micro_batch_size, 1);
  EXPECT_EQ(plan.run.exp_manager.explicit_log_dir, "/r/small/results");
  ASSERT_EQ(plan.run.data.data_prefix.blend.size(), 1U);
  EXPECT_THAT(plan.run.data.data_prefix.blend[0].prefix, HasSubstr("/d/text_document"));
  EXPECT_THROW(read(conf_ / "config.yaml", {"training=gpt3/none"}), ConfigError);
  EXPECT_THROW(read(training(), {"data_dri=/d"}), ConfigError) << "no reference asks for it";
  EXPECT_THROW(read(training(), {"model.hiden_size=64"}), ConfigError);
}

TEST_F(NemoFiles, ARunNeedsWhatAPlanLeavesOpen) {
  EXPECT_THAT(error_of_run(training()),
              AllOf(HasSubstr("data_dir is not given"), HasSubstr("base_results_dir is not given"),
                    HasSubstr("model.tokenizer.vocab_file")));
  EXPECT_THAT(error_of_run(conf_ / "config.yaml"), HasSubstr("launcher_scripts_path"));
  ConfigArguments arguments;
  arguments.config = training().string();
  for (const Purpose others : {Purpose::kShow, Purpose::kBench})
    EXPECT_THAT(read_config(arguments, others).notes, Contains(HasSubstr("data_dir is not given")));
  EXPECT_EQ(error_of_run(training(), {"data_dir=/d", "base_results_dir=/r"}), "(no error)");
}

TEST_F(NemoFiles, EnvironmentVariablesAreRead) {
  write_text(training(), std::string(kTraining) + "restore_from_path: ${oc.env:STOA_NEMO_TEST,null}\n" +
                             "name: ${oc.env:STOA_NEMO_NAME,'some name'}\n");
  EXPECT_FALSE(read(training()).run.restore_from_path);
  EXPECT_EQ(read(training()).run.name, "some name");
  setenv("STOA_NEMO_NAME", "other", 1);
  EXPECT_EQ(read(training()).run.name, "other");
  unsetenv("STOA_NEMO_NAME");
}

TEST_F(NemoFiles, KeysWithOtherMeaningsAreTranslated) {
  const FoundConfig plan = read(
      training(), {"+model.window_size=[31,0]", "+model.openai_gelu=true", "+model.override_vocab_size=1000",
                   "+model.scale_positional_embedding=true", "model.position_embedding_type=rope"});
  EXPECT_EQ(plan.run.model.window_size, 32);
  EXPECT_EQ(plan.run.model.activation, model::Activation::kGeluTanh);
  EXPECT_EQ(plan.run.model.vocab_size, 1000);
  EXPECT_EQ(plan.run.model.rope_scaling.type, model::RopeScaling::kLlama3);
  EXPECT_EQ(
      read(training(), {"+model.fsdp=true", "+model.fsdp_sharding_strategy=full"}).run.layout.zero_stage, 3);
  EXPECT_EQ(read(training(), {"model.zero_stage=0"}).run.layout.zero_stage, 0) << "the user's own word";
  EXPECT_THROW(read(training(), {"+model.fsdp=true", "+model.fsdp_sharding_strategy=hybrid"}), ConfigError);
  // Of its two optimizers with sharded states, one reads these.
  for (const char* key : {"+model.optim.dtype=bf16", "+model.do_layer_norm_weight_decay=true"}) {
    EXPECT_THROW(read(training(), {key, "model.optim.name=distributed_fused_adam"}), ConfigError) << key;
    EXPECT_THAT(read(training(), {key, "model.optim.name=mcore_distributed_optim"}).notes,
                testing::Contains(HasSubstr("NeMo does not read it")))
        << key;
  }
  const auto fp8 = read(training(), {"+model.fp8=true", "+model.fp8_e4m3=false", "+model.fp8_hybrid=true"});
  EXPECT_EQ(fp8.run.model.fp8.fp8, model::Fp8Format::kHybrid);
  EXPECT_EQ(fp8.run.model.fp8.fp8_recipe, model::Fp8Recipe::kDelayed);
}

TEST_F(NemoFiles, ABertHasMegatronsNormsAndItsHead) {
  const fs::path file = conf_ / "bert.yaml";
  write_text(
      file,
      "name: megatron_bert\ntrainer: {accelerator: gpu, devices: 1, num_nodes: 1}\nmodel:\n"
      "  mcore_bert: true\n  bert_binary_head: false\n  micro_batch_size: 1\n  encoder_seq_length: 32\n"
      "  num_layers: 2\n  hidden_size: 32\n  num_attention_heads: 4\n");
  for (const Purpose purpose : {Purpose::kPlan, Purpose::kShow, Purpose::kBench}) {
    ConfigArguments arguments;
    arguments.config = file.string();
    const model::BertConfig bert = read_config(arguments, purpose).run.model.bert;
    EXPECT_TRUE(bert.pre_norm);
    EXPECT_FALSE(bert.embedding_norm);
    EXPECT_EQ(bert.head_activation, model::Activation::kGelu);
    EXPECT_EQ(bert.num_token_types, 0);
  }
}

TEST_F(NemoFiles, EncoderDecodersAreOfTwoStacks) {
  const std::string stack =
      "    hidden_size: 32\n    num_attention_heads: 4\n    ffn_hidden_size: 64\n    activation: geglu\n"
      "    hidden_dropout: 0.2\n    arch: transformer\n";
  const fs::path file = conf_ / "t5.yaml";
  const auto write = [&](const std::string& encoder, const std::string& decoder) {
    write_text(file,
               "name: megatron_t5\ntrainer: {accelerator: gpu, devices: 1, num_nodes: 1}\nmodel:\n"
               "  micro_batch_size: 1\n  seq_length: 64\n  encoder:\n    num_layers: 2\n" +
                   stack + encoder + "  decoder:\n    num_layers: 4\n" + stack + decoder +
                   "  data: {dataset_type: t5, seq_length: 64, seq_length_dec: 32}\n");
  };
  write("", "");
  const FoundConfig plan = read(file);
  EXPECT_EQ(plan.run.model.kind, model::ModelKind::kT5);
  EXPECT_EQ(plan.run.model.num_layers, 6);
  EXPECT_EQ(plan.run.model.t5.encoder_layers, 2);
  EXPECT_EQ(plan.run.model.t5.seq_length_dec, 32);
  EXPECT_TRUE(plan.run.model.t5.scale_attention);
  EXPECT_EQ(plan.run.model.activation, model::Activation::kGeglu);
  EXPECT_DOUBLE_EQ(plan.run.model.hidden_dropout, 0.2);
  write("    kv_channels: 8\n", "    kv_channels: 16\n");
  EXPECT_THROW(read(file), ConfigError) << "stacks of Stoa are alike";
}

}  // namespace
}  // namespace stoa::cli

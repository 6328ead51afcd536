// Every kind of configuration in every command that takes one: Stoa's YAML, a preset, a model directory, its
// config.json, a script of Megatron-LM, a file of NeMo.
#include <gmock/gmock.h>

#include "base/file.h"
#include "workplace.h"

namespace stoa::e2e {
namespace {

using ::testing::HasSubstr;

constexpr const char* kNemo = R"yaml(
name: nemo_gpt
trainer: {devices: 1, num_nodes: 1, accelerator: gpu, precision: 32, max_steps: 2, log_every_n_steps: 1, val_check_interval: 2, limit_val_batches: 1}
exp_manager: {explicit_log_dir: "${results}/out", create_wandb_logger: false}
model:
  mcore_gpt: true
  num_layers: 2
  hidden_size: 32
  ffn_hidden_size: ${multiply:4, ${.hidden_size}}
  num_attention_heads: 2
  encoder_seq_length: 32
  max_position_embeddings: 32
  micro_batch_size: 2
  global_batch_size: 4
  tokenizer: {library: huggingface, type: tok}
  data: {data_impl: mmap, seq_length: 32, splits_string: "90,10,0", data_prefix: [1.0, "${data_dir}/data"]}
  optim: {name: fused_adam, lr: 1e-3, sched: {name: CosineAnnealing, warmup_steps: 1, min_lr: 1e-4}}
)yaml";

class ConfigSources : public Workplace {
 protected:
  void SetUp() override {
    Workplace::SetUp();
    write_text(path("train.sh"), R"sh(#!/bin/bash
GPUS_PER_NODE=1
CHECKPOINT_PATH=one
MODEL_ARGS=(
    --num-layers 2
    --hidden-size $((2 * 16))
    --num-attention-heads 2
    --seq-length 32
    --max-position-embeddings 32
    --hidden-dropout 0
    --attention-dropout 0
    --transformer-impl transformer_engine
)
TRAINING_ARGS="--micro-batch-size 2 --global-batch-size 4 --train-iters 2 --lr 1e-3 --min-lr 1e-4
    --lr-decay-style cosine --lr-warmup-iters 1 --clip-grad 0.5 --weight-decay 0.1 --adam-beta2 0.95 --seed 7"
DATA_ARGS="--data-path data --split 90,10,0 --tokenizer-type HuggingFaceTokenizer --tokenizer-model tok"
OUTPUT_ARGS="--log-interval 1 --save-interval 1 --eval-interval 2 --eval-iters 1"
torchrun --nproc_per_node $GPUS_PER_NODE pretrain_gpt.py ${MODEL_ARGS[@]} $TRAINING_ARGS $DATA_ARGS $OUTPUT_ARGS \
    --save $CHECKPOINT_PATH --load $CHECKPOINT_PATH --tensorboard-dir $CHECKPOINT_PATH/board
)sh");
  }
};

constexpr const char* kTwin = R"yaml(
name: twin
trainer:
  devices: 1
  max_steps: 2
  precision: fp32
  gradient_clip_val: 0.5
  log_every_n_steps: 1
  val_check_interval: 2
  limit_val_batches: 1
exp_manager:
  checkpoint_callback_params: {every_n_train_steps: 1}
model:
  num_layers: 2
  hidden_size: 32
  num_attention_heads: 2
  encoder_seq_length: 32
  max_position_embeddings: 32
  hidden_dropout: 0
  attention_dropout: 0
  activation: gelu_tanh  # what Megatron-LM's fused kernel of bias and GELU computes
  position_embedding_type: learned_absolute
  fp32_residual_connection: false
  micro_batch_size: 2
  global_batch_size: 4
  seed: 7
  tokenizer: tok
  data: {data_prefix: data, splits_string: "90,10,0"}
  optim:
    name: adamw
    lr: 1e-3
    weight_decay: 0.1
    betas: [0.9, 0.95]
    sched: {name: CosineAnnealing, warmup_steps: 1, min_lr: 1e-4}
)yaml";

TEST_F(ConfigSources, TrainsAsTheSameConfigurationInYaml) {
  write_text(path("twin.yaml"), kTwin);
  const Arguments script{"--from-megatron", "train.sh"};
  stoa_ok(Arguments{"train"} + script + Arguments{"--threads", "1"});
  stoa_ok({"train", "twin.yaml", "--threads", "1", "--output", "two"});
  expect_same("one", "two");
  // What `config show` prints is the same run.
  write_text(path("shown.yaml"), stoa_ok(Arguments{"config", "show"} + script).out);
  stoa_ok({"train", "shown.yaml", "--threads", "1", "--output", "three"});
  expect_same("one", "three");
  // Keys after the command count.
  stoa_ok(Arguments{"train"} + script +
          Arguments{"--threads", "1", "trainer.max_steps=1", "--output", "four"});
  EXPECT_EQ(metrics("four").size(), 1u);
  EXPECT_EQ(metrics("one").size(), 2u);
}

TEST_F(ConfigSources, EveryCommandReadsEveryKind) {
  write_text(path("twin.yaml"), kTwin);
  write_text(path("nemo.yaml"), kNemo);
  stoa_ok(train("first", {"trainer.max_steps=1", "model.optim.sched.warmup_steps=0"}));
  const std::string model = "first/checkpoints/latest/model";
  // What a model directory and a preset leave to the command.
  const Arguments rest{
      "model.data=data",           "trainer.max_steps=2",         "trainer.precision=fp32",
      "model.global_batch_size=4", "trainer.log_every_n_steps=1", "model.optim.sched.warmup_steps=1"};
  const std::map<std::string, Arguments> kinds{
      {"Stoa", {"twin.yaml"}},
      {"preset", micro_model() + Arguments{"model.tokenizer=tok"} + rest},
      {"directory", Arguments{model} + rest},
      {"config.json", Arguments{model + "/config.json"} + rest},
      {"Megatron", {"--from-megatron", "train.sh"}},
      {"NeMo", {"nemo.yaml", "data_dir=.", "results=runs"}}};
  // Without the measurement of the machine's peak, which takes longer than all the rest.
  const Arguments reference{"--backend", "reference"};
  for (const auto& [kind, source] : kinds) {
    SCOPED_TRACE(kind);
    const auto shown = json_of(Arguments{"config", "show", "--json"} + source);
    EXPECT_EQ(shown["model"]["hidden_size"], 32);
    EXPECT_EQ(shown["trainer"]["max_steps"], 2);
    write_text(path("shown.yaml"), stoa_ok(Arguments{"config", "show"} + source).out);
    EXPECT_EQ(json_of({"config", "check", "--json", "shown.yaml"})["valid"], true);
    EXPECT_EQ(json_of(Arguments{"config", "check", "--json"} + source)["valid"], true);
    EXPECT_EQ(json_of(Arguments{"data", "show", "--json", "--step", "2"} + source)["steps"], 2);
    const auto bench =
        json_of(Arguments{"bench", "train", "--json", "--steps", "1", "--warmup", "0", "--threads", "1"} +
                reference + source);
    EXPECT_EQ(bench["sequence"], 32);
    EXPECT_GT(json_of(Arguments{"plan", "memory", "--json"} + source)["total_bytes"].get<double>(), 0);
    const Arguments cluster{"--cluster", "dgx-a100-80gb", "--json"};
    EXPECT_FALSE(json_of(Arguments{"plan", "predict", "--ranks", "1"} + cluster + source).empty());
    EXPECT_FALSE(json_of(Arguments{"plan", "search", "--gpus", "1"} + cluster + source).empty());
    EXPECT_FALSE(json_of(Arguments{"plan", "advise", "--gpus", "1"} + cluster + source).empty());
    EXPECT_FALSE(json_of(Arguments{"plan", "inference", "--batch", "1", "--input", "4", "--output", "4"} +
                         cluster + source)
                     .empty());
    stoa_ok(Arguments{"train", "--threads", "1", "--output", "run of " + kind} + source);
    EXPECT_EQ(metrics("run of " + kind).size(), 2u);
  }
  const auto check = json_of({"config", "check", "--json", "--from-megatron", "train.sh"});
  EXPECT_THAT(check["ignored"].dump(), HasSubstr("--transformer-impl"));
  EXPECT_EQ(json_of({"bench", "train", "--json", "--steps", "1", "--warmup", "0", "--threads", "1",
                     "--backend", "reference", "--from-megatron", "train.sh"})["config"],
            "train.sh");
}

TEST_F(ConfigSources, AFileOfNemoThatLeavesPathsOpenIsShownNotTrained) {
  write_text(path("nemo.yaml"), kNemo);
  for (const Arguments& looked_at :
       {Arguments{"config", "show"}, Arguments{"config", "check"}, Arguments{"plan", "memory"},
        Arguments{"bench", "train", "--steps", "1"}})
    EXPECT_THAT(stoa_ok(looked_at + Arguments{"nemo.yaml"}).text(), HasSubstr("data_dir is not given"));
  for (const Arguments& opened : {Arguments{"train"}, Arguments{"data", "show"}}) {
    const Outcome outcome = stoa(opened + Arguments{"nemo.yaml"});
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.err, HasSubstr("data_dir is not given: give data_dir=…"));
  }
}

TEST_F(ConfigSources, WhatARunNeedsIsAskedFor) {
  const std::string model =
      "--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 32 --micro-batch-size 1 ";
  const auto refused = [&](const Arguments& command, const std::string& words) {
    const Outcome outcome = stoa(command);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.text();
    EXPECT_THAT(outcome.err, HasSubstr(words));
  };
  refused({"train", "--from-megatron", model, "--output", "none"}, "give model.data=PREFIX");
  refused({"train", "--output", "none"}, "no CONFIG");
  refused({"train", "tiny", "--from-megatron", model}, "are both given");
  for (const char* command : {"train", "bench train"}) {
    const Arguments words =
        std::string(command) == "train" ? Arguments{"train"} : Arguments{"bench", "train"};
    refused(words + Arguments{"tiny", "--ignore", "x"}, "is for --from-megatron");
  }
  stoa_ok({"plan", "memory", "--from-megatron", "pretrain_bert.py " + model});
}

TEST_F(ConfigSources, AModelDirectoryTrainsOn) {
  stoa_ok(train("first", {"trainer.max_steps=2", "model.optim.sched.warmup_steps=0"}));
  const std::string model = "first/checkpoints/latest/model";
  const Outcome outcome = stoa_ok({"train", model, "model.data=data", "trainer.max_steps=1",
                                   "trainer.precision=fp32", "--threads", "1", "--output", "tuned"});
  EXPECT_THAT(outcome.text(), HasSubstr("weights from"));
  stoa_ok({"config", "check", model});
  stoa_ok({"bench", "train", model + "/config.json", "--steps", "1", "--warmup", "0", "--threads", "1"});
  EXPECT_EQ(json_of({"generate", "tuned", "--prompt", "the", "--max-tokens", "2", "--json"}).empty(), false);
}

}  // namespace
}  // namespace stoa::e2e

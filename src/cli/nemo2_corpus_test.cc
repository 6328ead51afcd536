// Recipes of nemo.collections.llm as YAML: each is read right, or refused with the
// reason. Values and facts are those of tests/oracle/nemo2_facts.py, which runs the recipes themselves.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/test_folder.h"
#include "base/test_paths.h"
#include "cli/config_source.h"
#include "cli/corpus_count.h"
#include "cli/schema.h"
#include "config/value.h"
#include "config/yaml.h"
#include "foreign/nemo2/recipe.h"
#include "train/layout_plan.h"

namespace stoa::cli {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

json shown_value(const config::Node& shown, const char* path) {
  const config::Node* node = shown.find_path(path);
  if (!node || node->is_null()) return nullptr;
  if (node->scalar == "true" || node->scalar == "false") return node->scalar == "true";
  if (const auto integer = config::parse_integer(node->scalar)) return *integer;
  if (const auto real = config::parse_real(node->scalar)) {
    if (*real == static_cast<double>(static_cast<std::int64_t>(*real)))
      return static_cast<std::int64_t>(*real);
    return *real;
  }
  return node->scalar;
}

json facts_of_recipe(const train::RunConfig& run) {
  const config::Node shown = config::parse_yaml(show_run_config(run), "shown");
  constexpr std::pair<const char*, const char*> kPaths[] = {
      {"kind", "model.kind"},
      {"layers", "model.num_layers"},
      {"hidden", "model.hidden_size"},
      {"heads", "model.num_attention_heads"},
      {"groups", "model.num_query_groups"},
      {"ffn", "model.ffn_hidden_size"},
      {"channels", "model.kv_channels"},
      {"seq", "model.encoder_seq_length"},
      {"tp", "model.tensor_model_parallel_size"},
      {"pp", "model.pipeline_model_parallel_size"},
      {"vpp", "model.virtual_pipeline_model_parallel_size"},
      {"cp", "model.context_parallel_size"},
      {"ep", "model.expert_model_parallel_size"},
      {"sp", "model.sequence_parallel"},
      {"micro", "model.micro_batch_size"},
      {"global", "model.global_batch_size"},
      {"recompute", "model.activations_checkpoint_granularity"},
      {"precision", "trainer.precision"},
      {"experts", "model.num_moe_experts"},
      {"topk", "model.moe_router_topk"},
      {"expert_ffn", "model.moe_ffn_hidden_size"},
      {"zero", "model.zero_stage"},
      {"activation", "model.activation"},
      {"normalization", "model.normalization"},
      {"positions", "model.position_embedding_type"},
      {"rotary_base", "model.rotary_base"},
      {"window", "model.window_size"},
      {"tied", "model.share_embeddings_and_output_weights"},
      {"vocab", "model.vocab_size"},
      {"lr", "model.optim.lr"},
      {"min_lr", "model.optim.sched.min_lr"},
      {"weight_decay", "model.optim.weight_decay"},
      {"steps", "trainer.max_steps"},
      {"pattern", "model.hybrid_override_pattern"},
      {"state", "model.mamba_state_dim"},
      {"state_head", "model.mamba_head_dim"},
      {"state_groups", "model.mamba_num_groups"},
      {"state_heads", "model.mamba_num_heads"},
      {"mtp", "model.mtp_num_layers"}};
  json facts;
  for (const auto& [name, path] : kPaths) facts[name] = shown_value(shown, path);
  if (facts["vpp"].is_null()) facts["vpp"] = 1;
  if (facts["experts"].is_null()) facts["experts"] = 0;
  facts["ranks"] = train::ranks_of(run);
  facts["beta2"] = run.optim.betas[1];
  facts["fp8"] = run.model.fp8.fp8.has_value();
  const json bias = shown_value(shown, "model.bias");
  facts["bias"] = bias == "all";
  facts["qkv_bias"] = bias == "all" || bias == "qkv";
  return facts;
}

FoundConfig read_recipe(const std::string& config, std::vector<std::string> overrides = {},
                        Purpose purpose = Purpose::kPlan) {
  ConfigArguments arguments;
  arguments.config = config;
  arguments.overrides = std::move(overrides);
  return read_config(arguments, purpose);
}

std::string error_of_recipe(const std::string& config, std::vector<std::string> overrides = {}) {
  try {
    read_recipe(config, std::move(overrides));
  } catch (const Error& error) {
    return error.what();
  }
  return "(no error)";
}

json nemo2_corpus() {
  return json::parse(read_text(test::source_dir() / "tests/fixtures/nemo2/corpus.json"));
}

CorpusCount read_corpus_of_recipes(const char* name) {
  const json corpus = json::parse(read_text(test::source_dir() / "tests/fixtures/nemo2" / name));
  const TestFolder folder;
  const fs::path file = folder / "recipe.yaml";
  CorpusCount count;
  for (const json& entry : corpus) {
    SCOPED_TRACE(entry["name"].get<std::string>());
    write_text(file, entry["values"].dump());
    const std::string reason = entry.value("refused", std::string());
    try {
      const json facts = facts_of_recipe(read_recipe(file.string()).run);
      bool same = reason.empty();
      EXPECT_EQ(reason, "") << "expected a refusal";
      for (const auto& [key, value] : entry["facts"].items()) {
        if (key == "class") continue;
        EXPECT_EQ(facts[key], value) << key;
        same = same && facts[key] == value;
      }
      (same ? count.right : count.wrong) += 1;
    } catch (const Error& error) {
      const std::string message = error.what();
      const bool expected = !reason.empty() && message.find(reason) != std::string::npos;
      EXPECT_TRUE(expected) << message;
      (expected ? count.refused : count.wrong) += 1;
    }
  }
  return count;
}

TEST(Nemo2Corpus, IsReadRightOrRefusedWithTheReason) {
  const CorpusCount count = read_corpus_of_recipes("corpus.json");
  count.report("NeMo 2");
  EXPECT_EQ(count.wrong, 0);
  EXPECT_GE(count.right + count.refused, 90);
  EXPECT_GE(count.right, 86);
}

// Recipes of Megatron-Bridge (tests/oracle/bridge_facts.py).
TEST(BridgeCorpus, IsReadRightOrRefusedWithTheReason) {
  const CorpusCount count = read_corpus_of_recipes("bridge.json");
  count.report("Megatron-Bridge");
  EXPECT_EQ(count.wrong, 0);
  EXPECT_GE(count.right + count.refused, 39);
  EXPECT_GE(count.right, 38);
}

// A name is the recipe that NeMo exports under it.
TEST(Nemo2Corpus, NamesAreTheirFiles) {
  const TestFolder folder;
  const fs::path file = folder / "named.yaml";
  const std::vector<std::string> names = foreign::nemo2_recipe_names();
  int compared = 0;
  for (const json& entry : nemo2_corpus()) {
    const std::string name = entry["name"];
    if (entry.contains("refused") || std::find(names.begin(), names.end(), name) == names.end()) continue;
    SCOPED_TRACE(name);
    write_text(file, entry["values"].dump());
    const std::vector<std::string> nodes{
        fmt::format("trainer.num_nodes={}", entry["values"]["trainer"]["num_nodes"].get<int>())};
    EXPECT_EQ(show_run_config(read_recipe(name, nodes).run),
              show_run_config(read_recipe(file.string(), nodes).run));
    ++compared;
  }
  EXPECT_GE(compared, 60);
}

TEST(Nemo2Recipes, ChangesAreThoseOfNemoOrOfStoa) {
  const FoundConfig found =
      read_recipe("llama3_70b",
                  {"trainer.num_nodes=8", "trainer.strategy.tensor_model_parallel_size=8",
                   "data.global_batch_size=64", "model.config.num_layers=40", "optim.config.lr=1e-4",
                   "model.micro_batch_size=2", "trainer.strategy.virtual_pipeline_model_parallel_size=null"});
  EXPECT_EQ(found.run.layout.tensor_model_parallel_size, 8);
  EXPECT_EQ(found.run.trainer.num_nodes, 8);
  EXPECT_EQ(found.run.batch.global(), 64);
  EXPECT_EQ(found.run.batch.micro_batch_size, 2);
  EXPECT_EQ(found.run.model.num_layers, 40);
  EXPECT_DOUBLE_EQ(found.run.optim.lr, 1e-4);
  EXPECT_FALSE(found.run.layout.virtual_pipeline_model_parallel_size);
  EXPECT_THAT(error_of_recipe("llama3_70b"), HasSubstr("must divide the 8 ranks"));
}

TEST(Nemo2Recipes, UnknownKeysNameTheNearest) {
  const std::pair<const char*, const char*> wrong[] = {
      {"model.config.num_layer=2", "num_layers"},
      {"trainer.strategy.tensor_model_paralel_size=2", "tensor_model_parallel_size"},
      {"trainer.strategy.ddp.overlap_grad_reduse=true", "overlap_grad_reduce"},
      {"data.global_batchsize=2", "global_batch_size"},
      {"optim.config.adam_beta3=2", "adam_beta"},
      {"optim.lr_scheduler.warmup_step=2", "warmup_steps"}};
  for (const auto& [change, nearest] : wrong)
    EXPECT_THAT(error_of_recipe("llama3_8b", {change}), AllOf(HasSubstr("no key"), HasSubstr(nearest)));
}

TEST(Nemo2Recipes, WhatWouldChangeResultsIsRefusedByItsKey) {
  const std::pair<const char*, const char*> refused[] = {
      {"model.config.mtp_standalone=true", "model.config.mtp_standalone: true"},
      {"model.config.softmax_scale=0.1", "model.config.softmax_scale: 0.1"},
      {"model.config.label_smoothing=0.1", "label smoothing"},
      {"optim.config.exp_avg_dtype=bf16", "optim.config.exp_avg_dtype: bf16"},  // without its optimizer
      {"optim.lr_mult=2", "optim.lr_mult: 2"},
      {"trainer.plugins.fp4=e2m1", "trainer.plugins.fp4: e2m1"}};
  for (const auto& [change, words] : refused)
    EXPECT_THAT(error_of_recipe("llama3_8b", {change}),
                AllOf(HasSubstr(words), HasSubstr("To read the others without"), Not(HasSubstr("--ignore"))));
  for (const char* harmless :
       {"model.config.softmax_scale=null", "model.config.label_smoothing=0.0", "optim.lr_mult=1.0",
        "optim.config.exp_avg_dtype=fp32", "trainer.strategy.num_distributed_optimizer_instances=1"})
    EXPECT_EQ(error_of_recipe("llama3_8b", {harmless}), "(no error)") << harmless;
  // Chunks of attention count where they are shorter than a sequence.
  EXPECT_THAT(read_recipe("llama3_8b", {"model.config.attention_chunk_size=8192"}).notes,
              Contains(HasSubstr("a sequence of 8192 is one")));
  EXPECT_THAT(error_of_recipe("llama3_8b", {"model.config.attention_chunk_size=4096"}),
              HasSubstr("attention within chunks"));
  EXPECT_THAT(error_of_recipe("llama3_8b",
                              {"model.config.attention_chunk_size=8192", "model.encoder_seq_length=16384"}),
              HasSubstr("attention within chunks"));
  EXPECT_THAT(read_recipe("llama3_8b", {"trainer.strategy.ckpt_async_save=true"}).ignored,
              Contains(HasSubstr("trainer.strategy.ckpt_async_save (checkpoints")));
}

constexpr const char* kBridge = R"yaml(_target_: megatron.bridge.training.config.ConfigContainer
model:
  _target_: megatron.bridge.models.llama.llama_provider.LlamaModelProvider
  num_layers: 32
  hidden_size: 4096
  ffn_hidden_size: 14336
  num_attention_heads: 32
  num_query_groups: 8
  kv_channels: 128
  seq_length: 8192
  vocab_size: 128256
  normalization: RMSNorm
  gated_linear_unit: true
  activation_func: {_call_: false, _target_: torch.nn.functional.silu}
  add_bias_linear: false
  share_embeddings_and_output_weights: false
  position_embedding_type: rope
  rotary_base: 500000
  hidden_dropout: 0.0
  attention_dropout: 0.0
  tensor_model_parallel_size: 1
  pipeline_model_parallel_size: 1
  context_parallel_size: 2
  sequence_parallel: false
  params_dtype: {_call_: false, _target_: torch.bfloat16}
  mtp_enabled: false
  cuda_graph_impl: none
  fp8: null
train: {train_iters: 1168251, global_batch_size: 512, micro_batch_size: 1, manual_gc: true, manual_gc_interval: 100}
validation: {eval_interval: 2000, eval_iters: 32}
optimizer:
  _target_: megatron.bridge.training.config.OptimizerConfig
  lr: 0.0003
  min_lr: 3.0e-05
  weight_decay: 0.1
  adam_beta1: 0.9
  adam_beta2: 0.95
  bf16: true
  use_distributed_optimizer: true
  main_grads_dtype: {_call_: false, _target_: torch.float32}
scheduler: {lr_decay_style: cosine, lr_warmup_iters: 2000}
ddp: {overlap_grad_reduce: true, grad_reduce_in_fp32: true, use_distributed_optimizer: true, data_parallel_sharding_strategy: no_shard}
dataset: {_target_: megatron.bridge.training.config.GPTDatasetConfig, seq_length: 8192, num_workers: 8}
tokenizer: {tokenizer_type: NullTokenizer, vocab_size: 32000}
mixed_precision: bf16_mixed
checkpoint: {save_interval: 500}
rng: {seed: 1234}
)yaml";

TEST(BridgeConfigs, AreReadAsRecipesAre) {
  const TestFolder folder;
  const fs::path file = folder / "bridge.yaml";
  write_text(file, kBridge);
  const json facts = facts_of_recipe(read_recipe(file.string()).run);
  const json expected{{"layers", 32},  {"hidden", 4096}, {"groups", 8},         {"channels", 128},
                      {"seq", 8192},   {"cp", 2},        {"vocab", 128256},     {"activation", "swiglu"},
                      {"bias", false}, {"tied", false},  {"positions", "rope"}, {"rotary_base", 500000},
                      {"global", 512}, {"micro", 1},     {"steps", 1168251},    {"precision", "bf16"},
                      {"zero", 1},     {"lr", 0.0003},   {"min_lr", 3e-05},     {"beta2", 0.95}};
  for (const auto& [name, value] : expected.items()) EXPECT_EQ(facts[name], value) << name;
  EXPECT_THAT(error_of_recipe(file.string(), {"train.train_iter=3"}),
              AllOf(HasSubstr("no key"), HasSubstr("train_iters")));
  EXPECT_THAT(error_of_recipe(file.string(), {"optimizer.exp_avg_dtype=bf16"}),
              HasSubstr("optimizer.exp_avg_dtype: bf16"));
  EXPECT_THAT(error_of_recipe(file.string(), {"mixed_precision=bf16_with_mxfp8_mixed"}),
              HasSubstr("write its settings out"));
  EXPECT_EQ(read_recipe(file.string(), {"train.micro_batch_size=2"}).run.batch.micro_batch_size, 2);
}

TEST(Nemo2Recipes, EncodersSayWhichNormsTheyHave) {
  const FoundConfig megatron = read_recipe("bert_110m");
  EXPECT_TRUE(megatron.run.model.bert.pre_norm);
  EXPECT_FALSE(megatron.run.model.bert.embedding_norm);
  EXPECT_FALSE(megatron.run.model.bert.binary_head);
  const FoundConfig huggingface =
      read_recipe("bert_110m", {"model.config._target_=HuggingFaceBertBaseConfig"});
  EXPECT_FALSE(huggingface.run.model.bert.pre_norm);
  EXPECT_TRUE(huggingface.run.model.bert.embedding_norm);
  EXPECT_TRUE(huggingface.run.model.bert.binary_head);
}

TEST(Nemo2Recipes, KeysOfLogsAndResumingAreHeld) {
  const TestFolder folder;
  const fs::path file = folder / "logs.yaml";
  const json entry = nemo2_corpus()[0];
  for (const auto& [path, name] : {std::pair("/log/ckpt/every_n_train_step", "every_n_train_steps"),
                                   std::pair("/log/explicit_logdir", "explicit_log_dir"),
                                   std::pair("/resume/resume_if_exist", "resume_if_exists")}) {
    json values = entry["values"];
    values[json::json_pointer(path)] = 1;
    write_text(file, values.dump());
    EXPECT_THAT(error_of_recipe(file.string()), AllOf(HasSubstr("no key of a recipe"), HasSubstr(name)));
  }
}

TEST(Nemo2Recipes, AreTrainedWhereTheyNameWhatARunNeeds) {
  EXPECT_THAT(read_recipe("llama3_8b", {}, Purpose::kShow).notes,
              Contains(HasSubstr("no prepared data are named")));
  EXPECT_NO_THROW(read_recipe("llama3_8b", {}, Purpose::kBench));
  try {
    read_recipe("llama3_8b", {}, Purpose::kTrain);
    ADD_FAILURE() << "expected a refusal";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("model.data=PREFIX"), HasSubstr("model.tokenizer=DIR")));
  }
  // The run's own tokenizer says how many ids there are.
  EXPECT_FALSE(read_recipe("llama3_8b", {"model.data=d", "model.tokenizer=t"}, Purpose::kShow)
                   .run.model.vocab_size.has_value());
  EXPECT_NO_THROW(read_recipe("bert_110m", {"model.data=d", "model.tokenizer=t"}, Purpose::kTrain));
}

}  // namespace
}  // namespace stoa::cli

// Adapters as users meet them: trained on a model that keeps every bit, saved in PEFT's form, continued,
// used, merged, and refused where they do not belong.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/test_paths.h"
#include "workplace.h"

namespace stoa::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

class Adapter : public Workplace {
 protected:
  // A model to tune, and arguments that tune it.
  void make_base() const { stoa_ok(train("base", {"trainer.max_steps=3"})); }
  static Arguments tune(const std::string& run, const Arguments& more = {}) {
    return train(run,
                 Arguments{"restore_from_path=base", "model.peft.peft_scheme=lora",
                           "model.peft.lora_tuning.adapter_dim=4", "model.peft.lora_tuning.alpha=16",
                           "model.optim.lr=0.02", "model.optim.sched.warmup_steps=0", "trainer.max_steps=6"} +
                     more);
  }
  // Log-probabilities of a text.
  std::vector<double> scores(const Arguments& model) const {
    write_text(path("line.txt"), "the stone is in the river and the tree");
    const Outcome outcome = stoa_ok(Arguments{"score"} + model + Arguments{"line.txt", "--dtype", "fp32"});
    std::vector<double> out;
    const Json answer = Json::parse(outcome.out);
    for (const auto& value : answer["logprobs"])
      if (value.is_number()) out.push_back(value.get<double>());
    EXPECT_GT(out.size(), 3u);
    return out;
  }
  static double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
    double out = 0;
    EXPECT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) out = std::max(out, std::abs(a[i] - b[i]));
    return out;
  }
  void expect_refused(const Arguments& arguments, const std::string& message) const {
    const Outcome outcome = stoa(arguments);
    EXPECT_EQ(outcome.exit_code, 1) << outcome.text();
    EXPECT_THAT(outcome.err, HasSubstr(message));
  }
  // Copies the newest adapter of a run, with its configuration changed.
  void copy_adapter(const std::string& run, const std::string& to,
                    const std::function<void(Json&)>& change = nullptr) const {
    fs::remove_all(path(to));
    fs::copy(fs::canonical(path(run + "/checkpoints/latest")) / "adapter", path(to));
    fs::remove(path(to + "/base_model.json"));
    if (!change) return;
    Json json = Json::parse(read_text(path(to + "/adapter_config.json")));
    change(json);
    write_text(path(to + "/adapter_config.json"), json.dump());
  }
};

TEST_F(Adapter, IsTrainedSavedUsedAndMerged) {
  make_base();
  const std::string model = read_text(path("base/checkpoints/latest/model/model.safetensors"));
  EXPECT_THAT(stoa_ok(tune("tuned")).text(), HasSubstr(" of them trained"));
  EXPECT_EQ(read_text(path("base/checkpoints/latest/model/model.safetensors")), model);
  const fs::path checkpoint = path("tuned/checkpoints/latest");
  EXPECT_FALSE(fs::exists(checkpoint / "model"));
  for (const char* file :
       {"adapter_config.json", "adapter_model.safetensors", "base_model.json", "tokenizer.json"})
    EXPECT_TRUE(fs::exists(checkpoint / "adapter" / file)) << file;
  const Json hashes = Json::parse(read_text(path("tuned/base_tensors.json")));
  EXPECT_EQ(hashes["before"], hashes["after"]);
  // What PEFT reads.
  const Json config = Json::parse(read_text(checkpoint / "adapter/adapter_config.json"));
  EXPECT_EQ(config["peft_type"], "LORA");
  EXPECT_EQ(config["r"], 4);
  EXPECT_EQ(config["lora_alpha"], 16);
  EXPECT_EQ(config["fan_in_fan_out"], true);  // gpt2's Conv1D
  EXPECT_EQ(config["target_modules"], (Json{"c_attn", "c_fc", "c_proj"}));
  EXPECT_EQ(config["task_type"], "CAUSAL_LM");
  const Json inspected = json_of({"checkpoint", "inspect", "tuned", "--json"});
  std::map<std::string, Json> shapes;
  for (const auto& tensor : inspected["adapter"]) shapes[tensor["name"]] = tensor["shape"];
  EXPECT_EQ(shapes.size(), 2u * 4 * 2);
  EXPECT_EQ(shapes["base_model.model.transformer.h.1.attn.c_attn.lora_B.weight"], (Json{96, 4}));
  // The state holds the adapter alone.
  for (const auto& tensor : inspected["state"])
    EXPECT_THAT(tensor["name"].get<std::string>(), HasSubstr(".lora_"));

  const auto base = scores({"base"}), tuned = scores({"tuned"});
  EXPECT_GT(largest_difference(base, tuned), 0.01);
  EXPECT_EQ(scores({"base", "--adapter", "tuned"}), tuned);
  copy_adapter("tuned", "peft");
  EXPECT_EQ(scores({"peft"}), tuned);
  stoa_ok({"generate", "tuned", "--prompt", "the", "--max-tokens", "4", "--greedy"});
  const Outcome merged = stoa_ok({"checkpoint", "merge", "tuned", "--output", "merged"});
  EXPECT_THAT(merged.out, HasSubstr("12 tensors changed"));
  EXPECT_LT(largest_difference(scores({"merged"}), tuned), 2e-5);
  const Json report = json_of({"checkpoint", "merge", "base", "--adapter", "tuned", "--dtype", "bf16",
                               "--output", "merged-bf16", "--json"});
  EXPECT_GT(report["rounding_error"].get<double>(), 0);
  EXPECT_LT(report["rounding_error"].get<double>(), 0.2);
  // The difference of the two models is the adapter again: it has no more than that rank.
  stoa_ok({"checkpoint", "merge", "tuned", "--dtype", "fp32", "--output", "merged-fp32"});
  const Json extracted = json_of({"checkpoint", "extract-lora", "merged-fp32", "--base", "base", "--rank",
                                  "4", "--output", "found", "--json"});
  EXPECT_EQ(extracted["modules"], 8);
  EXPECT_GT(extracted["kept"].get<double>(), 0.9999);
  EXPECT_LT(largest_difference(scores({"found"}), tuned), 1e-4);
  // It is continued from PEFT's directory, too.
  stoa_ok(tune("more", {"model.peft.restore_from_path=peft", "trainer.max_steps=0"}));
  EXPECT_EQ(scores({"more"}), tuned);
}

// A fresh adapter with magnitudes is the model; trained, it is saved, used, resumed, continued and merged.
TEST_F(Adapter, HasMagnitudes) {
  make_base();
  const Arguments dora{"model.peft.lora_tuning.use_dora=true"},
      split{"--ranks", "4", "model.tensor_model_parallel_size=2", "model.pipeline_model_parallel_size=2"};
  stoa_ok(tune("fresh", dora + Arguments{"trainer.max_steps=0"}));
  EXPECT_LT(largest_difference(scores({"fresh"}), scores({"base"})), 1e-5);
  stoa_ok(tune("tuned", dora));
  const Json hashes = Json::parse(read_text(path("tuned/base_tensors.json")));
  EXPECT_EQ(hashes["before"], hashes["after"]);
  EXPECT_EQ(Json::parse(read_text(path("tuned/checkpoints/latest/adapter/adapter_config.json")))["use_dora"],
            true);
  std::map<std::string, Json> shapes;
  const Json inspected = json_of({"checkpoint", "inspect", "tuned", "--json"});
  for (const auto& tensor : inspected["adapter"]) shapes[tensor["name"]] = tensor["shape"];
  EXPECT_EQ(shapes.size(), 3u * 4 * 2);
  EXPECT_EQ(shapes["base_model.model.transformer.h.1.attn.c_attn.lora_magnitude_vector"], Json{96});
  const auto tuned = scores({"tuned"});
  EXPECT_GT(largest_difference(scores({"base"}), tuned), 0.01);
  stoa_ok({"generate", "base", "--adapter", "tuned", "--prompt", "the", "--max-tokens", "4", "--greedy"});
  stoa_ok({"checkpoint", "merge", "tuned", "--dtype", "fp32", "--output", "merged"});
  EXPECT_LT(largest_difference(scores({"merged"}), tuned), 2e-5);
  stoa_ok(tune("half", dora + Arguments{"--stop-after", "3"}));
  stoa_ok(tune("half", dora));
  expect_same("tuned", "half");
  stoa_ok(tune("split", dora + split));
  EXPECT_LT(largest_difference(scores({"split"}), tuned), 1e-3);
  copy_adapter("tuned", "peft");
  stoa_ok(tune("more", dora + Arguments{"model.peft.restore_from_path=peft", "trainer.max_steps=0"}));
  EXPECT_EQ(scores({"more"}), tuned);
  expect_refused(tune("plain", {"model.peft.restore_from_path=peft"}), "DoRA; peft.lora_tuning has rank 4");
  copy_adapter("tuned", "wrong", [](Json& json) { json["use_dora"] = false; });
  expect_refused({"generate", "base", "--adapter", "wrong", "--prompt", "a"},
                 "lora_magnitude_vector is not trained by its configuration");
}

// IA3: a fresh adapter is the model to the bit; trained, it is saved, used, resumed, continued and merged.
TEST_F(Adapter, MultipliesByFactors) {
  make_base();
  const Arguments split{"--ranks", "4", "model.tensor_model_parallel_size=2",
                        "model.pipeline_model_parallel_size=2"};
  const auto ia3 = [](const std::string& run, const Arguments& more = {}) {
    return train(run, Arguments{"restore_from_path=base", "model.peft.peft_scheme=ia3", "model.optim.lr=0.1",
                                "model.optim.sched.warmup_steps=0", "trainer.max_steps=6"} +
                          more);
  };
  stoa_ok(ia3("fresh", {"trainer.max_steps=0"}));
  EXPECT_EQ(scores({"fresh"}), scores({"base"}));
  stoa_ok(ia3("tuned"));
  const Json hashes = Json::parse(read_text(path("tuned/base_tensors.json")));
  EXPECT_EQ(hashes["before"], hashes["after"]);
  const Json config = Json::parse(read_text(path("tuned/checkpoints/latest/adapter/adapter_config.json")));
  EXPECT_EQ(config["peft_type"], "IA3");
  // PEFT wants these names among those of target_modules; c_proj would be the attention's, too.
  EXPECT_EQ(config["feedforward_modules"],
            (Json{"transformer.h.0.mlp.c_proj", "transformer.h.1.mlp.c_proj"}));
  for (const Json& name : config["feedforward_modules"])
    EXPECT_NE(std::find(config["target_modules"].begin(), config["target_modules"].end(), name),
              config["target_modules"].end());
  EXPECT_EQ(config["fan_in_fan_out"], true);
  std::map<std::string, Json> shapes;
  const Json inspected = json_of({"checkpoint", "inspect", "tuned", "--json"});
  for (const auto& tensor : inspected["adapter"]) shapes[tensor["name"]] = tensor["shape"];
  EXPECT_EQ(shapes.size(), 2u * 2);
  EXPECT_EQ(shapes["base_model.model.transformer.h.1.attn.c_attn.ia3_l"], (Json{96, 1}));
  EXPECT_EQ(shapes["base_model.model.transformer.h.1.mlp.c_proj.ia3_l"], (Json{1, 128}));
  const auto tuned = scores({"tuned"});
  EXPECT_GT(largest_difference(scores({"base"}), tuned), 0.01);
  stoa_ok({"generate", "base", "--adapter", "tuned", "--prompt", "the", "--max-tokens", "4", "--greedy"});
  stoa_ok({"checkpoint", "merge", "tuned", "--dtype", "fp32", "--output", "merged"});
  EXPECT_LT(largest_difference(scores({"merged"}), tuned), 2e-5);
  stoa_ok(ia3("half", {"--stop-after", "3"}));
  stoa_ok(ia3("half"));
  expect_same("tuned", "half");
  stoa_ok(ia3("split", split));
  EXPECT_LT(largest_difference(scores({"split"}), tuned), 1e-3);
  copy_adapter("tuned", "peft");
  stoa_ok(ia3("more", {"model.peft.restore_from_path=peft", "trainer.max_steps=0"}));
  EXPECT_EQ(scores({"more"}), tuned);
  expect_refused(tune("low-rank", {"model.peft.restore_from_path=peft"}), "is an adapter of IA3");
  expect_refused(ia3("typo", {"model.peft.ia3_tuning.target_modules=[c_atn]"}), "did you mean 'c_attn'");
}

// An embedding that is the head, too, is trained in full: PEFT keeps them one if ensure_weight_tying says so,
// and then wants both in the file.
TEST_F(Adapter, SavesATiedEmbeddingAsBothItIs) {
  make_base();
  stoa_ok(
      tune("tuned", {"model.peft.lora_tuning.target_modules=[c_attn]", "model.peft.modules_to_save=[wte]"}));
  const fs::path config = path("tuned/checkpoints/latest/adapter/adapter_config.json");
  Json described = Json::parse(read_text(config));
  EXPECT_EQ(described["ensure_weight_tying"], true);
  std::map<std::string, Json> shapes;
  const Json inspected = json_of({"checkpoint", "inspect", "tuned", "--json"});
  for (const auto& tensor : inspected["adapter"]) shapes[tensor["name"]] = tensor["shape"];
  ASSERT_TRUE(shapes.contains("base_model.model.lm_head.weight"));
  EXPECT_EQ(shapes["base_model.model.lm_head.weight"], shapes["base_model.model.transformer.wte.weight"]);
  fs::copy(path("tuned/checkpoints/latest/adapter"), path("peft"), fs::copy_options::recursive);
  EXPECT_LT(largest_difference(scores({"base", "--adapter", "peft"}), scores({"tuned"})), 1e-6);
  // The embedding is on the first stage, the head on the last.
  stoa_ok(tune("split", {"model.peft.lora_tuning.target_modules=[c_attn]", "model.peft.modules_to_save=[wte]",
                         "--ranks", "4", "model.tensor_model_parallel_size=2",
                         "model.pipeline_model_parallel_size=2"}));
  EXPECT_LT(largest_difference(scores({"split"}), scores({"tuned"})), 2e-4);
  described["ensure_weight_tying"] = false;
  write_text(path("peft/adapter_config.json"), described.dump());
  expect_refused({"score", "base", "--adapter", "peft", "text.txt"}, "without ensure_weight_tying");
}

// Branches of the embedding and of the head that is tied to it: PEFT keeps them apart, and so does a merged
// model, whose matrices are two.
TEST_F(Adapter, AdaptsEmbeddingAndHead) {
  make_base();
  const Arguments tokens{"model.peft.lora_tuning.target_modules=[c_attn,wte,lm_head]"},
      split{"--ranks", "4", "model.tensor_model_parallel_size=2", "model.pipeline_model_parallel_size=2"};
  stoa_ok(tune("fresh", tokens + Arguments{"trainer.max_steps=0"}));
  EXPECT_EQ(scores({"fresh"}), scores({"base"}));
  stoa_ok(tune("tuned", tokens));
  const Json hashes = Json::parse(read_text(path("tuned/base_tensors.json")));
  EXPECT_EQ(hashes["before"], hashes["after"]);
  EXPECT_EQ(
      Json::parse(read_text(path("tuned/checkpoints/latest/adapter/adapter_config.json")))["target_modules"],
      (Json{"c_attn", "lm_head", "wte"}));
  std::map<std::string, Json> shapes;
  const Json inspected = json_of({"checkpoint", "inspect", "tuned", "--json"});
  for (const auto& tensor : inspected["adapter"]) shapes[tensor["name"]] = tensor["shape"];
  EXPECT_EQ(shapes.size(), 2u * 2 + 4);
  const std::int64_t vocabulary = shapes["base_model.model.lm_head.lora_B.weight"][0];
  EXPECT_EQ(shapes["base_model.model.lm_head.lora_B.weight"], (Json{vocabulary, 4}));
  EXPECT_EQ(shapes["base_model.model.lm_head.lora_A.weight"], (Json{4, 32}));
  EXPECT_EQ(shapes["base_model.model.transformer.wte.lora_embedding_A"], (Json{4, vocabulary}));
  EXPECT_EQ(shapes["base_model.model.transformer.wte.lora_embedding_B"], (Json{32, 4}));
  const auto tuned = scores({"tuned"});
  EXPECT_GT(largest_difference(scores({"base"}), tuned), 0.01);
  stoa_ok({"generate", "base", "--adapter", "tuned", "--prompt", "the", "--max-tokens", "4", "--greedy"});
  stoa_ok({"checkpoint", "merge", "tuned", "--dtype", "fp32", "--output", "merged"});
  EXPECT_EQ(Json::parse(read_text(path("merged/config.json")))["tie_word_embeddings"], false);
  EXPECT_LT(largest_difference(scores({"merged"}), tuned), 2e-5);
  stoa_ok(tune("half", tokens + Arguments{"--stop-after", "3"}));
  stoa_ok(tune("half", tokens));
  expect_same("tuned", "half");
  stoa_ok(tune("split", tokens + split));
  EXPECT_LT(largest_difference(scores({"split"}), tuned), 1e-3);
  copy_adapter("tuned", "peft");
  stoa_ok(tune("more", tokens + Arguments{"model.peft.restore_from_path=peft", "trainer.max_steps=0"}));
  EXPECT_EQ(scores({"more"}), tuned);
  expect_refused(tune("rows", tokens + Arguments{"model.peft.trainable_token_indices=[3]"}),
                 "which have a low-rank branch");
  expect_refused(tune("dora", tokens + Arguments{"model.peft.lora_tuning.use_dora=true"}),
                 "use_dora is not for the embedding or the head, as 'transformer.wte'");
  expect_refused(tune("saved", tokens + Arguments{"model.peft.modules_to_save=[wte]"}), "is adapted already");
  expect_refused(tune("typo", {"model.peft.lora_tuning.target_modules=[lm_hed]"}), "did you mean 'lm_head'");
}

// Bottlenecks, in AdapterHub's form.
TEST_F(Adapter, AddsBottlenecks) {
  make_base();
  const Arguments split{"--ranks", "4", "model.tensor_model_parallel_size=2",
                        "model.pipeline_model_parallel_size=2"};
  for (const char* type : {"seq_bn", "double_seq_bn", "par_bn"}) {
    SCOPED_TRACE(type);
    const auto bottlenecks = [&](const std::string& run, const Arguments& more = {}) {
      return train(run, Arguments{"restore_from_path=base", "model.peft.peft_scheme=adapter",
                                  fmt::format("model.peft.adapter_tuning.type={}", type),
                                  "model.peft.adapter_tuning.adapter_dim=5", "model.optim.lr=0.02",
                                  "model.optim.sched.warmup_steps=0", "trainer.max_steps=6"} +
                            more);
    };
    const std::string run = type, half = run + "-half", more = run + "-more", parts = run + "-parts";
    stoa_ok(bottlenecks(run));
    const Json hashes = Json::parse(read_text(path(run + "/base_tensors.json")));
    EXPECT_EQ(hashes["before"], hashes["after"]);
    const fs::path adapter = path(run + "/checkpoints/latest/adapter");
    EXPECT_TRUE(fs::exists(adapter / "adapter.safetensors"));
    const Json config = Json::parse(read_text(adapter / "adapter_config.json"));
    EXPECT_EQ(config["model_type"], "gpt2");
    EXPECT_EQ(config["config"]["mh_adapter"], run == "double_seq_bn");
    EXPECT_EQ(config["config"]["is_parallel"], run == "par_bn");
    std::map<std::string, Json> shapes;
    const Json inspected = json_of({"checkpoint", "inspect", run, "--json"});
    for (const auto& tensor : inspected["adapter"]) shapes[tensor["name"]] = tensor["shape"];
    EXPECT_EQ(shapes.size(), run == "double_seq_bn" ? 2u * 8 : 2u * 4);
    EXPECT_EQ(shapes["transformer.h.1.output_adapters.adapters.stoa.adapter_down.0.weight"], (Json{5, 32}));
    EXPECT_EQ(shapes["transformer.h.1.output_adapters.adapters.stoa.adapter_up.bias"], Json{32});
    const auto tuned = scores({run});
    EXPECT_GT(largest_difference(scores({"base"}), tuned), 0.005);
    EXPECT_EQ(scores({"base", "--adapter", run}), tuned);
    stoa_ok({"generate", run, "--prompt", "the", "--max-tokens", "4", "--greedy"});
    stoa_ok(bottlenecks(half, {"--stop-after", "3"}));
    stoa_ok(bottlenecks(half));
    expect_same(run, half);
    stoa_ok(bottlenecks(parts, split));
    EXPECT_LT(largest_difference(scores({parts}), tuned), 1e-3);
    copy_adapter(run, "hub");
    stoa_ok(bottlenecks(more, {"model.peft.restore_from_path=hub", "trainer.max_steps=0"}));
    EXPECT_EQ(scores({more}), tuned);
    expect_refused({"checkpoint", "merge", run, "--output", "merged"}, "cannot be merged into weights");
    expect_refused(
        bottlenecks("wide", {"model.peft.restore_from_path=hub", "model.peft.adapter_tuning.adapter_dim=6"}),
        "bottlenecks of width 5");
    expect_refused(
        bottlenecks("scaled", {"model.peft.restore_from_path=hub", "model.peft.adapter_tuning.scaling=3"}),
        "scaling 3: give the same");
    expect_refused(bottlenecks("function", {"model.peft.restore_from_path=hub",
                                            "model.peft.adapter_tuning.non_linearity=tanh"}),
                   "of width 5, tanh");
    const bool sums = run == "seq_bn";  // its tensors have the names that those of par_bn have
    expect_refused(
        bottlenecks("type", {"model.peft.restore_from_path=hub", "model.peft.adapter_tuning.scaling=2",
                             fmt::format("model.peft.adapter_tuning.type={}", sums ? "par_bn" : "seq_bn")}),
        fmt::format("is an adapter of {} bottlenecks", type));
  }
  expect_refused(train("wider", {"restore_from_path=base", "model.peft.peft_scheme=adapter",
                                 "model.peft.adapter_tuning.adapter_dim=40"}),
                 "a bottleneck is narrower");
  copy_adapter("seq_bn", "gated", [](Json& json) { json["config"]["use_gating"] = true; });
  expect_refused({"generate", "base", "--adapter", "gated", "--prompt", "a"}, "use_gating");
}

// QLoRA: the model is held in fewer bits while its adapter is trained, and merged in the values that it had.
TEST_F(Adapter, IsTrainedOnAModelInFewerBits) {
  const Arguments wide{"model.hidden_size=64", "model.ffn_hidden_size=128"};
  stoa_ok(train("base", wide + Arguments{"trainer.max_steps=3"}));
  const Arguments split{"--ranks", "4", "model.tensor_model_parallel_size=1",
                        "model.pipeline_model_parallel_size=2", "model.zero_stage=1"};
  for (const char* format : {"nf4", "int8"}) {
    SCOPED_TRACE(format);
    const Arguments quantised = wide + Arguments{fmt::format("model.peft.quantize_base={}", format)};
    const std::string run = format, half = run + "-half", parts = run + "-parts", merged = run + "-merged";
    stoa_ok(tune(run, quantised));
    const Json hashes = Json::parse(read_text(path(run + "/base_tensors.json")));
    EXPECT_EQ(hashes["before"], hashes["after"]);
    const fs::path adapter = path(run + "/checkpoints/latest/adapter");
    EXPECT_EQ(Json::parse(read_text(adapter / "base_model.json"))["quantized"], format);
    stoa_ok(tune(half, quantised + Arguments{"--stop-after", "3"}));
    stoa_ok(tune(half, quantised));
    expect_same(run, half);
    stoa_ok(tune(parts, quantised + split));
    EXPECT_LT(largest_difference(scores({parts}), scores({run})), 5e-3);
    // On the model itself, and on the values that the adapter was trained on.
    const auto outcome = stoa_ok({"checkpoint", "merge", run, "--dtype", "fp32", "--output", merged});
    EXPECT_THAT(outcome.err, HasSubstr(fmt::format("was trained on this model in {}", format)));
    const double difference = largest_difference(scores({merged}), scores({run}));
    EXPECT_GT(difference, 1e-6);
    EXPECT_LT(difference, 0.5);
  }
  expect_refused(tune("nf4", wide + Arguments{"model.peft.quantize_base=int8"}),
                 "is trained with peft.quantize_base nf4, the configuration has int8");
  expect_refused(
      tune("dora", wide + Arguments{"model.peft.quantize_base=nf4", "model.peft.lora_tuning.use_dora=true"}),
      "leave out one of them");
  fs::remove_all(path("base"));
  make_base();
  expect_refused(tune("narrow", {"model.peft.quantize_base=nf4"}), "expected multiples of 64");
  expect_refused(tune("typo", {"model.peft.quantize_base=nf3"}), "did you mean 'nf4'");
}

// The merged model has plain numbers, and says so.
TEST_F(Adapter, IsMergedIntoAModelOfQuantisedFiles) {
  const Arguments llama{"model.position_embedding_type=rope", "model.normalization=rmsnorm",
                        "model.activation=swiglu", "model.bias=false",
                        "model.share_embeddings_and_output_weights=false"};
  stoa_ok(train("whole", llama + Arguments{"trainer.max_steps=3"}));
  stoa_ok({"checkpoint", "quantize", "whole", "--format", "int8", "--output", "base"});
  stoa_ok(tune("tuned", llama));
  const Outcome merged =
      stoa_ok({"checkpoint", "merge", "base", "--adapter", "tuned", "--dtype", "fp32", "--output", "merged"});
  EXPECT_THAT(merged.err, HasSubstr("base holds its weights in fewer bits"));
  EXPECT_FALSE(Json::parse(read_text(path("merged/config.json"))).contains("quantization_config"));
  EXPECT_LT(largest_difference(scores({"merged"}), scores({"base", "--adapter", "tuned"})), 1e-4);
  EXPECT_GT(largest_difference(scores({"merged"}), scores({"base"})), 1e-4);
}

TEST_F(Adapter, ResumesBitForBitInAnyLayout) {
  make_base();
  const Arguments stopped{"--stop-after", "3"}, two{"--ranks", "2", "model.zero_stage=1"},
      split{"--ranks", "4", "model.tensor_model_parallel_size=2", "model.pipeline_model_parallel_size=2"};
  stoa_ok(tune("whole"));
  stoa_ok(tune("half", stopped));
  EXPECT_THAT(stoa_ok(tune("half")).err, HasSubstr("RESUMED step-3"));
  expect_same("whole", "half");
  stoa_ok(tune("two", two));
  stoa_ok(tune("two halves", stopped + two));
  stoa_ok(tune("two halves", two));
  expect_same("two", "two halves");
  // Made by ranks that split everything, used on one.
  stoa_ok(tune("split", split));
  EXPECT_LT(largest_difference(scores({"split"}), scores({"whole"})), 1e-3);
  const auto hash = [&](const std::string& run) {
    return Json::parse(read_text(path(run + "/base_tensors.json")))["after"];
  };
  EXPECT_EQ(hash("split"), hash("whole"));
  EXPECT_EQ(hash("two"), hash("whole"));
}

TEST_F(Adapter, RefusesWhatDoesNotBelongTogether) {
  make_base();
  stoa_ok(tune("tuned", {"trainer.max_steps=2"}));
  stoa_ok(train("other", {"trainer.max_steps=1", "model.optim.sched.warmup_steps=0"}));
  stoa_ok(train("wide", {"trainer.max_steps=1", "model.optim.sched.warmup_steps=0", "model.hidden_size=64"}));
  // Another model of the same shape.
  expect_refused({"generate", "other", "--adapter", "tuned", "--prompt", "a"}, "'tuned/checkpoints");
  Arguments elsewhere = tune("tuned", {"trainer.max_steps=4"});
  for (std::string& argument : elsewhere)
    if (argument == "restore_from_path=base") argument = "restore_from_path=other";
  expect_refused(elsewhere, "is another one");
  // Without what says where it came from, only a shape can tell.
  copy_adapter("tuned", "peft");
  stoa_ok({"generate", "other", "--adapter", "peft", "--prompt", "a", "--max-tokens", "1"});
  expect_refused({"generate", "wide", "--adapter", "peft", "--prompt", "a"}, "instead of [4, 64]");
  // Of another family: files of a llama.
  expect_refused({"generate", "base", "--adapter",
                  (test::source_dir() / "tests/fixtures/tuning/lora").string(), "--prompt", "a"},
                 "is no adapter of this model (gpt2, 2 layers of width 32)");
  expect_refused(tune("zero", {"model.peft.lora_tuning.adapter_dim=0"}), "adapter_dim: 0; expected 1 to");
  expect_refused(tune("zero", {"model.peft.lora_tuning.alpha=0"}), "alpha: 0; expected above 0");
  expect_refused(train("tuned", {"restore_from_path=base", "trainer.max_steps=6"}),
                 "is an adapter, the configuration trains");
  expect_refused(train("no base", {"model.peft.peft_scheme=lora"}), "give restore_from_path");
  expect_refused({"checkpoint", "export", "tuned", "--dtype", "fp32", "--output", "x"}, "merge it");
  expect_refused({"checkpoint", "merge", "base", "--output", "x"}, "is a whole model");
  copy_adapter("tuned", "moved", [](Json& json) { json["base_model_name_or_path"] = "not/here"; });
  expect_refused({"generate", "moved", "--prompt", "a"},
                 "give that model, and this directory with --adapter");
  for (const auto& [change, message] : std::vector<std::pair<std::function<void(Json&)>, std::string>>{
           {[](Json& json) { json["peft_type"] = "LOHA"; }, "peft_type 'LOHA' is not supported"},
           {[](Json& json) { json["lora_alpha"] = 0; }, "lora_alpha 0"},
           {[](Json& json) { json["r"] = 0; }, "r is 0"},
           {[](Json& json) { json["r"] = 8; }, "instead of [8, "}}) {
    copy_adapter("tuned", "wrong", change);
    expect_refused({"generate", "base", "--adapter", "wrong", "--prompt", "a"}, message);
  }
  // A value that is not a number.
  copy_adapter("tuned", "broken");
  std::string bytes = read_text(path("broken/adapter_model.safetensors"));
  bytes[bytes.size() - 1] = '\x7f', bytes[bytes.size() - 2] = '\xff';
  write_text(path("broken/adapter_model.safetensors"), bytes);
  expect_refused({"generate", "base", "--adapter", "broken", "--prompt", "a"}, "infinite or not a number");
  expect_refused(tune("typo", {"model.peft.lora_tuning.target_modules=[c_atn]"}), "did you mean 'c_attn'");
  expect_refused(tune("typo", {"model.peft.modules_to_save=[wtee]"}), "did you mean 'wte'");
  expect_refused(tune("typo", {"model.peft.lora_tuning.rank_pattern=[nothing=3]"}),
                 "matches no adapted layer");
  expect_refused(tune("typo", {"model.freeze=[embedding]"}), "model.freeze with model.peft");
  EXPECT_FALSE(fs::exists(path("typo")));
}

// Replaces a part of every name in a safetensors file.
void rename_tensors(const fs::path& path, const std::string& from, const std::string& to) {
  const std::string bytes = read_text(path);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  Json renamed = Json::object();
  const Json tensors = Json::parse(bytes.substr(8, length));
  for (const auto& [name, value] : tensors.items()) {
    std::string other = name;
    if (const std::size_t at = other.find(from); at != std::string::npos) other.replace(at, from.size(), to);
    renamed[other] = value;
  }
  std::string header = renamed.dump();
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::uint64_t size = header.size();
  write_text(path, std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + header +
                       bytes.substr(8 + length));
}

// Names as other versions of PEFT, and programs that adapt a model's body alone, write them.
TEST_F(Adapter, ReadsOtherNamesOfTheSameModules) {
  make_base();
  stoa_ok(tune("tuned", {"trainer.max_steps=2"}));
  const auto tuned = scores({"tuned"});
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"base_model.model.transformer.", "base_model.model."},
           {"base_model.model.", "base_model.model.language_model."},
           {".weight", ".default.weight"}}) {
    copy_adapter("tuned", "renamed");
    rename_tensors(path("renamed/adapter_model.safetensors"), from, to);
    EXPECT_EQ(scores({"base", "--adapter", "renamed"}), tuned) << to;
  }
}

}  // namespace
}  // namespace stoa::e2e

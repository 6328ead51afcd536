// `stoa finetune` and what it trains on: chats in any form, masks, packing, templates, preferences.
#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "base/test_paths.h"
#include "workplace.h"

namespace stoa::e2e {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Finetune : public Workplace {
 protected:
  void SetUp() override {
    Workplace::SetUp();
    stoa_ok(train("base", {"trainer.max_steps=2", "model.max_position_embeddings=128",
                           "model.encoder_seq_length=128"}));
    std::string chats, pairs, judged;
    const char* const questions[] = {"who walks", "what is long", "where is home", "who talks"};
    const char* const answers[] = {"the sea", "the road", "under the roof", "every stone"};
    for (int i = 0; i < 40; ++i) {
      const char *question = questions[i % 4], *answer = answers[i % 4], *wrong = answers[(i + 1) % 4];
      chats +=
          json{{"messages",
                {{{"role", "user"}, {"content", question}}, {{"role", "assistant"}, {"content", answer}}}}}
              .dump() +
          "\n";
      pairs += json{{"prompt", question}, {"chosen", answer}, {"rejected", wrong}}.dump() + "\n";
      judged +=
          json{{"prompt", question}, {"completion", i % 2 ? answer : wrong}, {"label", i % 2 == 1}}.dump() +
          "\n";
    }
    write_text(path("chats.jsonl"), chats);
    write_text(path("pairs.jsonl"), pairs);
    write_text(path("judged.jsonl"), judged);
  }

  // Tunes `base`, all of it unless `more` has a method; two threads, fp32.
  static Arguments tune(const std::string& data, const std::string& run, const Arguments& more = {}) {
    const bool adapts = std::find(more.begin(), more.end(), "--method") != more.end();
    return Arguments{"finetune",
                     "base",
                     "--data",
                     data,
                     "--template",
                     "chatml",
                     "trainer.precision=fp32",
                     "trainer.num_threads=2"} +
           more + (adapts ? Arguments{} : Arguments{"--method", "full"}) +
           (run.empty() ? Arguments{} : Arguments{"--output", run});
  }

  fs::path model_of(const std::string& run) const { return path(run) / "checkpoints/latest/model"; }
};

TEST_F(Finetune, AdaptersOfLinearLayers) {
  const Arguments lora{"--epochs", "2", "model.optim.lr=0.02"};  // the default
  const Outcome outcome = stoa_ok(Arguments{"finetune", "base", "--data", "chats.jsonl", "--template",
                                            "alpaca", "trainer.precision=fp32", "--output", "mine"} +
                                  lora);
  EXPECT_THAT(outcome.err, HasSubstr("an adapter trained"));
  EXPECT_TRUE(fs::exists(path("mine/checkpoints/latest/adapter/adapter_model.safetensors")));
  const auto hashes = json::parse(read_text(path("mine/base_tensors.json")));
  EXPECT_EQ(hashes["before"], hashes["after"]);
  stoa_ok({"generate", "mine", "--prompt", "who", "--max-tokens", "2"});
  // Factors have no rows of tokens that a template adds.
  const Outcome refused = stoa(tune("chats.jsonl", "grown", {"--method", "ia3"}));
  EXPECT_EQ(refused.exit_code, 1) << refused.text();
  EXPECT_THAT(refused.err, HasSubstr("take one of these, or a template of tokens that the model has"));
}

// Tokens that a template adds: their rows are part of the adapter, wherever it is used.
TEST_F(Finetune, RowsOfNewTokensAreTrainedWithAnAdapter) {
  const Arguments lora{
      "--method", "lora", "--epochs", "60", "model.optim.lr=0.02", "trainer.log_every_n_steps=1"};
  stoa_ok(tune("chats.jsonl", "mine", lora));
  const fs::path adapter = path("mine/checkpoints/latest/adapter");
  const auto config = json::parse(read_text(adapter / "adapter_config.json"));
  EXPECT_EQ(config["trainable_token_indices"], json({300, 301}));
  const auto hashes = json::parse(read_text(path("mine/base_tensors.json")));
  EXPECT_EQ(hashes["before"], hashes["after"]);
  write_text(path("questions"), "what is long\n/reset\nwho talks\n");
  const auto answer = [&](const Arguments& model) {
    ProgramOptions options;
    options.input = path("questions");
    const Outcome outcome = stoa(
        Arguments{"chat"} + model + Arguments{"--greedy", "--max-tokens", "20", "--dtype", "fp32"}, options);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.text();
    return outcome.out;
  };
  EXPECT_EQ(answer({"mine"}), "the road\nevery stone\n");
  // Merged: a model of 302 tokens, with the template.
  stoa_ok({"checkpoint", "merge", "mine", "--dtype", "fp32", "--output", "merged"});
  EXPECT_EQ(json::parse(read_text(path("merged/config.json")))["vocab_size"], 302);
  EXPECT_EQ(answer({"merged"}), "the road\nevery stone\n");
  write_text(path("line.txt"), "who walks on the road");
  const auto scores = [&](const std::string& model) {
    return json::parse(stoa_ok({"score", model, "line.txt", "--dtype", "fp32"}).out)["logprobs"];
  };
  const auto unmerged = scores("mine"), merged = scores("merged");
  ASSERT_EQ(unmerged.size(), merged.size());
  for (std::size_t i = 1; i < merged.size(); ++i)
    EXPECT_NEAR(unmerged[i].get<double>(), merged[i].get<double>(), 1e-4);
  // Stopped and resumed, in two layouts.
  stoa_ok(tune("chats.jsonl", "parts", lora + Arguments{"--stop-after", "2"}));
  stoa_ok(tune("chats.jsonl", "parts", lora));
  EXPECT_EQ(read_text(path("parts/checkpoints/latest/adapter/adapter_model.safetensors")),
            read_text(adapter / "adapter_model.safetensors"));
  const Arguments few{"--method", "lora", "--epochs", "2", "trainer.log_every_n_steps=1"};
  stoa_ok(tune("chats.jsonl", "one", few));
  stoa_ok(
      tune("chats.jsonl", "split", few + Arguments{"--ranks", "2", "model.tensor_model_parallel_size=2"}));
  const auto one = metrics("one"), split = metrics("split");
  for (const auto& [step, line] : one)
    EXPECT_NEAR(split.at(step)["loss"].get<double>(), line["loss"].get<double>(), 1e-4) << step;
  // What was tuned is tuned further, with its template: preferences after chats.
  const Outcome further =
      stoa_ok({"finetune", "mine", "--data", "pairs.jsonl", "--objective", "dpo", "--epochs", "1",
               "trainer.precision=fp32", "trainer.log_every_n_steps=1", "--output", "preferred"});
  EXPECT_THAT(further.err, HasSubstr("the adapter of mine is trained further"));
  EXPECT_NEAR(metrics("preferred").begin()->second["margin"].get<double>(), 0, 1e-5);
  EXPECT_EQ(json::parse(read_text(
                path("preferred/checkpoints/latest/adapter/adapter_config.json")))["trainable_token_indices"],
            json({300, 301}));
}

// Virtual tokens: trained, used, saved in PEFT's form, resumed, continued, refused.
TEST_F(Finetune, VirtualTokens) {
  const auto tune_with = [&](const std::string& run, const std::string& method, const Arguments& more) {
    return stoa_ok(Arguments{"finetune", "base", "--data", "chats.jsonl", "--template", "alpaca",
                             "trainer.precision=fp32", "trainer.num_threads=2", "--output", run, "--method",
                             method, "model.peft.p_tuning.virtual_tokens=4", "trainer.log_every_n_steps=1",
                             "model.global_batch_size=2"} +
                   more);
  };
  const auto adapter = [&](const std::string& run) { return path(run + "/checkpoints/latest/adapter"); };
  const auto bytes = [&](const std::string& run) {
    return read_text(adapter(run) / "adapter_model.safetensors");
  };
  const auto logprobs = [&](const Arguments& model) {
    write_text(path("line.txt"), "who walks in the road");
    return json::parse(stoa_ok(Arguments{"score"} + model + Arguments{"line.txt", "--dtype", "fp32"}).out);
  };
  const auto untuned = logprobs({"base"});
  for (const auto& [method, type] : {std::pair<std::string, std::string>{"prompt", "PROMPT_TUNING"},
                                     {"p-tuning", "P_TUNING"},
                                     {"prefix", "PREFIX_TUNING"}}) {
    SCOPED_TRACE(method);
    Arguments more{"--epochs", "8", "model.optim.lr=0.02"};
    if (method == "p-tuning")
      more =
          more + Arguments{"model.peft.p_tuning.bottleneck_dim=16", "model.peft.p_tuning.encoder_type=lstm"};
    const Outcome outcome = tune_with(method, method, more);
    EXPECT_THAT(outcome.err, HasSubstr("<4 virtual tokens>"));
    const auto hashes = json::parse(read_text(path(method + "/base_tensors.json")));
    EXPECT_EQ(hashes["before"], hashes["after"]);
    const auto config = json::parse(read_text(adapter(method) / "adapter_config.json"));
    EXPECT_EQ(config["peft_type"], type);
    EXPECT_EQ(config["num_virtual_tokens"], 4);
    const auto tuned = logprobs({method});
    EXPECT_NE(tuned, untuned);
    EXPECT_EQ(logprobs({"base", "--adapter", method}), tuned);
    stoa_ok({"generate", method, "--prompt", "who", "--max-tokens", "2", "--greedy"});
    // Killed and resumed, on two ranks of which each has a part.
    tune_with(method + "-parts", method, more + Arguments{"--stop-after", "5"});
    tune_with(method + "-parts", method, more);
    EXPECT_EQ(bytes(method + "-parts"), bytes(method));
    const Arguments ranks{"--ranks", "2", "model.tensor_model_parallel_size=2", "--stop-after", "5"};
    tune_with(method + "-split", method, more + ranks);
    tune_with(method + "-split", method, more);
    // Continued as what it is.
    fs::copy(adapter(method), path(method + "-peft"));
    fs::remove(path(method + "-peft") / "base_model.json");
    tune_with(method + "-more", method,
              more + Arguments{"model.peft.restore_from_path=" + method + "-peft", "--stop-after", "0"});
    EXPECT_EQ(logprobs({method + "-more"}), tuned);
    const Outcome merged = stoa({"checkpoint", "merge", method, "--output", "merged"});
    EXPECT_EQ(merged.exit_code, 1);
    EXPECT_THAT(merged.err, HasSubstr("adds no values to weights"));
  }
  const Outcome refused =
      stoa(train("prepared", {"restore_from_path=base", "model.peft.peft_scheme=prompt"}));
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("model.data.chat=true"));
}

TEST_F(Finetune, AModelLearnsToAnswerAndToStop) {
  const Outcome outcome = stoa_ok(tune("chats.jsonl", "mine", {"--epochs", "120", "model.optim.lr=5e-3"}));
  EXPECT_THAT(
      outcome.err,
      AllOf(HasSubstr("chats.jsonl: 40 records, OpenAI messages"), HasSubstr("what is in ⟦ ⟧ is trained"),
            HasSubstr("<|im_start|>assistant\n⟦the sea<|im_end|>⟧"), HasSubstr("samples in")));
  const auto metrics = this->metrics("mine");
  EXPECT_LT(metrics.rbegin()->second["loss"].get<double>(),
            0.2 * metrics.begin()->second["loss"].get<double>());
  EXPECT_FALSE(validations("mine").empty());
  write_text(path("questions"), "what is long\n/reset\nwho talks\n");
  ProgramOptions options;
  options.input = path("questions");
  const Outcome answered = stoa({"chat", "mine", "--greedy", "--max-tokens", "20"}, options);
  EXPECT_EQ(answered.exit_code, 0) << answered.text();
  EXPECT_EQ(answered.out, "the road\nevery stone\n") << answered.text();
  // The template, its tokens and the end of a turn are in Hugging Face's files.
  const auto config = json::parse(read_text(model_of("mine") / "tokenizer_config.json"));
  EXPECT_THAT(config["chat_template"].get<std::string>(), HasSubstr("<|im_start|>"));
  EXPECT_EQ(config["eos_token"], "<|im_end|>");
  const auto generation = json::parse(read_text(model_of("mine") / "generation_config.json"));
  const auto added = json::parse(read_text(model_of("mine") / "tokenizer.json"))["added_tokens"];
  EXPECT_THAT(generation["eos_token_id"].dump(), HasSubstr(added.back()["id"].dump()));
  EXPECT_EQ(json::parse(read_text(model_of("mine") / "config.json"))["vocab_size"],
            added.back()["id"].get<int>() + 1);
}

TEST_F(Finetune, NewTokensBeginAsTheMeanOfTheOld) {
  stoa_ok(tune("chats.jsonl", "mine", {"--stop-after", "0"}));
  const json tensors = json_of({"checkpoint", "inspect", "mine", "--json"});
  EXPECT_THAT(tensors.dump(), HasSubstr("302"));  // 300 tokens and two
}

TEST_F(Finetune, ARunThatIsStoppedAndResumedIsTheSame) {
  const Arguments more{"--epochs", "2", "trainer.log_every_n_steps=1", "model.global_batch_size=2"};
  stoa_ok(tune("chats.jsonl", "whole", more));
  stoa_ok(tune("chats.jsonl", "parts", more + Arguments{"--stop-after", "2"}));
  stoa_ok(tune("chats.jsonl", "parts", more));
  expect_same("whole", "parts");
}

TEST_F(Finetune, EveryLayoutTrainsTheSame) {
  const Arguments more{"--epochs", "2", "model.global_batch_size=2", "trainer.log_every_n_steps=1",
                       "--length", "64"};
  stoa_ok(tune("chats.jsonl", "one", more));
  const auto one = metrics("one");
  for (const Arguments& layout :
       {Arguments{"--ranks", "2", "model.tensor_model_parallel_size=2"}, Arguments{"--ranks", "2"},
        Arguments{"--ranks", "2", "model.pipeline_model_parallel_size=2"},
        Arguments{"--ranks", "2", "model.context_parallel_size=2"}}) {
    const std::string run = "ranks";
    fs::remove_all(path(run));
    stoa_ok(tune("chats.jsonl", run, more + layout));
    const auto other = metrics(run);
    ASSERT_EQ(other.size(), one.size());
    for (const auto& [step, line] : one)
      EXPECT_NEAR(other.at(step)["loss"].get<double>(), line["loss"].get<double>(), 1e-3) << layout.back();
  }
}

TEST_F(Finetune, PackedTrainsAsPadded) {
  // All samples in one step: 39 of 40 records are trained, 1 is held back.
  const Arguments more{"--epochs",
                       "1",
                       "--length",
                       "128",
                       "trainer.max_epochs=null",
                       "trainer.max_steps=2",
                       "trainer.log_every_n_steps=1",
                       "trainer.val_check_interval=0",
                       "trainer.sample_prompts=[]"};
  const Outcome packed =
      stoa_ok(tune("chats.jsonl", "packed", more + Arguments{"model.global_batch_size=9"}));
  const auto at = packed.err.find("samples in ");
  ASSERT_NE(at, std::string::npos) << packed.err;
  const std::string rows = packed.err.substr(at + 11, packed.err.find(' ', at + 11) - at - 11);
  fs::remove_all(path("packed"));
  stoa_ok(tune("chats.jsonl", "packed", more + Arguments{"model.global_batch_size=" + rows}));
  stoa_ok(tune("chats.jsonl", "padded",
               more + Arguments{"model.global_batch_size=39", "model.data.packed_sequence=false"}));
  const auto a = metrics("packed"), b = metrics("padded");
  for (const auto& [step, line] : a)
    EXPECT_NEAR(b.at(step)["loss"].get<double>(), line["loss"].get<double>(), 1e-4) << step;
}

// Another model as the reference: what it says is kept, and the weights are those of the start again.
TEST_F(Finetune, ComparesWithAnotherModel) {
  const Arguments dpo{"--objective", "dpo", "--epochs", "1", "trainer.log_every_n_steps=1"};
  const auto reference = [](const std::string& model) { return "model.objective.reference_model=" + model; };
  stoa_ok(train("other", {"trainer.max_steps=5", "model.max_position_embeddings=128",
                          "model.encoder_seq_length=128", "model.seed=9"}));
  stoa_ok(tune("chats.jsonl", "tuned", {"--epochs", "1"}));  // has the template's tokens
  stoa_ok(tune("pairs.jsonl", "of-itself", dpo));
  stoa_ok(tune("pairs.jsonl", "of-base", dpo + Arguments{reference("base")}));
  stoa_ok(tune("pairs.jsonl", "of-other", dpo + Arguments{reference("other")}));
  stoa_ok(tune("pairs.jsonl", "of-tuned", dpo + Arguments{reference("tuned")}));
  const Arguments lora{"finetune", "base",     "--data", "pairs.jsonl",           "--template",
                       "alpaca",   "--method", "lora",   "trainer.precision=fp32"};
  stoa_ok(lora + dpo + Arguments{reference("other"), "--output", "of-lora"});
  const auto kept = [&](const std::string& run) {
    return json::parse(read_text(path(run + "/reference_logprobs.json")))["training"];
  };
  const auto first = [&](const std::string& run, const char* what) {
    return metrics(run).begin()->second[what].get<double>();
  };
  EXPECT_EQ(kept("of-base"), kept("of-itself"));
  EXPECT_EQ(first("of-base", "loss"), first("of-itself", "loss"));
  EXPECT_NEAR(first("of-itself", "margin"), 0, 1e-6);  // the model is its own reference
  for (const char* run : {"of-other", "of-tuned", "of-lora"}) {
    EXPECT_NE(kept(run), kept("of-itself")) << run;
    EXPECT_GT(std::abs(first(run, "margin")), 1e-6) << run;
  }
  const auto hashes = json::parse(read_text(path("of-lora/base_tensors.json")));
  EXPECT_EQ(hashes["before"], hashes["after"]);
  const Outcome adapter = stoa(tune("pairs.jsonl", "refused", dpo + Arguments{reference("of-lora")}));
  EXPECT_EQ(adapter.exit_code, 1);
  EXPECT_THAT(adapter.err, HasSubstr("is an adapter: merge it first"));
}

TEST_F(Finetune, PreferencesAndJudgements) {
  for (const char* objective : {"dpo", "ipo", "orpo", "simpo", "kto"}) {
    const std::string run = std::string("run-") + objective,
                      data = run == "run-kto" ? "judged.jsonl" : "pairs.jsonl";
    stoa_ok(tune(
        data, run,
        {"--objective", objective, "--epochs", "30", "model.optim.lr=3e-3", "trainer.log_every_n_steps=1"}));
    const auto metrics = this->metrics(run);
    const json &first = metrics.begin()->second, &last = metrics.rbegin()->second;
    EXPECT_LT(last["loss"].get<double>(), first["loss"].get<double>()) << objective;
    EXPECT_GT(last["accuracy"].get<double>(), 0.9) << objective << last;
    EXPECT_GT(last["margin"].get<double>(), 0.0) << objective;
    EXPECT_TRUE(validations(run).begin()->second.contains("val_accuracy")) << objective;
    const bool refers = std::string(objective) != "orpo" && std::string(objective) != "simpo";
    EXPECT_EQ(first.contains("kl"), refers) << objective;
    EXPECT_EQ(validations(run).begin()->second.contains("val_kl"), refers) << objective;
    if (refers) {  // the model is its own reference
      EXPECT_NEAR(first["margin"].get<double>(), 0.0, 1e-5) << objective;
      EXPECT_NEAR(first["kl"].get<double>(), 0.0, 1e-4) << objective;
    }
    if (run == "run-dpo") {  // rewards are 0.1 of it
      EXPECT_NEAR(last["kl"].get<double>(), 10 * last["reward_chosen"].get<double>(), 1e-4);
    }
  }
}

TEST_F(Finetune, APreferenceRunResumesWithItsReference) {
  const Arguments more{"--objective",
                       "dpo",
                       "--epochs",
                       "3",
                       "trainer.log_every_n_steps=1",
                       "model.global_batch_size=2",
                       "model.optim.lr=1e-3"};
  stoa_ok(tune("pairs.jsonl", "whole", more));
  stoa_ok(tune("pairs.jsonl", "parts", more + Arguments{"--stop-after", "2"}));
  stoa_ok(tune("pairs.jsonl", "parts", more));
  expect_same("whole", "parts");
  fs::remove(path("parts") / "reference_logprobs.json");
  const Outcome without = stoa(tune("pairs.jsonl", "parts", more + Arguments{"trainer.max_epochs=4"}));
  EXPECT_EQ(without.exit_code, 1);
  EXPECT_THAT(without.err, HasSubstr("reference_logprobs.json is missing"));
}

TEST_F(Finetune, PlanPrintsMemoryAndTrainsNothing) {
  const Outcome outcome = stoa_ok({"finetune", "base", "--data", "chats.jsonl", "chats.jsonl",
                                   "trainer.precision=fp32", "--template", "chatml", "--plan"});
  EXPECT_THAT(outcome.err, HasSubstr("78 samples in"));
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("optimizer"), HasSubstr("steps of")));
  EXPECT_FALSE(fs::exists(path("runs")));
}

TEST_F(Finetune, DataShowMarksWhatIsTrained) {
  const Outcome outcome =
      stoa_ok(Arguments{"data", "show"} + micro_model() +
              Arguments{"model.data=chats.jsonl", "model.data.chat=true", "model.data.chat_template=chatml",
                        "model.tokenizer=tok", "model.encoder_seq_length=64", "--chat"});
  EXPECT_THAT(outcome.out, HasSubstr("<|im_start|>assistant\n⟦the sea<|im_end|>⟧"));
}

TEST_F(Finetune, RefusesWhatCannotBeTrained) {
  const auto refused = [&](const std::string& data, const std::string& content, const std::string& message,
                           const Arguments& more = {}) {
    if (!content.empty()) write_text(path(data), content);
    const Outcome outcome = stoa(tune(data, "refused", more));
    EXPECT_NE(outcome.exit_code, 0) << message;
    EXPECT_THAT(outcome.err, HasSubstr(message));
    EXPECT_FALSE(fs::exists(path("refused"))) << message;
  };
  refused("none.jsonl", "", "none.jsonl");
  refused("bad.jsonl", "{\"question\": 1}\n", "bad.jsonl record 1: its keys are question");
  refused("order.jsonl", R"({"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}]})",
          "roles out of order");
  refused("weights.jsonl",
          R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b","weight":0}]})",
          "nothing is trained");
  refused("empty.jsonl", R"({"prompt":"a","completion":""})", "\"completion\" is empty");
  refused("equal.jsonl", R"({"prompt":"a","chosen":"b","rejected":"b"})", "are equal: nothing to prefer",
          {"--objective", "dpo"});
  refused(
      "tools.jsonl",
      R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"function":{"name":"look"}}]}]})",
      "leaves out the tool call 'look'");
  std::string words;
  for (int i = 0; i < 400; ++i) words += "stone ";
  refused("long.jsonl", json{{"prompt", words}, {"completion", "b"}}.dump(), "nothing is trained");
  refused("chats.jsonl", "", "no chat template 'chatlm' (did you mean 'chatml'?)",
          {"model.data.chat_template=chatlm"});
  refused("pairs.jsonl", "", "preference pairs are for objective dpo or reward, the objective is sft");
  refused("chats.jsonl", "", "OpenAI messages are for objective sft, the objective is dpo",
          {"--objective", "dpo"});
  write_text(path("raises.jinja"), "{{ raise_exception('only poems') }}");
  refused("chats.jsonl", "", "the chat template refuses: only poems",
          {"model.data.chat_template=raises.jinja"});
  write_text(path("endless.jinja"),
             "{% for m in messages %}{{ m.role + ': ' + m.content + '\\n' }}{% endfor %}"
             "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}");
  refused("chats.jsonl", "", "ends an answer with no special token",
          {"model.data.chat_template=endless.jinja"});
  const Outcome bare = stoa({"finetune", "base", "--data", "chats.jsonl", "--output", "refused"});
  EXPECT_EQ(bare.exit_code, 1);
  EXPECT_THAT(bare.err, HasSubstr("a chat needs a chat template"));
}

TEST_F(Finetune, BadRecordsAreRefusedOrNamedAndLeftOut) {
  const std::string good = read_text(path("chats.jsonl"));
  write_text(path("mixed.jsonl"), "{\"messages\": [\n" + good +
                                      R"({"messages":[{"role":"robot","content":"a"}]})"
                                      "\n");
  const Arguments more{"--epochs", "1", "trainer.log_every_n_steps=1"};
  const Outcome refused = stoa(tune("mixed.jsonl", "refused", more));
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("mixed.jsonl record 1: not valid JSON"));
  EXPECT_FALSE(fs::exists(path("refused")));
  // The same as if they were not there.
  const Outcome skipped = stoa_ok(tune("mixed.jsonl", "skipped", more + Arguments{"--skip-bad-records"}));
  EXPECT_THAT(skipped.err, AllOf(HasSubstr("2 records are left out"), HasSubstr("mixed.jsonl record 1: not"),
                                 HasSubstr("mixed.jsonl record 42: "), HasSubstr("40 samples in")));
  write_text(path("late.jsonl"), good + "{\"messages\": []}\n[]\n" + good);
  const Outcome late = stoa(tune("late.jsonl", "refused", more));
  EXPECT_EQ(late.exit_code, 1);
  EXPECT_THAT(late.err, AllOf(HasSubstr("late.jsonl record 41: "), HasSubstr("--skip-bad-records")));
  // Whoever has nothing but bad records is told so.
  write_text(path("bad.jsonl"), "[\n]\n{}\n");
  const Outcome nothing = stoa(tune("bad.jsonl", "refused", more + Arguments{"--skip-bad-records"}));
  EXPECT_EQ(nothing.exit_code, 1);
  EXPECT_FALSE(fs::exists(path("refused")));
}

TEST_F(Finetune, AnInterruptBeforeTheFirstStepLeavesNothing) {
  std::string many;
  for (int i = 0; i < 200; ++i) many += read_text(path("chats.jsonl"));
  write_text(path("many.jsonl"), many);  // validation, before the first step, takes a while
  Program program(tune("chats.jsonl", "made/run",
                       {"--validation-data", "many.jsonl", "trainer.limit_val_batches=100000"}),
                  {directory(), {}});
  ASSERT_TRUE(program.wait_until([&] { return program.errors().find("weights from") != std::string::npos; }));
  program.signal(SIGINT);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 130) << outcome.text();
  EXPECT_THAT(outcome.err, HasSubstr("nothing was trained"));
  EXPECT_FALSE(fs::exists(path("made")));
}

TEST_F(Finetune, NemosNamesOfFilesAndPlainTexts) {
  write_text(path("held.jsonl"), R"({"input":"who walks","output":"the sea"})");
  write_text(path("train.json"),
             R"([{"input":"who walks","output":"the sea"},{"input":"who talks","output":"every stone"}])");
  const Outcome outcome = stoa_ok(train(
      "nemo",
      {"model.data.data_prefix=null", "model.data.chat=true", "model.data.chat_template=none",
       "model.data.train_ds.file_names=[train.json]", "model.data.validation_ds.file_names=[held.jsonl]",
       "model.data.splits_string='980,10,10'", "trainer.max_steps=2", "trainer.val_check_interval=1"}));
  EXPECT_THAT(outcome.err, HasSubstr("train.json: 2 records, NeMo input and output"));
  EXPECT_EQ(validations("nemo").size(), 3U);
}

// tests/oracle/make_tuning_fixtures.py trained the same model on the same records with TRL, and adapters of
// each method with PEFT.
TEST_F(Finetune, LossesAreThoseOfTrlAndPeft) {
  const fs::path fixture = test::source_dir() / "tests/fixtures/tuning";
  const json expected = json::parse(read_text(fixture / "losses.json"));
  for (const auto& [objective, losses] : expected["losses"].items()) {
    // Adapters of PEFT go on from where it began.
    const bool low_rank = objective == "lora" || objective == "dora",
               in_front = objective == "prompt" || objective == "p-tuning" || objective == "prefix",
               adapts = low_rank || in_front || objective == "ia3";
    const std::string file = adapts || objective == "sft" ? "completions"
                             : objective == "kto"         ? "judged"
                                                          : "pairs";
    Arguments arguments{"train",
                        fixture.string(),
                        "model.data=" + (fixture / (file + ".jsonl")).string(),
                        "model.data.chat=true",
                        "model.data.chat_template=none",
                        "model.data.packed_sequence=false",
                        "model.data.splits_string='1,0,0'",
                        "model.encoder_seq_length=96",
                        "model.micro_batch_size=8",
                        "model.global_batch_size=8",
                        "model.objective.name=" + (adapts ? "sft" : objective),
                        "model.optim.name=adamw",
                        "model.optim.lr=" + expected["rate"].dump(),
                        "model.optim.betas=[0.9,0.95]",
                        "model.optim.weight_decay=0",
                        "model.optim.sched.name=Constant",
                        "trainer.gradient_clip_val=1",
                        "trainer.precision=fp32",
                        "trainer.log_every_n_steps=1",
                        "trainer.num_threads=2",
                        "trainer.max_steps=" + expected["steps"].dump(),
                        "--output",
                        objective};
    if (objective == "robust") arguments.emplace_back("model.objective.label_smoothing=0.1");
    const std::string peft = "model.peft.";
    if (adapts)
      arguments = arguments + Arguments{peft + "peft_scheme=" +
                                            (low_rank                  ? "lora"
                                             : objective == "p-tuning" ? "ptuning"
                                                                       : objective),
                                        peft + "restore_from_path=" + (fixture / objective).string()};
    if (adapts && !in_front)
      arguments.push_back(peft + (low_rank ? "lora" : "ia3") +
                          "_tuning.target_modules=[q_proj,v_proj,o_proj,down_proj]");
    if (in_front) arguments = arguments + Arguments{peft + "p_tuning.virtual_tokens=4"};
    if (objective == "p-tuning")
      arguments =
          arguments + Arguments{peft + "p_tuning.encoder_type=mlp", peft + "p_tuning.bottleneck_dim=12"};
    if (low_rank)
      arguments =
          arguments + Arguments{peft + "lora_tuning.adapter_dim=4", peft + "lora_tuning.alpha=8",
                                peft + "lora_tuning.use_dora=" + (objective == "dora" ? "true" : "false")};
    if (objective == "ia3") arguments.push_back(peft + "ia3_tuning.feedforward_modules=[down_proj]");
    stoa_ok(arguments);
    const auto found = metrics(objective);
    ASSERT_EQ(found.size(), losses.size()) << objective;
    for (std::size_t i = 0; i < losses.size(); ++i) {
      const double theirs = losses[i].get<double>();
      EXPECT_NEAR(found.at(static_cast<std::int64_t>(i) + 1)["loss"].get<double>(), theirs,
                  1e-3 * std::max(1.0, std::abs(theirs)))
          << objective << " step " << i + 1;
    }
  }
}

}  // namespace
}  // namespace stoa::e2e

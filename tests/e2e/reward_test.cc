// Reward models and regressions on decoders: trained from pairs and scored texts, in full and by adapters,
// used, merged, resumed, compared with TRL.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/test_paths.h"
#include "workplace.h"

namespace stoa::e2e {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Reward : public Workplace {
 protected:
  void SetUp() override {
    Workplace::SetUp();
    stoa_ok(train("base", {"trainer.max_steps=2", "model.max_position_embeddings=128",
                           "model.encoder_seq_length=128"}));
    std::string pairs, scored;
    const char* const questions[] = {"who walks", "what is long", "where is home", "who talks"};
    const char* const answers[] = {"the sea", "the road", "under the roof", "every stone"};
    for (int i = 0; i < 40; ++i) {
      const char *question = questions[i % 4], *answer = answers[i % 4], *wrong = answers[(i + 1) % 4];
      pairs +=
          json{{"prompt", question}, {"chosen", answer}, {"rejected", wrong}, {"margin", 0.1}}.dump() + "\n";
      scored +=
          json{{"text", std::string(question) + " " + answers[i % 3]}, {"score", i % 3 - 1.0}}.dump() + "\n";
    }
    write_text(path("pairs.jsonl"), pairs);
    write_text(path("scored.jsonl"), scored);
  }

  // All weights, unless `more` has a method.
  static Arguments tune(const std::string& data, const std::string& run, const Arguments& more) {
    const bool adapts = std::find(more.begin(), more.end(), "--method") != more.end();
    return Arguments{"finetune",
                     "base",
                     "--data",
                     data,
                     "--template",
                     "alpaca",
                     "trainer.precision=fp32",
                     "trainer.num_threads=2",
                     "trainer.log_every_n_steps=1",
                     "--output",
                     run} +
           more + (adapts ? Arguments{} : Arguments{"--method", "full"});
  }

  // What `stoa score --reward` prints, a line each.
  std::vector<json> rewards(const Arguments& model, const std::string& file) const {
    const Outcome outcome =
        stoa_ok(Arguments{"score"} + model + Arguments{"--reward", file, "--dtype", "fp32"});
    std::vector<json> out;
    std::istringstream lines(outcome.out);
    for (std::string line; std::getline(lines, line);) out.push_back(json::parse(line));
    return out;
  }

  double accuracy_on_pairs(const std::string& run) const {
    const std::vector<json> found = rewards({run}, "pairs.jsonl");
    double right = 0;
    for (const json& pair : found) right += pair["margin"].get<double>() > 0 ? 1 : 0;
    return right / static_cast<double>(found.size());
  }
};

const Arguments kReward{"--objective", "reward", "model.optim.lr=5e-3"};
const Arguments kLearns = kReward + Arguments{"--epochs", "12"};

TEST_F(Reward, PairsTrainAModelThatScores) {
  const Outcome outcome = stoa_ok(tune("pairs.jsonl", "run", kLearns));
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("texts scored per epoch"), HasSubstr("the score of ⟦ ⟧ counts"),
                                 HasSubstr("initialised, not in the files: head.classes.weight")));
  const auto metrics = this->metrics("run");
  const json &first = metrics.begin()->second, &last = metrics.rbegin()->second;
  EXPECT_LT(last["loss"].get<double>(), first["loss"].get<double>());
  EXPECT_GT(last["accuracy"].get<double>(), 0.9) << last;
  EXPECT_GT(last["margin"].get<double>(), 0.5) << last;
  EXPECT_TRUE(last.contains("reward_chosen") && last.contains("reward_rejected"));
  EXPECT_FALSE(last.contains("logp_chosen"));
  EXPECT_TRUE(validations("run").rbegin()->second.contains("val_accuracy"));
  EXPECT_THAT(read_text(path("run/report.html")), AllOf(HasSubstr("Accuracy"), HasSubstr("Margin")));
  EXPECT_GT(accuracy_on_pairs("run"), 0.9);
  const auto config = json::parse(read_text(path("run/checkpoints/latest/model/config.json")));
  EXPECT_EQ(config["architectures"][0], "GPT2ForSequenceClassification");
  EXPECT_EQ(config["id2label"]["0"], "reward");
  EXPECT_FALSE(fs::exists(path("run/checkpoints/latest/model/generation_config.json")));
  // A chat has one score; what is said of the pair is what is said of its two texts.
  write_text(
      path("chat.jsonl"),
      R"({"messages":[{"role":"user","content":"who walks"},{"role":"assistant","content":"the sea"}]})");
  write_text(path("pair.jsonl"), R"({"prompt":"who walks","chosen":"the sea","rejected":"the road"})");
  EXPECT_EQ(rewards({"run"}, "chat.jsonl")[0]["score"], rewards({"run"}, "pair.jsonl")[0]["chosen"]);
  EXPECT_THAT(stoa_ok({"score", "run", "--reward", "pairs.jsonl"}).err, HasSubstr("of 40 pairs"));
  // A model that gives scores is tuned further, and shown.
  stoa_ok({"finetune", "run", "--data", "pairs.jsonl", "--objective", "reward", "--epochs", "1", "--output",
           "more"});
  EXPECT_THAT(stoa_ok({"data", "show", "run/config.yaml", "--chat"}).out, HasSubstr(" 1 scored"));
}

TEST_F(Reward, AdaptersHoldTheHead) {
  stoa_ok({"finetune", "base", "--data", "pairs.jsonl", "--template", "none", "trainer.precision=fp32",
           "trainer.num_threads=2", "--output", "mine", "--objective", "reward", "--epochs", "12",
           "model.optim.lr=5e-3", "--method", "lora"});
  const auto hashes = json::parse(read_text(path("mine/base_tensors.json")));
  EXPECT_EQ(hashes["before"], hashes["after"]);
  const fs::path adapter = path("mine/checkpoints/latest/adapter");
  const auto config = json::parse(read_text(adapter / "adapter_config.json"));
  EXPECT_EQ(config["task_type"], "SEQ_CLS");
  EXPECT_EQ(config["modules_to_save"], json({"score"}));
  EXPECT_GT(accuracy_on_pairs("mine"), 0.9);
  // The same from the model with the adapter, and from both as one.
  const auto found = rewards({"mine"}, "pairs.jsonl");
  EXPECT_EQ(found, rewards({"base", "--adapter", "mine"}, "pairs.jsonl"));
  stoa_ok({"checkpoint", "merge", "mine", "--dtype", "fp32", "--output", "merged"});
  const auto merged = rewards({"merged"}, "pairs.jsonl");
  ASSERT_EQ(found.size(), merged.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i]["chosen"].get<double>(), merged[i]["chosen"].get<double>(), 1e-4);
  // Trained further with its head; of a language model's adapter a reward model is not made.
  const Outcome further =
      stoa_ok({"finetune", "mine", "--data", "pairs.jsonl", "--objective", "reward", "--epochs", "1",
               "trainer.precision=fp32", "trainer.num_threads=2", "model.optim.lr=1e-6",
               "model.optim.sched.min_lr=0", "--output", "further"});
  EXPECT_THAT(further.err, AllOf(HasSubstr("the adapter of mine is trained further"),
                                 Not(HasSubstr("initialised, not in the files"))));
  EXPECT_NEAR(rewards({"further"}, "pairs.jsonl")[0]["chosen"].get<double>(),
              found[0]["chosen"].get<double>(), 1e-2);
  const Outcome refused =
      stoa({"finetune", "mine", "--data", "pairs.jsonl", "--objective", "dpo", "--output", "no"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("mine is an adapter of a reward model"));
  const auto whole = json::parse(read_text(path("merged/config.json")));
  EXPECT_EQ(whole["id2label"]["0"], "reward");
}

TEST_F(Reward, ResumesBitForBit) {
  const Arguments more = kReward + Arguments{"--epochs", "2", "model.global_batch_size=2"};
  for (const Arguments& method : {Arguments{}, Arguments{"--method", "lora"}}) {
    const std::string whole = method.empty() ? "whole" : "whole-lora",
                      parts = method.empty() ? "parts" : "parts-lora";
    stoa_ok(tune("pairs.jsonl", whole, more + method));
    stoa_ok(tune("pairs.jsonl", parts, more + method + Arguments{"--stop-after", "2"}));
    stoa_ok(tune("pairs.jsonl", parts, more + method));
    expect_same(whole, parts);
  }
}

TEST_F(Reward, RegressionLearnsScores) {
  stoa_ok(tune("scored.jsonl", "run",
               {"--objective", "regression", "--epochs", "12", "model.optim.lr=5e-3", "--validation-data",
                "scored.jsonl"}));
  const auto last = validations("run").rbegin()->second;
  EXPECT_LT(last["val_loss"].get<double>(), 0.2) << last;
  EXPECT_LT(last["val_mae"].get<double>(), 0.5) << last;
  EXPECT_GT(last["val_pearson"].get<double>(), 0.8) << last;
  write_text(path("text.jsonl"), R"({"text":"who walks the sea"})");
  EXPECT_LT(rewards({"run"}, "text.jsonl")[0]["score"].get<double>(), -0.3);
}

TEST_F(Reward, RefusesWhatCannotBeTrainedOrScored) {
  const auto refused = [&](const std::string& data, const std::string& content, const std::string& message,
                           const Arguments& more = {"--objective", "reward"}) {
    if (!content.empty()) write_text(path(data), content);
    const Outcome outcome = stoa(tune(data, "refused", more));
    EXPECT_NE(outcome.exit_code, 0) << message;
    EXPECT_THAT(outcome.err, HasSubstr(message));
    EXPECT_FALSE(fs::exists(path("refused"))) << message;
  };
  refused("equal.jsonl", R"({"prompt":"a","chosen":"b","rejected":"b"})", "are equal: nothing to prefer");
  refused("one.jsonl",
          "{\"prompt\":\"a\",\"chosen\":\"b\",\"rejected\":\"c\"}\n{\"prompt\":\"a\",\"chosen\":\"b\"}\n",
          "no \"rejected\"");
  refused("margin.jsonl", R"({"prompt":"a","chosen":"b","rejected":"c","margin":"1"})", "expected a number");
  refused("scored.jsonl", "", "texts are for objective sft, the objective is reward");
  refused("pairs.jsonl", "", "preference pairs are for objective dpo or reward",
          {"--objective", "regression"});
  refused("labels.jsonl", R"({"text":"a","label":"good"})", "expected a number",
          {"--objective", "regression"});
  refused("pairs.jsonl", "", "gives a text one score", {"--objective", "dpo", "model.objective.name=reward"});
  refused("pairs.jsonl", "", "sft_weight", {"--objective", "reward", "model.objective.sft_weight=1"});
  const Outcome words = stoa({"score", "base", "--reward", "pairs.jsonl"});
  EXPECT_EQ(words.exit_code, 1);
  EXPECT_THAT(words.err, HasSubstr("the head of a language model instead of one label"));
  const Outcome both = stoa({"score", "base", "--reward", "--ids", "pairs.jsonl"});
  EXPECT_EQ(both.exit_code, 2);
}

// tests/oracle/make_reward_fixtures.py scored the same texts with transformers, and trained with TRL and
// PEFT.
TEST_F(Reward, ScoresAndLossesAreThoseOfTransformersAndTrl) {
  const fs::path fixture = test::source_dir() / "tests/fixtures/reward",
                 base = test::source_dir() / "tests/fixtures/tuning";
  const json expected = json::parse(read_text(fixture / "losses.json"));
  // The token that ends texts pads them, too: then transformers scores the token before it.
  fs::copy(fixture, path("eos_pads"), fs::copy_options::recursive);
  for (const char* file : {"config.json", "tokenizer_config.json"}) {
    auto keys = json::parse(read_text(fixture / file));
    if (keys.contains("pad_token")) keys["pad_token"] = keys["eos_token"];
    if (keys.contains("pad_token_id")) keys["pad_token_id"] = keys["eos_token_id"];
    write_text(path("eos_pads") / file, keys.dump());
  }
  const std::map<std::string, Arguments> models{
      {"reward", {fixture.string()}},
      {"eos_pads", {path("eos_pads").string()}},
      {"lora", {base.string(), "--adapter", (fixture / "adapter").string()}}};
  for (const auto& [name, scores] : expected["scores"].items()) {
    const auto found = rewards(models.at(name), (fixture / "pairs.jsonl").string());
    ASSERT_EQ(found.size(), scores.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_NEAR(found[i]["chosen"].get<double>(), scores[i][0].get<double>(), 1e-4) << name << i;
      EXPECT_NEAR(found[i]["rejected"].get<double>(), scores[i][1].get<double>(), 1e-4) << name << i;
    }
  }
  for (const auto& [name, steps] : expected["runs"].items()) {
    const bool margins = name == "margins", lora = name == "lora";
    Arguments arguments{"train",
                        lora                 ? base.string()
                        : name == "eos_pads" ? path("eos_pads").string()
                                             : fixture.string(),
                        "model.data=" + (fixture / (margins ? "margins.jsonl" : "pairs.jsonl")).string(),
                        "model.data.chat=true",
                        "model.data.chat_template=none",
                        "model.data.splits_string='1,0,0'",
                        "model.encoder_seq_length=128",
                        "model.micro_batch_size=8",
                        "model.global_batch_size=8",
                        "model.data.packed_sequence=false",
                        "model.objective.name=reward",
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
                        "run-" + name};
    if (margins) arguments.emplace_back("model.objective.center_rewards_coefficient=0.05");
    if (lora)
      arguments = arguments + Arguments{"model.task=sequence_classification",
                                        "model.labels=[reward]",
                                        "model.peft.peft_scheme=lora",
                                        "model.peft.lora_tuning.adapter_dim=4",
                                        "model.peft.lora_tuning.alpha=8",
                                        "model.peft.lora_tuning.target_modules=[q_proj,v_proj]",
                                        "model.peft.restore_from_path=" + (fixture / "adapter").string()};
    stoa_ok(arguments);
    const auto found = metrics("run-" + name);
    ASSERT_EQ(found.size(), steps.size()) << name;
    for (std::size_t i = 0; i < steps.size(); ++i)
      for (const char* what : {"loss", "accuracy", "margin"}) {
        const double theirs = steps[i][what].get<double>();
        EXPECT_NEAR(found.at(static_cast<std::int64_t>(i) + 1)[what].get<double>(), theirs,
                    1e-3 * std::max(1.0, std::abs(theirs)))
            << name << " step " << i + 1 << " " << what;
      }
  }
}

}  // namespace
}  // namespace stoa::e2e

// Embedding models: encoders and decoders tuned on texts that belong together, used, resumed, compared with
// sentence-transformers.
#include <gmock/gmock.h>

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

using Vectors = std::vector<std::vector<double>>;

double cosine(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

class Embedding : public Workplace {
 protected:
  void SetUp() override {
    fixture_ = test::source_dir() / "tests/fixtures/contrastive";
    decoder_ = test::source_dir() / "tests/fixtures/tuning";
    // The first word of a query decides which one its positive begins with; the second is the same in both.
    // The texts of the first eight records differ in their first words alone.
    const char* const words[] = {"stone", "sea", "wind", "bread", "road", "roof", "light", "home"};
    std::string pairs, queries, positives;
    for (int i = 0; i < 64; ++i) {
      const std::string query = std::string(words[i % 8]) + " " + words[(i / 8 + 3) % 8],
                        positive = std::string(words[(i + 1) % 8]) + " " + words[(i / 8 + 3) % 8] + " word";
      pairs += json{{"query", query}, {"positive", positive}}.dump() + "\n";
      if (i >= 8) continue;
      queries += query + "\n";
      positives += positive + "\n";
    }
    write_text(path("pairs.jsonl"), pairs);
    write_text(path("queries.txt"), queries);
    write_text(path("positives.txt"), positives);
  }

  Arguments tune(const fs::path& model, const std::string& data, const std::string& run,
                 const Arguments& more) const {
    return Arguments{"finetune",
                     model.string(),
                     "--data",
                     data,
                     "--length",
                     "16",
                     "trainer.precision=fp32",
                     "trainer.num_threads=2",
                     "trainer.log_every_n_steps=1",
                     "--output",
                     run} +
           more;
  }

  Vectors vectors(const std::string& model, const std::string& file) const {
    std::istringstream lines(stoa_ok({"embed", model, file, "--json", "--dtype", "fp32"}).out);
    Vectors out;
    for (std::string line; std::getline(lines, line);)
      out.push_back(json::parse(line)["embedding"].get<std::vector<double>>());
    return out;
  }
  // Queries whose positive is the nearest of all.
  int nearest(const std::string& model) const {
    const Vectors queries = vectors(model, "queries.txt"), positives = vectors(model, "positives.txt");
    int right = 0;
    for (std::size_t i = 0; i < queries.size(); ++i) {
      bool first = true;
      for (std::size_t j = 0; j < positives.size(); ++j)
        first = first && (j == i || cosine(queries[i], positives[j]) < cosine(queries[i], positives[i]));
      right += first ? 1 : 0;
    }
    return right;
  }
  void refused(const Arguments& arguments, const std::string& says) const {
    const Outcome outcome = stoa(arguments);
    EXPECT_EQ(outcome.exit_code, 1) << says;
    EXPECT_THAT(outcome.err, HasSubstr(says));
  }

  fs::path fixture_, decoder_;
};

// Two steps an epoch.
const Arguments kFull{"--method", "full", "--epochs", "30", "model.optim.lr=3e-3"};

TEST_F(Embedding, TextsThatBelongTogetherComeNearer) {
  const Outcome outcome = stoa_ok(tune(fixture_, "pairs.jsonl", "run", kFull));
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("64 records, texts to be compared"), HasSubstr("objective contrastive"),
                    HasSubstr("a step compares 32 queries with 32 texts each"), HasSubstr("query, ")));
  const auto metrics = this->metrics("run");
  const json &first = metrics.begin()->second, &last = metrics.rbegin()->second;
  EXPECT_LT(last["loss"].get<double>(), first["loss"].get<double>());
  EXPECT_GT(last["cosine_positive"].get<double>(), last["cosine_others"].get<double>());
  const json validation = validations("run").rbegin()->second;  // of six records
  EXPECT_GT(validation["val_loss"].get<double>(), 0.0);
  EXPECT_TRUE(validation.contains("val_accuracy"));
  EXPECT_THAT(read_text(path("run/report.html")), HasSubstr("Accuracy"));
  EXPECT_LT(nearest(fixture_.string()), 4);
  EXPECT_GE(nearest("run"), 7);
  const fs::path model = path("run/checkpoints/latest/model");
  EXPECT_EQ(json::parse(read_text(model / "config.json"))["architectures"][0], "BertModel");
  EXPECT_EQ(json::parse(read_text(model / "1_Pooling/config.json"))["pooling_mode_mean_tokens"], true);
  EXPECT_EQ(json::parse(read_text(model / "modules.json")).size(), 3U);
  stoa_ok({"checkpoint", "verify", "run"});
  // Tuned further, the run says how its vectors are made; a single record that is held back has no others.
  const Arguments more{"--epochs", "1", "--method", "full", "model.data.splits_string='98,2,0'"};
  EXPECT_THAT(stoa_ok(tune(path("run"), "pairs.jsonl", "more", more)).err,
              AllOf(HasSubstr("weights from"), HasSubstr("there is no validation")));
  EXPECT_THAT(stoa_ok({"data", "show", "run/config.yaml"}).out, HasSubstr("carry loss"));
}

TEST_F(Embedding, AdaptersOfEncodersAndDecoders) {
  // As PEFT calls them in a model of AutoModel.
  const std::map<std::string, std::pair<fs::path, std::string>> models{
      {"encoder", {fixture_, "base_model.model.encoder.layer.1.attention.self.query.lora_A.weight"}},
      {"decoder", {decoder_, "base_model.model.layers.1.self_attn.q_proj.lora_A.weight"}}};
  for (const auto& [name, model] : models) {
    const auto& [base, tensor] = model;
    stoa_ok(tune(base, "pairs.jsonl", name, {"--epochs", "30", "model.optim.lr=1e-2"}));
    EXPECT_LT(nearest(base.string()), 4) << name;
    EXPECT_GE(nearest(name), 7) << name;
    const fs::path adapter = path(name) / "checkpoints/latest/adapter";
    EXPECT_EQ(json::parse(read_text(adapter / "adapter_config.json"))["task_type"], "FEATURE_EXTRACTION");
    EXPECT_THAT(json_of({"checkpoint", "inspect", name, "--json"})["adapter"].dump(), HasSubstr(tensor));
    stoa_ok({"checkpoint", "merge", name, "--output", name + "-merged"});
    const Vectors apart = vectors(name, "queries.txt"), merged = vectors(name + "-merged", "queries.txt");
    for (std::size_t i = 0; i < apart.size(); ++i) EXPECT_GT(cosine(apart[i], merged[i]), 1 - 1e-5);
  }
}

TEST_F(Embedding, ADecoderInFullIsABareModel) {
  stoa_ok(
      tune(decoder_, "pairs.jsonl", "run", {"--method", "full", "--epochs", "25", "model.optim.lr=2e-3"}));
  const auto config = json::parse(read_text(path("run/checkpoints/latest/model/config.json")));
  EXPECT_EQ(config["architectures"][0], "LlamaModel");
  EXPECT_EQ(json::parse(read_text(
                path("run/checkpoints/latest/model/1_Pooling/config.json")))["pooling_mode_lasttoken"],
            true);
  EXPECT_GE(nearest("run"), 7);
}

TEST_F(Embedding, StoppedAndResumedAndOnTwoRanks) {
  const Arguments more{
      "--method", "full", "--epochs", "3", "model.optim.lr=1e-3", "trainer.val_check_interval=2"};
  stoa_ok(tune(fixture_, "pairs.jsonl", "whole", more));
  stoa_ok(tune(fixture_, "pairs.jsonl", "stopped", more + Arguments{"--stop-after", "3"}));
  stoa_ok({"train", "stopped/config.yaml", "--output", "stopped"});
  expect_same("whole", "stopped");
  stoa_ok(tune(fixture_, "pairs.jsonl", "two", more + Arguments{"--ranks", "2"}));
  const auto one = metrics("whole"), two = metrics("two");
  EXPECT_GE(one.size(), 5U);
  ASSERT_EQ(one.size(), two.size());
  for (const auto& [step, line] : one)
    for (const char* what : {"loss", "accuracy", "cosine_positive", "cosine_others"})
      EXPECT_NEAR(two.at(step)[what].get<double>(), line[what].get<double>(), 1e-4) << step << what;
}

// tests/oracle/make_contrastive_fixtures.py trained with sentence-transformers.
TEST_F(Embedding, LossesAndVectorsAreThoseOfSentenceTransformers) {
  const json expected = json::parse(read_text(fixture_ / "losses.json"));
  struct Run {
    fs::path base;
    const char *data, *pooling, *temperature;
  };
  const std::map<std::string, Run> runs{{"mean", {fixture_, "pairs.jsonl", "mean", "0.05"}},
                                        {"cls", {fixture_, "triplets.jsonl", "cls", "0.05"}},
                                        {"warm", {fixture_, "triplets.jsonl", "mean", "0.2"}},
                                        {"decoder", {decoder_, "triplets.jsonl", "last", "0.05"}}};
  for (const auto& [name, losses] : expected["runs"].items()) {
    const Run& run = runs.at(name);
    const std::string rows = run.data == std::string("pairs.jsonl") ? "16" : "24";
    stoa_ok({"train",
             run.base.string(),
             "restore_from_path=" + run.base.string(),
             "model.data=" + (fixture_ / run.data).string(),
             "model.data.chat=true",
             "model.data.splits_string='1,0,0'",
             "model.task=embedding",
             std::string("model.pooling=") + run.pooling,
             "model.objective.name=contrastive",
             std::string("model.objective.temperature=") + run.temperature,
             "model.encoder_seq_length=" + expected["length"].dump(),
             "model.micro_batch_size=8",
             "model.global_batch_size=" + rows,
             "model.optim.name=adamw",
             "model.optim.lr=" + expected["rate"].dump(),
             "model.optim.betas=[0.9,0.95]",
             "model.optim.weight_decay=0",
             "model.optim.sched.name=Constant",
             "trainer.gradient_clip_val=1",
             "trainer.precision=fp32",
             "trainer.log_every_n_steps=1",
             "trainer.num_threads=2",
             "trainer.val_check_interval=0",
             "trainer.max_steps=" + expected["steps"].dump(),
             "--output",
             name});
    const auto found = metrics(name);
    ASSERT_EQ(found.size(), losses.size()) << name;
    for (std::size_t i = 0; i < losses.size(); ++i) {
      const double theirs = losses[i].get<double>();
      EXPECT_NEAR(found.at(static_cast<std::int64_t>(i) + 1)["loss"].get<double>(), theirs,
                  1e-3 * std::max(1.0, theirs))
          << name << " step " << i + 1;
    }
  }
  std::string queries;
  std::istringstream records(read_text(fixture_ / "triplets.jsonl"));
  for (std::string line; std::getline(records, line);)
    queries += json::parse(line)["query"].get<std::string>() + "\n";
  write_text(path("fixture.txt"), queries);
  const Vectors found = vectors(fixture_.string(), "fixture.txt");
  ASSERT_EQ(found.size(), expected["vectors"].size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_GT(cosine(found[i], expected["vectors"][i].get<std::vector<double>>()), 1 - 1e-5);
}

TEST_F(Embedding, WhatCannotBeComparedIsRefused) {
  const auto with = [&](const std::string& name, const std::string& lines, const Arguments& more = {}) {
    write_text(path(name), lines);
    return tune(fixture_, name, "refused", kFull + more);
  };
  const std::string good = R"({"anchor": "sea", "positive": "wind"})"
                           "\n";
  refused(with("empty.jsonl", good + R"({"anchor": " ", "positive": "road"})"),
          "empty.jsonl record 2: the query is empty");
  refused(with("equal.jsonl", good + R"({"anchor": "road", "positive": "road"})"),
          "the positive is equal to its query");
  refused(with("negative.jsonl", R"({"query": "sea", "positive": "wind", "negative": ["wind"]})"),
          "the positive is equal to a negative");
  refused(with("uneven.jsonl", good + R"({"anchor": "road", "positive": "home", "negative": "bread"})"),
          "every record needs as many negatives");
  refused(with("alone.jsonl", good + good, {"model.global_batch_size=2", "model.micro_batch_size=2"}),
          "has nothing to be compared with");
  refused(with("odd.jsonl", good + good, {"model.global_batch_size=5", "model.micro_batch_size=1"}),
          "give a model.global_batch_size that 2 divides, as 6");
  refused(with("dropout.jsonl", good + good, {"model.hidden_dropout=0.1"}), "model.hidden_dropout=0");
  refused(with("chats.jsonl", R"({"prompt": "sea", "completion": "wind"})", {"--objective", "contrastive"}),
          "objective contrastive needs texts that belong together");
  for (const char* other : {"sft", "dpo"}) {
    refused(tune(decoder_, "pairs.jsonl", "refused", kFull + Arguments{"--objective", other}),
            "texts to be compared are for objective contrastive, the objective is " + std::string(other));
    refused(tune(fixture_, "pairs.jsonl", "refused", kFull + Arguments{"--objective", other}),
            "give model.task=embedding model.objective.name=contrastive");
  }
  refused(tune(decoder_, "pairs.jsonl", "refused", kFull + Arguments{"model.pooling=cls"}),
          "the first token of a decoder sees no other");
  refused(tune(fixture_, "pairs.jsonl", "refused", kFull + Arguments{"model.objective.name=sft"}),
          "give model.task=embedding model.objective.name=contrastive");
}

}  // namespace
}  // namespace stoa::e2e

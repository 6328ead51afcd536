// An encoder from text to vectors, as a user would.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <sstream>

#include "base/file.h"
#include "workplace.h"

namespace stoa::e2e {
namespace {

using ::testing::HasSubstr;

class Encoder : public Workplace {
 protected:
  void SetUp() override {
    Workplace::SetUp();
    write_sentences();
    stoa_ok({"tokenizer", "train", "sentences.jsonl", "--kind", "wordpiece", "--vocab-size", "200",
             "--output", "wp"});
    stoa_ok({"data", "prepare", "sentences.jsonl", "--tokenizer", "wp", "--split-sentences", "--output",
             "pairs"});
  }
  static Arguments bert(const std::string& run, const Arguments& more = {}) {
    return Arguments{"train",
                     "bert-110m",
                     "model.data=pairs",
                     "model.tokenizer=wp",
                     "model.vocab_size=null",
                     "model.num_layers=2",
                     "model.hidden_size=32",
                     "model.num_attention_heads=4",
                     "model.encoder_seq_length=48",
                     "model.micro_batch_size=2",
                     "model.global_batch_size=8",
                     "model.bert.binary_head=true",
                     "model.optim.lr=3e-3",
                     "model.optim.sched.warmup_steps=0",
                     "model.optim.sched.constant_steps=0",
                     "model.optim.sched.min_lr=1e-4",
                     "trainer.precision=fp32",
                     "trainer.log_every_n_steps=1",
                     "trainer.max_steps=20",
                     "trainer.val_check_interval=10",
                     "trainer.limit_val_batches=1",
                     "--output",
                     run} +
           more;
  }
};

TEST_F(Encoder, TrainsFillsMasksAndEmbeds) {
  stoa_ok(bert("run", {"trainer.max_steps=60"}));
  const auto steps = metrics("run");
  ASSERT_EQ(steps.size(), 60u);
  EXPECT_LT(steps.at(60)["loss"].get<double>(), steps.at(1)["loss"].get<double>() - 1);
  const auto config =
      nlohmann::json::parse(read_text(path("run") / "checkpoints/step-0000060/model/config.json"));
  EXPECT_EQ(config["model_type"], "bert");
  EXPECT_EQ(config["architectures"][0], "BertForPreTraining");

  const auto filled = json_of({"generate", "run", "--prompt", "the [MASK] walks", "--json", "--best", "3"});
  ASSERT_EQ(filled["masks"].size(), 1u);
  EXPECT_EQ(filled["masks"][0]["tokens"].size(), 3u);
  EXPECT_GE(filled["masks"][0]["tokens"][0]["probability"], filled["masks"][0]["tokens"][1]["probability"]);

  write_text(path("lines.txt"), "the stone walks\nbread\n");
  const std::string vectors = stoa_ok({"embed", "run", "lines.txt", "--json"}).out;
  const auto first = nlohmann::json::parse(vectors.substr(0, vectors.find('\n')))["embedding"];
  ASSERT_EQ(first.size(), 32u);
  double squares = 0;
  for (const double x : first) squares += x * x;
  EXPECT_NEAR(squares, 1, 1e-5);

  stoa_ok({"checkpoint", "export", "run", "--dtype", "fp32", "--output", "exported"});
  EXPECT_EQ(stoa_ok({"embed", "exported", "lines.txt", "--json"}).out, vectors);
}

// Every token hidden in turn: what score says is what fills the mask.
TEST_F(Encoder, ScoresTextsByHidingEveryToken) {
  stoa_ok(bert("run"));
  write_text(path("lines.txt"), "the stone walks\nbread\n");
  const std::string scored = stoa_ok({"score", "run", "lines.txt", "--dtype", "fp32"}).out;
  const auto first = nlohmann::json::parse(scored.substr(0, scored.find('\n')));
  const auto ids = first["ids"].get<std::vector<int>>();
  const nlohmann::json& logprobs = first["logprobs"];
  ASSERT_EQ(logprobs.size(), ids.size());
  EXPECT_TRUE(logprobs.front().is_null() && logprobs.back().is_null());
  const auto filled = json_of(
      {"generate", "run", "--prompt", "the [MASK] walks", "--json", "--best", "200", "--dtype", "fp32"});
  bool found = false;
  for (const auto& token : filled["masks"][0]["tokens"])
    if (token["id"] == ids[2]) {
      found = true;
      EXPECT_NEAR(std::log(token["probability"].get<double>()), logprobs[2].get<double>(), 1e-5);
    }
  EXPECT_TRUE(found) << filled << first;
  std::string line;
  for (const int id : ids) line += fmt::format("{} ", id);
  write_text(path("ids.txt"), line + "\n");
  EXPECT_EQ(json_of({"score", "run", "ids.txt", "--ids", "--dtype", "fp32"}), first);

  const auto whole = json_of({"eval", "perplexity", "run", "--text", "lines.txt", "--text-split", "line",
                              "--dtype", "fp32", "--json"});
  double sum = 0;
  std::int64_t tokens = 0;
  std::istringstream lines(scored);
  for (std::string text; std::getline(lines, text);) {
    const auto line_scores = nlohmann::json::parse(text);
    for (const auto& logprob : line_scores["logprobs"])
      if (!logprob.is_null()) sum -= logprob.get<double>(), ++tokens;
  }
  EXPECT_EQ(whole["tokens"], tokens);
  EXPECT_EQ(whole["masked"], true);
  EXPECT_NEAR(whole["loss"].get<double>(), sum / static_cast<double>(tokens), 1e-6);
  // A window of two tokens with theirs around them: others are no context.
  EXPECT_EQ(
      json_of({"eval", "perplexity", "run", "--text", "lines.txt", "--window", "4", "--json"})["tokens"],
      tokens);
  EXPECT_THAT(stoa({"eval", "perplexity", "run", "--text", "lines.txt", "--window", "2"}).err,
              HasSubstr("expected at least 3"));
}

TEST_F(Encoder, GoesOnWhereItStoppedInAnotherLayout) {
  stoa_ok(bert("one"));
  stoa_ok(bert("two", {"--stop-after", "10"}));
  stoa_ok(bert("two", {"--ranks", "2", "model.pipeline_model_parallel_size=2"}));
  expect_same("one", "two");
}

TEST_F(Encoder, WhatItCannotDoIsRefused) {
  stoa_ok(bert("run", {"trainer.max_steps=2"}));
  EXPECT_THAT(stoa({"chat", "run"}).err, HasSubstr("does not continue text"));
  EXPECT_THAT(stoa({"generate", "run", "--prompt", "no mask"}).err, HasSubstr("[MASK]"));
  EXPECT_THAT(stoa(bert("other", {"model.tokenizer=tok"})).err, HasSubstr("tokenizer"));
  EXPECT_THAT(stoa(bert("other", {"model.data=data"})).err, HasSubstr("prepare"));
}

}  // namespace
}  // namespace stoa::e2e

// An encoder from text to vectors, as a user would.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <numeric>
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

// The figures of eval embeddings follow from the vectors that embed prints.
TEST_F(Encoder, VectorsAreHeldAgainstPeopleAndSearched) {
  stoa_ok(bert("run"));
  const std::vector<std::pair<std::string, std::string>> pairs{{"the stone walks", "a stone walks"},
                                                               {"the bread", "the door is open"},
                                                               {"a door", "a door"},
                                                               {"wind", "the wind and the stone"}};
  const std::vector<double> scores{4.2, 0.5, 5, 2};
  std::string table, benchmark, lines;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    benchmark +=
        fmt::format("main\tnews\t2014\t{}\t{}\t{}\t{}\n", i, scores[i], pairs[i].first, pairs[i].second);
    table += fmt::format("{{\"sentence1\": \"{}\", \"sentence2\": \"{}\", \"score\": {}}}\n", pairs[i].first,
                         pairs[i].second, scores[i]);
    lines += pairs[i].first + "\n" + pairs[i].second + "\n";
  }
  write_text(path("sts-dev.csv"), benchmark);
  write_text(path("sts.jsonl"), table);
  write_text(path("lines.txt"), lines);
  const auto figures = json_of(
      {"eval", "embeddings", "run", "--sts", "sts.jsonl", "--dtype", "fp32", "--json"})["sts"]["sts.jsonl"];
  EXPECT_EQ(json_of({"eval", "embeddings", "run", "--sts", "sts-dev.csv", "--dtype", "fp32",
                     "--json"})["sts"]["sts-dev.csv"],
            figures);
  std::istringstream vectors(stoa_ok({"embed", "run", "lines.txt", "--json", "--dtype", "fp32"}).out);
  const auto next = [&] {
    std::string line;
    std::getline(vectors, line);
    return nlohmann::json::parse(line)["embedding"].get<std::vector<double>>();
  };
  std::vector<double> cosines;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto a = next(), b = next();
    cosines.push_back(std::inner_product(a.begin(), a.end(), b.begin(), 0.0));
  }
  const auto mean = [](const std::vector<double>& x) {
    return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
  };
  double both = 0, one = 0, other = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const double x = cosines[i] - mean(cosines), y = scores[i] - mean(scores);
    both += x * y, one += x * x, other += y * y;
  }
  EXPECT_NEAR(figures["cosine"]["pearson"].get<double>(), both / std::sqrt(one * other), 1e-5);
  EXPECT_EQ(figures["pairs"], 4);

  // Queries that are documents, too, find each other's text; what has the query's own id does not count.
  fs::create_directories(path("task/qrels"));
  write_text(path("task/corpus.jsonl"),
             "{\"_id\": \"d1\", \"title\": \"the stone\", \"text\": \"walks\"}\n{\"_id\": \"q1\", \"text\": "
             "\"the stone walks\"}\n"
             "{\"_id\": \"d3\", \"title\": \"\", \"text\": \"bread\"}\n");
  write_text(path("task/queries.jsonl"),
             "{\"_id\": \"q1\", \"text\": \"the stone walks\"}\n{\"_id\": \"q2\", \"text\": "
             "\"bread\"}\n{\"_id\": \"q3\", \"text\": \"no\"}\n");
  write_text(path("task/qrels/test.tsv"), "query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td3\t2\nq2\td1\t0\n");
  const Arguments search{"eval",    "embeddings", "run",    "--retrieval", "task",
                         "--dtype", "fp32",       "--cuts", "1,2",         "--json"};
  const auto found = json_of(search)["retrieval"]["task"];
  EXPECT_EQ(found["queries"], 2);
  EXPECT_EQ(found["documents"], 3);
  for (const char* name : {"ndcg@1", "recall@1", "mrr@1", "map@2"})
    EXPECT_EQ(found[name], 1.0) << name << found;
  EXPECT_EQ(found["precision@2"], 0.5);

  const auto refused = [&](const Arguments& arguments, const std::string& words) {
    const Outcome outcome = stoa(arguments);
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.err, HasSubstr(words));
  };
  refused({"eval", "embeddings", "run"}, "give --sts FILE or --retrieval FOLDER");
  refused(search + Arguments{"--split", "tset"}, "did you mean 'test'?");
  write_text(path("task/qrels/test.tsv"), "q1\td1\t1\nq9\td3\t1\n");
  refused(search, "the query 'q9'");
  write_text(path("sts.jsonl"), "{\"sentence1\": \"a\", \"score\": 1}\n");
  refused({"eval", "embeddings", "run", "--sts", "sts.jsonl"},
          "expected columns sentence1, sentence2 and score");
  fs::remove(path("task/corpus.jsonl"));
  refused(search, "it has no corpus.jsonl");
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

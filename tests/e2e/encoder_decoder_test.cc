// Encoder-decoders through the commands: from text with sentinels to a model, on one rank and several.
#include <fstream>
#include <sstream>

#include "base/file.h"
#include "workplace.h"

namespace stoa::e2e {
namespace {

class EncoderDecoder : public Workplace {
 protected:
  void prepare(const char* sentinels = "20") const {
    stoa_ok({"tokenizer", "train", "text.jsonl", "--kind", "unigram", "--vocab-size", "60", "--sentinels",
             sentinels, "--output", "pieces"});
    stoa_ok({"data", "prepare", "text.jsonl", "--tokenizer", "pieces", "--output", "pairs"});
  }
  // Sentences of text.jsonl as told.bin, told.idx; and `pieces` with that many sentinels.
  void prepare_sentences(const char* sentinels = "20") const {
    prepare(sentinels);
    write_sentences();
    stoa_ok({"data", "prepare", "sentences.jsonl", "--tokenizer", "pieces", "--split-sentences", "--output",
             "told"});
  }
  static Arguments pairs(const std::string& run, const Arguments& more = {}) {
    return train(run,
                 Arguments{"model.data=pairs", "model.tokenizer=pieces", "model.kind=t5", "model.bias=none",
                           "model.position_embedding_type=relative", "model.normalization=rmsnorm",
                           "model.activation=geglu_tanh", "model.share_embeddings_and_output_weights=false",
                           "model.t5.seq_length_dec=16", "trainer.max_steps=4"} +
                     more);
  }
  void expect_losses(const std::string& run, const std::string& reference) const {
    const auto expected = metrics(reference), losses = metrics(run);
    ASSERT_EQ(losses.size(), expected.size()) << run;
    for (const auto& [step, line] : losses) {
      const double loss = expected.at(step)["loss"].get<double>();
      EXPECT_NEAR(line["loss"].get<double>(), loss, 1e-4 * loss) << run << ", step " << step;
    }
  }
};

TEST_F(EncoderDecoder, LearnsTheSameOnOneRankAndSeveral) {
  prepare();
  stoa_ok(pairs("one", {"trainer.max_steps=12", "model.optim.lr=0.01"}));
  const auto curve = metrics("one");
  ASSERT_GE(curve.size(), 2u);
  EXPECT_LT(curve.rbegin()->second["loss"].get<double>(), curve.begin()->second["loss"].get<double>());
  stoa_ok(pairs("whole"));
  const auto config =
      nlohmann::json::parse(std::ifstream(path("whole/checkpoints/latest/model/config.json")));
  EXPECT_EQ(config["model_type"], "t5");
  EXPECT_EQ(config["num_decoder_layers"], 1);
  stoa_ok(pairs("tensor",
                {"--ranks", "2", "model.tensor_model_parallel_size=2", "model.sequence_parallel=true"}));
  stoa_ok(pairs("data", {"--ranks", "2", "model.zero_stage=2"}));
  stoa_ok(pairs("pipeline", {"--ranks", "2", "model.pipeline_model_parallel_size=2"}));
  stoa_ok(pairs("split", {"--ranks", "2", "model.pipeline_model_parallel_size=2",
                          "model.pipeline_model_parallel_split_rank=1"}));
  for (const char* other : {"tensor", "data", "pipeline", "split"}) expect_losses(other, "whole");
  const Arguments planned =
      micro_model() +
      Arguments{"model.kind=t5", "model.position_embedding_type=relative", "model.vocab_size=80"};
  const auto plan = json_of(Arguments{"plan", "memory"} + planned + Arguments{"--json"});
  const auto bench = json_of(Arguments{"bench", "train"} + planned + Arguments{"--steps", "1", "--json"});
  EXPECT_EQ(plan["total_bytes"], bench["arena_peak_bytes"]);
}

const Arguments kSentences{"model.data.data_prefix=told", "model.data.dataset_type=t5_sentences",
                           "model.encoder_seq_length=96", "model.t5.seq_length_dec=32"};

TEST_F(EncoderDecoder, LearnsFromSentences) {
  prepare_sentences();
  stoa_ok(pairs("long", kSentences + Arguments{"trainer.max_steps=16", "model.optim.lr=0.01"}));
  const auto curve = metrics("long");
  ASSERT_GE(curve.size(), 2u);
  EXPECT_LT(curve.rbegin()->second["loss"].get<double>(), curve.begin()->second["loss"].get<double>());
  // Other samples than those of running text, and the same on one rank and two, although their sources are of
  // different lengths.
  stoa_ok(pairs("text", {"model.encoder_seq_length=96", "model.t5.seq_length_dec=32"}));
  stoa_ok(pairs("whole", kSentences));
  stoa_ok(pairs("data", kSentences + Arguments{"--ranks", "2", "model.zero_stage=2"}));
  stoa_ok(pairs("tensor", kSentences + Arguments{"--ranks", "2", "model.tensor_model_parallel_size=2",
                                                 "model.sequence_parallel=true"}));
  stoa_ok(pairs("pipeline", kSentences + Arguments{"--ranks", "2", "model.pipeline_model_parallel_size=2"}));
  EXPECT_NE(metrics("text").begin()->second["loss"], metrics("whole").begin()->second["loss"]);
  for (const char* other : {"data", "tensor", "pipeline"}) expect_losses(other, "whole");
}

TEST_F(EncoderDecoder, SentencesThatCannotBeCut) {
  prepare_sentences("2");
  const auto refused = [&](const Arguments& run, const char* text) {
    const Outcome outcome = stoa(run);
    EXPECT_EQ(outcome.exit_code, 1) << outcome.text();
    EXPECT_NE(outcome.err.find(text), std::string::npos) << outcome.text();
  };
  const auto cut = [](const Arguments& more) { return pairs("no", kSentences + more); };
  refused(cut({}), "the tokenizer has 2 sentinels");
  refused(cut({"model.t5.seq_length_dec=8"}), "t5.seq_length_dec of at least 16, or 29");
  refused(cut({"model.data.data_prefix=pairs"}), "'pairs' has no sentence boundaries");
  refused(pairs("no", {"model.data.max_ngram_size=4"}), "max_ngram_size is used only with");
  refused(cut({"model.data.dataset_type=t5_sentence"}), "t5_sentences");
  refused(train("no", {"model.data.dataset_type=t5_sentences"}), "is used only with kind t5");
  refused(train("no", {"model.data.mean_ngram_size=4"}), "is used only with kind t5");
}

std::vector<nlohmann::json> lines_of(const std::string& text) {
  std::vector<nlohmann::json> out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) out.push_back(nlohmann::json::parse(line));
  return out;
}

TEST_F(EncoderDecoder, AnswersAndRates) {
  prepare();
  stoa_ok(pairs("run", {"trainer.max_steps=12", "model.optim.lr=0.01"}));
  std::ofstream(path("prompts.txt"))
      << "the stone walks by the <extra_id_0>\nthe <extra_id_0> sleeps\n<extra_id_0>\n";
  const Arguments fp32{"--max-tokens", "9", "--dtype", "fp32", "--json"};
  const std::string shown =
      stoa_ok(Arguments{"generate", "run", "--prompts", "prompts.txt", "--greedy"} + fp32).out;
  const auto together = lines_of(shown);
  stoa_ok({"generate", "run", "--prompts", "prompts.txt", "--greedy", "--max-tokens", "9", "--dtype", "fp32",
           "--output", "answers.jsonl"});
  EXPECT_EQ(read_text(path("answers.jsonl")), shown);
  stoa_ok({"generate", "run", "--prompts", "prompts.txt", "--greedy", "--max-tokens", "9", "--dtype", "fp32",
           "--kv-memory-gb", "0.0001", "--threads", "2", "--output", "small.jsonl"});
  EXPECT_EQ(read_text(path("small.jsonl")), shown) << "little memory";
  const auto chosen = json_of(
      Arguments{"generate", "run", "--prompt", "the stone", "--choice", "the road", "--choice", "bread"} +
      fp32);
  EXPECT_TRUE(chosen["text"] == "the road" || chosen["text"] == "bread") << chosen;
  ASSERT_EQ(together.size(), 3u);
  std::ofstream pairs_file(path("pairs.tsv"));
  for (const auto& line : together) {
    // One at a time, the answers are the same: company in a pass changes nothing.
    const auto alone = json_of(
        Arguments{"generate", "run", "--greedy", "--prompt", line["prompt"].get<std::string>()} + fp32);
    EXPECT_EQ(alone["ids"], line["ids"]);
    EXPECT_EQ(alone["prompt_ids"], line["prompt_ids"]);
    for (const char* key : {"prompt_ids", "ids"}) {
      for (const auto& id : line[key]) pairs_file << id << ' ';
      pairs_file << (std::string(key) == "ids" ? "1\n" : "\t");
    }
  }
  pairs_file.close();
  // A beam finds nothing less likely than the likeliest tokens, by the sums that score gives.
  const auto beams =
      lines_of(stoa_ok(Arguments{"generate", "run", "--prompts", "prompts.txt", "--beams", "4"} + fp32).out);
  ASSERT_EQ(beams.size(), 3u);
  const auto rated = lines_of(stoa_ok({"score", "run", "pairs.tsv", "--ids", "--dtype", "fp32"}).out);
  ASSERT_EQ(rated.size(), 3u);
  for (std::size_t i = 0; i < beams.size(); ++i) {
    ASSERT_EQ(rated[i]["logprobs"].size(), together[i]["ids"].size() + 1);
    if (together[i]["end"] != "end token") continue;
    double sum = 0;
    for (const auto& logprob : rated[i]["logprobs"]) sum += logprob.get<double>();
    EXPECT_GE(beams[i]["score"].get<double>(), sum / static_cast<double>(rated[i]["logprobs"].size()) - 1e-5);
  }
  stoa_ok({"generate", "run", "--prompt", "the stone", "--seed", "3", "--top-k", "5", "--max-tokens", "4"});
  stoa_ok({"checkpoint", "export", "run", "--dtype", "fp32", "--output", "exported"});
  EXPECT_EQ(lines_of(stoa_ok({"score", "exported", "pairs.tsv", "--ids", "--dtype", "fp32"}).out), rated);

  // What score says of every target token, summed up.
  std::ofstream(path("pairs.txt")) << "the stone walks\tby the river\nbread\tsleeps\n";
  double sum = 0;
  int tokens = 0;
  for (const auto& line : lines_of(stoa_ok({"score", "run", "pairs.txt", "--dtype", "fp32"}).out))
    for (const auto& logprob : line["logprobs"]) sum -= logprob.get<double>(), ++tokens;
  const auto whole =
      json_of({"eval", "perplexity", "run", "--text", "pairs.txt", "--dtype", "fp32", "--json"});
  EXPECT_EQ(whole["pairs"], 2);
  EXPECT_EQ(whole["tokens"], tokens);
  EXPECT_EQ(whole["words"], 4);
  EXPECT_EQ(whole["bytes"], 18);
  EXPECT_NEAR(whole["loss"].get<double>(), sum / tokens, 1e-6);
}

// Trained in front of the sources that the model learns from, saved, resumed and used.
TEST_F(EncoderDecoder, HasVirtualTokensBeforeItsSources) {
  prepare();
  stoa_ok(pairs("base"));
  std::ofstream(path("pairs.txt")) << "the stone walks\tby the river\nbread\tsleeps\n";
  const auto rated = [&](const Arguments& model) {
    return lines_of(stoa_ok(Arguments{"score"} + model + Arguments{"pairs.txt", "--dtype", "fp32"}).out);
  };
  const auto untuned = rated({"base"});
  const auto tune = [&](const std::string& run, const std::string& scheme, const Arguments& more = {}) {
    Arguments keys{"restore_from_path=base",
                   "model.peft.peft_scheme=" + scheme,
                   "model.peft.p_tuning.virtual_tokens=3",
                   "trainer.max_steps=8",
                   "model.optim.lr=0.05",
                   "model.optim.sched.warmup_steps=0"};
    if (scheme == "ptuning") keys.push_back("model.peft.p_tuning.bottleneck_dim=12");
    return pairs(run, keys + more);
  };
  const auto bytes = [&](const std::string& run) {
    return read_text(path(run + "/checkpoints/latest/adapter/adapter_model.safetensors"));
  };
  for (const auto& [scheme, type] :
       {std::pair<std::string, std::string>{"prompt", "PROMPT_TUNING"}, {"ptuning", "P_TUNING"}}) {
    SCOPED_TRACE(scheme);
    stoa_ok(tune(scheme, scheme));
    const auto curve = metrics(scheme);
    EXPECT_LT(curve.rbegin()->second["loss"].get<double>(), curve.begin()->second["loss"].get<double>());
    const auto hashes = nlohmann::json::parse(read_text(path(scheme + "/base_tensors.json")));
    EXPECT_EQ(hashes["before"], hashes["after"]);
    const auto config =
        nlohmann::json::parse(read_text(path(scheme + "/checkpoints/latest/adapter/adapter_config.json")));
    EXPECT_EQ(config["peft_type"], type);
    EXPECT_EQ(config["task_type"], "SEQ_2_SEQ_LM");
    EXPECT_EQ(config["num_transformer_submodules"], 1);
    const auto tuned = rated({scheme});
    EXPECT_NE(tuned, untuned);
    EXPECT_EQ(rated({"base", "--adapter", scheme}), tuned);
    // One source at a time and several, one target and beams.
    const Arguments fp32{"--greedy", "--max-tokens", "5", "--dtype", "fp32", "--json"};
    std::ofstream(path("prompts.txt")) << "the stone\nthe tree <extra_id_0> in the road\n";
    const auto together =
        lines_of(stoa_ok(Arguments{"generate", scheme, "--prompts", "prompts.txt"} + fp32).out);
    ASSERT_EQ(together.size(), 2u);
    for (const auto& line : together) {
      const std::string prompt = line["prompt"].get<std::string>();
      EXPECT_EQ(json_of(Arguments{"generate", scheme, "--prompt", prompt} + fp32)["ids"], line["ids"]);
    }
    stoa_ok({"generate", scheme, "--prompt", "the stone", "--beams", "3", "--max-tokens", "5"});
    const auto whole =
        json_of({"eval", "perplexity", scheme, "--text", "pairs.txt", "--dtype", "fp32", "--json"});
    double sum = 0, count = 0;
    for (const auto& line : tuned)
      for (const auto& logprob : line["logprobs"]) sum -= logprob.get<double>(), ++count;
    EXPECT_NEAR(whole["loss"].get<double>(), sum / count, 1e-6);
    // Stopped and resumed bit for bit; on ranks that have parts, to rounding.
    stoa_ok(tune(scheme + "-parts", scheme, {"--stop-after", "3"}));
    stoa_ok(tune(scheme + "-parts", scheme));
    EXPECT_EQ(bytes(scheme + "-parts"), bytes(scheme));
    const Arguments tensor{"--ranks", "2", "model.tensor_model_parallel_size=2"},
        stages{"--ranks", "2", "model.pipeline_model_parallel_size=2", "--stop-after", "3"};
    stoa_ok(tune(scheme + "-tensor", scheme, tensor));
    expect_losses(scheme + "-tensor", scheme);
    stoa_ok(tune(scheme + "-stages", scheme, stages));
    stoa_ok(tune(scheme + "-stages", scheme));
    EXPECT_EQ(bytes(scheme + "-stages"), bytes(scheme));
    const Arguments planned =
        micro_model() + Arguments{"model.kind=t5", "model.position_embedding_type=relative",
                                  "model.vocab_size=80", "model.peft.peft_scheme=" + scheme};
    const auto plan = json_of(Arguments{"plan", "memory"} + planned + Arguments{"--json"}),
               bench = json_of(Arguments{"bench", "train"} + planned + Arguments{"--steps", "1", "--json"});
    EXPECT_EQ(plan["total_bytes"], bench["arena_peak_bytes"]);
  }
  const auto refused = [&](const Arguments& run, const char* text) {
    const Outcome outcome = stoa(run);
    EXPECT_EQ(outcome.exit_code, 1) << outcome.text();
    EXPECT_NE(outcome.err.find(text), std::string::npos) << outcome.text();
  };
  refused(tune("no", "prefix"), "prefix is not for encoder-decoders");
  refused(tune("no", "prompt", {"model.peft.p_tuning.virtual_tokens=31"}),
          "have no room for texts behind 31 virtual tokens");
  refused({"checkpoint", "merge", "prompt", "--output", "merged"}, "adds no values to weights");
}

TEST_F(EncoderDecoder, SaysWhatItCannotDo) {
  prepare("2");
  const auto refused = [&](const Arguments& more, const char* text) {
    const Outcome outcome = stoa(pairs("no", more));
    EXPECT_EQ(outcome.exit_code, 1) << outcome.text();
    EXPECT_NE(outcome.err.find(text), std::string::npos) << outcome.text();
  };
  refused({"model.encoder_seq_length=64"}, "sentinels");
  refused({"model.t5.seq_length_dec=4"}, "t5.seq_length_dec of at least");
  refused({"--ranks", "2", "model.context_parallel_size=2"}, "pairs of source and target are not split");
  refused({"model.kind=gpt"}, "is for kind t5 only");
  refused({"model.tokenizer=tok", "model.data=data"}, "sentinels");
  stoa_ok(pairs("run"));
  refused({"model.pipeline_model_parallel_split_rank=1"}, "of 1 stages");
  const auto says = [&](const Arguments& command, const char* text) {
    const Outcome outcome = stoa(command);
    EXPECT_EQ(outcome.exit_code, 1) << outcome.text();
    EXPECT_NE(outcome.err.find(text), std::string::npos) << outcome.text();
  };
  says({"chat", "run"}, "encoder-decoder");
  says({"eval", "perplexity", "run", "--text", "text.jsonl"}, "a tab and a target");
  std::ofstream(path("pair.txt")) << "a\tb\n";
  says({"eval", "perplexity", "run", "--text", "pair.txt", "--window", "8"},
       "reads source and target without windows");
  says({"embed", "run", "text.jsonl"}, "not an encoder");
  says({"generate", "run", "--prompt", "x", "--prompt-lookup"}, "continue a text");
  says({"generate", "run", "--prompt", "x", "--beams", "2", "--choice", "x"}, "without --beams");
  std::ofstream(path("talk.jsonl")) << "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}\n";
  says({"generate", "run", "--prompts", "talk.jsonl"},
       "talk.jsonl:1: 'messages' are for models that continue");
  says({"generate", "run", "--prompt", "x", "--beams", "2", "--greedy"}, "does not sample");
  says({"generate", "run", "--prompt", "x", "--beams", "1000"}, "one for each id of the vocabulary");
  says({"generate", "run", "--prompt", "x", "--echo"}, "--echo");
  says({"generate", "run", "--prompts", "text.jsonl", "--beams", "2", "--stop", "x"}, "--stop");
  std::ofstream(path("drawn.jsonl")) << "{\"prompt\": \"x\", \"min_tokens\": 9}\n";
  says({"generate", "run", "--prompts", "drawn.jsonl", "--beams", "2"}, "does not draw");
  says({"score", "run", "text.jsonl"}, "a tab and a target");
  std::ofstream(path("wide.tsv")) << "1 2\t999\n";
  says({"score", "run", "wide.tsv", "--ids"}, "beyond the vocabulary");
  stoa_ok(train("decoder"));
  says({"generate", "decoder", "--prompt", "x", "--beams", "2"}, "for encoder-decoders");
}

}  // namespace
}  // namespace stoa::e2e

// What is said where nobody can hear it: an answer that cannot be written ends its command, messages that
// cannot are lost.
#include <gmock/gmock.h>

#include <set>
#include <sstream>

#include "base/file.h"
#include "base/test_paths.h"
#include "workplace.h"

namespace stoa::e2e {
namespace {

using ::testing::HasSubstr;
using Commands = std::vector<Arguments>;

Commands about_the_program() {
  return {{"--help"},
          {"--version"},
          {"plan", "search", "--help"},
          {"config", "show", "tiny"},
          {"config", "show", "tiny", "--json"},
          {"config", "check", "tiny"},
          {"config", "check", "tiny", "--json"},
          {"config", "reference"},
          {"config", "megatron-arguments"},
          {"schedule", "show", "1f1b", "--stages", "2", "--microbatches", "2"}};
}

Commands about_plans(const Arguments& model) {
  const Arguments on{"--cluster", "dgx-h100"};
  const std::string rows = (test::source_dir() / "configs/planner/published_rows.csv").string();
  return {Arguments{"plan", "memory"} + model,
          Arguments{"plan", "predict", "gpt-126m", "--ranks", "8"} + on,
          Arguments{"plan", "predict", "gpt-126m", "--ranks", "8", "--json"} + on,
          {"plan", "predict", "--rows", rows, "--output", "predicted.csv"},
          {"plan", "calibrate", "--rows", rows},
          Arguments{"plan", "search", "gpt-126m", "--gpus", "8", "--pp", "1"} + on,
          Arguments{"plan", "search", "gpt-126m", "--gpus", "8", "--pp", "1", "--emit", "stoa"} + on,
          Arguments{"plan", "search", "gpt-126m", "--gpus", "8", "--pp", "1", "--emit", "megatron"} + on,
          Arguments{"plan", "advise", "gpt-126m", "--gpus", "8", "--times", "2"} + on,
          Arguments{"plan", "inference", "gpt-126m", "--batch", "1"} + on,
          Arguments{"plan", "serve", "gpt-126m", "--requests", "10", "--output", "8"} + on,
          {"plan", "size", "--gpus", "1024", "--days", "24", "--tokens", "300B"},
          {"plan", "size", "--gpus", "1024", "--days", "24", "--tokens", "300B", "--json"},
          {"plan", "base-config", "--params", "5B"}};
}

Commands about_text() {
  return {{"tokenizer", "train", "text.txt", "--vocab-size", "300", "--output", "bpe"},
          {"tokenizer", "train", "text.txt", "--vocab-size", "300", "--output", "bpe", "--json"},
          {"tokenizer", "train", "text.txt", "--kind", "unigram", "--vocab-size", "50", "--output", "pieces"},
          {"tokenizer", "encode", "--tokenizer", "tok", "text.txt"},
          {"tokenizer", "decode", "--tokenizer", "tok", "ids.txt"},
          {"tokenizer", "info", "--tokenizer", "tok"},
          {"tokenizer", "bench", "--tokenizer", "tok", "text.txt", "--repeat", "1"},
          {"data", "prepare", "text.jsonl", "--tokenizer", "tok", "--output", "again"},
          {"data", "prepare", "text.jsonl", "--tokenizer", "tok", "--measure-encoder"},
          {"data", "inspect", "data"},
          {"data", "text", "text.txt"},
          {"data", "stages"},
          {"data", "run", "quickstart", "--input", "text.jsonl", "--output", "kept", "--json"},
          {"data", "browse", "kept", "--port", "0"},
          {"data", "collect", "text.jsonl", "--output", "raw", "--json"},
          {"data", "dedup", "text.jsonl", "--output", "unique", "--json"},
          {"data", "tag", "quickstart", "--input", "text.jsonl", "--output", "tagged", "--json"},
          {"data", "decide", "tagged", "--json"},
          {"data", "blend", "recipe.yaml", "--output", "mixed", "--json"},
          {"data",     "mix",      "two.yaml", "--target",   "text.txt", "--tokenizer", "tok",
           "--output", "mix",      "--trials", "6",          "--steps",  "1",           "--layers",
           "1",        "--hidden", "8",        "--sequence", "16",       "--json"},
          {"data", "train-lm", "text.txt", "--output", "lm.arpa", "--json"},
          {"data", "train-classifier", "--label", "a=text.jsonl", "--label", "b=text.txt", "--output",
           "ab.bin", "--json"},
          {"eval", "baselines", "--train", "text.txt", "--text", "text.txt"},
          {"eval", "tasks", "nemo"},
          {"eval", "tasks", "nemo", "--json"},
          {"eval", "contamination", "--tasks", "lines.yaml", "--corpus", "text.txt"},
          {"eval", "contamination", "--tasks", "lines.yaml", "--corpus", "text.txt", "--json"},
          {"eval", "compare", "samples", "samples"},
          {"eval", "compare", "samples", "samples", "--json"},
          {"eval", "report", "samples"},
          {"eval", "report", "samples", "--json"}};
}

Commands about_speed(const Arguments& model) {
  const Arguments sized = model + Arguments{"model.vocab_size=300", "--threads", "1"};
  return {{"bench", "ops", "attention", "--repeat", "1"},
          {"bench", "device", "copy"},
          {"bench", "masks", "--tokenizer", "tok", "--regex", "[^]*", "--text", "text.txt", "--rounds", "1"},
          {"bench", "collectives", "--largest", "1024", "--seconds", "0.01"},
          Arguments{"bench", "pipeline"} + sized + Arguments{"--rounds", "1", "--schedules", "1f1b"},
          Arguments{"bench", "train", "--steps", "1", "--warmup", "0"} + sized,
          Arguments{"bench", "decode", "--prompt", "2", "--tokens", "2", "--rounds", "1"} + sized,
          // The first rank prints while others wait for it.
          Arguments{"bench", "train", "--ranks", "2", "--steps", "1", "--warmup", "1", "--stepwise"} + sized};
}

// The first two time large products, whatever they are asked for: too slow for a test of every build. The
// last asks a server (ServeLoad).
const std::set<std::string> kNotRun{"bench gemm", "bench calibrate", "bench serve"};

// Of a run of a decoder.
Commands about_a_decoder() {
  return {{"generate", "run", "--prompt", "the", "--max-tokens", "4"},
          {"generate", "run", "--prompt", "the", "--max-tokens", "4", "--json"},
          {"generate", "run", "--prompt", "the", "--max-tokens", "4", "--echo"},
          {"generate", "run", "--prompt", "the", "--max-tokens", "4", "--choice", "a,b"},
          {"chat", "run", "--max-tokens", "4"},
          {"chat", "run", "--max-tokens", "4", "--json"},
          {"serve", "run", "--port", "0"},
          {"bench", "engine", "run", "--rounds", "1", "--threads", "1"},
          {"bench", "engine", "run", "--rounds", "1", "--threads", "1", "--json"},
          {"score", "run", "lines.txt"},
          {"eval", "perplexity", "run", "--text", "lines.txt"},
          {"eval", "perplexity", "run", "--text", "lines.txt", "--json"},
          {"eval", "run", "run", "--tasks", "lines.yaml"},
          {"eval", "run", "run", "--tasks", "lines.yaml", "--json"},
          {"data", "show", "run/config.yaml"},
          {"data", "show", "run/config.yaml", "--json"},
          {"checkpoint", "inspect", "run"},
          {"checkpoint", "inspect", "run", "--json"},
          {"checkpoint", "verify", "run"},
          {"checkpoint", "verify", "run", "--json"},
          {"checkpoint", "verify", "run/checkpoints/latest/model"},
          {"checkpoint", "export", "run", "--dtype", "bf16", "--output", "exported"},
          {"checkpoint", "export", "run", "--to", "gguf", "--format", "q8_0", "--output", "exported.gguf"},
          {"checkpoint", "inspect", "exported.gguf"},
          {"checkpoint", "quantize", "run", "--format", "q4_0", "--output", "quantized.gguf"},
          {"checkpoint", "quantize", "run", "--format", "q8_0", "--output", "quantized-too.gguf", "--json"},
          {"checkpoint", "prune", "run", "--keep-layers", "0", "--output", "pruned"},
          {"checkpoint", "prune", "run", "--keep-layers", "0", "--output", "pruned-too", "--json"},
          {"checkpoint", "import", "run/checkpoints/latest/model", "--output", "imported"},
          {"checkpoint", "import", "run/checkpoints/latest/model", "--output", "imported-too", "--json"},
          {"compare", "run", "run"},
          {"compare", "run", "run", "--locate"}};
}

Commands about_an_adapter() {
  return {{"checkpoint", "merge", "tuned", "--output", "merged"},
          {"checkpoint", "merge", "tuned", "--output", "merged-too", "--json"},
          {"checkpoint", "extract-lora", "other", "--base", "run", "--rank", "2", "--output", "found"},
          {"checkpoint", "extract-lora", "other", "--base", "run", "--rank", "2", "--output", "found-too",
           "--json"}};
}

Commands about_an_encoder() {
  return {{"generate", "run", "--prompt", "the [MASK] walks"},
          {"generate", "run", "--prompt", "the [MASK] walks", "--json"},
          {"score", "run", "lines.txt"},
          {"embed", "run", "lines.txt"},
          {"embed", "run", "lines.txt", "--json"},
          {"eval", "embeddings", "run", "--sts", "pairs.tsv"},
          {"eval", "embeddings", "run", "--sts", "pairs.tsv", "--json"}};
}

Commands about_a_classifier() { return {{"predict", "run", "lines.txt"}}; }

Commands about_an_encoder_decoder() {
  return {{"generate", "run", "--prompt", "the", "--max-tokens", "4"},
          {"generate", "run", "--prompt", "the", "--max-tokens", "4", "--json"},
          {"generate", "run", "--prompts", "lines.txt", "--max-tokens", "4"},
          {"generate", "run", "--prompt", "the", "--beams", "2", "--max-tokens", "4", "--json"},
          {"score", "run", "pairs.txt"}};
}

class StandardOutput : public Workplace {
 protected:
  void SetUp() override {
    Workplace::SetUp();
    write_text(path("lines.txt"), "the stone walks\nbread\n");
    write_text(path("pairs.tsv"), "sentence1\tsentence2\tscore\nthe stone\ta stone\t4\nbread\tthe door\t1\n");
    write_text(path("ids.txt"), "1 2 3\n");
    fs::create_directories(path("samples"));
    write_text(path("samples/samples_t_2026-01-01T00-00-00.jsonl"),
               "{\"doc_id\": 0, \"target\": \"x\", \"arguments\": {\"gen_args_0\": {\"arg_0\": \"q\"}}, "
               "\"filtered_resps\": [[\"-1.5\", \"True\"]], \"metrics\": [\"acc\"], \"acc\": 1.0}\n");
    write_text(path("samples/results_2026-01-01T00-00-00.json"), R"({"results": {"t": {"acc,none": 1.0}}})");
    write_text(path("recipe.yaml"), "sources: [{path: data}]\n");
    write_text(path("two.yaml"), "sources: [{path: data}, {path: text.jsonl}]\n");
    write_text(path("lines.yaml"),
               "task: lines\ndataset_path: json\ndataset_kwargs: {data_files: {test: "
               "lines.jsonl}}\ntest_split: test\n"
               "output_type: loglikelihood\ndoc_to_text: text\ndoc_to_target: \"{{' ' + text}}\"\n");
    write_text(path("lines.jsonl"), "{\"text\": \"bread\"}\n");
    write_text(path("pairs.txt"), "the stone\twalks\n");
  }

  void all_notice(const Commands& commands) const {
    for (const Arguments& arguments : commands) {
      std::string command = "stoa";
      for (const auto& argument : arguments) command += " " + argument;
      SCOPED_TRACE(command);
      ProgramOptions options;
      options.input = "lines.txt";
      options.output = "/dev/full";
      const Outcome outcome = stoa(arguments, options);
      EXPECT_EQ(outcome.exit_code, 1) << outcome.text();
      EXPECT_THAT(outcome.err, HasSubstr("cannot write to standard output: No space left on device"));
      EXPECT_EQ(outcome.err.find("ERROR"), outcome.err.rfind("ERROR")) << outcome.err;
    }
  }

  void train_wordpiece() const {
    stoa_ok(
        {"tokenizer", "train", "text.jsonl", "--kind", "wordpiece", "--vocab-size", "200", "--output", "wp"});
  }

  // The commands below `words` that have none below them.
  void list_commands(const std::string& words, std::set<std::string>& out) const {
    Arguments arguments;
    std::istringstream in(words);
    for (std::string word; in >> word;) arguments.push_back(word);
    std::istringstream help(stoa_ok(arguments + Arguments{"--help"}).out);
    std::string line;
    while (std::getline(help, line) && line != "Subcommands:") {
    }
    bool lowest = true;
    while (std::getline(help, line)) {
      std::string name;
      if (!line.starts_with("  ") || line.starts_with("   ") || !(std::istringstream(line) >> name)) continue;
      if (name.ends_with(',')) name.pop_back();  // an alias follows
      lowest = false;
      list_commands(words.empty() ? name : words + " " + name, out);
    }
    if (lowest) out.insert(words);
  }
};

TEST_F(StandardOutput, OfTheProgram) { all_notice(about_the_program()); }
TEST_F(StandardOutput, OfPlans) { all_notice(about_plans(micro_model())); }
TEST_F(StandardOutput, OfText) { all_notice(about_text()); }
TEST_F(StandardOutput, OfMeasurements) { all_notice(about_speed(micro_model())); }

TEST_F(StandardOutput, OfADecoder) {
  stoa_ok(train("run", {"trainer.max_steps=3"}));
  all_notice(about_a_decoder());
}

TEST_F(StandardOutput, OfAnAdapter) {
  stoa_ok(train("run", {"trainer.max_steps=2"}));
  stoa_ok(train("other", {"trainer.max_steps=3"}));
  stoa_ok(train("tuned", {"restore_from_path=run", "model.peft.peft_scheme=lora", "trainer.max_steps=2"}));
  all_notice(about_an_adapter());
}

TEST_F(StandardOutput, OfAnEncoder) {
  write_sentences();
  train_wordpiece();
  stoa_ok(
      {"data", "prepare", "sentences.jsonl", "--tokenizer", "wp", "--split-sentences", "--output", "told"});
  stoa_ok(train("run", {"model.tokenizer=wp", "model.kind=bert", "model.data=told", "trainer.max_steps=3"}));
  all_notice(about_an_encoder());
}

TEST_F(StandardOutput, OfAClassifier) {
  write_text(path("train.jsonl"),
             "{\"text\": \"stone\", \"label\": \"hard\"}\n{\"text\": \"bread\", \"label\": \"soft\"}\n");
  train_wordpiece();
  stoa_ok(Arguments{"train"} + micro_model() +
          Arguments{"model.tokenizer=wp", "model.kind=bert", "model.task=sequence_classification",
                    "model.labels=[soft, hard]", "model.data.data_prefix={train: train.jsonl}",
                    "trainer.max_steps=3", "--output", "run"});
  all_notice(about_a_classifier());
}

TEST_F(StandardOutput, OfAnEncoderDecoder) {
  stoa_ok({"tokenizer", "train", "text.jsonl", "--kind", "unigram", "--vocab-size", "60", "--sentinels", "20",
           "--output", "pieces"});
  stoa_ok({"data", "prepare", "text.jsonl", "--tokenizer", "pieces", "--output", "data"});
  stoa_ok(train("run", {"model.tokenizer=pieces", "model.kind=t5", "model.t5.seq_length_dec=16",
                        "model.position_embedding_type=relative", "trainer.max_steps=3"}));
  all_notice(about_an_encoder_decoder());
}

TEST_F(StandardOutput, NoCommandIsLeftOut) {
  std::set<std::string> commands, tried = kNotRun;
  list_commands("", commands);
  EXPECT_GT(commands.size(), 30u);
  tried.insert({"train", "finetune"});  // say everything on standard error
  for (const auto& list :
       {about_the_program(), about_plans({}), about_text(), about_speed({}), about_a_decoder(),
        about_an_adapter(), about_an_encoder(), about_a_classifier(), about_an_encoder_decoder()})
    for (const Arguments& arguments : list) {
      std::string words;
      for (const std::string& word : arguments) {
        words += (words.empty() ? "" : " ") + word;
        if (commands.contains(words)) tried.insert(words);
      }
    }
  EXPECT_EQ(tried, commands);
}

// A reader that has enough ends the program as it ends others, by SIGPIPE; where that is ignored, it says
// why.
TEST_F(StandardOutput, ReaderThatGoes) {
  const auto told = [&](const std::string& before) {
    return stoa({"-c", before + "{ " + test::program().string() +
                           " schedule show 1f1b --stages 64 --microbatches 256 --format json; "
                           "echo status $? >&2; } | true"},
                {directory(), {}, std::chrono::seconds(600), "/bin/sh"})
        .err;
  };
  EXPECT_EQ(told(""), "status 141\n");
  EXPECT_EQ(told("trap '' PIPE; "), "ERROR cannot write to standard output: Broken pipe\nstatus 1\n");
}

class LostMessages : public Workplace {
 protected:
  Outcome training(const std::string& redirection) const {
    std::string command = test::program().string();
    for (const std::string& word : train("run")) command += " \"" + word + "\"";
    return stoa({"-c", command + redirection}, {directory(), {}, std::chrono::seconds(600), "/bin/sh"});
  }
};

TEST_F(LostMessages, EndNoRun) {
  EXPECT_EQ(training(" 2>/dev/full").exit_code, 0);
  EXPECT_EQ(metrics("run").size(), 12u);
}

TEST_F(LostMessages, GoIntoNoFileOfTheRun) {
  EXPECT_EQ(training(" <&- >&- 2>&-").exit_code, 0);
  EXPECT_EQ(metrics("run").size(), 12u);
  for (const auto& entry : fs::recursive_directory_iterator(path("run")))
    if (entry.is_regular_file() && entry.path().filename() != "report.html") {
      EXPECT_EQ(read_text(entry.path()).find("tok/s"), std::string::npos) << entry.path();
    }
}

}  // namespace
}  // namespace stoa::e2e

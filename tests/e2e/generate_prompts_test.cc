// `stoa generate --prompts FILE --output FILE`: many prompts, their order, and what becomes of a command that
// was killed.
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/test_paths.h"
#include "workplace.h"

namespace stoa::e2e {
namespace {

using Json = nlohmann::json;

class GeneratePrompts : public Workplace {
 protected:
  void SetUp() override {
    Workplace::SetUp();
    stoa_ok(train("run", {"trainer.max_steps=4"}));
  }
  std::string text_of(const std::string& name) const {
    std::ifstream in(path(name));
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::vector<Json> lines_of(const std::string& name) const {
    std::vector<Json> out;
    std::istringstream in(text_of(name));
    for (std::string line; std::getline(in, line);) out.push_back(Json::parse(line));
    return out;
  }
  void write(const std::string& name, const std::string& text) const { std::ofstream(path(name)) << text; }
  void refused(const Arguments& arguments, const std::string& words, int code = 1) const {
    const Outcome outcome = stoa(arguments);
    EXPECT_EQ(outcome.exit_code, code) << outcome.text();
    EXPECT_NE(outcome.err.find(words), std::string::npos) << words << "\n" << outcome.text();
  }
};

const Arguments kMany{"generate", "run", "--prompts", "many.txt", "--max-tokens", "20", "--seed", "7"};

// At a high temperature all tokens are about as likely, the one that ends a text among them.
TEST_F(GeneratePrompts, NoAnswerEndsBeforeItsLeastNumberOfTokens) {
  const auto ended_early = [&](const char* more) {
    std::string lines;
    for (int seed = 0; seed < 60; ++seed)
      lines += fmt::format(
          "{{\"prompt\": \"the\", \"seed\": {}, \"temperature\": 1000, \"max_tokens\": 24{}}}\n", seed, more);
    write("hot.jsonl", lines);
    std::filesystem::remove(path("hot.out"));
    stoa_ok({"generate", "run", "--prompts", "hot.jsonl", "--output", "hot.out"});
    const std::vector<Json> answers = lines_of("hot.out");
    return std::ranges::count_if(
        answers, [](const Json& a) { return a["end"] == "end token" && a["ids"].size() < 23; });
  };
  EXPECT_GT(ended_early(""), 0);
  EXPECT_EQ(ended_early(", \"min_tokens\": 23"), 0);
}

TEST_F(GeneratePrompts, ALineThatIsRefusedLeavesNothingBehind) {
  write("one.jsonl", "{\"prompt\": \"the\", \"min_tokens\": -1}\n");
  refused({"generate", "run", "--prompts", "one.jsonl", "--output", "one.out"}, "min_tokens");
  EXPECT_FALSE(std::filesystem::exists(path("one.out.partial")));
  write("one.jsonl", "{\"prompt\": \"the\", \"greedy\": true, \"top_k\": 3}\n");
  refused({"generate", "run", "--prompts", "one.jsonl", "--output", "one.out"},
          "'greedy' takes the most likely token");
  write("one.jsonl", "{\"prompt\": \"the\", \"max_tokens\": 3}\n");
  stoa_ok({"generate", "run", "--prompts", "one.jsonl", "--output", "one.out"});
  EXPECT_EQ(lines_of("one.out").size(), 1u);
}

TEST_F(GeneratePrompts, AnswersAreInOrderAndThoseOfThePromptsAlone) {
  write("few.jsonl",
        "{\"prompt\": \"the stone walks\", \"id\": \"a\"}\n"
        "\n"
        "{\"prompt\": \"by\", \"max_tokens\": 3, \"greedy\": true, \"metadata\": {\"from\": 2}}\n"
        "{\"prompt\": \"the river sleeps\", \"temperature\": 0.5, \"top_k\": 9}\n"
        "{\"prompt\": \"the\", \"seed\": 11, \"stop\": \"e\"}\n");
  const Arguments options{"--max-tokens", "17", "--seed", "5"};
  stoa_ok(Arguments{"generate", "run", "--prompts", "few.jsonl", "--output", "few.out"} + options);
  const std::vector<Json> lines = lines_of("few.out");
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0]["id"], "a");
  EXPECT_EQ(lines[1]["metadata"]["from"], 2);
  EXPECT_EQ(lines[2]["line"], 4);
  const std::vector<Arguments> alone{
      {"--max-tokens", "17", "--seed", "5"},
      {"--max-tokens", "3", "--greedy"},
      {"--max-tokens", "17", "--seed", "8", "--temperature", "0.5", "--top-k", "9"},
      {"--max-tokens", "17", "--seed", "11", "--stop", "e"}};
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Json one = json_of(
        Arguments{"generate", "run", "--json", "--prompt", lines[i]["prompt"].get<std::string>()} + alone[i]);
    for (const char* key : {"text", "ids", "prompt_ids", "end"})
      EXPECT_EQ(lines[i][key], one[key]) << i << key;
  }
  // Memory for few answers at once changes none of them, nor does the number of threads; and on standard
  // output are the same lines.
  stoa_ok(Arguments{"generate", "run", "--prompts", "few.jsonl", "--output", "small.out", "--kv-memory-gb",
                    "2e-5", "--threads", "2"} +
          options);
  EXPECT_EQ(text_of("small.out"), text_of("few.out"));
  const Outcome shown = stoa_ok(Arguments{"generate", "run", "--prompts", "few.jsonl", "--json"} + options);
  EXPECT_EQ(shown.out, text_of("few.out"));
  const Outcome texts = stoa_ok(Arguments{"generate", "run", "--prompts", "few.jsonl"} + options);
  EXPECT_EQ(std::count(texts.out.begin(), texts.out.end(), '\n'), 4) << texts.out;
}

// An array, objects over several lines and compressed files have the same prompts as JSON lines.
TEST_F(GeneratePrompts, AreReadFromEveryFormOfJson) {
  const std::string first = "{\"prompt\": \"the\"}", second = "{\"prompt\": \"by\", \"seed\": 4}";
  const std::string lines = first + "\n" + second + "\n";
  const auto answers = [&](const std::string& name, const std::string& text) {
    write(name, text);
    return stoa_ok({"generate", "run", "--prompts", name, "--json", "--max-tokens", "3"}).out;
  };
  const std::string expected = answers("asked.jsonl", lines);
  EXPECT_EQ(std::count(expected.begin(), expected.end(), '\n'), 2) << expected;
  EXPECT_EQ(answers("asked.ndjson", lines), expected);
  EXPECT_EQ(answers("asked.json", "[" + first + ", " + second + "]"), expected);
  EXPECT_EQ(answers("spread.json", "[\n  {\n    \"prompt\": \"the\"\n  },\n  " + second + "\n]\n"), expected);
  EXPECT_EQ(answers("marked.json", "\xEF\xBB\xBF[" + first + ", " + second + "]"), expected);
  const std::string plain = answers("plain.jsonl", first + "\n{\"prompt\": \"by\"}\n");
  EXPECT_EQ(answers("texts.json", "[\"the\", \"by\"]"), plain);
  EXPECT_EQ(answers("texts.jsonl", "\"the\"\n\"b\\u0079\"\n"), plain);
  write("ids.json", "[[1, 2]]");
  refused({"generate", "run", "--prompts", "ids.json"},
          "ids.json:1: expected texts, or objects with 'prompt'");
  write("none.json", "[]\n");
  refused({"generate", "run", "--prompts", "none.json"}, "has no prompts");
  const Outcome packed =
      stoa({"-c", "gzip -n asked.jsonl"}, {directory(), {}, std::chrono::seconds(60), "/bin/sh"});
  ASSERT_EQ(packed.exit_code, 0) << packed.text();
  EXPECT_EQ(stoa_ok({"generate", "run", "--prompts", "asked.jsonl.gz", "--json", "--max-tokens", "3"}).out,
            expected);
  write("broken.jsonl.gz", "not compressed");
  refused({"generate", "run", "--prompts", "broken.jsonl.gz"}, "broken.jsonl.gz");
}

// What the shell makes of `--prompts <(command)`.
TEST_F(GeneratePrompts, APipeIsReadOnce) {
  const auto piped = [&](const std::string& prompts) {
    const std::string command = "printf 'the\\nby\\n' | " + test::program().string() +
                                " generate run --greedy --max-tokens 3 --json --prompts " + prompts;
    const Outcome outcome = stoa({"-c", command}, {directory(), {}, std::chrono::seconds(600), "/bin/sh"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.text();
    return outcome.out;
  };
  const std::string standard = piped("-");
  EXPECT_EQ(std::count(standard.begin(), standard.end(), '\n'), 2) << standard;
  EXPECT_EQ(piped("/dev/stdin"), standard);
}

TEST_F(GeneratePrompts, GoesOnAfterItWasKilled) {
  std::string many;
  for (int i = 0; i < 3000; ++i) many += "the stone " + std::to_string(i) + "\n";
  write("many.txt", many);
  stoa_ok(kMany + Arguments{"--output", "whole.jsonl"});
  const auto answers = [&] {
    const std::string text = text_of("parts.jsonl.partial");
    return std::count(text.begin(), text.end(), '\n');
  };
  const Arguments parts = kMany + Arguments{"--output", "parts.jsonl"};
  for (const int signal : {SIGKILL, SIGINT}) {
    const auto before = fs::exists(path("parts.jsonl.partial")) ? answers() : 0;
    ProgramOptions options;
    options.directory = directory();
    Program program(parts, options);
    ASSERT_TRUE(program.wait_until([&] { return answers() > before + 40; })) << program.errors();
    program.signal(signal);
    const Outcome outcome = program.wait();
    EXPECT_EQ(outcome.exit_code, signal == SIGINT ? 130 : 128 + SIGKILL) << outcome.text();
    EXPECT_EQ(outcome.err.find("the same command continues") != std::string::npos, signal == SIGINT);
    EXPECT_FALSE(fs::exists(path("parts.jsonl")));
    EXPECT_GT(answers(), before + 40);
    // A line that was being written.
    std::ofstream(path("parts.jsonl.partial"), std::ios::app) << "{\"line\": 9999, \"pro";
  }
  refused(kMany + Arguments{"--output", "parts.jsonl", "--top-k", "3"},
          "its --top-k is not given, here it is [\"3\"]");
  write("many.txt", many + "one more\n");
  refused(parts, "its checksum of the prompts is");
  write("many.txt", many);
  refused(parts + Arguments{"--kv-dtype", "bf16"}, "its --kv-dtype is \"fp32\", here it is \"bf16\"");
  refused(parts + Arguments{"--tp", "2"}, "its --tp is not given, here it is 2");
  // Other words for the same bits.
  const Outcome last =
      stoa_ok(parts + Arguments{"--dtype", "float32", "--kv-dtype", "FP32", "--stored-weights", "--pp", "2"});
  EXPECT_NE(last.err.find("continues after"), std::string::npos) << last.text();
  EXPECT_EQ(text_of("parts.jsonl"), text_of("whole.jsonl"));
  EXPECT_FALSE(fs::exists(path("parts.jsonl.partial")));
  EXPECT_FALSE(fs::exists(path("parts.jsonl.partial.json")));
  refused(parts, "'parts.jsonl' exists");
}

TEST_F(GeneratePrompts, NothingIsSaidToBeKeptBeforeTheFirstAnswer) {
  stoa_ok(train("long", {"trainer.max_steps=3", "model.position_embedding_type=rope",
                         "model.max_position_embeddings=8192"}));
  write("one.jsonl", "{\"prompt\": \"the\", \"min_tokens\": 8000}\n");
  ProgramOptions options;
  options.directory = directory();
  Program program(
      {"generate", "long", "--prompts", "one.jsonl", "--max-tokens", "8000", "--output", "o.jsonl"}, options);
  ASSERT_TRUE(program.wait_until([&] { return fs::exists(path("o.jsonl.partial.json")); }))
      << program.errors();
  program.signal(SIGINT);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 130) << outcome.text();
  EXPECT_NE(outcome.err.find("interrupted before the first of 1 answers: nothing is kept"), std::string::npos)
      << outcome.text();
  EXPECT_FALSE(fs::exists(path("o.jsonl.partial")));
}

TEST_F(GeneratePrompts, SaysWhatIsWrongBeforeTheFirstAnswer) {
  const auto line = [&](const std::string& second, const std::string& words) {
    write("bad.jsonl", "{\"prompt\": \"the\"}\n" + second + "\n");
    refused({"generate", "run", "--prompts", "bad.jsonl", "--output", "bad.out"}, "bad.jsonl:2: " + words);
    EXPECT_FALSE(fs::exists(path("bad.out")));
    fs::remove(path("bad.out.partial"));
    fs::remove(path("bad.out.partial.json"));
  };
  line("{\"prompt\": \"the\"", "the line is not JSON");
  line("{\"prompt\": \"the\", \"max_tokns\": 3}", "unknown field 'max_tokns' (did you mean 'max_tokens'?)");
  line("{\"prompt\": \"the\", \"max_tokens\": 0}", "'max_tokens' must be between 1 and");
  line("{\"id\": 3}", "a line needs either 'prompt'");
  line("{\"messages\": [{\"role\": \"user\", \"content\": \"hello\"}]}", "'messages' need a chat template");
  std::string words = "the";
  for (int i = 0; i < 200; ++i) words += " stone";
  line("{\"prompt\": \"" + words + "\"}", "a prompt of");
  write("none.txt", "");
  refused({"generate", "run", "--prompts", "none.txt"}, "has no prompts");
  refused({"generate", "run", "--prompts", "-", "--output", "x"}, "standard input");
  refused({"generate", "run", "--prompts", "/dev/null", "--output", "x"}, "cannot read '/dev/null' again");
  refused({"generate", "run", "--prompts", "bad.jsonl", "--kv-memory-gb", "1e-5"},
          "less than one context of 32");
  refused({"generate", "run", "--prompt", "x", "--output", "x"}, "--prompts", 2);
  refused({"generate", "run", "--prompt", "x", "--stop", ""}, "--stop: expected a text", 2);
}

TEST_F(GeneratePrompts, GuessesChangeNoAnswer) {
  stoa_ok(train("small", {"trainer.max_steps=3", "model.num_layers=1", "model.seed=9"}));
  write("prompts.txt", "the stone the stone the\nby the river\nthe\n");
  const Arguments many{"generate", "run",    "--prompts", "prompts.txt",   "--max-tokens", "20",
                       "--json",   "--seed", "3",         "--temperature", "0.3"};
  const Arguments one{"generate",     "run", "--prompt", "the stone the",
                      "--max-tokens", "20",  "--json",   "--greedy"};
  const std::string plain = stoa_ok(many).out;
  const Json alone = json_of(one);
  for (const Arguments& guesses : {Arguments{"--prompt-lookup"}, {"--draft", "small"}, {"--draft", "run"}}) {
    EXPECT_EQ(stoa_ok(many + guesses).out, plain) << joined(guesses);
    EXPECT_EQ(json_of(one + guesses)["ids"], alone["ids"]) << joined(guesses);
  }
  write("turns.txt", "the stone\nthe stone\n");
  ProgramOptions options;
  options.directory = directory();
  options.input = path("turns.txt");
  const auto chat = [&](const Arguments& more) {
    const Outcome outcome = stoa(Arguments{"chat", "run", "--max-tokens", "6", "--greedy"} + more, options);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.text();
    return outcome.out;
  };
  EXPECT_EQ(chat({"--prompt-lookup"}), chat({}));
  stoa_ok({"tokenizer", "train", "text.jsonl", "--vocab-size", "290", "--output", "tok2"});
  stoa_ok({"data", "prepare", "text.jsonl", "--tokenizer", "tok2", "--output", "data2"});
  stoa_ok(train("other", {"trainer.max_steps=3", "model.tokenizer=tok2", "model.data=data2"}));
  refused(one + Arguments{"--draft", "other"},
          "the draft model's vocabulary has 290 tokens, the model's has 300");
}

}  // namespace
}  // namespace stoa::e2e

// Every argument of every command is given odd values: what is refused is refused with one message and exit 1
// or 2, nothing crashes or hangs, and a refused command leaves nothing behind. Commands and options are those
// of the program itself (cli/app.h), so new ones are covered from their first day.
#include <gmock/gmock.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "base/console.h"
#include "base/file.h"
#include "cli/app.h"
#include "cli/interrupt.h"
#include "sample.h"
#include "workplace.h"

namespace stoa::keys {
namespace {

using e2e::Arguments;
using e2e::joined;
using e2e::Outcome;
using e2e::operator+;
using ::testing::HasSubstr;

// What a command does; it owns the variables of the command's options.
struct Action : CLI::App {
  static std::function<void()>& of(CLI::App& command) { return command.*(&Action::final_callback_); }
};

struct Commands {
  Commands() : interrupt(console), context{console, interrupt}, app(cli::make_app(context)) {
    collect(*app, {});
  }

  Console console{Console::Level::kQuiet};
  cli::InterruptScope interrupt;
  cli::Context context;
  std::unique_ptr<CLI::App> app;
  std::vector<std::pair<Arguments, CLI::App*>> leaves;  // "plan", "memory"; its command

 private:
  std::vector<std::function<void()>> actions_;

  void collect(CLI::App& command, const Arguments& path) {
    const auto below = command.get_subcommands(nullptr);
    actions_.push_back(std::exchange(Action::of(command), nullptr));  // nothing is done here but parsing
    if (below.empty()) leaves.emplace_back(path, &command);
    for (CLI::App* sub : below) collect(*sub, path + Arguments{sub->get_name()});
  }
};

bool is_number(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return option.get_items_expected_max() > 0 &&
         (type.starts_with("INT") || type.starts_with("UINT") || type.starts_with("FLOAT"));
}

std::string first_name(const CLI::Option& option) {
  return option.get_lnames().empty() ? option.get_name() : "--" + option.get_lnames().front();
}

// What the parser says to `command --option=value`; "" where it takes it.
std::string refusal(CLI::App& app, Arguments words) {
  std::reverse(words.begin(), words.end());
  try {
    app.clear();
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
  return "";
}

TEST(ArgumentValues, NumbersAreFiniteDecimalAndWithinBounds) {
  const std::set<std::string> negative_too{"--length-penalty"};
  Commands commands;
  int options = 0;
  for (const auto& [path, command] : commands.leaves) {
    for (const CLI::Option* option : command->get_options()) {
      if (!is_number(*option) || option->get_positional()) continue;
      ++options;
      const std::string name = first_name(*option);
      Arguments odd{
          "nan", "-nan", "inf", "-inf",  "1e999", "99999999999999999999", "-99999999999999999999", "abc", "",
          " ",   "0x10", "007", "1.2.3", "1 2"};
      if (!negative_too.contains(name)) odd.insert(odd.end(), {"-1", "-0.5", "-1000000"});
      for (const auto& value : odd) {
        const Arguments words = path + Arguments{name, value};
        EXPECT_THAT(refusal(*commands.app, words), HasSubstr(name))
            << joined(path) << " " << name << " '" << value << "' is taken";
      }
    }
  }
  EXPECT_GT(options, 100);
}

// A number or word after the value of an option is no second value of it.
// Words that belong to no option, such as changes of the configuration, must not become values of one.
TEST(ArgumentValues, OptionsTakeOneWordWhereOthersMayFollow) {
  Commands commands;
  for (const auto& [path, command] : commands.leaves) {
    const auto options = command->get_options();
    const bool others_follow = std::any_of(options.begin(), options.end(), [](const CLI::Option* option) {
      return option->get_positional() && option->get_items_expected_max() > 1;
    });
    for (const CLI::Option* option : options)
      if (!option->get_positional() && others_follow) {
        EXPECT_FALSE(option->get_allow_extra_args()) << joined(path) << " " << first_name(*option);
      }
  }
}

TEST(ArgumentValues, RanksAndGpusAreOneWord) {
  Commands commands;
  int both = 0;
  for (const auto& [path, command] : commands.leaves) {
    const CLI::Option *ranks = command->get_option_no_throw("--ranks"),
                      *gpus = command->get_option_no_throw("--gpus");
    EXPECT_EQ(ranks, gpus) << joined(path);
    both += ranks != nullptr;
  }
  EXPECT_GE(both, 7);
}

// An option that would do nothing where it stands is refused.
TEST(ArgumentValues, OptionsWithoutEffectAreRefused) {
  Commands commands;
  const std::vector<std::pair<Arguments, std::string>> cases{
      {{"train", "tiny", "--dump-output", "d"}, "--dump-tensors"},
      {{"train", "tiny", "--dump-only", "d"}, "--dump-tensors"},
      {{"plan", "predict", "--rows", "x.csv", "--output", "y.csv", "--timeline", "t.svg"}, "--rows"},
      {{"plan", "predict", "--rows", "x.csv", "--output", "y.csv", "--ranks", "2"}, "--rows"},
      {{"plan", "predict", "--rows", "x.csv", "--output", "y.csv", "--from-megatron", "--bf16"}, "--rows"},
      {{"plan", "search", "tiny", "--cluster", "laptop-cpu", "--trial-steps", "3"}, "--trials"},
      {{"plan", "size", "--gpus", "8", "--utilization", "0.5"}, "--cluster"},
      {{"generate", "run", "--prompt", "a", "--length-penalty", "2"}, "--beams"},
      {{"generate", "run", "--prompt", "a", "--best", "2"}, "--json"},
      {{"generate", "run", "--prompt", "a", "--output", "b"}, "--prompts"},
      {{"generate", "run", "--prompt", "a", "--kv-memory-gb", "1"}, "--prompts"},
      {{"generate", "run", "--prompts", "a", "--output", "b", "--json"}, "--output"},
      {{"generate", "run", "--prompt", "a", "--draft", "b", "--prompt-lookup"}, "--prompt-lookup"},
      {{"generate", "run", "--prompt", "a", "--greedy", "--temperature", "2"}, "--greedy"},
      {{"chat", "run", "--greedy", "--top-p", "0.5"}, "--greedy"},
  };
  for (const auto& [words, other] : cases)
    EXPECT_THAT(refusal(*commands.app, words), HasSubstr(other)) << joined(words);
}

// Commands that measure for minutes, or wait for people.
bool only_parsed(const std::string& command) {
  if (command == "serve" || command == "data browse" || command == "data mix") return true;
  return command.starts_with("bench ") && command != "bench train" && command != "bench decode";
}

class ArgumentTexts : public e2e::Workplace, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    Workplace::SetUp();
    write_text(path("lines.txt"), "the stone walks\nbread\n");
    write_text(path("ids.txt"), "1 2 3\n");
    fs::create_directories(path("samples"));
    write_text(path("samples/samples_t_2026-01-01T00-00-00.jsonl"),
               "{\"doc_id\": 0, \"target\": \"x\", \"arguments\": {\"gen_args_0\": {\"arg_0\": \"q\"}}, "
               "\"filtered_resps\": [[\"-1.5\", \"True\"]], \"metrics\": [\"acc\"], \"acc\": 1.0}\n");
    write_text(path("samples/results_2026-01-01T00-00-00.json"), R"({"results": {"t": {"acc,none": 1.0}}})");
    write_text(path("recipe.yaml"), "sources: [{path: data}]\n");
    write_text(path("lines.yaml"),
               "task: lines\ndataset_path: json\ndataset_kwargs: {data_files: {test: "
               "lines.jsonl}}\ntest_split: test\n"
               "output_type: loglikelihood\ndoc_to_text: text\ndoc_to_target: \"{{' ' + text}}\"\n");
    write_text(path("lines.jsonl"), "{\"text\": \"bread\"}\n");
    write_text(path("chats.jsonl"),
               "{\"prompt\": \"a\", \"completion\": \"b\"}\n{\"prompt\": \"c\", \"completion\": \"d\"}\n");
    fs::create_symlink("/dev/null", path("device"));
    stoa_ok(train("run", {"trainer.max_steps=1", "model.optim.sched.warmup_steps=0"}));
    stoa_ok({"data", "tag", "quickstart", "--input", "text.jsonl", "--output", "tagged"});
  }

  // A command that works, or comes as far as a decoder gets with it.
  Arguments usual(const std::string& command) const {
    const Arguments config = micro_model() + Arguments{"model.vocab_size=300", "trainer.max_steps=1",
                                                       "model.optim.sched.warmup_steps=0"};
    const std::map<std::string, Arguments> all{
        {"tokenizer train", {"text.txt", "--vocab-size", "300", "--output", "made"}},
        {"tokenizer encode", {"--tokenizer", "tok", "lines.txt"}},
        {"tokenizer decode", {"--tokenizer", "tok", "ids.txt"}},
        {"tokenizer info", {"--tokenizer", "tok"}},
        {"tokenizer bench", {"--tokenizer", "tok", "lines.txt"}},
        {"data prepare", {"text.jsonl", "--tokenizer", "tok", "--output", "made"}},
        {"data inspect", {"data"}},
        {"data run", {"quickstart", "--input", "text.jsonl", "--output", "made"}},
        {"data tag", {"quickstart", "--input", "text.jsonl", "--output", "made"}},
        {"data collect", {"text.jsonl", "--output", "made"}},
        {"data decide", {"tagged"}},
        {"data dedup", {"text.jsonl", "--output", "made"}},
        {"data blend", {"recipe.yaml", "--output", "made"}},
        {"data browse", {"made"}},
        {"data mix", {"recipe.yaml", "--target", "lines.txt", "--tokenizer", "tok", "--output", "made"}},
        {"data train-lm", {"lines.txt", "--output", "made.arpa"}},
        {"data train-classifier",
         {"--label", "a=text.jsonl", "--label", "b=lines.txt", "--output", "made.bin"}},
        {"data stages", {}},
        {"data text", {"lines.txt"}},
        {"data show", config + Arguments{"model.data=data", "model.tokenizer=tok"}},
        {"train", config + Arguments{"model.data=data", "model.tokenizer=tok", "--output", "made"}},
        {"finetune",
         {"run", "--data", "chats.jsonl", "--template", "chatml", "--teacher", "run", "--stop-after", "0",
          "--output", "made"}},
        {"chat", {"run", "--greedy", "--max-tokens", "1"}},
        {"generate", {"run", "--prompt", "the", "--max-tokens", "1"}},
        {"score", {"run", "lines.txt"}},
        {"embed", {"run", "lines.txt"}},
        {"predict", {"run", "lines.txt"}},
        {"eval perplexity", {"run", "--text", "lines.txt"}},
        {"eval embeddings", {"run", "--sts", "lines.txt"}},
        {"eval run", {"run", "--tasks", "lines.yaml", "--bootstrap_iters", "10"}},
        {"eval contamination", {"--tasks", "lines.yaml", "--corpus", "lines.txt"}},
        {"eval tasks", {"nemo"}},
        {"eval compare", {"samples", "samples"}},
        {"eval report", {"samples"}},
        {"eval baselines", {"--train", "lines.txt", "--text", "lines.txt"}},
        {"checkpoint inspect", {"run"}},
        {"checkpoint verify", {"run"}},
        {"checkpoint export", {"run", "--dtype", "bf16", "--output", "made"}},
        {"checkpoint convert", {"run", "--dtype", "bf16", "--output", "made"}},
        {"checkpoint quantize", {"run", "--format", "q8_0", "--output", "made"}},
        {"checkpoint import", {"run/checkpoints/latest/model", "--output", "made"}},
        {"checkpoint merge", {"run", "--output", "made"}},
        {"checkpoint prune", {"run", "--keep-layers", "0", "--output", "made"}},
        {"checkpoint extract-lora", {"run", "--base", "run", "--output", "made"}},
        {"plan memory", config},
        {"plan predict", config + Arguments{"--cluster", "laptop-cpu"}},
        {"plan calibrate", {"--rows", "lines.txt", "--output", "made"}},
        {"plan search", config + Arguments{"--cluster", "laptop-cpu", "--gpus", "1"}},
        {"plan advise", config + Arguments{"--cluster", "laptop-cpu", "--gpus", "1"}},
        {"plan size", {"--gpus", "8", "--days", "1", "--tokens", "1B"}},
        {"plan base-config", {"--params", "1B"}},
        {"plan inference", config + Arguments{"--cluster", "laptop-cpu"}},
        {"plan serve",
         config + Arguments{"--cluster", "laptop-cpu", "--input", "8", "--output", "8", "--requests", "10"}},
        {"schedule show", {"1f1b", "--stages", "2", "--microbatches", "4"}},
        {"bench train", config + Arguments{"--steps", "1", "--warmup", "0"}},
        {"bench decode", config + Arguments{"--prompt", "2", "--tokens", "2", "--rounds", "1"}},
        {"compare", {"run", "run"}},
        {"config show", {"tiny"}},
        {"config check", {"tiny"}},
        {"config reference", {}},
        {"config megatron-arguments", {}},
    };
    const auto found = all.find(command);
    if (found != all.end()) return found->second;
    ADD_FAILURE() << "'" << command << "' is a new command: give it arguments in ArgumentTexts::usual()";
    return {};
  }

  std::set<std::string> listing() const {
    std::set<std::string> out;
    for (const auto& entry : fs::recursive_directory_iterator(directory()))
      out.insert(fs::relative(entry.path(), directory()).string());
    return out;
  }

  void expect_orderly(const Arguments& words) {
    std::set<std::string> before = listing();
    e2e::ProgramOptions options;
    options.timeout = std::chrono::minutes(30);
    const Outcome outcome = stoa(words, options);
    const std::string told = joined(words);
    SCOPED_TRACE(told.size() < 1000 ? told : told.substr(0, 700) + " … " + told.substr(told.size() - 200));
    EXPECT_FALSE(outcome.timed_out);
    EXPECT_TRUE(fs::is_character_file(path("device"))) << "a device was replaced";
    EXPECT_THAT(outcome.exit_code, ::testing::AnyOf(0, 1, 2)) << outcome.text().substr(0, 2000);
    if (outcome.exit_code != 0) {
      std::size_t errors = 0;
      for (std::size_t at = 0; (at = outcome.err.find("ERROR ", at)) != std::string::npos; ++at) ++errors;
      EXPECT_LE(errors, 1u) << outcome.err.substr(0, 2000);
      EXPECT_FALSE(outcome.err.empty()) << "refused without a word";
      std::string left;
      for (const auto& name : listing())
        if (!before.contains(name) && !name.starts_with("cache/")) left += name + " ";
      // What a data run puts into quarantine says why it kept nothing.
      if (outcome.err.find("has the reasons") == std::string::npos) {
        EXPECT_EQ(left, "") << "a refused command left something behind";
      }
    }
    for (const auto& name : listing())
      if (!before.contains(name)) fs::remove_all(path(name));
  }
};

TEST_P(ArgumentTexts, OddOnesAreTakenOrRefusedInOrder) {
  const Arguments odd{"",       " ",  "nan",  "-",          "/nowhere/x",
                      "device", "{}", "%s%n", "\xff\xfe\n", std::string(5000, 'x')};
  Commands commands;
  for (const auto& [path, command] : commands.leaves) {
    const std::string name = joined(path);
    if (path.front() != GetParam() || only_parsed(name)) continue;
    const Arguments words = path + usual(name);
    expect_orderly(words);
    for (const CLI::Option* option : command->get_options()) {
      if (option->get_items_expected_max() == 0 || is_number(*option)) continue;
      if (option->get_positional()) {
        for (const auto& value : odd)
          if (!value.empty() && is_sampled(name + " " + value)) expect_orderly(path + Arguments{value});
      } else {
        Arguments others = words;  // without the option's usual value
        const auto given = std::find_if(others.begin(), others.end(),
                                        [&](const auto& word) { return option->check_name(word); });
        if (given != others.end()) others.erase(given, given + 2);
        for (const auto& value : odd) {
          const std::string given_now = first_name(*option) + "=" + value;
          if (is_sampled(name + " " + given_now)) expect_orderly(others + Arguments{given_now});
        }
      }
    }
  }
}

std::vector<const char*> families() {
  return {"tokenizer", "data", "train",      "finetune", "chat",     "generate", "score",   "embed", "serve",
          "predict",   "eval", "checkpoint", "plan",     "schedule", "bench",    "compare", "config"};
}

INSTANTIATE_TEST_SUITE_P(Commands, ArgumentTexts, ::testing::ValuesIn(families()),
                         [](const auto& test) { return std::string(test.param); });

TEST(ArgumentValues, FamiliesAreThoseOfTheProgram) {
  Commands commands;
  const auto known = families();
  for (const auto& [path, command] : commands.leaves)
    EXPECT_THAT(known, ::testing::Contains(path.front())) << "a new command: name it in families()";
}

}  // namespace
}  // namespace stoa::keys

// `stoa bench masks`: what it takes to find the tokens that a constraint allows.
#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/file.h"
#include "base/timing.h"
#include "cli/command.h"
#include "cli/constraint_arguments.h"
#include "cli/number_checks.h"
#include "cli/print.h"
#include "token/tokenizer.h"

namespace stoa::cli {
namespace {

using Json = nlohmann::ordered_json;

struct BenchMasksArguments {
  ConstraintArguments constraint;
  std::string tokenizer;
  std::vector<std::string> texts;
  int rounds = 3;
  bool json = false;
};

// Microseconds of every mask: the first time that a constraint meets a text, and once more.
struct MaskTimes {
  double compile_seconds = 0;  // the median
  std::vector<double> first, again;
};

void follow(const std::shared_ptr<constraint::Constraint>& constraint, const token::Tokenizer& tokenizer,
            const std::string& file, const std::vector<std::int32_t>& ids, std::vector<double>& times) {
  constraint::ConstrainedText text(constraint);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const auto allowed = text.allowed();
    times.push_back(1e6 * seconds_since(begin));
    require<DataError>(constraint::has(*allowed, ids[i]) && text.push(ids[i]),
                       "{}: token {} of {}, '{}', does not fit the constraint", file, i + 1, ids.size(),
                       tokenizer.id_to_token(ids[i]));
  }
  require<DataError>(text.accepts(), "{} is only the beginning of a text that fits the constraint", file);
}

MaskTimes measure(const BenchMasksArguments& arguments, const token::Tokenizer& tokenizer) {
  std::vector<std::vector<std::int32_t>> texts;
  for (const std::string& file : arguments.texts) {
    std::string text = read_text(file);
    if (text.ends_with('\n')) text.pop_back();
    texts.push_back(tokenizer.encode(text, {.plain = true, .add_special = false}));
  }
  constraint::ConstraintStore store(tokenizer, tokenizer.vocab_size());
  const constraint::Source source = arguments.constraint.source();
  (void)store.get("tokens", [](const constraint::TokenNames&, constraint::Budget&) {  // reads the vocabulary
    constraint::Grammar any;
    any.root = any.add("root", constraint::text("x"));
    return any;
  });
  MaskTimes out;
  std::vector<double> compile;
  for (int round = 0; round < arguments.rounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    const auto compiled = store.get(std::to_string(round),
                                    [&](const constraint::TokenNames& names, constraint::Budget& budget) {
                                      return grammar_of(source, names, budget);
                                    });
    compile.push_back(seconds_since(begin));
    for (std::vector<double>* times : {&out.first, &out.again})
      for (std::size_t i = 0; i < texts.size(); ++i)
        follow(compiled, tokenizer, arguments.texts[i], texts[i], *times);
  }
  out.compile_seconds = median_of(compile);
  return out;
}

std::string sentence_of(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  const double mean = std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
  return fmt::format("mean {:.1f}, median {:.1f}, 99 % below {:.1f}, longest {:.1f} us", mean,
                     times[times.size() / 2], times[times.size() * 99 / 100], times.back());
}

void bench_masks(const BenchMasksArguments& arguments) {
  require<ConfigError>(
      !arguments.constraint.given().empty(),
      "a constraint is needed: --json-object, --json-schema, --regex, --grammar or --choice");
  const token::Tokenizer tokenizer = token::Tokenizer::load(arguments.tokenizer);
  MaskTimes times;
  try {
    times = measure(arguments, tokenizer);
  } catch (const constraint::ConstraintError& error) {
    arguments.constraint.refuse(error);
  }
  require<DataError>(!times.first.empty(), "the texts have no tokens");
  if (arguments.json)
    return print_json_line(Json{{"vocabulary", tokenizer.vocab_size()},
                                {"compile_seconds", times.compile_seconds},
                                {"first_microseconds", times.first},
                                {"again_microseconds", times.again}});
  print(fmt::format("vocabulary of {}, {} masks\ncompiled in {:.1f} ms\nfirst time  {}\nonce more   {}\n",
                    tokenizer.vocab_size(), times.first.size(), 1e3 * times.compile_seconds,
                    sentence_of(times.first), sentence_of(times.again)));
}

}  // namespace

void add_bench_masks(CLI::App& parent, Context&) {
  auto arguments = std::make_shared<BenchMasksArguments>();
  CLI::App* command = parent.add_subcommand(
      "masks",
      "Follow texts that fit a constraint and time how long it takes to find the tokens that it allows, at "
      "every token. Example: stoa bench masks --tokenizer models/small --json-schema person.json --text "
      "ada.json");
  command->add_option("--tokenizer", arguments->tokenizer, "Whose tokens")->required();
  arguments->constraint.add_to(*command);
  command
      ->add_option("--text", arguments->texts,
                   "File with a text that fits the constraint (may be given several times)")
      ->required()
      ->allow_extra_args(false);
  command->add_option("--rounds", arguments->rounds, "Times that the constraint is compiled")
      ->capture_default_str()
      ->check(between(1, 1000));
  command->add_flag("--json", arguments->json, "One JSON object with all times");
  command->callback([arguments] { bench_masks(*arguments); });
}

}  // namespace stoa::cli

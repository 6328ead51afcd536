// `stoa data train-lm`: an n-gram model of texts, as the stage `perplexity` takes it.
#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/console.h"
#include "base/error.h"
#include "cli/data_commands.h"
#include "cli/interrupt.h"
#include "cli/number_checks.h"
#include "cli/print.h"
#include "cli/text_files.h"
#include "curate/language_model/kneser_ney.h"
#include "curate/language_model/model_words.h"

namespace stoa::cli {
namespace {

using Json = nlohmann::ordered_json;

struct TrainLmArguments {
  std::vector<std::string> inputs;
  std::string output, tokenizer;
  TextArguments text;
  int order = 5;
  double memory = 2;
  bool raw = false, json = false;
};

void run_train_lm(const TrainLmArguments& a, Context& context) {
  require<ConfigError>(!fs::exists(a.output), "'{}' exists already; give another --output", a.output);
  // Time to remove what was sorted on disk.
  context.interrupt.set(
      {.grace = std::chrono::seconds(10), .words = "exiting, nothing is written", .last_words = {}});
  const curate::ModelWords words({a.tokenizer, !a.raw});
  curate::KneserNeyTrainer trainer(a.order, static_cast<std::uint64_t>(a.memory * 1e9),
                                   fs::path(a.output) += ".sort");
  curate::ModelWords::Line line;
  for (const std::string& input : a.inputs)
    data::each_document(a.text.file(input), [&](std::string_view document, std::uint64_t) {
      require<Interrupted>(!context.interrupt.token().stop_requested(), "interrupted; nothing was written");
      while (!document.empty()) {
        const std::size_t end = std::min(document.find('\n'), document.size());
        words.split(document.substr(0, end), line);
        document.remove_prefix(std::min(end + 1, document.size()));
        if (!line.words.empty()) trainer.add(line.words);
      }
    });
  const curate::KneserNeyTrainer::Summary made = trainer.write(a.output);
  if (a.json) {
    Json discounts = Json::array();
    for (const auto& d : made.discounts) discounts.push_back({{"of", d.of}, {"fallback", d.fallback}});
    print_json_line(Json{{"words", trainer.words()},
                         {"ngrams", made.ngrams},
                         {"discounts", discounts},
                         {"runs_on_disk", made.runs}});
    return;
  }
  std::string table = fmt::format("{} words, written to {}\n", trainer.words(), a.output);
  for (std::size_t n = 0; n < made.ngrams.size(); ++n) {
    const auto& d = made.discounts[n];
    table +=
        fmt::format("{}-grams {:>12}   discounts {:.4f} {:.4f} {:.4f}{}\n", n + 1, made.ngrams[n], d.of[0],
                    d.of[1], d.of[2], d.fallback ? " (fixed: too little text to estimate them)" : "");
  }
  print(table);
}

}  // namespace

void add_data_train_lm(CLI::App& data, Context& context) {
  auto a = std::make_shared<TrainLmArguments>();
  CLI::App* c = data.add_subcommand(
      "train-lm", "An n-gram model of texts (interpolated modified Kneser-Ney) for the stage `perplexity`");
  c->footer("Example: stoa data train-lm wiki.jsonl --order 5 --output wiki.arpa");
  c->add_option("INPUTS", a->inputs,
                ".jsonl and .txt files, also as .gz or .zst, and .parquet; a line is a sentence")
      ->required();
  c->add_option("--output,-o", a->output, "the ARPA file")->required();
  c->add_option("--order", a->order, "words of an n-gram")
      ->check(between(2, curate::KneserNeyTrainer::kHighestOrder))
      ->capture_default_str();
  c->add_option("--tokenizer,-t", a->tokenizer,
                "its tokens are the words; without it, pieces between white space");
  c->add_flag("--raw", a->raw,
              "do not normalize texts as CCNet does (the stage then needs normalize: false)");
  c->add_option("--memory", a->memory, "GB that it may use; n-grams that do not fit are sorted on disk")
      ->check(between(0.01, 1e6))
      ->capture_default_str();
  a->text.add_to(*c);
  c->add_flag("--json", a->json, "print the summary as JSON");
  c->callback([a, &context] { run_train_lm(*a, context); });
}

}  // namespace stoa::cli

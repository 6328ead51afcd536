// `stoa eval contamination --tasks A,B --corpus FILE`: documents of tasks that a corpus holds.
#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/console.h"
#include "base/error.h"
#include "cli/app.h"
#include "cli/command.h"
#include "cli/eval_task_options.h"
#include "cli/number_checks.h"
#include "cli/print.h"
#include "cli/text_files.h"
#include "eval/contamination/contamination.h"

namespace stoa::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ContaminationArguments {
  TaskPlaces places;
  TextArguments form;
  std::vector<std::string> tasks, corpus;
  std::string output;
  std::int64_t words = 13;
  bool json = false;
};

void search_corpus(const ContaminationArguments& a, Context& context) {
  eval::ContaminationSearch search(static_cast<std::size_t>(a.words));
  eval::MakingOptions making;
  making.data = a.places.data_folders();
  const eval::Selection selection = a.places.index().select(a.tasks);
  for (const eval::TaskConfig& config : selection.tasks) {
    eval::Task::check(config);
    require<ConfigError>(config.maker.empty(), "the documents of '{}' are made: no corpus holds them",
                         config.name);
    search.add(eval::load_task(config, 0, making));
  }
  double bytes = 0, before = 0;
  for (const std::string& file : a.corpus) bytes += static_cast<double>(data::describe_input(file, {}).bytes);
  Progress progress(context.console, "read", bytes, "B");
  for (const std::string& file : a.corpus) {
    std::int64_t number = 0;
    data::each_document(a.form.file(file), [&](std::string_view text, std::uint64_t position) {
      search.look_into(text, fmt::format("{}: document {}", file, number++));
      progress.update(before + static_cast<double>(position));
    });
    before += static_cast<double>(data::describe_input(file, {}).bytes);
  }
  progress.finish();
  if (!a.output.empty()) {
    eval::write_contamination(a.output, search.documents());
    context.console.line("written: " + a.output);
  }
  struct Counts {
    std::int64_t documents = 0, found = 0, short_ones = 0;
  };
  std::map<std::string, Counts> counts;
  for (const eval::SoughtDocument& d : search.documents()) {
    Counts& of_task = counts[d.task];
    ++of_task.documents;
    of_task.found += d.found > 0;
    of_task.short_ones += d.sequences == 0;
  }
  if (a.json) {
    Json answer{{"words", a.words}, {"corpus", a.corpus}};
    for (const auto& [task, c] : counts)
      answer["tasks"][task] = {{"documents", c.documents}, {"found", c.found}, {"too_short", c.short_ones}};
    return print_json_line(answer);
  }
  std::string text;
  for (const auto& [task, c] : counts) {
    text += fmt::format("{}: {} of {} documents are in the corpus", task, c.found, c.documents);
    if (c.short_ones > 0) text += fmt::format("; {} have fewer than {} words", c.short_ones, a.words);
    text += "\n";
  }
  print(text);
}

}  // namespace

void add_eval_contamination(CLI::App& eval, Context& context) {
  auto a = std::make_shared<ContaminationArguments>();
  CLI::App* c = eval.add_subcommand(
      "contamination",
      "Find the documents of benchmark tasks that share a sequence of words with a training corpus. eval run "
      "--contamination then also gives figures without them. Example: stoa eval contamination --tasks piqa "
      "--data sets --corpus corpus.jsonl --output contamination.jsonl");
  c->add_option("--tasks", a->tasks, "Tasks, groups, tags or YAML files, separated by commas")
      ->delimiter(',')
      ->required();
  c->add_option("--corpus", a->corpus, "Texts: .txt, .jsonl or .parquet, also .gz or .zst")->required();
  a->places.add_to(*c);
  a->form.add_to(*c);
  c->add_option("--words", a->words, "Words of a sequence that counts as found")
      ->capture_default_str()
      ->check(between(1, 1000));
  c->add_option("--output", a->output, "File for a line of JSON per document");
  c->add_flag("--json", a->json, "Print the answer as JSON");
  c->callback([a, &context] { search_corpus(*a, context); });
}

}  // namespace stoa::cli

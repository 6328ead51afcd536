// `stoa eval run MODEL --tasks A,B`: benchmark tasks as lm-evaluation-harness scores them, with its flags.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/console.h"
#include "base/cores.h"
#include "base/error.h"
#include "base/timing.h"
#include "cli/command.h"
#include "cli/eval_task_options.h"
#include "cli/model_argument.h"
#include "cli/number_checks.h"
#include "cli/print.h"
#include "eval/results/result_files.h"

namespace stoa::cli {
namespace {

using eval::Json;

struct EvalArguments {
  ModelArguments model;
  TaskPlaces places;
  std::string tasks, output, seed = "0,1234,1234,1234", gen_kwargs, system, multiturn = "true",
                             add_bos = "auto";
  std::optional<std::int64_t> shots, max_length;
  std::optional<double> limit;
  std::int64_t bootstrap = 100'000;
  bool chat = false, log_samples = false, json = false;
};

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> out;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    if (const auto part = eval::strip(rest.substr(0, end)); !part.empty()) out.emplace_back(part);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return out;
}

// "temperature=0.7,top_p=0.9" or a JSON object, as the harness reads them.
Json generation_arguments(const std::string& text) {
  if (eval::strip(text).starts_with('{')) {
    Json out = Json::parse(text, nullptr, false);
    require<ConfigError>(out.is_object(), "--gen_kwargs: '{}' is not a JSON object", text);
    return out;
  }
  Json out = Json::object();
  for (const std::string& part : parts_of(text)) {
    const std::size_t at = part.find('=');
    require<ConfigError>(at != std::string::npos && at > 0, "--gen_kwargs: expected NAME=VALUE, got '{}'",
                         part);
    const std::string value = part.substr(at + 1);
    Json read = Json::parse(eval::lowered(value) == "none" ? "null" : eval::lowered(value), nullptr, false);
    out[part.substr(0, at)] = read.is_discarded() || read.is_structured() ? Json(value) : read;
  }
  return out;
}

// Seeds of Python, numpy, torch and the shots: one for all, or four.
std::vector<std::uint64_t> seeds_of(const std::string& text) {
  std::vector<std::uint64_t> out;
  for (const std::string& part : parts_of(text)) {
    require<ConfigError>(eval::is_digits(part) && part.size() <= 18,
                         "--seed: expected one number or four (python,numpy,torch,fewshot), got '{}'", text);
    out.push_back(std::stoull(part));
  }
  require<ConfigError>(out.size() == 1 || out.size() == 4,
                       "--seed: expected one number or four (python,numpy,torch,fewshot), got '{}'", text);
  out.resize(4, out.front());
  return out;
}

bool truth_of(const std::string& text, const char* option) {
  const std::string lower = eval::lowered(text);
  for (const auto* yes : {"true", "1", "yes", "on"})
    if (lower == yes) return true;
  for (const auto* no : {"false", "0", "no", "off"})
    if (lower == no) return false;
  fail<ConfigError>("{}: expected true or false, got '{}'", option, text);
}

void run_tasks(const EvalArguments& a, Context& context) {
  const double start =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  const auto begin = std::chrono::steady_clock::now();
  eval::EvaluationOptions options;
  const auto seeds = seeds_of(a.seed);
  options.fewshot_seed = seeds[3];
  options.sampling_seed = seeds[2];
  options.num_fewshot = a.shots;
  require<ConfigError>(!a.limit || *a.limit > 0, "--limit must be more than 0, got {}", a.limit.value_or(0));
  options.limit = a.limit;
  options.chat = a.chat;
  options.multiturn = truth_of(a.multiturn, "--fewshot_as_multiturn");
  options.system = a.system;
  options.generation = generation_arguments(a.gen_kwargs);
  options.bootstrap_draws = a.bootstrap;
  options.threads = available_cores();
  options.scoring.max_length = a.max_length;
  if (a.add_bos != "auto") options.scoring.add_bos = truth_of(a.add_bos, "--add_bos_token");
  options.data = a.places.data_folders();
  const std::vector<std::string> names = parts_of(a.tasks);
  require<ConfigError>(!names.empty(), "--tasks names no task");
  require<ConfigError>(!a.log_samples || !a.output.empty(), "--log_samples needs --output_path");
  const eval::Selection selection = a.places.index().select(names);
  // What is missing is reported before the model is read.
  for (const auto& task : selection.tasks) eval::Task::check(task);
  infer::OpenModel model = a.model.open();
  if (!a.output.empty()) {
    const fs::path folder = eval::results_folder(a.output, a.model.model);
    fs::create_directories(folder);
    options.journal = folder / "unfinished_answers.jsonl";
  }
  Progress progress(context.console, "eval", 100, "%");
  const eval::Evaluation evaluation =
      eval::evaluate(model, selection, options, [&](double share) { progress.update(100 * share); });
  progress.finish();
  if (evaluation.resumed > 0)
    context.console.line(
        fmt::format("{} of {} answers are those of the killed run", evaluation.resumed, evaluation.requests));
  if (evaluation.truncated > 0)
    context.console.warn(
        fmt::format("{} of {} requests are longer than the window of {} tokens and lost their "
                    "beginning, as in lm-evaluation-harness",
                    evaluation.truncated, evaluation.requests, evaluation.window));
  eval::ResultContext result;
  result.model = a.model.model;
  result.system = a.system;
  result.multiturn = options.multiturn;
  result.chat_template = a.chat ? model.tokenizer().chat_template() : "";
  result.start = start;
  result.seconds = seconds_since(begin);
  result.config = {{"model", "stoa"},
                   {"model_args", {{"pretrained", a.model.model}, {"dtype", evaluation.dtype}}},
                   {"limit", a.limit ? Json(*a.limit) : Json()},
                   {"bootstrap_iters", a.bootstrap},
                   {"gen_kwargs", options.generation.empty() ? Json() : options.generation},
                   {"random_seed", seeds[0]},
                   {"numpy_seed", seeds[1]},
                   {"torch_seed", seeds[2]},
                   {"fewshot_seed", seeds[3]},
                   {"first_answer_seconds", evaluation.first_answer_seconds}};
  fs::path written;
  if (!a.output.empty()) written = eval::write_results(a.output, evaluation, result, a.log_samples);
  if (a.json) return print_json_line(eval::results_json(evaluation, result));
  print(eval::results_table(evaluation));
  if (!written.empty()) context.console.line("written: " + written.string());
}

}  // namespace

void add_eval_run(CLI::App& eval, Context& context) {
  auto a = std::make_shared<EvalArguments>();
  CLI::App* c = eval.add_subcommand("run",
                                    "Benchmark tasks, scored as lm-evaluation-harness scores them. Its YAML "
                                    "files are tasks here, too. Example: "
                                    "stoa eval run runs/shakespeare --tasks lambada_openai,hellaswag --data "
                                    "~/eval-data --output_path results");
  a->model.add_to(*c);
  c->add_option("--tasks", a->tasks, "Tasks, groups, tags or YAML files, separated by commas")->required();
  a->places.add_to(*c);
  c->add_option("--num_fewshot,--shots", a->shots, "Examples in the prompt (default: as each task says)")
      ->check(between(0, 1000));
  c->add_option("--limit", a->limit, "Only the first N documents of each task; below 1: that share of them")
      ->check(between(0, 1e9));
  c->add_flag("--apply_chat_template", a->chat, "Ask through the model's chat template");
  c->add_option("--fewshot_as_multiturn", a->multiturn,
                "With --apply_chat_template: examples as turns of the chat (true), or in one message (false)")
      ->capture_default_str();
  c->add_option("--system_instruction", a->system, "Text before the task's own description");
  c->add_option(
      "--gen_kwargs", a->gen_kwargs,
      "Generation options that replace those of the tasks: temperature=0.7,top_p=0.9, or a JSON object");
  c->add_option("--seed", a->seed, "Seeds of Python, numpy, torch and the choice of examples, or one for all")
      ->capture_default_str();
  c->add_option("--bootstrap_iters", a->bootstrap,
                "Draws for standard errors that have no formula; 0: no standard errors")
      ->capture_default_str()
      ->check(between(0, 1e7));
  c->add_option("--max_length", a->max_length,
                "Tokens that the model may see at once (default: its positions)")
      ->check(between(2, 1 << 24));
  c->add_option(
       "--add_bos_token", a->add_bos,
       "Texts begin with the beginning-of-text token: true, false, or auto (as the tokenizer's files say)")
      ->capture_default_str();
  c->add_option("--output_path,--output", a->output,
                "Folder for results_*.json; a killed run continues from there");
  c->add_flag("--log_samples", a->log_samples,
              "Write samples_*.jsonl too: every document, prompt and answer");
  c->add_flag("--json", a->json, "Print the content of results_*.json");
  c->callback([a, &context] { run_tasks(*a, context); });
}

}  // namespace stoa::cli

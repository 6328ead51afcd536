// `stoa eval run MODEL --tasks A,B`: benchmark tasks as lm-evaluation-harness scores them, with its flags.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/console.h"
#include "base/cores.h"
#include "base/error.h"
#include "base/file.h"
#include "base/shipped_files.h"
#include "base/timing.h"
#include "cli/api_key.h"
#include "cli/app.h"
#include "cli/cache_arguments.h"
#include "cli/command.h"
#include "cli/eval_task_options.h"
#include "cli/model_argument.h"
#include "cli/number_checks.h"
#include "cli/print.h"
#include "cli/rank_machine.h"
#include "cli/rank_options.h"
#include "eval/requests/api_answerer.h"
#include "eval/requests/generation_options.h"
#include "eval/requests/scorer.h"
#include "eval/results/result_files.h"
#include "run/over_ranks.h"
#include "serve/http/client.h"

namespace stoa::cli {
namespace {

using eval::Json;

struct EvalArguments {
  ModelArguments model;
  CacheArguments cache;
  RankOptions ranks;
  std::string api, tokenizer, api_key_file;
  std::int64_t api_requests = 8;
  bool api_chat = false;
  TaskPlaces places;
  std::string contamination;
  std::string tasks, output, seed = "0,1234,1234,1234", gen_kwargs, metadata, system, multiturn = "true",
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

// What the command line says of an evaluation. ConfigError: what is wrong with it.
eval::EvaluationOptions evaluation_options(const EvalArguments& a, const std::vector<std::uint64_t>& seeds) {
  eval::EvaluationOptions options;
  options.fewshot_seed = seeds[3];
  options.sampling_seed = seeds[2];
  options.num_fewshot = a.shots;
  require<ConfigError>(!a.limit || *a.limit > 0, "--limit must be more than 0, got {}", a.limit.value_or(0));
  options.limit = a.limit;
  options.chat = a.chat;
  options.multiturn = truth_of(a.multiturn, "--fewshot_as_multiturn");
  options.system = a.system;
  options.generation = generation_arguments(a.gen_kwargs);
  // Before any task is asked, and whether or not one generates.
  (void)eval::generation_options(options.generation, "--gen_kwargs", options.sampling_seed);
  options.bootstrap_draws = a.bootstrap;
  options.threads = available_cores();
  options.scoring.max_length = a.max_length;
  options.scoring.cache = a.cache.type();
  if (a.add_bos != "auto") options.scoring.add_bos = truth_of(a.add_bos, "--add_bos_token");
  options.making.data = a.places.data_folders();
  options.making.words = shipped_file("eval") / "ruler";
  options.making.python_seed = seeds[0];
  options.making.numpy_seed = seeds[1];
  if (!a.metadata.empty()) {
    options.making.metadata = Json::parse(a.metadata, nullptr, false);
    require<ConfigError>(options.making.metadata.is_object(), "--metadata: '{}' is not a JSON object",
                         a.metadata);
  }
  for (const auto& [name, given] : {std::pair("--tokenizer", !a.tokenizer.empty()),
                                    {"--api-chat", a.api_chat},
                                    {"--api-key-file", !a.api_key_file.empty()}})
    require<ConfigError>(!given || !a.api.empty(), "{} is for --api", name);
  require<ConfigError>(a.api.empty() || !a.cache.type(),
                       "--kv-dtype is for models in files: a server (--api) chooses its own");
  require<ConfigError>(!a.log_samples || !a.output.empty(), "--log_samples needs --output_path");
  if (!a.contamination.empty()) options.contamination = eval::read_contamination(a.contamination);
  if (!a.output.empty()) options.journal = eval::results_folder(a.output, a.model.model);
  return options;
}

eval::Selection selection_of(const EvalArguments& a) {
  const std::vector<std::string> names = parts_of(a.tasks);
  require<ConfigError>(!names.empty(), "--tasks names no task");
  eval::Selection selection = a.places.index().select(names);
  for (const auto& task : selection.tasks) eval::Task::check(task);
  return selection;
}

// The evaluation as one of the ranks that divide it. `console`: shows its progress.
eval::Evaluation evaluate_as(train::Seat& seat, eval::Answerer& answerer, const eval::Selection& selection,
                             const eval::EvaluationOptions& options, const eval::Division& division,
                             Console& console) {
  try {
    Progress progress(console, "eval", 100, "%");
    eval::Evaluation out = eval::evaluate(answerer, selection, options, division,
                                          [&](double share) { progress.update(100 * share); });
    progress.finish();
    return out;
  } catch (const std::exception& error) {
    seat.on_failure(error.what());
    throw;
  }
}

eval::Evaluation evaluate_on_ranks(const EvalArguments& a, train::Launch& launch,
                                   const eval::Selection& selection, const eval::EvaluationOptions& options,
                                   Console& console, std::string* chat_template) {
  const auto ranks = static_cast<int>(launch.agreed_ranks(a.ranks.count).value_or(1));
  MachineOptions machine = a.model.machine;
  machine.ranks = launch.threads_on_host(ranks);
  machine.threads = threads_of(machine);
  machine.rows_apart = true;  // an answer depends as little as can be on the others of its pass
  if (a.ranks.bind_cores) launch.require_bindable();
  run::Layout layout;
  layout.grid = grid::RankGrid({1, 1, 1, ranks, 1});
  eval::Evaluation out;
  Console quiet(Console::Level::kQuiet);
  launch.run(layout.grid, a.ranks.launch_options(layout), [&](train::Seat& seat) {
    std::optional<infer::OpenModel> model;
    std::optional<parallel::ParallelContext> parallel;  // exists when the model's machine does
    Stream* stream = nullptr;
    model.emplace(a.model.open([&] {
      infer::Machine made = make_machine(machine, seat);
      parallel.emplace(seat.context(*made.device));
      stream = made.stream.get();
      return made;
    }));
    const eval::Division division{seat.rank, ranks, [&](std::string own) {
                                    return run::gather_texts(parallel->along(parallel::Group::kWorld),
                                                             std::move(own), *stream);
                                  }};
    if (seat.first() && a.chat) *chat_template = model->tokenizer().chat_template();
    eval::ModelAnswerer answerer(*model);
    eval::Evaluation mine =
        evaluate_as(seat, answerer, selection, options, division, seat.first() ? console : quiet);
    if (seat.first()) out = std::move(mine);
  });
  return out;
}

Json model_arguments(const EvalArguments& a, const eval::Evaluation& evaluation) {
  if (!a.api.empty()) return {{"model", a.model.model}, {"base_url", a.api}};
  return {{"pretrained", a.model.model}, {"dtype", evaluation.dtype}};
}

eval::Evaluation evaluate_server(const EvalArguments& a, const eval::Selection& selection,
                                 const eval::EvaluationOptions& options, Console& console) {
  const serve::http::Address address = serve::http::parse_address(a.api);
  const serve::http::Headers headers = key_headers(a.api_key_file);
  eval::ApiOptions api{a.api, a.model.model, a.api_chat, static_cast<int>(a.api_requests)};
  std::optional<token::Tokenizer> tokenizer;
  if (!a.tokenizer.empty()) tokenizer = token::Tokenizer::load(a.tokenizer);
  eval::ApiAnswerer answerer(std::move(api), std::move(tokenizer), [&] {
    return [client = std::make_shared<serve::http::Client>(address), headers](const std::string& path,
                                                                              const Json* body) {
      try {
        const serve::http::Reply reply =
            body ? client->post(path, body->dump(), headers) : client->get(path, headers);
        return eval::ApiReply{reply.status, reply.body};
      } catch (const IoError& error) {
        return eval::ApiReply{0, error.what()};
      }
    };
  });
  train::Seat seat = train::only_seat();
  return evaluate_as(seat, answerer, selection, options, {}, console);
}

void run_tasks(const EvalArguments& a, Context& context) {
  const double start =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  const auto begin = std::chrono::steady_clock::now();
  train::Launch launch(build_name());
  Console quiet(Console::Level::kQuiet);
  Console& console = launch.first_process() ? context.console : quiet;
  std::vector<std::uint64_t> seeds;
  eval::EvaluationOptions options;
  eval::Selection selection;
  launch.prepare([&] {  // what is missing is reported before a model is read
    seeds = seeds_of(a.seed);
    options = evaluation_options(a, seeds);
    require<ConfigError>(
        a.api.empty() || launch.agreed_ranks(a.ranks.count).value_or(1) == 1,
        "several ranks divide the work of a model in files: with --api give --api-requests instead");
    selection = selection_of(a);
    if (!options.journal.empty()) fs::create_directories(options.journal);
  });
  const bool generates = std::ranges::any_of(
      selection.tasks, [](const auto& task) { return task.output == eval::OutputType::kGenerateUntil; });
  if (!options.generation.empty() && !generates)
    console.warn("--gen_kwargs has no effect: no answer of these tasks is generated");
  eval::ResultContext result;
  const eval::Evaluation evaluation =
      a.api.empty() ? evaluate_on_ranks(a, launch, selection, options, console, &result.chat_template)
                    : evaluate_server(a, selection, options, console);
  if (!launch.first_process()) return;
  if (evaluation.resumed > 0)
    console.line(
        fmt::format("{} of {} answers are those of the killed run", evaluation.resumed, evaluation.requests));
  if (evaluation.truncated > 0)
    console.warn(
        fmt::format("{} of {} requests are longer than the window of {} tokens and lost their "
                    "beginning, as in lm-evaluation-harness",
                    evaluation.truncated, evaluation.requests, evaluation.window));
  result.model = a.model.model;
  result.system = a.system;
  result.multiturn = options.multiturn;
  result.start = start;
  result.seconds = seconds_since(begin);
  result.config = {{"model", "stoa"},
                   {"model_args", model_arguments(a, evaluation)},
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
  if (!written.empty()) console.line("written: " + written.string());
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
  a->model.weights.add_to(*c);
  a->cache.add_to(*c);
  c->add_option("--tasks", a->tasks, "Tasks, groups, tags or YAML files, separated by commas")->required();
  c->add_option(
      "--api", a->api,
      "Evaluate the model MODEL of an OpenAI-compatible server: http://HOST:PORT/v1 or https://HOST/v1");
  c->add_option("--tokenizer", a->tokenizer, "With --api: directory with that model's tokenizer");
  c->add_flag("--api-chat", a->api_chat,
              "With --api: ask /chat/completions, for tasks whose answers are generated");
  c->add_option("--api-key-file", a->api_key_file, "With --api: file whose first line is the key");
  c->add_option("--api-requests", a->api_requests, "With --api: requests at the same time")
      ->capture_default_str()
      ->check(between(1, 1024));
  a->places.add_to(*c);
  a->ranks.add_to(*c, "1");
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
  c->add_option("--metadata", a->metadata,
                "What tasks whose documents are made depend on, a JSON object: {\"max_seq_lengths\": [4096, "
                "8192], \"num_samples\": 100} for RULER (default: 4096 tokens, 500 documents)");
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
  c->add_option(
      "--contamination", a->contamination,
      "File that stoa eval contamination wrote: adds figures (METRIC_clean) over the documents that the "
      "training corpus does not hold");
  c->add_option("--output_path,--output", a->output,
                "Folder for results_*.json; a killed run continues from there");
  c->add_flag("--log_samples", a->log_samples,
              "Write samples_*.jsonl too: every document, prompt and answer");
  c->add_flag("--json", a->json, "Print the content of results_*.json");
  c->callback([a, &context] { run_tasks(*a, context); });
}

}  // namespace stoa::cli

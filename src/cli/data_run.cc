// `stoa data run`: a pipeline of the data factory over files.
#include "cli/data_run.h"

#include <fmt/ranges.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/console.h"
#include "base/cores.h"
#include "base/error.h"
#include "base/nearest.h"
#include "cli/data_commands.h"
#include "cli/interrupt.h"
#include "cli/number_checks.h"
#include "cli/plan_arguments.h"
#include "cli/print.h"
#include "curate/run/process.h"
#include "curate/run/run.h"

namespace stoa::cli {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::chrono::seconds kRunStopGrace(10);
constexpr double kSampleShare = 0.01;

struct PipelineArguments {
  std::string pipeline;
  std::vector<std::string> inputs;
  RunArguments run;
  bool dry_run = false;
};

void print_forecast(const curate::Pipeline& pipeline, const RunArguments& a) {
  const curate::Forecast f = curate::forecast(pipeline, a.options.inputs, kSampleShare);
  const double scale =
      f.sampled_bytes > 0 ? static_cast<double>(f.input_bytes) / static_cast<double>(f.sampled_bytes) : 0;
  const double seconds = f.seconds * scale / a.options.workers;
  const double memory = 2 * scale * static_cast<double>(f.flow.kept.documents) *
                        static_cast<double>(f.bytes_per_document);  // half of it is for sorting
  const double disk = scale * static_cast<double>(f.flow.kept.bytes + f.flow.dropped_in_all().bytes +
                                                  f.flow.quarantined.bytes);
  if (a.json) {
    print_json_line(Json{{"sample", curate::to_json(f.flow)},
                         {"sampled_bytes", f.sampled_bytes},
                         {"input_bytes", f.input_bytes},
                         {"seconds", seconds},
                         {"output_bytes", disk},
                         {"least_memory", memory}});
    return;
  }
  print(fmt::format("sample: {} of {}\n{}", format_bytes(static_cast<double>(f.sampled_bytes)),
                    format_bytes(static_cast<double>(f.input_bytes)),
                    curate::flow_table(f.flow, curate::stage_names(pipeline))));
  print(fmt::format("the whole, with {} workers: about {}, {} of output{}\n", a.options.workers,
                    format_duration(seconds), format_bytes(disk),
                    memory > 0
                        ? fmt::format(", --memory of at least {:.2g} (GB)", std::max(memory * 1e-9, 0.01))
                        : std::string()));
}

// A file, or the name of one in configs/pipelines.
fs::path find_pipeline(const std::string& name) {
  std::error_code error;
  if (fs::is_regular_file(name, error)) return name;
  const fs::path shipped = shipped_file("pipelines");
  const fs::path path = shipped / (name + ".yaml");
  if (name.find('/') == std::string::npos && fs::is_regular_file(path, error)) return path;
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(shipped)) names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  fail<ConfigError>("no pipeline '{}': expected a YAML file, or one of {}{}", name, fmt::join(names, ", "),
                    did_you_mean(name, names));
}

// The last word of a run, so that a script learns of what is missing.
void require_whole_inputs(const curate::Flow& flow, const std::string& output) {
  require<DataError>(flow.damaged_inputs == 0,
                     "{} fault{} in the inputs; '{}' has the reasons, all else is done", flow.damaged_inputs,
                     flow.damaged_inputs == 1 ? "" : "s", (fs::path(output) / "quarantine").string());
}

// Whether a launcher started this process as one of several: a Slurm array or step, MPI, an indexed job of
// Kubernetes.
bool is_one_of_several() {
  const auto number = [](const char* name) {
    const char* const text = std::getenv(name);
    return text != nullptr ? std::atol(text) : 0;
  };
  for (const char* name :
       {"SLURM_ARRAY_TASK_COUNT", "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (number(name) > 1) return true;
  return std::getenv("JOB_COMPLETION_INDEX") != nullptr;
}

// This command again, in place of this process.
class Restart {
 public:
  Restart() {
    const std::string line = read_text("/proc/self/cmdline");
    for (std::size_t at = 0; at < line.size(); at = line.find('\0', at) + 1)
      words_.emplace_back(line.c_str() + at);
    for (std::string& word : words_) pointers_.push_back(word.data());
    pointers_.push_back(nullptr);
  }
  // In a signal handler, too.
  void now() const {
    sigset_t none;
    ::sigemptyset(&none);
    ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
    ::execv("/proc/self/exe", pointers_.data());
    ::_exit(1);
  }

 private:
  std::vector<std::string> words_;
  std::vector<char*> pointers_;
};

}  // namespace

void run_and_print(const curate::Pipeline& pipeline, RunArguments& a, Context& context) {
  require<UsageError>(!a.output.empty(), "--output is required");
  a.options.output = a.output;
  a.options.shared |= is_one_of_several();
  a.options.restart = [again = std::make_shared<Restart>()] { again->now(); };
  a.options.memory = static_cast<std::size_t>(a.memory * 1e9);
  context.interrupt.set({.grace = kRunStopGrace,
                         .words = "stopping; the same command continues later",
                         .last_words = [] { return std::string("finished shards are kept"); }});
  const curate::RunResult result =
      curate::run_pipeline(pipeline, a.options, context.console, context.interrupt.token());
  if (a.options.tags && pipeline.has_second_pass())
    context.console.line("`deduplicate` and `cut` are left to `stoa data run` over what is kept in the end");
  const double mb_per_s = static_cast<double>(result.flow.read.bytes) / 1e6 / result.seconds;
  if (a.json) {
    print_json_line(Json{{"output", a.output},
                         {"flow", curate::to_json(result.flow)},
                         {"shards", result.shards},
                         {"resumed_shards", result.resumed_shards},
                         {"was_complete", result.was_complete},
                         {"seconds", result.seconds},
                         {"mb_per_s", mb_per_s}});
    return require_whole_inputs(result.flow, a.output);
  }
  if (result.was_complete) context.console.line(fmt::format("'{}' is complete; nothing was done", a.output));
  print(curate::flow_table(result.flow, curate::stage_names(pipeline)));
  require_whole_inputs(result.flow, a.output);
}

void add_run_arguments(CLI::App& c, RunArguments& a, const std::string& output) {
  a.options.workers = available_cores();
  c.add_option("--output,-o", a.output, output);
  c.add_option("--workers", a.options.workers, "threads; the result does not depend on them")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  c.add_flag("--strict", a.options.strict,
             "end the run at an input that is truncated, corrupt or not text; else it goes to quarantine");
  c.add_flag("--shared", a.options.shared,
             "several processes, on any machines that see the output, give this command to do it together "
             "(by itself in Slurm arrays and steps, under MPI and in indexed jobs of Kubernetes)");
  c.add_flag("--json", a.json, "print the result as JSON");
}

void add_memory_argument(CLI::App& c, RunArguments& a) {
  c.add_option("--memory", a.memory, "GB that a deduplication may use; it sorts on disk what does not fit")
      ->check(between(0.001, 1e6))
      ->capture_default_str();
}

namespace {

void run_pipeline_file(PipelineArguments& a, Context& context) {
  const curate::Pipeline pipeline = curate::read_pipeline(find_pipeline(a.pipeline));
  a.run.options.inputs.assign(a.inputs.begin(), a.inputs.end());
  if (a.dry_run) return print_forecast(pipeline, a.run);
  run_and_print(pipeline, a.run, context);
}

void add_pipeline_arguments(CLI::App& c, PipelineArguments& a, const std::string& output) {
  c.add_option("PIPELINE", a.pipeline, "YAML file, or the name of one in configs/pipelines")->required();
  c.add_option(
       "--input,-i", a.inputs,
       ".jsonl, .txt, .html, .warc and .wet files, also as .gz or .zst, .parquet, and folders of them")
      ->required();
  add_run_arguments(c, a.run, output);
}

}  // namespace

void add_data_run(CLI::App& data, Context& context) {
  auto a = std::make_shared<PipelineArguments>();
  CLI::App* c = data.add_subcommand(
      "run",
      "Clean a corpus: a pipeline of filters over files, with a reason for every document that is dropped");
  c->footer("Example: stoa data run fineweb --input crawl/ --output clean");
  add_pipeline_arguments(*c, *a,
                         "directory: kept/, dropped/, manifest.json; a run that was ended continues there");
  add_memory_argument(*c, a->run);
  c->add_flag("--dry-run", a->dry_run,
              "run about 1 % of every file in memory, and say what the whole would take");
  c->callback([a, &context] { run_pipeline_file(*a, context); });
}

void add_data_tag(CLI::App& data, Context& context) {
  auto a = std::make_shared<PipelineArguments>();
  a->run.options.tags = true;
  CLI::App* c = data.add_subcommand(
      "tag",
      "Measure what the filters of a pipeline judge, and drop nothing: `data decide` then applies limits");
  c->footer("Example: stoa data tag fineweb --input crawl/ --output tagged");
  add_pipeline_arguments(
      *c, *a,
      "directory: kept/ with all documents, attributes/, manifest.json; a run that was ended "
      "continues there");
  c->callback([a, &context] { run_pipeline_file(*a, context); });
}

void add_data_stages(CLI::App& data, Context&) {
  CLI::App* c = data.add_subcommand("stages", "Every key of a pipeline and of its stages, as Markdown");
  c->footer("Example: stoa data stages");
  c->callback([] { print(curate::pipeline_reference()); });
}

}  // namespace stoa::cli

#include "cli/plan_search_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>

#include "base/file.h"
#include "base/timing.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/number_checks.h"
#include "cli/plan_arguments.h"
#include "cli/plan_emit.h"
#include "cli/plan_subject.h"
#include "cli/plan_trials.h"
#include "cli/print.h"
#include "cli/schema.h"
#include "config/value.h"
#include "foreign/megatron/writing.h"
#include "optim/batch_plan.h"
#include "plan/emit.h"
#include "plan/error_band.h"
#include "plan/search_report.h"
#include "plan/search_space.h"

namespace stoa::cli {
namespace {

struct SearchArguments {
  PlanSubjectArguments subject;
  std::vector<std::int64_t> gpus;
  std::string objective = "step-time", target, emit, output, beside;
  std::size_t top = 10;
  double batch_tolerance = 0, front_within = 1.02;
  plan::SearchSpace space;
  std::size_t trials = 0;
  std::int64_t trial_steps = 4;
  double trial_minutes = 10;
  bool json = false;
};

constexpr double kFirstProgress = 2;       // seconds of a search before it says how far it is
constexpr std::int64_t kMostThreads = 64;  // most ranks of a trial that runs as threads of one process

// Removes degrees that this program's trainer does not support: its configuration would reject them.
void limit_to_program(plan::SearchSpace& space, const plan::SearchTarget target) {
  if (target != plan::SearchTarget::kStoa) return;
  const auto takes = [](const char* key) {
    const std::vector<std::string> overrides{std::string(key) + "=2"};
    try {
      parse_run_config("trainer: {devices: 2}\nmodel: {num_moe_experts: 2, global_batch_size: 2}\n",
                       overrides);
      return true;
    } catch (const ConfigError&) {
      return false;
    }
  };
  if (space.context.empty() && !takes("model.context_parallel_size")) space.context = {1};
  if (space.expert.empty() && !takes("model.expert_model_parallel_size")) space.expert = {1};
}

// The program that will train, and whether the user named it.
struct Target {
  plan::SearchTarget program = plan::SearchTarget::kStoa;
  bool asked = false;
};

// On GPUs what runs there today: Megatron-LM's schedules and shards, unless others are asked for.
Target target_of(const SearchArguments& a, const PlanSubject& s) {
  const auto asked = [&](const std::string& text, const char* option) {
    const auto program = choice<plan::SearchTarget>(text, option);
    require<ConfigError>(!s.estimated || program != plan::SearchTarget::kStoa,
                         "{} stoa: {}; expected megatron or nemo", option, lacks(s.config.estimated));
    return Target{program, true};
  };
  if (!a.emit.empty()) return asked(a.emit, "--emit");
  if (!a.target.empty()) return asked(a.target, "--target");
  if (s.estimated) return {plan::SearchTarget::kMegatron, false};
  const plan::SearchTarget usual = plan::usual_target(s.cluster);
  const auto known = plan::schedules_of(usual);
  const bool others =
      std::any_of(
          a.space.schedules.begin(), a.space.schedules.end(),
          [&](const auto& name) { return std::find(known.begin(), known.end(), name) == known.end(); }) ||
      std::any_of(a.space.zero_stages.begin(), a.space.zero_stages.end(), [](auto z) { return z >= 2; });
  return {others ? plan::SearchTarget::kStoa : usual, false};
}

std::vector<std::int64_t> device_counts(const SearchArguments& a, const PlanSubject& s) {
  if (!a.gpus.empty()) return a.gpus;
  const auto& t = s.config.trainer;
  if (t.devices || t.num_nodes) return {t.devices.value_or(1) * t.num_nodes.value_or(1)};
  if (s.cluster.nodes) return {*s.cluster.nodes * s.cluster.links.devices_per_node};
  fail<UsageError>(
      "how many devices? Give --gpus N (or a list: --gpus 64,128,256), trainer.devices and num_nodes, or a "
      "cluster file with nodes");
}

// Sizes of the ramp-up below the global batch.
std::vector<std::int64_t> batches_of_ramp(const train::BatchConfig& batch) {
  std::vector<std::int64_t> out;
  if (!batch.rampup_batch_size) return out;
  for (const auto& size : optim::BatchPlan(batch.global(), 1, batch.rampup_batch_size).sizes())
    if (size.samples < batch.global()) out.push_back(size.samples);
  return out;
}

plan::SearchRun search_on(std::int64_t devices, const SearchArguments& a, PlanSubject& s,
                          plan::SearchRequest request, std::vector<std::string>& notes, Console& console) {
  const auto begin = std::chrono::steady_clock::now();
  request.progress = [&](const plan::SearchProgress& p) {
    const double elapsed = seconds_since(begin);
    if (elapsed < kFirstProgress) return;
    console.live(fmt::format(
        "{} devices: {} layouts examined, {} left{}{}", devices, p.examined, p.left,
        p.best_seconds > 0 ? fmt::format(", best {:.3f} s", p.best_seconds) : "",
        p.examined > 0
            ? fmt::format(", about {} left", format_duration(elapsed / static_cast<double>(p.examined) *
                                                             static_cast<double>(p.left)))
            : ""));
  };
  require<UsageError>(devices >= 1 && devices <= (1 << 20), "--gpus {}: expected 1 to {}", devices, 1 << 20);
  request.devices = devices;
  const auto once = [&] { return plan::search(*s.memory_model, request, s.cluster, s.constants->constants); };
  plan::SearchRun run;
  run.devices = devices;
  run.result = once();
  // Nothing: a batch that cannot be distributed, or sizes that share no divisor with the number of devices.
  if (run.result.best.empty() && a.batch_tolerance == 0) {
    request.batch_tolerance = 0.05;
    run.result = once();
    if (!run.result.best.empty())
      notes.push_back(
          fmt::format("{} devices: a global batch of {} samples fits no layout; those within 5 % of it were "
                      "searched",
                      devices, request.workload.global_batch));
  }
  for (std::int64_t fewer = devices - 1;
       run.result.best.empty() && fewer >= devices - devices / 8 && fewer > 0; --fewer) {
    request.devices = fewer;
    request.batch_tolerance = a.batch_tolerance;
    if (plan::layouts(request, s.cluster).empty()) continue;
    plan::SearchResult result = once();
    if (result.best.empty()) continue;
    notes.push_back(fmt::format("{} devices: no layout of all of them fits; {} are used, {} stay idle",
                                devices, fewer, devices - fewer));
    run.result = std::move(result);
  }
  if (!run.result.best.empty()) {
    request.devices = run.result.best.front().workload.devices();
    run.neighbours = plan::neighbours(*s.memory_model, request, s.cluster, s.constants->constants,
                                      run.result.best.front());
  }
  console.finish_live();
  run.seconds = seconds_since(begin);
  return run;
}

[[noreturn]] void nothing_fits(const plan::SearchReport& report, const plan::SearchRequest& request) {
  const bool examined = std::any_of(report.runs.begin(), report.runs.end(), [](const plan::SearchRun& run) {
    return run.result.nearest.has_value();
  });
  require<ConfigError>(examined || request.smaller_batches.empty(),
                       "no layout takes every batch of rampup_batch_size: {}, {}. Give fewer devices, other "
                       "batches, or model.rampup_batch_size=null",
                       fmt::join(request.smaller_batches, ", "), request.workload.global_batch);
  require<ConfigError>(
      examined,
      "no layout divides {} devices among the layers, heads and batches of {} (a global batch of "
      "{} samples): give fewer devices, a number with more divisors, or another "
      "model.global_batch_size",
      report.runs.back().devices, report.model_name, request.workload.global_batch);
  std::string nearest;
  for (const plan::SearchRun& run : report.runs)
    if (run.result.nearest)
      nearest = fmt::format("; the nearest on {} devices, {}, needs {:.1f} GB of each: {:.1f} GB too much",
                            run.devices, plan::describe(*run.result.nearest),
                            static_cast<double>(run.result.nearest->memory.total) / 1e9,
                            (static_cast<double>(run.result.nearest->memory.total) - report.memory) / 1e9);
  fail<ConfigError>(
      "no layout of {} fits into {:.1f} GB per device ({}){}. Take more devices, devices with more memory, "
      "or a smaller model.",
      report.model_name, report.memory / 1e9, report.cluster.device.name, nearest);
}

// Compares the configured layout with the best one.
std::string compare(const SearchArguments& a, PlanSubject& s, const plan::Found& best,
                    plan::SearchTarget bytes_of, Console& console) {
  PlanSubjectArguments other = a.subject;
  for (const auto& part : CLI::detail::split_up(a.beside)) other.config.overrides.push_back(part);
  const auto beside = load_plan_subject(other, console, best.workload.devices());
  const auto& o = beside->training.options;
  plan::Workload w = beside->workload;
  w.software = best.workload.software;
  const plan::RankBytes bytes =
      plan::fullest_device(bytes_of, *beside->memory_model, w,
                           {o.layout, o.micro_batch, o.microbatches, o.model.config.recompute});
  const plan::TimeSplit time = plan::predict_time(w, s.cluster, s.constants->constants);
  const double ratio = time.sum() / w.tokens() / (best.seconds / best.workload.tokens());
  const double free = (s.memory - static_cast<double>(bytes.total)) / 1e9;
  std::string out =
      fmt::format("\nfor comparison: {}\n  {:.3f} s per step, {:.1f} GB ({})\n  the best is {:.1f} % {}",
                  w.text(), time.sum(), static_cast<double>(bytes.total) / 1e9,
                  free >= 0 ? fmt::format("{:.1f} free", free) : fmt::format("{:.1f} too much", -free),
                  100 * std::abs(ratio - 1), ratio >= 1 ? "faster" : "slower");
  return out + fmt::format("; where the other is slower: {}\n", plan::largest_growth(best.time, time));
}

// The job and what it runs. A target that the user did not ask for gives way to Stoa where it lacks the
// words.
void write_job(const SearchArguments& a, const PlanSubject& s, const plan::Found& best, Target target,
               const fs::path& directory, Console& console) {
  EmittedPlan emitted;
  try {
    emitted = emit_plan(target.program, a.subject, s, best);
  } catch (const ConfigError& error) {
    if (target.asked || s.estimated) throw;
    console.line(fmt::format("plan.sbatch runs Stoa: {}", error.what()));
    emitted = emit_plan(plan::SearchTarget::kStoa, a.subject, s, best);
  }
  plan::JobScript job = plan::job_of(s.config.name, best.workload, s.cluster, emitted.per_device);
  job.needs = emitted.needs;
  // The job runs where it is submitted: paths in the configuration are relative to there.
  const std::string file = foreign::shell_quoted((directory / emitted.file_name).string());
  job.command = emitted.command;
  if (const auto at = job.command.find("@FILE"); at != std::string::npos) job.command.replace(at, 5, file);
  if (job.command.empty()) job.body = fmt::format("bash {}\n", file);
  for (const auto& [name, text] : {std::pair(emitted.file_name, emitted.text),
                                   std::pair(std::string("plan.sbatch"), plan::sbatch_script(job))}) {
    write_text(directory / name, text);
    console.line(fmt::format("wrote {}", (directory / name).string()));
  }
  for (const auto& note : emitted.notes) console.line(note);
}

void write_files(const SearchArguments& a, const PlanSubject& s, const plan::SearchReport& report,
                 const plan::SearchRun& chosen, Target target, Console& console) {
  const fs::path directory = a.output;
  fs::create_directories(directory);
  const plan::Found& best = chosen.result.best.front();
  const std::int64_t per_node = std::min(best.workload.devices(), s.cluster.links.devices_per_node);
  const std::int64_t nodes = (best.workload.devices() + per_node - 1) / per_node;
  const auto write = [&](const std::string& name, const std::string& text) {
    write_text(directory / name, text);
    console.line(fmt::format("wrote {}", (directory / name).string()));
  };
  write(fmt::format("final_summary_{}nodes.csv", nodes), plan::to_csv(report));
  write("report.html", plan::to_html(report, chosen));
  write("plan.yaml", show_run_config(with_plan(s.config, best, s.cluster.links.devices_per_node)));
  write_job(a, s, best, target, directory, console);
}

// Runs trials on this machine if there are few ranks, else writes files for a cluster.
std::string try_best(const SearchArguments& a, const PlanSubject& s, const plan::SearchRun& chosen,
                     Context& context) {
  const std::vector<plan::Found>& best = chosen.result.best;
  require<UsageError>(!a.output.empty(), "--trials needs --output DIR, where trials are saved and resumed");
  const TrialRequest request{a.trials, a.trial_steps, a.trial_minutes, a.output, context.interrupt.token()};
  if (chosen.devices <= kMostThreads && s.cluster.device.family.find("CPU") != std::string::npos) {
    context.interrupt.set({.grace = std::chrono::seconds(5),
                           .words = "stopping the current trial (again: exit immediately)",
                           .last_words = {}});
    const std::vector<Trial> trials = run_trials(best, s.config, request, context.console);
    return to_text(trials, rerank(best, trials), best);
  }
  const std::size_t count = std::min(a.trials, best.size());
  for (std::size_t i = 0; i < count; ++i)
    write_text(request.directory / fmt::format("trial-{}.yaml", i + 1),
               show_run_config(with_plan(s.config, best[i], s.cluster.links.devices_per_node)));
  const fs::path script = request.directory / "trials.sbatch";
  write_text(script, trials_script(s.config.name, best.front().workload, s.cluster, count, a.trial_steps));
  return fmt::format("\ntrials: {} runs the best {} on the cluster\n", script.string(), count);
}

void search(const SearchArguments& a, Context& context) {
  const auto objective = choice<plan::SearchReport::Objective>(a.objective, "--objective");
  PlanSubjectArguments asked = a.subject;
  if (a.gpus.size() == 1) asked.config.planned_ranks = a.gpus.front();
  const auto subject = load_plan_subject(asked, context.console);
  PlanSubject& s = *subject;
  const Target target = target_of(a, s);
  require<ConfigError>(a.trials == 0 || !s.estimated, "--trials runs Stoa: {}", lacks(s.config.estimated));
  plan::SearchRequest request;
  request.workload = s.workload;
  request.memory = s.memory;
  request.space = a.space;
  request.target = target.program;
  // Those of the usual program are Stoa's, counted.
  if (!a.target.empty() || s.estimated) request.bytes = target.program;
  request.top = a.top;
  request.batch_tolerance = a.batch_tolerance;
  request.smaller_batches = batches_of_ramp(s.config.batch);
  request.front_within = a.front_within;
  // Overlap costs no memory and changes no results: every plan uses it.
  request.workload.software.overlap_gradients = true;
  if (target.program != plan::SearchTarget::kStoa) request.workload.software.overlap_parameters = true;
  limit_to_program(request.space, target.program);
  plan::SearchReport report;
  report.model_name = s.config.name;
  report.parameters = parameters_of(s);
  report.cluster = s.cluster;
  report.bytes = request.bytes;
  report.memory = s.memory;
  report.steps = s.config.trainer.max_steps.value_or(0);
  const plan::ErrorBand band = plan::error_band(request.workload, s.cluster, s.calibration);
  report.low = band.low;
  report.high = band.high;
  report.band = band.why;
  report.command = command_line();
  report.target = std::string(plan::name_of(target.program));
  if (plan::usual_target(s.cluster) != plan::SearchTarget::kStoa)
    report.notes.push_back(
        target.program == plan::SearchTarget::kStoa
            ? "Stoa's own program is not proven on several GPUs: --target megatron searches what runs there "
              "today"
            : fmt::format("searched for {}{}", report.target,
                          target.asked ? ""
                                       : ", which runs on this hardware today; --target stoa adds what "
                                         "Stoa's own program has, not proven on several GPUs"));
  report.calibration = s.calibration_text;
  if (objective == plan::SearchReport::Objective::kEnergy && s.cluster.device.power_watts <= 0)
    fail<ConfigError>("--objective tokens-per-joule: the cluster '{}' has no power_watts for its device",
                      s.cluster.name);
  for (const std::int64_t devices : device_counts(a, s))
    report.runs.push_back(search_on(devices, a, s, request, report.notes, context.console));
  const plan::SearchRun* chosen = report.chosen(objective);
  if (!chosen) nothing_fits(report, request);
  const plan::Found& best = chosen->result.best.front();
  if (!a.output.empty()) {
    context.interrupt.finish_files();
    write_files(a, s, report, *chosen, target, context.console);
  }
  if (!a.emit.empty() && a.output.empty()) {
    const EmittedPlan emitted = emit_plan(target.program, a.subject, s, best);
    print(emitted.text);
    for (const auto& note : emitted.notes) context.console.line(note);
    return;
  }
  if (a.json) return print(plan::to_json(report, *chosen) + "\n");
  print(plan::to_text(report, *chosen));
  if (!a.beside.empty()) print(compare(a, s, best, request.bytes, context.console));
  if (a.trials > 0) print(try_best(a, s, *chosen, context));
}

}  // namespace

train::RunConfig with_plan(train::RunConfig config, const plan::Found& found, std::int64_t devices_per_node) {
  const plan::Workload& w = found.workload;
  const run::Layout& layout = found.point.layout;
  train::LayoutConfig& l = config.layout;
  l.tensor_model_parallel_size = w.tp;
  l.pipeline_model_parallel_size = w.pp;
  // Searched layouts keep the kind of context parallelism only with the degree that it was given for.
  if (l.hierarchical_context_parallel_sizes && l.context_parallel_size != w.cp) {
    l.hierarchical_context_parallel_sizes.reset();
    l.cp_comm_type = train::LayoutConfig{}.cp_comm_type;
  }
  l.context_parallel_size = w.cp;
  l.expert_model_parallel_size = w.ep;
  l.sequence_parallel = layout.sequence_parallel;
  l.virtual_pipeline_model_parallel_size = std::nullopt;
  if (layout.chunks > 1) l.virtual_pipeline_model_parallel_size = layout.chunks;
  l.pipeline_schedule = layout.schedule;
  l.microbatch_group_size_per_vp_stage = std::nullopt;
  l.account_for_embedding_in_pipeline_split = l.account_for_loss_in_pipeline_split = false;
  l.pipeline_layers = std::nullopt;
  if (!layout.layers.empty()) l.pipeline_layers = layout.layers;
  l.zero_stage = layout.zero_stage;
  config.sharding.overlap_grad_sync = layout.overlap_grad_reduce;
  config.batch.micro_batch_size = w.micro_batch;
  config.batch.global_batch_size = w.global_batch;
  config.model.recompute = found.point.recompute;
  if (config.model.recompute.granularity != model::RecomputeGranularity::kSelective)
    config.estimated.recompute_modules.clear();
  config.trainer.devices = std::min(w.devices(), devices_per_node);
  config.trainer.num_nodes = w.devices() / *config.trainer.devices;
  if (*config.trainer.devices * *config.trainer.num_nodes != w.devices()) {
    config.trainer.devices = w.devices();
    config.trainer.num_nodes = std::nullopt;
  }
  return config;
}

void add_plan_search_command(CLI::App& plan, Context& context) {
  auto a = std::make_shared<SearchArguments>();
  CLI::App* command = plan.add_subcommand("search",
                                          "The fastest layouts that fit: every degree, schedule, microbatch, "
                                          "sharding and recomputation. Example: stoa plan "
                                          "search gpt-175b --cluster dgx-a100-80gb --gpus 1024");
  a->subject.add_to(*command);
  command->add_option("--gpus,--ranks", a->gpus, "Number of devices, or a list")
      ->delimiter(',')
      ->check(rank_count());
  command
      ->add_option("--objective", a->objective,
                   "step-time, cost or tokens-per-joule: which of several --gpus is best")
      ->capture_default_str();
  command->add_option("--target", a->target,
                      "The program that will train: stoa, megatron, nemo, torchtitan (default: on GPUs "
                      "megatron, whose schedules run there today, else stoa)");
  command->add_option("--emit", a->emit,
                      "Print the best as a configuration for stoa, as a command for megatron, a file for "
                      "nemo (your own, with the changes marked), or arguments for torchtitan");
  command->add_option(
      "--output", a->output,
      "Directory for plan.yaml, plan.sbatch and what it runs, final_summary_*.csv, report.html");
  command->add_option("--beside", a->beside, "key=value …: a layout to compare with the best");
  command
      ->add_option("--trials", a->trials,
                   "Run this many of the best for a few steps: here as threads, or write files for Slurm")
      ->check(between(0, 1000));
  command->add_option("--trial-steps", a->trial_steps, "Steps of a trial")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  command->add_option("--trial-minutes", a->trial_minutes, "Time limit of a trial in minutes")
      ->capture_default_str()
      ->check(between(1e-3, 1e6));
  command->add_option("--top", a->top, "Layouts to show")->check(CLI::Range(1, 1000))->capture_default_str();
  command
      ->add_option("--front-within", a->front_within,
                   "Layouts within this factor of the best time are examined: a wider front takes longer")
      ->capture_default_str()
      ->check(between(1, 100));
  command->add_option("--batch-tolerance", a->batch_tolerance, "Share by which the global batch may vary")
      ->check(between(0, 0.5));
  plan::SearchSpace& space = a->space;
  command->add_option("--tp", space.tensor, "Tensor-parallel sizes (default: all that divide)")
      ->delimiter(',')
      ->check(rank_count());
  command->add_option("--pp", space.pipeline, "Pipeline sizes")->delimiter(',')->check(rank_count());
  command->add_option("--cp", space.context, "Context-parallel sizes")->delimiter(',')->check(rank_count());
  command->add_option("--ep", space.expert, "Expert-parallel sizes")->delimiter(',')->check(rank_count());
  command->add_option("--vpp", space.virtual_stages, "Chunks per pipeline rank")
      ->delimiter(',')
      ->check(between(1, 1024));
  command->add_option("--micro-batch", space.micro_batches, "Microbatch sizes")
      ->delimiter(',')
      ->check(between(1, 1 << 20));
  command->add_option("--zero", space.zero_stages, "ZeRO stages")->delimiter(',')->check(between(0, 3));
  command
      ->add_option("--schedule", space.schedules,
                   "Pipeline schedules (default: 1f1b, interleaved, zb-h1, zb-v, dualpipev; also available: "
                   "zb-h2, interleaved-zb, v-half, v-min)")
      ->delimiter(',');
  command->add_option("--recompute", space.recompute, "none, selective, block, full, offload")
      ->delimiter(',');
  command->add_flag("--json", a->json, "One JSON object");
  counts_only_with(*command, {"--trial-steps", "--trial-minutes"}, "--trials");
  command->callback([a, &context] { search(*a, context); });
}

}  // namespace stoa::cli

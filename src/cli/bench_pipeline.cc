// `stoa bench pipeline CONFIG`: schedules timed on ranks of one process, next to what their simulation says.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/console.h"
#include "base/timing.h"
#include "cli/command.h"
#include "cli/config_source.h"
#include "cli/machine_factory.h"
#include "cli/number_checks.h"
#include "cli/print.h"
#include "cli/random_batch.h"
#include "cli/schema.h"
#include "comm/threads/thread_world.h"
#include "parallel/thread_contexts.h"
#include "schedule/generators.h"
#include "schedule/simulate.h"
#include "train/training_plan.h"

namespace stoa::cli {
namespace {

struct BenchPipelineArguments {
  ConfigArguments config;
  MachineOptions machine;
  std::vector<std::string> schedules{"1f1b", "interleaved", "zb-v"};
  int stages = 2;
  std::int64_t microbatches = 4, rounds = 7;
  bool json = false;
};

constexpr int kTraced = 3;  // rounds after the timed ones, to measure the computations

// One schedule: its ranks' steps, timed from the first that starts to the last that ends.
struct Candidate {
  run::TrainingOptions options;
  std::vector<double> seconds;                   // of every round
  std::vector<std::vector<std::string>> traces;  // by rank, one per traced round
};

// Time of the computations, without waiting, and what the end of a step adds to it.
struct Measured {
  schedule::Durations durations;
  double tail = 0;
};

Measured measure(const Candidate& candidate, int chunks) {
  struct Sum {
    double seconds = 0;
    int count = 0;
    void add(double x) { seconds += x, ++count; }
    double mean() const { return count ? seconds / count : 0; }
  };
  std::vector<std::array<Sum, 4>> sums(static_cast<std::size_t>(chunks));
  Measured out;
  for (std::size_t rank = 0; rank < candidate.traces.size(); ++rank) {
    double tail = 0;
    for (const auto& document : candidate.traces[rank]) {
      const nlohmann::json trace = nlohmann::json::parse(document);
      Sum* open = nullptr;  // of the computation that the following waits belong to
      for (const auto& event : trace["traceEvents"]) {
        if (event["ph"] != "X") continue;
        const std::string name = event["name"];
        const double seconds = event["dur"].get<double>() * 1e-6;
        if (name.starts_with("wait for")) {
          if (open) open->seconds -= seconds;
          continue;
        }
        if (name == "STEP" || name.starts_with("RD ")) tail += seconds;
        constexpr std::array<const char*, 4> kKinds{"F chunk ", "B chunk ", "I chunk ", "W chunk "};
        for (std::size_t k = 0; k < kKinds.size(); ++k)
          if (name.starts_with(kKinds[k])) {
            open = &sums[static_cast<std::size_t>(std::stoi(name.substr(8)))][k];
            open->add(seconds);
          }
      }
    }
    tail /= kTraced;
    out.tail = rank == 0 ? tail : std::min(out.tail, tail);  // the others' includes waiting for the last
  }
  for (const auto& s : sums)
    out.durations.chunks.push_back({s[0].mean(), s[1].mean(), s[2].mean(), s[3].mean()});
  return out;
}

void run_candidates(std::vector<Candidate>& candidates, const BenchPipelineArguments& arguments,
                    const MachineOptions& machine_options) {
  comm::ThreadWorld world(arguments.stages);
  std::vector<std::vector<parallel::ParallelContext>> contexts;
  for (const Candidate& c : candidates)
    contexts.push_back(parallel::make_contexts(world, c.options.layout.grid));
  world.run([&](int number) {
    infer::Machine machine = make_machine(machine_options), meta = infer::make_meta_machine(machine);
    std::vector<std::unique_ptr<run::TrainingRank>> ranks;
    for (std::size_t c = 0; c < candidates.size(); ++c) {
      const auto& options = candidates[c].options;
      ranks.push_back(
          std::make_unique<run::TrainingRank>(machine, options, std::move(contexts[c][number]),
                                              run::TrainingRank::measure_scratch(meta, options, number)));
      ranks.back()->initialize();
    }
    const std::int64_t rows = candidates[0].options.micro_batch * arguments.microbatches;
    const data::Batch batch =
        random_batch(rows, candidates[0].options.length, candidates[0].options.model.vocabulary, 0,
                     candidates[0].options.model.config.source_length());
    for (std::int64_t round = -1; round < arguments.rounds + kTraced; ++round)
      for (std::size_t c = 0; c < candidates.size(); ++c) {
        const bool traced = round >= arguments.rounds;
        comm::Communicator& all = ranks[c]->parallel().along(parallel::Group::kWorld);
        run::TraceRecorder trace;
        all.barrier();
        const auto begin = std::chrono::steady_clock::now();
        ranks[c]->step(batch, 0, traced ? &trace : nullptr);
        all.barrier();
        const double seconds = seconds_since(begin);
        if (traced) candidates[c].traces[number].push_back(trace.json(number));
        if (number == 0 && round >= 0 && !traced) candidates[c].seconds.push_back(seconds);
      }
  });
}

void bench_pipeline(const BenchPipelineArguments& arguments, Context& context) {
  require<ConfigError>(arguments.rounds >= 1, "--rounds must be at least 1, got {}", arguments.rounds);
  train::TrainingPlan plan =
      plan_random_tokens(load_config(arguments.config, Purpose::kBench, context.console));
  MachineOptions machine = arguments.machine;
  if (!machine.threads) machine.threads = 1;
  std::vector<Candidate> candidates;
  for (const auto& name : arguments.schedules) {
    Candidate& c = candidates.emplace_back(Candidate{plan.options, {}, {}});
    c.options.evaluation = false;
    c.options.sample_context = 0;
    c.options.microbatches = arguments.microbatches;
    c.options.layout = {};
    c.options.layout.grid = grid::RankGrid({1, 1, 1, 1, arguments.stages});
    c.options.layout.schedule = name;
    c.traces.resize(static_cast<std::size_t>(arguments.stages));
  }
  run_candidates(candidates, arguments, machine);

  auto results = nlohmann::ordered_json::array();
  double first_simulated = 0;
  for (const Candidate& c : candidates) {
    const auto steps = schedule::generate({.name = c.options.layout.schedule,
                                           .stages = arguments.stages,
                                           .microbatches = static_cast<int>(arguments.microbatches)});
    const Measured measured = measure(c, steps.placement.chunks());
    const double simulated = schedule::simulate(steps, measured.durations).makespan + measured.tail;
    if (results.empty()) first_simulated = simulated;
    std::vector<double> ratios;  // round by round: what slows the machine down slows both
    for (std::size_t r = 0; r < c.seconds.size(); ++r)
      ratios.push_back(candidates[0].seconds[r] / c.seconds[r]);
    const auto [low, high] = std::minmax_element(ratios.begin(), ratios.end());
    results.push_back({{"schedule", c.options.layout.schedule},
                       {"step_seconds", median_of(c.seconds)},
                       {"simulated_seconds", simulated},
                       {"speed", median_of(ratios)},
                       {"speed_range", {*low, *high}},
                       {"simulated_speed", first_simulated / simulated}});
  }
  if (arguments.json)
    return print_json_line(nlohmann::ordered_json{{"config", arguments.config.source()},
                                                  {"stages", arguments.stages},
                                                  {"microbatches", arguments.microbatches},
                                                  {"rounds", arguments.rounds},
                                                  {"schedules", results}});
  print("schedule          step s  simulated s  speed  (range)        simulated\n");
  for (const auto& r : results)
    print(fmt::format("{:16} {:7.4f}  {:11.4f}  {:5.3f}  {:5.3f}-{:5.3f}  {:9.3f}\n",
                      r["schedule"].get<std::string>(), r["step_seconds"].get<double>(),
                      r["simulated_seconds"].get<double>(), r["speed"].get<double>(),
                      r["speed_range"][0].get<double>(), r["speed_range"][1].get<double>(),
                      r["simulated_speed"].get<double>()));
}

}  // namespace

void add_bench_pipeline(CLI::App& bench, Context& context) {
  auto arguments = std::make_shared<BenchPipelineArguments>();
  CLI::App* command =
      bench.add_subcommand("pipeline",
                           "Pipeline schedules compared with the first of them, and with their simulation "
                           "with measured times. Example: "
                           "stoa bench pipeline tiny --schedules 1f1b,interleaved --microbatches 4");
  arguments->config.add_to(*command);
  arguments->config.add_output(*command);
  command->add_option("--schedules", arguments->schedules, "To compare")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--stages", arguments->stages, "Pipeline ranks, one thread each")
      ->capture_default_str()
      ->check(between(1, 64));
  command->add_option("--microbatches", arguments->microbatches, "Microbatches per step")
      ->capture_default_str()
      ->check(between(1, 4096));
  command->add_option("--rounds", arguments->rounds, "Steps of every schedule, in turn")
      ->capture_default_str()
      ->check(between(1, 1e6));
  command->add_option("--threads", arguments->machine.threads, "Worker threads of a rank (default: 1)")
      ->check(thread_count());
  command->add_flag("--json", arguments->json, "One JSON object");
  command->callback([arguments, &context] { bench_pipeline(*arguments, context); });
}

}  // namespace stoa::cli

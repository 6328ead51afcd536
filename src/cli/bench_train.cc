// `stoa bench train CONFIG`: speed and memory of training on random tokens.
#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/console.h"
#include "base/timing.h"
#include "cli/app.h"
#include "cli/command.h"
#include "cli/config_source.h"
#include "cli/machine_factory.h"
#include "cli/number_checks.h"
#include "cli/print.h"
#include "cli/random_batch.h"
#include "cli/rank_machine.h"
#include "cli/rank_options.h"
#include "cli/schema.h"
#include "cli/turns.h"
#include "run/gemm_rate.h"
#include "train/launch.h"
#include "train/layout_plan.h"
#include "train/step_flops.h"
#include "train/step_reports.h"
#include "train/training_plan.h"

namespace stoa::cli {
namespace {

struct BenchTrainArguments {
  ConfigArguments config;
  MachineOptions machine;
  std::int64_t steps = 6, warmup = 2;
  RankOptions ranks;
  bool json = false, natural = false, stepwise = false;
};

struct MeasuredRun {
  std::vector<double> seconds;  // of the steps that count
  std::size_t planned = 0, touched = 0;
  std::int64_t peak = 0;
  double gemm_tflops = 0;  // of all ranks at once
  double last_loss = 0;
  std::string machine;
};

// Runs on every rank; only rank 0's measurement is reported.
MeasuredRun measure_steps(const BenchTrainArguments& arguments, const train::TrainingPlan& plan,
                          const train::Seat& seat, run::TrainingRank& rank, Console& console) {
  MeasuredRun measured;
  infer::Machine& machine = rank.machine();
  rank.initialize();
  measured.planned = rank.arena().total_bytes();
  const run::Layout& layout = plan.options.layout;
  const std::int64_t rows = plan.batch.largest();
  const model::ModelConfig& config = plan.options.model.config;
  const bool masked = model::traits(config).picks_tokens();
  const auto part = static_cast<std::uint64_t>(layout.data_rank(seat.rank));
  data::Batch batch =
      masked ? random_masked_batch(rows / layout.data_ranks(), plan.options.length,
                                   plan.options.model.vocabulary, part, arguments.natural, config)
             : random_batch(rows / layout.data_ranks(), plan.options.length, plan.options.model.vocabulary,
                            part, config.source_length());
  // With masked batches each rank keeps its own count: that scales the loss gradient, not the time.
  if (!masked) batch.valid_tokens *= layout.data_ranks();
  for (std::int64_t step = 0; step < arguments.warmup + arguments.steps; ++step) {
    if (arguments.stepwise) {
      if (seat.first())
        require<UsageError>(await_turn(),
                            "--stepwise reads a line before each step: the input ended before step {}",
                            step + 1);
      rank.parallel().along(parallel::Group::kWorld).barrier();
    }
    const auto begin = std::chrono::steady_clock::now();
    rank.step(batch, step * rows);
    measured.last_loss =
        rank.read_scalars()[ops::StepSlot::kLossSum] / static_cast<double>(batch.valid_tokens);
    const double elapsed = seconds_since(begin);
    if (step >= arguments.warmup) measured.seconds.push_back(elapsed);
    if (arguments.stepwise && seat.first()) tell_turn(step, elapsed);
    if (seat.first())
      console.live(fmt::format("step {}  loss {:.4f}  {:.3f} s", step + 1, measured.last_loss, elapsed));
  }
  if (seat.first()) console.finish_live();
  comm::Communicator& world = rank.parallel().along(parallel::Group::kWorld);
  world.barrier();  // all are done
  measured.peak = train::peak_resident_bytes();
  world.barrier();  // the large products have memory of their own
  const double flops =
      static_cast<double>((arguments.warmup + arguments.steps) * rows * plan.options.length) *
      train::executed_flops_per_token(plan.options.model, plan.options.length);
  measured.gemm_tflops =
      run::measure_gemm_tflops(machine, plan.options.precision.compute, run::ceiling_shapes(flops), &world);
  measured.touched = device_bytes(rank.arena().touched());
  measured.machine = machine.description;
  return measured;
}

MeasuredRun measure_run(const BenchTrainArguments& arguments, const MachineOptions& options,
                        const train::TrainingPlan& plan, const train::Seat& seat, Console& console) {
  infer::Machine machine = make_machine(options, seat);
  std::optional<run::TrainingRank> rank;
  try {
    infer::Machine meta = infer::make_meta_machine(machine);
    rank.emplace(machine, plan.options, seat.context(*machine.device),
                 run::TrainingRank::measure_scratch(meta, plan.options, seat.rank));
    return measure_steps(arguments, plan, seat, *rank, console);
  } catch (const std::exception& error) {
    seat.on_failure(error.what());
    throw;
  }
}

void bench_train(const BenchTrainArguments& arguments, Context& context) {
  require<ConfigError>(arguments.steps >= 1, "--steps must be at least 1, got {}", arguments.steps);
  train::Launch launch(build_name());
  Console quiet(Console::Level::kQuiet);
  Console& console = launch.first_process() ? context.console : quiet;
  std::optional<train::TrainingPlan> planned;
  MachineOptions options = arguments.machine;
  launch.prepare([&] {
    const train::RunConfig config =
        load_config(arguments.config, Purpose::kBench, console, launch.agreed_ranks(arguments.ranks.count));
    planned = plan_random_tokens(config);
    planned->options.evaluation = false;
    planned->options.sample_context = 0;
    options = rank_machine(std::move(options), config, launch, arguments.ranks.bind_cores);
  });
  const train::TrainingPlan& plan = *planned;
  std::optional<MeasuredRun> measured;
  launch.run(plan.options.layout.grid, arguments.ranks.launch_options(plan.options.layout),
             [&](train::Seat& seat) {
               MeasuredRun own = measure_run(arguments, options, plan, seat, console);
               if (seat.first()) measured = std::move(own);
             });
  if (!measured) return;
  const double step_seconds = median_of(measured->seconds);
  const std::int64_t rows = plan.batch.largest();
  const auto tokens = static_cast<double>(rows * plan.options.length);
  const double flops = train::model_flops_per_token(plan.options.model, plan.options.length);
  const nlohmann::ordered_json result{{"config", arguments.config.source()},
                                      {"machine", measured->machine},
                                      {"layout", train::layout_text(plan.options.layout)},
                                      {"parameters", model::parameter_count(plan.options.model)},
                                      {"rows", rows},
                                      {"sequence", plan.options.length},
                                      {"precision", std::string(name_of(plan.options.precision.compute))},
                                      {"tokens_per_second", tokens / step_seconds},
                                      {"step_seconds", step_seconds},
                                      {"last_loss", measured->last_loss},
                                      {"model_tflops", flops * tokens / step_seconds * 1e-12},
                                      {"gemm_tflops", measured->gemm_tflops},
                                      {"peak_memory_bytes", measured->peak},
                                      {"arena_peak_bytes", measured->touched},
                                      {"planned_memory_bytes", measured->planned}};
  if (arguments.json) return print_json_line(result);
  for (const auto& [key, value] : result.items()) print(fmt::format("{:22} {}\n", key, value.dump()));
}

}  // namespace

void add_bench_train(CLI::App& bench, Context& context) {
  auto arguments = std::make_shared<BenchTrainArguments>();
  CLI::App* command = bench.add_subcommand("train",
                                           "Training speed on random tokens. Example: stoa bench train "
                                           "gpt2-124m model.micro_batch_size=4 --steps 6 --json");
  arguments->config.add_to(*command);
  arguments->config.add_output(*command);
  command->add_option("--steps", arguments->steps, "Steps that count")
      ->capture_default_str()
      ->check(between(1, 1e9));
  command->add_flag("--natural-lengths", arguments->natural,
                    "Encoders: rows of varying length, from an eighth of the sequence to all of it");
  command->add_option("--warmup", arguments->warmup, "Steps before them")
      ->capture_default_str()
      ->check(between(0, 1e9));
  arguments->ranks.add_to(*command);
  command
      ->add_option("--threads", arguments->machine.threads,
                   "Worker threads of a rank (default: the cores, divided among the ranks)")
      ->check(thread_count());
  command->add_option("--backend", arguments->machine.backend, "cpu, cuda, reference or check");
  command->add_option("--cuda", arguments->machine.cuda, kCudaHelp);
  command->add_option("--instruction-set", arguments->machine.instruction_set, "Force an instruction set");
  command->add_flag("--stepwise", arguments->stepwise,
                    "A step (also of the warm-up) waits for a line on standard input and prints a line of "
                    "JSON when it is done, so that programs can alternate");
  command->add_flag("--json", arguments->json, "One JSON object");
  command->callback([arguments, &context] { bench_train(*arguments, context); });
}

}  // namespace stoa::cli

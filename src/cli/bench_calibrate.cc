// `stoa bench calibrate`: writes the planner's files for the machine that it runs on.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "base/console.h"
#include "base/cores.h"
#include "base/timing.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/machine_factory.h"
#include "cli/number_checks.h"
#include "cli/plan_predict_command.h"
#include "cli/print.h"
#include "cli/random_batch.h"
#include "cli/schema.h"
#include "ops/cpu/measure.h"
#include "plan/fit.h"
#include "run/gemm_rate.h"
#include "train/launch.h"
#include "train/training_plan.h"

namespace stoa::cli {
namespace {

struct MachineArguments {
  std::string output, name = "this-machine";
  std::int64_t passes = 3, steps = 5, largest = 1024;
  std::optional<std::string> instruction_set;
  bool json = false;
};

// A short training run of GPT. Together these runs separate the costs of GEMMs, attention, element-wise work,
// logits, the optimizer and the fixed part of a step.
struct ShortTraining {
  std::int64_t layers, hidden, sequence, micro_batch, global_batch;
  std::vector<std::string> layout;  // more overrides; sizes of which make `ranks`
  int ranks = 1;
};

constexpr std::int64_t kSmallest = 256;  // hidden size

std::vector<ShortTraining> short_trainings(int most_ranks, std::int64_t largest) {
  const std::string again = "model.activations_checkpoint_granularity=";
  const std::vector<std::string> full{again + "full", "model.activations_checkpoint_method=uniform",
                                      "model.activations_checkpoint_num_layers=1"};
  std::vector<ShortTraining> all{{2, 256, 256, 4, 8, {}},   {4, 256, 256, 2, 8, {}},
                                 {8, 256, 128, 4, 8, {}},   {2, 512, 256, 4, 8, {}},
                                 {4, 512, 256, 1, 4, {}},   {4, 512, 512, 2, 4, {}},
                                 {4, 512, 256, 4, 8, full}, {4, 512, 512, 2, 4, {again + "selective"}},
                                 {4, 384, 1024, 1, 2, {}},  {2, 768, 512, 2, 4, {}},
                                 {4, 768, 256, 4, 4, {}},   {2, 1024, 256, 2, 4, {}}};
  const std::string tensor = "model.tensor_model_parallel_size=2",
                    pipeline = "model.pipeline_model_parallel_size=2";
  const std::vector<std::vector<std::string>> layouts{
      {},         {"model.zero_stage=1"},
      {tensor},   {tensor, "model.sequence_parallel=true"},
      {pipeline}, {pipeline, "model.virtual_pipeline_model_parallel_size=2"}};
  if (most_ranks >= 2)
    for (const auto& layout : layouts)
      for (const std::int64_t hidden : {256, 512}) all.push_back({4, hidden, 256, 2, 16, layout, 2});
  std::erase_if(all, [&](const ShortTraining& c) { return c.hidden > largest; });
  require<UsageError>(!all.empty(), "--largest {}: the smallest training has a hidden size of {}", largest,
                      kSmallest);
  return all;
}

std::vector<std::string> overrides_of(const ShortTraining& c) {
  std::vector<std::string> overrides{fmt::format("model.num_layers={}", c.layers),
                                     fmt::format("model.hidden_size={}", c.hidden),
                                     fmt::format("model.num_attention_heads={}", c.hidden / 64),
                                     fmt::format("model.encoder_seq_length={}", c.sequence),
                                     fmt::format("model.micro_batch_size={}", c.micro_batch),
                                     fmt::format("model.global_batch_size={}", c.global_batch),
                                     fmt::format("trainer.devices={}", c.ranks),
                                     "model.vocab_size=8192",
                                     "model.hidden_dropout=0",
                                     "model.attention_dropout=0",
                                     "trainer.precision=bf16"};
  overrides.insert(overrides.end(), c.layout.begin(), c.layout.end());
  return overrides;
}

// A step's time, with the GEMM rate in TFLOP/s over all ranks measured right before and after it: on a shared
// machine the speed varies by factors within seconds, and these rates tell how fast it was during the step.
struct TimedStep {
  double seconds, before, after;

  double tflops() const { return (before + after) / 2; }
  double unsteadiness() const { return std::abs(std::log(before / after)); }
};

constexpr run::GemmShape kPerCore{512, 3072, 768};
constexpr int kProductsBeside = 6;  // some tens of milliseconds

std::vector<TimedStep> time_steps(train::Launch& launch, const train::TrainingPlan& plan,
                                  const MachineArguments& arguments) {
  std::vector<TimedStep> steps;
  const int ranks = plan.options.layout.grid.size();
  // Each rank on its share of the cores, or the scheduler has two take turns on one for a while.
  launch.run(plan.options.layout.grid, {.bind_cores = true}, [&](train::Seat& seat) {
    infer::Machine machine = make_machine({.ranks = ranks, .instruction_set = arguments.instruction_set}),
                   meta = infer::make_meta_machine(machine);
    run::TrainingRank rank(machine, plan.options, seat.context(*machine.device),
                           run::TrainingRank::measure_scratch(meta, plan.options, seat.rank));
    rank.initialize();
    const run::Layout& layout = plan.options.layout;
    const std::int64_t rows = plan.batch.largest();
    data::Batch batch =
        random_batch(rows / layout.data_ranks(), plan.options.length, plan.options.model.vocabulary,
                     static_cast<std::uint64_t>(layout.data_rank(seat.rank)));
    batch.valid_tokens = rows * plan.options.length;
    comm::Communicator& world = rank.parallel().along(parallel::Group::kWorld);
    run::GemmShape shape = kPerCore;
    shape.rows *= machine.pool->size();
    run::TimedProduct product(machine, plan.options.precision.compute, shape);
    const auto tflops = [&] {
      return kProductsBeside * ranks * product.tflop() / product.seconds(kProductsBeside, &world);
    };
    double before = 0;
    for (std::int64_t step = -1; step < arguments.steps; ++step) {  // the first touches memory
      const auto begin = std::chrono::steady_clock::now();
      rank.step(batch, (step + 1) * rows);
      rank.read_scalars();
      const double seconds = seconds_since(begin), after = tflops();
      if (seat.first() && step >= 0) {
        steps.push_back({seconds, before, after});
      }
      before = after;
    }
  });
  return steps;
}

// The step time on a machine whose GEMMs run at `tflops`: the median over the half of the steps during which
// the GEMM rate changed least.
double seconds_at(double tflops, std::vector<TimedStep> steps) {
  std::sort(steps.begin(), steps.end(),
            [](const TimedStep& a, const TimedStep& b) { return a.unsteadiness() < b.unsteadiness(); });
  std::vector<double> seconds;
  for (std::size_t i = 0; 2 * i < steps.size(); ++i)
    seconds.push_back(steps[i].seconds * steps[i].tflops() / tflops);
  return median_of(seconds);
}

// Measures what datasheets state for other machines.
plan::Cluster measure_cluster(const MachineArguments& arguments) {
  const std::string& name = arguments.name;
  const auto isa = choose_instruction_set(arguments.instruction_set);
  infer::Machine machine = make_machine({.instruction_set = std::string(ops::cpu::name_of(isa))});
  constexpr std::int64_t kFloats = 64 << 20;  // 256 MiB: beyond most caches
  const Buffer memory = machine.device->allocate(kFloats * sizeof(float));
  machine.device->fill_zero(memory.data(), memory.bytes(), *machine.stream);
  const double bandwidth =
      ops::cpu::read_bandwidth(TensorView(memory.data(), DType::kF32, {kFloats}), isa, *machine.pool);
  plan::Cluster cluster;
  cluster.name = name;
  cluster.device.name = name;
  cluster.device.family = "CPU " + name;
  // Beside the smallest trainings alone a moment's measurement will do.
  const std::span<const run::GemmShape> shapes = arguments.largest > kSmallest
                                                     ? std::span<const run::GemmShape>(run::kCeilingShapes)
                                                     : run::kQuickShapes;
  cluster.device.fp32_tflops = run::measure_gemm_tflops(machine, DType::kF32, shapes);
  cluster.device.bf16_tflops = run::measure_gemm_tflops(machine, DType::kBF16, shapes);
  cluster.device.fp16_tflops = run::measure_gemm_tflops(machine, DType::kF16, shapes);
  cluster.device.compute_units = available_cores();
  cluster.device.memory_gb =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE)) * 1e-9;
  cluster.device.memory_bandwidth_gbs = bandwidth * 1e-9;
  // Ranks communicate through memory, which each transfer reads and writes.
  cluster.links.devices_per_node = cluster.links.devices_per_island = 64;
  cluster.links.island_bandwidth_gbs = bandwidth * 1e-9 / 2;
  cluster.links.island_latency_us = 5;
  cluster.links.shared_device = cluster.links.host_is_device = true;
  cluster.nodes = 1;
  cluster.source = fmt::format("measured by stoa bench calibrate: {}", machine.description);
  return cluster;
}

std::string write_cluster(const plan::Cluster& cluster) {
  config::Section<plan::Cluster> section;
  plan::declare(section);
  return config::write_yaml(section.schema().print(&cluster));
}

// Known before minutes of measuring, though the directory is made only when there is something to put there.
void require_place_for(const fs::path& directory) {
  fs::path nearest = fs::absolute(directory).lexically_normal();
  std::error_code error;
  while (!fs::exists(nearest, error) && nearest.has_relative_path()) nearest = nearest.parent_path();
  require<IoError>(fs::is_directory(nearest, error), "--output '{}': '{}' is not a directory",
                   directory.string(), nearest.string());
  require<IoError>(::access(nearest.c_str(), W_OK | X_OK) == 0, "--output '{}': '{}' cannot be written",
                   directory.string(), nearest.string());
}

void calibrate_machine(const MachineArguments& arguments, Context& context) {
  train::Launch launch;
  require<UsageError>(launch.kind() == "threads",
                      "bench calibrate runs its ranks as threads: start it without a launcher");
  const std::vector<ShortTraining> trainings = short_trainings(available_cores(), arguments.largest);
  const fs::path directory = arguments.output;
  require_place_for(directory);
  context.console.line(
      fmt::format("timing {} short trainings, {} times each", trainings.size(), arguments.passes));
  plan::Cluster cluster = measure_cluster(arguments);
  std::vector<plan::Row> rows;
  std::vector<train::TrainingPlan> plans;
  for (const ShortTraining& c : trainings) {
    const train::RunConfig config = parse_run_config("", overrides_of(c));
    plans.push_back(plan_random_tokens(config));
    plans.back().options.evaluation = false;
    plan::Row& row = rows.emplace_back();
    row.source = row.group = arguments.name;
    row.workload = workload_of(config);
  }
  // In passes over all trainings, so that a slow phase of the machine does not fall on one of them alone.
  std::vector<std::vector<TimedStep>> steps(rows.size());
  std::vector<double> tflops;
  for (std::int64_t pass = 0; pass < arguments.passes; ++pass)
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (const TimedStep& step : time_steps(launch, plans[i], arguments)) {
        steps[i].push_back(step);
        tflops.push_back(step.tflops());
      }
      context.console.live(fmt::format("pass {} of {}, training {} of {}: {:.4f} s at {:.3f} TFLOP/s",
                                       pass + 1, arguments.passes, i + 1, rows.size(),
                                       steps[i].back().seconds, tflops.back()));
    }
  const double usual = median_of(tflops);
  const auto [slowest, fastest] = std::minmax_element(tflops.begin(), tflops.end());
  // The fastest rate that was seen is the peak, so that shares of the peak stay below one.
  cluster.device.bf16_tflops = std::max(cluster.device.bf16_tflops, *fastest);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].cluster = cluster;
    rows[i].seconds = seconds_at(usual, std::move(steps[i]));
  }
  context.console.finish_live();
  plan::RowList list;
  for (const plan::Row& row : rows) list.push_back(&row);
  plan::Calibration calibration = plan::calibrate(list);
  calibration.releases.clear();  // there is one program
  const plan::Constants& constants = calibration.families.begin()->second.constants;
  context.interrupt.finish_files();
  fs::create_directories(directory);
  write_text(directory / "cluster.yaml", write_cluster(cluster));
  write_text(directory / "calibration.yaml", plan::write_calibration(calibration));
  if (arguments.json) {
    nlohmann::ordered_json told = nlohmann::json::array();
    for (std::size_t i = 0; i < rows.size(); ++i)
      told.push_back({{"overrides", overrides_of(trainings[i])},
                      {"measured_seconds", *rows[i].seconds},
                      {"predicted_seconds", *rows[i].seconds * (1 + plan::error_of(rows[i], constants))}});
    return print_json_line(nlohmann::ordered_json{
        {"directory", directory.string()},
        {"product_tflops", {{"slowest", *slowest}, {"median", usual}, {"fastest", *fastest}}},
        {"trainings", told}});
  }
  print(fmt::format("{:>10}{:>11}{:>9}  layout\n", "measured s", "predicted", "error"));
  for (const plan::Row& row : rows) {
    const double error = plan::error_of(row, constants);
    print(fmt::format("{:>10.4f}{:>11.4f}{:>+7.1f} %  {} layers of {}, {}\n", *row.seconds,
                      *row.seconds * (1 + error), 100 * error, row.workload.model.layers,
                      row.workload.model.hidden, row.workload.text()));
  }
  print(
      fmt::format("GEMMs ran at {:.3f} to {:.3f} TFLOP/s between the steps; times are scaled to "
                  "{:.3f}.\nwrote {} and {}\n",
                  *slowest, *fastest, usual, (directory / "cluster.yaml").string(),
                  (directory / "calibration.yaml").string()));
}

}  // namespace

void add_bench_calibrate(CLI::App& bench, Context& context) {
  auto arguments = std::make_shared<MachineArguments>();
  CLI::App* command = bench.add_subcommand(
      "calibrate",
      "Writes the planner's files for this machine, from its rates and two dozen short trainings. Example: "
      "stoa "
      "bench calibrate --output here, then: stoa plan predict tiny --cluster here/cluster.yaml --calibration "
      "here/calibration.yaml");
  command->add_option("--output", arguments->output, "Directory for cluster.yaml and calibration.yaml")
      ->required();
  command->add_option("--name", arguments->name, "Name of the machine, in its cluster file")
      ->capture_default_str();
  command->add_option("--passes", arguments->passes, "Number of times each training is timed")
      ->capture_default_str()
      ->check(between(1, 1000));
  command
      ->add_option("--steps", arguments->steps,
                   "Steps per pass; the result is their median, at the machine's median speed")
      ->capture_default_str()
      ->check(between(1, 100000));
  command
      ->add_option("--largest", arguments->largest,
                   "Hidden size of the largest trainings; 256 is quick and less accurate")
      ->capture_default_str()
      ->check(between(1, 65536));
  command->add_option("--instruction-set", arguments->instruction_set, "Force an instruction set");
  command->add_flag("--json", arguments->json, "One JSON object instead of the table");
  command->callback([arguments, &context] { calibrate_machine(*arguments, context); });
}

}  // namespace stoa::cli

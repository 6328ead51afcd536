#include "cli/bench_train.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/console.h"
#include "base/philox.h"
#include "cli/config_command.h"
#include "cli/machine_factory.h"
#include "cli/schema.h"
#include "plan/memory_plan.h"
#include "run/gemm_rate.h"
#include "train/training_plan.h"

namespace stoa::cli {
namespace {

struct BenchTrainArguments {
  ConfigArguments config;
  MachineOptions machine;
  std::int64_t steps = 6, warmup = 2;
  bool json = false;
};

// Steps of the schedules where the configuration says nothing: their end is out of sight.
constexpr std::int64_t kHorizon = 1000000;

data::Batch random_batch(std::int64_t rows, std::int64_t length, std::int64_t vocabulary) {
  data::Batch batch;
  batch.resize(rows, length);
  const auto key = philox_key(1, RandomPurpose::kTest, "bench");
  for (std::int64_t i = 0; i < rows * length; ++i) {
    batch.tokens[i] = static_cast<std::int32_t>(philox_word(key, static_cast<std::uint64_t>(i)) %
                                                static_cast<std::uint64_t>(vocabulary));
    batch.labels[i] =
        static_cast<std::int32_t>(philox_word(key, static_cast<std::uint64_t>(i + rows * length)) %
                                  static_cast<std::uint64_t>(vocabulary));
    batch.position_ids[i] = static_cast<std::int32_t>(i % length);
    batch.loss_mask[i] = 1;
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    batch.cu_seqlens.push_back(0);
    batch.cu_seqlens.push_back(static_cast<std::int32_t>(length));
    batch.cu_offsets.push_back(static_cast<std::int32_t>(batch.cu_seqlens.size()));
  }
  batch.valid_tokens = rows * length;
  return batch;
}

void bench_train(const BenchTrainArguments& arguments, Context& context) {
  require<ConfigError>(arguments.steps >= 1, "--steps must be at least 1, got {}", arguments.steps);
  const auto overrides = arguments.config.all_overrides();
  train::RunConfig config = load_run_config(arguments.config.config, overrides, context.console);
  if (!config.model.vocab_size) config.model.vocab_size = model::kVocabWithoutTokenizer;
  auto plan = train::plan_training(config, 0, config.trainer.max_steps.value_or(kHorizon));
  plan.options.evaluation = false;
  plan.options.sample_context = 0;
  MachineOptions options = arguments.machine;
  if (!options.threads) options.threads = config.trainer.num_threads;
  run::Machine machine = make_machine(options);
  run::Machine meta = make_meta_machine(machine);
  const auto planned = plan::plan_memory(meta, plan.options);
  run::TrainingRank rank(machine, plan.options, parallel::ParallelContext::single(*machine.device),
                         run::TrainingRank::measure_scratch(meta, plan.options));
  rank.initialize();
  const std::int64_t rows = plan.batch.largest();
  const data::Batch batch = random_batch(rows, plan.options.length, plan.options.model.vocabulary);
  std::vector<double> seconds;
  for (std::int64_t step = 0; step < arguments.warmup + arguments.steps; ++step) {
    const auto begin = std::chrono::steady_clock::now();
    rank.step(batch, step * rows);
    const double loss =
        rank.read_scalars()[ops::StepSlot::kLossSum] / static_cast<double>(batch.valid_tokens);
    const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (step >= arguments.warmup) seconds.push_back(elapsed);
    context.console.live(fmt::format("step {}  loss {:.4f}  {:.3f} s", step + 1, loss, elapsed));
  }
  context.console.finish_live();
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[seconds.size() / 2];
  const auto tokens = static_cast<double>(rows * plan.options.length);
  const double flops = train::model_flops_per_token(plan.options.model, plan.options.length);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  // After the memory was read: the large products have their own.
  const double gemm_tflops =
      run::measure_gemm_tflops(machine, plan.options.precision.compute, run::kCeilingShapes);
  std::size_t touched = 0;
  for (const auto bytes : rank.arena().touched()) touched += bytes;
  const nlohmann::ordered_json result{{"config", arguments.config.config},
                                      {"machine", machine.description},
                                      {"parameters", planned.parameters},
                                      {"rows", rows},
                                      {"sequence", plan.options.length},
                                      {"precision", std::string(name_of(plan.options.precision.compute))},
                                      {"tokens_per_second", tokens / median},
                                      {"step_seconds", median},
                                      {"model_tflops", flops * tokens / median * 1e-12},
                                      {"gemm_tflops", gemm_tflops},
                                      {"peak_memory_bytes", std::int64_t{usage.ru_maxrss} * 1024},
                                      {"arena_peak_bytes", touched},
                                      {"planned_memory_bytes", planned.total}};
  if (arguments.json) {
    std::cout << result.dump() << "\n";
    return;
  }
  for (const auto& [key, value] : result.items()) std::cout << fmt::format("{:22} {}\n", key, value.dump());
}

}  // namespace

void add_bench_train(CLI::App& bench, Context& context) {
  auto arguments = std::make_shared<BenchTrainArguments>();
  CLI::App* command = bench.add_subcommand("train",
                                           "Training speed on random tokens. Example: stoa bench train "
                                           "gpt2-124m model.micro_batch_size=4 --steps 6 --json");
  arguments->config.add_to(*command);
  command->add_option("--steps", arguments->steps, "Steps that count")->capture_default_str();
  command->add_option("--warmup", arguments->warmup, "Steps before them")->capture_default_str();
  command->add_option("--threads", arguments->machine.threads, "Worker threads (default: one per core)");
  command->add_option("--backend", arguments->machine.backend, "cpu, cuda, reference or check");
  command->add_option("--cuda", arguments->machine.cuda, kCudaHelp);
  command->add_option("--instruction-set", arguments->machine.instruction_set, "Force an instruction set");
  command->add_flag("--json", arguments->json, "One JSON object");
  command->callback([arguments, &context] { bench_train(*arguments, context); });
}

}  // namespace stoa::cli

// `stoa bench decode`: tokens per second of an answer, next to the bound set by reading the weights.
#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/console.h"
#include "base/timing.h"
#include "cli/cache_arguments.h"
#include "cli/command.h"
#include "cli/config_source.h"
#include "cli/machine_factory.h"
#include "cli/memory_share.h"
#include "cli/number_checks.h"
#include "cli/print.h"
#include "cli/random_batch.h"
#include "cli/schema.h"
#include "infer/cache_type.h"
#include "infer/engine/paged_decoder.h"
#include "infer/engine/single_text.h"
#include "infer/host_window.h"
#include "model/init.h"

namespace stoa::cli {
namespace {

struct BenchDecodeArguments {
  ConfigArguments config;
  CacheArguments cache;
  MachineOptions machine;
  std::int64_t prompt = 32, tokens = 64;
  int rounds = 9;
  bool json = false;
};

// Initial weights in compute precision.
std::unique_ptr<infer::PagedDecoder> fresh_rank(infer::Machine& machine,
                                                const infer::PagedModel::Options& options) {
  auto rank = infer::make_rank<infer::PagedDecoder>(machine, options);
  optim::ParameterStore& parameters = rank->chunk().parameters();
  for (std::size_t p = 0; p < parameters.specs().size(); ++p)
    infer::write_tensor(machine, parameters.get({static_cast<int>(p)}), [&](TensorView host) {
      model::initialize(parameters.specs()[p], static_cast<std::uint64_t>(options.model.config.seed), host,
                        *machine.pool);
    });
  return rank;
}

void read_prompt(infer::SingleText& text, const BenchDecodeArguments& arguments) {
  text.feed(std::vector<std::int32_t>(static_cast<std::size_t>(arguments.prompt)));
}

// Seconds of an answer after a prompt that has been read, the most likely token every time.
double answer_seconds(infer::SingleText& text, const BenchDecodeArguments& arguments) {
  if (text.rewind(arguments.prompt) < arguments.prompt) read_prompt(text, arguments);
  std::int32_t token = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < arguments.tokens; ++i) token = text.next({&token, 1});
  return seconds_since(begin);
}

// GB/s over a time like that of an answer: a machine that others use too is measured in the same way twice.
double read_rate(const ReadMemory& memory) {
  constexpr int kReads = 8;
  double seconds = 0;
  for (int i = 0; i < kReads; ++i) seconds += memory.bytes() / memory.bytes_per_second();
  return 1e-9 * kReads * memory.bytes() / seconds;
}

void bench_decode(const BenchDecodeArguments& arguments, Context& context) {
  require<ConfigError>(arguments.prompt >= 1 && arguments.tokens >= 1 && arguments.rounds >= 1,
                       "--prompt, --tokens and --rounds must be at least 1, got {}, {} and {}",
                       arguments.prompt, arguments.tokens, arguments.rounds);
  const run::TrainingOptions planned =
      plan_random_tokens(load_config(arguments.config, Purpose::kBench, context.console, 1)).options;
  const model::ModelConfig& shape = planned.model.config;
  require<ConfigError>(shape.kind == model::ModelKind::kGpt,
                       "bench decode: only models that continue a text");
  const std::int64_t length = arguments.prompt + arguments.tokens;
  require<ConfigError>(length <= shape.max_positions(),
                       "--prompt {} and --tokens {} are {} positions, the model has {}", arguments.prompt,
                       arguments.tokens, length, shape.max_positions());
  infer::Machine machine = make_machine(arguments.machine);
  const DType type = planned.precision.compute;
  const DType kept = infer::cache_type(type, arguments.cache.type(), false);
  const infer::PagedModel::Options options{
      planned.model,
      {type, type},
      infer::pass_limits(planned.model, kept,
                         {.context = length, .sequences = 1, .pass_tokens = arguments.prompt, .scored = 1}),
      {},
      false,
      kept};
  const auto rank = fresh_rank(machine, options);
  const bool cpu = arguments.machine.backend == "cpu";
  std::optional<ReadMemory> memory;
  if (cpu) memory.emplace(machine, choose_instruction_set(arguments.machine.instruction_set));
  infer::SingleText text(*rank);
  read_prompt(text, arguments);
  answer_seconds(text, arguments);  // memory is touched, clocks are warm
  std::vector<double> rates, reads;
  for (int round = 0; round < arguments.rounds; ++round) {
    rates.push_back(static_cast<double>(arguments.tokens) / answer_seconds(text, arguments));
    if (memory) reads.push_back(read_rate(*memory));
    context.console.live(
        fmt::format("round {} of {}  {:.1f} tokens/s", round + 1, arguments.rounds, rates.back()));
  }
  context.console.finish_live();
  nlohmann::ordered_json result{
      {"config", arguments.config.source()},  {"machine", machine.description},
      {"type", std::string(name_of(type))},   {"kv_type", std::string(infer::cache_type_name(kept))},
      {"prompt", arguments.prompt},           {"tokens", arguments.tokens},
      {"tokens_per_second", median_of(rates)}};
  if (cpu) result["read_gigabytes_per_second"] = median_of(reads);
  result["rounds"] = {{"tokens_per_second", rates}};
  if (cpu) result["rounds"]["read_gigabytes_per_second"] = reads;
  if (arguments.json) return print_json_line(result);
  result.erase("rounds");
  for (const auto& [key, value] : result.items()) print(fmt::format("{:26} {}\n", key, value.dump()));
}

}  // namespace

void add_bench_decode(CLI::App& bench, Context& context) {
  auto arguments = std::make_shared<BenchDecodeArguments>();
  CLI::App* command =
      bench.add_subcommand("decode",
                           "Decoding speed of a model with initial weights; on a CPU the read bandwidth of "
                           "memory, which limits it, is measured after each answer. Example: stoa "
                           "bench decode gpt2-124m --tokens 64 --json");
  arguments->config.add_to(*command);
  arguments->config.add_output(*command);
  command->add_option("--prompt", arguments->prompt, "Tokens before the answer")
      ->capture_default_str()
      ->check(between(1, 1 << 24));
  command->add_option("--tokens", arguments->tokens, "Tokens of the answer")
      ->capture_default_str()
      ->check(between(1, 1 << 24));
  command->add_option("--rounds", arguments->rounds, "Number of answers; the median is reported")
      ->capture_default_str()
      ->check(between(1, 1e6));
  arguments->cache.add_to(*command);
  command->add_option("--threads", arguments->machine.threads, "Worker threads (default: one per core)")
      ->check(thread_count());
  command->add_option("--backend", arguments->machine.backend, "cpu, cuda, reference or check");
  command->add_option("--cuda", arguments->machine.cuda, kCudaHelp);
  command->add_option("--instruction-set", arguments->machine.instruction_set, "Force an instruction set");
  command->add_flag("--json", arguments->json, "One JSON object, with every round");
  command->callback([arguments, &context] { bench_decode(*arguments, context); });
}

}  // namespace stoa::cli

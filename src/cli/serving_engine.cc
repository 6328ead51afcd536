// `stoa bench engine`: how long passes of the engine take.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/cache_arguments.h"
#include "cli/model_argument.h"
#include "cli/number_checks.h"
#include "cli/print.h"
#include "cli/serving_commands.h"
#include "cli/serving_speed.h"

namespace stoa::cli {
namespace {

struct BenchEngineArguments {
  ModelArguments model;
  CacheArguments cache;
  std::int64_t max_context = 0;
  double cache_gigabytes = 0;
  int rounds = 5;
  bool json = false;
};

void bench_engine(const BenchEngineArguments& a) {
  infer::EngineUse use;
  if (a.max_context > 0) use.context = a.max_context;
  if (a.cache_gigabytes > 0) use.cache_bytes = a.cache_gigabytes * 1e9;
  use.cache = a.cache.type();
  const EngineSpeed speed = measure_engine(
      a.model.model, a.model.machine,
      [&](infer::MakeMachine make_machine) { return a.model.open(std::move(make_machine)); }, use, a.rounds,
      MeasureMemory::kYes);
  if (a.json) return print_json_line(speed_json(speed));
  print(fmt::format("{}, {}\n\n", speed.model, speed.machine));
  const serve::PassTimes& times = speed.times;
  const bool sources = speed.limits.reads_sources();
  print(fmt::format("{:>8}  {:>12}  {:>12}\n", sources ? "source" : "prompt", "ms per pass", "tokens/s"));
  for (const auto& [tokens, seconds] : sources ? times.sources : times.tokens) {
    const auto n = static_cast<double>(tokens);
    const double whole = sources ? seconds + times.tokens.front().second + n * times.per_source_read +
                                       n * n * times.per_source_pair
                                 : seconds + serve::attended_pairs(0, tokens) * times.per_pair;
    print(fmt::format("{:>8}  {:>12.2f}  {:>12.0f}\n", tokens, 1e3 * whole, n / whole));
  }
  print(fmt::format("\n{:>8}  {:>12}  {:>12}\n", "answers", "ms per pass", "tokens/s"));
  for (const auto& [texts, more] : times.scored) {
    const double whole = serve::at_count(times.tokens, texts) + more;
    print(
        fmt::format("{:>8}  {:>12.2f}  {:>12.0f}\n", texts, 1e3 * whole, static_cast<double>(texts) / whole));
  }
  print(fmt::format("\neach 1000 tokens that an answer has read before: {:.3f} ms per token\n",
                    1e6 * times.per_read));
  if (sources)
    print(fmt::format("each 1000 tokens of its source: {:.3f} ms per token\n", 1e6 * times.per_source_read));
  if (const auto& m = speed.memory)
    print(fmt::format(
        "one text: a token reads {:.1f} MB, at {:.0f} % ({:.0f} to {:.0f}) of the {:.1f} GB/s at "
        "which memory is read\n",
        1e-6 * m->token_bytes, 1e2 * m->share, 1e2 * m->least, 1e2 * m->most, 1e-9 * m->read_rate));
}

}  // namespace

void add_bench_engine(CLI::App& bench, Context&) {
  auto a = std::make_shared<BenchEngineArguments>();
  CLI::App* c = bench.add_subcommand(
      "engine",
      "How long passes of the engine take with a model: prompts or sources of several lengths, answers of "
      "several "
      "texts at once. 'stoa plan serve' reads what --json writes. Example: stoa bench engine "
      "runs/shakespeare --json > engine.json");
  a->model.add_to(*c);
  a->model.weights.add_to(*c);
  c->add_option("--max-context", a->max_context,
                "Tokens of a prompt and its answer, or of a source and of its answer (default: the model's "
                "positions)")
      ->check(between(2, 1 << 24));
  c->add_option("--kv-memory-gb", a->cache_gigabytes,
                "Memory for keys and values (default: 1, or of one context if that is more)")
      ->check(between(1e-6, 1e6));
  a->cache.add_to(*c);
  c->add_option("--rounds", a->rounds, "Rounds over all kinds of passes; of each kind the median counts")
      ->capture_default_str()
      ->check(between(1, 1000));
  c->add_flag("--json", a->json, "One JSON object");
  c->callback([a] { bench_engine(*a); });
}

}  // namespace stoa::cli

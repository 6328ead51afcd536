// `stoa plan serve`: how many machines keep the limits of latency.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "base/console.h"
#include "base/file.h"
#include "cli/cache_arguments.h"
#include "cli/config_source.h"
#include "cli/number_checks.h"
#include "cli/plan_arguments.h"
#include "cli/plan_config.h"
#include "cli/print.h"
#include "cli/serving_commands.h"
#include "cli/serving_speed.h"
#include "infer/length_tables.h"
#include "model/model_spec.h"
#include "plan/inference.h"
#include "serve/load/load.h"
#include "serve/load/machines.h"
#include "serve/load/simulated_load.h"

namespace stoa::cli {
namespace {

using Json = nlohmann::ordered_json;

struct PlanServeArguments {
  ConfigArguments config;
  CacheArguments cache;
  std::string measured, cluster, type = "bf16", limits = "ttft=1s,tpot=200ms", lengths;
  serve::RequestLength length{512, 128};
  serve::MachinesQuestion question;
  std::int64_t requests = 1000, tensor = 1, sequences = 32, pass_tokens = 512;
  double reserve_gb = 2;
  std::uint64_t seed = 0;
  bool json = false;
};

// By the formulas of `stoa plan inference`.
EngineSpeed predicted_speed(const PlanServeArguments& a, const std::vector<serve::RequestLength>& lengths,
                            Context& context) {
  train::RunConfig config = load_config(a.config, Purpose::kPlan, context.console);
  require<ConfigError>(config.estimated.hybrid_override_pattern.empty(),
                       "serving of models with state-space layers (hybrid_override_pattern) is not planned");
  const model::ModelSpec spec = model::resolve_model(config.model, tokenizer_ids(config));
  const plan::Cluster cluster = find_cluster(a.cluster);
  const plan::ModelShape shape = plan::shape_of(spec.config, spec.vocabulary);
  plan::InferencePoint point;
  point.tp = a.tensor;
  point.weights = choice<plan::InferenceType>(a.type, "--dtype");
  const auto kept = a.cache.type();
  point.cache = kept ? plan::cache_type_of(*kept) : plan::cache_type_of(point.weights);
  const plan::ServingParts parts(shape, point, cluster);
  EngineSpeed out;
  out.model = a.config.source();
  out.machine = fmt::format("{} of {}, {}, predicted", a.tensor, a.cluster, a.type);
  const bool pairs = spec.config.kind == model::ModelKind::kT5;
  out.limits.context = spec.config.max_positions();
  if (pairs) {
    // Relative positions set no limit: a server would be started for texts as long as these.
    const auto side = [&](std::int64_t serve::RequestLength::*tokens) {
      const std::int64_t longest = (*std::ranges::max_element(lengths, {}, tokens)).*tokens;
      return infer::longest_side(spec.config, std::max(longest, spec.config.max_positions()));
    };
    out.limits.context = side(&serve::RequestLength::output);
    out.limits.source_tokens = side(&serve::RequestLength::input);
  }
  out.limits.sequences = a.sequences;
  out.limits.scored = a.sequences;
  out.limits.pass_tokens = a.pass_tokens;
  out.limits.vocabulary = spec.vocabulary;
  const double room = (cluster.device.memory_gb - a.reserve_gb) * 1e9 - parts.weight_bytes();
  const double block = parts.cache_bytes_per_token() * static_cast<double>(out.limits.block_tokens);
  require<ConfigError>(room >= block,
                       "the weights take {} of a device with {:g} GB, of which {:g} are reserved",
                       format_bytes(parts.weight_bytes()), cluster.device.memory_gb, a.reserve_gb);
  const std::int64_t most =
      (out.limits.blocks_of(out.limits.context) + out.limits.blocks_of(out.limits.source_tokens)) *
      a.sequences;
  out.limits.blocks =
      block == 0 ? most : static_cast<std::int64_t>(std::min(static_cast<double>(most), room / block));
  for (const std::int64_t count : serve::doubling_counts(a.pass_tokens))
    out.times.tokens.emplace_back(count, parts.seconds(count, 1));
  for (const std::int64_t count : serve::doubling_counts(a.sequences))
    out.times.scored.emplace_back(count, parts.seconds(1, count) - parts.seconds(1, 1));
  out.times.per_read = parts.seconds_per_token_read();
  out.times.per_pair = parts.seconds_per_pair();
  if (pairs) {
    for (const std::int64_t count : serve::doubling_counts(out.limits.source_tokens))
      out.times.sources.emplace_back(count, parts.seconds_of_sources(count));
    out.times.per_source_read = parts.seconds_per_token_read();
    out.times.per_source_pair = parts.seconds_per_source_pair();
  }
  return out;
}

EngineSpeed measured_here(const PlanServeArguments& a, Context& context) {
  context.console.line("measuring passes of the engine on this machine (stoa bench engine)");
  const auto open = [&](infer::MakeMachine make_machine) {
    return infer::OpenModel(a.config.config, std::nullopt, std::move(make_machine), std::nullopt,
                            infer::QuantisedWeights::kStored);
  };
  infer::EngineUse use;
  use.cache = a.cache.type();
  return measure_engine(a.config.config, {}, open, use, 5, MeasureMemory::kNo);
}

EngineSpeed speed_of(const PlanServeArguments& a, const std::vector<serve::RequestLength>& lengths,
                     Context& context) {
  if (!a.measured.empty()) return read_engine_speed(a.measured, a.config);
  require<UsageError>(a.config.given(), "give a MODEL, or --measured FILE");
  return a.cluster.empty() ? measured_here(a, context) : predicted_speed(a, lengths, context);
}

double seconds_of(const std::vector<serve::SentRequest>& requests) {
  double out = 0;
  for (const serve::SentRequest& request : requests) out = std::max(out, request.end);
  return out;
}

Json percentiles_json(const serve::Distribution& d) {
  return {{"mean", d.mean}, {"p50", d.p50}, {"p90", d.p90}, {"p99", d.p99}};
}

std::string percentiles_text(const serve::Distribution& d) {
  return fmt::format("{:>7.0f} {:>7.0f} {:>7.0f}", 1e3 * d.p50, 1e3 * d.p90, 1e3 * d.p99);
}

Json machines_json(const PlanServeArguments& a, const EngineSpeed& speed,
                   const serve::MachinesAnswer& answer) {
  const double rate = a.question.rate;
  Json rows = Json::array();
  for (const serve::MachinesRow& row : answer.rows)
    rows.push_back({{"machines", row.machines},
                    {"rate_per_machine", rate / static_cast<double>(row.machines)},
                    {"good_share", row.share()},
                    {"goodput_requests_per_second", row.goodput(rate)},
                    {"ttft_seconds", percentiles_json(row.each.first_token)},
                    {"tpot_seconds", percentiles_json(row.each.per_token)},
                    {"latency_seconds", percentiles_json(row.each.whole)}});
  return {{"model", speed.model},
          {"machine", speed.machine},
          {"rate", rate},
          {"limits", a.limits},
          {"good_share", a.question.good_share},
          {"machines", answer.machines ? Json(*answer.machines) : Json()},
          {"most_rate_per_machine", answer.most_rate},
          {"alone",
           {{"ttft_seconds", answer.alone.first_token.mean}, {"tpot_seconds", answer.alone.per_token.mean}}},
          {"rows", rows}};
}

std::string machines_text(const PlanServeArguments& a, const EngineSpeed& speed,
                          const serve::MachinesAnswer& answer) {
  const double rate = a.question.rate;
  std::string out = fmt::format("{} on {}\n{:g} requests/s, {:.4g} % of them within {}\n\n", speed.model,
                                speed.machine, rate, 100 * a.question.good_share, a.limits);
  if (answer.most_rate == 0)
    out += fmt::format(
        "no number of machines is enough: a request alone takes {:.0f} ms to the first token and {:.1f} ms "
        "per "
        "further token\n",
        1e3 * answer.alone.first_token.mean, 1e3 * answer.alone.per_token.mean);
  else if (answer.machines)
    out += fmt::format("{} machine{} needed; one holds {:.3g} requests/s\n", *answer.machines,
                       *answer.machines == 1 ? " is" : "s are", answer.most_rate);
  else
    out += fmt::format("more than {} machines are needed; one holds {:.3g} requests/s\n", a.question.most,
                       answer.most_rate);
  out += fmt::format("\n{:>8}  {:>10}  {:>7}  {:>8}  {:^23}  {:^23}\n{:>39}  {:^23}  {:^23}\n", "machines",
                     "req/s each", "good, %", "good/s", "TTFT, ms", "TPOT, ms", "", "    p50     p90     p99",
                     "    p50     p90     p99");
  for (const serve::MachinesRow& row : answer.rows)
    out += fmt::format("{:>8}  {:>10.3g}  {:>7.1f}  {:>8.3g}  {}  {}\n", row.machines,
                       rate / static_cast<double>(row.machines), 100 * row.share(), row.goodput(rate),
                       percentiles_text(row.each.first_token), percentiles_text(row.each.per_token));
  return out;
}

void plan_serve(const PlanServeArguments& a, Context& context) {
  const serve::LatencyLimits limits = serve::parse_limits(a.limits);
  const std::vector<serve::RequestLength> lengths =
      a.lengths.empty() ? std::vector{a.length} : serve::read_lengths(read_text(a.lengths), a.lengths);
  const EngineSpeed speed = speed_of(a, lengths, context);
  const serve::MachinesAnswer answer = serve::find_machines(a.question, [&](double rate) {
    const auto requests =
        serve::simulate_load(speed.limits, speed.times, lengths, serve::arrivals(rate, a.requests, a.seed));
    return serve::report_of(requests, seconds_of(requests), limits);
  });
  if (a.json) return print_json_line(machines_json(a, speed, answer));
  print(machines_text(a, speed, answer));
}

}  // namespace

void add_plan_serve_command(CLI::App& plan, Context& context) {
  auto a = std::make_shared<PlanServeArguments>();
  CLI::App* c = plan.add_subcommand(
      "serve",
      "How many machines answer so many requests per second within limits of latency: the engine's scheduler "
      "is simulated, with passes as long as they are here (measured now, or by --measured), or on a cluster "
      "that is described. Example: stoa plan serve runs/shakespeare --slo ttft=1s,tpot=100ms --rate 5");
  a->config.add_to(*c);
  CLI::Option* measured = c->add_option(
      "--measured", a->measured, "In place of MODEL: a file that 'stoa bench engine MODEL --json' wrote");
  c->add_option("--cluster", a->cluster,
                "Predict by the formulas of 'stoa plan inference': a cluster file, or the name of one of "
                "configs/clusters")
      ->excludes(measured);
  c->add_option("--rate", a->question.rate, "Requests per second, spread over the machines at random")
      ->capture_default_str()
      ->check(between(1e-6, 1e6));
  c->add_option("--slo", a->limits,
                "What a good request keeps: ttft=TIME, tpot=TIME, e2e=TIME, separated by commas")
      ->capture_default_str();
  c->add_option("--good-share", a->question.good_share, "Share of the requests that must be good")
      ->capture_default_str()
      ->check(between(0.01, 1));
  CLI::Option* lengths =
      c->add_option("--lengths", a->lengths,
                    "File with a line INPUT,OUTPUT per request, used in turn: tokens of its "
                    "prompt and of its answer");
  c->add_option("--input", a->length.input, "Tokens of a prompt, or of a source")
      ->capture_default_str()
      ->check(between(1, 1 << 24))
      ->excludes(lengths);
  c->add_option("--output", a->length.output, "Tokens of an answer")
      ->capture_default_str()
      ->check(between(1, 1 << 24))
      ->excludes(lengths);
  c->add_option("--requests", a->requests, "Requests of a simulation")
      ->capture_default_str()
      ->check(between(10, 1e6));
  c->add_option("--max-machines", a->question.most, "Most machines that are considered")
      ->capture_default_str()
      ->check(between(1, 1e6));
  c->add_option("--dtype", a->type, "With --cluster: type of the weights, as of 'stoa plan inference'")
      ->capture_default_str();
  a->cache.add_to(*c);
  c->get_option("--kv-dtype")->excludes(measured);
  c->add_option("--tp", a->tensor, "With --cluster: devices of a machine, which share each layer")
      ->capture_default_str()
      ->check(between(1, 1024));
  c->add_option("--sequences", a->sequences, "With --cluster: answers that share a pass")
      ->capture_default_str()
      ->check(between(1, 4096));
  c->add_option("--pass-tokens", a->pass_tokens, "With --cluster: most tokens of a pass")
      ->capture_default_str()
      ->check(between(1, 1 << 20));
  c->add_option("--reserve-gb", a->reserve_gb, "With --cluster: GB of a device reserved for other uses")
      ->capture_default_str()
      ->check(between(0, 1e6));
  counts_only_with(*c, {"--dtype", "--tp", "--sequences", "--pass-tokens", "--reserve-gb"}, "--cluster");
  c->add_option("--seed", a->seed, "Seed of the arrivals")->capture_default_str();
  c->add_flag("--json", a->json, "One JSON object");
  c->callback([a, &context] { plan_serve(*a, context); });
}

}  // namespace stoa::cli

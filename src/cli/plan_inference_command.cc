// `stoa plan inference`.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/console.h"
#include "base/file.h"
#include "cli/cache_arguments.h"
#include "cli/command.h"
#include "cli/config_source.h"
#include "cli/measured_inference.h"
#include "cli/number_checks.h"
#include "cli/plan_arguments.h"
#include "cli/plan_config.h"
#include "cli/print.h"
#include "model/model_spec.h"
#include "plan/inference.h"

namespace stoa::cli {
namespace {

struct InferenceArguments {
  ConfigArguments config;
  CacheArguments cache;
  std::string cluster, measured, csv;
  std::vector<std::string> types{"bf16"};
  plan::InferenceRequest request;
  std::optional<double> most_latency_ms, memory_gb;
  double reserve_gb = 2;
  bool json = false;
};

struct PlannedInference {
  plan::InferenceResult result;
  std::string place;
};

// By the formulas, on a cluster that is described.
PlannedInference predicted_inference(const InferenceArguments& a, Context& context) {
  train::RunConfig config = load_config(a.config, Purpose::kPlan, context.console);
  require<ConfigError>(
      config.estimated.hybrid_override_pattern.empty(),
      "inference of models with state-space layers (hybrid_override_pattern) is not planned");
  const std::int64_t ids = tokenizer_ids(config);
  const model::ModelSpec spec = model::resolve_model(config.model, ids);
  const plan::Cluster cluster = find_cluster(a.cluster);
  plan::InferenceRequest r = a.request;
  r.model = plan::shape_of(spec.config, spec.vocabulary);
  r.types.clear();
  for (const auto& type : a.types) r.types.push_back(choice<plan::InferenceType>(type, "--dtype"));
  if (const auto kept = a.cache.type()) r.cache = plan::cache_type_of(*kept);
  const double memory = a.memory_gb.value_or(cluster.device.memory_gb);
  require<UsageError>(memory > a.reserve_gb, "{} GB of a device, of which {} are reserved: nothing is left",
                      memory, a.reserve_gb);
  r.memory = (memory - a.reserve_gb) * 1e9;
  return {plan::plan_inference(r, cluster),
          fmt::format("{} ({:.0f} GB of each)", cluster.device.name, r.memory / 1e9)};
}

// By the passes of the engine that were measured.
PlannedInference measured_inference(const InferenceArguments& a) {
  const EngineSpeed speed = read_engine_speed(a.measured, a.config);
  return {answers_of_measured(speed, a.request),
          fmt::format("{}, measured with {}", speed.machine, speed.model)};
}

void inference(InferenceArguments a, Context& context) {
  require<UsageError>(!a.measured.empty() || !a.cluster.empty(),
                      "give --cluster, or --measured FILE that 'stoa bench engine MODEL --json' wrote");
  if (a.most_latency_ms) a.request.most_latency = *a.most_latency_ms / 1e3;
  const auto& [result, place] = a.measured.empty() ? predicted_inference(a, context) : measured_inference(a);
  if (!a.csv.empty()) {
    write_text(a.csv, plan::to_csv(result));
    context.console.line(fmt::format("wrote {}", a.csv));
  }
  print(a.json ? plan::to_json(result) + "\n" : plan::to_text(result, a.request, place));
}

}  // namespace

void add_plan_inference_command(CLI::App& plan, Context& context) {
  auto a = std::make_shared<InferenceArguments>();
  CLI::App* command =
      plan.add_subcommand("inference",
                          "Latency, throughput and memory of generation over degrees, batches and types: on "
                          "a cluster that is described, or with a model that was measured. Example: stoa "
                          "plan inference gpt-5b --cluster dgx-a100-80gb --input 60 --output 20 "
                          "--max-latency 380");
  a->config.add_to(*command);
  plan::InferenceRequest& r = a->request;
  r.batches = {1, 4, 8, 16, 32, 64, 128, 256};
  CLI::Option* const cluster =
      command->add_option("--cluster", a->cluster, "Cluster file, or the name of one of configs/clusters");
  command
      ->add_option("--measured", a->measured,
                   "In place of CONFIG and --cluster: a file that 'stoa bench engine MODEL --json' wrote; "
                   "batches go through the engine's scheduler, with passes as long as they were measured")
      ->excludes(cluster);
  command->add_option("--input", r.input, "Tokens of a prompt, or of a source")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  command->add_option("--output", r.output, "Tokens of an answer")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  command->add_option("--batch", r.batches, "Batch sizes")->delimiter(',')->check(CLI::Range(1, 1 << 20));
  command->add_option("--tp", r.tensor, "Tensor-parallel sizes")->delimiter(',')->check(CLI::Range(1, 1024));
  command->add_option("--pp", r.pipeline, "Pipeline sizes")->delimiter(',')->check(CLI::Range(1, 1024));
  command
      ->add_option("--dtype", a->types,
                   "Type of weights: bf16, fp16, fp32, fp8, int8, and those of GGUF files: q8_0, q6_k, q5_k, "
                   "q5_1, q5_0, q4_k, q4_1, q4_0")
      ->delimiter(',');
  a->cache.add_to(*command);
  command->add_option("--max-latency", a->most_latency_ms, "Milliseconds per answer")
      ->check(between(1e-6, 1e12));
  command->add_option("--memory-gb", a->memory_gb, "GB per device (default: the cluster's)")
      ->check(between(1e-3, 1e6));
  command->add_option("--reserve-gb", a->reserve_gb, "GB reserved for other uses")
      ->capture_default_str()
      ->check(between(0, 1e6));
  command->add_option("--csv", a->csv, "File for the grid, with the columns of NVIDIA's inference search");
  command->add_flag("--json", a->json, "One JSON object");
  counts_only_without(*command, {"--tp", "--pp", "--dtype", "--kv-dtype", "--memory-gb", "--reserve-gb"},
                      "--measured");
  command->callback([a, &context] { inference(*a, context); });
}

}  // namespace stoa::cli

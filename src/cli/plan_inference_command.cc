// `stoa plan inference`.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/console.h"
#include "base/file.h"
#include "cli/cache_arguments.h"
#include "cli/command.h"
#include "cli/config_source.h"
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
  std::string cluster, csv;
  std::vector<std::string> types{"bf16"};
  plan::InferenceRequest request;
  std::optional<double> most_latency_ms, memory_gb;
  double reserve_gb = 2;
  bool json = false;
};

void inference(InferenceArguments a, Context& context) {
  train::RunConfig config = load_config(a.config, Purpose::kPlan, context.console);
  require<ConfigError>(
      config.estimated.hybrid_override_pattern.empty(),
      "inference of models with state-space layers (hybrid_override_pattern) is not planned");
  const std::int64_t ids = tokenizer_ids(config);
  const model::ModelSpec spec = model::resolve_model(config.model, ids);
  const plan::Cluster cluster = find_cluster(a.cluster);
  plan::InferenceRequest& r = a.request;
  r.model = plan::shape_of(spec.config, spec.vocabulary);
  r.types.clear();
  for (const auto& type : a.types) r.types.push_back(choice<plan::InferenceType>(type, "--dtype"));
  if (const auto kept = a.cache.type()) r.cache = plan::cache_type_of(*kept);
  if (a.most_latency_ms) r.most_latency = *a.most_latency_ms / 1e3;
  const double memory = a.memory_gb.value_or(cluster.device.memory_gb);
  require<UsageError>(memory > a.reserve_gb, "{} GB of a device, of which {} are reserved: nothing is left",
                      memory, a.reserve_gb);
  r.memory = (memory - a.reserve_gb) * 1e9;
  const plan::InferenceResult result = plan::plan_inference(r, cluster);
  if (!a.csv.empty()) {
    write_text(a.csv, plan::to_csv(result));
    context.console.line(fmt::format("wrote {}", a.csv));
  }
  print(a.json ? plan::to_json(result) + "\n" : plan::to_text(result, r, cluster));
}

}  // namespace

void add_plan_inference_command(CLI::App& plan, Context& context) {
  auto a = std::make_shared<InferenceArguments>();
  CLI::App* command =
      plan.add_subcommand("inference",
                          "Latency, throughput and memory of generation over degrees, batches and types. "
                          "Example: stoa plan inference "
                          "gpt-5b --cluster dgx-a100-80gb --input 60 --output 20 --max-latency 380");
  a->config.add_to(*command);
  plan::InferenceRequest& r = a->request;
  r.batches = {1, 4, 8, 16, 32, 64, 128, 256};
  command->add_option("--cluster", a->cluster, "Cluster file, or the name of one of configs/clusters")
      ->required();
  command->add_option("--input", r.input, "Tokens of a prompt")
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
  command->callback([a, &context] { inference(*a, context); });
}

}  // namespace stoa::cli

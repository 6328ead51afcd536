#include "cli/plan_subject.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/number_checks.h"
#include "cli/plan_arguments.h"
#include "cli/plan_config.h"
#include "cli/schema.h"

namespace stoa::cli {
namespace {

constexpr double kReserveGb = 4;

}  // namespace

double reserved_bytes(const plan::Cluster& cluster) {
  const bool gpu = cluster.device.family.find("CPU") == std::string::npos &&
                   cluster.device.name.find("CPU") == std::string::npos;
  return gpu ? kReserveGb * 1e9 : 0;
}

plan::Format format_of(const train::RunConfig& config) {
  if (config.model.fp8.fp8) return plan::Format::kFp8;
  switch (config.trainer.precision) {
    case train::Precision::kFp32:
      return plan::Format::kFp32;
    case train::Precision::kBf16:
      return plan::Format::kBf16;
    case train::Precision::kFp16:
      return plan::Format::kFp16;
  }
  fail<InternalError>("unknown precision");
}

std::string lacks(const model::EstimatedConfig& estimated) {
  return fmt::format("Stoa does not have {}", fmt::join(model::only_estimated(estimated), "; "));
}

plan::SearchTarget whose_bytes_of(const PlanSubject& s, plan::SearchTarget target) {
  return s.estimated && target == plan::SearchTarget::kStoa ? plan::SearchTarget::kMegatron : target;
}

double parameters_of(const PlanSubject& s) {
  return s.estimated ? s.workload.model.parameters()
                     : static_cast<double>(model::parameter_count(s.training.options.model));
}

void PlanSubjectArguments::add_to(CLI::App& command) {
  config.add_to(command);
  command.add_option("--cluster", cluster, "Cluster file, or the name of one of configs/clusters")
      ->required();
  command.add_option("--calibration", calibration,
                     "Calibration file; 'none': datasheet only (default: the one in configs/planner)");
  command.add_option("--precision", precision,
                     "Type of the linear layers: fp32, bf16, fp16, fp8 (default: the configuration's)");
  command.add_option("--memory-gb", memory_gb, "GB per device (default: the cluster's)")
      ->check(between(1e-3, 1e6));
  command
      .add_option(
          "--reserve-gb", reserve_gb,
          "GB per device not available to the plan: context, libraries, communication (default: 4 on GPUs)")
      ->check(between(0, 1e6));
}

std::unique_ptr<PlanSubject> load_plan_subject(const PlanSubjectArguments& a, Console& console,
                                               std::optional<std::int64_t> ranks) {
  train::RunConfig config = load_config(a.config, Purpose::kPlan, console, ranks);
  if (!a.precision.empty()) set_format(choice<plan::Format>(a.precision, "--precision"), config);
  const std::int64_t ids = tokenizer_ids(config);
  const bool estimated = !model::only_estimated(config.estimated).empty();
  train::RunConfig trained = config;
  trained.estimated = {};
  train::TrainingPlan training = plan_open_ended(trained, ids);
  training.options.sample_context = 0;
  // Declared before the aggregate: GCC 12 destroys its members twice if a later initializer throws.
  plan::Cluster cluster = find_cluster(a.cluster);
  plan::Calibration calibration = find_calibration(a.calibration);
  MachineOptions options = planning_options(config);
  // A search is for full nodes; their ranks share the processor, whose threads decide workspaces.
  if (!ranks && !config.trainer.devices) options.ranks = static_cast<int>(cluster.links.devices_per_node);
  infer::Machine machine = make_planning_machine(options);
  auto subject = std::make_unique<PlanSubject>(PlanSubject{std::move(config),
                                                           std::move(training),
                                                           std::move(cluster),
                                                           std::move(calibration),
                                                           nullptr,
                                                           {},
                                                           {},
                                                           estimated,
                                                           0,
                                                           std::move(machine),
                                                           nullptr});
  PlanSubject& s = *subject;
  const double memory = a.memory_gb.value_or(s.cluster.device.memory_gb),
               reserve = a.reserve_gb.value_or(reserved_bytes(s.cluster) / 1e9);
  require<UsageError>(
      memory > reserve && reserve >= 0,
      "{} GB of a device, of which {} GB are reserved: nothing is left for a plan; give --memory-gb or a "
      "smaller --reserve-gb",
      memory, reserve);
  s.memory = (memory - reserve) * 1e9;
  const plan::Format format = format_of(s.config);
  s.cluster.peak(format);  // throws if the device lacks it
  const auto& o = s.training.options;
  s.workload = plan::workload_of(o.model.config, o.layout, o.model.vocabulary, o.micro_batch,
                                 s.training.batch.largest(), format);
  plan::add_estimated(s.config.estimated, s.workload);
  s.constants =
      &s.calibration.find(s.cluster.device.family, s.workload.software.release, &s.calibration_text);
  s.memory_model = std::make_unique<plan::MemoryModel>(s.machine, o);
  if (estimated) console.line("bytes are estimated for Megatron-LM: " + lacks(s.config.estimated));
  return subject;
}

}  // namespace stoa::cli

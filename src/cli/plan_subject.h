// The subject of plan commands: a configuration on a cluster, with models of its memory and its time.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "base/console.h"
#include "cli/config_source.h"
#include "cli/machine_factory.h"
#include "plan/calibration.h"
#include "plan/cluster.h"
#include "plan/memory_model.h"
#include "plan/search.h"
#include "plan/workload.h"
#include "train/training_plan.h"

namespace stoa::cli {

struct PlanSubjectArguments {
  ConfigArguments config;
  std::string cluster, calibration, precision;
  std::optional<double> memory_gb, reserve_gb;

  void add_to(CLI::App& command);
};

struct PlanSubject {
  train::RunConfig config;
  train::TrainingPlan training;  // of the configuration as given
  plan::Cluster cluster;
  plan::Calibration calibration;
  const plan::Calibration::Entry* constants = nullptr;
  std::string calibration_text;
  plan::Workload workload;  // of the configuration as given
  // Whether the configuration has what Stoa does not train: `training` and `memory_model` are without it, and
  // bytes are estimated.
  bool estimated = false;
  double memory = 0;       // bytes of a device that a plan may fill
  infer::Machine machine;  // counts
  std::unique_ptr<plan::MemoryModel> memory_model;
};

// Whose bytes answer where those of `target` are asked for.
plan::SearchTarget whose_bytes_of(const PlanSubject& s, plan::SearchTarget target);
double parameters_of(const PlanSubject& s);
// Why bytes are estimated: "Stoa does not have …".
std::string lacks(const model::EstimatedConfig& estimated);

// Bytes of each device of a cluster that Stoa does not allocate itself: on a GPU the context, libraries and
// communication buffers.
double reserved_bytes(const plan::Cluster& cluster);

// The number format of the linear layers of a configuration.
plan::Format format_of(const train::RunConfig& config);

// ConfigError, UsageError: invalid or contradictory input. `ranks`: as in load_config.
std::unique_ptr<PlanSubject> load_plan_subject(const PlanSubjectArguments& arguments, Console& console,
                                               std::optional<std::int64_t> ranks = {});

}  // namespace stoa::cli

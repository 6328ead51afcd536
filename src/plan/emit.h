// A plan as arguments of torchtitan, and the job that runs a plan. Megatron-LM and NeMo, whose files are
// read, too: cli/plan_emit.
#pragma once

#include <string>
#include <vector>

#include "model/model_spec.h"
#include "plan/cluster.h"
#include "plan/search.h"

namespace stoa::plan {

// What the arguments depend on, in addition to the plan.
struct EmitModel {
  const model::ModelSpec& spec;
  std::string name;  // of the run
  Format format = Format::kBf16;
  std::int64_t steps = 0;
};

// Arguments of torchtitan's run_train (job configuration of July 2026), whose models are those of its
// flavours. `notes`: settings that torchtitan cannot express. ConfigError: a kind of model that it does not
// have.
std::vector<std::string> torchtitan_arguments(const Found& found, const EmitModel& model,
                                              std::vector<std::string>& notes);

// A job of Slurm.
struct JobScript {
  std::string name;
  std::int64_t nodes = 1, tasks_per_node = 1;
  std::int64_t gpus_per_node = 0;  // 0: none are asked for
  // What srun starts on every task; before the time limit it is asked to save, and the job is queued again.
  std::string command;
  std::string body;                // instead: lines that start everything themselves
  std::vector<std::string> needs;  // environment variables that the user must set: "DATA: the prepared data"
};
// A job on the devices of a plan: one task per device (`per_device`), or one per node.
JobScript job_of(const std::string& name, const Workload& w, const Cluster& cluster, bool per_device);
std::string sbatch_script(const JobScript& job);

}  // namespace stoa::plan

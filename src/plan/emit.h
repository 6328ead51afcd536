// A plan as arguments of the program that will train with it.
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

// Arguments of Megatron-LM's pretrain_gpt.py (arguments.py, August 2026), one per line; data, tokenizer and
// paths are left to the user.
std::vector<std::string> megatron_arguments(const Found& found, const EmitModel& model);
// Arguments of torchtitan's run_train (job configuration of July 2026). `notes`: settings that torchtitan
// cannot express.
std::vector<std::string> torchtitan_arguments(const Found& found, const EmitModel& model,
                                              std::vector<std::string>& notes);
// A Slurm script that runs `command` on the plan's devices: one task per device (`per_device`), or one per
// node.
std::string sbatch_script(const std::string& name, const Workload& w, const Cluster& cluster,
                          const std::string& command, bool per_device);

}  // namespace stoa::plan

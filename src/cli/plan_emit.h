// A plan in the words of the program that will train with it: a configuration of Stoa, a command of
// Megatron-LM, a file of NeMo, arguments of torchtitan. Where the user gave a file of that program, it is his
// own file with the changes of the plan marked.
#pragma once

#include <string>
#include <vector>

#include "cli/plan_subject.h"
#include "plan/search.h"

namespace stoa::cli {

struct EmittedPlan {
  std::string text;
  std::string file_name;  // "megatron.sh"
  std::string command;  // that starts it (@FILE) within a job, on a task of each node (Stoa: of each device);
                        // empty: it starts its tasks itself
  bool per_device = false;
  std::vector<std::string> needs;  // environment variables that the job asks for: "DATA: the prepared data"
  std::vector<std::string> notes;
};

// ConfigError: settings that the other program has no words for, named one by one. What is written for
// Megatron-LM and NeMo was read back and is the plan.
EmittedPlan emit_plan(plan::SearchTarget target, const PlanSubjectArguments& arguments,
                      const PlanSubject& subject, const plan::Found& found);

// The same for Megatron-LM or NeMo of a run without a search. `given`: what `arguments` name; `planned`: what
// is to be written, on its trainer.devices x num_nodes.
EmittedPlan emit_run(plan::SearchTarget target, const ConfigArguments& arguments,
                     const train::RunConfig& given, const train::RunConfig& planned, std::int64_t vocabulary,
                     const std::string& title);

// The settings in which two runs differ in what is trained and how it is laid out: "model.window_size 4096
// (read back as null)". Files, devices and what changes only the speed do not count.
std::vector<std::string> differences_of_plans(train::RunConfig planned, train::RunConfig read_back,
                                              std::int64_t vocabulary);

}  // namespace stoa::cli

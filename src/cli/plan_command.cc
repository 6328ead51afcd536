// `stoa plan`: its commands, and `stoa plan memory CONFIG`.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/command.h"
#include "cli/config_source.h"
#include "cli/machine_factory.h"
#include "cli/number_checks.h"
#include "cli/plan_arguments.h"
#include "cli/plan_config.h"
#include "cli/plan_predict_command.h"
#include "cli/plan_search_command.h"
#include "cli/plan_subject.h"
#include "cli/print.h"
#include "cli/schema.h"
#include "cli/serving_commands.h"
#include "plan/estimate_text.h"
#include "plan/memory_plan.h"
#include "train/layout_plan.h"
#include "train/training_plan.h"

namespace stoa::cli {
namespace {

struct PlanArguments {
  ConfigArguments config;
  MachineOptions machine;
  std::optional<std::int64_t> ranks;
  std::string target = "stoa";
  bool json = false;
};

// Bytes of another program, by the formulas of the time model's workload.
void estimate_memory(const train::RunConfig& config, plan::SearchTarget target,
                     const PlanArguments& arguments) {
  const plan::Workload w = workload_of(config);
  const std::string_view whose = plan::whose_bytes(target);
  print(arguments.json ? plan::estimate_json(w, whose) + "\n" : plan::estimate_text(w, whose));
}

void plan_memory(const PlanArguments& arguments, Context& context) {
  train::RunConfig config = load_config(arguments.config, Purpose::kPlan, context.console, arguments.ranks);
  const auto target = choice<plan::SearchTarget>(arguments.target, "--target");
  if (target != plan::SearchTarget::kStoa) return estimate_memory(config, target, arguments);
  if (!model::only_estimated(config.estimated).empty()) {
    context.console.line("bytes are estimated for Megatron-LM: " + lacks(config.estimated));
    return estimate_memory(config, plan::SearchTarget::kMegatron, arguments);
  }
  infer::Machine machine = make_planning_machine(planning_options(config, arguments.machine));
  const auto ids = tokenizer_ids(config);
  const train::TrainingPlan plan = plan_open_ended(config, ids);
  const auto memory = plan::plan_memory(machine, plan.options, train::layout_text(plan.options.layout));
  print(arguments.json ? plan::to_json(memory) + "\n" : plan::to_text(memory));
}

}  // namespace

void add_plan_command(CLI::App& app, Context& context) {
  CLI::App* plan = app.add_subcommand("plan", "What a run will need, before it starts");
  plan->require_subcommand(1);
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* memory = plan->add_subcommand("memory",
                                          "Exact memory per category: the program is built on a device "
                                          "without memory. Example: stoa plan memory gpt-175b");
  arguments->config.add_to(*memory);
  memory->add_option("--ranks,--gpus", arguments->ranks, "Number of ranks")->check(rank_count());
  memory
      ->add_option("--threads", arguments->machine.threads,
                   "Worker threads of a rank (workspaces depend on them)")
      ->check(thread_count());
  memory->add_option("--instruction-set", arguments->machine.instruction_set,
                     "Plan for another instruction set");
  memory
      ->add_option("--backend", arguments->machine.backend,
                   "What computes: cpu, cuda (whose buffers for texts between steps are smaller), reference")
      ->check(CLI::IsMember({"cpu", "cuda", "reference"}));
  memory->add_option("--target", arguments->target,
                     "Whose bytes: stoa (counted), megatron or torchtitan (estimated)");
  memory->add_flag("--json", arguments->json, "One JSON object");
  counts_only_without(*memory, {"--threads", "--instruction-set", "--backend"}, "--target");
  memory->callback([arguments, &context] { plan_memory(*arguments, context); });
  add_plan_predict_command(*plan, context);
  add_plan_calibrate_command(*plan, context);
  add_plan_search_command(*plan, context);
  add_plan_advise_command(*plan, context);
  add_plan_inference_command(*plan, context);
  add_plan_serve_command(*plan, context);
  add_plan_size_command(*plan, context);
  add_plan_base_config_command(*plan, context);
}

}  // namespace stoa::cli

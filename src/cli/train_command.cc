#include "cli/train_command.h"

#include <memory>

#include "base/console.h"
#include "cli/config_command.h"
#include "cli/interrupt.h"
#include "cli/machine_factory.h"
#include "cli/preset_changes.h"
#include "cli/schema.h"
#include "cli/version.h"
#include "train/trainer.h"
#include "watch/observers.h"

namespace stoa::cli {
namespace {

struct TrainArguments {
  ConfigArguments config;
  MachineOptions machine;
  std::int64_t ranks = 1;
};

// The command again, as a shell would take it.
std::vector<std::string> command_of(const TrainArguments& arguments) {
  std::vector<std::string> command{"stoa", "train", arguments.config.config};
  for (const auto& change : arguments.config.overrides) command.push_back(change);
  const auto option = [&](const char* name, const std::string& value) {
    if (value.empty()) return;
    command.emplace_back(name);
    command.push_back(value);
  };
  const MachineOptions defaults;
  option("--output", arguments.config.output);
  if (arguments.machine.backend != defaults.backend) option("--backend", arguments.machine.backend);
  if (arguments.machine.threads) option("--threads", std::to_string(*arguments.machine.threads));
  if (arguments.machine.instruction_set) option("--instruction-set", *arguments.machine.instruction_set);
  return command;
}

void train(const TrainArguments& arguments, Context& context) {
  require<ConfigError>(arguments.ranks == 1, "this version trains on 1 rank, --ranks asks for {}",
                       arguments.ranks);
  InterruptScope interrupt;
  const auto overrides = arguments.config.all_overrides();
  train::RunConfig config = load_run_config(arguments.config.config, overrides, context.console);
  const std::int64_t devices = config.trainer.devices.value_or(1) * config.trainer.num_nodes.value_or(1);
  require<ConfigError>(devices == arguments.ranks, "trainer.devices x num_nodes = {}, but {} rank runs",
                       devices, arguments.ranks);
  MachineOptions machine = arguments.machine;
  if (!machine.threads) machine.threads = config.trainer.num_threads;
  // Once, however many machines are made of it.
  machine.instruction_set = ops::cpu::name_of(choose_instruction_set(machine.instruction_set));
  const auto directory = train::run_directory(config);
  require<ConfigError>(directory.has_value(),
                       "no run directory: give --output DIR (exp_manager.explicit_log_dir)");
  const auto owned = watch::make_observers(*directory, context.console,
                                           {config.exp_manager.create_tensorboard_logger, true});
  std::vector<watch::RunObserver*> observers;
  for (const auto& observer : owned) observers.push_back(observer.get());
  const PresetChanges against = changes_against_preset(arguments.config.config, config);
  std::vector<watch::ConfigChange> changes;
  for (const auto& change : against.changes) changes.push_back({change.path, change.from, change.to});
  train::Trainer trainer({config, show_run_config(config), against.preset, changes,
                          [machine] { return make_machine(machine); }, make_meta_machine, context.console,
                          observers, interrupt.token(), command_of(arguments), std::string(version()),
                          std::string(commit())});
  const auto finish = trainer.run();
  if (finish.reason == watch::StopReason::kSignal)
    throw Interrupted(finish.detail + "; a checkpoint was saved");
}

}  // namespace

void add_train_command(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App* command =
      app.add_subcommand("train",
                         "Train a model. Example: stoa train tiny model.data=data/shakespeare "
                         "model.tokenizer=tok --output runs/shakespeare");
  arguments->config.add_to(*command);
  command->add_option("--ranks", arguments->ranks, "Ranks that train together (this version: 1)");
  command->add_option("--backend", arguments->machine.backend,
                      "cpu, cuda, reference, check (cpu beside reference) or check-cuda (cuda beside cpu)");
  command->add_option("--cuda", arguments->machine.cuda, kCudaHelp);
  command->add_option("--threads", arguments->machine.threads, "Worker threads (default: one per core)");
  command->add_option(
      "--instruction-set", arguments->machine.instruction_set,
      "portable, avx2, avx512, avx512-bf16 or amx-bf16 (default: the best of this processor)");
  command->callback([arguments, &context] { train(*arguments, context); });
}

}  // namespace stoa::cli

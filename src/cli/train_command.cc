// `stoa train CONFIG [key=value …]`.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/command.h"
#include "cli/number_checks.h"
#include "cli/training_job.h"

namespace stoa::cli {
namespace {

// The command line again, quoted for a shell.
std::vector<std::string> command_of(const TrainingJob& job) {
  std::vector<std::string> command{"stoa", "train"};
  if (!job.config.config.empty()) command.push_back(job.config.config);
  for (const auto& change : job.config.overrides) command.push_back(change);
  const auto option = [&](const char* name, const std::string& value) {
    if (value.empty()) return;
    command.emplace_back(name);
    command.push_back(value);
  };
  option("--from-megatron", job.config.from_megatron);
  for (const auto& name : job.config.ignore) option("--ignore", name);
  option("--output", job.config.output);
  option("--restore", job.restore);
  job.append_options(command);
  return command;
}

}  // namespace

void add_train_command(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<TrainingJob>();
  CLI::App* command =
      app.add_subcommand("train",
                         "Train a model. Example: stoa train tiny model.data=data/shakespeare "
                         "model.tokenizer=tok --output runs/shakespeare");
  arguments->config.add_to(*command);
  arguments->config.add_output(*command);
  arguments->add_to(*command);
  command
      ->add_option("--dump-tensors", arguments->dump_steps,
                   "Write the tensors of these steps, as 1 or 1-3,7, for `stoa compare --locate`")
      ->type_name("STEPS");
  command
      ->add_option("--dump-output", arguments->dump.directory,
                   "Where to (default: dump/ in the run directory)")
      ->type_name("DIR");
  command
      ->add_option("--dump-only", arguments->dump.only,
                   "Only tensors of these names, with * and ?: 'layers.3.*,*.output'")
      ->delimiter(',')
      ->type_name("NAME");
  command
      ->add_option("--restore", arguments->restore,
                   "Resume this checkpoint, with its optimizer's state and step: of another run, "
                   "of Megatron-LM, NeMo, DeepSpeed or torchtitan (weights alone: restore_from_path)")
      ->type_name("CKPT")
      ->check(CLI::ExistingPath);
  command
      ->add_option("--stop-after", arguments->stop_after,
                   "Stop after this step and save, as after a signal; learning-rate and other schedules stay "
                   "those of the whole run")
      ->check(between(0, 1e15));
  counts_only_with(*command, {"--dump-output", "--dump-only"}, "--dump-tensors");
  command->callback([arguments, &context] { run_training(*arguments, command_of(*arguments), context); });
}

}  // namespace stoa::cli

#include "cli/rerun.h"

#include <algorithm>

#include "base/console.h"
#include "ckpt/find_checkpoint.h"
#include "ckpt/tensor_dump.h"
#include "cli/app.h"
#include "cli/interrupt.h"
#include "cli/machine_factory.h"
#include "cli/schema.h"
#include "train/trainer.h"

namespace stoa::cli {

void rerun_and_dump(const fs::path& run, const std::vector<std::int64_t>& steps, const fs::path& output,
                    Context& context) {
  const fs::path file = run / "config.yaml";
  require<ConfigError>(
      fs::exists(file),
      "'{}' has no tensor dump and is not a run directory (no config.yaml), so its steps cannot be repeated: "
      "write a dump with `stoa train … --dump-tensors STEPS`, or as docs/tensor-dumps.md says",
      run.string());
  const std::vector<std::string> overrides{
      "exp_manager.explicit_log_dir=" + output.string(), "exp_manager.create_checkpoint_callback=false",
      "exp_manager.resume_if_exists=true", "exp_manager.resume_ignore_no_checkpoint=true",
      "trainer.val_check_interval=0"};
  const train::RunConfig config = load_run_config(file.string(), overrides);
  const std::int64_t ranks = config.trainer.devices.value_or(1) * config.trainer.num_nodes.value_or(1);
  require<ConfigError>(
      ranks == 1,
      "'{}' was a run of {} ranks: repeat it with `stoa train {} --ranks {} --dump-tensors STEPS "
      "--output DIR`",
      run.string(), ranks, file.string(), ranks);
  const auto [first, last] = std::minmax_element(steps.begin(), steps.end());
  std::optional<fs::path> from;
  if (fs::is_directory(run / "checkpoints")) {
    std::int64_t newest = 0;
    for (const auto& checkpoint : ckpt::list_checkpoints(run / "checkpoints"))
      if (checkpoint.manifest && checkpoint.step < *first && checkpoint.step > newest)
        newest = checkpoint.step;
    if (newest > 0) from = run / "checkpoints" / ckpt::checkpoint_name(newest);
  }
  context.console.line(fmt::format("{}: no tensor dump; running {} again to step {}", run.string(),
                                   from ? "from " + from->filename().string() : "from the start", *last));
  context.interrupt.set({.grace = std::chrono::seconds(30),
                         .words = "ending after this step (again: exit immediately)",
                         .last_words = {}});
  Console quiet(Console::Level::kQuiet);
  MachineOptions machine;
  machine.threads = config.trainer.num_threads;
  train::Trainer trainer(
      {config,
       show_run_config(config),
       "",
       {},
       train::read_inputs(config, train::find_start(config, from), [](std::string_view) {}),
       train::only_seat(),
       [machine] { return make_machine(machine); },
       quiet,
       {},
       context.interrupt.token(),
       {},
       std::string(version()),
       std::string(commit()),
       {steps, output / ckpt::kDumpFolder, {}},
       *last});
  if (trainer.run().reason == watch::StopReason::kSignal) throw Interrupted("stopped by a signal");
}

}  // namespace stoa::cli

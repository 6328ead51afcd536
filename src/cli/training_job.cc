#include "cli/training_job.h"

#include <CLI/CLI.hpp>
#include <atomic>
#include <charconv>
#include <chrono>
#include <memory>

#include "base/console.h"
#include "base/cores.h"
#include "ckpt/find_checkpoint.h"
#include "cli/app.h"
#include "cli/eval_task_options.h"
#include "cli/interrupt.h"
#include "cli/launch_patience.h"
#include "cli/number_checks.h"
#include "cli/plan_arguments.h"
#include "cli/preset_changes.h"
#include "cli/rank_machine.h"
#include "cli/schema.h"
#include "eval/requests/chat_prompt.h"
#include "eval/requests/encode.h"
#include "train/adapter_run.h"
#include "train/keep_logits.h"
#include "train/layout_plan.h"
#include "train/rank_view.h"
#include "train/restore_training.h"
#include "train/task_evaluation.h"
#include "train/trainer.h"
#include "watch/observers.h"

namespace stoa::cli {
namespace {

constexpr std::chrono::seconds kSetUpGrace(5);

// "1-3,7" -> {1, 2, 3, 7}
std::vector<std::int64_t> parse_steps(std::string_view text) {
  constexpr std::int64_t kMost = 100'000;
  std::vector<std::int64_t> steps;
  const auto wrong = [&] {
    fail<UsageError>("--dump-tensors takes steps from 1 on, as 1 or 1-3,7 (at most {}); got '{}'", kMost,
                     text);
  };
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    std::int64_t first = 0;
    auto read = std::from_chars(at, end, first);
    if (read.ec != std::errc() || first < 1) wrong();
    std::int64_t last = first;
    if (read.ptr != end && *read.ptr == '-') {
      read = std::from_chars(read.ptr + 1, end, last);
      if (read.ec != std::errc() || last < first) wrong();
    }
    if (last - first >= kMost - static_cast<std::int64_t>(steps.size())) wrong();
    for (std::int64_t step = first; step <= last; ++step) steps.push_back(step);
    at = read.ptr;
    if (at == end) break;
    if (*at != ',' || ++at == end) wrong();
  }
  return steps;
}

// What a signal means: before the first step there is nothing to keep, and not much to wait for.
InterruptScope::Manner manner_before_training(bool told) {
  InterruptScope::Manner manner{.grace = kSetUpGrace, .words = "", .last_words = {}};
  if (!told) return manner;
  manner.words = "exiting before the first step (again: exit immediately)";
  manner.last_words = [] { return "nothing was trained"; };
  return manner;
}

InterruptScope::Manner manner_in_training(const train::RunConfig& config, bool told) {
  const double seconds = config.trainer.stop_grace.seconds;
  InterruptScope::Manner manner{
      .grace = std::chrono::duration<double>(seconds), .words = "", .last_words = {}};
  if (!told) return manner;
  const bool saves = config.exp_manager.create_checkpoint_callback;
  manner.words = fmt::format("{} after this step, for at most {} (again: exit immediately)",
                             saves ? "saving and exiting" : "ending", format_duration(seconds));
  manner.last_words = [checkpoints = fs::path(*train::run_directory(config)) / "checkpoints"] {
    for (const auto& listed : ckpt::list_checkpoints(checkpoints))
      if (listed.manifest)
        return fmt::format("the newest complete checkpoint is {}", listed.path.filename().string());
    return std::string("there is no complete checkpoint");
  };
  return manner;
}

// The documents and prompts of trainer.eval_tasks; null: none.
std::shared_ptr<const eval::PreparedEvaluation> prepare_tasks(const train::RunConfig& config,
                                                              const train::RunInputs& inputs) {
  const train::TrainerConfig& t = config.trainer;
  const std::string monitor = config.exp_manager.checkpoint.best_by();
  require<ConfigError>(!t.eval_tasks.empty() || monitor == train::kValidationLoss,
                       "exp_manager.checkpoint_callback_params.monitor: '{}' is not {}, and there are no "
                       "tasks (trainer.eval_tasks) whose figure it could be",
                       monitor, train::kValidationLoss);
  if (t.eval_tasks.empty()) return nullptr;
  require<ConfigError>(inputs.tokenizer.has_value(),
                       "trainer.eval_tasks needs a tokenizer: give model.tokenizer");
  TaskPlaces places{t.eval_include_path, t.eval_data};
  eval::EvaluationOptions options;
  options.num_fewshot = t.eval_shots;
  options.limit = t.eval_limit;
  options.chat = t.eval_chat_template;
  options.threads = available_cores();
  options.making.data = places.data_folders();
  options.making.words = shipped_file("eval") / "ruler";
  options.making.tokens = eval::token_count(*inputs.tokenizer, std::nullopt);
  auto tasks = std::make_shared<const eval::PreparedEvaluation>(
      places.index().select(t.eval_tasks), options,
      t.eval_chat_template ? eval::chat_function(*inputs.tokenizer) : nullptr);
  train::rises(*tasks, monitor);  // it is one of their figures
  return tasks;
}

// The teacher of a distillation, run over the data; nothing is trained.
void keep_teachers_logits(const TrainingJob& arguments, Context& context, train::Launch& launch,
                          const train::RunConfig& config,
                          const std::shared_ptr<const train::RunInputs>& inputs, MachineOptions machine,
                          Console& console) {
  train::KeepLogits how;
  how.directory = arguments.keep_logits;
  if (arguments.top_k) how.top = *arguments.top_k;
  if (!arguments.kept_type.empty()) how.type = dtype_from_name(arguments.kept_type);
  launch.prepare(
      [&] { machine.instruction_set = ops::cpu::name_of(choose_instruction_set(machine.instruction_set)); });
  context.interrupt.set({.grace = std::chrono::duration<double>(config.trainer.stop_grace.seconds),
                         .words = launch.first_process() ? "stopping after these rows" : "",
                         .last_words = {}});
  const run::Layout& layout = inputs->data.plan.options.layout;
  train::LaunchOptions options = arguments.ranks.launch_options(layout);
  options.timeout = communication_timeout(config);
  std::atomic<bool> kept = true;
  launch.run(layout.grid, options, [&](train::Seat& seat) {
    train::TrainerParts parts{.config = config,
                              .config_yaml = {},
                              .preset = {},
                              .changes = {},
                              .inputs = inputs,
                              .seat = seat,
                              .make_machine = [machine, &seat] { return make_machine(machine, seat); },
                              .console = console,
                              .observers = {},
                              .stop = context.interrupt.token(),
                              .command = {},
                              .version = std::string(version()),
                              .commit = std::string(commit())};
    if (!train::keep_logits(parts, how)) kept = false;
  });
  if (kept) return;
  const Interrupted stopped(fmt::format("stopped by a signal: the same command continues with what is in {}",
                                        arguments.keep_logits));
  if (!launch.first_process()) throw train::SilentEnd(stopped.exit_code());
  throw stopped;
}

}  // namespace

void TrainingJob::add_to(CLI::App& command) {
  command
      .add_option("--keep-logits", keep_logits,
                  "Distillation: run the teacher once over the data, keep the most likely tokens that it "
                  "predicts in DIR, and stop; model.distill.kept_logits=DIR then trains without the teacher")
      ->type_name("DIR");
  command.add_option("--top-k", top_k, "Most likely tokens that are kept of each prediction (default: 64)")
      ->check(between(1, 1 << 24));
  command
      .add_option("--kept-type", kept_type,
                  "Type of the log-probabilities that are kept: fp16 (default) or fp32")
      ->check(CLI::IsMember({"fp16", "fp32"}));
  counts_only_with(command, {"--top-k", "--kept-type"}, "--keep-logits");
  ranks.add_to(command);
  command.add_option(
      "--backend", machine.backend,
      "cpu, cuda, reference, check (cpu compared with reference) or check-cuda (cuda compared with cpu)");
  command.add_option("--cuda", machine.cuda, kCudaHelp);
  command
      .add_option("--threads", machine.threads,
                  "Worker threads of a rank (default: the cores of the host, divided among its ranks)")
      ->check(thread_count());
  command.add_option("--instruction-set", machine.instruction_set,
                     "portable, avx2, avx512, avx512-bf16 or amx-bf16 (default: the best of this processor)");
}

void TrainingJob::append_options(std::vector<std::string>& command) const {
  const auto option = [&](const char* name, const std::string& value) {
    if (value.empty()) return;
    command.emplace_back(name);
    command.push_back(value);
  };
  const MachineOptions defaults;
  if (ranks.count) option("--ranks", std::to_string(*ranks.count));
  if (machine.backend != defaults.backend) option("--backend", machine.backend);
  if (machine.threads) option("--threads", std::to_string(*machine.threads));
  if (machine.instruction_set) option("--instruction-set", *machine.instruction_set);
  if (ranks.bind_cores) command.emplace_back("--bind-cores");
  option("--keep-logits", keep_logits);
  if (top_k) option("--top-k", std::to_string(*top_k));
  option("--kept-type", kept_type);
}

void run_training(const TrainingJob& arguments, std::vector<std::string> command, Context& context,
                  const BeforeTraining& before) {
  const auto began = std::chrono::system_clock::now();
  InterruptScope& interrupt = context.interrupt;
  interrupt.set(manner_before_training(true));
  train::Launch launch(build_name(), launch_patience(arguments.config, interrupt.token()));
  const bool told = launch.first_process(), keeps = !arguments.keep_logits.empty();
  interrupt.set(manner_before_training(told));
  Console quiet(Console::Level::kQuiet);
  Console& console = told ? context.console : quiet;
  train::RunConfig config;
  std::shared_ptr<const train::RunInputs> inputs;
  std::shared_ptr<const eval::PreparedEvaluation> tasks;
  MachineOptions machine = arguments.machine;
  train::TrainerParts::Dump dump = arguments.dump;
  launch.prepare([&] {
    dump.steps = parse_steps(arguments.dump_steps);
    config =
        load_config(arguments.config, Purpose::kTrain, console, launch.agreed_ranks(arguments.ranks.count));
    require<ConfigError>(keeps || train::run_directory(config).has_value(),
                         "no run directory: give --output DIR (exp_manager.explicit_log_dir)");
    require<ConfigError>(!keeps || (arguments.config.output.empty() && !arguments.stop_after),
                         "--keep-logits trains nothing and keeps all that a training needs: leave out "
                         "--output and --stop-after");
    require<ConfigError>(!keeps || config.distill.teacher,
                         "--keep-logits keeps what a teacher predicts: name it (model.distill.teacher)");
    require<ConfigError>(!keeps || !config.distill.kept_logits,
                         "--keep-logits with model.distill.kept_logits, which trains by what was kept: give "
                         "one of them");
  });
  std::function<fs::path()> restored;
  if (!arguments.restore.empty())
    restored = [&] {
      return train::restored_checkpoint(config, arguments.restore,
                                        [&](std::string_view line) { console.line(line); });
    };
  const train::StartingPoint start =
      keeps ? train::StartingPoint() : train::agree_on_start(launch, config, restored);
  launch.prepare([&] {
    if (!keeps) train::complete_adapter_config(config, start);
    inputs = train::read_inputs(
        config, start, [&](std::string_view note) { console.line(note); }, interrupt.token());
    tasks = prepare_tasks(config, *inputs);
    machine = rank_machine(std::move(machine), config, launch, arguments.ranks.bind_cores);
  });
  launch.agree("configuration", [common = config]() mutable {
    common.trainer.num_threads.reset();  // hosts may have different numbers of cores
    return show_run_config(common);
  });
  launch.agree("tokenizer", [&] { return train::view_of_tokenizer(*inputs); });
  launch.agree("data", [&] { return train::view_of_data(config, *inputs); });
  if (before && launch.first_process() && keeps) before(config, *inputs);
  if (keeps) return keep_teachers_logits(arguments, context, launch, config, inputs, machine, console);
  launch.require_shared(*train::run_directory(config));
  launch.agree("starting point", [&] { return train::view_of_start(config, start); });
  if (before && launch.first_process()) before(config, *inputs);
  PresetChanges against;
  std::vector<std::unique_ptr<watch::RunObserver>> owned;
  launch.prepare([&] {
    // Once, however many machines are made of it.
    machine.instruction_set = ops::cpu::name_of(choose_instruction_set(machine.instruction_set));
    against = changes_against_preset(arguments.config.stoa_file(), config);
    if (launch.first_process())
      owned = watch::make_observers(*train::run_directory(config), context.console,
                                    {config.exp_manager.create_tensorboard_logger, true});
  });
  std::vector<watch::ConfigChange> changes;
  for (const auto& change : against.changes) changes.push_back({change.path, change.from, change.to});
  if (dump.directory.empty()) dump.directory = fs::path(*train::run_directory(config)) / ckpt::kDumpFolder;
  std::optional<watch::RunFinish> finish;
  const run::Layout& layout = inputs->data.plan.options.layout;
  train::LaunchOptions options = arguments.ranks.launch_options(layout);
  options.timeout = communication_timeout(config);
  launch.run(layout.grid, options, [&](train::Seat& seat) {
    train::TrainerParts parts{config,
                              show_run_config(config),
                              against.preset,
                              changes,
                              inputs,
                              seat,
                              [machine, &seat] { return make_machine(machine, seat); },
                              console,
                              {},
                              interrupt.token(),
                              command,
                              std::string(version()),
                              std::string(commit()),
                              dump,
                              arguments.stop_after,
                              [&] { interrupt.set(manner_in_training(config, told)); },
                              began};
    parts.tasks = tasks;
    if (parts.seat.first())
      for (const auto& observer : owned) parts.observers.push_back(observer.get());
    const bool first = parts.seat.first();
    train::Trainer trainer(std::move(parts));
    const auto result = trainer.run();
    if (first || launch.kind() != "threads") finish = result;
  });
  if (!finish || finish->reason != watch::StopReason::kSignal) return;
  if (!told) throw train::SilentEnd(Interrupted("").exit_code());
  throw Interrupted(finish->detail);
}

}  // namespace stoa::cli

// `stoa finetune MODEL --data FILE…`.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/console.h"
#include "ckpt/find_checkpoint.h"
#include "cli/command.h"
#include "cli/finetune_defaults.h"
#include "cli/interrupt.h"
#include "cli/marked_text.h"
#include "cli/number_checks.h"
#include "cli/plan_config.h"
#include "cli/print.h"
#include "cli/training_job.h"
#include "plan/memory_plan.h"
#include "run/gemm_rate.h"
#include "train/layout_plan.h"
#include "train/training_plan.h"
#include "tune/chat_dataset.h"
#include "tune/objective.h"

namespace stoa::cli {
namespace {

struct FinetuneArguments {
  TrainingJob job;
  FinetuneChoice choice;
  bool plan = false;
};

std::vector<std::string> command_of(const FinetuneArguments& a) {
  std::vector<std::string> command{"stoa", "finetune", a.choice.model};
  for (const auto& change : a.job.config.overrides) command.push_back(change);
  command.emplace_back("--data");
  command.insert(command.end(), a.choice.data.begin(), a.choice.data.end());
  if (!a.choice.validation.empty()) command.emplace_back("--validation-data");
  command.insert(command.end(), a.choice.validation.begin(), a.choice.validation.end());
  const auto option = [&](const char* name, const std::string& value) {
    if (value.empty()) return;
    command.emplace_back(name);
    command.push_back(value);
  };
  option("--template", a.choice.chat_template);
  option("--method", a.choice.method);
  option("--objective", a.choice.objective);
  if (a.choice.skip_bad_records) command.emplace_back("--skip-bad-records");
  option("--teacher", a.choice.teacher);
  option("--kept-logits", a.choice.kept_logits);
  option("--kl", a.choice.divergence);
  if (a.choice.temperature) option("--temperature", fmt::format("{}", *a.choice.temperature));
  if (a.choice.cross_entropy_weight)
    option("--cross-entropy-weight", fmt::format("{}", *a.choice.cross_entropy_weight));
  option("--output", a.job.config.output);
  a.job.append_options(command);
  return command;
}

// What will be compared: the texts of two records.
void show_compared(const train::RunInputs& inputs, Console& console) {
  const data::Dataset& train = *inputs.data.datasets.train;
  const std::int64_t texts = inputs.data.compared.texts,
                     shown = std::min<std::int64_t>(2 * texts, train.size());
  console.line("two records:");
  data::Batch batch;
  for (std::int64_t k = 0; k < shown; ++k) {
    data::fill_batch(train, std::span(&k, 1), batch);
    const auto tokens = std::span(batch.tokens).first(static_cast<std::size_t>(batch.boundaries(0).back()));
    const std::int64_t place = k % texts;
    console.line(fmt::format("{}{}, {} tokens: {}", place == 0 ? "--- " : "",
                             place == 0   ? "query"
                             : place == 1 ? "positive"
                                          : "negative",
                             tokens.size(), inputs.tokenizer->decode(tokens)));
  }
  console.line("---");
}

// What will be trained: two samples with every token marked.
void show_samples(const train::RunInputs& inputs, Console& console) {
  if (inputs.data.compared.texts > 1) return show_compared(inputs, console);
  const data::Dataset& train = *inputs.data.datasets.train;
  const Marks marks = console.is_terminal() ? Marks::kColours : Marks::kBrackets;
  const auto* chats = dynamic_cast<const tune::ChatDataset*>(&train);
  const MarkedTokens which = chats && chats->scored() ? MarkedTokens::kScored : MarkedTokens::kPredicted;
  console.line(fmt::format("two samples; {}:", legend(marks, which)));
  int shown = 0;
  data::Batch batch;
  for (std::int64_t k = 0; k < train.size() && shown < 2; ++k) {
    data::fill_batch(train, std::span(&k, 1), batch);
    for (const MarkedText& text : marked_texts(batch, 0, *inputs.tokenizer, marks, which)) {
      if (shown == 2) break;
      console.line(fmt::format("--- {} tokens, {} {}\n{}", text.tokens, text.trained,
                               which == MarkedTokens::kScored ? "scored" : "trained", text.text));
      ++shown;
    }
  }
  console.line("---");
}

void say_data(const train::RunInputs& inputs, Console& console) {
  const train::ComparedRows& compared = inputs.data.compared;
  if (compared.texts > 1) {
    const std::int64_t queries = inputs.data.plan.batch.largest() / compared.texts;
    console.line(fmt::format("records of {} texts; a step compares {} queries with {} texts each",
                             compared.texts, queries, queries * (compared.texts - 1)));
    return;
  }
  const auto* chats = dynamic_cast<const tune::ChatDataset*>(inputs.data.datasets.train.get());
  if (!chats) return;
  const std::int64_t length = chats->sequence_length();
  console.line(fmt::format("{} samples in {} rows of {} tokens, {:.0f} % full; {} {} per epoch",
                           chats->files().samples.size(), chats->rows_per_epoch(), length,
                           100 * chats->fill(), format_count(static_cast<double>(chats->trained_tokens())),
                           chats->scored() ? "texts scored" : "tokens trained"));
}

// Memory of the run and a guess at its time, without running it.
void plan_run(const FinetuneArguments& a, const ConfigArguments& config_arguments, Context& context) {
  const train::RunConfig config =
      load_config(config_arguments, Purpose::kTrain, context.console, a.job.ranks.count);
  const auto note = [&](std::string_view line) { context.console.line(line); };
  const auto inputs = train::read_inputs(config, {}, note, context.interrupt.token());
  say_data(*inputs, context.console);
  const train::TrainingPlan& plan = inputs->data.plan;
  infer::Machine counting = make_planning_machine(planning_options(config, a.job.machine));
  print(plan::to_text(plan::plan_memory(counting, plan.options, train::layout_text(plan.options.layout))));
  infer::Machine machine = make_machine(a.job.machine);
  const double flops = train::executed_flops(plan);
  const double tflops =
      run::measure_gemm_tflops(machine, plan.options.precision.compute, run::quick_shapes(flops));
  const double seconds = flops / (tflops * 1e12);
  print(
      fmt::format("{} steps of {} rows; {} at the {:.2f} TFLOP/s that matrix products reach here now, "
                  "which the other operations do not count in: expect up to twice that\n",
                  plan.steps, plan.batch.largest(), format_duration(seconds), tflops));
}

// `--data A B key=value`: words that change no key are further files.
FinetuneArguments with_all_files(FinetuneArguments a) {
  auto& words = a.job.config.overrides;
  const auto is_change = [](const std::string& word) {
    return word.find('=') != std::string::npos || word.starts_with('~');
  };
  const auto files = std::stable_partition(words.begin(), words.end(), is_change);
  a.choice.data.insert(a.choice.data.end(), files, words.end());
  words.erase(files, words.end());
  return a;
}

void finetune(const FinetuneArguments& a, Context& context) {
  const ckpt::FoundCheckpoint found = ckpt::find_checkpoint(a.choice.model, ckpt::Verify::kSizes);
  TrainingJob job = a.job;
  job.config.config = found.model.string();
  job.config.defaults = finetune_defaults(a.choice, found, context.console);
  if (a.plan) return plan_run(a, job.config, context);
  const bool taught = !a.choice.teacher.empty() || !a.choice.kept_logits.empty();
  const bool compares = !a.choice.divergence.empty() || a.choice.temperature || a.choice.cross_entropy_weight;
  require<ConfigError>(
      taught || !compares,
      "--kl, --temperature and --cross-entropy-weight are of a distillation: name its teacher "
      "(--teacher) or what was kept of it (--kept-logits)");
  require<ConfigError>(!a.job.config.output.empty() || !a.job.keep_logits.empty(),
                       "no run directory: give --output DIR");
  run_training(job, command_of(a), context, [&](const train::RunConfig&, const train::RunInputs& inputs) {
    say_data(inputs, context.console);
    show_samples(inputs, context.console);
  });
}

}  // namespace

void add_finetune_command(CLI::App& app, Context& context) {
  auto a = std::make_shared<FinetuneArguments>();
  CLI::App* c = app.add_subcommand(
      "finetune",
      "Tune a model on chats, prompts with answers, or texts. Example: stoa finetune models/base --data "
      "chats.jsonl --template chatml --output runs/mine");
  c->add_option("MODEL", a->choice.model, "A Hugging Face model directory, a checkpoint or a run")
      ->required();
  c->add_option("OVERRIDES", a->job.config.overrides,
                "key=value changes of the configuration, ~key removals");
  c->add_option("--data", a->choice.data,
                "Files of chats: JSON lines, a JSON array, CSV, TSV or Parquet, also .gz and .zst, in any of "
                "the usual forms")
      ->required()
      ->type_name("FILE");
  c->add_option("--validation-data", a->choice.validation,
                "Files held back for validation (default: 2 % of --data, the last records; up to 10 % of "
                "texts to be compared)")
      ->type_name("FILE");
  c->add_flag("--skip-bad-records", a->choice.skip_bad_records,
              "Leave out records that cannot be used and say which; without it they are an error");
  c->add_option(
       "--method", a->choice.method,
       "lora: low-rank adapters of all linear layers; full: all weights; dora: lora with trained norms "
       "of rows; qlora: lora on a model held in 4 bits; ia3: factors of keys, values and feed-forward "
       "layers; prompt, p-tuning, prefix: virtual "
       "tokens in front of every text; adapter: small networks behind feed-forward layers. All but full "
       "leave "
       "the model as it is and are saved in PEFT's form, adapter in AdapterHub's")
      ->capture_default_str()
      ->check(CLI::IsMember(finetune_methods()));
  std::vector<std::string> objectives;
  for (const auto& [name, kind] : tune::enum_names(tune::ObjectiveKind::kSft)) objectives.emplace_back(name);
  c->add_option(
       "--objective", a->choice.objective,
       "sft, the default: answers; of preference pairs dpo, robust, ipo, hinge, orpo, simpo; of judged "
       "answers kto. Models that score texts: reward, of preference pairs; regression, of texts with their "
       "scores. Models of vectors: contrastive, the default for texts that belong together (query and "
       "positive)")
      ->check(CLI::IsMember(objectives));
  c->add_option(
      "--teacher", a->choice.teacher,
      "Distillation: trains by the predictions of this model, of the same vocabulary, for the answers; "
      "further keys: model.distill.*");
  c->add_option("--kept-logits", a->choice.kept_logits,
                "Distillation without the teacher, by the predictions that --teacher … --keep-logits DIR has "
                "kept")
      ->type_name("DIR");
  c->add_option("--kl", a->choice.divergence,
                "How predictions are compared with the teacher's: forward (default), reverse, or jsd, their "
                "mixture")
      ->check(CLI::IsMember({"forward", "reverse", "jsd"}));
  c->add_option("--temperature", a->choice.temperature,
                "Divides the logits of both before they are compared (default: 1)")
      ->check(between(1e-3, 1e3));
  c->add_option("--cross-entropy-weight", a->choice.cross_entropy_weight,
                "Weight of the cross entropy of the answers, added to the comparison (default: 0)")
      ->check(between(0, 1e6));
  c->add_option("--template", a->choice.chat_template,
                "Chat template: chatml, llama3, gemma, phi3, mistral, zephyr, alpaca, a Jinja file, or none "
                "(default: the model's own)");
  c->add_option("--epochs", a->choice.epochs, "Passes over the data")
      ->capture_default_str()
      ->check(between(1e-6, 1e6));
  c->add_option("--length", a->choice.length,
                "Tokens of a row (default: the model's positions, at most 2048)")
      ->check(between(8, 1 << 24));
  a->job.config.add_output(*c);
  a->job.add_to(*c);
  c->add_option("--stop-after", a->job.stop_after,
                "Stop after this step and save, as after a signal; schedules stay those of the whole run")
      ->check(between(0, 1e15));
  c->add_flag("--plan", a->plan, "Print the memory and time that it will take, and stop");
  c->callback([a, &context] { finetune(with_all_files(*a), context); });
}

}  // namespace stoa::cli

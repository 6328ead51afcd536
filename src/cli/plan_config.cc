#include "cli/plan_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "cli/schema.h"
#include "config/yaml.h"
#include "foreign/megatron_arguments.h"
#include "foreign/nemo2_config.h"
#include "foreign/nemo_keys.h"
#include "model/huggingface/config_json.h"
#include "train/layout_plan.h"
#include "train/tokenizer_choice.h"

namespace stoa::cli {
namespace {

// Sequence length of a plan for a model directory, which gives only its number of positions.
constexpr std::int64_t kSampleTokens = 4096;

void keep(PlanConfig& plan, config::Report& report) {
  std::move(report.ignored.begin(), report.ignored.end(), std::back_inserter(plan.ignored));
  std::move(report.notes.begin(), report.notes.end(), std::back_inserter(plan.notes));
}

PlanConfig from_overrides(std::vector<std::string> overrides, const std::vector<std::string>& own,
                          std::string_view base, std::optional<std::int64_t> ranks) {
  overrides.insert(overrides.end(), own.begin(), own.end());
  PlanConfig plan;
  config::Report report;
  const auto section = run_schema(ranks);
  std::vector<config::Node> layers{config::parse_yaml(base, "plan")};
  const config::Node root =
      config::merge_layers(section.schema(), std::move(layers), config::parse_overrides(overrides, 1));
  report =
      config::read_object(section.schema(), root, &plan.run, {presets_directory(), foreign::nemo_keys()});
  keep(plan, report);
  return plan;
}

PlanConfig from_huggingface(const fs::path& file, const std::vector<std::string>& overrides,
                            std::optional<std::int64_t> ranks) {
  train::RunConfig run;
  run.model = model::huggingface::read_config(read_text(file)).config;
  const std::int64_t positions = run.model.max_positions();
  run.model.encoder_seq_length = run.data.seq_length = std::min(positions, kSampleTokens);
  run.name = fs::absolute(file).parent_path().filename().string();
  PlanConfig plan = from_overrides({}, overrides, show_run_config(run), ranks);
  const bool given = std::any_of(overrides.begin(), overrides.end(), [](const std::string& o) {
    return o.find("encoder_seq_length=") != std::string::npos ||
           o.find("data.seq_length=") != std::string::npos;
  });
  if (!given && positions > kSampleTokens)
    plan.notes.push_back(
        fmt::format("samples of {} tokens are planned, the model has {} positions: change it with "
                    "model.encoder_seq_length=N",
                    kSampleTokens, positions));
  return plan;
}

}  // namespace

void PlanConfigArguments::add_to(CLI::App& command) {
  command.add_option("config", config,
                     "YAML for Stoa or NeMo, a preset, a Hugging Face config.json or its directory");
  command.add_option("overrides", overrides, "key=value …");
  command.add_option(
      "--from-megatron", from_megatron,
      "Instead of CONFIG: the arguments of Megatron-LM in quotes, or the path of a script (.sh) or of "
      "a file with MODEL_ARGS (.yaml)");
  command
      .add_option("--ignore", ignore,
                  "With --from-megatron: an argument that is left out, such as mtp-num-layers (repeatable)")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_flag("--list-ignored", all_ignored, "List every key without effect, with the reason");
}

PlanConfig read_plan_config(const PlanConfigArguments& a, std::optional<std::int64_t> ranks) {
  if (!a.from_megatron.empty()) {
    std::vector<std::string> own = a.overrides;
    if (!a.config.empty()) {
      require<UsageError>(a.config.find('=') != std::string::npos,
                          "CONFIG '{}' and --from-megatron are both given: give one", a.config);
      own.insert(own.begin(), a.config);  // the first override
    }
    foreign::MegatronArguments megatron = foreign::read_megatron(a.from_megatron, {ranks, a.ignore});
    PlanConfig plan = from_overrides(megatron.overrides, own, "name: megatron\n", ranks);
    plan.ignored.insert(plan.ignored.begin(), megatron.ignored.begin(), megatron.ignored.end());
    plan.notes.insert(plan.notes.begin(), megatron.notes.begin(), megatron.notes.end());
    return plan;
  }
  require<UsageError>(a.ignore.empty(), "--ignore {} is for --from-megatron",
                      a.ignore.empty() ? "" : a.ignore[0]);
  require<UsageError>(!a.config.empty(), "no CONFIG: give a file, a preset, or --from-megatron \"ARGS\"");
  const fs::path path = a.config;
  std::error_code error;
  if (fs::is_directory(path, error)) {
    require<ConfigError>(fs::exists(path / "config.json", error), "{} is a directory without config.json",
                         a.config);
    return from_huggingface(path / "config.json", a.overrides, ranks);
  }
  if (path.extension() == ".json") return from_huggingface(path, a.overrides, ranks);
  if (fs::is_regular_file(path, error)) {
    const config::Node root = config::read_yaml(path);
    if (foreign::is_nemo2(root)) {
      foreign::Nemo2Config nemo = foreign::read_nemo2(root);
      PlanConfig plan = from_overrides(nemo.overrides, a.overrides, "name: nemo\n", ranks);
      plan.ignored.insert(plan.ignored.begin(), nemo.ignored.begin(), nemo.ignored.end());
      plan.notes.insert(plan.notes.begin(), nemo.notes.begin(), nemo.notes.end());
      return plan;
    }
  }
  PlanConfig plan;
  config::Report report;
  Console quiet(Console::Level::kQuiet);
  plan.run = load_run_config(a.config, a.overrides, quiet, &report, ranks);
  keep(plan, report);
  return plan;
}

train::RunConfig load_plan_config(const PlanConfigArguments& a, Console& console,
                                  std::optional<std::int64_t> ranks) {
  PlanConfig plan = read_plan_config(a, ranks);
  for (const auto& note : plan.notes) console.line(note);
  if (a.all_ignored) {
    for (const auto& line : plan.ignored) console.line("no effect: " + line);
  } else if (!plan.ignored.empty()) {
    std::string names;
    for (const auto& line : plan.ignored)
      names += (names.empty() ? "" : ", ") + line.substr(0, line.find(' '));
    console.line(fmt::format("{} keys have no effect on the plan (--list-ignored gives the reasons): {}",
                             plan.ignored.size(), names));
  }
  return std::move(plan.run);
}

std::int64_t tokenizer_ids(train::RunConfig& config) {
  if (const auto tokenizer = train::load_tokenizer(config.tokenizer)) return tokenizer->vocab_size();
  if (!config.model.vocab_size) config.model.vocab_size = model::kVocabWithoutTokenizer;
  return 0;
}

MachineOptions planning_options(const train::RunConfig& config, MachineOptions given) {
  if (!given.threads) given.threads = config.trainer.num_threads;
  given.ranks = std::max(1, train::ranks_of(config) / static_cast<int>(config.trainer.num_nodes.value_or(1)));
  return given;
}

train::TrainingPlan plan_open_ended(const train::RunConfig& config, std::int64_t tokenizer_ids) {
  return train::plan_training(config, tokenizer_ids, config.trainer.max_steps.value_or(1000000));
}

}  // namespace stoa::cli

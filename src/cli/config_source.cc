#include "cli/config_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cli/key_conditions.h"
#include "cli/schema.h"
#include "config/yaml.h"
#include "foreign/nemo2/recipe.h"
#include "foreign/nemo_keys.h"
#include "formats/gguf/gguf_file.h"
#include "model/gguf/metadata.h"
#include "model/huggingface/config_json.h"

namespace stoa::cli {
namespace {

// Sequence length for a model directory, which gives only its number of positions.
constexpr std::int64_t kSampleTokens = 4096;

void keep(FoundConfig& found, config::Report& report) {
  std::move(report.ignored.begin(), report.ignored.end(), std::back_inserter(found.ignored));
  std::move(report.notes.begin(), report.notes.end(), std::back_inserter(found.notes));
}

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// `base`, what was translated, and over both the user's own changes.
FoundConfig from_overrides(std::string_view base, const std::vector<std::string>& translated,
                           const std::vector<std::string>& own, std::optional<std::int64_t> ranks) {
  constexpr int kTranslated = 1, kOwn = 2;
  FoundConfig found;
  const auto section = run_schema(ranks);
  std::vector<config::Node> layers{config::parse_yaml(base, "configuration")};
  config::Overrides changes = config::parse_overrides(translated, kTranslated);
  config::Overrides own_changes = config::parse_overrides(own, kOwn);
  std::move(own_changes.values.begin(), own_changes.values.end(), std::back_inserter(changes.values));
  changes.removed = std::move(own_changes.removed);
  const config::Node root = config::merge_layers(section.schema(), std::move(layers), changes);
  config::Report report =
      config::read_object(section.schema(), root, &found.run,
                          {presets_directory(), foreign::nemo_keys(), key_conditions(), kOwn});
  keep(found, report);
  return found;
}

bool any_override(const std::vector<std::string>& overrides, std::initializer_list<std::string_view> keys) {
  return std::any_of(overrides.begin(), overrides.end(), [&](std::string_view o) {
    return std::any_of(keys.begin(), keys.end(),
                       [&](std::string_view key) { return o.find(key) != std::string_view::npos; });
  });
}

bool has_any(const fs::path& directory, std::initializer_list<const char*> names) {
  std::error_code error;
  return std::any_of(names.begin(), names.end(),
                     [&](const char* name) { return fs::exists(directory / name, error); });
}

// A model directory gives its tokenizer and its weights to a run.
std::vector<std::string> files_of_model(const fs::path& directory) {
  std::vector<std::string> out;
  if (has_any(directory, {"tokenizer.json", "spiece.model", "tekken.json", "tokenizer.model", "vocab.txt",
                          "vocab.json", "encoder.json"}))
    out.push_back("model.tokenizer=" + quoted(directory.string()));
  if (has_any(directory, {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
                          "pytorch_model.bin.index.json"}))
    out.push_back("restore_from_path=" + quoted(directory.string()));
  return out;
}

// `file`: config.json, or a .gguf file.
FoundConfig from_huggingface(const fs::path& file, const ConfigArguments& arguments, Purpose purpose,
                             std::optional<std::int64_t> ranks) {
  const std::vector<std::string> overrides = arguments.all_overrides();
  const bool one_file = gguf::is_gguf(file);
  train::RunConfig run;
  run.model = one_file ? model::gguf::read_model(gguf::File(file)).config
                       : model::huggingface::read_config(read_text(file)).config;
  const std::int64_t positions = run.model.max_positions();
  run.model.encoder_seq_length = run.data.seq_length = std::min(positions, kSampleTokens);
  run.name = one_file ? file.stem().string() : fs::absolute(file).parent_path().filename().string();
  std::vector<std::string> files;
  const bool of_run = purpose == Purpose::kTrain || purpose == Purpose::kShow;
  if (of_run && one_file)
    files = {"model.tokenizer=" + quoted(file.string()), "restore_from_path=" + quoted(file.string())};
  else if (of_run)
    files = files_of_model(file.parent_path().empty() ? "." : file.parent_path());
  files.insert(files.end(), arguments.defaults.begin(), arguments.defaults.end());
  FoundConfig found = from_overrides(show_run_config(run), files, overrides, ranks);
  if (of_run && !found.run.restore_from_path)
    found.notes.push_back(fmt::format("{}: no weights are taken from there: the run starts from fresh ones",
                                      file.parent_path().string()));
  const auto sets_length = [](const std::vector<std::string>& changes) {
    return any_override(changes, {"encoder_seq_length=", "data.seq_length="});
  };
  if (!sets_length(overrides) && !sets_length(arguments.defaults) && positions > kSampleTokens)
    found.notes.push_back(
        fmt::format("samples of {} tokens are {}, the model has {} positions: change it with "
                    "model.encoder_seq_length=N",
                    kSampleTokens, purpose == Purpose::kPlan ? "planned" : "trained", positions));
  return found;
}

FoundConfig from_megatron(const ConfigArguments& a, Purpose purpose, std::optional<std::int64_t> ranks) {
  std::vector<std::string> own = a.all_overrides();
  if (!a.config.empty()) {
    require<UsageError>(a.config.find('=') != std::string::npos || a.config.starts_with('~'),
                        "CONFIG '{}' and --from-megatron are both given: give one", a.config);
    own.insert(own.begin(), a.config);  // the first override
  }
  return read_megatron_config(foreign::megatron_text(a.from_megatron), a.ignore, own, purpose, ranks,
                              a.planned_ranks);
}

// config.json of a model that CONFIG names, or the .gguf file that it is; none: it is another file, or a
// preset.
std::optional<fs::path> huggingface_file(const std::string& config) {
  const fs::path path = config;
  std::error_code error;
  if (gguf::is_gguf(path)) return path;
  if (path.extension() == ".json" && fs::is_regular_file(path, error)) {
    const auto json = nlohmann::json::parse(read_text(path), nullptr, false);
    const bool ours = json.is_object() && json.contains("model") && !json.contains("model_type");
    return ours ? std::nullopt : std::optional(path);  // JSON is YAML, too
  }
  if (!fs::is_directory(path, error)) return {};
  if (fs::exists(path / "config.json", error)) return path / "config.json";
  // A run directory may have the name of its preset.
  const fs::path presets = presets_directory();
  require<ConfigError>((!presets.empty() && config.find('/') == std::string::npos &&
                        fs::is_regular_file(presets / (config + ".yaml"), error)) ||
                           fs::exists(path / "config.yaml", error),
                       "{} is a directory without config.json", config);
  return {};
}

}  // namespace

FoundConfig read_megatron_config(const foreign::MegatronText& text, const std::vector<std::string>& ignore,
                                 const std::vector<std::string>& overrides, Purpose purpose,
                                 std::optional<std::int64_t> ranks,
                                 std::optional<std::int64_t> planned_ranks) {
  foreign::MegatronArguments megatron =
      foreign::read_megatron(text, {ranks, ignore, purpose, overrides, {}, planned_ranks});
  FoundConfig found = from_overrides("name: megatron\n", megatron.overrides, overrides, ranks);
  found.ignored.insert(found.ignored.begin(), megatron.ignored.begin(), megatron.ignored.end());
  found.notes.insert(found.notes.begin(), megatron.notes.begin(), megatron.notes.end());
  return found;
}

FoundConfig read_nemo2_config(config::Node root, std::vector<std::string> overrides, Purpose purpose,
                              std::optional<std::int64_t> ranks) {
  foreign::Nemo2Config nemo = foreign::read_nemo2(std::move(root), overrides, purpose);
  FoundConfig found = from_overrides("name: nemo\n", nemo.overrides, overrides, ranks);
  found.ignored.insert(found.ignored.begin(), nemo.ignored.begin(), nemo.ignored.end());
  found.notes.insert(found.notes.begin(), nemo.notes.begin(), nemo.notes.end());
  return found;
}

void ConfigArguments::add_to(CLI::App& command) {
  command.add_option("CONFIG", config,
                     "YAML for Stoa or NeMo, a preset, the name of a NeMo 2 recipe, a Hugging Face "
                     "config.json or its directory, a .gguf file");
  command.add_option("OVERRIDES", overrides, "key=value changes, ~key removals");
  command.add_option(
      "--from-megatron", from_megatron,
      "Instead of CONFIG: the arguments of Megatron-LM in quotes, or the path of a script (.sh) or of "
      "a file with MODEL_ARGS (.yaml); variables may stand before it, words behind a script: \"TP=2 run.sh "
      "7B\"");
  command
      .add_option("--ignore", ignore,
                  "With --from-megatron: an argument that is left out, such as mtp-num-layers (repeatable)")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_flag("--list-ignored", list_ignored, "List every key without effect, with the reason");
}

void ConfigArguments::add_output(CLI::App& command) {
  command.add_option("--output", output, "run directory (exp_manager.explicit_log_dir)");
}

std::vector<std::string> ConfigArguments::all_overrides() const {
  std::vector<std::string> all = overrides;
  if (!output.empty()) all.push_back("exp_manager.explicit_log_dir=" + quoted(output));
  return all;
}

std::string ConfigArguments::stoa_file() const {
  return from_megatron.empty() && !huggingface_file(config) ? config : "";
}

FoundConfig read_config(const ConfigArguments& a, Purpose purpose, std::optional<std::int64_t> ranks) {
  if (!a.from_megatron.empty()) return from_megatron(a, purpose, ranks);
  require<UsageError>(a.ignore.empty(), "--ignore {} is for --from-megatron",
                      a.ignore.empty() ? "" : a.ignore[0]);
  require<UsageError>(!a.config.empty(), "no CONFIG: give a file, a preset, or --from-megatron \"ARGS\"");
  if (const auto file = huggingface_file(a.config)) return from_huggingface(*file, a, purpose, ranks);
  std::error_code error;
  if (fs::is_regular_file(a.config, error)) {
    config::Node root = config::read_yaml(a.config);
    if (foreign::is_nemo2(root)) return read_nemo2_config(std::move(root), a.all_overrides(), purpose, ranks);
  } else if (auto recipe = foreign::nemo2_recipe(a.config)) {
    return read_nemo2_config(std::move(*recipe), a.all_overrides(), purpose, ranks);
  }
  FoundConfig found;
  config::Report report;
  found.run = load_run_config(a.config, a.all_overrides(), &report, ranks, purpose);
  keep(found, report);
  return found;
}

train::RunConfig load_config(const ConfigArguments& a, Purpose purpose, Console& console,
                             std::optional<std::int64_t> ranks) {
  FoundConfig found = read_config(a, purpose, ranks);
  for (const auto& note : found.notes) console.line(note);
  if (a.list_ignored) {
    for (const auto& line : found.ignored) console.line("no effect: " + line);
  } else if (!found.ignored.empty()) {
    std::string names;
    for (const auto& line : found.ignored)
      names += (names.empty() ? "" : ", ") + line.substr(0, line.find_first_of(" :"));
    console.line(fmt::format("{} keys have no effect {} (--list-ignored gives the reasons): {}",
                             found.ignored.size(), purpose == Purpose::kPlan ? "on the plan" : "in Stoa",
                             names));
  }
  if (purpose == Purpose::kTrain || purpose == Purpose::kBench) model::require_trainable(found.run.estimated);
  return std::move(found.run);
}

}  // namespace stoa::cli

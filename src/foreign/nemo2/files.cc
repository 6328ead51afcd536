// The files of a run: where a recipe has its data, its tokenizer, its logs and checkpoints, and what it
// starts from.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/file.h"
#include "base/nearest.h"
#include "config/value.h"
#include "foreign/nemo2/reading.h"

namespace stoa::foreign {

using config::Node;
using S = Nemo2Section;

namespace {

// Fields of NeMoLogger, ModelCheckpoint, TensorBoardLogger, AutoResume and RestoreConfig. "": any name, which
// goes to a service.
struct RunSection {
  std::string_view path, names;
};
constexpr RunSection kRunSections[] = {
    {"log",
     "name log_dir explicit_log_dir version use_datetime_version log_local_rank_0_only "
     "log_global_rank_0_only "
     "files_to_copy update_logger_directory ckpt tensorboard wandb extra_loggers"},
    {"log.ckpt",
     "monitor verbose save_last save_top_k save_weights_only mode every_n_epochs every_n_train_steps "
     "train_time_interval save_on_train_epoch_end save_optim_on_train_end always_save_context "
     "save_context_on_train_end dirpath filename enable_version_counter auto_insert_metric_name async_save"},
    {"log.ckpt.train_time_interval", "weeks days hours minutes seconds milliseconds microseconds"},
    {"log.tensorboard",
     "save_dir name version log_graph default_hp_metric prefix sub_dir log_dir flush_secs max_queue"},
    {"log.wandb", ""},
    {"log.extra_loggers", ""},
    {"resume",
     "restore_config resume_from_directory import_path adapter_path resume_from_path resume_if_exists "
     "resume_past_end resume_ignore_no_checkpoint"},
    {"resume.restore_config", "path adapter_path load_model_state load_optim_state load_artifacts"}};

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const auto end = std::min(text.find(' '), text.size());
    out.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::string text_at(const Node& root, std::string_view path) {
  const Node* node = root.find_path(path);
  return node && node->is_scalar() && node->scalar != "null" ? node->scalar : std::string();
}

double interval_seconds(const Node& interval) {
  constexpr std::pair<const char*, double> kUnits[] = {
      {"weeks", 604800}, {"days", 86400}, {"hours", 3600}, {"minutes", 60}, {"seconds", 1}};
  double seconds = 0;
  for (const auto& [name, unit] : kUnits)
    seconds += unit * config::parse_real(text_at(interval, name)).value_or(0);
  return seconds;
}

}  // namespace

void Nemo2Reading::run_keys(const std::string& path, const Node& node) {
  const auto* known = std::find_if(std::begin(kRunSections), std::end(kRunSections),
                                   [&](const RunSection& s) { return s.path == path; });
  if (known == std::end(kRunSections) || !node.is_map() || known->names.empty()) {
    if (!node.is_null()) out_.ignored.push_back(fmt::format("{} ({})", path, kOfARun));
    return;
  }
  const std::vector<std::string> names = words_of(known->names);
  for (const auto& [name, value] : node.entries) {
    if (name.starts_with('_')) continue;
    const std::string below = path + "." + name;
    if (std::find(names.begin(), names.end(), name) == names.end())
      problems_.push_back(
          fmt::format("{}: no key of a recipe of NeMo 2{}", below, did_you_mean(name, names)));
    else if (name == "adapter_path" && !value.is_null())
      refuse(below, value.summary(), "adapters: all weights are trained");
    else
      run_keys(below, value);
  }
}

bool Nemo2Reading::changed(std::string_view key) const {
  return std::any_of(changes_.begin(), changes_.end(), [&](std::string_view change) {
    while (change.starts_with('+')) change.remove_prefix(1);
    return change.starts_with(key) &&
           (change.size() == key.size() || change[key.size()] == '=' || change[key.size()] == '.');
  });
}

void Nemo2Reading::needs(const std::string& problem) {
  if (purpose_ == Purpose::kTrain)
    problems_.push_back(problem);
  else
    note("before it can be trained: " + problem);
}

void Nemo2Reading::honoured(const std::string& path) {
  std::erase_if(out_.ignored, [&](const std::string& said) { return said.starts_with(path + " "); });
}

void Nemo2Reading::files() {
  if (!of_run()) return;
  data_files();
  tokenizer_files();
  if (const Node* log = root_.find("log"); log && log->is_map()) {
    run_directory(*log);
    checkpoints(*log);
  }
  start();
  classes();
}

void Nemo2Reading::data_files() {
  if (changed("model.data")) return;
  const Node* data = root_.find("data");
  if (!data) data = root_.find("dataset");  // of Megatron-Bridge
  const std::string name = data ? last_name(text_at(*data, "_target_")) : "";
  const Node* paths = data ? data->find("paths") : nullptr;
  if (!paths && data) paths = data->find("data_path");
  std::string prefix;
  if (paths && paths->is_scalar() && paths->scalar != "null")
    prefix = paths->scalar;
  else if (paths && paths->is_sequence())
    prefix = recipe_text(*paths).value_or("");
  if (!prefix.empty()) {
    for (const char* key : {"paths", "data_path", "split", "index_mapping_dir"})
      honoured(std::string("data.") + key);
    set("model.data.data_prefix", prefix);
    if (const std::string split = text_at(*data, "split"); !split.empty())
      set("model.data.splits_string", "\"" + split + "\"");
    if (const std::string cache = text_at(*data, "index_mapping_dir"); !cache.empty())
      set("model.data.index_mapping_dir", cache);
    return;
  }
  needs(fmt::format(
      "{}: no prepared data are named: give model.data=PREFIX (for random tokens: stoa bench train)",
      name.empty() ? "data" : name));
}

void Nemo2Reading::tokenizer_files() {
  if (changed("model.tokenizer")) return;
  std::string named;
  for (const char* name : {"pretrained_model_name", "model_name", "tokenizer_model"}) {
    const auto text = code(S::kTokenizer, name);
    if (!text || *text == "null") continue;
    std::error_code error;
    if (fs::is_directory(*text, error)) return set("model.tokenizer", *text);
    if (fs::is_regular_file(*text, error) && text->ends_with(".model")) {
      set("model.tokenizer.library", "sentencepiece");
      return set("model.tokenizer.model", *text);
    }
    named = *text;
  }
  needs(fmt::format("the tokenizer{} is not here: give model.tokenizer=DIR",
                    named.empty() ? "" : " (" + named + ")"));
}

bool Nemo2Reading::tokenizer_is_here() const {
  return of_run() && (changed("model.tokenizer") ||
                      std::any_of(out_.overrides.begin(), out_.overrides.end(),
                                  [](const std::string& o) { return o.starts_with("model.tokenizer"); }));
}

void Nemo2Reading::run_directory(const Node& log) {
  if (changed("exp_manager")) return;
  for (const char* key : {"explicit_log_dir", "log_dir", "name"}) honoured(std::string("log.") + key);
  const std::string own = text_at(log, "explicit_log_dir"), parent = text_at(log, "log_dir"),
                    name = text_at(log, "name");
  if (!own.empty())
    set("exp_manager.explicit_log_dir", own);
  else if (!parent.empty())
    set("exp_manager.explicit_log_dir", name.empty() ? parent : parent + "/" + name);
}

void Nemo2Reading::checkpoints(const Node& log) {
  const Node* ckpt = log.find("ckpt");
  if (!ckpt || !ckpt->is_map()) return;
  const std::string section = "exp_manager.checkpoint_callback_params.";
  for (const char* key : {"every_n_train_steps", "save_top_k", "train_time_interval"})
    honoured(std::string("log.ckpt.") + key);
  for (const char* unit : {"weeks", "days", "hours", "minutes", "seconds"})
    honoured(std::string("log.ckpt.train_time_interval.") + unit);
  if (const std::string steps = text_at(*ckpt, "every_n_train_steps"); !steps.empty())
    set(section + "every_n_train_steps", steps);
  if (const std::string best = text_at(*ckpt, "save_top_k"); !best.empty()) set(section + "save_top_k", best);
  if (const Node* interval = ckpt->find("train_time_interval"); interval && interval->is_map())
    set(section + "train_time_interval", fmt::format("{:g}s", interval_seconds(*interval)));
}

void Nemo2Reading::start() {
  for (const char* key : {"resume_if_exists", "resume_ignore_no_checkpoint"})
    if (const std::string value = text_at(root_, std::string("resume.") + key); !value.empty()) {
      set(std::string("exp_manager.") + key, value);
      honoured(std::string("resume.") + key);
    }
  const std::string weights = text_at(root_, "resume.restore_config.path");
  if (weights.empty() || changed("restore_from_path")) return;
  std::error_code error;
  honoured("resume.restore_config.path");
  if (fs::exists(weights, error))
    set("restore_from_path", weights);
  else
    needs(fmt::format("resume.restore_config.path: {} is not here: give restore_from_path=MODEL", weights));
}

// Python classes that a run would need, where they are others than those whose work Stoa does.
void Nemo2Reading::classes() {
  if (script_ == "pretrain_t5.py")
    needs("NeMo's T5 is planned and not trained: give a configuration with model.kind: t5");
  const std::string optimizer = last_name(text_at(root_, "optim._target_"));
  if (!optimizer.empty() && optimizer != "MegatronOptimizerModule")
    needs(fmt::format("optim: {}: Python code of its own: expected MegatronOptimizerModule", optimizer));
  const Node* callbacks = root_.find_path("trainer.callbacks");
  if (!callbacks || !callbacks->is_sequence()) return;
  for (const Node& callback : callbacks->items) {
    const std::string target = text_at(callback, "_target_");
    if (!target.starts_with("nemo.") && !target.starts_with("lightning.pytorch.callbacks."))
      needs(fmt::format("trainer.callbacks: {}: Python code of its own around the steps",
                        target.empty() ? callback.summary() : target));
  }
}

}  // namespace stoa::foreign

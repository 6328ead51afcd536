// What only a run needs: tokenizer, data, where it begins, where it is kept and where it ends.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "config/value.h"
#include "foreign/megatron/reading.h"
#include "foreign/megatron/shell_script.h"

namespace stoa::foreign {
namespace {

std::string quoted_path(const std::string& path) {
  return nlohmann::json(path).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool path_exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

bool is_megatron_checkpoint(const fs::path& path) {
  return path_exists(path / "latest_checkpointed_iteration.txt");
}

// A run of Stoa, or a model in Hugging Face's format.
bool is_model(const fs::path& path) {
  return path_exists(path / "checkpoints") || path_exists(path / "config.json");
}

}  // namespace

void MegatronReading::run() {
  if (!of_run()) return;
  run_data();
  run_directory();
  run_start();
  run_end();
}

// Whether the argument has a variable that the script does not set.
bool MegatronReading::open(std::string_view name) {
  const GivenArgument* a = find(name);
  return a && std::any_of(a->values.begin(), a->values.end(),
                          [](const std::string& v) { return !open_variables(v).empty(); });
}

// The tokenizer's size counts, whatever --vocab-size says: so it is in Megatron.
void MegatronReading::run_tokenizer() {
  const std::int64_t extra = whole("vocab-extra-ids").value_or(0);
  const auto size = whole("vocab-size");
  const std::string type = value("tokenizer-type").value_or("");
  for (const char* padded : {"padded-vocab-size", "pad-vocab-size-to"})
    if (const auto rows = value(padded)) {
      set("model.vocab_size", *rows);
      set("model.make_vocab_size_divisible_by", "1");
    }
  const char* const kFiles[] = {"tokenizer-model", "tokenizer-name-or-path", "vocab-file", "merge-file"};
  if (changed("model.tokenizer")) {
    for (const char* name : kFiles) take(name);
    return;
  }
  if (tokenizer_files()) {
    const bool pieces = values_.at("model.tokenizer.library") == "sentencepiece";
    if (pieces && extra > 0) set("model.tokenizer.num_sentinel_tokens", std::to_string(extra));
    if (!pieces && extra > 0)
      needs(
          fmt::format("--vocab-extra-ids {} with {}: give model.tokenizer=DIR, a tokenizer that has "
                      "<extra_id_0> and so on",
                      extra, type.empty() ? "this tokenizer" : type));
    return;
  }
  std::string named;
  for (const char* name : kFiles)
    if (named.empty() && has(name)) named = find(name)->text();
  if (!named.empty() || (!type.empty() && type != "NullTokenizer")) {
    needs(fmt::format("{}: {}: give model.tokenizer=DIR", named.empty() ? "--tokenizer-type " + type : named,
                      named.empty() ? "its files are not named" : "no tokenizer that Stoa reads is there"));
    return;
  }
  const bool ends = type == "NullTokenizer";  // one more id: the end of a document
  if (size && !is_set("model.vocab_size"))
    set("model.vocab_size", std::to_string(*size + extra + (ends ? 1 : 0)));
  if (!is_set("model.vocab_size") && !changed("model.vocab_size"))
    needs("no tokenizer is named: give model.tokenizer=DIR, or model.vocab_size=N for data of token ids");
}

// As Megatron reads it: paths, or weights and paths in turn.
std::string MegatronReading::blend(std::string_view name) {
  take(name);
  const GivenArgument& a = *find(name);
  std::vector<std::string> parts;
  for (const std::string& word : a.values) parts.push_back(quoted_path(word));
  if (parts.size() == 1) return parts.front();
  bool weights = !parts.empty() && parts.size() % 2 == 0;
  for (std::size_t i = 0; weights && i < parts.size(); i += 2) {
    weights = config::parse_real(a.values[i]).has_value();
    parts[i] = a.values[i];
  }
  if (!weights)
    needs(fmt::format(
        "{}: {}: give model.data=[WEIGHT, PREFIX, …]", a.text(),
        parts.empty() ? "no path" : "paths without weights, of which Megatron takes every sample once"));
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

void MegatronReading::run_data() {
  constexpr std::pair<const char*, const char*> kSplits[] = {
      {"train-data-path", "train"}, {"valid-data-path", "validation"}, {"test-data-path", "test"}};
  const char* const kOthers[] = {
      "mock-data",
      "train-weighted-split-paths",
      "valid-weighted-split-paths",
      "test-weighted-split-paths",
      "train-weighted-split-paths-path",
      "valid-weighted-split-paths-path",
      "test-weighted-split-paths-path",
  };
  const auto cache = value("data-cache-path");
  if (cache && !open("data-cache-path")) set("model.data.index_mapping_dir", quoted_path(*cache));
  const auto form = value("data-impl");
  bool any = take("data-path");
  const bool whole_set = any;
  std::string splits;
  for (const auto& [name, key] : kSplits) any = take(name) || any;
  if (changed("model.data.data_prefix")) {
    for (const char* name : kOthers) take(name);
    set_default("model.data.splits_string", "969,30,1");
    return;
  }
  if (form && *form != "mmap" && *form != "infer")
    needs(fmt::format("--data-impl {}: expected mmap: give model.data=PREFIX of data in that form", *form));
  for (const char* name : kOthers)
    if (take(name)) {
      needs(fmt::format("{}: give model.data=PREFIX, or [WEIGHT, PREFIX, …]", find(name)->text()));
      return;
    }
  for (const char* name : {"data-path", "train-data-path", "valid-data-path", "test-data-path"})
    if (open(name)) {
      needs(
          fmt::format("the script does not set the path of {}: give model.data=PREFIX", find(name)->text()));
      return;
    }
  for (const auto& [name, key] : kSplits)
    if (has(name)) splits += fmt::format("{}{}: {}", splits.empty() ? "" : ", ", key, blend(name));
  if (whole_set) {
    set("model.data.data_prefix", blend("data-path"));
    set_default("model.data.splits_string", "969,30,1");
    if (!splits.empty()) needs("--data-path and paths of its parts are both given: give one");
  } else if (!splits.empty()) {
    set("model.data.data_prefix", fmt::format("{{{}}}", splits));
  }
  if (!any) needs("--data-path is missing: give model.data=PREFIX");
}

void MegatronReading::run_directory() {
  const auto save = value("save");
  if (!save || changed("exp_manager.explicit_log_dir") || changed("exp_manager.exp_dir")) return;
  if (open("save"))
    needs(fmt::format("the script does not set the path of {}: give --output DIR", find("save")->text()));
  else
    set("exp_manager.explicit_log_dir", quoted_path(*save));
}

void MegatronReading::run_start() {
  const bool weights_only = take("finetune"), must = take("exit-on-missing-checkpoint");
  for (const char* name : {"ckpt-step", "no-load-optim", "reset-iteration", "reset-progress"}) take(name);
  const auto load = value("load"), pretrained = value("pretrained-checkpoint"), save = value("save");
  if (changed("restore_from_path")) return;
  const auto needs_import = [&](const char* name, const std::string& path) {
    needs(fmt::format(
        "--{} {}: {}: write it as a model by 'stoa checkpoint import {} --output MODEL', and give "
        "restore_from_path=MODEL",
        name, path, "a checkpoint of Megatron-LM", path));
  };
  const auto unset = [&](const char* name) {
    needs(fmt::format("the script does not set the path of {}: give restore_from_path=MODEL, or --ignore {}",
                      find(name)->text(), name));
  };
  if (pretrained) {
    if (open("pretrained-checkpoint"))
      unset("pretrained-checkpoint");
    else if (is_model(*pretrained))
      set("restore_from_path", quoted_path(*pretrained));
    else
      needs_import("pretrained-checkpoint", *pretrained);
  }
  if (!load) return;
  if (is_megatron_checkpoint(*load)) return needs_import("load", *load);
  const std::string own = "exp_manager.explicit_log_dir=" + quoted_path(*load);
  const auto& changes = options_.changes;
  if ((save && *save == *load) || std::find(changes.begin(), changes.end(), own) != changes.end()) {
    // The run's own directory: it resumes there, if there is something.
    for (const char* name : {"finetune", "ckpt-step", "no-load-optim", "reset-iteration", "reset-progress"})
      if (has(name) && path_exists(fs::path(*load) / "checkpoints"))
        needs(fmt::format(
            "{}: a run resumes with all of its newest checkpoint: leave it out with --ignore {}, or begin "
            "a run elsewhere with --output DIR restore_from_path={}",
            find(name)->text(), name, *load));
    if (must) set("exp_manager.resume_ignore_no_checkpoint", "false");
    return;
  }
  if (open("load")) return unset("load");
  if (is_model(*load)) {
    if (weights_only) return set("restore_from_path", quoted_path(*load));
    needs(
        fmt::format("--load {}: a run continues in its own directory: give --output {}, or for its weights "
                    "alone restore_from_path={}",
                    *load, *load, *load));
  } else if (must) {
    needs(fmt::format("--load {}: there is no checkpoint, and --exit-on-missing-checkpoint asks for one",
                      *load));
  } else {
    note(fmt::format(
        "--load {}: there is no checkpoint: the run begins with fresh weights, as Megatron's does", *load));
  }
}

void MegatronReading::run_end() {
  if (!is_set("model.optim.lr") && !changed("model.optim.lr"))
    needs("--lr is missing: give model.optim.lr=RATE");
  bool ends = false;
  for (const char* key : {"trainer.max_steps", "trainer.max_tokens", "trainer.max_epochs"})
    ends = ends || is_set(key) || changed(key);
  if (!ends) needs("--train-iters is missing: give trainer.max_steps=N");
  if (const auto every = whole("exit-interval"))
    if (*every > 0 && !changed("trainer.max_steps") && *every < number("trainer.max_steps", *every + 1))
      needs(fmt::format(
          "--exit-interval {0}: the run would end before its last step: give --stop-after {0} and "
          "--ignore exit-interval",
          *every));
  set_default("trainer.val_check_interval", "1000");
  set_default("trainer.limit_val_batches", "100");
}

}  // namespace stoa::foreign

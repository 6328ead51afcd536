#include "cli/eval_task_options.h"

#include <cstdlib>

#include "base/error.h"
#include "base/shipped_files.h"

namespace stoa::cli {

void TaskPlaces::add_to(CLI::App& command) {
  command.add_option(
      "--include_path,--include-path", include,
      "Folder of further tasks as YAML files of lm-evaluation-harness; they replace those of the "
      "same name");
  command.add_option(
      "--data", data,
      "Folder of data sets: DATA/OWNER/NAME/CONFIG/SPLIT.jsonl (or .json, .csv, .tsv, .parquet, "
      ".arrow), a folder of save_to_disk, or a cache of datasets or huggingface_hub (default: "
      "$STOA_EVAL_DATA, $HF_DATASETS_CACHE, $HF_HOME, ~/.cache/huggingface)");
}

eval::TaskIndex TaskPlaces::index() const {
  std::vector<fs::path> directories{shipped_file("eval")};
  directories.insert(directories.end(), include.begin(), include.end());
  return eval::TaskIndex(directories);
}

std::vector<fs::path> TaskPlaces::data_folders() const {
  std::vector<fs::path> out(data.begin(), data.end());
  for (const auto& folder : out)
    require<IoError>(fs::is_directory(folder), "--data '{}' is no folder", folder.string());
  if (out.empty())
    for (const char* variable : {"STOA_EVAL_DATA", "HF_DATASETS_CACHE"})
      if (const char* value = std::getenv(variable); value && *value) out.emplace_back(value);
  if (data.empty()) {
    const char *home = std::getenv("HF_HOME"), *user = std::getenv("HOME");
    const fs::path cache = home && *home   ? fs::path(home)
                           : user && *user ? fs::path(user) / ".cache" / "huggingface"
                                           : fs::path();
    for (const char* part : {"datasets", "hub"})
      if (!cache.empty() && fs::is_directory(cache / part)) out.push_back(cache / part);
  }
  return out;
}

}  // namespace stoa::cli

#include "eval/data/find_data.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <set>

#include "base/error.h"
#include "curate/io/glob.h"

namespace stoa::eval {
namespace {

constexpr std::array<const char*, 10> kEndings{".jsonl",    ".json",     ".csv",     ".tsv",
                                               ".arrow",    ".jsonl.gz", ".json.gz", ".jsonl.zst",
                                               ".json.zst", ".parquet"};

bool ends_as_data(const std::string& name) {
  return std::any_of(kEndings.begin(), kEndings.end(), [&](const char* e) { return name.ends_with(e); });
}

// Files of a folder whose names satisfy `fits`, sorted.
template <class Fits>
std::vector<fs::path> files_in(const fs::path& folder, const Fits& fits) {
  std::vector<fs::path> out;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (entry.is_regular_file(ignored) && fits(entry.path().filename().string())) out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

// Whether a folder that datasets saved is one split by itself, and not another one.
bool is_saved_split(const fs::path& folder, const std::string& split) {
  std::ifstream state(folder / "state.json");
  const Json json = Json::parse(state, nullptr, false);
  if (!json.is_object()) return false;
  const Json named = json.value("_split", Json());
  return named.is_null() || named == split;
}

// SPLIT.EXT, shards of it, or a folder that datasets saved.
std::vector<fs::path> split_in(const fs::path& folder, const std::string& split) {
  for (const char* ending : kEndings)
    if (const fs::path path = folder / (split + ending); fs::is_regular_file(path)) return {path};
  for (const fs::path& saved : {folder / split, folder})
    if (fs::is_regular_file(saved / "dataset_info.json") &&
        (saved != folder || is_saved_split(folder, split)))
      if (auto shards = files_in(saved, [](const std::string& n) { return n.ends_with(".arrow"); });
          !shards.empty())
        return shards;
  // The hub's own conversion to Parquet: SPLIT/0000.parquet, and so on.
  if (auto shards = files_in(folder / split,
                             [](const std::string& n) {
                               return n.ends_with(".parquet") &&
                                      is_digits(std::string_view(n).substr(0, n.find('.')));
                             });
      !shards.empty())
    return shards;
  for (const fs::path& place : {folder, folder / "data"}) {
    const std::string first = split + "-00000-of-";
    auto shards = files_in(place, [&](const std::string& n) {
      return n.starts_with(split + "-") && n.find("-of-") != std::string::npos && ends_as_data(n);
    });
    if (!shards.empty() && shards.front().filename().string().starts_with(first)) return shards;
  }
  return {};
}

// CACHE/OWNER___NAME/CONFIG/VERSION/HASH/NAME-SPLIT.arrow; the newest version.
std::vector<fs::path> split_in_cache(const fs::path& cache, const std::string& path,
                                     const std::string& config, const std::string& split) {
  const std::string folder = replaced(path, "/", "___");
  std::vector<fs::path> found;
  for (const std::string& candidate : {folder, lowered(folder)}) {
    const fs::path top = cache / candidate / (config.empty() ? "default" : config);
    std::error_code ignored;
    for (const auto& version : fs::directory_iterator(top, ignored))
      for (const auto& hash : fs::directory_iterator(version.path(), ignored)) {
        auto files = files_in(hash.path(), [&](const std::string& n) {
          const std::size_t at = n.find("-" + split);
          if (at == std::string::npos || !n.ends_with(".arrow")) return false;
          const std::string rest = n.substr(at + 1 + split.size());
          return rest == ".arrow" || rest.starts_with("-0");
        });
        if (!files.empty()) found = std::move(files);
      }
    if (!found.empty()) break;
  }
  return found;
}

// The data set's files as huggingface_hub keeps them: the commit that `main` names, else any.
std::vector<fs::path> snapshots_in(const fs::path& cache, const std::string& path) {
  std::vector<fs::path> out;
  for (const fs::path& hub : {cache, cache / "hub"}) {
    const fs::path top = hub / ("datasets--" + replaced(path, "/", "--"));
    std::string commit;
    std::ifstream(top / "refs" / "main") >> commit;
    if (!commit.empty()) out.push_back(top / "snapshots" / commit);
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(top / "snapshots", ignored))
      if (entry.path().filename() != commit) out.push_back(entry.path());
  }
  return out;
}

// Some files of a folder by their names in it, for messages.
std::vector<std::string> files_below(const fs::path& folder) {
  constexpr std::size_t kShown = 8;
  std::vector<std::string> out;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (it->is_regular_file(error)) out.push_back(it->path().lexically_relative(folder).string());
  std::sort(out.begin(), out.end());
  if (out.empty()) out.emplace_back("no file");
  if (out.size() > kShown) {
    const std::size_t more = out.size() - kShown;
    out.resize(kShown);
    out.push_back(fmt::format("and {} more", more));
  }
  return out;
}

fs::path resolved(const std::string& name, const TaskConfig& task) {
  const fs::path path(name);
  if (path.is_absolute() || fs::exists(path)) return path;
  const fs::path beside = fs::path(task.source).parent_path() / path;
  return fs::exists(beside) ? beside : path;
}

// dataset_kwargs.data_files of a split; null: none are named for it.
Json files_of(const Json& data_files, const std::string& split) {
  if (data_files.is_object()) return data_files.value(split, Json());
  return split == "train" ? data_files : Json();  // one list is the split `train`
}

void check_kwargs(const TaskConfig& task) {
  static const std::set<std::string> kKnown{
      "data_files",    "data_dir", "trust_remote_code", "revision", "streaming", "token", "use_auth_token",
      "download_mode", "sep",      "delimiter",         "field"};
  require<ConfigError>(task.dataset_kwargs.is_object(), "{}: dataset_kwargs: expected a mapping",
                       task.source);
  for (const auto& [key, value] : task.dataset_kwargs.items())
    require<ConfigError>(kKnown.contains(key), "{}: dataset_kwargs: '{}' is not supported", task.source, key);
}

// What dataset_kwargs say of the files. ConfigError: of files of another kind.
DocumentForm form_of_files(const TaskConfig& task) {
  DocumentForm out;
  const auto given = [&](const char* key, const char* path) -> std::optional<std::string> {
    const Json value = task.dataset_kwargs.value(key, Json());
    if (value.is_null()) return std::nullopt;
    require<ConfigError>(task.dataset_path == path && value.is_string(),
                         "{}: dataset_kwargs: '{}' is a text, and of dataset_path {}", task.source, key,
                         path);
    return value.get<std::string>();
  };
  out.field = given("field", "json").value_or("");
  for (const char* key : {"sep", "delimiter"})
    if (const auto separator = given(key, "csv")) {
      require<ConfigError>(separator->size() == 1, "{}: dataset_kwargs: '{}' is {}, expected one character",
                           task.source, key, dumped(*separator));
      out.separator = separator->front();
    }
  return out;
}

// The files that a name in data_files stands for; one that may not be there, where it is no pattern.
std::vector<fs::path> named_files(const std::string& name, const TaskConfig& task) {
  const fs::path plain = resolved(name, task);
  if (fs::exists(plain) || !curate::is_pattern(name)) return {plain};
  std::vector<fs::path> found = curate::expand_pattern(name);
  if (found.empty()) found = curate::expand_pattern((fs::path(task.source).parent_path() / name).string());
  return found.empty() ? std::vector<fs::path>{name} : found;
}

}  // namespace

FoundSplit find_split(const TaskConfig& task, const std::string& split, const std::vector<fs::path>& places) {
  static const std::set<std::string> kForms{"json", "csv", "arrow", "parquet", "text"};
  check_kwargs(task);
  FoundSplit out;
  out.form = form_of_files(task);
  if (kForms.contains(task.dataset_path) && task.dataset_kwargs.contains("data_files")) {
    const Json named = files_of(task.dataset_kwargs["data_files"], split);
    require<ConfigError>(!named.is_null(), "{}: data_files names no file of the split '{}'", task.source,
                         split);
    const fs::path folder = task.dataset_kwargs.value("data_dir", std::string());
    bool all = true;
    for (const Json& file : named.is_array() ? named : Json::array({named})) {
      require<ConfigError>(file.is_string(), "{}: data_files: expected names of files", task.source);
      for (const fs::path& path : named_files((folder / file.get<std::string>()).string(), task)) {
        out.looked_for += (out.looked_for.empty() ? "" : ", ") + path.string();
        all = all && fs::is_regular_file(path);
        out.files.push_back(path);
      }
    }
    if (!all) out.files.clear();
    return out;
  }
  require<ConfigError>(!task.dataset_path.empty(), "{}: the task names no dataset_path", task.source);
  const fs::path config = task.dataset_name;
  std::vector<fs::path> folders{resolved(task.dataset_path, task)};
  const std::string short_name = task.dataset_path.substr(task.dataset_path.rfind('/') + 1);
  for (const fs::path& place : places) {
    folders.push_back(place / task.dataset_path);
    folders.push_back(place / short_name);
    for (fs::path& snapshot : snapshots_in(place, task.dataset_path)) folders.push_back(std::move(snapshot));
  }
  for (const fs::path& folder : folders) {
    if (!config.empty()) out.files = split_in(folder / config, split);
    if (out.files.empty() && (config.empty() || config == "default" || config == "main"))
      out.files = split_in(folder, split);
    if (!out.files.empty()) break;
  }
  for (const fs::path& place : places)
    if (out.files.empty()) out.files = split_in_cache(place, task.dataset_path, task.dataset_name, split);
  // What the hub calls a configuration that a task need not name.
  if (config.empty())
    for (const fs::path& folder : folders)
      for (const std::string& unnamed : {std::string("default"), std::string("plain_text"), short_name})
        if (out.files.empty()) out.files = split_in(folder / unnamed, split);
  const fs::path shown = places.empty() ? fs::path("DATA") : places.front();
  out.looked_for = (shown / task.dataset_path / config / (split + ".jsonl")).string();
  for (const fs::path& folder : folders)
    if (out.files.empty() && fs::is_directory(folder)) {
      out.looked_for += fmt::format("; '{}' holds {}", folder.string(), fmt::join(files_below(folder), ", "));
      break;
    }
  return out;
}

}  // namespace stoa::eval

#include "ckpt/find_checkpoint.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/nearest.h"
#include "ckpt/adapter_directory.h"
#include "ckpt/foreign_directory.h"
#include "ckpt/model_checksums.h"
#include "ckpt/tensor_source.h"
#include "formats/gguf/gguf_file.h"

namespace stoa::ckpt {
namespace {

using Kind = FoundCheckpoint::Kind;

std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error))
    names.push_back(it->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string listing(const fs::path& directory) {
  constexpr std::size_t kShown = 12;
  auto names = names_in(directory);
  if (names.empty()) return "it is empty";
  const std::size_t more = names.size() > kShown ? names.size() - kShown : 0;
  names.resize(names.size() - more);
  return fmt::format("it holds {}{}", fmt::join(names, ", "), more ? fmt::format(" and {} more", more) : "");
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}
bool is_model(const fs::path& path) {
  return fs::is_regular_file(path / "config.json") && holds_weights(path);
}
std::optional<fs::path> gguf_in(const fs::path& directory) {
  for (const auto& name : names_in(directory))
    if (gguf::is_gguf(directory / name)) return directory / name;
  return std::nullopt;
}
bool is_checkpoint(const fs::path& path) {
  return (is_folder(path / "model") || is_folder(path / "adapter")) && is_folder(path / "state");
}

bool holds_checkpoints(const fs::path& path) {
  const auto names = names_in(path);
  return std::any_of(names.begin(), names.end(),
                     [](const std::string& n) { return n == "latest" || checkpoint_step(n); });
}
// The folder with the step-N directories of a run, or of itself.
std::optional<fs::path> checkpoints_of(const fs::path& path) {
  if (is_folder(path / "checkpoints")) return path / "checkpoints";
  if (holds_checkpoints(path)) return path;
  return std::nullopt;
}

FoundCheckpoint as_checkpoint(const fs::path& given, const fs::path& root, Kind kind,
                              const std::optional<fs::path>& base = std::nullopt) {
  FoundCheckpoint found;
  found.kind = kind;
  found.given = given;
  found.root = root;
  if (is_folder(root / "adapter")) {
    found.adapter = root / "adapter";
    found.model = find_adapter_base(*found.adapter, base);
  } else {
    found.model = root / "model";
  }
  found.state = root / "state";
  found.manifest = read_manifest(root);
  return found;
}

[[noreturn]] void fail_damaged(const fs::path& path, const VerifyReport& report) {
  std::vector<std::string> intact;
  for (const auto& listed : list_checkpoints(fs::absolute(path).lexically_normal().parent_path()))
    if (listed.problem.empty() && listed.path.filename() != path.filename())
      intact.push_back(listed.path.filename().string());
  fail<DataError>(
      "checkpoint '{}' is damaged:\n{}{}", path.string(), report.text(),
      intact.empty() ? "" : fmt::format("\nother complete checkpoints: {}", fmt::join(intact, ", ")));
}

FoundCheckpoint open_checkpoint(const fs::path& path, Verify verify, const std::optional<fs::path>& base) {
  const auto report = verify_checkpoint(path, verify);
  if (!report.ok()) fail_damaged(path, report);
  return as_checkpoint(path, path, Kind::kCheckpoint, base);
}

// First what `latest` names, then all others from the newest to the oldest.
std::vector<ListedCheckpoint> candidates_of(const fs::path& checkpoints, std::vector<std::string>& skipped) {
  auto listed = list_checkpoints(checkpoints);
  std::error_code error;
  const fs::path link = checkpoints / "latest";
  if (fs::is_symlink(fs::symlink_status(link, error))) {
    const std::string target = fs::read_symlink(link, error).filename().string();
    const auto it = std::find_if(listed.begin(), listed.end(),
                                 [&](const auto& c) { return c.path.filename() == target; });
    if (it == listed.end())
      skipped.push_back(fmt::format("latest: names '{}', which does not exist", target));
    else
      std::rotate(listed.begin(), it, it + 1);
  }
  return listed;
}

std::optional<FoundCheckpoint> newest_of(const fs::path& given, const fs::path& checkpoints, Verify verify,
                                         const std::optional<fs::path>& base = std::nullopt) {
  std::vector<std::string> skipped;
  for (const auto& candidate : candidates_of(checkpoints, skipped)) {
    std::string problem = candidate.problem;
    if (problem.empty()) problem = verify_checkpoint(candidate.path, verify).text();
    if (problem.empty()) {
      FoundCheckpoint found = as_checkpoint(given, candidate.path, Kind::kRun, base);
      found.skipped = std::move(skipped);
      return found;
    }
    skipped.push_back(fmt::format("{}: {}", candidate.path.filename().string(), problem));
  }
  require<DataError>(skipped.empty(), "'{}' has no usable checkpoint:\n{}", checkpoints.string(),
                     fmt::join(skipped, "\n"));
  return std::nullopt;
}

[[noreturn]] void fail_missing(const fs::path& path) {
  fs::path parent = path;
  while (parent.has_relative_path() && !is_folder(parent)) parent = parent.parent_path();
  if (parent.empty()) parent = ".";
  const fs::path child = *path.lexically_relative(parent).begin();
  const auto names = names_in(parent);
  fail<IoError>("'{}' does not exist: '{}' holds no '{}'{}; {}", path.string(), parent.string(),
                child.string(), did_you_mean(child.string(), names), listing(parent));
}

// A place nearby that would do: a subdirectory, or the directory above.
std::string alternative(const fs::path& path) {
  if (const auto file = gguf_in(path)) return fmt::format("; did you mean '{}'?", file->string());
  const auto usable = [](const fs::path& p) { return is_model(p) || is_checkpoint(p) || checkpoints_of(p); };
  for (const auto& name : names_in(path))
    if (is_folder(path / name) && !is_unfinished_name(name) && usable(path / name))
      return fmt::format("; did you mean '{}'?", (path / name).string());
  const fs::path above = fs::absolute(path).lexically_normal().parent_path();
  if (usable(above)) return fmt::format("; did you mean '{}'?", above.string());
  return "";
}

[[noreturn]] void fail_unknown(const fs::path& path) {
  std::string hint;
  if (fs::exists(path / "config.json"))
    hint = "; it has a config.json but neither model.safetensors nor pytorch_model.bin";
  else if (holds_weights(path))
    hint = "; it has weights but no config.json";
  fail<DataError>(
      "'{}' is not a model (config.json and model.safetensors or pytorch_model.bin), not an adapter "
      "(adapter_config.json and adapter_model.safetensors), not a checkpoint (model/ and state/), not a run "
      "(checkpoints/) and not a training checkpoint of another program: {}{}{}",
      path.string(), listing(path), hint, alternative(path));
}

}  // namespace

std::string checkpoint_name(std::int64_t step) { return fmt::format("step-{:07}", step); }

std::optional<std::int64_t> checkpoint_step(const std::string& file_name) {
  constexpr std::string_view prefix = "step-";
  if (!file_name.starts_with(prefix)) return std::nullopt;
  std::int64_t step = 0;
  const char* end = file_name.data() + file_name.size();
  const auto result = std::from_chars(file_name.data() + prefix.size(), end, step);
  if (result.ec != std::errc() || result.ptr != end || step < 0) return std::nullopt;
  return step;
}

bool is_unfinished_name(const std::string& file_name) {
  const auto at = file_name.find(".tmp-");
  return file_name.starts_with(".step-") && at != std::string::npos &&
         checkpoint_step(file_name.substr(1, at - 1)).has_value();
}

std::vector<ListedCheckpoint> list_checkpoints(const fs::path& checkpoints) {
  std::vector<ListedCheckpoint> out;
  for (const auto& name : names_in(checkpoints)) {
    const auto step = checkpoint_step(name);
    if (!step || !is_folder(checkpoints / name)) continue;
    ListedCheckpoint listed{checkpoints / name, *step, std::nullopt, ""};
    const auto report = verify_checkpoint(listed.path, Verify::kSizes);
    if (report.ok())
      listed.manifest = read_manifest(listed.path);
    else
      listed.problem = report.text();
    out.push_back(std::move(listed));
  }
  std::sort(out.begin(), out.end(), [](const ListedCheckpoint& a, const ListedCheckpoint& b) {
    const auto key = [](const ListedCheckpoint& c) {
      return std::pair(c.manifest ? c.manifest->sequence : -1, c.step);
    };
    return key(a) > key(b);
  });
  return out;
}

FoundCheckpoint find_checkpoint(const fs::path& given, Verify verify, const std::optional<fs::path>& base) {
  require<UsageError>(!given.empty(), "an empty path names no model");
  fs::path path = given.lexically_normal();
  if (!path.has_filename() && path.has_relative_path()) path = path.parent_path();  // "run/" is "run"
  std::error_code error;
  if (!fs::exists(path, error)) fail_missing(path);
  FoundCheckpoint found_model;
  found_model.given = given;
  found_model.root = found_model.model = path;
  if (gguf::is_gguf(path)) return found_model;
  require<DataError>(is_folder(path) || is_foreign_checkpoint(path),
                     "'{}' is a file; a model is a directory or a .gguf file: did you mean '{}'?",
                     path.string(), path.has_parent_path() ? path.parent_path().string() : ".");
  const std::string name = path.filename().string();
  require<DataError>(!is_unfinished_name(name),
                     "'{}' is an unfinished checkpoint, left by a writer that was killed{}", path.string(),
                     alternative(path));
  if (is_checkpoint(path)) return open_checkpoint(path, verify, base);
  if (holds_adapter(path) && !is_model(path)) {
    FoundCheckpoint found;
    found.kind = Kind::kAdapter;
    found.given = given;
    found.root = path;
    found.model = find_adapter_base(path);
    found.adapter = path;
    return found;
  }
  if (is_model(path)) {
    if (verify != Verify::kSizes) check_model_checksums(path);
    return found_model;
  }
  if (is_foreign_checkpoint(path)) {
    FoundCheckpoint found;
    found.kind = Kind::kForeign;
    found.given = given;
    found.root = found.model = path;
    return found;
  }
  if (checkpoint_step(name)) fail_damaged(path, verify_checkpoint(path, Verify::kSizes));
  const auto checkpoints = checkpoints_of(path);
  if (!checkpoints) fail_unknown(path);
  auto found = newest_of(given, *checkpoints, verify);
  require<DataError>(found.has_value(),
                     "'{}' has no complete checkpoint yet: '{}' has no step-N directory; {}", path.string(),
                     checkpoints->string(), listing(*checkpoints));
  return *found;
}

std::unique_ptr<TensorSource> open_found(const FoundCheckpoint& found) {
  return found.adapter ? open_adapter(*found.adapter) : open_weights(found.model);
}

fs::path find_adapter(const fs::path& path, const fs::path& base) {
  std::error_code error;
  if (!fs::exists(path, error)) fail_missing(path);
  fs::path directory = path;
  std::vector<std::string> skipped;
  if (const auto checkpoints = checkpoints_of(path); checkpoints && !holds_adapter(path))
    for (const auto& candidate : candidates_of(*checkpoints, skipped))
      if (candidate.problem.empty() && verify_checkpoint(candidate.path, Verify::kModel).ok()) {
        directory = candidate.path;
        break;
      }
  if (is_folder(directory / "adapter")) directory = directory / "adapter";
  require<DataError>(
      holds_adapter(directory),
      "'{}' is not an adapter (adapter_config.json and adapter_model.safetensors), nor a checkpoint "
      "or run of one: {}",
      path.string(), listing(directory));
  find_adapter_base(directory, base);
  return directory;
}

std::optional<FoundCheckpoint> find_resume(const fs::path& run, Verify verify,
                                           const std::optional<fs::path>& base) {
  const fs::path checkpoints = run / "checkpoints";
  if (!is_folder(checkpoints)) return std::nullopt;
  std::vector<std::string> names = names_in(checkpoints);
  if (std::none_of(names.begin(), names.end(),
                   [](const std::string& n) { return checkpoint_step(n).has_value(); }))
    return std::nullopt;
  std::optional<fs::path> model;
  if (base) model = find_checkpoint(*base, Verify::kSizes).model;
  return newest_of(run, checkpoints, verify, model);
}

}  // namespace stoa::ckpt

#include "train/starting_point.h"

#include "train/run_directory.h"

namespace stoa::train {
namespace {

constexpr std::string_view kResume = "resume ", kWeights = "weights ";

}  // namespace

std::optional<ckpt::FoundCheckpoint> checkpoint_to_resume(const RunConfig& config, ckpt::Verify verify) {
  const auto directory = run_directory(config);
  std::optional<ckpt::FoundCheckpoint> found;
  // An adapter's checkpoint is continued on the model that the configuration names.
  const bool named = config.model.peft.active() && config.restore_from_path;
  if (directory)
    found = ckpt::find_resume(
        *directory, verify,
        named ? std::optional<std::filesystem::path>(*config.restore_from_path) : std::nullopt);
  require<ConfigError>(!found || config.exp_manager.resume_if_exists,
                       "'{}' holds a run (its newest checkpoint is {}): resume it with "
                       "exp_manager.resume_if_exists=true, or "
                       "give another directory",
                       directory.value_or(""), found ? found->root.filename().string() : "");
  require<ConfigError>(
      found || !config.exp_manager.resume_if_exists || config.exp_manager.resume_ignore_no_checkpoint,
      "'{}' holds no checkpoint to resume (exp_manager.resume_ignore_no_checkpoint is false)",
      directory.value_or(""));
  return found;
}

StartingPoint find_start(const RunConfig& config, const std::optional<std::filesystem::path>& from) {
  StartingPoint start;
  if (from)
    start.resume = ckpt::find_checkpoint(*from);
  else
    start.resume = checkpoint_to_resume(config);
  if (!start.resume && config.restore_from_path)
    start.weights = ckpt::find_checkpoint(*config.restore_from_path);
  return start;
}

std::string text_of(const StartingPoint& start) {
  if (start.resume)
    return std::string(kResume) + start.resume->root.string() + '\n' +
           (start.resume->adapter ? start.resume->model.string() : "");
  if (start.weights) return std::string(kWeights) + start.weights->root.string();
  return "";
}

StartingPoint open_start(std::string_view text) {
  StartingPoint start;
  if (text.empty()) return start;
  const bool resumes = text.starts_with(kResume);
  const std::string_view paths = text.substr(resumes ? kResume.size() : kWeights.size());
  const std::filesystem::path root = paths.substr(0, paths.find('\n'));
  std::optional<std::filesystem::path> base;
  if (const auto end = paths.find('\n'); end != paths.npos && end + 1 < paths.size())
    base = paths.substr(end + 1);
  try {
    (resumes ? start.resume : start.weights) = ckpt::find_checkpoint(root, ckpt::Verify::kSizes, base);
  } catch (const Error& error) {
    fail<DataError>("rank 0 starts from '{}', which is not complete here: {}", root.string(), error.what());
  }
  return start;
}

StartingPoint agree_on_start(Launch& launch, const RunConfig& config,
                             const std::function<std::filesystem::path()>& from) {
  StartingPoint start;
  const std::string text = launch.told_by_first([&] {
    const std::filesystem::path other = from ? from() : std::filesystem::path();
    start = other.empty() ? find_start(config) : find_start(config, other);
    return text_of(start);
  });
  launch.prepare([&] {
    if (!launch.first_process()) start = open_start(text);
  });
  return start;
}

}  // namespace stoa::train

// Whose checkpoint a directory is, by the names in it.
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/file.h"
#include "ckpt/foreign_directory.h"
#include "ckpt/torch/distributed_checkpoint.h"
#include "foreign/checkpoint/deepspeed_checkpoint.h"
#include "foreign/checkpoint/foreign_checkpoint.h"
#include "foreign/checkpoint/megatron_checkpoint.h"
#include "foreign/checkpoint/nemo_checkpoint.h"
#include "foreign/checkpoint/rank_files.h"
#include "foreign/checkpoint/state_file.h"
#include "foreign/checkpoint/torchtitan_checkpoint.h"
#include "foreign/checkpoint/zero_partitions.h"
#include "formats/gguf/gguf_file.h"

namespace stoa::foreign {
namespace {

// The checkpoint that the tracker file of Megatron's folder names; the folder itself where it has none.
fs::path newest_iteration(const fs::path& directory) {
  const fs::path tracker = directory / ckpt::kMegatronTracker;
  if (!fs::exists(tracker)) return directory;
  std::string text = read_text(tracker);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  if (text == "release") return directory / text;
  std::int64_t iteration = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), iteration);
  require<DataError>(result.ec == std::errc() && result.ptr == text.data() + text.size() && iteration >= 0,
                     "'{}' holds '{}', and names an iteration or 'release'", tracker.string(),
                     text.substr(0, 40));
  return directory / fmt::format("iter_{:07}", iteration);
}

// Where the checkpoint is that a directory is part of, or holds: "; did you mean …".
std::string near_checkpoint(const fs::path& directory, const std::vector<std::string>& names) {
  const auto last =
      std::find_if(names.rbegin(), names.rend(), [](const auto& n) { return n.starts_with("iter_"); });
  if (last != names.rend())
    return fmt::format(
        "; did you mean '{}'? (latest_checkpointed_iteration.txt, which names an iteration, is missing)",
        (directory / *last).string());
  const fs::path own = fs::absolute(directory / "").parent_path();  // without a slash at the end
  if (own.filename().string().starts_with("mp_rank_"))
    return fmt::format("; did you mean '{}', which has all ranks?", own.parent_path().string());
  return "";
}

[[noreturn]] void fail_unknown(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& item : fs::directory_iterator(directory)) names.push_back(item.path().filename().string());
  std::sort(names.begin(), names.end());
  const std::string nearest = near_checkpoint(directory, names);
  if (names.size() > 12) names.resize(12);
  fail<DataError>(
      "'{}' is no checkpoint that is imported: expected config.json with model.safetensors or "
      "pytorch_model.bin, or .metadata of torch.distributed.checkpoint (torchtitan, Megatron-Core's "
      "torch_dist); it holds {}{}",
      directory.string(), names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, ", ")), nearest);
}

}  // namespace

ForeignCheckpoint open_foreign(const fs::path& given, const ForeignOptions& options) {
  if (fs::is_regular_file(given) && ckpt::is_foreign_checkpoint(given)) return open_nemo(given, options);
  if (is_state_file(given)) return open_state_file(given, options);
  require<IoError>(fs::exists(given), "'{}' does not exist", given.string());
  require<IoError>(
      !gguf::is_gguf(given),
      "'{}' is a GGUF file, which every command reads as it is; `stoa checkpoint export {} --dtype "
      "bf16 --output DIR` makes a Hugging Face directory of it",
      given.string(), given.string());
  require<IoError>(fs::is_directory(given), "'{}' is not a directory", given.string());
  if (fs::exists(given / ckpt::kNemoConfig) || fs::is_directory(given / ckpt::kNemoContext))
    return open_nemo(given, options);
  if (const fs::path universal = newest_universal(given); !universal.empty())
    return open_deepspeed_universal(given, universal, options);
  if (fs::is_directory(given / "zero")) return open_deepspeed_universal(given, given, options);
  if (const fs::path partitions = ckpt::zero_folder(given); !partitions.empty())
    return open_zero_partitions(given, partitions, options);
  const fs::path directory = newest_iteration(given);
  require<IoError>(fs::is_directory(directory), "'{}' names '{}', which does not exist", given.string(),
                   directory.filename().string());
  if (ckpt::torch::DistributedCheckpoint::exists(directory))
    return fs::exists(directory / "common.pt") ? open_megatron(directory, options)
                                               : open_torchtitan(directory, options);
  if (ckpt::holds_rank_folders(directory)) return open_rank_files(directory, options);
  if (fs::exists(directory / "config.json") && ckpt::holds_weights(directory)) {
    ForeignCheckpoint out;
    out.kind = "Hugging Face";
    out.is_huggingface = true;
    out.small_files = directory;
    out.weights = ckpt::open_weights(directory);
    return out;
  }
  fail_unknown(directory);
}

std::unique_ptr<const ckpt::TensorSource> open_tensors(const fs::path& directory) {
  if (ckpt::holds_foreign_weights(directory)) return open_foreign(directory).weights;
  return ckpt::open_weights(directory);
}

}  // namespace stoa::foreign

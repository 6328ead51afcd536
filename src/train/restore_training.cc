#include "train/restore_training.h"

#include "base/error.h"
#include "ckpt/find_checkpoint.h"
#include "ckpt/foreign_directory.h"
#include "foreign/checkpoint/foreign_checkpoint.h"
#include "run/import_checkpoint.h"
#include "train/run_directory.h"

namespace stoa::train {

std::filesystem::path restored_checkpoint(const RunConfig& config, const std::filesystem::path& given,
                                          const std::function<void(std::string_view)>& say) {
  const std::filesystem::path run = *run_directory(config);
  if (const auto own = ckpt::find_resume(run, ckpt::Verify::kSizes)) {
    say(fmt::format("--restore {} has no effect: '{}' has checkpoints of its own and continues from {}",
                    given.string(), run.string(), own->root.filename().string()));
    return {};
  }
  if (!ckpt::is_foreign_checkpoint(given)) {
    const auto found = ckpt::find_checkpoint(given, ckpt::Verify::kSizes);
    require<DataError>(
        found.state.has_value(),
        "--restore {}: it is a bare model without the state of an optimizer: a new run starts from "
        "its weights with restore_from_path={}",
        given.string(), given.string());
    return found.root;
  }
  foreign::ForeignOptions options;
  if (config.model.vocab_size) options.vocabulary = *config.model.vocab_size;
  const foreign::ForeignCheckpoint from = foreign::open_foreign(given, options);
  for (const auto& note : from.notes) say(note);
  const std::filesystem::path written =
      run::import_training(from, from.small_files.value_or(std::filesystem::path()), run / "checkpoints",
                           ckpt::kDefaultShardBytes);
  say(fmt::format("{} of {} is now {}", from.kind, given.string(), written.string()));
  return written;
}

}  // namespace stoa::train

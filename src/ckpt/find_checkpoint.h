// Determines what a path is: a bare model (a .gguf file, too), an adapter of one, a checkpoint, a run of
// them, or a training checkpoint of another program (ckpt/foreign_directory.h); and whether its files are
// intact. A path that is none of these is an error, never an empty result; the message says what was found
// there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ckpt/tensor_source.h"
#include "ckpt/training_state.h"

namespace stoa::ckpt {

namespace fs = std::filesystem;

struct FileProblem {
  std::string path;     // within the checkpoint
  std::string problem;  // "missing", "is 10 bytes, 20 were written", "checksum 00… instead of ff…"
};

struct VerifyReport {
  std::int64_t files = 0;
  std::uint64_t bytes = 0;            // read
  std::vector<FileProblem> problems;  // empty: everything is intact
  std::vector<std::string> unlisted;  // files that are not in the manifest; not a problem
  bool ok() const { return problems.empty(); }
  std::string text() const;  // the problems, one per line
};

enum class Verify : std::uint8_t {
  kSizes,  // all files exist and have the right size
  kModel,  // and the checksums of model/ or adapter/ match
  kAll,    // and those of state/
};
// `checkpoint` contains model/ or adapter/, and state/. A missing or damaged manifest is reported as a
// problem.
VerifyReport verify_checkpoint(const fs::path& checkpoint, Verify what = Verify::kAll);

struct FoundCheckpoint {
  enum class Kind : std::uint8_t { kHuggingFace, kAdapter, kCheckpoint, kRun, kForeign };
  Kind kind = Kind::kHuggingFace;
  fs::path given;                    // the path as given
  fs::path root;                     // the checkpoint, or the Hugging Face directory or .gguf file
  fs::path model;                    // directory with config.json and weights, or a .gguf file; of an adapter
                                     // its base's; of kForeign: root
  std::optional<fs::path> adapter;   // directory with the adapter, where there is one
  std::optional<fs::path> state;     // directory with optimizer shards; none for a Hugging Face model
  std::optional<Manifest> manifest;  // of a checkpoint
  std::vector<std::string>
      skipped;  // newer checkpoints of the run that failed verification, each with the reason

  // The directory with the tokenizer and other small files of the model.
  fs::path small_files() const { return kind == Kind::kForeign ? fs::path() : model; }
};

// IoError: no such path (names the nearest one). DataError: none of the four, an unfinished or damaged
// checkpoint, a run without a complete one, an adapter whose model is not here (find_adapter_base); the
// message lists what is there. For a run, the newest checkpoint that verifies is used. The weights of a
// Hugging Face model are verified if the directory has checksums of them (ckpt/model_checksums.h). `base`: as
// in find_resume(), the directory of a model; for a checkpoint that is named itself.
FoundCheckpoint find_checkpoint(const fs::path& path, Verify verify = Verify::kAll,
                                const std::optional<fs::path>& base = std::nullopt);

// The tensors of what was found: of an adapter its own.
std::unique_ptr<TensorSource> open_found(const FoundCheckpoint& found);

// The directory of an adapter: itself, a checkpoint's, or that of a run's newest checkpoint. `base`: the
// model that it is used on. DataError: `path` holds no adapter, or one of another model.
fs::path find_adapter(const fs::path& path, const fs::path& base);

// For `resume_if_exists`: the newest checkpoint of a run that verifies, or none if the run has no
// checkpoints. DataError if there are some but all are damaged: a run must not start over and replace them.
// `base`: the model on which an adapter's checkpoint is continued, in place of the one that it names
// (find_adapter_base); any path of a model.
std::optional<FoundCheckpoint> find_resume(const fs::path& run, Verify verify = Verify::kAll,
                                           const std::optional<fs::path>& base = std::nullopt);

std::string checkpoint_name(std::int64_t step);                             // "step-0000100"
std::optional<std::int64_t> checkpoint_step(const std::string& file_name);  // inverse of checkpoint_name()
bool is_unfinished_name(const std::string& file_name);                      // ".step-0000100.tmp-…"

struct ListedCheckpoint {
  fs::path path;
  std::int64_t step = 0;
  std::optional<Manifest> manifest;  // none: damaged
  std::string problem;               // why it is damaged
};
// The step-N directories of `checkpoints`, newest first (by manifest sequence; damaged ones last, by step).
// Sizes checked.
std::vector<ListedCheckpoint> list_checkpoints(const fs::path& checkpoints);

}  // namespace stoa::ckpt

// What a path means: a Hugging Face model, a checkpoint, or a run with checkpoints; and whether its bytes are
// what was written. Never silently nothing: a path that is none of these is an error that says what was found
// there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

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
  std::vector<FileProblem> problems;  // empty: all is as it was written
  std::vector<std::string> unlisted;  // files that the manifest does not know; not a problem
  bool ok() const { return problems.empty(); }
  std::string text() const;  // the problems, one per line
};

enum class Verify : std::uint8_t {
  kSizes,  // all files are there and of the right size
  kModel,  // and the checksums of model/ are right
  kAll,    // and those of state/
};
// `checkpoint` holds model/ and state/. A manifest that is missing or damaged is reported as a problem.
VerifyReport verify_checkpoint(const fs::path& checkpoint, Verify what = Verify::kAll);

struct FoundCheckpoint {
  enum class Kind : std::uint8_t { kHuggingFace, kCheckpoint, kRun };
  Kind kind = Kind::kHuggingFace;
  fs::path given;                    // as asked for
  fs::path root;                     // the checkpoint, or the Hugging Face directory
  fs::path model;                    // directory with config.json and safetensors
  std::optional<fs::path> state;     // directory with optimizer shards; none for a Hugging Face model
  std::optional<Manifest> manifest;  // of a checkpoint
  std::vector<std::string>
      skipped;  // newer checkpoints of the run that were passed over, each with its reason
};

// IoError: no such path (names the nearest one). DataError: none of the three, an unfinished or damaged
// checkpoint, a run without a complete one; the message lists what is there. A run falls back to its newest
// checkpoint that verifies. The weights of a Hugging Face model are held against their checksums where it has
// some (ckpt/model_checksums.h).
FoundCheckpoint find_checkpoint(const fs::path& path, Verify verify = Verify::kAll);

// The newest checkpoint of a run that verifies, or nothing when the run has none at all: for
// `resume_if_exists`. DataError when there are some but all are damaged: a run must not start anew over them.
std::optional<FoundCheckpoint> find_resume(const fs::path& run, Verify verify = Verify::kAll);

std::string checkpoint_name(std::int64_t step);                             // "step-0000100"
std::optional<std::int64_t> checkpoint_step(const std::string& file_name);  // of such a name
bool is_unfinished_name(const std::string& file_name);                      // ".step-0000100.tmp-…"

struct ListedCheckpoint {
  fs::path path;
  std::int64_t step = 0;
  std::optional<Manifest> manifest;  // none: damaged
  std::string problem;               // why
};
// The step-N directories of `checkpoints`, newest first (by manifest sequence; damaged ones last, by step).
// Sizes checked.
std::vector<ListedCheckpoint> list_checkpoints(const fs::path& checkpoints);

}  // namespace stoa::ckpt

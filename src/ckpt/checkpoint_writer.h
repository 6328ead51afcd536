// The commit protocol. A checkpoint is written into `.step-0000100.tmp-…`, synced, renamed to `step-0000100`,
// then the link `latest` is set to it. A process killed at any time leaves earlier checkpoints unchanged, and
// an unfinished directory, which the next writer removes. A checkpoint of the same step is exchanged for the
// new one in one step; a file system that cannot do so moves it aside to `.step-0000100.tmp-….replaced`, and
// the next writer brings it back if the process was killed in between.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "ckpt/tensor_directory.h"
#include "ckpt/training_state.h"

namespace stoa::ckpt {

// Host copies of everything in a checkpoint, made by the caller at the step. The writer thread uses them
// while training continues: they must not refer to memory that changes.
class Snapshot {
 public:
  struct TextFile {
    std::string name;  // "config.json"; may be in a folder
    std::string text;
  };
  virtual ~Snapshot() = default;
  // What is written in addition to state/: "model", or "adapter" with the tensors of an adapter in one file.
  virtual std::string_view part() const { return "model"; }
  virtual std::string_view stem() const { return kModelStem; }  // of the files of tensors there
  virtual std::vector<TensorEntry> model_tensors() const = 0;   // Hugging Face names, types as stored
  virtual void write_model(ShardedWriter& writer) = 0;          // every tensor, whole or in pieces
  virtual std::vector<TextFile> model_files() const = 0;        // config.json, tokenizer files
  virtual std::vector<TensorEntry> state_tensors()
      const = 0;  // canonical names: master/…, adam.m/…, adam.v/…
  virtual void write_state(ShardedWriter& writer) = 0;
};

struct Retention {
  int keep_last = 0;  // newest ones to keep; 0: all
  int keep_best = 0;  // and this many of the best by `metric`
  std::string metric = "val_loss";
  bool lower_is_better = true;
};

// In one step. The error that the file system reports.
std::error_code exchange_directories(const fs::path& a, const fs::path& b);

struct WriterOptions {
  Retention retention;
  std::uint64_t max_shard_bytes = kDefaultShardBytes;
  // Called as each stage of the protocol ends: "created", "model", "state", "manifest", "synced", "moved
  // aside" (only where directories cannot be exchanged), "renamed", "linked", "retired". For progress and
  // traces; from the writing thread.
  std::function<void(std::string_view stage)> on_stage;
  // Tests put a file system that cannot in its place.
  std::function<std::error_code(const fs::path&, const fs::path&)> exchange = exchange_directories;
};

class CheckpointWriter {
 public:
  // `checkpoints` is created if needed, locked against other writers (IoError names it), and cleared of files
  // left by killed writers.
  CheckpointWriter(fs::path checkpoints, WriterOptions options);
  ~CheckpointWriter();  // waits; an error that no wait() has reported is lost
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Writes in the background. Waits for the previous save, and throws its error if it failed.
  void save(TrainingState state, std::unique_ptr<Snapshot> snapshot);

  // A checkpoint written by several ranks: creates its directory, whose state/ the ranks fill (JointPart).
  // `bytes`: total size. Waits for the previous save.
  fs::path open_joint(std::int64_t step, std::uint64_t bytes);
  // Called after all ranks have written: writes the model from `model` (its write_state is not called) and
  // the manifest, and publishes the checkpoint, in the background. `summed`: records of files whose checksums
  // the ranks have combined (join_sums); all other files are read here.
  void commit_joint(TrainingState state, fs::path directory, std::unique_ptr<Snapshot> model,
                    std::vector<FileRecord> summed);

  // Waits for the current save; throws its error, once. After an error older checkpoints are intact and no
  // files are left behind.
  void wait();
  bool busy() const;

  // Seconds and bytes of the last finished save.
  struct Cost {
    double seconds = 0;
    std::uint64_t bytes = 0;
  };
  Cost last_cost();  // waits

  // Names of the unfinished checkpoints that the constructor removed.
  const std::vector<std::string>& removed_at_start() const { return removed_; }

 private:
  void lock();
  void clean();
  // What several ranks have written: the directory that contains their state/, and records of its files.
  // Without a directory everything is still to be written.
  struct Joint {
    fs::path directory;
    std::vector<FileRecord> summed;
  };
  void start(TrainingState state, std::unique_ptr<Snapshot> snapshot, Joint joint);
  void write(TrainingState state, Snapshot& snapshot, const Joint& joint);
  void write_files(const fs::path& directory, TrainingState state, Snapshot& snapshot, const Joint& joint);
  void create(const fs::path& directory, std::uint64_t bytes);
  fs::path temporary_of(std::int64_t step) const;
  void publish(const fs::path& temporary, const std::string& name);
  void replace(const fs::path& temporary, const std::string& name);
  void retire(const std::string& newest);
  void discard(const fs::path& directory) noexcept;
  void stage(std::string_view name) const;

  const fs::path checkpoints_;
  const WriterOptions options_;
  int lock_fd_ = -1;
  bool locked_ = false;
  std::vector<std::string> removed_;
  std::int64_t next_sequence_ = 1;
  Cost cost_;
  std::exception_ptr error_;
  std::atomic<bool> busy_{false};
  std::jthread thread_;  // last: joined before other members are destroyed
};

}  // namespace stoa::ckpt

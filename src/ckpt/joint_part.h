// One rank's share of a checkpoint that several ranks write together: its pieces, at their places in files
// that all of them know.
#pragma once

#include <atomic>
#include <exception>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "ckpt/tensor_directory.h"
#include "ckpt/training_state.h"

namespace stoa::ckpt {

// Sums of a part as text, and of all parts together: the records of the files. InternalError: they are not of
// the same files.
std::string sums_text(const std::vector<ShardedWriter::PartSum>& sums);
std::vector<FileRecord> join_sums(const std::vector<std::string>& parts);

// What a rank holds of some canonical tensors, copied to host memory.
struct HeldTensor {
  ShardSpec shard;  // names as in the file
  std::vector<std::byte> bytes;
  DType dtype = DType::kF32;
};

class JointPart {
 public:
  // Writes in the background. `directory`: as CheckpointWriter::open_joint made it, perhaps on another rank:
  // IoError where this rank does not see it. `all`: every tensor of the files, the same on all ranks. One
  // rank is the `first`: it counts what all write alike.
  JointPart(std::filesystem::path directory, std::vector<TensorEntry> all, std::vector<HeldTensor> held,
            bool first, std::uint64_t max_shard_bytes = kDefaultShardBytes);

  bool done() const { return done_; }
  // Throws what went wrong, once.
  void wait();
  const std::vector<ShardedWriter::PartSum>& sums() const { return sums_; }  // when it is done

 private:
  std::atomic<bool> done_{false};
  std::exception_ptr error_;
  std::vector<ShardedWriter::PartSum> sums_;
  std::jthread thread_;  // last: joined before the rest goes
};

}  // namespace stoa::ckpt

// The training state of a checkpoint: counters and optimizer tensors by canonical name, readable by any
// layout.
#pragma once

#include <filesystem>
#include <string>

#include "ckpt/find_checkpoint.h"
#include "ckpt/shard_io.h"
#include "ckpt/tensor_directory.h"

namespace stoa::ckpt {

class StateReader {
 public:
  // DataError: `found` has no training state (a bare Hugging Face model).
  explicit StateReader(const FoundCheckpoint& found);

  const TrainingState& training() const { return training_; }
  const TensorDirectory& tensors() const { return tensors_; }
  // A rank's shard of an optimizer tensor: the pieces' names get `prefix` ("master/", "adam.m/", "adam.v/").
  void read(std::string_view prefix, const ShardSpec& shard, const TensorView& out) const;

 private:
  TrainingState training_;
  TensorDirectory tensors_;
};

}  // namespace stoa::ckpt

// One microbatch in device memory: declared once, refilled for every microbatch.
#pragma once

#include <vector>

#include "data/batch.h"
#include "device/arena.h"
#include "nn/pass.h"

namespace stoa::run {

class DeviceBatch {
 public:
  // `packed`: attention stops at document ends, so that there may be as many segments as tokens.
  DeviceBatch(Arena& arena, std::int64_t rows, std::int64_t length, bool packed);

  // Copies rows [first, first + rows) of a host batch to the device. `first_sample`: global index of row
  // `first` in the run.
  const nn::BatchView& stage(const data::Batch& batch, std::int64_t first, std::int64_t first_sample,
                             Stream& stream);
  // Shapes alone, for a dry run: one segment per row.
  const nn::BatchView& dry();

  std::int64_t rows() const { return rows_; }
  std::int64_t length() const { return length_; }

 private:
  void bind();  // views of the arena's tensors

  Arena* arena_;
  std::int64_t rows_, length_;
  bool packed_;
  Arena::Id tokens_, labels_, mask_, positions_, q_begin_, k_begin_, k_count_, sample_, position_;
  nn::BatchView view_;
  bool bound_ = false;
  std::vector<std::int32_t> host_q_begin_, host_k_begin_, host_k_count_, host_position_;
  std::vector<std::int64_t> host_sample_;
};

}  // namespace stoa::run

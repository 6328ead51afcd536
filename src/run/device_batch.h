// One microbatch in device memory: declared once, refilled for every microbatch.
#pragma once

#include <vector>

#include "data/batch.h"
#include "device/arena.h"
#include "nn/pass.h"

namespace stoa::run {

// Segments of attention in device memory.
class DeviceSegments {
 public:
  // Room for `capacity` segments of a block.
  DeviceSegments(Arena& arena, const std::string& name, std::int64_t capacity,
                 const parallel::ContextBlock& block);

  // Shapes alone, for a dry run: as many as there is room for.
  ops::AttentionSegments dry() const;
  ops::AttentionSegments stage(const parallel::ContextSegments& host, Stream& stream) const;

 private:
  Arena* arena_;
  std::int64_t capacity_, longest_q_, longest_k_;
  Arena::Id q_begin_, k_begin_, k_count_, sample_, position_, behind_;
};

class DeviceBatch {
 public:
  // `packed`: attention stops at document ends, so that there may be as many segments as tokens. `context`:
  // which tokens of every row this rank holds.
  DeviceBatch(Arena& arena, std::int64_t rows, std::int64_t length, bool packed,
              const parallel::ContextPlace& context = {});

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
  void stage_segments(const data::Batch& batch, std::int64_t first, std::int64_t first_sample,
                      Stream& stream);

  Arena* arena_;
  std::int64_t rows_, length_;
  const parallel::ContextPlace context_;
  std::vector<std::int32_t> kept_;  // tokens of the microbatch that this rank holds
  parallel::ContextOrder order_;    // with context parallelism
  const std::vector<parallel::ContextBlock> blocks_;
  std::vector<DeviceSegments> segments_;  // by block
  Arena::Id tokens_, labels_, mask_, positions_, to_attention_, to_ranks_;
  nn::BatchView view_;
  bool bound_ = false, ordered_ = false;
  parallel::ContextSegments host_;
  std::vector<std::int32_t> host_ints_;
  std::vector<float> host_floats_;
};

}  // namespace stoa::run

#include "run/device_batch.h"

#include <algorithm>

namespace stoa::run {

DeviceBatch::DeviceBatch(Arena& arena, std::int64_t rows, std::int64_t length, bool packed)
    : arena_(&arena), rows_(rows), length_(length), packed_(packed) {
  const std::int64_t tokens = rows * length;
  const std::int64_t segments = packed ? tokens : rows;
  const auto declare = [&](const char* name, DType type, std::int64_t count) {
    return arena.declare(MemoryCategory::kBatch, {std::string("batch.") + name, type, Shape{count}});
  };
  tokens_ = declare("tokens", DType::kI32, tokens);
  labels_ = declare("labels", DType::kI32, tokens);
  mask_ = declare("loss_mask", DType::kF32, tokens);
  positions_ = declare("positions", DType::kI32, tokens);
  q_begin_ = declare("segments.q_begin", DType::kI32, segments + 1);
  k_begin_ = declare("segments.k_begin", DType::kI32, segments);
  k_count_ = declare("segments.k_count", DType::kI32, segments);
  sample_ = declare("segments.sample", DType::kI64, segments);
  position_ = declare("segments.position", DType::kI32, segments);
}

void DeviceBatch::bind() {
  if (bound_) return;
  bound_ = true;
  view_.rows = rows_;
  view_.length = length_;
  view_.tokens = arena_->view(tokens_);
  view_.labels = arena_->view(labels_);
  view_.loss_mask = arena_->view(mask_);
  view_.positions = arena_->view(positions_);
}

const nn::BatchView& DeviceBatch::dry() {
  bind();
  auto& s = view_.segments;
  s.count = packed_ ? rows_ * length_ : rows_;
  s.longest_q = s.longest_k = length_;
  s.q_begin = arena_->view(q_begin_);
  s.k_begin = arena_->view(k_begin_);
  s.k_count = arena_->view(k_count_);
  s.sample = arena_->view(sample_);
  s.position = arena_->view(position_);
  return view_;
}

const nn::BatchView& DeviceBatch::stage(const data::Batch& batch, std::int64_t first,
                                        std::int64_t first_sample, Stream& stream) {
  require<InternalError>(batch.sequence_length == length_ && first + rows_ <= batch.rows,
                         "rows [{}, {}) of length {} are staged from a batch of {} rows of length {}", first,
                         first + rows_, length_, batch.rows, batch.sequence_length);
  dry();
  view_.first_sample = first_sample;
  host_q_begin_.clear();
  host_k_begin_.clear();
  host_k_count_.clear();
  host_position_.clear();
  host_sample_.clear();
  std::int64_t longest = 0;
  for (std::int64_t r = 0; r < rows_; ++r) {
    const auto boundaries = batch.boundaries(first + r);
    for (std::size_t i = 0; i + 1 < boundaries.size(); ++i) {
      const std::int32_t begin = boundaries[i], count = boundaries[i + 1] - boundaries[i];
      host_q_begin_.push_back(static_cast<std::int32_t>(r * length_) + begin);
      host_k_begin_.push_back(host_q_begin_.back());
      host_k_count_.push_back(count);
      host_sample_.push_back(first_sample + r);
      host_position_.push_back(begin);
      longest = std::max<std::int64_t>(longest, count);
    }
  }
  const auto count = static_cast<std::int64_t>(host_k_count_.size());
  host_q_begin_.push_back(static_cast<std::int32_t>(rows_ * length_));
  require<InternalError>(count <= view_.segments.k_count.elements(),
                         "{} documents in a batch declared for {}", count, view_.segments.k_count.elements());

  const auto copy = [&](TensorView to, const void* from, std::int64_t elements) {
    arena_->device().copy_from_host(to.data, from, static_cast<std::size_t>(elements) * size_of(to.dtype),
                                    stream);
  };
  const std::int64_t tokens = rows_ * length_, at = first * length_;
  copy(view_.tokens, batch.tokens.data() + at, tokens);
  copy(view_.labels, batch.labels.data() + at, tokens);
  copy(view_.loss_mask, batch.loss_mask.data() + at, tokens);
  copy(view_.positions, batch.position_ids.data() + at, tokens);
  auto& s = view_.segments;
  copy(s.q_begin, host_q_begin_.data(), count + 1);
  copy(s.k_begin, host_k_begin_.data(), count);
  copy(s.k_count, host_k_count_.data(), count);
  copy(s.sample, host_sample_.data(), count);
  copy(s.position, host_position_.data(), count);
  s.q_begin = s.q_begin.slice(0, count + 1);
  s.k_begin = s.k_begin.slice(0, count);
  s.k_count = s.k_count.slice(0, count);
  s.sample = s.sample.slice(0, count);
  s.position = s.position.slice(0, count);
  s.count = count;
  s.longest_q = s.longest_k = longest;
  return view_;
}

}  // namespace stoa::run

#include "run/device_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace stoa::run {

DeviceSegments::DeviceSegments(Arena& arena, const std::string& name, std::int64_t capacity,
                               const parallel::ContextBlock& block)
    : arena_(&arena), capacity_(capacity), longest_q_(block.q_count), longest_k_(block.k_count) {
  const auto declare = [&](const char* what, DType type, std::int64_t count) {
    return arena.declare(MemoryCategory::kBatch, {"batch." + name + "." + what, type, Shape{count}});
  };
  q_begin_ = declare("q_begin", DType::kI32, capacity + 1);
  k_begin_ = declare("k_begin", DType::kI32, capacity);
  k_count_ = declare("k_count", DType::kI32, capacity);
  sample_ = declare("sample", DType::kI64, capacity);
  position_ = declare("position", DType::kI32, capacity);
  if (block.keys_before()) behind_ = declare("behind", DType::kI32, capacity);
}

ops::AttentionSegments DeviceSegments::dry() const {
  ops::AttentionSegments s;
  s.count = capacity_;
  s.longest_q = longest_q_;
  s.longest_k = longest_k_;
  s.q_begin = arena_->view(q_begin_);
  s.k_begin = arena_->view(k_begin_);
  s.k_count = arena_->view(k_count_);
  s.sample = arena_->view(sample_);
  s.position = arena_->view(position_);
  if (behind_) s.behind = arena_->view(behind_);
  return s;
}

ops::AttentionSegments DeviceSegments::stage(const parallel::ContextSegments& host, Stream& stream) const {
  const auto count = static_cast<std::int64_t>(host.k_count.size());
  require<InternalError>(count <= capacity_, "{} documents in a batch declared for {}", count, capacity_);
  ops::AttentionSegments s = dry();
  const auto copy = [&](TensorView& to, const auto& from) {
    to = to.slice(0, static_cast<std::int64_t>(from.size()));
    arena_->device().copy_from_host(to.data, from.data(), to.bytes(), stream);
  };
  copy(s.q_begin, host.q_begin);
  copy(s.k_begin, host.k_begin);
  copy(s.k_count, host.k_count);
  copy(s.sample, host.sample);
  copy(s.position, host.position);
  if (behind_) copy(s.behind, host.behind);
  s.count = count;
  s.longest_q = host.longest_q;
  s.longest_k = host.longest_k;
  return s;
}

DeviceBatch::DeviceBatch(Arena& arena, std::int64_t rows, std::int64_t length, bool packed,
                         const parallel::ContextPlace& context)
    : arena_(&arena),
      rows_(rows),
      length_(length),
      context_(context),
      blocks_(parallel::context_blocks(context, length)) {
  const auto declare = [&](const std::string& name, DType type, std::int64_t count) {
    return arena.declare(MemoryCategory::kBatch, {"batch." + name, type, Shape{count}});
  };
  if (context.split()) kept_ = parallel::local_tokens(context, rows, length);
  const std::int64_t tokens = rows * length / context.size;
  tokens_ = declare("tokens", DType::kI32, tokens);
  labels_ = declare("labels", DType::kI32, tokens);
  mask_ = declare("loss_mask", DType::kF32, tokens);
  positions_ = declare("positions", DType::kI32, tokens);
  for (std::size_t b = 0; b < blocks_.size(); ++b)
    segments_.emplace_back(arena, blocks_.size() == 1 ? "segments" : fmt::format("segments {}", b),
                           packed ? rows * blocks_[b].q_count : rows, blocks_[b]);
  if (!context.split()) return;
  order_ = parallel::context_order(context, rows, length);
  if (order_.to_ranks.empty()) return;
  const auto count = static_cast<std::int64_t>(order_.to_ranks.size());
  to_attention_ = declare("to_attention", DType::kI32, count);
  to_ranks_ = declare("to_ranks", DType::kI32, count);
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
  view_.context = context_;
  if (segments_.size() > 1) view_.context_segments.resize(segments_.size());
  if (order_.to_ranks.empty()) return;
  view_.to_attention = arena_->view(to_attention_);
  view_.to_ranks = arena_->view(to_ranks_);
}

const nn::BatchView& DeviceBatch::dry() {
  bind();
  if (segments_.size() == 1) {
    view_.segments = segments_[0].dry();
  } else {
    for (std::size_t b = 0; b < segments_.size(); ++b) view_.context_segments[b] = segments_[b].dry();
  }
  return view_;
}

const nn::BatchView& DeviceBatch::stage(const data::Batch& batch, std::int64_t first,
                                        std::int64_t first_sample, Stream& stream) {
  require<InternalError>(batch.sequence_length == length_ && first + rows_ <= batch.rows,
                         "rows [{}, {}) of length {} are staged from a batch of {} rows of length {}", first,
                         first + rows_, length_, batch.rows, batch.sequence_length);
  bind();
  view_.first_sample = first_sample;
  const std::int64_t at = first * length_;
  const auto copy = [&](TensorView to, const auto* from, auto& kept) {
    if (context_.split()) {
      kept.clear();
      for (const std::int32_t token : kept_) kept.push_back(from[token]);
      from = kept.data();
    }
    arena_->device().copy_from_host(to.data, from, to.bytes(), stream);
    if (context_.split()) stream.synchronize();  // the host's copy is used again
  };
  copy(view_.tokens, batch.tokens.data() + at, host_ints_);
  copy(view_.labels, batch.labels.data() + at, host_ints_);
  copy(view_.loss_mask, batch.loss_mask.data() + at, host_floats_);
  copy(view_.positions, batch.position_ids.data() + at, host_ints_);
  stage_segments(batch, first, first_sample, stream);
  if (!order_.to_ranks.empty() && !ordered_) {
    const auto put = [&](TensorView to, const std::vector<std::int32_t>& from) {
      arena_->device().copy_from_host(to.data, from.data(), to.bytes(), stream);
    };
    put(view_.to_attention, order_.to_attention);
    put(view_.to_ranks, order_.to_ranks);
    ordered_ = true;
  }
  return view_;
}

void DeviceBatch::stage_segments(const data::Batch& batch, std::int64_t first, std::int64_t first_sample,
                                 Stream& stream) {
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    host_.fill(blocks_[b], rows_, first_sample, [&](std::int64_t row) {
      return std::span<const std::int32_t>(batch.boundaries(first + row));
    });
    const ops::AttentionSegments staged = segments_[b].stage(host_, stream);
    if (blocks_.size() == 1) {
      view_.segments = staged;
      return;
    }
    view_.context_segments[b] = staged;
    stream.synchronize();  // the host's copy is used again
  }
}

}  // namespace stoa::run

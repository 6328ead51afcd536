#include "run/device_batch.h"

#include <algorithm>
#include <numeric>

namespace stoa::run {

DeviceSegments::DeviceSegments(Arena& arena, const std::string& name, std::int64_t capacity,
                               std::int64_t longest_q, std::int64_t longest_k)
    : arena_(&arena), capacity_(capacity), longest_q_(longest_q), longest_k_(longest_k) {
  const auto declare = [&](const char* what, DType type, std::int64_t count) {
    return arena.declare(MemoryCategory::kBatch, {"batch." + name + "." + what, type, Shape{count}});
  };
  q_begin_ = declare("q_begin", DType::kI32, capacity + 1);
  k_begin_ = declare("k_begin", DType::kI32, capacity);
  k_count_ = declare("k_count", DType::kI32, capacity);
  sample_ = declare("sample", DType::kI64, capacity);
  position_ = declare("position", DType::kI32, capacity);
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
  s.count = count;
  s.longest_q = host.longest_q;
  s.longest_k = host.longest_k;
  return s;
}

DeviceBatch::DeviceBatch(Arena& arena, std::int64_t rows, std::int64_t length, bool packed,
                         const parallel::ContextPlace& context)
    : arena_(&arena), rows_(rows), length_(length), context_(context) {
  const std::int64_t all = rows * length;
  const auto declare = [&](const char* name, DType type, std::int64_t count) {
    return arena.declare(MemoryCategory::kBatch, {std::string("batch.") + name, type, Shape{count}});
  };
  if (context.split()) kept_ = parallel::local_tokens(context, rows, length);
  const std::int64_t tokens = all / context.size;
  tokens_ = declare("tokens", DType::kI32, tokens);
  labels_ = declare("labels", DType::kI32, tokens);
  mask_ = declare("loss_mask", DType::kF32, tokens);
  positions_ = declare("positions", DType::kI32, tokens);
  if (context.split() && context.kind != parallel::ContextKind::kAllToAll) {
    const std::int64_t chunk = context.chunk(length), capacity = packed ? rows * chunk : rows;
    segments_.emplace_back(arena, "early segments", capacity, chunk, length);
    segments_.emplace_back(arena, "late segments", capacity, chunk, length);
  } else {
    segments_.emplace_back(arena, "segments", packed ? all : rows, length, length);
  }
  if (!context.split()) return;
  order_ = parallel::context_order(context.size, rows, length);
  to_sequence_ = declare("to_sequence", DType::kI32, all);
  to_ranks_ = declare("to_ranks", DType::kI32, all);
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
  if (!context_.split()) return;
  view_.to_sequence = arena_->view(to_sequence_);
  view_.to_ranks = arena_->view(to_ranks_);
}

const nn::BatchView& DeviceBatch::dry() {
  bind();
  if (segments_.size() == 1) {
    view_.segments = segments_[0].dry();
  } else {
    for (std::size_t part = 0; part < 2; ++part) view_.context_segments[part] = segments_[part].dry();
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
  if (context_.split() && !ordered_) {
    const auto put = [&](TensorView to, const std::vector<std::int32_t>& from) {
      arena_->device().copy_from_host(to.data, from.data(), to.bytes(), stream);
    };
    put(view_.to_sequence, order_.to_sequence);
    put(view_.to_ranks, order_.to_ranks);
    ordered_ = true;
  }
  return view_;
}

void DeviceBatch::stage_segments(const data::Batch& batch, std::int64_t first, std::int64_t first_sample,
                                 Stream& stream) {
  if (segments_.size() == 2) {
    const auto parts = parallel::context_segments(
        context_, rows_, length_, first_sample,
        [&](std::int64_t row) { return std::span<const std::int32_t>(batch.boundaries(first + row)); });
    for (std::size_t part = 0; part < 2; ++part)
      view_.context_segments[part] = segments_[part].stage(parts[part], stream);
    stream.synchronize();
    return;
  }
  host_.q_begin.clear();
  host_.k_begin.clear();
  host_.k_count.clear();
  host_.position.clear();
  host_.sample.clear();
  host_.longest_q = host_.longest_k = 0;
  for (std::int64_t r = 0; r < rows_; ++r) {
    const auto boundaries = batch.boundaries(first + r);
    for (std::size_t i = 0; i + 1 < boundaries.size(); ++i) {
      const std::int32_t begin = boundaries[i], count = boundaries[i + 1] - boundaries[i];
      host_.q_begin.push_back(static_cast<std::int32_t>(r * length_) + begin);
      host_.k_begin.push_back(host_.q_begin.back());
      host_.k_count.push_back(count);
      host_.sample.push_back(first_sample + r);
      host_.position.push_back(begin);
      host_.longest_q = host_.longest_k = std::max<std::int64_t>(host_.longest_k, count);
    }
  }
  host_.q_begin.push_back(static_cast<std::int32_t>(rows_ * length_));
  view_.segments = segments_[0].stage(host_, stream);
}

}  // namespace stoa::run

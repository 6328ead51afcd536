#include "infer/device_segments.h"

#include <algorithm>

namespace stoa::infer {

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

void add_segment(parallel::ContextSegments& to, std::int64_t queries, std::int64_t k_begin, std::int64_t keys,
                 std::int64_t sample, std::int64_t position) {
  if (to.q_begin.empty()) to.q_begin.push_back(0);
  to.q_begin.push_back(to.q_begin.back() + static_cast<std::int32_t>(queries));
  to.k_begin.push_back(static_cast<std::int32_t>(k_begin));
  to.k_count.push_back(static_cast<std::int32_t>(keys));
  to.sample.push_back(sample);
  to.position.push_back(static_cast<std::int32_t>(position));
  to.longest_q = std::max(to.longest_q, queries);
  to.longest_k = std::max(to.longest_k, keys);
}

}  // namespace stoa::infer

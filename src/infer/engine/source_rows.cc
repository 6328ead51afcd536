#include "infer/engine/source_rows.h"

#include <algorithm>

#include "infer/host_window.h"

namespace stoa::infer {

SourceRows::SourceRows(Arena& arena, const PassLimits& limits) : block_tokens_(limits.block_tokens) {
  const auto declare = [&](const char* name, std::int64_t count) {
    return arena.declare(MemoryCategory::kBatch,
                         {std::string("engine.source ") + name, DType::kI32, {count}});
  };
  q_begin_ = declare("q_begin", limits.sequences + 1);
  k_begin_ = declare("k_begin", limits.sequences);
  k_count_ = declare("k_count", limits.sequences);
  cross_blocks_ = declare("blocks", limits.sequences * limits.blocks_of(limits.source_tokens));
  cross_count_ = declare("lengths", limits.sequences);
  slots_ = declare("slots", limits.most_tokens());
}

void SourceRows::append(std::span<const PassSegment> segments, std::vector<std::int32_t>& tokens,
                        std::vector<std::int32_t>& positions) {
  for (const PassSegment& segment : segments) {
    tokens.insert(tokens.end(), segment.source.begin(), segment.source.end());
    for (std::int32_t i = 0; i < std::ssize(segment.source); ++i) positions.push_back(i);
  }
}

void SourceRows::split(Machine& machine, Arena& arena, std::span<const PassSegment> segments,
                       nn::BatchView& whole, Parts& parts, TensorView& slots) const {
  std::vector<std::int32_t> q_begin{0}, k_begin, k_count, places, blocks, cross_count;
  ops::AttentionSegments own, cross;
  std::size_t columns = 0;  // of the table of blocks
  for (const PassSegment& segment : segments) columns = std::max(columns, segment.source_blocks.size());
  for (const PassSegment& segment : segments) {
    const auto count = std::ssize(segment.source);
    if (count > 0) {
      k_begin.push_back(q_begin.back());
      k_count.push_back(static_cast<std::int32_t>(count));
      q_begin.push_back(static_cast<std::int32_t>(q_begin.back() + count));
      own.longest_q = own.longest_k = std::max(own.longest_q, count);
    }
    for (std::int64_t i = 0; i < count; ++i)
      places.push_back(static_cast<std::int32_t>(
          segment.source_blocks[static_cast<std::size_t>(i / block_tokens_)] * block_tokens_ +
          i % block_tokens_));
    blocks.insert(blocks.end(), segment.source_blocks.begin(), segment.source_blocks.end());
    cross_count.push_back(static_cast<std::int32_t>(segment.source_length));
    blocks.resize(cross_count.size() * columns);
    cross.longest_k = std::max(cross.longest_k, segment.source_length);
  }
  const std::int64_t read = q_begin.back(), written = whole.tokens.rows() - read;
  const auto part = [&](nn::BatchView& view, std::int64_t begin, std::int64_t rows) {
    view.rows = 1;
    view.length = rows;
    if (rows > 0) {
      view.tokens = whole.tokens.slice(begin, rows);
      view.positions = whole.positions.slice(begin, rows);
    }
    view.source = &parts.source;
  };
  part(parts.source, 0, read);
  part(parts.target, read, written);
  whole.source = &parts.source;
  whole.target = &parts.target;
  own.count = std::ssize(k_begin);
  if (own.count > 0) {
    own.q_begin = stage(machine, arena.view(q_begin_), q_begin);
    own.k_begin = stage(machine, arena.view(k_begin_), k_begin);
    own.k_count = stage(machine, arena.view(k_count_), k_count);
    parts.source.segments = own;
    slots = stage(machine, arena.view(slots_), places);
  }
  parts.target.segments = whole.segments;
  cross.count = std::ssize(segments);
  cross.longest_q = whole.segments.longest_q;
  cross.q_begin = whole.segments.q_begin;
  cross.k_begin = stage(machine, arena.view(cross_blocks_), blocks)
                      .reshape({cross.count, static_cast<std::int64_t>(columns)});
  cross.k_count = stage(machine, arena.view(cross_count_), cross_count);
  parts.target.cross_segments = cross;
  machine.stream->synchronize();  // the host's copies end here
}

}  // namespace stoa::infer

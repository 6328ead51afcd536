// The softmax of a span of keys (kKeySpan) for the rows of a task, and how those of a sequence become its
// output: Milakov and Gimelshein 2018, "Online normalizer calculation for softmax".
#pragma once

#include <cstring>

#include "ops/cpu/attention_paged.h"

namespace stoa::ops::cpu::STOA_ISA {

// Joins the sums of rows with those of the span that follows, given the largest scores before it and in it.
// The caller keeps the sums of a row that sees nothing of the span (`here` is -infinity).
struct SpanJoin {
  F top, kept, added;
  [[gnu::always_inline]] SpanJoin(F before, F here) : top(higher(here, before)) {
    const I nothing_yet = before == splat(-kInfinity);
    kept = select(nothing_yet, F{}, exp(before - top));
    added = select(nothing_yet, splat(1.0f), exp(here - top));
  }
  [[gnu::always_inline]] F operator()(F old, F more) const { return fma(old, kept, more * added); }
};

// For each row the largest score, lanes of the sum of exp(score - top), and the sum of those times values. A
// row that saw no key has top -infinity.
struct PagedSoftmax {
  std::int64_t rows, width;  // width: of a row of outputs
  float *output, *sum, *top;

  // `room`: rows for which there is memory; tiles write more outputs than there are rows.
  PagedSoftmax(float* memory, std::int64_t rows_, std::int64_t d, std::int64_t room)
      : rows(rows_),
        width(padded(d)),
        output(memory),
        sum(memory + room * width),
        top(memory + room * (width + kLanes)) {}

  static std::int64_t floats(std::int64_t rows, std::int64_t d) {
    return round_up(rows * (padded(d) + kLanes + 1), kLanes);
  }

  void clear() const {
    std::memset(output, 0, static_cast<std::size_t>(top - output) * sizeof(float));
    for (std::int64_t r = 0; r < rows; ++r) top[r] = -kInfinity;
  }
  void copy_to(const PagedSoftmax& to) const {
    const auto copy = [](float* into, const float* from, std::int64_t count) {
      std::memcpy(into, from, static_cast<std::size_t>(count) * sizeof(float));
    };
    copy(to.output, output, rows * width);
    copy(to.sum, sum, rows * kLanes);
    copy(to.top, top, rows);
  }

  // Adds the span that follows.
  void add(const PagedSoftmax& span) const {
    for (std::int64_t r = 0; r < rows; ++r) {
      if (span.top[r] == -kInfinity) continue;
      const SpanJoin join(splat(top[r]), splat(span.top[r]));
      const auto add_to = [&](float* to, const float* from) __attribute__((always_inline)) {
        store(to, join(load(to), load(from)));
      };
      for (std::int64_t i = r * width; i < (r + 1) * width; i += kLanes) add_to(output + i, span.output + i);
      add_to(sum + r * kLanes, span.sum + r * kLanes);
      top[r] = join.top[0];
    }
  }
};

// A row of a task is a query and a head.
struct PagedRows {
  const AttentionArgs& args;
  const AttentionSegment& segment;
  const PagedHeads& heads;

  std::int64_t per_query() const { return heads.end_head - heads.first_head; }
  std::int64_t count() const { return per_query() * (heads.end - heads.begin); }
  std::int64_t query(std::int64_t row) const { return heads.begin + row / per_query(); }
  std::int64_t head(std::int64_t row) const { return heads.first_head + row % per_query(); }

  // The place of a row among queries or in the output.
  char* place(const Rows& x, std::int64_t row) const {
    const std::int64_t size = args.q.type == Element::kF32 ? 4 : 2;
    return static_cast<char*>(x.data) + ((segment.q_row + query(row)) * x.stride + head(row) * args.d) * size;
  }
  PagedSoftmax state(std::int64_t span) const {
    return {heads.states + span * paged_state_floats(count(), args.d), count(), args.d, count()};
  }

  void write(const PagedSoftmax& total) const {
    for (std::int64_t r = 0; r < total.rows; ++r) {
      const float norm = reduce_add(load(total.sum + r * kLanes));
      const float inverse = norm > 0 || norm != norm ? 1.0f / norm : 0.0f;
      for_vectors(args.d, [&](std::int64_t i, auto part) {
        put_any(args.o.type, place(args.o, r), i, load(total.output + r * total.width + i) * inverse, part);
      });
      if (args.lse)
        args.lse[(segment.q_row + query(r)) * args.heads + head(r)] =
            norm > 0 ? total.top[r] + __builtin_logf(norm) : -kInfinity;
    }
  }
};

// The keys of a task's spans that some of its queries see, from the beginning of a block.
struct SpansOfTask {
  std::int64_t first_key, end_key;
  SpansOfTask(const Visible& see, const PagedHeads& heads) {
    first_key = see.first(heads.begin) / kBlock * kBlock;
    end_key = see.last(heads.end - 1);
    if (first_key < heads.first_span * kKeySpan) first_key = heads.first_span * kKeySpan;
    if (end_key > heads.end_span * kKeySpan) end_key = heads.end_span * kKeySpan;
  }
};

}  // namespace stoa::ops::cpu::STOA_ISA

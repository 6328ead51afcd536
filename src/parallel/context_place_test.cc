#include "parallel/context_place.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"

namespace stoa::parallel {
namespace {

TEST(ContextPlace, EarlyAndLateChunks) {
  EXPECT_EQ(local_tokens({0, 2}, 1, 8), (std::vector<std::int32_t>{0, 1, 6, 7}));
  EXPECT_EQ(local_tokens({1, 2}, 2, 8), (std::vector<std::int32_t>{2, 3, 10, 11, 4, 5, 12, 13}));
  EXPECT_EQ(local_tokens({0, 1}, 2, 3), (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5}));
}

TEST(ContextPlace, OrdersAreInverse) {
  const ContextOrder order = context_order(3, 2, 12);
  ASSERT_EQ(order.to_sequence.size(), 24u);
  for (std::size_t i = 0; i < 24; ++i)
    EXPECT_EQ(order.to_ranks[static_cast<std::size_t>(order.to_sequence[i])], static_cast<std::int32_t>(i));
}

// Every query of a rank sees the keys of its document up to itself.
TEST(ContextPlace, SegmentsEndWithTheirLastQuery) {
  const std::vector<std::int32_t> documents[] = {{0, 3, 4, 12}, {0, 12}};
  for (int rank = 0; rank < 3; ++rank) {
    const ContextPlace place{rank, 3};
    const auto parts = context_segments(
        place, 2, 12, 7, [&](std::int64_t row) { return std::span<const std::int32_t>(documents[row]); });
    const auto tokens = local_tokens(place, 2, 12);
    for (int part = 0; part < 2; ++part) {
      const ContextSegments& s = parts[static_cast<std::size_t>(part)];
      ASSERT_EQ(s.q_begin.front(), 0);
      ASSERT_EQ(s.q_begin.back(), 4);
      for (std::size_t i = 0; i + 1 < s.q_begin.size(); ++i) {
        const auto last = static_cast<std::size_t>(part * 4 + s.q_begin[i + 1] - 1);
        EXPECT_EQ(tokens[last], s.k_begin[i] + s.k_count[i] - 1);
        const auto row = s.sample[i] - 7;
        EXPECT_EQ(s.k_begin[i], row * 12 + s.position[i]);
        const auto& starts = documents[row];
        EXPECT_NE(std::find(starts.begin(), starts.end(), s.position[i]), starts.end());
        EXPECT_LE(s.k_count[i], s.longest_k);
        EXPECT_LE(s.q_begin[i + 1] - s.q_begin[i], s.longest_q);
      }
    }
  }
}

TEST(ContextPlace, WhatCannotBeCutIsRefused) {
  EXPECT_NO_THROW(check_context({0, 2, ContextKind::kAllToAll}, 16, 4, 2));
  EXPECT_THROW(check_context({0, 2, ContextKind::kAllGather}, 18, 4, 2), ConfigError);
  EXPECT_THROW(check_context({0, 2, ContextKind::kAllToAll}, 16, 4, 1), ConfigError);
  EXPECT_THROW(check_context({0, 2, ContextKind::kAllToAll}, 16, 3, 2), ConfigError);
  EXPECT_NO_THROW(check_context({0, 2, ContextKind::kAllGather}, 16, 3, 1));
}

}  // namespace
}  // namespace stoa::parallel

#include "parallel/context_place.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"

namespace stoa::parallel {
namespace {

TEST(ContextPlace, EarlyAndLateChunks) {
  EXPECT_EQ(local_tokens({0, 2}, 1, 8), (std::vector<std::int32_t>{0, 1, 6, 7}));
  EXPECT_EQ(local_tokens({1, 2}, 2, 8), (std::vector<std::int32_t>{2, 3, 10, 11, 4, 5, 12, 13}));
  EXPECT_EQ(local_tokens({0, 1}, 2, 3), (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5}));
}

TEST(ContextPlace, OrdersAreInverse) {
  const ContextOrder order = context_order({1, 3}, 2, 12);
  ASSERT_EQ(order.to_attention.size(), 24u);
  for (std::size_t i = 0; i < 24; ++i)
    EXPECT_EQ(order.to_ranks[static_cast<std::size_t>(order.to_attention[i])], static_cast<std::int32_t>(i));
}

// Neighbours hold together what a rank of a group of half the size holds.
TEST(ContextPlace, NeighboursAreARankOfASmallerGroup) {
  const ContextPlace place{2, 4, ContextKind::kHierarchical, 2};
  EXPECT_EQ(place.outer().rank, 1);
  EXPECT_EQ(place.outer().size, 2);
  std::vector<std::int32_t> received;
  for (const int rank : {2, 3})
    for (const std::int32_t token : local_tokens({rank, 4}, 2, 16)) received.push_back(token);
  const ContextOrder order = context_order(place, 2, 16);
  std::vector<std::int32_t> wanted;
  for (const std::int32_t i : order.to_attention) wanted.push_back(received[static_cast<std::size_t>(i)]);
  EXPECT_EQ(wanted, local_tokens({1, 2}, 2, 16));
}

// Every query of a rank meets every key of its document up to itself once, and no other key.
TEST(ContextPlace, BlocksAreAllVisiblePairs) {
  const std::vector<std::int32_t> documents[] = {{0, 3, 4, 24}, {0, 24}};
  for (const ContextKind kind : {ContextKind::kAllGather, ContextKind::kRing})
    for (int size : {1, 2, 3})
      for (int rank = 0; rank < size; ++rank) {
        const ContextPlace place{rank, size, kind};
        const auto blocks = context_blocks(place, 24);
        if (kind == ContextKind::kRing) {
          EXPECT_EQ(blocks.size(), size == 1 ? 1u : 2u * size + 1u);
        }
        std::vector<int> met(2 * 24 * 24, 0);
        for (const ContextBlock& block : blocks) {
          EXPECT_TRUE(block.step == 0 || block.keys_before());
          ContextSegments s;
          s.fill(block, 2, 7,
                 [&](std::int64_t row) { return std::span<const std::int32_t>(documents[row]); });
          ASSERT_EQ(s.q_begin.front(), 0);
          ASSERT_EQ(s.q_begin.back(), 2 * block.q_count);
          std::int64_t used = 0;
          for (std::size_t i = 0; i < s.k_count.size(); ++i) {
            const std::int64_t row = s.sample[i] - 7, queries = s.q_begin[i + 1] - s.q_begin[i];
            EXPECT_GE(s.k_begin[i], used) << "keys of segments lie one after the other";
            used = s.k_begin[i] + s.k_count[i];
            EXPECT_LE(queries, s.longest_q);
            EXPECT_LE(s.k_count[i], s.longest_k);
            if (s.k_count[i] > 0) {
              EXPECT_EQ(s.k_begin[i], row * block.k_count + s.position[i] - block.k_begin);
            }
            for (std::int64_t q = 0; q < queries; ++q) {
              const std::int64_t at = s.k_count[i] + s.behind[i] - queries + q;
              EXPECT_EQ(s.position[i] + at, block.q_begin + s.q_begin[i] - row * block.q_count + q);
              for (std::int64_t k = 0; k < std::min<std::int64_t>(s.k_count[i], at + 1); ++k)
                ++met[static_cast<std::size_t>((row * 24 + s.position[i] + at) * 24 + s.position[i] + k)];
            }
          }
        }
        for (std::int64_t row = 0; row < 2; ++row)
          for (int part = 0; part < (size == 1 ? 1 : 2); ++part)
            for (std::int64_t q = 0; q < (size == 1 ? 24 : place.chunk(24)); ++q) {
              const std::int64_t query = size == 1 ? q : place.begin(part, 24) + q;
              const auto& starts = documents[row];
              const std::int64_t first = *(std::upper_bound(starts.begin(), starts.end(), query) - 1);
              for (std::int64_t k = 0; k < 24; ++k)
                EXPECT_EQ(met[static_cast<std::size_t>((row * 24 + query) * 24 + k)],
                          k >= first && k <= query)
                    << "rank " << rank << " of " << size << ", row " << row << ", query " << query << ", key "
                    << k;
            }
      }
}

TEST(ContextPlace, WhatCannotBeCutIsRefused) {
  using enum ContextKind;
  EXPECT_NO_THROW(check_context({0, 2, kAllToAll}, 16, 4, 2));
  EXPECT_THROW(check_context({0, 2, kAllGather}, 18, 4, 2), ConfigError);
  EXPECT_THROW(check_context({0, 2, kAllToAll}, 16, 4, 1), ConfigError);
  EXPECT_THROW(check_context({0, 2, kAllToAll}, 16, 3, 2), ConfigError);
  EXPECT_NO_THROW(check_context({0, 2, kAllGather}, 16, 3, 1));
  EXPECT_NO_THROW(check_context({0, 2, kRing}, 16, 3, 1));
  EXPECT_NO_THROW(check_context({0, 4, kHierarchical, 2}, 16, 4, 2));
  EXPECT_THROW(check_context({0, 4, kHierarchical, 3}, 16, 3, 3), ConfigError);
  EXPECT_THROW(check_context({0, 4, kHierarchical, 2}, 16, 4, 1), ConfigError);
}

}  // namespace
}  // namespace stoa::parallel

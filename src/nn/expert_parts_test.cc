// Parts of experts' rows: together all rows, once and in order, cut only where sums can be continued, and
// every member of a group sees the same exchange.
#include "nn/expert_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace stoa::nn {
namespace {

constexpr std::int64_t kMembers = 3, kEach = 2;

std::vector<std::int32_t> random_loads(std::uint32_t seed, std::int32_t most) {
  std::vector<std::int32_t> loads(kMembers * kMembers * kEach);
  for (auto& load : loads) {
    seed = seed * 1664525 + 1013904223;
    const auto roll = static_cast<std::int32_t>(seed >> 8);
    load = roll % 4 == 0 ? 0 : roll % most;
  }
  return loads;
}

std::int32_t load(const std::vector<std::int32_t>& loads, std::int64_t from, std::int64_t to,
                  std::int64_t expert) {
  return loads[static_cast<std::size_t>((from * kMembers + to) * kEach + expert)];
}

std::vector<std::vector<ExpertPart>> of_all(const std::vector<std::int32_t>& loads, PartRows most) {
  std::vector<std::vector<ExpertPart>> out;
  for (std::int64_t self = 0; self < kMembers; ++self)
    out.push_back(expert_parts({kMembers, 1, self}, loads, most));
  return out;
}

TEST(ExpertParts, OnePartWhereAllRowsFit) {
  const std::vector<std::int32_t> loads(kMembers * kMembers * kEach, 10);
  const auto parts = expert_parts({kMembers, 1, 1}, loads, {60, 64});
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].sends, (std::vector<std::int64_t>{20, 0, 20}));
  EXPECT_EQ(parts[0].comes, (std::vector<std::int64_t>{20, 0, 20}));
  EXPECT_EQ(parts[0].own, 20);
  EXPECT_EQ(parts[0].came(), 60);
  EXPECT_EQ(parts[0].cut.head + parts[0].cut.tail, 0);
}

TEST(ExpertParts, HoldAllRowsAndFit) {
  for (std::uint32_t seed = 1; seed < 200; ++seed) {
    const auto loads = random_loads(seed, seed % 3 == 0 ? 40 : 400);
    const PartRows most{64 + seed % 500, 64 + 32 * (seed % 5)};
    const auto all = of_all(loads, most);
    for (std::size_t self = 0; self < kMembers; ++self) {
      SCOPED_TRACE(::testing::Message() << "seed " << seed << ", member " << self);
      const auto& parts = all[self];
      ASSERT_EQ(parts.size(), all[0].size());
      std::vector<std::int64_t> counts(kMembers * kEach);
      for (std::size_t p = 0; p < parts.size(); ++p) {
        const ExpertPart& part = parts[p];
        EXPECT_LE(part.came(), p == 0 ? most.first : most.later);
        for (std::size_t m = 0; m < kMembers; ++m) {
          EXPECT_EQ(part.sends[m], m == self ? 0 : all[m][p].comes[self]);
          std::int64_t comes = 0;
          for (std::size_t e = 0; e < kEach; ++e) {
            counts[m * kEach + e] += part.counts[m * kEach + e];
            comes += part.counts[m * kEach + e];
          }
          EXPECT_EQ(comes, m == self ? part.own : part.comes[m]);
        }
      }
      for (std::size_t m = 0; m < kMembers; ++m)
        for (std::size_t e = 0; e < kEach; ++e)
          EXPECT_EQ(counts[m * kEach + e],
                    load(loads, static_cast<std::int64_t>(m), static_cast<std::int64_t>(self),
                         static_cast<std::int64_t>(e)));
    }
  }
}

// Rows are numbered in the order of the sorted list: those of a part are the next ones of every expert.
TEST(ExpertParts, CutExpertsWhereSumsCanBeContinued) {
  constexpr std::int64_t kTogether = ops::kRowsTogether;
  for (std::uint32_t seed = 1; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const auto loads = random_loads(seed, 300);
    const auto parts = expert_parts({kMembers, 1, 0}, loads, {100 + seed, 96});
    for (std::int64_t e = 0; e < kEach; ++e) {
      std::int64_t whole = 0, before = 0;
      for (std::int64_t m = 0; m < kMembers; ++m) whole += load(loads, m, 0, e);
      for (const ExpertPart& part : parts) {
        std::int64_t rows = 0;
        for (std::int64_t m = 0; m < kMembers; ++m)
          rows += part.counts[static_cast<std::size_t>(m * kEach + e)];
        if (rows == 0) continue;
        const bool ends = before + rows == whole;
        if (rows < whole) {
          EXPECT_GE(rows, kTogether);
          EXPECT_TRUE(ends || rows % kTogether == 0) << rows;
        }
        EXPECT_EQ(part.cut.head_expert == e, before > 0);
        if (before > 0) {
          EXPECT_EQ(part.cut.head, rows);
          EXPECT_EQ(part.cut.head_ends, ends);
        } else {
          EXPECT_EQ(part.cut.tail_expert == e, !ends);
          if (!ends) {
            EXPECT_EQ(part.cut.tail, rows);
          }
        }
        before += rows;
      }
    }
  }
}

TEST(ExpertParts, OrderKeepsTheRowsOfEveryMember) {
  const auto loads = random_loads(5, 200);
  const auto parts = expert_parts({kMembers, 1, 1}, loads, {80, 64});
  ASSERT_GT(parts.size(), 2u);
  std::int64_t sent = 0;
  for (const ExpertPart& part : parts) {
    EXPECT_EQ(part.begin, sent);
    sent += part.own + part.sent;
  }
  const auto order = order_of_parts(parts, 1, sent + 7);
  std::vector<std::int32_t> sorted = order, expected(order.size());
  std::sort(sorted.begin(), sorted.end());
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(sorted, expected);
  // The first rows are this member's own, from the first on; the last ones are unused.
  std::int32_t next = 0;
  for (const ExpertPart& part : parts)
    for (std::int64_t i = 0; i < part.own; ++i)
      EXPECT_EQ(order[static_cast<std::size_t>(part.begin + i)], next++);
  for (std::int64_t i = 0; i < 7; ++i) EXPECT_EQ(order[static_cast<std::size_t>(sent + i)], sent + i);
}

}  // namespace
}  // namespace stoa::nn

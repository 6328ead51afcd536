#include "parallel/tensor_place.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"

namespace stoa::parallel {
namespace {

TEST(TensorPlace, PartsAreConsecutiveAndEven) {
  for (const std::int64_t total : {0, 1, 7, 12, 19}) {
    for (const int parts : {1, 2, 3, 5, 8}) {
      std::int64_t at = 0;
      for (int i = 0; i < parts; ++i) {
        const Part part = part_of(total, parts, i);
        EXPECT_EQ(part.begin, at);
        EXPECT_GE(part.count, total / parts);
        EXPECT_LE(part.count, (total + parts - 1) / parts);
        at = part.end();
      }
      EXPECT_EQ(at, total);
    }
  }
}

// Every head belongs to one rank, beside the group that it reads; a rank's heads are shared evenly among its
// groups; copies are counted once.
TEST(TensorPlace, HeadsLieBesideTheirGroups) {
  for (const auto& [heads, groups] :
       std::vector<std::pair<int, int>>{{8, 8}, {8, 2}, {8, 1}, {6, 3}, {5, 5}, {12, 4}, {7, 1}, {6, 2}}) {
    for (int size = 1; size <= heads; ++size) {
      std::vector<int> owners(static_cast<std::size_t>(heads), 0),
          counted(static_cast<std::size_t>(groups), 0), copies(static_cast<std::size_t>(groups), 0);
      std::vector<HeadPart> parts;
      for (int rank = 0; rank < size; ++rank) {
        const HeadPart part = head_part(heads, groups, {rank, size, false});
        parts.push_back(part);
        ASSERT_GT(part.heads.count, 0) << heads << " heads, " << size << " ranks";
        EXPECT_EQ(part.heads.count % part.groups.count, 0);
        const std::int64_t share = part.heads.count / part.groups.count;
        for (std::int64_t h = 0; h < part.heads.count; ++h) {
          const std::int64_t head = part.heads.begin + h;
          ++owners[static_cast<std::size_t>(head)];
          EXPECT_EQ(part.groups.begin + h / share, head / (heads / groups));
        }
        for (std::int64_t g = part.groups.begin; g < part.groups.end(); ++g) {
          counted[static_cast<std::size_t>(g)] += part.first_copy;
          ++copies[static_cast<std::size_t>(g)];
        }
      }
      EXPECT_EQ(owners, std::vector<int>(static_cast<std::size_t>(heads), 1));
      EXPECT_EQ(counted, std::vector<int>(static_cast<std::size_t>(groups), 1));
      for (const HeadPart& part : parts) EXPECT_EQ(part.shared, size > groups);
      if (size <= groups) {
        EXPECT_EQ(copies, std::vector<int>(static_cast<std::size_t>(groups), 1));
      }
    }
  }
}

TEST(TensorPlace, WhatCannotBeSplitIsRefused) {
  const TensorSplit split{4, 16, 100, 24};
  EXPECT_NO_THROW(check_split({3, 4, true}, split));
  EXPECT_THROW(check_split({0, 5, false}, split), ConfigError);           // heads
  EXPECT_THROW(check_split({0, 5, false}, {8, 4, 100, 0}), ConfigError);  // columns
  EXPECT_THROW(check_split({0, 5, false}, {8, 8, 4, 0}), ConfigError);    // ids
  EXPECT_THROW(check_split({0, 5, true}, {8, 8, 100, 24}), ConfigError);  // tokens
  EXPECT_NO_THROW(check_split({0, 5, false}, {8, 8, 100, 24}));
}

TEST(TensorPlace, SequenceParallelismSplitsRows) {
  EXPECT_EQ((TensorPlace{2, 3, true}.stream_rows(12)), 4);
  EXPECT_EQ((TensorPlace{2, 3, true}.first_row(12)), 8);
  EXPECT_EQ((TensorPlace{2, 3, false}.stream_rows(12)), 12);
  EXPECT_EQ((TensorPlace{2, 3, false}.first_row(12)), 0);
  EXPECT_EQ((TensorPlace{0, 1, true}.first_row(12)), 0);
}

}  // namespace
}  // namespace stoa::parallel

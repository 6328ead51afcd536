#include "data/virtual_sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/pair_row.h"

namespace stoa::data {
namespace {

using ::testing::ElementsAre;

// Two samples; the source of the second fills its part of the row.
class FixedPairs final : public Dataset {
 public:
  std::int64_t size() const override { return 2; }
  std::int64_t sequence_length() const override { return 4 + 3; }
  void read(std::int64_t k, BatchRow row) const override {
    const std::vector<std::int32_t> source = k == 0 ? std::vector{7, 8} : std::vector{4, 5, 6, 7};
    write_pair(source, std::vector{9, 1}, 4, 0, row);
  }
  std::vector<Piece> pieces(std::int64_t k) const override { return {{"text", k, 0, 2}}; }
};

TEST(VirtualSources, StandBeforeTheTextAndMoveIt) {
  const VirtualSources data(std::make_shared<FixedPairs>(), 4, {.count = 2, .first_id = 20});
  Batch batch;
  fill_batch(data, std::vector<std::int64_t>{0, 1}, batch);
  EXPECT_EQ(batch.sequence_length, 9);
  EXPECT_EQ(batch.valid_tokens, 4);
  const BatchRow row = batch.row(0), full = batch.row(1);
  EXPECT_THAT(row.tokens, ElementsAre(20, 21, 7, 8, 0, 0, 0, 9, 0));
  EXPECT_THAT(row.labels, ElementsAre(0, 0, 0, 0, 0, 0, 9, 1, 0));
  EXPECT_THAT(row.loss_mask, ElementsAre(0, 0, 0, 0, 0, 0, 1, 1, 0));
  EXPECT_THAT(row.position_ids, ElementsAre(0, 1, 2, 3, 4, 5, 0, 1, 2));
  EXPECT_THAT(batch.boundaries(0), ElementsAre(0, 4, 6, 9));
  EXPECT_THAT(full.tokens, ElementsAre(20, 21, 4, 5, 6, 7, 0, 9, 0));
  EXPECT_THAT(batch.boundaries(1), ElementsAre(0, 6, 9));
  EXPECT_EQ(data.pieces(1).front().sequence, 1);
}

}  // namespace
}  // namespace stoa::data

#include "run/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace stoa::run {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Layout layout_of(int pipeline, const char* schedule, int chunks = 0) {
  Layout layout;
  layout.grid = grid::RankGrid({1, 1, 1, 1, pipeline});
  layout.schedule = schedule;
  layout.chunks = chunks;
  return layout;
}

std::vector<std::int64_t> layers_of(const std::vector<PlacedChunk>& chunks) {
  std::vector<std::int64_t> layers;
  for (const auto& chunk : chunks) layers.push_back(chunk.layers);
  return layers;
}

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Layout, EvenChunksGoRoundTheRanks) {
  const auto chunks = place_chunks(layout_of(2, "interleaved", 2), 8);
  EXPECT_EQ(layer_map(chunks),
            "pp 0: embedding, layers 0-1 (chunk 0); layers 4-5 (chunk 2)\n"
            "pp 1: layers 2-3 (chunk 1); layers 6-7, head (chunk 3)\n");
}

TEST(Layout, AVTurnsOnTheLastRank) {
  EXPECT_EQ(layer_map(place_chunks(layout_of(2, "zb-v"), 4)),
            "pp 0: embedding, layer 0 (chunk 0); layer 3, head (chunk 3)\n"
            "pp 1: layer 1 (chunk 1); layer 2 (chunk 2)\n");
}

TEST(Layout, EmbeddingAndHeadCountAsLayers) {
  Layout layout = layout_of(4, "1f1b");
  layout.embedding_as_layer = layout.head_as_layer = true;
  EXPECT_THAT(layers_of(place_chunks(layout, 30)), ElementsAre(7, 8, 8, 7));
  EXPECT_THAT(message_of([&] { place_chunks(layout, 32); }),
              AllOf(HasSubstr("32 layers + embedding + head"), HasSubstr("use 30 or 34 layers")));
  layout.head_as_layer = false;
  EXPECT_THAT(layers_of(place_chunks(layout, 31)), ElementsAre(7, 8, 8, 8));
}

TEST(Layout, LayersCanBeSaid) {
  Layout layout = layout_of(2, "1f1b");
  layout.layers = {3, 1};
  EXPECT_THAT(layers_of(place_chunks(layout, 4)), ElementsAre(3, 1));
  EXPECT_EQ(place_chunks(layout, 4)[1].first_layer, 3);
  EXPECT_THAT(message_of([&] { place_chunks(layout, 5); }), HasSubstr("3 + 1 add up to 4"));
  layout.layers = {4};
  EXPECT_THAT(message_of([&] { place_chunks(layout, 4); }), HasSubstr("expected 2, one per chunk"));
}

TEST(Layout, MessagesNameTheNearestChoice) {
  EXPECT_THAT(message_of([] { place_chunks(layout_of(4, "1f1b"), 6); }),
              AllOf(HasSubstr("6 layers"), HasSubstr("4 chunks (4 pipeline ranks x 1 chunks)"),
                    HasSubstr("use 4 or 8 layers")));
  EXPECT_THAT(message_of([] { step_schedule(layout_of(4, "interleaved", 2), 6); }),
              AllOf(HasSubstr("cannot run 6 microbatches"), HasSubstr("use 4 or 8 microbatches")));
  EXPECT_THAT(message_of([] { step_schedule(layout_of(4, "dualpipev"), 6); }),
              HasSubstr("use 8 microbatches"));
  EXPECT_THAT(message_of([] { place_chunks(layout_of(2, "zb-v", 3), 6); }),
              HasSubstr("needs 2 chunks per rank"));
  EXPECT_THAT(message_of([] { place_chunks(layout_of(2, "zb-w"), 6); }), HasSubstr("zb-"));
  EXPECT_THAT(message_of([] { step_schedule(layout_of(1, "1f1b"), 0); }), HasSubstr("0 microbatches"));
}

TEST(Layout, RanksHaveNames) {
  const grid::RankGrid grid({2, 1, 1, 1, 3});
  EXPECT_EQ(rank_name(grid, 5), "rank 5 (tp 1, pp 2)");
  EXPECT_EQ(rank_name(grid::RankGrid::single(), 0), "rank 0");
}

TEST(Layout, ExpertsAreSpreadApartFromTheRest) {
  Layout layout;
  layout.grid = grid::RankGrid({2, 1, 1, 6, 1}, {.tensor = 1, .expert = 4});
  EXPECT_EQ(layout.data_ranks(), 6);
  std::vector<int> data, experts;
  for (int rank = 0; rank < 12; ++rank) {
    data.push_back(layout.data_rank(rank));
    experts.push_back(layout.expert_place(rank).rank);
    EXPECT_EQ(layout.expert_place(rank).members(), 4);
  }
  EXPECT_THAT(data, ElementsAre(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5));
  EXPECT_THAT(experts, ElementsAre(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3));
  EXPECT_EQ(rank_name(layout.grid, 7), "rank 7 (tp 1, dp 3, ep 3)");

  layout.grid = grid::RankGrid({2, 1, 1, 6, 1}, {.tensor = 0, .expert = 3});
  const parallel::ExpertPlace place = layout.expert_place(9);
  EXPECT_EQ(place.tensor_rank, 1);
  EXPECT_EQ(place.rank, 1);
  EXPECT_EQ(place.member(), 3);
  EXPECT_THAT(message_of([] {
                grid::RankGrid({2, 1, 1, 6, 1}, {.tensor = 1, .expert = 5});
              }),
              HasSubstr("must divide the 12 ranks"));
}

}  // namespace
}  // namespace stoa::run

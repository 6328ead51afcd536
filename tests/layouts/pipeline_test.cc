// Whatever the schedule, the number of stages and of chunks: the same bits as on one rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "layout_run.h"

namespace stoa::layouts {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

struct Row {
  const char* name;
  int ranks;
  const char* schedule;
  int chunks;
};

constexpr Row kRows[] = {
    {"one rank, two chunks", 1, "interleaved", 2},
    {"gpipe", 2, "gpipe", 1},
    {"1f1b", 2, "1f1b", 1},
    {"1f1b of four stages", 4, "1f1b", 1},
    {"interleaved", 2, "interleaved", 2},
    {"interleaved of four chunks", 2, "interleaved", 4},
    {"interleaved of four stages", 4, "interleaved", 2},
    {"breadth first", 2, "bfs", 2},
    {"zb-h1", 2, "zb-h1", 1},
    {"zb-h1 of four stages", 4, "zb-h1", 1},
    {"zb-h2", 4, "zb-h2", 1},
    {"zb-v", 2, "zb-v", 2},
    {"zb-v of four stages", 4, "zb-v", 2},
    {"interleaved-zb", 2, "interleaved-zb", 2},
    {"interleaved-zb of four stages", 4, "interleaved-zb", 2},
    {"dualpipev", 2, "dualpipev", 2},
    {"dualpipev of four stages", 4, "dualpipev", 2},
    {"v-half", 2, "v-half", 2},
    {"v-min of three stages", 3, "v-min", 2},
};

void expect_rows_equal(TestRun run) {
  const RunResult one = run_layout(run, data_parallel(1));
  ASSERT_THAT(one.faults, IsEmpty());
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    run::Layout layout = pipeline(row.ranks, row.schedule, row.chunks);
    if (row.ranks * row.chunks == 6) layout.layers = {1, 2, 1, 2, 1, 1};
    EXPECT_THAT(differences(one, run_layout(run, layout), 0), IsEmpty());
  }
}

TestRun eight_layers() {
  TestRun run = tiny_run();
  run.config.num_layers = 8;
  return run;
}

TEST(Pipeline, EveryScheduleIsBitEqualTied) { expect_rows_equal(eight_layers()); }

TEST(Pipeline, EveryScheduleIsBitEqualUntiedWithRecomputation) {
  TestRun run = eight_layers();
  run.config.share_embeddings_and_output_weights = false;
  run.config.recompute = {model::RecomputeGranularity::kSelective, {}, {}};
  expect_rows_equal(run);
}

}  // namespace
}  // namespace stoa::layouts

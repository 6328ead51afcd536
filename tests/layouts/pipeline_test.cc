// Whatever the schedule, the number of stages and of chunks: the same bits as on one rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "layout_run.h"

namespace stoa::layouts {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct ScheduleRow {
  const char* name;
  int ranks;
  const char* schedule;
  int chunks;
};

constexpr ScheduleRow kRows[] = {
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
  for (const ScheduleRow& row : kRows) {
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

// Every action of the schedule, in its order, under the name of its rank.
TEST(Pipeline, TraceShowsTheSchedule) {
  TestRun run = tiny_run();
  run.steps = 1;
  run.trace = true;
  const run::Layout layout = pipeline(2);
  const RunResult result = run_layout(run, layout);
  const auto joined = nlohmann::json::parse(run::TraceRecorder::join(result.traces));
  const schedule::Schedule steps = run::step_schedule(layout, run.rows);
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<std::string> expected, seen;
    for (const auto& a : steps.ranks[rank]) {
      expected.emplace_back(name_of(a.kind));
      if (a.chunk >= 0) expected.back() += " chunk " + std::to_string(a.chunk);
      if (a.microbatch >= 0) expected.back() += " microbatch " + std::to_string(a.microbatch);
    }
    int waits = 0;
    std::string name;
    for (const auto& event : joined["traceEvents"]) {
      if (event["pid"] != rank) continue;
      const std::string text = event["name"];
      if (event["ph"] == "M") name = event["args"]["name"];
      waits += text.starts_with("wait for");
      if (std::find(expected.begin(), expected.end(), text) != expected.end()) seen.push_back(text);
    }
    EXPECT_EQ(seen, expected);
    EXPECT_EQ(name, rank == 0 ? "rank 0 (pp 0)" : "rank 1 (pp 1)");
    EXPECT_EQ(waits, run.rows) << "once per microbatch: for inputs, or for gradients";
  }
}

// The layer map says other layers than those that run: what a mistake by one chunk would look like.
TEST(Pipeline, UnevenStages) {
  TestRun run = tiny_run();
  run.steps = 5;
  const RunResult one = run_layout(run, data_parallel(1));
  for (const std::vector<std::int64_t>& layers : {std::vector<std::int64_t>{3, 1}, {0, 4}, {4, 0}}) {
    run::Layout layout = pipeline(2);
    layout.layers = layers;
    EXPECT_THAT(differences(one, run_layout(run, layout), 0), IsEmpty());
  }
  run::Layout counted = pipeline(3);
  counted.embedding_as_layer = counted.head_as_layer = true;  // 1, 2, 1 layers
  EXPECT_THAT(differences(one, run_layout(run, counted), 0), IsEmpty());
}

TEST(Pipeline, EvaluatesAnyNumberOfMicrobatches) {
  for (const std::int64_t rows : {1, 3, 7, 19}) {
    TestRun run = tiny_run();
    run.steps = 1;
    run.evaluation_rows = rows;
    const RunResult one = run_layout(run, data_parallel(1));
    for (const auto& layout :
         {pipeline(2), pipeline(2, "interleaved", 2), pipeline(4, "1f1b"), pipeline(2, "zb-v")})
      EXPECT_THAT(differences(one, run_layout(run, layout), 0), IsEmpty()) << rows;
  }
}

TEST(Pipeline, RefusesWhatItCannotRun) {
  const auto message = [](const run::Layout& layout, std::int64_t rows, std::int64_t samples = 0) {
    TestRun run = tiny_run();
    run.rows = rows;
    run.sample_context = samples;
    try {
      run_layout(run, layout);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(message(pipeline(3), 8), HasSubstr("use 3 or 6 layers"));
  EXPECT_THAT(message(pipeline(2, "interleaved", 2), 5), HasSubstr("use 4 or 6 microbatches"));
  EXPECT_THAT(message(pipeline(2, "dualpipev"), 3), HasSubstr("use 4 microbatches"));
  EXPECT_THAT(message(pipeline(2), 8, 16), HasSubstr("sample_prompts"));
}

}  // namespace
}  // namespace stoa::layouts

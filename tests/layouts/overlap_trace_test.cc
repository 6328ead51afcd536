// The trace of a step shows that communication is posted before, and waited for after, the computation that
// hides it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "layout_run.h"

namespace stoa::layouts {
namespace {

// Matrix products between a transfer's post and its wait, and from the post to the end of the step.
struct Hidden {
  int between, after;
};

// Of every transfer of `what` in the trace of the first rank.
std::vector<Hidden> transfers(const char* what, int zero_stage, bool overlap, std::int64_t bucket_bytes) {
  TestRun run = tiny_run();
  run.rows = 4;
  run.steps = 1;
  run.trace = true;
  run::Layout layout = data_parallel(2);
  layout.zero_stage = zero_stage;
  layout.overlap_grad_reduce = overlap;
  layout.bucket_bytes = bucket_bytes;
  const RunResult result = run_layout(run, layout);
  EXPECT_THAT(result.faults, ::testing::IsEmpty());
  std::vector<Hidden> out;
  std::map<std::string, int> posted;  // bucket -> products before
  int products = 0;
  const auto document = nlohmann::json::parse(result.traces[0]);
  const std::string post = std::string("post ") + what + " of ",
                    wait = std::string("wait for ") + what + " of ";
  for (const auto& event : document["traceEvents"]) {  // in the order in which they begin
    const std::string name = event["name"];
    products += name.starts_with("linear");
    if (name.starts_with(post)) posted[name.substr(post.size())] = products;
    if (!name.starts_with(wait)) continue;
    if (const auto from = posted.find(name.substr(wait.size())); from != posted.end())
      out.push_back({products - from->second, from->second});
  }
  for (Hidden& transfer : out) transfer.after = products - transfer.after;
  return out;
}

int hidden(const std::vector<Hidden>& all) {
  return static_cast<int>(
      std::count_if(all.begin(), all.end(), [](const Hidden& t) { return t.between > 0; }));
}

TEST(OverlapTrace, GradientsTravelWhileBackwardGoesOn) {
  constexpr std::int64_t kBucket = 8000;
  for (const int stage : {0, 1, 2, 3}) {
    SCOPED_TRACE(stage);
    const auto all = transfers("gradients", stage, true, kBucket);
    EXPECT_GE(hidden(all), 4) << "a bucket of every layer but the first, at least";
    if (stage < 2) {
      for (const Hidden& transfer : all) {
        EXPECT_EQ(transfer.between, transfer.after) << "nobody waits before backward is done";
      }
    }
    EXPECT_EQ(hidden(transfers("gradients", stage, false, kBucket)), 0);
  }
}

TEST(OverlapTrace, WeightsTravelWhileTheLayerBeforeComputes) {
  constexpr std::int64_t kWholeLayers = 1 << 20;
  // What a layer asks for last is on its way while it begins; overlap adds what the next layers will ask for.
  const int without = hidden(transfers("weights", 3, false, kWholeLayers));
  EXPECT_GE(hidden(transfers("weights", 3, true, kWholeLayers)), without + 6)
      << "three of four layers, forward and backward";
}

}  // namespace
}  // namespace stoa::layouts

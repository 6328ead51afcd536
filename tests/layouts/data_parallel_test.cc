#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "layout_run.h"
#include "run/replicas.h"

namespace stoa::layouts {
namespace {

using ::testing::IsEmpty;

TEST(DataParallel, AnyNumberOfReplicasAndMicrobatches) {
  for (const std::int64_t micro : {1, 2}) {
    TestRun run = tiny_run();
    run.micro_batch = micro;
    const RunResult one = run_layout(run, data_parallel(1));
    EXPECT_THAT(one.faults, IsEmpty());
    for (const int replicas : {2, 4}) {
      SCOPED_TRACE(::testing::Message() << replicas << " replicas, microbatches of " << micro);
      EXPECT_THAT(differences(one, run_layout(run, data_parallel(replicas)), kRounding), IsEmpty());
    }
  }
}

TEST(DataParallel, ReplicasWithoutValidTokens) {
  TestRun run = tiny_run();
  run.rows = 4;
  run.masked_rows = 1;  // all that the first of four replicas sees
  EXPECT_THAT(differences(run_layout(run, data_parallel(1)), run_layout(run, data_parallel(4)), kRounding),
              IsEmpty());
}

// A flipped bit of one copy, in the weights that are computed with.
TEST(Replicas, TheOneThatDriftsIsNamed) {
  for (const bool spoilt : {false, true}) {
    TestRun run = tiny_run();
    run.steps = 1;
    run.before = [&](int number, run::TrainingRank& rank) {
      if (spoilt && number == 3) rank.parameters().get({2}).as<double>()[1] += 1e-15;
      run::compare_replicas(rank, 7);
    };
    if (!spoilt) {
      EXPECT_NO_THROW(run_layout(run, layout_of(1, 2, 1, 2, 1)));
      continue;
    }
    try {
      run_layout(run, layout_of(1, 2, 1, 2, 1));
      ADD_FAILURE() << "nothing was said";
    } catch (const std::exception& error) {
      EXPECT_THAT(error.what(),
                  ::testing::HasSubstr("after step 7 the weights of data-parallel copies differ: "
                                       "rank 3 differs from the others of ranks 0, 1, 2, 3"));
    }
  }
}

TEST(OneRank, RecomputationChangesNoBit) {
  const RunResult kept = run_layout(tiny_run(), data_parallel(1));
  for (const auto granularity : {model::RecomputeGranularity::kSelective, model::RecomputeGranularity::kFull})
    for (const auto method : {model::RecomputeMethod::kUniform, model::RecomputeMethod::kBlock}) {
      TestRun run = tiny_run();
      run.config.recompute = {granularity, method, 2};
      EXPECT_THAT(differences(kept, run_layout(run, data_parallel(1)), 0), IsEmpty());
    }
}

// The comparison itself must see what it is to see.
TEST(Harness, SeesOneBit) {
  TestRun run = tiny_run();
  run.steps = 2;
  const RunResult one = run_layout(run, data_parallel(1));
  RunResult other = one;
  other.weights.begin()->second[0] = std::nextafter(other.weights.begin()->second[0], 10.0);
  EXPECT_EQ(differences(one, other, 0).size(), 1u);
  EXPECT_THAT(differences(one, other, kRounding), IsEmpty());
  other.gradients.erase(other.gradients.begin());
  EXPECT_EQ(differences(one, other, kRounding).size(), 2u);
}

}  // namespace
}  // namespace stoa::layouts

// Dumps of any layout can be compared with those of any other, and name the rank that went wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/test_folder.h"
#include "eval/locate.h"
#include "layout_run.h"

namespace stoa::layouts {
namespace {

using ::testing::IsEmpty;

namespace fs = std::filesystem;

class Dumps : public ::testing::Test {
 protected:
  fs::path dump(const std::string& name, const run::Layout& layout,
                std::function<void(int, run::TrainingRank&)> before = {}, DType type = DType::kF64) {
    TestRun run = tiny_run();
    run.type = type;
    run.rows = 4;
    run.steps = 1;
    run.dump = directory_ / name;
    run.before = std::move(before);
    run_layout(run, layout);
    return run.dump;
  }
  static eval::LocateResult locate(const fs::path& a, const fs::path& b) {
    ckpt::DumpReader left(a), right(b);
    return eval::locate(left, right);
  }

  const TestFolder directory_;
};

TEST_F(Dumps, AnyLayoutIsTheSameStep) {
  const fs::path one = dump("one", data_parallel(1));
  run::Layout sequence = layout_of(2, 1, 1, 1, 1);
  sequence.sequence_parallel = true;
  run::Layout cut = layout_of(2, 2, 1, 1, 1);
  cut.sequence_parallel = true;
  run::Layout sharded = layout_of(2, 1, 1, 2, 1);
  sharded.zero_stage = 3;
  const std::vector<std::pair<std::string, run::Layout>> layouts{{"dp2", data_parallel(2)},
                                                                 {"pp2", pipeline(2)},
                                                                 {"vpp", pipeline(2, "interleaved", 2)},
                                                                 {"zb", pipeline(2, "zb-v")},
                                                                 {"tp2", layout_of(2, 1, 1, 1, 1)},
                                                                 {"tp2 sp", sequence},
                                                                 {"tp2 dp2", layout_of(2, 1, 1, 2, 1)},
                                                                 {"cp2", layout_of(1, 2, 1, 1, 1)},
                                                                 {"tp2 sp cp2", cut},
                                                                 {"tp2 dp2 zero3", sharded}};
  for (const auto& [name, layout] : layouts) {
    SCOPED_TRACE(name);
    for (const bool first : {true, false}) {
      const fs::path many = first ? dump(name, layout) : directory_ / name;
      const auto result = first ? locate(one, many) : locate(many, one);
      EXPECT_TRUE(result.same()) << eval::to_text(result);
      EXPECT_GT(result.boxes, 300);
      for (const auto& missing : first ? result.only_a : result.only_b)
        EXPECT_EQ(missing, "head.logits") << "statistics over a part of the words are not written";
    }
  }
}

// Where a layout rounds elsewhere, it differs by what rounding can do (eval/tolerance.h), and a mistake by
// more.
TEST_F(Dumps, AnyLayoutIsTheSameStepInLowerPrecision) {
  run::Layout sequence = layout_of(2, 1, 1, 1, 1);
  sequence.sequence_parallel = true;
  run::Layout ring = layout_of(1, 2, 1, 2, 1);
  ring.context_kind = parallel::ContextKind::kRing;
  ring.zero_stage = 2;
  run::Layout all = layout_of(2, 2, 1, 2, 2);
  all.sequence_parallel = true;
  all.schedule = "interleaved";
  all.chunks = 2;
  all.zero_stage = 1;
  const std::vector<std::pair<std::string, run::Layout>> layouts{
      {"tp2 sp", sequence}, {"cp2 dp2 zero2", ring}, {"pp2", pipeline(2, "zb-v", 2)}, {"all", all}};
  const auto halve = [](int, run::TrainingRank& training) {
    const auto& specs = training.params().specs();
    for (std::size_t p = 0; p < specs.size(); ++p) {
      const TensorView values = training.parameters().get({static_cast<int>(p)});
      if (specs[p].name != "layers.2.mlp.down.weight") continue;
      std::memset(values.data, 0, values.bytes() / 2);
    }
  };
  for (const DType type : {DType::kF32, DType::kBF16}) {
    const std::string text(name_of(type));
    const fs::path one = dump(text, data_parallel(1), {}, type);
    for (const auto& [name, layout] : layouts) {
      SCOPED_TRACE(text + " " + name);
      const auto result = locate(one, dump(text + name, layout, {}, type));
      EXPECT_TRUE(result.same()) << eval::to_text(result);
      EXPECT_GT(result.boxes, 300);
    }
    EXPECT_FALSE(locate(one, dump(text + " spoilt", sequence, halve, type)).same());
  }
}

TEST_F(Dumps, TheRankThatDriftedIsNamed) {
  const fs::path one = dump("one", data_parallel(1));
  const auto spoil = [](int rank, run::TrainingRank& training) {
    if (rank != 1) return;
    const auto& specs = training.params().specs();
    for (std::size_t p = 0; p < specs.size(); ++p)
      if (specs[p].shard.pieces.front().name == "layers.2.mlp.down.weight")
        training.parameters().master({static_cast<int>(p)}).as<double>()[5] += 1e-9;
  };
  const auto result = locate(one, dump("spoilt", data_parallel(2), spoil));
  ASSERT_TRUE(result.first);
  EXPECT_EQ(result.first->phase, ckpt::DumpPhase::kWeights);
  EXPECT_EQ(result.first->tensor, "layers.2.mlp.down.weight");
  EXPECT_EQ(result.first->rank_b, 1);
  EXPECT_THAT(result.first->index, ::testing::ElementsAre(0, 5));
}

}  // namespace
}  // namespace stoa::layouts

// Two dumps, one of them changed: is the place named, and is nothing else?
#include "eval/locate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/half.h"
#include "base/philox.h"
#include "base/test_folder.h"

namespace stoa::eval {
namespace {

using ckpt::DumpPhase;
using ckpt::DumpRecord;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kRows = 4, kLength = 3, kWidth = 8, kLayers = 3;

// The true value of an element, the same for every layout.
double truth(const std::string& tensor, DumpPhase phase, std::int64_t step, std::int64_t element) {
  const PhiloxKey key = philox_key(static_cast<std::uint64_t>(step) * 8 + static_cast<std::uint64_t>(phase),
                                   RandomPurpose::kTest, tensor);
  return philox_normal(key, static_cast<std::uint64_t>(element));
}

struct Layout {
  int data = 1, tensor = 1;
  std::int64_t micro = 2;  // rows per microbatch
  std::string compute = "fp32";
  double scale = 1;
};

// A change of one element: all that is written of it.
struct Change {
  std::int64_t step;
  DumpPhase phase;
  std::string tensor;
  std::int64_t row, column;
  double by;
  int rank = -1;  // of which rank's copy; -1: all
};

std::vector<std::byte> encode(const std::vector<double>& values, ckpt::StorageType type) {
  std::vector<std::byte> out;
  for (const double v : values) {
    if (type == ckpt::StorageType::kBF16) {
      const bf16 x(static_cast<float>(v));
      out.resize(out.size() + 2);
      std::memcpy(out.data() + out.size() - 2, &x, 2);
    } else {
      const float x = static_cast<float>(v);
      out.resize(out.size() + 4);
      std::memcpy(out.data() + out.size() - 4, &x, 4);
    }
  }
  return out;
}

void write_dump(const fs::path& directory, const Layout& layout, const std::vector<Change>& changes = {},
                std::int64_t steps = 2) {
  const int ranks = layout.data * layout.tensor;
  for (int rank = 0; rank < ranks; ++rank) {
    const int t = rank % layout.tensor, d = rank / layout.tensor;
    ckpt::DumpWriter writer(directory, {rank, ranks, "test", layout.compute, "test", kLayers, kLength});
    const auto type = layout.compute == "bf16" ? ckpt::StorageType::kBF16 : ckpt::StorageType::kF32;
    for (std::int64_t step = 1; step <= steps; ++step) {
      const auto put = [&](DumpPhase phase, std::int64_t microbatch, std::int64_t layer,
                           const std::string& name, std::vector<std::int64_t> global,
                           std::vector<std::int64_t> begin, std::vector<std::int64_t> shape) {
        DumpRecord r;
        r.step = step, r.phase = phase, r.microbatch = microbatch, r.layer = layer, r.tensor = name;
        r.global = global, r.begin = begin, r.shape = shape;
        r.type =
            phase == DumpPhase::kWeights || phase == DumpPhase::kGradients ? ckpt::StorageType::kF32 : type;
        r.scale = phase == DumpPhase::kBackward || phase == DumpPhase::kGradients ? layout.scale : 1;
        std::vector<double> values;
        for (std::int64_t i = 0; i < shape[0]; ++i)
          for (std::int64_t j = 0; j < shape[1]; ++j) {
            const std::int64_t row = begin[0] + i, column = begin[1] + j;
            double v = truth(name, phase, step, row * global[1] + column);
            for (const auto& c : changes)
              if (c.step == step && c.phase == phase && c.tensor == name && c.row == row &&
                  c.column == column && (c.rank < 0 || c.rank == rank))
                v += c.by;
            values.push_back(v * r.scale);
          }
        writer.add(r, encode(values, r.type));
      };
      const std::int64_t tokens = kRows * kLength, width = kWidth / layout.tensor;
      const auto weights = [&](DumpPhase phase) {
        for (std::int64_t l = 0; l < kLayers; ++l)
          put(phase, -1, l, "layers." + std::to_string(l) + ".w", {kWidth, 4}, {t * width, 0}, {width, 4});
      };
      weights(DumpPhase::kWeights);
      const std::int64_t microbatches = kRows / layout.micro / layout.data;
      for (const auto phase : {DumpPhase::kForward, DumpPhase::kBackward})
        for (std::int64_t m = 0; m < microbatches; ++m)
          for (std::int64_t k = 0; k < kLayers; ++k) {
            const std::int64_t l = phase == DumpPhase::kForward ? k : kLayers - 1 - k;
            const std::int64_t first = (m * layout.data + d) * layout.micro * kLength,
                               count = layout.micro * kLength;
            const std::string layer = "layers." + std::to_string(l);
            put(phase, m, l, layer + ".inner", {tokens, kWidth}, {first, t * width}, {count, width});
            put(phase, m, l, layer + ".output", {tokens, kWidth}, {first, 0}, {count, kWidth});
          }
      weights(DumpPhase::kGradients);
      writer.end_step({step, 0, 1.0, 1e-3});
    }
  }
}

LocateResult locate_in(const fs::path& a, const fs::path& b, LocateOptions options = {}) {
  ckpt::DumpReader left(a), right(b);
  return locate(left, right, options);
}

TEST(Locate, EqualDumpsAreEqualToTheLastBit) {
  const TestFolder work;
  write_dump(work / "a", {});
  write_dump(work / "b", {});
  const auto result = locate_in(work / "a", work / "b");
  EXPECT_TRUE(result.same());
  EXPECT_FALSE(result.first_bit);
  EXPECT_EQ(result.equal, result.boxes);
  EXPECT_THAT(result.steps, ElementsAre(1, 2));
  EXPECT_THAT(to_text(result), HasSubstr("SAME to the last bit"));
}

TEST(Locate, NamesTheFirstInTheOrderOfAStep) {
  const TestFolder work;
  write_dump(work / "a", {});
  const std::vector<Change> changes{{2, DumpPhase::kWeights, "layers.1.w", 3, 2, 1.0},
                                    {2, DumpPhase::kForward, "layers.0.inner", 1, 1, 5.0},
                                    {1, DumpPhase::kGradients, "layers.2.w", 7, 0, 5.0},
                                    {1, DumpPhase::kBackward, "layers.1.output", 8, 3, 5.0},
                                    {1, DumpPhase::kBackward, "layers.2.inner", 11, 3, -5.0},
                                    {1, DumpPhase::kForward, "layers.1.output", 7, 6, 5.0},
                                    {1, DumpPhase::kForward, "layers.2.inner", 2, 1, 5.0},
                                    {1, DumpPhase::kForward, "layers.0.output", 9, 4, 5.0}};
  // Without the first of them the next is the first.
  const struct {
    DumpPhase phase;
    const char* tensor;
    std::int64_t step, microbatch, row, column;
  } expected[] = {{DumpPhase::kForward, "layers.2.inner", 1, 0, 2, 1},
                  {DumpPhase::kForward, "layers.0.output", 1, 1, 9, 4},
                  {DumpPhase::kForward, "layers.1.output", 1, 1, 7, 6},
                  {DumpPhase::kBackward, "layers.2.inner", 1, 1, 11, 3},
                  {DumpPhase::kBackward, "layers.1.output", 1, 1, 8, 3},
                  {DumpPhase::kGradients, "layers.2.w", 1, -1, 7, 0},
                  {DumpPhase::kWeights, "layers.1.w", 2, -1, 3, 2},
                  {DumpPhase::kForward, "layers.0.inner", 2, 0, 1, 1}};
  std::vector<Change> left = changes;
  for (const auto& e : expected) {
    write_dump(work / "b", {}, left);
    const auto result = locate_in(work / "a", work / "b");
    ASSERT_TRUE(result.first) << e.tensor;
    EXPECT_EQ(result.first->tensor, e.tensor);
    EXPECT_EQ(result.first->phase, e.phase);
    EXPECT_EQ(result.first->step, e.step);
    EXPECT_EQ(result.first->microbatch, e.microbatch);
    EXPECT_THAT(result.first->index, ElementsAre(e.row, e.column));
    EXPECT_NEAR(result.first->b - result.first->a,
                std::find_if(left.begin(), left.end(),
                             [&](const auto& c) { return c.tensor == e.tensor && c.row == e.row; })
                    ->by,
                1e-6);
    std::erase_if(
        left, [&](const auto& c) { return c.tensor == e.tensor && c.row == e.row && c.phase == e.phase; });
  }
  EXPECT_TRUE(left.empty());
}

TEST(Locate, LayoutsDoNotMatterAndTheRankIsNamed) {
  const TestFolder work;
  write_dump(work / "one", {});
  write_dump(work / "many", {.data = 2, .tensor = 2, .micro = 1});
  auto result = locate_in(work / "one", work / "many");
  EXPECT_TRUE(result.same());
  EXPECT_EQ(result.equal, result.boxes);
  // Replicas of one tensor: only rank 3's copy is wrong.
  write_dump(work / "bad", {.data = 2, .tensor = 2, .micro = 1},
             {{1, DumpPhase::kForward, "layers.1.output", 4, 5, 1.0, 3}});
  result = locate_in(work / "one", work / "bad");
  ASSERT_TRUE(result.first);
  EXPECT_EQ(result.first->rank_b, 3);
  EXPECT_EQ(result.first->tensor, "layers.1.output");
  EXPECT_THAT(result.first->index, ElementsAre(4, 5));
  EXPECT_EQ(result.first->microbatch, 0);
  EXPECT_EQ(result.first->microbatch_b, 0);
  EXPECT_THAT(to_text(result), HasSubstr("rank 3 of B"));
  EXPECT_EQ(nlohmann::json::parse(to_json(result))["first"]["rank_b"], 3);
}

TEST(Locate, RoundingIsWithinTheToleranceAndMistakesAreNot) {
  const TestFolder work;
  write_dump(work / "fp32", {});
  write_dump(work / "bf16", {.compute = "bf16"});
  auto result = locate_in(work / "fp32", work / "bf16");
  EXPECT_TRUE(result.same());
  EXPECT_TRUE(result.first_bit);
  ASSERT_TRUE(result.nearest);
  EXPECT_GT(result.nearest->share, 0.005);
  EXPECT_THAT(to_text(result), HasSubstr("SAME within rounding"));
  EXPECT_FALSE(locate_in(work / "fp32", work / "bf16", {0.0}).same());

  // Scaled gradients are compared as what they stand for.
  write_dump(work / "scaled", {.scale = 1024});
  EXPECT_TRUE(locate_in(work / "fp32", work / "scaled").same());

  const auto change = [&](double by) {
    write_dump(work / "b", {}, {{1, DumpPhase::kForward, "layers.0.inner", 0, 0, by}});
    return locate_in(work / "fp32", work / "b");
  };
  EXPECT_TRUE(change(1e-7).same());
  EXPECT_FALSE(change(1e-3).same());
  EXPECT_FALSE(change(std::nan("")).same());
}

TEST(Locate, UpdatesOfTheRateExplainLaterWeights) {
  const TestFolder work;
  write_dump(work / "a", {});
  const auto change = [&](std::int64_t step, double by) {
    write_dump(work / "b", {}, {{step, DumpPhase::kWeights, "layers.0.w", 0, 0, by}});
    return locate_in(work / "a", work / "b").same();
  };
  EXPECT_FALSE(change(1, 1e-5));  // before the first step there is no reason
  EXPECT_TRUE(change(2, 1e-3));   // one step at a rate of 1e-3
  EXPECT_FALSE(change(2, 1e-2));
}

TEST(Locate, SaysWhatOneSideLacks) {
  const TestFolder work;
  write_dump(work / "a", {}, {}, 2);
  write_dump(work / "b", {}, {}, 1);
  EXPECT_THAT(locate_in(work / "a", work / "b").steps, ElementsAre(1));
  // Drop the lines of one tensor, as a writer would that does not know it.
  const fs::path index = work / "b" / "rank-00000.jsonl";
  std::string kept;
  std::int64_t lines = 0;
  std::ifstream file(index);
  for (std::string line; std::getline(file, line);) {
    if (line.find("\"layers.1.inner\"") != line.npos) continue;
    if (line.find("end_of_step") != line.npos)
      line = nlohmann::json{{"end_of_step", 1}, {"tensors", lines - 1}}.dump();
    ++lines;
    kept += line + "\n";
  }
  write_text(index, kept);
  const auto result = locate_in(work / "a", work / "b");
  EXPECT_TRUE(result.same());
  EXPECT_THAT(result.only_a, ElementsAre("layers.1.inner", "gradient of layers.1.inner"));
}

}  // namespace
}  // namespace stoa::eval

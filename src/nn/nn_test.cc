// Rotary tables against the check values of reference/model-families.md section 1.3; recompute decisions;
// tables.
#include <gtest/gtest.h>

#include <cmath>

#include "nn/recompute.h"
#include "nn/rope.h"

namespace stoa::nn {
namespace {

void expect_frequencies(const RopeOptions& options, const std::vector<std::size_t>& indices,
                        const std::vector<double>& values, double factor, std::int64_t sequence = 1) {
  const auto f = rope_frequencies(options, sequence);
  for (std::size_t i = 0; i < indices.size(); ++i)
    EXPECT_NEAR(f[indices[i]] / values[i], 1, 3e-6) << "index " << indices[i];
  EXPECT_NEAR(rope_attention_factor(options), factor, 1e-6);
}

TEST(Rope, FrequenciesHaveTheCheckValues) {
  const std::vector<std::size_t> first{0, 1, 16, 28, 32, 36, 48, 63}, second{0, 1, 8, 12, 16, 20, 24, 31};
  RopeOptions o;
  o.size = 128;
  expect_frequencies(o, first, {1, .8659644, .1, .01778279, .01, .005623413, .001, 1.154782e-4}, 1);
  o.kind = RopeKind::kLlama3;
  o.base = 5e5;
  o.factor = 8;
  o.original_positions = 8192;
  expect_frequencies(
      o, first, {1, .8146172, .03760603, .003211446, 5.24846e-4, 7.784655e-5, 6.64787e-6, 3.068926e-7}, 1);
  o.size = 64;
  o.factor = 32;
  expect_frequencies(
      o, second, {1, .6636013, .03760603, .007292665, 4.295567e-4, 8.570256e-6, 1.661967e-6, 9.418306e-8}, 1);
  o = {};
  o.kind = RopeKind::kYarn;
  o.size = 128;
  o.base = 1e6;
  o.factor = 4;
  o.original_positions = 32768;
  expect_frequencies(o, first,
                     {1, .8058422, .03162278, .001848277, 6.029411e-4, 1.798412e-4, 7.905694e-6, 3.102344e-7},
                     1.138629);
  o.size = 64;
  o.base = 1e4;
  o.factor = 40;
  o.original_positions = 4096;
  o.mscale = 1;
  o.mscale_all = 1;
  expect_frequencies(o, second, {1, .7498942, .1, .02687936, .0055, 7.905694e-4, 2.5e-5, 3.333804e-6}, 1);
  // Section 4.4, extras.
  o = {};
  o.kind = RopeKind::kDynamic;
  o.size = 4;
  o.factor = 2;
  o.max_positions = 8;
  expect_frequencies(o, {0, 1}, {1, .005}, 1, 12);
  expect_frequencies(o, {0, 1}, {1, .01}, 1, 8);
  o.kind = RopeKind::kLongrope;
  o.size = 8;
  o.max_positions = 64;
  o.original_positions = 16;
  o.factor.reset();
  o.short_factors = {1, 1.1, 1.3, 1.7};
  o.long_factors = {1.5, 2, 4, 8};
  expect_frequencies(o, {0, 3}, {1, 1e-3 / 1.7}, 1.224745, 12);
  expect_frequencies(o, {0, 3}, {1 / 1.5, 1e-3 / 8}, 1.224745, 17);
  o.original_positions = 8;
  EXPECT_NEAR(rope_attention_factor(o), 1.414214, 1e-6);
}

TEST(Rope, TableHoldsScaledCosinesAndSines) {
  RopeOptions o;
  o.size = 4;
  o.kind = RopeKind::kLinear;
  o.factor = 2;
  const auto table = rope_table(o, 3, 3);
  ASSERT_EQ(table.size(), 12u);
  EXPECT_DOUBLE_EQ(table[8], std::cos(1.0));    // position 2, pair 0: 2 * 1 / 2
  EXPECT_DOUBLE_EQ(table[11], std::sin(0.01));  // pair 1
  o.size = 3;
  EXPECT_THROW(rope_table(o, 3, 3), ConfigError);
  o.size = 4;
  o.factor.reset();
  EXPECT_THROW(rope_table(o, 3, 3), ConfigError);
}

TEST(Recompute, OneDecisionPerBlock) {
  const auto levels = [](const RecomputeOptions& o) {
    std::string out;
    for (const auto& d : decide_recompute(o, 5))
      out += std::string(1, "nsf"[static_cast<int>(d.level)]) + (d.keep_input ? "" : "-");
    return out;
  };
  EXPECT_EQ(levels({}), "nnnnn");
  EXPECT_EQ(levels({RecomputeLevel::kSelective, RecomputeScope::kUniform, 1}), "sssss");
  EXPECT_EQ(levels({RecomputeLevel::kFull, RecomputeScope::kUniform, 1}), "fffff");
  EXPECT_EQ(levels({RecomputeLevel::kFull, RecomputeScope::kUniform, 2}), "ff-ff-f");
  EXPECT_EQ(levels({RecomputeLevel::kFull, RecomputeScope::kBlock, 2}), "ffnnn");

  EXPECT_EQ(levels({RecomputeLevel::kFull, RecomputeScope::kBlock, 0}), "nnnnn");
  EXPECT_THROW(levels({RecomputeLevel::kFull, RecomputeScope::kUniform, 0}), ConfigError);
}

TEST(ActivationTable, LaysOutWhatIsKeptAndStashesWhatWeightsNeed) {
  ActivationTable table;
  const auto spec = [](const char* name, Producer producer, bool weight_input) {
    ActivationSpec out;
    out.tensor = {name, DType::kF32, {3, 5}};  // 60 bytes: 128 as laid out
    out.producer = producer;
    out.weight_input = weight_input;
    return out;
  };
  table.declare(spec("input", Producer::kInput, false));
  const int norm = table.declare(spec("norm", Producer::kNorm, true));
  const int linear = table.declare(spec("linear", Producer::kLinear, true));
  table.declare_stash({"gradient", DType::kF32, {3, 5}});
  table.resolve(recompute_policy({RecomputeLevel::kSelective}), Keep::kSave, true);
  EXPECT_EQ(table.saved_bytes(), 256u);
  EXPECT_EQ(table.offset(linear), 128u);
  EXPECT_EQ(table.stash_of(norm), 1);
  EXPECT_EQ(table.stash_of(linear), -1);
  EXPECT_EQ(table.stash_bytes(), 256u);
  EXPECT_EQ(table.stash_offset(1), 128u);
}

}  // namespace
}  // namespace stoa::nn

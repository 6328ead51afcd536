// Keys and values in caches of every type: written to them, and attended to.
#include <cstring>

#include "ops/attention_cases.h"
#include "ops/backend_suite.h"
#include "ops/reference/cache_rows.h"

namespace stoa::ops::testing {
namespace {

constexpr DType kCacheTypes[] = {DType::kF32, DType::kBF16, DType::kF16, DType::kU8};

bool goes_with(DType cache, DType numbers) { return cache == numbers || cache != DType::kF32; }

std::vector<unsigned char> cache_bytes_of(const TensorView& x) {
  const auto* begin = static_cast<const unsigned char*>(x.data);
  return {begin, begin + x.bytes()};
}

}  // namespace

// Bits, not only numbers: a row that is written again is the same row.
TEST_P(BackendTest, ScatterRows) {
  for (const DType type : kTypes)
    for (const DType cache : kCacheTypes) {
      if (!goes_with(cache, type)) continue;
      for (const std::int64_t d : {2, 7, 16, 31, 32, 33, 64, 80, 576})
        for (const std::int64_t heads : {1, 3}) {
          SCOPED_TRACE(fmt::format("{} in {}: {} heads of {}", name_of(type), name_of(cache), heads, d));
          Tensors t;
          const TensorView x = t.random(type, {5, heads, d}, 3, 6);
          const TensorView own = t.empty(cache, CacheShape(3, heads, 3, cached_width(cache, d)).shape()),
                           trusted = t.copy(own);
          const TensorView index = t.int32({4, 0, 8, 2, 3});
          run_on(backend(), ScatterRows{x, index, own});
          run_reference(ScatterRows{x, index, trusted});
          EXPECT_EQ(cache_bytes_of(own), cache_bytes_of(trusted));
          t.expect_guards();
        }
    }
}

TEST_P(BackendTest, ScatterRowsThatAreNoNumbers) {
  const double infinity = std::numeric_limits<double>::infinity();
  Tensors t;
  Values values(4 * 64, 0);
  values[3] = std::nan(""), values[64 + 40] = infinity, values[128] = 1e-35;
  const TensorView x = t.of(DType::kF32, {4, 1, 64}, values),
                   own = t.empty(DType::kU8, {1, 1, 4, cached_width(DType::kU8, 64)}), trusted = t.copy(own);
  const TensorView index = t.int32({0, 1, 2, 3});
  run_on(backend(), ScatterRows{x, index, own});
  run_reference(ScatterRows{x, index, trusted});
  EXPECT_EQ(cache_bytes_of(own), cache_bytes_of(trusted));
  const Values kept = load_cached(own, 64);
  EXPECT_TRUE(std::isnan(kept[3])) << "an error does not become a number";
  EXPECT_FALSE(std::isfinite(kept[64 + 40]));
  for (std::size_t i = 128; i < kept.size(); ++i) EXPECT_EQ(kept[i], 0) << i;
}

// Attention takes an infinite key for a masked one, and its answer would be wrong without a word.
TEST_P(BackendTest, ScatterRowsBeyondTheRangeOfHalves) {
  Tensors t;
  const TensorView x = t.of(DType::kF32, {1, 1, 4}, {65519, 65520, -7e4, -65504}),
                   own = t.empty(DType::kF16, {1, 1, 1, 4}), trusted = t.copy(own), index = t.int32({0});
  run_on(backend(), ScatterRows{x, index, own});
  run_reference(ScatterRows{x, index, trusted});
  for (const TensorView& y : {own, trusted}) {
    const Values kept = load(y);
    EXPECT_EQ(kept[0], 65504);
    EXPECT_TRUE(std::isnan(kept[1]) && std::isnan(kept[2]));
    EXPECT_EQ(kept[3], -65504);
  }
}

TEST_P(BackendTest, AttentionOverCachesOfEveryType) {
  for (const DType type : kTypes)
    for (const DType cache : kCacheTypes) {
      if (!goes_with(cache, type) || cache == type) continue;
      for (const auto& c : attention_cases()) {
        if (c.dropout > 0 || c.behind >= 0) continue;
        SCOPED_TRACE(fmt::format("{} over {}: {}", name_of(type), name_of(cache), c.name));
        Tensors t;
        AttentionForward op = with_blocks(t, make_attention(t, c, type), 16);
        op.k = kept_blocks(t, op.k, cache), op.v = kept_blocks(t, op.v, cache);
        expect_like_reference(backend(), op);
        op.lse = {};
        expect_like_reference(backend(), op);
        t.expect_guards();
      }
    }
}

// The heads of a token are a block's rows apart.
TEST(CacheRows, RowsOfAHeadAreNeighboursInABlock) {
  Tensors t;
  const TensorView x = t.of(DType::kF32, {2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), index = t.int32({4, 2}),
                   y = t.of(DType::kF32, {2, 2, 3, 2}, Values(24, 0));
  run_reference(ScatterRows{x, index, y});
  EXPECT_EQ(load(y), (Values{0, 0, 0, 0, 5, 6, 0, 0, 0, 0, 7, 8, 0, 0, 1, 2, 0, 0, 0, 0, 3, 4, 0, 0}));
}

// A number is off by half a code at most; one scale for the largest of 32 neighbours.
TEST(CacheRows, CodesAreNearTheirNumbers) {
  Tensors t;
  const TensorView x = t.random(DType::kF32, {7, 2, 80}), index = t.int32({6, 5, 4, 3, 2, 1, 0}),
                   y = t.empty(DType::kU8, {7, 2, 1, cached_width(DType::kU8, 80)});
  EXPECT_EQ(y.shape[3], 80 + 3 * 2);
  run_reference(ScatterRows{x, index, y});
  const Values numbers = load(x), kept = load_cached(y, 80);
  for (std::int64_t row = 0; row < 7; ++row)
    for (std::int64_t i = 0; i < 160; ++i) {
      const auto begin = numbers.begin() + row * 160 + i / 80 * 80 + i % 80 / 32 * 32;
      const auto end =
          numbers.begin() + row * 160 + std::min(i / 80 * 80 + (i % 80 / 32 + 1) * 32, (i / 80 + 1) * 80);
      double largest = 0;
      for (auto it = begin; it != end; ++it) largest = std::max(largest, std::fabs(*it));
      // The scale is rounded to 8 bits, so that the largest number may be a further half of a code away.
      EXPECT_NEAR(kept[static_cast<std::size_t>((6 - row) * 160 + i)],
                  numbers[static_cast<std::size_t>(row * 160 + i)], largest / 127 * 0.8);
    }
}

TEST(CacheRows, RefusesWhatItCannotKeep) {
  Tensors t;
  const TensorView x = t.random(DType::kBF16, {3, 2, 8}), index = t.int32({0, 1, 2});
  EXPECT_THROW(check(ScatterRows{x, index, t.empty(DType::kF32, {5, 2, 1, 8})}), ShapeError) << "wider";
  EXPECT_THROW(check(ScatterRows{x, index, t.empty(DType::kU8, {5, 2, 1, 8})}), ShapeError) << "no scales";
  EXPECT_THROW(check(ScatterRows{x, t.int32({0, 1}), t.empty(DType::kBF16, {5, 2, 1, 8})}), ShapeError);
  EXPECT_THROW(run_reference(ScatterRows{x, t.int32({0, 1, 5}), t.empty(DType::kBF16, {5, 2, 1, 8})}),
               DataError);
}

}  // namespace stoa::ops::testing

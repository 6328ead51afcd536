// Tokens drawn from logits: every backend draws the token that the reference does, whose way of sorting
// everything is plain.
#include <bit>
#include <cstring>

#include "ops/backend_suite.h"
#include "ops/host_draw.h"
#include "ops/op_test_util.h"

namespace stoa::ops::testing {
namespace {

std::vector<DrawOptions> draw_cases() {
  std::vector<DrawOptions> out{{}, {.temperature = 0.7, .top_p = 0.9}, {.temperature = 1.3, .top_k = 40}};
  for (const double temperature : {1e-40, 1e-3, 0.3, 1.0, 8.0, 1e5, 1e38, 1e300})
    for (const bool llama : {false, true})
      out.push_back({.temperature = temperature,
                     .top_k = llama ? 100 : 0,
                     .top_p = 0.95,
                     .min_p = 0.02,
                     .cuts_at_temperature = !llama});
  out.push_back({.temperature = 2, .top_p = 0.8, .min_p = 0.2});
  out.push_back({.temperature = 2, .top_p = 0.8, .min_p = 0.2, .min_p_first = true});
  out.push_back({.temperature = 3, .top_k = 5, .min_p = 1e-9, .min_p_first = true});
  out.push_back({.temperature = 3, .min_p = 0.3, .cuts_at_temperature = false});
  out.push_back({.top_k = 1});
  out.push_back({.temperature = 1e4, .top_k = 1000});
  out.push_back({.top_k = std::int64_t{1} << 40});
  out.push_back({.top_p = 1e-300});
  out.push_back({.temperature = 1e4, .top_p = 1 - 1e-12});
  out.push_back({.min_p = 1});
  return out;
}

// Logits of a kind for each row.
float drawn_logit(std::int64_t row, std::int64_t i, float normal, std::int32_t random) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(),
                  kInfinity = std::numeric_limits<float>::infinity();
  const auto small = static_cast<float>(random % 7);  // many are equal
  switch (row) {
    case 0:
      return 4 * normal;
    case 1:
      return 12 * normal + 30;
    case 2:
      return small;
    case 3:
      return random % 3 == 0 ? 0.0F : random % 3 == 1 ? -0.0F : -1e-6F * small;
    case 4:
      return 1.5F;  // all are
    case 5:
      return random % 11 == 0 ? kNan : small;
    case 6:
      return i % kMostLikelyBlock == 0 && random % 2 == 0 ? kNan : small + normal;
    case 7:
      return random % 5 == 0 ? -kInfinity : normal;
    case 8:
      return random % 999 == 1 ? kInfinity : small;
    case 9:
      return kNan;
    case 10:
      return -kInfinity;
    case 11:
      return std::ldexp(normal, random % 250 - 125);
    default:
      return i == 0 ? 1.0F : std::nextafter(1.0F, random % 2 == 0 ? 0.0F : 2.0F);
  }
}
constexpr std::int64_t kDrawnRows = 13;

}  // namespace

TEST_P(BackendTest, DrawTokens) {
  const std::vector<DrawOptions> cases = draw_cases();
  for (const std::int64_t width : {1, 2, 33, 1500, 7000}) {
    SCOPED_TRACE(width);
    Tensors t(static_cast<std::uint64_t>(width));
    const TensorView logits = t.random(DType::kF32, {kDrawnRows, width}, 1, 3), other = t.copy(logits),
                     random = t.random_int32(kDrawnRows * width, 1 << 20);
    for (std::int64_t row = 0; row < kDrawnRows; ++row)
      for (std::int64_t i = 0; i < width; ++i) {
        float& x = logits.row<float>(row)[i];
        x = drawn_logit(row, i, x, random.as<std::int32_t>()[row * width + i]);
      }
    std::vector<TokenDraw> draws;
    for (std::size_t c = 0; c < cases.size(); ++c)
      for (std::int32_t row = 0; row < kDrawnRows; ++row) {
        // Each case with some of the rows at each width; the emulator takes its time.
        if ((static_cast<std::int64_t>(c) + row + width) % 5 != 0) continue;
        TokenDraw draw = token_draw(cases[c]);
        draw.row = row;
        const std::size_t n = draws.size();
        draw.word = n % 5 == 0 ? 0 : n % 5 == 1 ? 0xffffffffU : static_cast<std::uint32_t>(n * 2654435761U);
        draws.push_back(draw);
      }
    const auto count = std::ssize(draws);
    const TensorView table = t.empty(DType::kI32, {count, kTokenDrawWords}),
                     own = t.empty(DType::kI32, {count, 2}), trusted = t.copy(own),
                     alone = t.empty(DType::kI32, {1, 2});
    std::memcpy(table.data, draws.data(), table.bytes());
    run_on(backend(), DrawTokens{logits, table, own});
    run_reference(DrawTokens{logits, table, trusted});
    HostDraw host;
    for (std::int64_t d = 0; d < count; ++d) {
      const TokenDraw& draw = draws[static_cast<std::size_t>(d)];
      const std::int32_t *found = own.row<std::int32_t>(d), id = found[0];
      const std::span row(logits.row<float>(draw.row), static_cast<std::size_t>(width));
      ASSERT_EQ(id, trusted.row<std::int32_t>(d)[0]) << "draw " << d << " of row " << draw.row;
      ASSERT_TRUE(id >= 0 && id < width);
      EXPECT_EQ(found[1], std::bit_cast<std::int32_t>(row[static_cast<std::size_t>(id)]));
      EXPECT_EQ(host.draw(row, draw), id);
    }
    // Neither the other draws nor the other rows count.
    for (const std::int64_t d : {std::int64_t{0}, count / 2, count - 1}) {
      TokenDraw draw = draws[static_cast<std::size_t>(d)];
      std::memcpy(other.byte_offset(7 * other.stride0), logits.byte_offset(draw.row * logits.stride0),
                  static_cast<std::size_t>(width) * sizeof(float));
      draw.row = 7;
      const TensorView single = t.empty(DType::kI32, {1, kTokenDrawWords});
      std::memcpy(single.data, &draw, sizeof(draw));
      run_on(backend(), DrawTokens{other, single, alone});
      EXPECT_EQ(load_integers(alone), load_integers(own.slice(d, 1)));
    }
    t.expect_guards();
  }
}

}  // namespace stoa::ops::testing

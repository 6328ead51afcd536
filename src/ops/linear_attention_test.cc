// The gradients of linear attention against central differences, its state, and what texts see of each other.
#include "ops/linear_attention_cases.h"

namespace stoa::ops::testing {
namespace {

constexpr DType kWide = DType::kF64;

TEST(LinearAttentionGradient, ShortConvolution) {
  Tensors t;
  const ShortConvForward forward{make_texts(t, {5, 1, 2}, 1),
                                 t.random(kWide, {10, 3}, 1, 2),
                                 t.random(kWide, {3, 4}),
                                 {},
                                 t.empty(kWide, {10, 3}, 1)};
  ShortConvBackward backward{forward.texts,
                             forward.x,
                             forward.weight,
                             t.random(kWide, {10, 3}),
                             t.empty(kWide, {10, 3}, 3),
                             t.random(kWide, {3, 4}),
                             false};
  run_reference(backward);
  const Values c = load(backward.dy), once = load(backward.dweight);
  const auto run = [&] { run_reference(forward); };
  expect_gradient(backward.dx, numeric_gradient(forward.x, forward.y, c, run), "dx");
  expect_gradient(backward.dweight, numeric_gradient(forward.weight, forward.y, c, run), "dweight");
  backward.accumulate = true;
  run_reference(backward);
  for (std::size_t i = 0; i < once.size(); ++i) EXPECT_DOUBLE_EQ(load(backward.dweight)[i], 2 * once[i]);
}

TEST(LinearAttentionGradient, GatedDeltaRule) {
  for (const DeltaCase& c :
       {DeltaCase{"grouped", 2, 4, 3, 2, {6, 3}, 1, 3}, DeltaCase{"wide", 1, 1, 2, 5, {7}}}) {
    SCOPED_TRACE(c.name);
    Tensors t;
    const GatedDeltaForward forward = make_delta(t, c, kWide);
    GatedDeltaBackward backward = make_backward(t, forward, false);
    run_reference(backward);
    const Values weights = load(backward.dout);
    const auto expect = [&](const TensorView& x, const TensorView& dx, const char* name) {
      expect_gradient(dx, numeric_gradient(x, forward.o, weights, [&] { run_reference(forward); }), name,
                      3e-7);
    };
    expect(forward.q, backward.dq, "dq");
    expect(forward.k, backward.dk, "dk");
    expect(forward.v, backward.dv, "dv");
    expect(forward.a, backward.da, "da");
    expect(forward.b, backward.db, "db");
    expect(forward.decay, backward.ddecay, "ddecay");
    expect(forward.bias, backward.dbias, "dbias");
    const Values once = load(backward.ddecay), once_bias = load(backward.dbias);
    backward.accumulate = true;
    run_reference(backward);
    for (std::size_t i = 0; i < once.size(); ++i) {
      EXPECT_DOUBLE_EQ(load(backward.ddecay)[i], 2 * once[i]);
      EXPECT_DOUBLE_EQ(load(backward.dbias)[i], 2 * once_bias[i]);
    }
    t.expect_guards();
  }
}

// A text in pieces, each with the state that the one before left, is the text.
TEST(LinearAttention, AStateContinuesAText) {
  Tensors t;
  GatedDeltaForward whole = make_delta(t, {"whole", 2, 4, 3, 5, {9}}, kWide);
  run_reference(whole);
  const TensorView state = t.zeros(kWide, {1, 4, 3, 5}), x = t.random(kWide, {9, 6}),
                   weight = t.random(kWide, {6, 4}), y = t.empty(kWide, {9, 6}),
                   before = t.zeros(kWide, {1, 3, 6});
  run_reference(ShortConvForward{whole.texts, x, weight, {}, y});
  for (const auto& [begin, count] : {std::pair<std::int64_t, std::int32_t>{0, 5}, {5, 1}, {6, 2}, {8, 1}}) {
    GatedDeltaForward part = whole;
    part.texts = make_texts(t, {count}, 0);
    for (TensorView* view : {&part.q, &part.k, &part.v, &part.a, &part.b}) *view = view->slice(begin, count);
    part.o = t.empty(kWide, {count, 4, 5});
    part.state = state;
    run_reference(part);
    const Values got = load(part.o), expected = load(whole.o.slice(begin, count));
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_DOUBLE_EQ(got[i], expected[i]);
    const TensorView piece = t.empty(kWide, {count, 6});
    run_reference(ShortConvForward{part.texts, x.slice(begin, count), weight, before, piece});
    const Values convolved = load(piece), all = load(y.slice(begin, count));
    for (std::size_t i = 0; i < convolved.size(); ++i) EXPECT_DOUBLE_EQ(convolved[i], all[i]);
  }
}

TEST(LinearAttention, WrongShapesAreRefused) {
  Tensors t;
  const GatedDeltaForward right = make_delta(t, {"", 2, 4, 3, 5, {4}}, kWide);
  GatedDeltaForward wrong = right;
  wrong.v = t.random(kWide, {4, 3, 5});
  EXPECT_THROW(check(wrong), ShapeError);
  wrong = right;
  wrong.state = t.zeros(kWide, {1, 4, 5, 3});
  EXPECT_THROW(check(wrong), ShapeError);
  wrong = right;
  wrong.texts.longest = 3;
  EXPECT_THROW(run_reference(wrong), InternalError);
  wrong = right;
  wrong.texts.begin = t.int32({0, 5});
  EXPECT_THROW(run_reference(wrong), DataError);
}

}  // namespace
}  // namespace stoa::ops::testing

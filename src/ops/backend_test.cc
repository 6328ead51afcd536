// The tests of BackendTest (backend_suite.h). The operations of layers; attention, loss and update stand in
// backend_attention_test.cc and backend_step_test.cc.
#include "ops/backend_suite.h"
#include "ops/op_test_util.h"

namespace stoa::ops::testing {

namespace {

struct LinearSize {
  std::int64_t t, k, n, gap;
};
constexpr LinearSize kLinearSizes[] = {{1, 1, 1, 0},      {3, 5, 7, 0},     {1, 768, 320, 0},
                                       {17, 33, 65, 3},   {64, 128, 96, 0}, {130, 257, 70, 5},
                                       {33, 64, 500, 32}, {200, 96, 192, 0}};

Dropout some_dropout(float p) {
  return Dropout{p, philox_key(7, RandomPurpose::kHiddenDropout, "layer"), 1000003};
}

}  // namespace

TEST_P(BackendTest, LinearForward) {
  for (DType type : kTypes) {
    for (const auto& s : kLinearSizes) {
      for (const bool bias : {false, true}) {
        Tensors t;
        LinearForward op{t.random(type, {s.t, s.k}, 1, s.gap), t.random(type, {s.n, s.k}, 0.1), {}, {}};
        if (bias) op.bias = t.random(accumulation_type(type), {s.n});
        // The output may be of the accumulation type.
        for (DType out : {type, accumulation_type(type)}) {
          SCOPED_TRACE(fmt::format("{} -> {}: {} {} {}{}", name_of(type), name_of(out), s.t, s.k, s.n,
                                   bias ? " bias" : ""));
          op.y = t.empty(out, {s.t, s.n}, s.gap);
          expect_like_reference(backend(), op, {64, bias && GetParam().rounds_bias ? out : DType::kF64, 2});
          t.expect_guards();
        }
      }
    }
  }
}

TEST_P(BackendTest, LinearBackwardInput) {
  for (DType type : kTypes) {
    for (const auto& s : kLinearSizes) {
      for (const bool accumulate : {false, true}) {
        SCOPED_TRACE(
            fmt::format("{}: {} {} {}{}", name_of(type), s.t, s.k, s.n, accumulate ? " accumulate" : ""));
        Tensors t;
        LinearBackwardInput op{
            t.random(type, {s.t, s.n}, 1, s.gap), t.random(type, {s.n, s.k}, 0.1), {}, accumulate};
        op.dx = accumulate ? t.random(type, {s.t, s.k}, 1, s.gap) : t.empty(type, {s.t, s.k}, s.gap);
        // The sum with dx in its storage type may be formed after a rounding of the product.
        expect_like_reference(backend(), op, {64, accumulate ? type : DType::kF64, 2});
        t.expect_guards();
      }
    }
  }
}

TEST_P(BackendTest, LinearWithASecondProduct) {
  for (DType type : kTypes)
    for (const auto& s : kLinearSizes)
      for (const std::int64_t r : {1, 16, 40}) {
        SCOPED_TRACE(fmt::format("{}: {} {} {} and {}", name_of(type), s.t, s.k, s.n, r));
        Tensors t;
        const TensorView w = t.random(type, {s.n, s.k}, 0.1);
        // A backend may round the first product before it adds the second.
        expect_like_reference(backend(),
                              LinearForward{.x = t.random(type, {s.t, s.k}, 1, s.gap),
                                            .w = w,
                                            .bias = {},
                                            .y = t.empty(type, {s.t, s.n}, s.gap),
                                            .x2 = t.random(type, {s.t, r}, 1, s.gap),
                                            .w2 = t.random(type, {s.n, r}, 0.1)},
                              {64, type, 2});
        expect_like_reference(backend(),
                              LinearBackwardInput{.dy = t.random(type, {s.t, s.n}, 1, s.gap),
                                                  .w = w,
                                                  .dx = t.empty(type, {s.t, s.k}, s.gap),
                                                  .dy2 = t.random(type, {s.t, r}, 1, s.gap),
                                                  .w2 = t.random(type, {r, s.k}, 0.1)},
                              {64, type, 2});
        t.expect_guards();
      }
}

// Products with a packed matrix are those with its numbers: to the bit, where both are cut alike.
TEST_P(BackendTest, PackedLinear) {
  for (const DType type : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
    if (type == DType::kF64 && backend().name() == "cuda") continue;
    for (const quant::PackedKind kind : {quant::PackedKind::kInt8, quant::PackedKind::kNf4})
      for (const auto& s :
           {LinearSize{5, 64, 3, 0}, {70, 128, 77, 3}, {200, 192, 130, 0}, {300, 1088, 96, 5}}) {
        SCOPED_TRACE(
            fmt::format("{}: {} {} {}, kind {}", name_of(type), s.t, s.k, s.n, static_cast<int>(kind)));
        Tensors t;
        const Values drawn = load(t.random(DType::kF32, {s.n, s.k}, 0.1));
        const std::vector<float> numbers(drawn.begin(), drawn.end());
        const quant::PackedShape shape = quant::whole_shape(kind, s.n, s.k);
        std::vector<std::byte> memory(shape.bytes());
        quant::packed_format(kind)
            .pack(numbers, s.k)
            ->copy({.rows = s.n, .columns = s.k}, shape, memory.data());
        std::vector<float> values(numbers.size());
        quant::unpack(shape, memory.data(), {.rows = s.n, .columns = s.k}, values.data(), s.k);
        const TensorView w = t.of(type, {s.n, s.k}, Values(values.begin(), values.end())),
                         packed(memory.data(), DType::kU8, {static_cast<std::int64_t>(memory.size())});
        const TensorView x = t.random(type, {s.t, s.k}, 1, s.gap), dy = t.random(type, {s.t, s.n}, 1, s.gap),
                         bias = t.random(accumulation_type(type), {s.n});
        const TensorView y = t.empty(type, {s.t, s.n}, s.gap), dx = t.empty(type, {s.t, s.k}, s.gap),
                         expected_y = t.empty(type, {s.t, s.n}, s.gap),
                         expected_dx = t.empty(type, {s.t, s.k}, s.gap);
        run_on(backend(), PackedLinearForward{.x = x, .w = packed, .shape = shape, .bias = bias, .y = y});
        run_on(backend(), LinearForward{.x = x, .w = w, .bias = bias, .y = expected_y});
        run_on(backend(), PackedLinearBackwardInput{.dy = dy, .w = packed, .shape = shape, .dx = dx});
        run_on(backend(), LinearBackwardInput{.dy = dy, .w = w, .dx = expected_dx});
        // Few rows are streamed by W that is not packed. Libraries choose by distances between rows as well:
        // the same here.
        const double rounding = type == DType::kBF16 ? 0.02 : type == DType::kF16 ? 0.003 : 1e-4;
        const auto expect_same = [&](TensorView found, TensorView wanted) {
          const Values a = load(found), b = load(wanted);
          for (std::size_t i = 0; i < a.size(); ++i)
            ASSERT_NEAR(a[i], b[i], s.t > 128 ? 0 : rounding * (1 + std::abs(b[i]))) << i;
        };
        expect_same(y, expected_y);
        expect_same(dx, expected_dx);
        t.expect_guards();
      }
  }
}

TEST_P(BackendTest, LinearBackwardWeight) {
  for (DType type : kTypes) {
    for (const auto& s : kLinearSizes) {
      for (const bool accumulate : {false, true}) {
        for (const bool bias : {false, true}) {
          SCOPED_TRACE(fmt::format("{}: {} {} {}{}{}", name_of(type), s.t, s.k, s.n,
                                   accumulate ? " accumulate" : "", bias ? " bias" : ""));
          const DType sum = accumulation_type(type);
          Tensors t;
          LinearBackwardWeight op{
              t.random(type, {s.t, s.k}, 1, s.gap), t.random(type, {s.t, s.n}, 1, s.gap), {}, {}, accumulate};
          op.dw = accumulate ? t.random(sum, {s.n, s.k}) : t.empty(sum, {s.n, s.k});
          if (bias) op.dbias = accumulate ? t.random(sum, {s.n}) : t.empty(sum, {s.n});
          expect_like_reference(backend(), op);
          t.expect_guards();
        }
      }
    }
  }
}

namespace {

struct NormSize {
  std::int64_t t, groups, d;  // groups 0: [T, D]
};
constexpr NormSize kNormSizes[] = {{1, 0, 1},   {3, 0, 5},  {130, 0, 64}, {9, 0, 257},
                                   {5, 0, 768}, {7, 3, 16}, {40, 2, 65},  {3, 0, 1031}};

Shape norm_shape(const NormSize& s) { return s.groups ? Shape{s.t, s.groups, s.d} : Shape{s.t, s.d}; }

struct NormTypes {
  DType x, branch, y;
};
// The last two: what is normalised is the stream itself, as in BERT.
constexpr NormTypes kNormTypes[] = {
    {DType::kF32, DType::kF32, DType::kF32}, {DType::kBF16, DType::kBF16, DType::kBF16},
    {DType::kF16, DType::kF16, DType::kF16}, {DType::kF32, DType::kBF16, DType::kBF16},
    {DType::kF32, DType::kF16, DType::kF16}, {DType::kF32, DType::kBF16, DType::kF32},
    {DType::kF32, DType::kF16, DType::kF32}};

// Calls body(op, tensors) with every form of the forward pass.
template <class Body>
void for_each_norm(Body&& body) {
  for (const auto& types : kNormTypes) {
    for (const auto& s : kNormSizes) {
      for (NormKind kind : {NormKind::kLayerNorm, NormKind::kRmsNorm}) {
        for (int form = 0; form < (s.groups ? 1 : 5);
             ++form) {  // 0 plain, 1 branch, 2 branch in place, 3 dropout, 4 branch and no weights
          SCOPED_TRACE(fmt::format("{} + {} -> {}: {} {} kind {} form {}", name_of(types.x),
                                   name_of(types.branch), name_of(types.y), s.t, norm_shape(s).text(),
                                   static_cast<int>(kind), form));
          const std::int64_t gap = form == 0 ? 11 : 0;
          Tensors t;
          NormForward op;
          op.kind = kind;
          op.x = t.random(types.x, norm_shape(s), 2, gap, 0.5);
          if (form != 4) op.gamma = t.random(DType::kF32, {s.d}, 0.3, 0, 1);
          if (kind == NormKind::kLayerNorm && form != 1 && form != 4) op.beta = t.random(DType::kF32, {s.d});
          if (form > 0) {
            op.branch = t.random(types.branch, {s.t, s.d});
            op.sum = form == 2 ? op.x : t.empty(types.x, {s.t, s.d});
          }
          if (form == 3) op.dropout = some_dropout(0.3F);
          op.y = t.empty(types.y, norm_shape(s), gap);
          if (form != 2) op.stats = t.empty(DType::kF32, {op.x.elements() / s.d, 2});
          body(op, t);
          t.expect_guards();
        }
      }
    }
  }
}

}  // namespace

TEST_P(BackendTest, NormForward) {
  for_each_norm([&](const NormForward& op, Tensors&) { expect_like_reference(backend(), op); });
}

// The fused addition changes no bit: recomputing a norm from its stored sum gives what forward gave.
TEST_P(BackendTest, NormOfStoredSumHasTheSameBits) {
  for_each_norm([&](NormForward fused, Tensors& t) {
    if (!fused.branch) return;
    run_on(backend(), fused);
    NormForward plain = fused;
    plain.x = fused.sum, plain.sum = plain.branch = {};
    plain.y = t.empty(fused.y.dtype, fused.y.shape);
    run_on(backend(), plain);
    EXPECT_EQ(std::memcmp(plain.y.data, fused.y.data, plain.y.bytes()), 0);
  });
}

TEST_P(BackendTest, NormBackward) {
  for_each_norm([&](NormForward forward, Tensors& t) {
    const bool has_branch = forward.branch.data != nullptr,
               in_place = forward.sum && forward.sum.data == forward.x.data;
    if (!forward.stats)
      forward.stats = t.empty(DType::kF32, {forward.x.elements() / forward.x.shape.back(), 2});
    run_reference(forward);
    const std::int64_t gap = forward.x.stride0 - forward.x.shape.inner();
    const DType type = forward.x.dtype, inner = forward.y.dtype;
    const Shape d{forward.x.shape.back()};
    for (const bool accumulate : {true, false}) {
      NormBackward op;
      op.kind = forward.kind;
      op.x = has_branch ? forward.sum : forward.x;
      op.stats = forward.stats;
      op.gamma = forward.gamma;
      op.dy = t.random(inner, forward.x.shape, 1, gap);
      if (has_branch) {
        op.dresidual = t.random(type, forward.x.shape);
        op.dbranch = t.empty(inner, forward.x.shape);
        op.dropout = forward.dropout;
      }
      op.dx = has_branch && in_place ? op.dresidual : t.empty(type, forward.x.shape, gap);
      op.accumulate = accumulate;
      if (op.gamma) op.dgamma = accumulate ? t.random(DType::kF32, d) : t.empty(DType::kF32, d);
      if (op.kind == NormKind::kLayerNorm)
        op.dbeta = accumulate ? t.random(DType::kF32, d) : t.empty(DType::kF32, d);
      expect_like_reference(backend(), op);
      op.dx = op.x = t.copy(op.x);
      expect_like_reference(backend(), op);
    }
  });
}

namespace {

template <class Body>
void for_each_activation(Body&& body) {
  for (DType type : kTypes) {
    for (auto kind : {ActivationKind::kGelu, ActivationKind::kGeluTanh, ActivationKind::kQuickGelu,
                      ActivationKind::kSilu, ActivationKind::kRelu, ActivationKind::kSquaredRelu,
                      ActivationKind::kTanh, ActivationKind::kSigmoid}) {
      for (const bool gated : {false, true}) {
        for (const auto& [rows, f] : {std::pair{1, 1}, std::pair{3, 37}, std::pair{70, 128}}) {
          SCOPED_TRACE(fmt::format("{} kind {}{}: {} {}", name_of(type), static_cast<int>(kind),
                                   gated ? " gated" : "", rows, f));
          Tensors t;
          const TensorView x = t.random(type, {rows, gated ? 2 * f : f}, 3);
          Values values = load(x);
          const double special[] = {0.0, 20.0, -20.0, 90.0, -90.0, -0.0, 1e-5, -1e-5};
          for (std::size_t i = 0; i < std::size(special) && i < static_cast<std::size_t>(f); ++i)
            values[i] = special[i];
          store(values, x);
          body(type, kind, gated, x, Shape{rows, f}, t);
          t.expect_guards();
        }
      }
    }
  }
}

}  // namespace

TEST_P(BackendTest, ActivationForward) {
  for_each_activation(
      [&](DType type, ActivationKind kind, bool gated, const TensorView& x, const Shape& shape, Tensors& t) {
        ActivationForward op{kind, gated, x, t.empty(type, shape)};
        expect_like_reference(backend(), op);
        if (!gated) {
          op.y = op.x;
          expect_like_reference(backend(), op);
        }
      });
}

TEST_P(BackendTest, ActivationBackward) {
  for_each_activation(
      [&](DType type, ActivationKind kind, bool gated, const TensorView& x, const Shape& shape, Tensors& t) {
        const ActivationBackward op{kind, gated, x, t.random(type, shape), t.empty(type, x.shape)};
        expect_like_reference(backend(), op);
        if (!gated) {
          ActivationBackward over_dy = op;
          over_dy.dy = over_dy.dx = t.copy(op.dy);
          expect_like_reference(backend(), over_dy);
        }
        ActivationBackward over_x = op;
        over_x.dx = op.x;
        expect_like_reference(backend(), over_x);
      });
}

TEST_P(BackendTest, ClampedSwiglu) {
  for (const DType type : kTypes)
    for (const auto& [rows, f] : {std::pair{1, 1}, std::pair{3, 37}, std::pair{70, 128}}) {
      SCOPED_TRACE(fmt::format("{} {} {}", name_of(type), rows, f));
      Tensors t;
      const ActivationClamp clamp{1.3, 2};
      const TensorView x = t.random(type, {rows, 2 * f}, 3), dy = t.random(type, {rows, f});
      Values values = load(x);
      const double special[] = {2, 90, -90, 0, 2.5, -2};  // limits, and far beyond them
      for (std::size_t i = 0; f > 8 && i < std::size(special); ++i) {
        values[i] = special[i];
        values[static_cast<std::size_t>(f) + (i + 1) % std::size(special)] = special[i];
      }
      store(values, x);
      expect_like_reference(backend(), ActivationForward{ActivationKind::kClampedSwiglu, true, x,
                                                         t.empty(type, {rows, f}), clamp});
      expect_like_reference(backend(), ActivationBackward{ActivationKind::kClampedSwiglu, true, x, dy,
                                                          t.empty(type, x.shape), clamp});
      expect_like_reference(backend(),
                            ActivationBackward{ActivationKind::kClampedSwiglu, true, x, dy, x, clamp});
      t.expect_guards();
    }
}

TEST_P(BackendTest, Embedding) {
  for (const auto& [type, wide] :
       {std::pair{DType::kF32, DType::kF32}, std::pair{DType::kBF16, DType::kBF16},
        std::pair{DType::kBF16, DType::kF32}, std::pair{DType::kF16, DType::kF32}}) {
    for (const std::int64_t d : {1, 19, 64, 200}) {
      for (const bool positions : {false, true}) {
        for (const float p : {0.0F, 0.25F}) {
          SCOPED_TRACE(fmt::format("{} -> {}: {}{} dropout {}", name_of(type), name_of(wide), d,
                                   positions ? " positions" : "", p));
          Tensors t;
          EmbeddingForward forward;
          forward.tokens = t.random_int32(83, 23);
          forward.table = t.random(type, {23, d});
          if (positions) {
            forward.positions = t.random_int32(83, 83);
            forward.position_table = t.random(type, {83, d});
          }
          forward.dropout = some_dropout(p);
          forward.y = t.empty(wide, {83, d});
          expect_like_reference(backend(), forward);

          EmbeddingBackward backward;
          backward.tokens = forward.tokens;
          backward.positions = forward.positions;
          backward.dropout = forward.dropout;
          backward.dy = t.random(wide, {83, d});
          backward.dtable = t.random(DType::kF32, {23, d});
          if (positions) backward.dposition_table = t.random(DType::kF32, {83, d});
          expect_like_reference(backend(), backward);

          // Ids 5 to 16 of 23.
          forward.table = t.random(type, {12, d});
          backward.dtable = t.random(DType::kF32, {12, d});
          forward.first_id = backward.first_id = 5;
          forward.vocabulary = backward.vocabulary = 23;
          expect_like_reference(backend(), forward);
          expect_like_reference(backend(), backward);
          t.expect_guards();
        }
      }
    }
  }
}

namespace {

void expect_same_bits(const TensorView& got, const TensorView& expected) {
  const Values a = load(got), b = load(expected);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool same =
        (std::isnan(a[i]) && std::isnan(b[i])) || (a[i] == b[i] && std::signbit(a[i]) == std::signbit(b[i]));
    ASSERT_TRUE(same) << "element " << i << " of " << got.text() << " is " << a[i] << ", expected " << b[i];
  }
}

}  // namespace

TEST_P(BackendTest, CastRoundsToNearestEven) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  for (DType from : {DType::kF32, DType::kBF16, DType::kF16, DType::kF64}) {
    for (DType to : {DType::kF32, DType::kBF16, DType::kF16, DType::kF64}) {
      SCOPED_TRACE(fmt::format("{} -> {}", name_of(from), name_of(to)));
      Tensors t;
      const TensorView x = t.random(from, {70000});
      Values values = load(x);
      const double special[] = {0.0,          -0.0,
                                inf,          -inf,
                                std::nan(""), 65504,
                                65519.9,      65520,
                                1e-8,         5.9e-8,
                                2.98e-8,      2.99e-8,
                                1e-40,        1e-45,
                                3.4e38,       -3.4e38,
                                1.00390625,   1.01171875,
                                6.1e-5,       6.097e-5,
                                1 + 0x1p-11,  1 + 0x1p-11 + 0x1p-23,
                                0x1.fep127,   0x1.ffp127};
      std::copy(std::begin(special), std::end(special), values.begin());
      for (std::size_t i = 100; i < 40000; ++i) values[i] *= std::exp2(static_cast<double>(i % 120) - 60);
      store(values, x);
      const Cast op{x, t.empty(to, x.shape)}, expected{x, t.empty(to, x.shape)};
      run_on(backend(), op);
      run_reference(expected);
      expect_same_bits(op.y, expected.y);
      t.expect_guards();
    }
  }
}

TEST_P(BackendTest, ResidualAndDropout) {
  for (const auto& [x, branch] :
       {std::pair{DType::kF32, DType::kF32}, std::pair{DType::kBF16, DType::kBF16},
        std::pair{DType::kF16, DType::kF16}, std::pair{DType::kF32, DType::kBF16}}) {
    for (const auto& [rows, d] : {std::pair{1, 1}, std::pair{17, 33}, std::pair{64, 200}}) {
      for (const float p : {0.0F, 0.5F}) {
        SCOPED_TRACE(fmt::format("{} + {}: {} {} dropout {}", name_of(x), name_of(branch), rows, d, p));
        Tensors t;
        ResidualAdd op{t.random(x, {rows, d}), t.random(branch, {rows, d}), some_dropout(p),
                       t.empty(x, {rows, d})};
        expect_like_reference(backend(), op);
        op.y = op.x;
        expect_like_reference(backend(), op);
        expect_like_reference(backend(), DropoutBackward{op.x, some_dropout(p), t.empty(branch, {rows, d})});
        t.expect_guards();
      }
    }
  }
}

TEST_P(BackendTest, AddToAndFillZero) {
  for (const auto& [x, y] : {std::pair{DType::kF32, DType::kF32}, std::pair{DType::kBF16, DType::kF32},
                             std::pair{DType::kF16, DType::kF32}, std::pair{DType::kBF16, DType::kBF16}}) {
    for (const std::int64_t n : {1, 31, 70001}) {
      SCOPED_TRACE(fmt::format("{} += {}: {}", name_of(y), name_of(x), n));
      Tensors t;
      const AddTo op{t.random(x, {n}), t.random(y, {n})};
      expect_like_reference(backend(), op);
      run_on(backend(), FillZero{op.y});
      expect_same_bits(op.y, t.zeros(y, {n}));
      t.expect_guards();
    }
  }
}

}  // namespace stoa::ops::testing

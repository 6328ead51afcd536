// Tools around backends: checks, flops, meta, check, timer.
#include <gmock/gmock.h>

#include "device/meta/meta_device.h"
#include "ops/attention_cases.h"
#include "ops/meta/meta_backend.h"
#include "ops/op_test_util.h"
#include "ops/op_timer.h"

namespace stoa::ops::testing {

namespace {

using ::testing::HasSubstr;

template <class Op>
std::string refusal(const Op& op) {
  try {
    check(op);
  } catch (const ShapeError& error) {
    return error.what();
  }
  return "";
}

TensorView meta(DType type, Shape shape, std::uintptr_t address = 4096) {
  return TensorView(reinterpret_cast<void*>(address), type, shape, DeviceKind::kMeta);
}

}  // namespace

TEST(Checks, NameOperationTensorAndWhatWasExpected) {
  Tensors t;
  LinearForward op{t.random(DType::kBF16, {4, 768}),
                   t.random(DType::kBF16, {32, 700}),
                   {},
                   t.empty(DType::kBF16, {4, 32})};
  EXPECT_EQ(refusal(op), "linear forward: w is bf16[32, 700], expected bf16 [N, K] = [any, 768]");
  op.w = {};
  EXPECT_EQ(refusal(op), "linear forward: w is none, expected bf16 [N, K] = [any, 768]");
  op.w = t.random(DType::kBF16, {32, 768});
  EXPECT_EQ(refusal(op), "");
  op.y = t.empty(DType::kF16, {4, 32});
  EXPECT_THAT(refusal(op), HasSubstr("y is fp16[4, 32], expected fp32 or bf16"));
  op.y = t.empty(DType::kF32, {4, 32});
  EXPECT_EQ(refusal(op), "");
  op.bias = t.random(DType::kBF16, {32});
  EXPECT_THAT(refusal(op), HasSubstr("bias is bf16[32], expected fp32 [N] = [32]"));
  op.bias = {};
  op.y = meta(DType::kBF16, {4, 32});
  EXPECT_THAT(refusal(op), HasSubstr("x is on host, y on meta"));
}

TEST(Checks, RelativeBiasOfAttention) {
  Tensors t;
  AttentionForward op = make_attention(t, {"bias", 4, 2, 8, {{5, 5}}}, DType::kBF16);
  op.relative_bias = t.random(DType::kF32, {9, 2});
  EXPECT_THAT(refusal(op), HasSubstr("relative_bias is fp32[9, 2], expected fp32 [offsets, H] = [any, 4]"));
  op.relative_bias = t.random(DType::kF32, {9, 4});
  EXPECT_EQ(refusal(op), "");
  op.options.softcap = -1;
  EXPECT_THAT(refusal(op), HasSubstr("softcap is -1, expected 0 (none) or a finite number above"));
  op.options.softcap = 0;
  AttentionBackward backward = make_backward(t, op);
  EXPECT_EQ(refusal(backward), "");
  backward.relative_bias = {};
  EXPECT_THAT(refusal(backward),
              HasSubstr("drelative_bias is fp32[9, 4], expected none without relative_bias"));
}

TEST(Checks, StridesAndAliases) {
  Tensors t;
  LinearForward op{t.random(DType::kF32, {4, 8}, 1, 3),
                   t.random(DType::kF32, {5, 8}),
                   {},
                   t.empty(DType::kF32, {4, 5}, 2)};
  EXPECT_EQ(refusal(op), "");
  op.w = t.random(DType::kF32, {5, 8}, 1, 1);
  EXPECT_THAT(refusal(op), HasSubstr("w is fp32[5, 8] stride 9, expected contiguous rows"));
  op.w = t.random(DType::kF32, {5, 8});
  op.x.stride0 = 7;
  EXPECT_THAT(refusal(op), HasSubstr("rows of 8 elements overlap"));
}

TEST(Checks, FormsOfEachOperation) {
  Tensors t;
  const DType f = DType::kF32;
  NormForward norm;
  norm.x = t.random(f, {3, 8}), norm.gamma = t.random(f, {8}), norm.y = t.empty(f, {3, 8});
  EXPECT_EQ(refusal(norm), "");
  norm.kind = NormKind::kRmsNorm;
  norm.beta = norm.gamma;
  EXPECT_THAT(refusal(norm), HasSubstr("expected none for RMSNorm"));
  norm.beta = {};
  norm.branch = norm.y;
  EXPECT_THAT(refusal(norm), HasSubstr("sum is none"));
  norm.sum = norm.x;
  norm.dropout.p = 1;
  EXPECT_THAT(refusal(norm), HasSubstr("dropout is 1, expected a probability in [0, 1)"));

  ActivationForward activation{ActivationKind::kSilu, true, t.random(f, {2, 7}), t.empty(f, {2, 3})};
  EXPECT_THAT(refusal(activation), HasSubstr("even number of columns"));

  CrossEntropy loss;
  loss.logits = t.random(f, {2, 8}), loss.labels = t.int32({0, 1}), loss.loss_mask = t.zeros(f, {2});
  loss.losses = t.empty(f, {2}), loss.state = t.state();
  loss.vocabulary = 9;
  EXPECT_THAT(refusal(loss), HasSubstr("vocabulary is 9, expected 1 to 8 columns"));
  loss.vocabulary = 8;
  EXPECT_EQ(refusal(loss), "");
  loss.state = {};
  EXPECT_THAT(refusal(loss), HasSubstr("state is none"));

  SgdUpdate sgd;
  sgd.master = t.zeros(f, {5}), sgd.gradient = t.zeros(f, {5}), sgd.state = t.state(),
  sgd.momentum_factor = 0.9;
  EXPECT_THAT(refusal(sgd), HasSubstr("there is no momentum tensor"));

  AttentionForward attention;
  attention.q = t.zeros(f, {4, 6, 8}), attention.k = attention.v = t.zeros(f, {4, 4, 8}),
  attention.o = t.zeros(f, {4, 6, 8});
  EXPECT_THAT(refusal(attention), HasSubstr("q has 6 heads and k has 4"));

  EmbeddingForward embedding;
  embedding.tokens = t.int32({0}), embedding.table = t.zeros(f, {3, 4}), embedding.y = t.zeros(f, {1, 4});
  embedding.positions = embedding.tokens;
  EXPECT_THAT(refusal(embedding), HasSubstr("expected both or none"));
}

TEST(MatrixFlops, CausalAttentionIsHalfAndWindowsAreRespected) {
  AttentionForward op;
  op.q = op.o = meta(DType::kBF16, {4096, 12, 64});
  op.k = op.v = meta(DType::kBF16, {4096, 4, 64});
  op.segments.count = 4;
  op.segments.longest_q = op.segments.longest_k = 1024;
  const double square = 4.0 * 4 * 1024 * 1024 * 12 * 64;  // 4 segments, 2 products of 2 flops
  op.options.causal = false;
  EXPECT_DOUBLE_EQ(matrix_flops(op), square);
  op.options.causal = true;
  EXPECT_DOUBLE_EQ(matrix_flops(op), square / 2);
  op.options.window = 2048;
  EXPECT_DOUBLE_EQ(matrix_flops(op), square / 2);
  op.options.window = 256;  // a triangle of 256, then 256 each
  EXPECT_DOUBLE_EQ(matrix_flops(op), square * (0.25 * 0.25 / 2 + 0.25 * 0.75));

  AttentionBackward backward;
  backward.q = op.q, backward.k = op.k, backward.segments = op.segments;
  EXPECT_DOUBLE_EQ(matrix_flops(backward), square / 2 * 2.5);
  EXPECT_DOUBLE_EQ(
      matrix_flops(LinearForward{meta(DType::kBF16, {10, 20}), meta(DType::kBF16, {30, 20}), {}, {}}), 12000);
  EXPECT_EQ(matrix_flops(FillZero{}), 0);
}

TEST(MetaBackend, CountsWithoutMemory) {
  class Profile : public ReferenceBackend {
   public:
    using ReferenceBackend::workspace_bytes;
    std::size_t workspace_bytes(const LinearForward& op) const override {
      return 100 * static_cast<std::size_t>(op.x.shape[0]);
    }
  };
  const Profile profile;
  MetaBackend backend(profile);
  MetaDevice device;
  const auto stream = device.create_stream();
  Scratch scratch;
  OpContext context{backend, *stream, scratch};
  for (int i = 0; i < 2; ++i)
    run(context, LinearForward{meta(DType::kBF16, {8, 20}), meta(DType::kBF16, {30, 20}),
                               meta(DType::kF32, {30}), meta(DType::kBF16, {8, 30}, 8192)});
  EmbeddingForward lookup;
  lookup.tokens = meta(DType::kI32, {8});
  lookup.table = meta(DType::kBF16, {50000, 16});
  lookup.y = meta(DType::kBF16, {8, 16});
  run(context, lookup);

  const OpCount linear = backend.counts().at("linear forward");
  EXPECT_EQ(linear.calls, 2);
  EXPECT_EQ(linear.matrix_flops, 2 * 2.0 * 8 * 20 * 30);
  EXPECT_EQ(linear.read_bytes, 2 * (320 + 1200 + 120));
  EXPECT_EQ(linear.written_bytes, 2 * 480);
  EXPECT_EQ(backend.counts().at("embedding forward").read_bytes,
            32 + 8 * 32);                 // rows that are used, not the table
  EXPECT_EQ(scratch.high_water(), 896U);  // 800, aligned
  EXPECT_EQ(backend.total().calls, 3);
}

namespace {

// Right but for one operation, where one element is off.
class Wrong : public ReferenceBackend {
 public:
  using ReferenceBackend::execute;
  std::string_view name() const override { return "wrong"; }
  void execute(const ActivationForward& op, Resources resources) override {
    ReferenceBackend::execute(op, resources);
    op.y.as<float>()[5] *= 1 + error;
  }
  float error = 0;
};

}  // namespace

TEST(CheckBackend, NamesOperationTensorAndElement) {
  Tensors t;
  Wrong wrong;
  ReferenceBackend trusted;
  CheckBackend both(wrong, trusted);
  const TensorView x = t.random(DType::kF32, {3, 4}, 1, 0, 3);
  const LinearForward linear{t.random(DType::kF32, {3, 6}), t.random(DType::kF32, {4, 6}), {}, x};
  const ActivationForward activation{ActivationKind::kRelu, false, x, x};  // in place
  run_on(both, linear);
  store(Values(12, 2.0), x);
  wrong.error = 1e-6F;  // 17 units in the last place, within the 64 that sums are given
  run_on(both, activation);
  wrong.error = 1e-3F;
  try {
    run_on(both, activation);
    FAIL() << "the difference was not seen";
  } catch (const NumericsError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("operation 2 (activation forward): y fp32[3, 4] of wrong differs from reference: "
                          "element 5 is 2.002"));
    EXPECT_THAT(error.what(), HasSubstr("1 beyond"));
  }
}

TEST(CheckBackend, NaNAndInfinityAreDifferences) {
  Tensors t;
  const TensorView expected = t.of(DType::kF32, {4}, {1, std::nan(""), 2, 3});
  const TensorView got = t.copy(expected);
  EXPECT_FALSE(worst_mismatch(got, expected));
  got.as<float>()[2] = std::nanf("");
  ASSERT_TRUE(worst_mismatch(got, expected));
  EXPECT_EQ(worst_mismatch(got, expected)->index, 2);
  got.as<float>()[2] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(worst_mismatch(got, expected)->index, 2);
}

TEST(CheckBackend, CopiesKeepWhatIsShared) {
  Tensors t;
  const TensorView matrix = t.random(DType::kF32, {4, 10});
  TensorView left = matrix.columns(0, 6), right = matrix.columns(4, 6), other = t.random(DType::kF32, {3});
  TensorCopies copies;
  for (const TensorView& view : {left, right, other}) copies.add(view);
  copies.make();
  for (TensorView* view : {&left, &right, &other}) copies.redirect(*view);
  EXPECT_NE(left.data, matrix.data);
  EXPECT_EQ(static_cast<float*>(left.data) + 4, right.data);
  EXPECT_EQ(load(right), load(matrix.columns(4, 6)));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(other.data) % 128, 0U);
}

TEST(OpTimer, AddsUpPerOperation) {
  Tensors t;
  ReferenceBackend backend;
  InlineStream stream;
  Scratch scratch;
  OpTimer timer;
  OpContext context{backend, stream, scratch, &timer};
  EXPECT_EQ(timer.json(), "{}");
  const LinearForward linear{
      t.random(DType::kF32, {30, 60}), t.random(DType::kF32, {40, 60}), {}, t.empty(DType::kF32, {30, 40})};
  for (int i = 0; i < 3; ++i) run(context, linear);
  run(context, FillZero{linear.y});
  const auto& total = timer.totals().at("linear forward");
  EXPECT_EQ(total.calls, 3);
  EXPECT_EQ(total.matrix_flops, 3 * 2.0 * 30 * 40 * 60);
  EXPECT_GT(total.seconds, 0);
  EXPECT_LE(total.shortest * 3, total.seconds);
  EXPECT_EQ(timer.totals().at("fill zero").matrix_flops, 0);
  EXPECT_GE(timer.seconds(), total.seconds);
  EXPECT_THAT(timer.table(1.0), HasSubstr("linear forward"));
  EXPECT_THAT(timer.json(), HasSubstr(R"("linear forward":{"calls":3,"seconds":)"));
}

}  // namespace stoa::ops::testing

// T5 against logits, losses and gradients that transformers gave for weights by formula, and against itself
// under recomputation, split backward and differences.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "model/huggingface/families/families.h"
#include "model/huggingface/formula_weights.h"
#include "nn/relative_bias.h"

namespace stoa::model {
namespace {

using testing::Batch;
using testing::Model;

ModelSpec tiny(bool first_version) {
  ModelConfig c;
  c.kind = ModelKind::kT5;
  c.num_layers = 4;
  c.hidden_size = 16;
  c.ffn_hidden_size = 24;
  c.num_attention_heads = 4;
  c.kv_channels = 6;
  c.encoder_seq_length = 12;
  c.position_embedding_type = PositionEmbedding::kRelative;
  c.normalization = Normalization::kRmsNorm;
  c.layernorm_epsilon = 1e-6;
  c.activation = first_version ? Activation::kRelu : Activation::kGegluTanh;
  c.bias = BiasKind::kNone;
  c.share_embeddings_and_output_weights = first_version;
  c.vocab_size = 32;
  c.make_vocab_size_divisible_by = 8;
  c.t5.seq_length_dec = 7;
  c.t5.relative_attention_num_buckets = 8;
  c.t5.relative_attention_max_distance = 16;
  c.t5.scale_decoder_outputs = first_version;
  return resolve_model(c);
}

ChunkOptions options_of(const ModelSpec& spec, nn::Precision precision, std::int64_t rows = 1) {
  ChunkOptions o;
  o.layers = spec.config.num_layers;
  o.precision = precision;
  o.tokens = rows * spec.config.sample_length();
  return o;
}

Batch reference_batch() {
  return Batch::pairs(1, {3, 17, 5, 29, 11, 2, 23, 8, 14, 9, 30, 7}, {0, 4, 21, 6, 13, 28, 10},
                      {4, 21, 6, 13, 28, 10, 19});
}

struct Expected {
  bool first_version;
  std::vector<double> logits;
  double sum, loss, norm;
  std::vector<double> embedding;
  std::size_t tensors;
  std::int64_t elements;
};

void check(const Expected& e, nn::Precision precision, double tolerance, testing::Machine machine) {
  const ModelSpec spec = tiny(e.first_version);
  Model model(spec, options_of(spec, precision), std::move(machine));
  model.initialize_all(1);
  EXPECT_EQ(canonical_tensors(spec).size(), e.tensors);
  EXPECT_EQ(parameter_count(spec), e.elements);
  huggingface::testing::load_formula(model, spec, huggingface::kT5);
  Batch batch = reference_batch();
  const auto logits = model.logits(batch);
  ASSERT_EQ(logits.size(), 7u * 32);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(logits[6 * 32 + i], e.logits[i], tolerance);
  double sum = 0;
  for (const double logit : logits) sum += logit;
  EXPECT_NEAR(sum, e.sum, 20 * tolerance);
  EXPECT_NEAR(model.step(batch), e.loss, tolerance);
  double squares = 0;
  for (const auto& tensor : canonical_tensors(spec))
    for (const double g : model.canonical(tensor.name, true)) squares += g * g;
  EXPECT_NEAR(std::sqrt(squares), e.norm, tolerance * e.norm);
  const auto embedding = model.canonical("embedding.tokens.weight", true);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(embedding[3 * 16 + i], e.embedding[i], tolerance);
}

const Expected kFirst{true,     {.2369351, .2713297, .2007461, -.3325336}, -3.47826, 3.598317,
                      1.245394, {.0102355, .0062533, -.0208037},           47,       13056};
const Expected kSecond{false,    {1.250264, -.7711282, -1.691664, -1.323447},
                       28.72271, 3.904813,
                       18.31027, {.7308689, .0168482, -1.84663},
                       52,       15104};

TEST(T5, VersionOneAsTransformersHasIt) {
  check(kFirst, testing::fp64(), 1e-5, testing::reference());
  check(kFirst, {DType::kF32, DType::kF32}, 2e-5, testing::cpu());
}
TEST(T5, VersionOnePointOneAsTransformersHasIt) {
  check(kSecond, testing::fp64(), 1e-5, testing::reference());
  check(kSecond, {DType::kF32, DType::kF32}, 3e-5, testing::cpu());
}

TEST(T5, BucketsOfRelativePositions) {
  const nn::RelativeBuckets both{.count = 32, .max_distance = 128, .bidirectional = true},
      past{.count = 32, .max_distance = 128, .bidirectional = false};
  const std::vector<std::int64_t> offsets{-128, -64, -50, -20, -11, -1, 0, 1, 8, 12, 20, 50, 100},
      in_both{15, 14, 13, 10, 8, 1, 0, 17, 24, 25, 26, 29, 31},
      in_past{31, 26, 24, 17, 11, 1, 0, 0, 0, 0, 0, 0, 0};
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    EXPECT_EQ(both.bucket_of(offsets[i]), in_both[i]) << offsets[i];
    EXPECT_EQ(past.bucket_of(offsets[i]), in_past[i]) << offsets[i];
  }
  EXPECT_EQ(both.bucket_of(100000), both.bucket_of(128));
  EXPECT_EQ(past.bucket_of(-100000), past.bucket_of(-128));
  std::int64_t bucket = -1;  // first distance of every bucket
  std::vector<std::int64_t> firsts;
  for (std::int64_t distance = 0; distance <= 128; ++distance)
    if (both.bucket_of(-distance) != bucket) bucket = both.bucket_of(-distance), firsts.push_back(distance);
  EXPECT_EQ(firsts, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91}));
}

Batch random_batch(const ModelSpec& spec, std::int64_t rows) {
  const std::int64_t s = spec.config.encoder_seq_length, t = spec.config.t5.seq_length_dec;
  return Batch::pairs(rows, testing::ids(rows * s, 32, 1), testing::ids(rows * t, 32, 2),
                      testing::ids(rows * t, 32, 3));
}

// Every parameter's gradient at some places by central differences, with dropout.
TEST(T5, GradientsMatchDifferences) {
  // Then with bottlenecks of each type.
  for (const int version : {0, 1, 2, 3, 4, 5}) {
    ModelSpec spec = tiny(version == 0);
    spec.config.t5.relative_bias_per_layer = version == 2;
    spec.config.hidden_dropout = spec.config.attention_dropout = spec.config.embedding_dropout = 0.1;
    if (version >= 3) {
      spec.config.peft.peft_scheme = PeftScheme::kAdapter;
      spec.config.peft.bottleneck.type = static_cast<BottleneckType>(version - 3);
      spec.config.peft.bottleneck.adapter_dim = 3;
      spec.config.peft.bottleneck.scaling = 1.5;
      spec.config.peft.bottleneck.non_linearity = BottleneckActivation::kSwish;
      spec = resolve_model(spec.config, spec.vocabulary);
    }
    Model model(spec, options_of(spec, testing::fp64(), 2), testing::reference());
    model.initialize_all(5);
    Batch batch = random_batch(spec, 2);
    model.step(batch);
    std::map<std::string, std::vector<double>> gradients;
    for (const auto& tensor : canonical_tensors(spec))
      gradients[tensor.name] = model.canonical(tensor.name, true);
    for (const auto& tensor : canonical_tensors(spec)) {
      if (!tensor.trained) continue;
      const TensorView view = model.canonical_view(tensor.name);
      const std::int64_t n = view.elements();
      for (const std::int64_t i : {std::int64_t{0}, n / 3, n - 1}) {
        const double start = Model::doubles(view)[static_cast<std::size_t>(i)], step = 1e-5;
        Model::set(view, i, start + step);
        const double above = model.step(batch);
        Model::set(view, i, start - step);
        const double below = model.step(batch);
        Model::set(view, i, start);
        EXPECT_NEAR(gradients[tensor.name][static_cast<std::size_t>(i)], (above - below) / (2 * step), 1e-7)
            << tensor.name << "[" << i << "]";
      }
    }
  }
}

TEST(T5, RecomputationAndSplitBackwardChangeNoBit) {
  ModelSpec spec = tiny(false);
  spec.config.hidden_dropout = spec.config.attention_dropout = 0.1;
  const nn::Precision precision{DType::kBF16, DType::kF32};
  Batch batch = random_batch(spec, 2);
  std::vector<std::vector<std::byte>> expected;
  double loss = 0;
  for (const auto level :
       {nn::RecomputeLevel::kNone, nn::RecomputeLevel::kSelective, nn::RecomputeLevel::kFull})
    for (const bool split : {false, true}) {
      ChunkOptions o = options_of(spec, precision, 2);
      o.recompute.level = level;
      o.recompute.layers = level == nn::RecomputeLevel::kFull ? 2 : 1;
      o.split_backward = split;
      Model model(spec, o, testing::cpu());
      model.initialize_all(5);
      const double got = model.step(batch, split);
      if (expected.empty()) expected = model.gradient_bytes(), loss = got;
      EXPECT_EQ(got, loss);
      EXPECT_EQ(model.gradient_bytes(), expected) << "split " << split;
    }
}

TEST(T5, RefusesWhatIsNotOfItsKind) {
  const auto refusal = [](auto change) -> std::string {
    ModelConfig c = tiny(false).config;
    change(c);
    try {
      validate(c);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal([](ModelConfig&) {}), "");
  EXPECT_NE(refusal([](ModelConfig& c) { c.t5.encoder_layers = 4; }).find("expected 1 to 3"),
            std::string::npos);
  EXPECT_NE(refusal([](ModelConfig& c) { c.num_query_groups = 2; }).find("num_query_groups"),
            std::string::npos);
  EXPECT_NE(refusal([](ModelConfig& c) { c.attn_logit_softcapping = 30; }).find("attn_logit_softcapping"),
            std::string::npos);
  EXPECT_NE(refusal([](ModelConfig& c) { c.bias = BiasKind::kQkv; }).find("bias all or none"),
            std::string::npos);
  EXPECT_NE(refusal([](ModelConfig& c) { c.kind = ModelKind::kGpt; }).find("is for kind t5 only"),
            std::string::npos);
  EXPECT_NE(refusal([](ModelConfig& c) {
              c.position_embedding_type = PositionEmbedding::kRope;
            }).find("relative or"),
            std::string::npos);
}

}  // namespace
}  // namespace stoa::model

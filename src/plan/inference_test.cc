#include "plan/inference.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace stoa::plan {
namespace {

Cluster dgx_a100() {
  Cluster c;
  c.name = "dgx-a100";
  c.device.name = "A100";
  c.device.bf16_tflops = c.device.fp16_tflops = 312;
  c.device.fp32_tflops = 156;
  c.device.memory_gb = 80;
  c.device.memory_bandwidth_gbs = 2039;
  c.links.island_bandwidth_gbs = 300;
  c.links.network_bandwidth_gbs = 25;
  return c;
}

ModelShape decoder_of(std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
  ModelShape m;
  m.layers = layers;
  m.hidden = hidden;
  m.heads = m.kv_heads = heads;
  m.head_size = hidden / heads;
  m.ffn = 4 * hidden;
  m.vocabulary = 51200;
  m.sequence = 2048;
  return m;
}

// NVIDIA NeMo Megatron launcher, README 22.06 section 7.1.3 and later: FasterTransformer on DGX A100,
// milliseconds.
struct MeasuredLatency {
  std::int64_t layers, hidden, heads, tp, pp, batch, input, output;
  double ms;
};
constexpr MeasuredLatency kRows[] = {
    {24, 4096, 32, 1, 1, 1, 60, 20, 172},       {24, 4096, 32, 1, 1, 256, 200, 200, 9048},
    {24, 4096, 32, 1, 1, 1, 200, 200, 1623},    {24, 4096, 32, 2, 1, 1, 200, 200, 1219},
    {24, 4096, 32, 4, 1, 256, 200, 200, 3939},  {24, 4096, 32, 8, 1, 256, 60, 20, 436},
    {24, 4096, 32, 8, 1, 1, 60, 20, 115},       {24, 4096, 32, 8, 2, 1, 60, 20, 101},
    {24, 4096, 32, 8, 2, 256, 60, 20, 327},     {44, 6144, 48, 1, 1, 1, 60, 20, 560},
    {44, 6144, 48, 2, 1, 256, 60, 20, 2429},    {44, 6144, 48, 2, 1, 1, 200, 200, 3548},
    {44, 6144, 48, 8, 3, 1, 200, 200, 2123},    {44, 6144, 48, 8, 1, 1, 200, 200, 2230},
    {40, 5120, 40, 4, 1, 1, 60, 20, 189},       {96, 12288, 96, 8, 1, 1, 60, 20, 923},
    {96, 12288, 96, 8, 1, 64, 200, 200, 16181}, {64, 20480, 128, 8, 1, 1, 60, 20, 1354},
    {105, 20480, 128, 8, 3, 1, 200, 200, 21034}};

TEST(Inference, IsNearPublishedLatencies) {
  double sum = 0, worst = 0;
  for (const MeasuredLatency& row : kRows) {
    const auto a = predict_inference(decoder_of(row.layers, row.hidden, row.heads), row.input, row.output,
                                     {row.tp, row.pp, row.batch}, dgx_a100(), 80e9);
    const double error = std::abs(a.latency * 1e3 / row.ms - 1);
    sum += error;
    worst = std::max(worst, error);
  }
  EXPECT_LT(sum / std::size(kRows), 0.11);
  EXPECT_LT(worst, 0.30);
}

TEST(Inference, FindsTheFrontAndTheBestWithinALatency) {
  InferenceRequest request;
  request.model = decoder_of(24, 4096, 32);
  request.batches = {1, 4, 16, 64, 256};
  request.memory = 76e9;
  const InferenceResult all = plan_inference(request, dgx_a100());
  ASSERT_TRUE(all.best);
  for (std::size_t i = 1; i < all.front.size(); ++i) {
    EXPECT_GT(all.front[i].latency, all.front[i - 1].latency);
    EXPECT_GT(all.front[i].sequences_per_second, all.front[i - 1].sequences_per_second);
  }
  request.most_latency = 0.3;
  const InferenceResult quick = plan_inference(request, dgx_a100());
  ASSERT_TRUE(quick.best);
  EXPECT_LE(quick.best->latency, 0.3);
  for (const auto& a : quick.grid)
    if (a.fits && a.latency <= 0.3) {
      EXPECT_LE(a.sequences_per_second, quick.best->sequences_per_second);
    }
  request.most_latency = 1e-3;
  EXPECT_FALSE(plan_inference(request, dgx_a100()).best);
}

TEST(Inference, WeightsThatDoNotFitSaySo) {
  const auto a = predict_inference(decoder_of(96, 12288, 96), 60, 20, {1, 1, 1}, dgx_a100(), 80e9);
  EXPECT_FALSE(a.fits);
  EXPECT_NEAR(a.weight_bytes, 349e9, 3e9);
  // Keys and values: 2 x layers x hidden x 2 bytes x tokens.
  EXPECT_NEAR(a.cache_bytes, 2.0 * 96 * 12288 * 2 * 80, 1);
}

// Twelve layers of each stack with 8 heads of 64, a hidden size of 512.
ModelShape pairs_shape() {
  ModelShape m = decoder_of(24, 512, 8);
  m.ffn = 1024;
  m.gated = true;
  m.positions = m.biases = false;
  m.encoder_layers = 12;
  return m;
}

TEST(Inference, EncoderDecodersReadTheSourceOnce) {
  const ModelShape m = pairs_shape();
  const auto at = [&](std::int64_t input, std::int64_t output, std::int64_t pp = 1) {
    return predict_inference(m, input, output, {1, pp, 4}, dgx_a100(), 80e9);
  };
  // Projections of both stacks, those of cross-attention, embedding, and norms.
  const double h = 512, matrices = 24 * (4 * h * h + 3 * h * 1024) + 12 * 4 * h * h + 51200 * h;
  EXPECT_NEAR(m.parameters(), matrices, 1e5);
  EXPECT_NEAR(at(60, 20).weight_bytes, 2 * matrices, 3e5);
  // Keys and values of the decoder's layers: of the source, and of the answer.
  EXPECT_DOUBLE_EQ(at(60, 20).cache_bytes, 12.0 * 2 * 512 * 2 * 4 * 80);
  EXPECT_DOUBLE_EQ(at(60, 20, 2).cache_bytes, at(60, 20).cache_bytes);
  EXPECT_DOUBLE_EQ(at(60, 20, 4).cache_bytes, at(60, 20).cache_bytes / 2);
  // A longer source takes time once; its tokens are read for every token of the answer.
  EXPECT_GT(at(2000, 20).first_token, 3 * at(200, 20).first_token);
  EXPECT_LT(at(2000, 20).per_token, 1.5 * at(200, 20).per_token);
  EXPECT_GT(at(2000, 20).per_token, at(200, 20).per_token);
  // A token passes the layers of the decoder alone.
  ModelShape both = m;
  both.encoder_layers = 0;
  EXPECT_LT(at(60, 20).per_token,
            0.9 * predict_inference(both, 60, 20, {1, 1, 4}, dgx_a100(), 80e9).per_token);
  const ServingParts parts(m, {1, 1, 1}, dgx_a100());
  EXPECT_DOUBLE_EQ(parts.cache_bytes_per_token(), 12.0 * 2 * 512 * 2);
  const InferenceAnswer one = predict_inference(m, 300, 20, {1, 1, 1}, dgx_a100(), 80e9);
  EXPECT_NEAR(parts.seconds(1, 1) + parts.seconds_of_sources(300) + 301 * parts.seconds_per_token_read() +
                  300 * 300 * parts.seconds_per_source_pair(),
              one.first_token, 1e-9);
}

// `stoa bench engine` of a decoder and of T5 on two cores with AVX-512-BF16, where memory was read at 34
// GB/s: bench/results/2026-11-27-encoder-decoders.md.
TEST(Inference, IsNearTheEngineOnCpus) {
  Cluster c;
  c.device.family = "CPU";
  c.device.bf16_tflops = c.device.fp16_tflops = 0.4707;
  c.device.fp32_tflops = 0.24;
  c.device.memory_gb = 32;
  c.device.memory_bandwidth_gbs = 34.06;
  ModelShape m = decoder_of(24, 768, 12);
  m.ffn = 2048;
  m.gated = true;
  m.positions = m.biases = false;
  const auto milliseconds = [&](double seconds, double measured) {
    EXPECT_NEAR(seconds * 1e3 / measured, 1, 0.15);
  };
  m.vocabulary = 32128;
  const ServingParts decoder(m, {1, 1, 1}, c);
  milliseconds(decoder.seconds(1, 1), 13.3);
  milliseconds(decoder.seconds(512, 1), 650);
  m.vocabulary = 29184;
  m.encoder_layers = 12;
  const ServingParts pairs(m, {1, 1, 1}, c);
  milliseconds(pairs.seconds(1, 1), 7.26);
  const auto first = [&](std::int64_t source) {
    return pairs.seconds(1, 1) + pairs.seconds_of_sources(source) +
           static_cast<double>(source + 1) * pairs.seconds_per_token_read() +
           static_cast<double>(source * source) * pairs.seconds_per_source_pair();
  };
  milliseconds(first(256), 211);
  milliseconds(first(512), 428);
  milliseconds(first(1024), 826);
}

TEST(Inference, CountsTheScalesOfQuantisedFiles) {
  const auto bytes = [](InferenceType type) {
    return predict_inference(decoder_of(24, 4096, 32), 60, 20, {1, 1, 1, type}, dgx_a100(), 80e9)
        .weight_bytes;
  };
  const double weights = bytes(InferenceType::kBf16) / 2;
  EXPECT_DOUBLE_EQ(bytes(InferenceType::kQ8_0), weights * 34 / 32);
  EXPECT_DOUBLE_EQ(bytes(InferenceType::kQ4_K), weights * 144 / 256);
  EXPECT_DOUBLE_EQ(bytes(InferenceType::kQ6_K), weights * 210 / 256);
}

TEST(Inference, CountsKeysAndValuesInTheirOwnType) {
  const auto bytes = [](InferenceType weights, InferenceType cache) {
    return predict_inference(decoder_of(24, 4096, 32), 60, 20, {1, 1, 1, weights, cache}, dgx_a100(), 80e9)
        .cache_bytes;
  };
  const double numbers = bytes(InferenceType::kQ4_K, InferenceType::kFp16) / 2;
  EXPECT_DOUBLE_EQ(bytes(InferenceType::kQ4_K, InferenceType::kFp32), 4 * numbers);
  EXPECT_DOUBLE_EQ(bytes(InferenceType::kQ4_K, InferenceType::kInt8), numbers * 34 / 32);
  EXPECT_EQ(cache_type_of(InferenceType::kQ4_K), InferenceType::kFp16);
  EXPECT_EQ(cache_type_of(InferenceType::kFp32), InferenceType::kFp32);
  EXPECT_EQ(cache_type_of(DType::kU8), InferenceType::kInt8);
}

TEST(Inference, RefusesDegreesThatDoNotDivide) {
  EXPECT_THROW(predict_inference(decoder_of(24, 4096, 32), 60, 20, {3, 1, 1}, dgx_a100(), 80e9), ConfigError);
  EXPECT_THROW(predict_inference(decoder_of(24, 4096, 32), 60, 20, {1, 25, 1}, dgx_a100(), 80e9),
               ConfigError);
  EXPECT_THROW(predict_inference(decoder_of(24, 4096, 32), 0, 20, {1, 1, 1}, dgx_a100(), 80e9), ConfigError);
}

// A pass over a prompt, and one of a token per answer, are those of predict_inference().
TEST(Inference, PassesOfAServerAddUpToTheSame) {
  const ModelShape model = decoder_of(32, 4096, 32);
  const InferencePoint point{2, 1, 8};
  const InferenceAnswer answer = predict_inference(model, 512, 128, point, dgx_a100(), 80e9);
  const ServingParts parts(model, point, dgx_a100());
  const double prompts = parts.seconds(8 * 512, 8) + 8 * 512 * 256.0 * parts.seconds_per_pair();
  EXPECT_NEAR(prompts, answer.first_token, 1e-6 * answer.first_token);
  const double token = parts.seconds(8, 8) + 8 * (512 + 64) * parts.seconds_per_token_read();
  EXPECT_NEAR(token, answer.per_token, 0.01 * answer.per_token);
  EXPECT_EQ(parts.weight_bytes(), answer.weight_bytes);
  EXPECT_EQ(parts.cache_bytes_per_token() * 8 * 640, answer.cache_bytes);
}

}  // namespace
}  // namespace stoa::plan

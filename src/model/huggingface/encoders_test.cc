// BERT and RoBERTa against transformers: logits, losses and gradients of tiny models whose weights follow the
// integer formula, measured with transformers 5.23 and torch 2.15.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "model/huggingface/config_json.h"
#include "model/huggingface/formula_weights.h"

namespace stoa::model::huggingface {
namespace {

namespace fixture = model::testing;
using fixture::Batch;
using fixture::Model;

struct Case {
  const char *name, *keys;
  double first[4], second[4];  // logits of the last token of row 0, of token 4 of row 1
  double loss, norm, embedding[3];
  std::size_t tensors;
  std::int64_t elements;
};

constexpr Case kCases[] = {
    {"bert_pretraining",
     R"("model_type": "bert", "architectures": ["BertForPreTraining"])",
     {.8982388, 1.210369, -.2812465, 1.315908},
     {1.738274, -1.190886, .3734794, 1.263156},
     4.896594,
     8.509258,
     {.3118618, -.5273255, -.1685213},
     46,
     5778},
    {"bert_masked_lm",
     R"("model_type": "bert", "architectures": ["BertForMaskedLM"])",
     {-1.192811, .6867157, .9701099, -.6774201},
     {-1.812552, -1.133345, .04101759, .06723227},
     4.268325,
     7.076768,
     {-.1446593, -.2973661, .1552466},
     42,
     5472},
    {"roberta_masked_lm",
     R"("model_type": "roberta", "architectures": ["RobertaForMaskedLM"], "layer_norm_eps": 1e-5, "type_vocab_size": 1, "pad_token_id": 1)",
     {.9315047, .791876, .1917964, 2.381024},
     {.5734911, -.4597502, .8902147, 1.055373},
     4.449695,
     9.550276,
     {.0332335, -.1446939, -.1816596},
     42,
     5456}};

std::string config_of(const Case& c) {
  return fmt::format(
      R"({{{}, "vocab_size": 32, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 40,
          "hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0}})",
      c.keys);
}

// Row 0 has 12 tokens, row 1 has 5: what the padding of a rectangular batch would hold is not there.
Batch batch_of(bool types) {
  Batch out = Batch::masked({12, 5}, 12, 32, 1);
  out.tokens = {3, 17, 5, 29, 11, 2, 23, 8, 14, 9, 30, 7, 3, 17, 5, 29, 11};
  out.types = {0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1, 1};
  if (!types) out.types.assign(17, 0);
  out.masked_rows = {2, 7, 13, 0, 12};
  out.masked_labels = {6, 9, 4};
  out.masked_mask = {1, 1, 1};
  out.places.assign(17, 5);
  for (std::int32_t i = 0; i < 5; ++i)
    out.places[static_cast<std::size_t>(out.masked_rows[static_cast<std::size_t>(i)])] = i;
  out.mask.assign(17, 0);
  for (int i = 0; i < 3; ++i)
    out.mask[static_cast<std::size_t>(out.masked_rows[static_cast<std::size_t>(i)])] = 1;
  out.sentence_labels = {0, 1};
  out.sentence_weights.assign(2, 1.5f);
  return out;
}

class Encoders : public ::testing::TestWithParam<Case> {
 protected:
  void check(nn::Precision precision, double tolerance, fixture::Machine machine) {
    const Case& c = GetParam();
    const ModelDescription description = read_config(config_of(c));
    const ModelSpec spec = resolve_model(description.config);
    ChunkOptions o;
    o.layers = spec.config.num_layers;
    o.precision = precision;
    o.tokens = 24;
    Model model(spec, o, std::move(machine));
    model.initialize_all(1);
    testing::load_formula(model, spec, *description.family);
    const auto all = testing::sorted_tensors(spec, *description.family);
    EXPECT_EQ(all.size(), c.tensors);
    EXPECT_EQ(parameter_count(spec), c.elements);

    // The formula's weights are for training without dropout.
    Batch batch = batch_of(spec.config.bert.num_token_types == 2);
    const auto logits = model.logits(batch);
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_NEAR(logits[11 * 32 + i], c.first[i], tolerance);
      EXPECT_NEAR(logits[16 * 32 + i], c.second[i], tolerance);
    }
    EXPECT_NEAR(model.step(batch), c.loss, tolerance);
    double squares = 0;
    for (const auto& tensor : canonical_tensors(spec))
      for (const double g : model.canonical(tensor.name, true)) squares += g * g;
    EXPECT_NEAR(std::sqrt(squares), c.norm, 2 * tolerance);
    const auto embedding = model.canonical("embedding.tokens.weight", true);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(embedding[3 * 16 + i], c.embedding[i], tolerance);
  }
};

TEST_P(Encoders, AreThoseOfTransformersInFp64) { check(fixture::fp64(), 3e-6, fixture::reference()); }
TEST_P(Encoders, AreThoseOfTransformersInFp32) { check({DType::kF32, DType::kF32}, 2e-5, fixture::cpu()); }

TEST_P(Encoders, ConfigurationsComeBack) {
  const ModelDescription read = read_config(config_of(GetParam()));
  const ModelSpec spec = resolve_model(read.config);
  EXPECT_EQ(&choose_family(read.config), read.family);
  const ModelDescription again =
      read_config(write_config(spec, *read.family, DType::kF32, {.bos = {}, .pad = {}, .eos = {}}));
  EXPECT_EQ(again.config.bert.binary_head, read.config.bert.binary_head);
  EXPECT_EQ(again.config.bert.first_position, read.config.bert.first_position);
  EXPECT_EQ(again.config.max_positions(), read.config.max_positions());
}

INSTANTIATE_TEST_SUITE_P(Cases, Encoders, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Encoder, WhatIsNotThereIsRefused) {
  EXPECT_THROW(read_config(R"({"model_type": "bert", "position_embedding_type": "relative_key"})"),
               ConfigError);
  EXPECT_THROW(read_config(R"({"model_type": "bert", "is_decoder": true})"), ConfigError);
  EXPECT_THROW(read_config(R"({"model_type": "bert", "architectures": ["BertForMultipleChoice"]})"),
               ConfigError);
  EXPECT_THROW(read_config(R"({"model_type": "bert", "some_new_maths": 3})"), ConfigError);
  EXPECT_THROW(read_config(R"({"model_type": "brt"})"), ConfigError);
}

// Its positions begin after it.
TEST(Encoder, RobertaNamesThePaddingThatAFileLeavesToTheDefault) {
  const auto roberta =
      read_config(R"({"model_type": "roberta", "architectures": ["RobertaForMaskedLM"], "hidden_size": 12})");
  const ModelSpec spec = resolve_model(roberta.config);
  const auto written = nlohmann::json::parse(write_config(spec, *roberta.family, DType::kF32, {}));
  EXPECT_EQ(written["pad_token_id"], 1);
}

TEST(Encoder, RobertaHasTheDefaultsOfItsClass) {
  const auto roberta = read_config(R"({"model_type": "roberta", "architectures": ["RobertaForMaskedLM"]})");
  EXPECT_EQ(roberta.config.bert.num_token_types, 2);
  EXPECT_EQ(roberta.config.max_positions(), 510);
}

TEST(Encoder, NomicBertNamesSomePaddingAsTransformersWantsANumber) {
  const auto nomic =
      read_config(R"({"model_type": "nomic_bert", "architectures": ["NomicBertForMaskedLM"]})");
  const ModelSpec spec = resolve_model(nomic.config);
  const auto padding = [&](const SpecialTokens& special) {
    return nlohmann::json::parse(write_config(spec, *nomic.family, DType::kF32, special))["pad_token_id"];
  };
  EXPECT_EQ(padding({}), 0);
  EXPECT_EQ(padding({.bos = {}, .pad = 3, .eos = {}}), 3);
}

TEST(Encoder, ABareEncoderHasNoHead) {
  const auto bare = read_config(R"({"model_type": "bert", "architectures": ["BertModel"]})");
  EXPECT_FALSE(bare.config.bert.lm_head);
  const auto tensors_of = tensors(resolve_model(bare.config), *bare.family);
  EXPECT_EQ(tensors_of.size(), 5U + 12 * 16);
}

}  // namespace
}  // namespace stoa::model::huggingface

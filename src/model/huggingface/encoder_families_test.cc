// Tiny encoders and encoder-decoders of every family against transformers: tests/fixtures/model/encoders/,
// made by tests/oracle/make_encoder_fixtures.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/test_paths.h"
#include "model/huggingface/config_json.h"
#include "model/huggingface/formula_weights.h"

namespace stoa::model::huggingface {
namespace {

namespace fixture = model::testing;
namespace fs = std::filesystem;
using fixture::Batch;
using fixture::Model;
using nlohmann::json;

const fs::path kEncoders = test::source_dir() / "tests/fixtures/model/encoders";

std::vector<std::string> encoder_names() {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(kEncoders)) out.push_back(entry.path().stem());
  std::sort(out.begin(), out.end());
  return out;
}

json encoder_fixture(const std::string& name) {
  std::ifstream file(kEncoders / (name + ".json"));
  return json::parse(file);
}

// The rows of the fixture back to back, with the labels of some of their tokens.
Batch rows_of(const json& c, bool types) {
  std::vector<std::int64_t> lengths;
  for (const json& row : c["rows"]) lengths.push_back(static_cast<std::int64_t>(row.size()));
  Batch out = Batch::masked(lengths, lengths[0], 41, 1);
  out.tokens.clear(), out.types.clear(), out.masked_rows.clear(), out.masked_labels.clear();
  for (std::size_t r = 0; r < lengths.size(); ++r) {
    const auto begin = static_cast<std::int32_t>(out.tokens.size());
    for (const std::int32_t token : c["rows"][r]) out.tokens.push_back(token);
    for (const std::int32_t type : c["types"][r]) out.types.push_back(types ? type : 0);
    for (const json& label : c["labels"][r]) {
      out.masked_rows.push_back(begin + label[0].get<std::int32_t>());
      out.masked_labels.push_back(label[1]);
    }
  }
  const std::size_t labelled = out.masked_rows.size();
  for (std::size_t r = 0; r < lengths.size(); ++r) out.masked_rows.push_back(out.row_begin[r]);
  out.masked_mask.assign(labelled, 1);
  out.places.assign(out.tokens.size(), static_cast<std::int32_t>(out.masked_rows.size()));
  out.mask.assign(out.tokens.size(), 0);
  for (std::size_t i = 0; i < labelled; ++i) {
    out.places[static_cast<std::size_t>(out.masked_rows[i])] = static_cast<std::int32_t>(i);
    out.mask[static_cast<std::size_t>(out.masked_rows[i])] = 1;
  }
  out.sentence_labels.assign(lengths.size(), 0);
  out.sentence_weights.assign(lengths.size(), 1);
  return out;
}

class EncoderFamilies : public ::testing::TestWithParam<std::string> {
 protected:
  // All that differs between transformers' fp64 run and ours, as a share of the tensor's norm.
  void check(nn::Precision precision, double tolerance, fixture::Machine machine) {
    const json c = encoder_fixture(GetParam());
    const ModelDescription description = read_config(c["config"].dump());
    ModelConfig config = description.config;
    const bool pairs = config.kind == ModelKind::kT5;
    const auto source = static_cast<std::int64_t>(c["rows"][0].size());
    if (pairs) {
      config.encoder_seq_length = source;
      config.t5.seq_length_dec = static_cast<std::int64_t>(c["target"].size());
    }
    const ModelSpec spec = resolve_model(config);
    ChunkOptions o;
    o.layers = spec.config.num_layers;
    o.precision = precision;
    o.tokens = pairs ? spec.config.sample_length() : 2 * source;
    o.positions = source;
    Model model(spec, o, std::move(machine), source);
    model.initialize_all(1);
    testing::load_formula(model, spec, *description.family);

    Batch batch = pairs ? Batch::pairs(1, c["rows"][0].get<std::vector<std::int32_t>>(),
                                       c["target"].get<std::vector<std::int32_t>>(),
                                       c["target_labels"].get<std::vector<std::int32_t>>())
                        : rows_of(c, config.bert.num_token_types > 1);
    const auto logits = model.logits(batch);
    const auto vocabulary = static_cast<std::size_t>(spec.vocabulary);
    const auto expected = c["logits"].get<std::vector<double>>();
    std::vector<std::size_t> shown{0, 8};  // of a target
    if (!pairs) {
      shown.clear();
      for (std::size_t r = 0; r < c["shown"].size(); ++r)
        for (const std::size_t token : c["shown"][r])
          shown.push_back(static_cast<std::size_t>(batch.row_begin[r]) + token);
    }
    ASSERT_EQ(expected.size(), shown.size() * vocabulary);
    const double whole = c["logits_norm"];
    EXPECT_NEAR(fixture::norm(logits), whole, tolerance * whole);
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(logits[shown[i / vocabulary] * vocabulary + i % vocabulary], expected[i], tolerance) << i;

    EXPECT_NEAR(model.step(batch), c["loss"].get<double>(), tolerance);
    const auto all = testing::sorted_tensors(spec, *description.family);
    ASSERT_EQ(all.size(), c["gradients"].size());
    for (std::size_t t = 0; t < all.size(); ++t) {
      ASSERT_TRUE(c["gradients"].contains(all[t].name)) << all[t].name;
      const json& g = c["gradients"][all[t].name];
      const auto ours =
          testing::file_tensor(all[t], [&](const std::string& name) { return model.canonical(name, true); });
      double projection = 0;
      for (std::size_t i = 0; i < ours.size(); ++i)
        projection +=
            ours[i] * testing::formula(static_cast<std::uint32_t>(t + 500), static_cast<std::uint32_t>(i));
      const double size = g["norm"],
                   allowed = tolerance * size + 1e-6;  // 1e-6: a gradient that is zero in theory
      EXPECT_NEAR(fixture::norm(ours), size, allowed) << all[t].name;
      EXPECT_NEAR(projection, g["projection"].get<double>(), allowed) << all[t].name;
      for (std::size_t i = 0; i < g["first"].size(); ++i)
        EXPECT_NEAR(ours[i], g["first"][i].get<double>(), allowed) << all[t].name;
    }
  }
};

TEST_P(EncoderFamilies, Fp64) { check(fixture::fp64(), 1e-5, fixture::reference()); }
TEST_P(EncoderFamilies, Fp32) { check({DType::kF32, DType::kF32}, 1e-4, fixture::reference()); }
TEST_P(EncoderFamilies, CpuFp32) { check({DType::kF32, DType::kF32}, 1e-4, fixture::cpu()); }

// Written and read again: the same model.
TEST_P(EncoderFamilies, ConfigurationSurvives) {
  const ModelDescription first = read_config(encoder_fixture(GetParam())["config"].dump());
  const ModelSpec spec = resolve_model(first.config);
  std::string why;
  EXPECT_EQ(&choose_family(first.config, &why), first.family) << why;
  const std::string text = write_config(spec, *first.family, DType::kBF16, first.special);
  const ModelDescription again = read_config(text);
  EXPECT_EQ(again.family, first.family);
  // Equal configurations write equal files.
  EXPECT_EQ(write_config(resolve_model(again.config), *again.family, DType::kBF16, again.special), text);
}

INSTANTIATE_TEST_SUITE_P(Cases, EncoderFamilies, ::testing::ValuesIn(encoder_names()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace stoa::model::huggingface

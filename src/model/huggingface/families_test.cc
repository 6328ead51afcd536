// Tiny models of every family against transformers: tests/fixtures/model/families/, made by
// tests/oracle/make_model_fixtures.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

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

const fs::path kFixtures = test::source_dir() / "tests/fixtures/model/families";

std::vector<std::string> case_names() {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(kFixtures)) out.push_back(entry.path().stem());
  std::sort(out.begin(), out.end());
  return out;
}

json fixture_of(const std::string& name) {
  std::ifstream file(kFixtures / (name + ".json"));
  return json::parse(file);
}

class Families : public ::testing::TestWithParam<std::string> {
 protected:
  // All that differs between transformers' fp64 run and ours, as a share of the tensor's norm.
  void check(nn::Precision precision, double tolerance, fixture::Machine machine) {
    const json c = fixture_of(GetParam());
    const ModelDescription description = read_config(c["config"].dump());
    const ModelSpec spec = resolve_model(description.config);
    const auto tokens = c["tokens"].get<std::vector<std::int32_t>>();
    const std::int64_t rows = c["rows"], length = static_cast<std::int64_t>(tokens.size()) / rows;
    ChunkOptions o;
    o.layers = spec.config.num_layers;
    o.precision = precision;
    o.tokens = rows * length;
    o.positions = length;
    Model model(spec, o, std::move(machine), length);
    model.initialize_all(1);
    testing::load_formula(model, spec, *description.family);

    std::vector<std::int32_t> labels(tokens.begin() + 1, tokens.end());
    labels.push_back(0);
    Batch batch(rows, tokens, labels);
    for (std::int64_t r = 0; r < rows; ++r) batch.mask[static_cast<std::size_t>((r + 1) * length - 1)] = 0;
    const auto logits = model.logits(batch);
    const double whole = c["logits_norm"];
    EXPECT_NEAR(fixture::norm(logits), whole, tolerance * whole);
    const auto shown = c["shown"].get<std::vector<std::size_t>>();
    const auto expected = c["logits"].get<std::vector<double>>();
    const std::size_t vocabulary = static_cast<std::size_t>(spec.vocabulary);
    ASSERT_EQ(expected.size(), shown.size() * vocabulary);
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(logits[shown[i / vocabulary] * vocabulary + i % vocabulary], expected[i], tolerance);

    const double loss = c["loss"];
    EXPECT_NEAR(model.step(batch), loss, tolerance);
    const auto all = testing::sorted_tensors(spec, *description.family);
    ASSERT_EQ(all.size(), c["gradients"].size());
    for (std::size_t t = 0; t < all.size(); ++t) {
      ASSERT_TRUE(c["gradients"].contains(all[t].name)) << all[t].name;
      const json& g = c["gradients"][all[t].name];
      if (g.is_null()) continue;  // no parameter there
      Tensor form = all[t];
      form.zero_centered = false;  // a gradient is the same, whatever is added to the values
      const auto ours =
          testing::file_tensor(form, [&](const std::string& name) { return model.canonical(name, true); });
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

TEST_P(Families, Fp64) { check(fixture::fp64(), 1e-5, fixture::reference()); }
TEST_P(Families, Fp32) { check({DType::kF32, DType::kF32}, 1e-4, fixture::reference()); }
TEST_P(Families, CpuFp32) { check({DType::kF32, DType::kF32}, 1e-4, fixture::cpu()); }

// Written and read again: the same model, in the spelling of either version alone.
TEST_P(Families, ConfigurationSurvives) {
  const ModelDescription first = read_config(fixture_of(GetParam())["config"].dump());
  const ModelSpec spec = resolve_model(first.config);
  std::string why;
  // What has no mark of its own is written as the simplest family with that function.
  const Family& family = choose_family(first.config, &why);
  EXPECT_NE(&family, &stoa_family()) << why;
  const std::string text = write_config(spec, *first.family, DType::kBF16, first.special);
  const json written = json::parse(text);
  json four = written, five = written;
  four.erase("rope_parameters");
  four.erase("dtype");
  five.erase("rope_theta");
  five.erase("rope_scaling");
  five.erase("torch_dtype");
  for (const json& form : {written, four, five}) {
    const ModelDescription again = read_config(form.dump());
    EXPECT_EQ(again.family, first.family);
    EXPECT_EQ(again.dtype, "bfloat16");
    EXPECT_EQ(again.special.bos, first.special.bos);
    EXPECT_EQ(again.special.eos, first.special.eos);
    // Equal configurations write equal files.
    EXPECT_EQ(write_config(resolve_model(again.config), *again.family, DType::kBF16, again.special), text);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Families, ::testing::ValuesIn(case_names()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace stoa::model::huggingface

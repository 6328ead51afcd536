// Heads of labelled tasks against transformers: tests/fixtures/model/heads.json, made by
// tests/oracle/make_head_fixtures.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/test_paths.h"
#include "model/huggingface/config_json.h"
#include "model/huggingface/formula_weights.h"

namespace stoa::model::huggingface {
namespace {

namespace fixture = model::testing;
using fixture::Batch;
using fixture::Model;
using nlohmann::json;
using ::testing::HasSubstr;

const json& fixtures() {
  // From memory, three times as fast as from a stream: every start of the test program reads it for the
  // names.
  static const json all = json::parse(read_text(test::source_dir() / "tests/fixtures/model/heads.json"));
  return all;
}

std::vector<std::string> head_names() {
  std::vector<std::string> out;
  for (const auto& [name, value] : fixtures()["cases"].items()) out.push_back(name);
  return out;
}

// The rows of the fixture, back to back, with the labels of a task.
Batch batch_of(const ModelConfig& config) {
  const TaskConfig& task = config.task;
  const bool decoder = config.kind == ModelKind::kGpt;
  const auto rows = fixtures()["rows"].get<std::vector<std::vector<std::int32_t>>>();
  const auto types = fixtures()["types"].get<std::vector<std::vector<std::int32_t>>>();
  std::vector<std::int64_t> lengths;
  for (const auto& row : rows) lengths.push_back(static_cast<std::int64_t>(row.size()));
  Batch out = Batch::masked(lengths, lengths[0], 32, 1);
  out.tokens.clear(), out.types.clear();
  for (auto* list : {&out.masked_rows, &out.masked_labels, &out.sentence_labels}) list->clear();
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const auto begin = static_cast<std::int32_t>(out.tokens.size());
    out.tokens.insert(out.tokens.end(), rows[r].begin(), rows[r].end());
    out.types.insert(out.types.end(), types[r].begin(), types[r].end());
    std::vector<std::array<std::int32_t, 2>> labels;
    if (task.type == Task::kTokenClassification)
      labels = fixtures()["tags"][r].get<std::vector<std::array<std::int32_t, 2>>>();
    else if (task.type == Task::kSequenceClassification)
      labels = {{decoder ? static_cast<std::int32_t>(rows[r].size()) - 1 : 0,
                 fixtures()["classes"][r].get<std::int32_t>()}};
    else
      labels = {{0, fixtures()["spans"][r][0].get<std::int32_t>()}};
    for (const auto& [token, label] : labels) {
      out.masked_rows.push_back(begin + token);
      out.masked_labels.push_back(label);
    }
    out.sentence_labels.push_back(fixtures()["spans"][r][1]);
  }
  if (config.bert.num_token_types == 1 || decoder) out.types.assign(out.types.size(), 0);
  const std::size_t labelled = out.masked_rows.size();
  for (std::size_t r = 0; r < rows.size(); ++r) out.masked_rows.push_back(out.row_begin[r]);
  out.places.assign(out.tokens.size(), static_cast<std::int32_t>(out.masked_rows.size()));
  out.mask.assign(out.tokens.size(), 0);
  for (std::size_t i = 0; i < labelled; ++i) {
    out.places[static_cast<std::size_t>(out.masked_rows[i])] = static_cast<std::int32_t>(i);
    out.mask[static_cast<std::size_t>(out.masked_rows[i])] = 1;
  }
  out.masked_mask.assign(labelled, 1);
  out.sentence_weights.assign(rows.size(), 1);
  return out;
}

class Heads : public ::testing::TestWithParam<std::string> {
 protected:
  const json& wanted() const { return fixtures()["cases"][GetParam()]; }

  void check(nn::Precision precision, double tolerance, fixture::Machine machine) {
    const ModelDescription description = read_config(wanted()["config"].dump());
    const ModelSpec spec = resolve_model(description.config);
    ChunkOptions o;
    o.layers = spec.config.num_layers;
    o.precision = precision;
    o.tokens = 24;
    Model model(spec, o, std::move(machine));
    model.initialize_all(1);
    testing::load_formula(model, spec, *description.family);
    Batch batch = batch_of(spec.config);

    // Of a whole text the logits of an encoder's first token or of a decoder's last, else those of all
    // tokens.
    std::vector<std::int32_t> rows(batch.row_begin.begin(), batch.row_begin.end() - 1);
    if (spec.config.kind == ModelKind::kGpt)
      std::transform(batch.row_begin.begin() + 1, batch.row_begin.end(), rows.begin(),
                     [](std::int32_t end) { return end - 1; });
    if (spec.config.task.type != Task::kSequenceClassification) {
      rows.resize(batch.tokens.size());
      std::iota(rows.begin(), rows.end(), 0);
    }
    const auto count = static_cast<std::int64_t>(rows.size());
    const nn::BatchView view = batch.view();
    nn::Pass pass = model.pass(view, false);
    pass.state = {};
    Chunk::Outputs outputs;
    outputs.rows = rows;
    outputs.logits = model.new_memory(precision.vectors(), {count, spec.config.task.classes()});
    outputs.losses = model.new_memory(precision.vectors(), {static_cast<std::int64_t>(batch.tokens.size())});
    model.chunk.infer(pass, {}, outputs);
    const auto logits = Model::doubles(outputs.logits);
    std::vector<double> expected;
    for (const json& row : wanted()["logits"])
      for (const double x : row) expected.push_back(x);
    ASSERT_EQ(logits.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(logits[i], expected[i], tolerance);

    const double loss = wanted()["loss"];
    double evaluated = 0;
    const std::vector<double> losses = Model::doubles(outputs.losses);
    for (std::size_t i = 0; i < batch.masked_labels.size(); ++i)
      evaluated += losses[i] / static_cast<double>(batch.masked_labels.size());
    EXPECT_NEAR(evaluated, loss, tolerance);
    EXPECT_NEAR(model.step(batch), loss, tolerance);
    const auto all = testing::sorted_tensors(spec, *description.family);
    ASSERT_EQ(all.size(), wanted()["gradients"].size());
    for (std::size_t t = 0; t < all.size(); ++t) {
      ASSERT_TRUE(wanted()["gradients"].contains(all[t].name)) << all[t].name;
      Tensor form = all[t];
      form.zero_centered = false;  // a gradient is the same, whatever is added to the values
      const auto ours =
          testing::file_tensor(form, [&](const std::string& name) { return model.canonical(name, true); });
      double projection = 0;
      for (std::size_t i = 0; i < ours.size(); ++i)
        projection +=
            ours[i] * testing::formula(static_cast<std::uint32_t>(t + 500), static_cast<std::uint32_t>(i));
      const json& g = wanted()["gradients"][all[t].name];
      const double size = g["norm"], allowed = tolerance * size + 1e-6;
      EXPECT_NEAR(fixture::norm(ours), size, allowed) << all[t].name;
      EXPECT_NEAR(projection, g["projection"].get<double>(), allowed) << all[t].name;
    }
  }
};

TEST_P(Heads, AreThoseOfTransformersInFp64) { check(fixture::fp64(), 1e-5, fixture::reference()); }
TEST_P(Heads, AreThoseOfTransformersInFp32) { check({DType::kF32, DType::kF32}, 1e-4, fixture::cpu()); }

TEST_P(Heads, ConfigurationsComeBack) {
  const ModelDescription first = read_config(wanted()["config"].dump());
  std::string why;
  EXPECT_EQ(&choose_family(first.config, &why), first.family) << why;
  const ModelSpec spec = resolve_model(first.config);
  const std::string text = write_config(spec, *first.family, DType::kF32, first.special);
  const json written = json::parse(text);
  EXPECT_EQ(written["architectures"], wanted()["config"]["architectures"]);
  if (first.config.task.labels.empty()) {  // transformers writes LABEL_0 and LABEL_1, which name nothing
    EXPECT_FALSE(written.contains("id2label"));
  } else {
    EXPECT_EQ(written["id2label"], wanted()["config"]["id2label"]);
    EXPECT_EQ(written["label2id"], wanted()["config"]["label2id"]);
  }
  const ModelDescription again = read_config(text);
  EXPECT_EQ(write_config(resolve_model(again.config), *again.family, DType::kF32, again.special), text);
}

INSTANTIATE_TEST_SUITE_P(Cases, Heads, ::testing::ValuesIn(head_names()),
                         [](const auto& test) { return test.param; });

std::string heads_refusal(const std::string& keys) {
  try {
    read_config(R"({"model_type": "bert", "architectures": ["BertForSequenceClassification"], )" + keys +
                "}");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(EncoderHead, LabelsThatContradictAreRefused) {
  EXPECT_THAT(heads_refusal(R"("problem_type": "multi_label_classification")"), HasSubstr("single_label"));
  EXPECT_THAT(heads_refusal(R"("id2label": {"0": "x"}, "problem_type": "single_label_classification")"),
              HasSubstr("1 labels"));
  EXPECT_THAT(heads_refusal(R"("id2label": {"0": "x", "1": "y"}, "problem_type": "regression")"),
              HasSubstr("2 labels"));
  EXPECT_THAT(heads_refusal(R"("id2label": {"0": "x", "2": "y"})"), HasSubstr("no name for class 1"));
  EXPECT_THAT(heads_refusal(R"("id2label": {"0": "x", "1": "x"})"), HasSubstr("appears twice"));
  EXPECT_THAT(heads_refusal(R"("id2label": {"0": "x", "1": "y"}, "num_labels": 3)"),
              HasSubstr("num_labels is 3"));
  const auto plain = read_config(
      R"({"model_type": "bert", "architectures": ["BertForSequenceClassification"], "num_labels": 3})");
  EXPECT_EQ(plain.config.task.labels, (std::vector<std::string>{"LABEL_0", "LABEL_1", "LABEL_2"}));
}

// One label: a number, as transformers infers.
TEST(EncoderHead, OfOneLabelIsARegression) {
  for (const char* keys : {"", R"(, "problem_type": "regression")", R"(, "problem_type": null)"}) {
    const auto read =
        read_config(std::string(R"({"model_type": "bert", "architectures": ["BertForSequenceClassification"],
                        "id2label": {"0": "stars"})") +
                    keys + "}");
    EXPECT_TRUE(read.config.task.regression());
    EXPECT_EQ(read.config.task.classes(), 1);
    const std::string text = write_config(resolve_model(read.config), *read.family, DType::kF32, {});
    EXPECT_THAT(text, HasSubstr(R"("problem_type": "regression")"));
    EXPECT_TRUE(read_config(text).config.task.regression());
  }
}

// A model that was trained to predict words, read for another task.
TEST(EncoderHead, MayBeMissingInFiles) {
  const auto description =
      read_config(R"({"model_type": "bert", "architectures": ["BertForSequenceClassification"]})");
  const auto wanted = tensors(resolve_model(description.config), *description.family);
  std::vector<FileTensor> file;
  for (const Tensor& t : wanted)
    if (!t.name.starts_with("classifier")) file.push_back({t.name, t.shape});
  file.push_back({"cls.predictions.bias", {30522}});
  EXPECT_THROW(match(wanted, file, *description.family, description.config), DataError);
  const Match found = match(wanted, file, *description.family, description.config, true);
  EXPECT_EQ(std::count(found.names.begin(), found.names.end(), ""), 2);
  file.erase(file.begin());
  EXPECT_THROW(match(wanted, file, *description.family, description.config, true), DataError);
}

}  // namespace
}  // namespace stoa::model::huggingface

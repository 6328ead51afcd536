// Models of any bytes: read or refused, and applied without reading outside of what was read.
#include "base/error.h"
#include "curate/language/fasttext_model.h"

#ifndef STOA_LIBFUZZER
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "base/test_paths.h"
#include "curate/filters/language_filter.h"
#include "data/test_files.h"
#endif

namespace stoa::curate {
namespace {

void read_any_model(std::string content) {
  try {
    const FastTextModel model(std::move(content), "fuzz");
    std::vector<float> probabilities;
    model.predict("some words of a text \xc3\xa9", probabilities);
  } catch (const DataError&) {
  }
}

}  // namespace
}  // namespace stoa::curate

#ifdef STOA_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  stoa::curate::read_any_model({reinterpret_cast<const char*>(data), size});
  return 0;
}
#else
namespace stoa::curate {
namespace {

using ::testing::HasSubstr;

fs::path model_folder() { return test::source_dir() / "tests/fixtures/curate/fasttext"; }

TEST(FastText, PredictsWhatFastTextPredicts) {
  std::map<std::string, FastTextModel> models;
  std::istringstream rows(read_text(model_folder() / "predictions.jsonl"));
  int count = 0;  // the program prints six digits
  for (std::string line; std::getline(rows, line); ++count) {
    const auto row = nlohmann::json::parse(line);
    const std::string name = row["model"];
    const FastTextModel& model = models.try_emplace(name, model_folder() / name).first->second;
    std::vector<float> found;
    model.predict(row["text"].get<std::string>(), found);
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], row["labels"].value(model.labels()[i], 0.0), found[i] > 0.99999F ? 6e-6 : 2e-6)
          << name << ' ' << model.labels()[i] << ' ' << row["text"];
  }
  EXPECT_GT(count, 100);
  EXPECT_EQ(models.size(), 3U);
}

TEST(FastText, DamagedModelsAreRefused) {
  const std::string good = read_text(model_folder() / "hierarchical.ftz");
  const auto said = [&](std::string content) {
    try {
      FastTextModel(std::move(content), "m");
    } catch (const DataError& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(said(good), "no error");
  EXPECT_THAT(said("hello"), HasSubstr("does not begin as one"));
  EXPECT_THAT(said(good.substr(0, good.size() / 2)), HasSubstr("ends too soon"));
  std::string changed = good;
  changed[4] = 11;
  EXPECT_THAT(said(changed), HasSubstr("version is 11"));
  std::string no_number = read_text(model_folder() / "softmax.bin");  // ends with a row of weights
  EXPECT_EQ(said(no_number), "no error");
  no_number.replace(no_number.size() - 4, 4, "\xff\xff\xff\x7f");
  EXPECT_THAT(said(no_number), HasSubstr("a weight of it is no finite number"));
}

TEST(FastText, ModelsOfAnyBytes) {
  std::mt19937 random(2);
  for (const char* name : {"hierarchical.ftz", "softmax.bin"}) {
    const std::string good = read_text(model_folder() / name);
    for (std::size_t i = 0; i < std::min<std::size_t>(good.size(), 400); ++i)
      for (const char c : {'\0', '\1', '\xff', '\x7f'}) {
        std::string changed = good;
        changed[i] = c;
        read_any_model(changed);
      }
    for (int round = 0; round < 300; ++round) {
      std::string changed = good.substr(0, random() % good.size());
      for (int k = 0; k < 3 && !changed.empty(); ++k)
        changed[random() % changed.size()] = static_cast<char>(random());
      read_any_model(changed);
    }
  }
}

TEST(LanguageFilter, NamesAndDrops) {
  const auto judged = [](const LanguageFilter& options, const std::string& text, std::string metadata = "") {
    Document document{"", text, std::move(metadata), ""};
    Features features;
    features.reset(document.text);
    Verdict verdict;
    make_stage(options)->apply(document, features, verdict);
    return verdict.rule() + '|' + document.metadata;
  };
  LanguageFilter options;
  options.languages = {"en"};
  EXPECT_THAT(
      judged(options, "The quick brown fox jumps over the lazy dog, and then it goes home to its family."),
      HasSubstr("|\"language\":\"en\",\"language_score\":"));
  const std::string german =
      "Der schnelle braune Fuchs springt über den faulen Hund und geht dann nach Hause zu seiner Familie.";
  EXPECT_THAT(judged(options, german), HasSubstr("language|\"language\":\"de\""));
  EXPECT_THAT(judged(options, german, R"("a":[1,"language"],"language":{"x":"}"},"b":2)"),
              HasSubstr(R"("a":[1,"language"],"b":2,"language":"de")"));
  options.label_only = true;
  EXPECT_THAT(judged(options, german), HasSubstr("|\"language\":\"de\""));
  options = {};
  EXPECT_EQ(judged(options, ""), "language|\"language\":\"un\",\"language_score\":0.0000");
  options.model = (model_folder() / "softmax.bin").string();
  options.languages = {"code"};
  options.threshold = 0.5;
  EXPECT_THAT(judged(options, "if (verdict.below(count, 0)) return;"), HasSubstr("|\"language\":\"code\""));
}

}  // namespace
}  // namespace stoa::curate
#endif

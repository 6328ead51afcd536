// Models of texts as a user trains them and filters with them: n-grams, classifiers.
#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/file.h"
#include "workplace.h"

namespace stoa::e2e {
namespace {

using ::testing::HasSubstr;

class DataModels : public Workplace {
 protected:
  // Prose of the same words in two orders: as they were drawn, and sorted, which no prose is.
  void SetUp() override {
    Workplace::SetUp();
    std::ofstream prose(path("prose.jsonl")), lists(path("lists.jsonl"));
    for (std::uint64_t i = 0; i < 200; ++i) {
      const std::string text = pseudo_prose(i, 40);
      std::vector<std::string> words;
      std::istringstream in(text);
      for (std::string word; in >> word;) words.push_back(word);
      std::sort(words.begin(), words.end());
      std::string sorted;
      for (const std::string& word : words) sorted += word + ' ';
      prose << nlohmann::json{{"id", i}, {"text", text}}.dump() << '\n';
      lists << nlohmann::json{{"id", 1000 + i}, {"text", sorted}}.dump() << '\n';
    }
  }
  std::size_t kept(const std::string& output) const {
    const std::string lines = read_text(path(output + "/kept/00000.jsonl"));
    return static_cast<std::size_t>(std::count(lines.begin(), lines.end(), '\n'));
  }
};

TEST_F(DataModels, PerplexityTellsProseFromListsOfItsWords) {
  const auto made =
      json_of({"data", "train-lm", "prose.jsonl", "--order", "3", "--output", "prose.arpa", "--json"});
  EXPECT_EQ(made["ngrams"].size(), 3u);
  EXPECT_THAT(read_text(path("prose.arpa")), HasSubstr("\\3-grams:"));
  write_text(path("measure.yaml"), "stages:\n  - perplexity: {model: prose.arpa}\n");
  const auto mean = [&](const std::string& input) {
    stoa_ok({"data", "run", "measure.yaml", "--input", input + ".jsonl", "--output", "measured-" + input});
    std::ifstream in(path("measured-" + input + "/kept/00000.jsonl"));
    double sum = 0;
    int lines = 0;
    for (std::string line; std::getline(in, line); ++lines)
      sum += nlohmann::json::parse(line)["perplexity"].get<double>();
    return sum / lines;
  };
  const double prose = mean("prose"), lists = mean("lists");
  EXPECT_GT(lists, 1.2 * prose);
  write_text(path("limit.yaml"), "stages:\n  - perplexity: {model: prose.arpa, max_perplexity: " +
                                     std::to_string(0.01 * prose) + "}\n");
  const Outcome none = stoa({"data", "run", "limit.yaml", "--input", "prose.jsonl", "--output", "limited"});
  EXPECT_NE(none.exit_code, 0) << "nothing is left";

  const Outcome there = stoa({"data", "train-lm", "prose.jsonl", "--output", "prose.arpa"});
  EXPECT_EQ(there.exit_code, 1);
  EXPECT_THAT(there.err, HasSubstr("exists already"));
  write_text(path("none.yaml"), "stages: [perplexity]\n");
  EXPECT_THAT(stoa({"data", "run", "none.yaml", "--input", "prose.jsonl", "--output", "x"}).err,
              HasSubstr("needs a `model`"));
}

TEST_F(DataModels, ClassifiersKeepWhatIsLikeTheirExamples) {
  const Arguments train{"data",           "train-classifier", "--label", "hq=prose.jsonl", "--label",
                        "lq=lists.jsonl", "--epochs",         "20",      "--rate",         "0.5"};
  const auto made = json_of(train + Arguments{"--output", "quality.bin", "--json"});
  EXPECT_GT(made["macro_f1"].get<double>(), 0.9);
  EXPECT_EQ(made["examples"].get<int>() + made["held_out"].get<int>(), 400);
  stoa_ok(train + Arguments{"--output", "again.bin"});
  EXPECT_EQ(read_text(path("quality.bin")), read_text(path("again.bin")));
  write_text(path("keep.yaml"), "stages:\n  - classifier: {model: quality.bin, threshold: 0.5}\n");
  stoa_ok(
      {"data", "run", "keep.yaml", "--input", "prose.jsonl", "--input", "lists.jsonl", "--output", "best"});
  EXPECT_NEAR(static_cast<double>(kept("best")), 200, 20);
  EXPECT_THAT(read_text(path("best/kept/00000.jsonl")), HasSubstr("\"quality\":0."));
  write_text(path("draw.yaml"), "stages:\n  - classifier: {model: quality.bin, pareto_alpha: 3}\n");
  stoa_ok(
      {"data", "run", "draw.yaml", "--input", "prose.jsonl", "--input", "lists.jsonl", "--output", "drawn"});
  EXPECT_GT(kept("drawn"), 150u);
  EXPECT_LT(kept("drawn"), 300u);
  write_text(path("label.yaml"), "stages:\n  - classifier: {model: quality.bin, label: hw}\n");
  EXPECT_THAT(stoa({"data", "run", "label.yaml", "--input", "prose.jsonl", "--output", "x"}).err,
              HasSubstr("did you mean"));
  // A language model by the same means.
  write_text(path("language.yaml"),
             "stages:\n  - language: {model: quality.bin, languages: [hq], threshold: 0.5}\n");
  stoa_ok({"data", "run", "language.yaml", "--input", "prose.jsonl", "--output", "named"});
  EXPECT_GT(kept("named"), 180u);
  // A label keeps its only example, whatever is held out.
  write_text(path("single.txt"), "one example of its own");
  const auto single = json_of({"data", "train-classifier", "--label", "many=prose.jsonl", "--label",
                               "single=single.txt", "--held-out", "0.9", "--output", "single.bin", "--json"});
  EXPECT_EQ(single["labels"]["single"]["held_out"], 0);
  EXPECT_THAT(stoa({"data", "train-classifier", "--label", "a=prose.jsonl", "--output", "one.bin"}).err,
              HasSubstr("two or more"));
  EXPECT_THAT(stoa({"data", "train-classifier", "--label", "prose.jsonl", "--output", "one.bin"}).err,
              HasSubstr("NAME=FILE"));
}

}  // namespace
}  // namespace stoa::e2e

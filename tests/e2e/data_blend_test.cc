// Sources blended into token files: weights, epochs, caps, splits, and the same bytes from the manifest.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <set>

#include "base/file.h"
#include "workplace.h"

namespace stoa::e2e {
namespace {

using ::testing::HasSubstr;

class DataBlend : public Workplace {
 protected:
  void SetUp() override {
    Workplace::SetUp();
    texts("large", 0, 400);
    texts("small", 1000, 40);
    write_text(path("recipe.yaml"),
               "temperature: 0.3\nmax_epochs: 3\ntrain: 0.9\nvalidation: 0.1\nsources:\n"
               "  - {name: large, path: large.jsonl}\n  - {name: small, path: small.jsonl}\n");
  }
  void texts(const std::string& name, int first, int count) const {
    std::ofstream out(path(name + ".jsonl"));
    for (int i = 0; i < count; ++i)
      out << nlohmann::json{{"text", pseudo_prose(static_cast<std::uint64_t>(first + i), 40)}}.dump() << '\n';
  }
  Arguments blend(const std::string& recipe, const std::string& output, const Arguments& more = {}) const {
    return Arguments{"data", "blend", recipe, "--tokenizer", "tok", "--output", output, "--json"} + more;
  }
  // The bytes of every sequence of token files: after 18 bytes of head and two counts, lengths of two-byte
  // tokens.
  std::vector<std::string> documents(const std::string& prefix) const {
    const std::string idx = read_text(path(prefix + ".idx")), bin = read_text(path(prefix + ".bin"));
    std::uint64_t count = 0;
    std::memcpy(&count, idx.data() + 18, sizeof(count));
    std::vector<std::string> found;
    std::size_t at = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      std::int32_t length = 0;
      std::memcpy(&length, idx.data() + 34 + 4 * i, sizeof(length));
      found.push_back(bin.substr(at, 2 * static_cast<std::size_t>(length)));
      at += 2 * static_cast<std::size_t>(length);
    }
    EXPECT_EQ(at, bin.size());
    return found;
  }
  void refuse(const Arguments& arguments, const std::string& words) const {
    const Outcome outcome = stoa(arguments);
    EXPECT_EQ(outcome.exit_code, 1) << outcome.text();
    EXPECT_THAT(outcome.err, HasSubstr(words));
  }
};

TEST_F(DataBlend, WeightsEpochsSplitsAndReplay) {
  const auto one = json_of(blend("recipe.yaml", "one", {"--workers", "1"}));
  const auto &large = one["sources"][0], &small = one["sources"][1];
  EXPECT_EQ(large["documents"], 400);
  // Tokens to the power of .3: 1 : 2, so that the small one is capped, and the large one gets the rest.
  EXPECT_NEAR(large["weight"].get<double>(), 2.0 / 3, 0.02);
  EXPECT_TRUE(small["capped"]);
  EXPECT_EQ(small["epochs"], 3);
  EXPECT_LT(large["epochs"].get<double>(), 1);
  EXPECT_EQ(small["taken_tokens"].get<std::int64_t>(), 3 * small["train_tokens"].get<std::int64_t>());
  EXPECT_LT(small["effective_tokens"].get<double>(), small["taken_tokens"].get<double>());
  const auto train = documents("one-train"), validation = documents("one-validation");
  EXPECT_EQ(one["splits"][0]["tokens"].get<std::int64_t>(),
            large["taken_tokens"].get<std::int64_t>() + small["taken_tokens"].get<std::int64_t>());
  EXPECT_GT(validation.size(), 20U);
  EXPECT_LT(validation.size(), 80U);
  EXPECT_FALSE(fs::exists(path("one-test.bin")));
  EXPECT_FALSE(fs::exists(path("one.work")));
  // No document of the validation split is in the training split.
  const std::set<std::string> seen(train.begin(), train.end());
  for (const std::string& document : validation) EXPECT_FALSE(seen.contains(document));
  stoa_ok(blend("one.blend.json", "two", {"--workers", "3", "--memory", "0.001"}));
  for (const char* file : {"-train.bin", "-train.idx", "-validation.bin", "-validation.idx", ".blend.json"})
    EXPECT_EQ(read_text(path(std::string("one") + file)), read_text(path(std::string("two") + file))) << file;
  // From token files, without a tokenizer.
  write_text(path("files.yaml"),
             "seed: 5\ntokens: 3000\nsources:\n  - {path: one-train, weight: 1, max_epochs: 1}\n  - {path: "
             "one-validation, weight: 1}\n");
  const auto files = json_of({"data", "blend", "files.yaml", "--output", "three", "--json"});
  EXPECT_NEAR(files["sources"][0]["taken_tokens"].get<double>(), 1500, 200);
  EXPECT_NEAR(files["splits"][0]["tokens"].get<double>(), 3000, 400);
  texts("small", 2000, 41);
  refuse(blend("one.blend.json", "four"), "is not what it was");
  EXPECT_FALSE(fs::exists(path("four-train.bin")));
  refuse(blend("recipe.yaml", "one"), "exists");
  refuse({"data", "blend", "recipe.yaml", "--output", "four"}, "--tokenizer");
  write_text(path("recipe.yaml"), "sources: [{path: small.jsonl, weight: 1}, {path: large.jsonl}]");
  refuse(blend("recipe.yaml", "four"), "to all or to none");
  write_text(path("recipe.yaml"), "train: 0.5\nsources: [{path: small.jsonl}]");
  refuse(blend("recipe.yaml", "four"), "sum to 0.5");
  write_text(path("recipe.yaml"), "sources: []");
  refuse(blend("recipe.yaml", "four"), "sources");
}

// The target is like one of two sources: its weight comes out large, and the loss is below that of the mean
// trial. Trials that were done are not run again.
TEST_F(DataBlend, MixFindsTheSourceThatIsLikeTheTarget) {
  std::ofstream like(path("like.jsonl")), other(path("other.jsonl")), target(path("target.jsonl"));
  for (int i = 0; i < 60; ++i) {
    std::string letters, digits;
    for (int k = 0; k < 60; ++k) {
      letters += std::string(i * k % 7 < 3 ? "the stone walks " : "bread and water ");
      digits += std::to_string(i * 7919 + k * 104729) + " ";
    }
    (i < 50 ? like : target) << nlohmann::json{{"text", letters}}.dump() << '\n';
    other << nlohmann::json{{"text", digits}}.dump() << '\n';
  }
  like.close();
  other.close();
  target.close();
  write_text(path("two.yaml"),
             "sources:\n  - {name: like, path: like.jsonl}\n  - {name: other, path: other.jsonl}\n");
  const Arguments mix{"data",        "mix",     "two.yaml",   "--target", "target.jsonl",
                      "--tokenizer", "tok",     "--output",   "mix",      "--trials",
                      "7",           "--steps", "40",         "--layers", "1",
                      "--hidden",    "16",      "--sequence", "32",       "--json"};
  const auto result = json_of(mix);
  EXPECT_GT(result["weights"]["like"], 0.6) << result;
  EXPECT_LT(result["loss"], result["trials"]["mean_loss"]) << result;
  EXPECT_TRUE(result["fit"].contains("rank_correlation"));
  const std::string trials = read_text(path("mix/trials.jsonl"));
  EXPECT_EQ(std::count(trials.begin(), trials.end(), '\n'), 7);
  stoa_ok({"data", "blend", "mix/recipe.yaml", "--tokenizer", "tok", "--output", "mixed"});
  EXPECT_EQ(json_of(mix)["weights"], result["weights"]);
  EXPECT_EQ(read_text(path("mix/trials.jsonl")), trials);
  const Outcome few = stoa({"data", "mix", "two.yaml", "--target", "target.jsonl", "--tokenizer", "tok",
                            "--output", "few", "--trials", "5"});
  EXPECT_EQ(few.exit_code, 2) << few.text();
  EXPECT_THAT(few.err, HasSubstr("at least 6"));
  const Outcome changed = stoa({"data", "mix", "two.yaml", "--target", "like.jsonl", "--tokenizer", "tok",
                                "--output", "mix", "--trials", "7"});
  EXPECT_THAT(changed.err, HasSubstr("another recipe, target or model"));
}

}  // namespace
}  // namespace stoa::e2e

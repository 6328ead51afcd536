// Checkpoints of other programs, imported and used.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <sstream>

#include "base/file.h"
#include "base/test_paths.h"
#include "workplace.h"

namespace stoa::e2e {
namespace {

using ::testing::HasSubstr;

fs::path fixtures() { return test::source_dir() / "tests/fixtures"; }

class Import : public Workplace {};

// Megatron-Core wrote it on 4 ranks (TP2 PP2), and answered on one.
TEST_F(Import, OfMegatronAnswersAsMegatron) {
  const auto answers = nlohmann::json::parse(read_text(fixtures() / "megatron/answers.json"));
  const auto result = json_of(
      {"checkpoint", "import", fixtures() / "megatron", "--output", "model", "--tokenizer", "tok", "--json"});
  EXPECT_EQ(result["tensors"], 3 + 2 * 9);
  EXPECT_TRUE(fs::exists(path("model/tokenizer.json")));
  std::string lines;
  for (const auto& answer : answers) {
    for (const auto& id : answer["ids"]) lines += fmt::format("{} ", id.get<int>());
    lines += '\n';
  }
  write_text(path("ids.txt"), lines);
  std::istringstream out(stoa_ok({"score", "model", "ids.txt", "--ids", "--dtype", "fp32"}).out);
  for (const auto& answer : answers) {
    std::string line;
    ASSERT_TRUE(std::getline(out, line));
    const auto found = nlohmann::json::parse(line);
    ASSERT_EQ(found["ids"], answer["ids"]);
    for (std::size_t i = 1; i < found["ids"].size(); ++i)
      EXPECT_NEAR(found["logprobs"][i].get<double>(), answer["logprobs"][i].get<double>(), 1e-4) << i;
  }
  // 40 of 48 rows of the vocabulary are not padding; one may ask for others.
  EXPECT_EQ(nlohmann::json::parse(read_text(path("model/config.json")))["vocab_size"], 40);
  stoa_ok({"checkpoint", "import", fixtures() / "megatron/iter_0000007", "--output", "padded", "--vocab-size",
           "48"});
  EXPECT_EQ(nlohmann::json::parse(read_text(path("padded/config.json")))["vocab_size"], 48);
}

// The weights of the fixture llama, split over two ranks.
TEST_F(Import, OfTorchtitanIsTheModelThatItWasMadeOf) {
  stoa_ok({"checkpoint", "import", fixtures() / "torchtitan", "--output", "model"});
  fs::create_directories(path("twin"));
  for (const char* name : {"config.json", "model.safetensors"})
    fs::copy_file(fixtures() / "torch/llama" / name, path("twin") / name);
  const Outcome compared = stoa({"compare", "model", "twin"});
  EXPECT_EQ(compared.exit_code, 0) << compared.text();
  write_text(path("ids.txt"), "1 5 9 33 2\n");
  const auto scores = [&](const std::string& model) {
    return stoa_ok({"score", model, "ids.txt", "--ids", "--dtype", "fp32"}).out;
  };
  EXPECT_EQ(scores("model"), scores("twin"));
}

TEST_F(Import, OfPyTorchsWeightsIsSafetensors) {
  fs::create_directories(path("old"));
  for (const char* name : {"config.json", "pytorch_model.bin"})
    fs::copy_file(fixtures() / "torch/llama" / name, path("old") / name);
  write_text(path("old/tokenizer.json"), "{}");
  stoa_ok({"checkpoint", "import", "old", "--output", "new"});
  EXPECT_TRUE(fs::exists(path("new/model.safetensors")));
  EXPECT_TRUE(fs::exists(path("new/tokenizer.json")));
  EXPECT_EQ(stoa({"compare", "old", "new"}).exit_code, 0);
}

TEST_F(Import, SaysWhatItFoundInstead) {
  const auto refused = [&](const Arguments& arguments, const std::string& message) {
    const Outcome outcome =
        stoa(Arguments{"checkpoint", "import"} + arguments + Arguments{"--output", "out"});
    EXPECT_EQ(outcome.exit_code, 1) << outcome.text();
    EXPECT_THAT(outcome.err, HasSubstr(message));
    EXPECT_FALSE(fs::exists(path("out")));
  };
  refused({"absent"}, "'absent' does not exist");
  refused({"tok"}, "it holds");
  fs::copy(fixtures() / "torchtitan", path("titan"));
  fs::remove(path("titan/params.json"));
  refused({"titan"}, "--config FILE");
  write_text(path("wrong.json"), R"({"n_heads": 8, "n_kv_heads": 2})");
  refused({"titan", "--config", "wrong.json"},
          "wrong shape: layers.0.attention.wk.weight is [8, 16], expected [4, 16]");
  write_text(path("other.json"), R"({"n_heads": 4, "n_kv_heads": 2, "n_layers": 3})");
  refused({"titan", "--config", "other.json"}, "says n_layers = 3, and the checkpoint has 2");
  write_text(path("other.json"), R"({"model_type": "llama", "num_attention_heads": 4, "hidden_size": 32})");
  refused({"titan", "--config", "other.json"}, "says hidden_size = 32, and the checkpoint has 16");
  fs::remove(path("titan/__1_0.distcp"));
  refused({"titan", "--config", fixtures() / "torchtitan/params.json"}, "__1_0.distcp");
  fs::create_directories(path("older/iter_0000003/mp_rank_00_001"));
  write_text(path("older/latest_checkpointed_iteration.txt"), "3");
  refused({"older"}, "mp_rank_");
  write_text(path("older/latest_checkpointed_iteration.txt"), "4");
  refused({"older"}, "'iter_0000004', which does not exist");
  write_text(path("older/latest_checkpointed_iteration.txt"), "");
  refused({"older"}, "names an iteration or 'release'");
}

}  // namespace
}  // namespace stoa::e2e

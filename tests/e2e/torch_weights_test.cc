// Models whose weights PyTorch wrote, through the commands that take a MODEL: the same as their safetensors.
#include <gmock/gmock.h>

#include "base/file.h"
#include "base/test_paths.h"
#include "workplace.h"

namespace stoa::e2e {
namespace {

using ::testing::HasSubstr;

class TorchWeights : public Workplace {
 protected:
  void put(const std::string& folder, const std::string& name, const std::string& as) const {
    fs::create_directories(path(folder));
    fs::copy_file(test::source_dir() / "tests/fixtures/torch/llama" / name, path(folder) / as);
  }
  void make(const std::string& folder, const Arguments& files) const {
    put(folder, "config.json", "config.json");
    for (const auto& file : files) put(folder, file, file == "before_1.6.bin" ? "pytorch_model.bin" : file);
  }
};

TEST_F(TorchWeights, AreReadByEveryCommandAsTheirSafetensors) {
  const Arguments shards{"pytorch_model.bin.index.json", "pytorch_model-00001-of-00002.bin",
                         "pytorch_model-00002-of-00002.bin"};
  make("twin", {"model.safetensors"});
  make("zip", {"pytorch_model.bin"});
  make("old", {"before_1.6.bin"});
  make("shards", shards);
  write_text(path("ids.txt"), "1 5 9 33 2\n7 7 7\n");
  const auto scores = [&](const std::string& model) {
    return stoa_ok({"score", model, "ids.txt", "--ids", "--dtype", "fp32"}).out;
  };
  const std::string expected = scores("twin");
  EXPECT_THAT(expected, HasSubstr("logprobs"));
  for (const std::string model : {"zip", "old", "shards"}) {
    EXPECT_EQ(scores(model), expected) << model;
    stoa_ok({"checkpoint", "export", model, "--dtype", "fp32", "--output", model + "-out"});
    EXPECT_EQ(scores(model + "-out"), expected) << model;
    EXPECT_FALSE(fs::exists(path(model + "-out") / "pytorch_model.bin"));
  }
  EXPECT_EQ(stoa({"compare", "shards", "twin"}).exit_code, 0);
  // A state_dict, alone in its directory or by itself.
  put("state", "config.json", "config.json");
  put("state", "trained.pt", "model.pt");
  EXPECT_EQ(scores("state"), expected);
  put(".", "trained.pt", "trained.pt");
  EXPECT_THAT(stoa({"checkpoint", "import", "trained.pt", "--output", "alone"}).err,
              HasSubstr("give its config.json by --config FILE"));
  stoa_ok({"checkpoint", "import", "trained.pt", "--config", "twin/config.json", "--output", "alone"});
  EXPECT_EQ(scores("alone"), expected);
  EXPECT_EQ(json_of({"checkpoint", "inspect", "shards", "--json"})["model"],
            json_of({"checkpoint", "inspect", "twin", "--json"})["model"]);
  EXPECT_TRUE(json_of({"checkpoint", "verify", "zip", "--json"})["checksums"]);
  EXPECT_FALSE(json_of({"checkpoint", "verify", "old", "--json"})["checksums"]);
}

TEST_F(TorchWeights, AreRefusedInOneMessageWhereTheyAreNone) {
  make("model", {"pytorch_model.bin"});
  const std::string text = read_text(path("model/pytorch_model.bin"));
  const auto refused = [&](const Arguments& command, const std::string& bytes, const std::string& message) {
    write_text(path("model/pytorch_model.bin"), bytes);
    const Outcome outcome = stoa(command);
    EXPECT_EQ(outcome.exit_code, 1) << outcome.text();
    EXPECT_THAT(outcome.err, HasSubstr(message));
  };
  const Arguments inspect{"checkpoint", "inspect", "model"};
  refused(inspect, text.substr(0, text.size() / 2), "truncated?");
  refused(inspect, "version https://git-lfs.github.com/spec/v1\n", "is a pointer of Git LFS");
  std::string evil = text;
  const auto name = evil.find("_rebuild_tensor_v2");
  ASSERT_NE(name, evil.npos);
  evil.replace(name, 8, "_execute");
  refused(inspect, evil, "'torch._utils._execute_tensor_v2', which is not among the constructors");
  // A weight that changed: the file's own checksum tells.
  std::string changed = text;
  const auto weights = changed.find("pytorch_model/data/0") + 200;
  changed[weights] = static_cast<char>(changed[weights] ^ 1);
  refused({"checkpoint", "verify", "model"}, changed, "has the checksum");
}

}  // namespace
}  // namespace stoa::e2e

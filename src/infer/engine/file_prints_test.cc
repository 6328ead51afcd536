#include "infer/engine/file_prints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/test_folder.h"

namespace stoa::infer {
namespace {

using ::testing::HasSubstr, ::testing::IsEmpty, ::testing::Key, ::testing::UnorderedElementsAre;

class FilePrints : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((folder_ / name).parent_path());
    write_text(folder_ / name, text);
  }
  TestFolder folder_;
};

TEST_F(FilePrints, AreOfTheFilesThatDecideAModelsNumbers) {
  for (const char* name : {"m/config.json", "m/model.safetensors", "m/pytorch_model.bin", "m/tokenizer.json",
                           "m/README.md", "m/onnx/model.safetensors"})
    write(name, name);
  EXPECT_THAT(file_prints(folder_ / "m"), UnorderedElementsAre(Key("config.json"), Key("model.safetensors")));
  for (const char* name :
       {"g/a.gguf", "g/b-00001-of-00002.gguf", "g/b-00002-of-00002.gguf", "g/b-other.gguf"})
    write(name, name);
  EXPECT_THAT(file_prints(folder_ / "g/a.gguf"), UnorderedElementsAre(Key("a.gguf")));
  EXPECT_THAT(file_prints(folder_ / "g/b-00001-of-00002.gguf"),
              UnorderedElementsAre(Key("b-00001-of-00002.gguf"), Key("b-00002-of-00002.gguf")));
  write("f/iter_0000002/0_0.distcp", "x");
  EXPECT_THAT(file_prints(folder_ / "f"), UnorderedElementsAre(Key("iter_0000002/0_0.distcp")));
}

TEST_F(FilePrints, NameTheFirstFileThatDiffers) {
  for (const char* folder : {"a/", "b/"})
    for (const char* name : {"config.json", "model.safetensors"})
      write(std::string(folder) + name, std::string(999, 'w'));
  const auto difference = [&] {
    return different_file(file_prints(folder_ / "b"), file_prints(folder_ / "a"));
  };
  EXPECT_THAT(difference(), IsEmpty());
  write("b/model.safetensors", std::string(500, 'w') + "v" + std::string(498, 'w'));
  EXPECT_THAT(difference(), HasSubstr("'model.safetensors' has 999 bytes, checksum "));
  // Checksums that are kept next to the weights stand for them.
  for (const char* folder : {"a/", "b/"})
    write(std::string(folder) + "stoa-checksums.json", "{\"model.safetensors\": \"00ff00ff00ff00ff\"}");
  EXPECT_THAT(difference(), IsEmpty());
  write("b/stoa-checksums.json", "{\"model.safetensors\": \"11ff00ff00ff00ff\"}");
  EXPECT_THAT(
      difference(),
      HasSubstr("'model.safetensors' has 999 bytes, checksum 11ff00ff00ff00ff here, and there 999 bytes"));
  for (const char* folder : {"a/", "b/"}) fs::remove(folder_ / folder / "stoa-checksums.json");
  write("b/extra.safetensors", "x");
  write("b/model.safetensors", std::string(999, 'w'));
  EXPECT_EQ(difference(), "'extra.safetensors' is here alone");
  fs::remove(folder_ / "b/config.json");
  EXPECT_EQ(difference(), "'config.json' is missing here");
}

}  // namespace
}  // namespace stoa::infer

#include "ckpt/tar_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "base/error.h"
#include "base/file.h"
#include "base/test_folder.h"
#include "ckpt/tar_writer.h"

namespace stoa::ckpt {
namespace {

using ::testing::ElementsAre, ::testing::HasSubstr, testing::ThrowsMessage;

// A header of ustar with the content after it, filled up to whole blocks.
std::string entry(const std::string& name, const std::string& content, char kind = '0') {
  std::string block(512, '\0');
  block.replace(0, name.size(), name);
  block.replace(124, 11, fmt::format("{:011o}", content.size()));
  block[156] = kind;
  block.replace(257, 5, "ustar");
  block.replace(148, 8, "        ");
  unsigned sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  block.replace(148, 7, fmt::format("{:06o}", sum) + '\0');
  return block + content + std::string((512 - content.size() % 512) % 512, '\0');
}
std::string archive(const std::vector<std::string>& entries) {
  std::string out;
  for (const auto& each : entries) out += each;
  return out + std::string(1024, '\0');
}
std::string text(const FileSet& files, const std::string& name) { return files.text(name); }

TEST(TarFiles, ReadsNamesOfEveryKind) {
  const std::string long_name = "weights/" + std::string(150, 'a');
  const std::string bytes = archive({entry("./model_config.yaml", "a: 1\n"), entry("weights/", "", '5'),
                                     entry("././@LongLink", long_name + '\0', 'L'), entry("cut", "long"),
                                     entry("pax", "20 path=weights/pax\n", 'x'), entry("cut", "of pax")});
  const TarFiles files(std::as_bytes(std::span(bytes)), "test.tar");
  EXPECT_THAT(files.names(), ElementsAre("model_config.yaml", long_name, "weights/pax"));
  EXPECT_EQ(text(files, "model_config.yaml"), "a: 1\n");
  EXPECT_EQ(text(files, long_name), "long");
  EXPECT_EQ(text(files, "weights/pax"), "of pax");
  EXPECT_THAT([&] { files.at("absent"); }, ThrowsMessage<IoError>(HasSubstr("holds no file 'absent'")));
}

TEST(TarFiles, UnpacksGzip) {
  const TestFolder directory;
  const fs::path path = directory.path() / "model.nemo";
  const std::string bytes = archive({entry("a", "content")});
  gzFile out = ::gzopen(path.c_str(), "wb");
  ::gzwrite(out, bytes.data(), static_cast<unsigned>(bytes.size()));
  ::gzclose(out);
  EXPECT_EQ(text(TarFiles(path), "a"), "content");
}

TEST(TarFiles, RefusesWhatIsDamaged) {
  const std::string whole = archive({entry("a", std::string(2000, 'x'))});
  const auto refused = [](std::string bytes, const char* message) {
    EXPECT_THAT([&] { TarFiles(std::as_bytes(std::span(bytes)), "test.tar"); },
                ThrowsMessage<DataError>(HasSubstr(message)));
  };
  refused(whole.substr(0, 1024), "truncated?");
  refused("not an archive", "no tar archive");
  std::string wrong = whole;
  wrong[0] = 'b';
  refused(wrong, "at byte 0 is no header");
}

TEST(TarFiles, ReadWhatIsWritten) {
  const TestFolder directory;
  const fs::path parts = directory.path() / "parts", path = directory.path() / "model.nemo";
  fs::create_directory(parts);
  const std::string part(1500, 'p'), block(512, 'b');
  write_text(parts / "__0_1.distcp", part);
  write_text(parts / "__0_0.distcp", block);
  TarWriter tar(path);
  tar.add("model_config.yaml", "a: 1\n");
  tar.move(parts, "model_weights");
  EXPECT_FALSE(fs::exists(path));
  tar.commit();
  EXPECT_TRUE(fs::is_empty(parts));
  EXPECT_EQ(fs::file_size(path) % 512, 0u);
  const TarFiles files(path);
  EXPECT_THAT(files.names(),
              ElementsAre("model_config.yaml", "model_weights/__0_0.distcp", "model_weights/__0_1.distcp"));
  EXPECT_EQ(text(files, "model_config.yaml"), "a: 1\n");
  EXPECT_EQ(text(files, "model_weights/__0_0.distcp"), block);
  EXPECT_EQ(text(files, "model_weights/__0_1.distcp"), part);
}

}  // namespace
}  // namespace stoa::ckpt

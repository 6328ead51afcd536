// GGUF files: what the reference implementation wrote is read with every value, written again byte for byte,
// and refused where a byte is wrong.
#include "formats/gguf/gguf_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "base/test_folder.h"
#include "base/test_paths.h"
#include "formats/gguf/gguf_writer.h"

namespace stoa::gguf {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// tests/oracle/make_gguf_fixtures.py.
fs::path values_file() { return test::source_dir() / "tests/fixtures/gguf/values.gguf"; }

std::span<const std::byte> as_file(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string rewritten(const Content& content) {
  std::vector<NewTensor> tensors;
  for (const Tensor& tensor : content.tensors) tensors.push_back({tensor.name, tensor.shape, tensor.format});
  std::string out = header(content.version, content.keys, tensors, content.alignment);
  for (const Tensor& tensor : content.tensors) {
    out.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
    out.resize(padded(out.size(), content.alignment));
  }
  return out;
}

TEST(GgufFile, ReadsWhatTheReferenceWrote) {
  const File file(values_file());
  EXPECT_EQ(file.text("general.architecture"), "llama");
  EXPECT_EQ(file.integer("test.u8"), 200);
  EXPECT_EQ(file.integer("test.i8"), -5);
  EXPECT_EQ(file.integer("test.u16"), 60000);
  EXPECT_EQ(file.integer("test.i16"), -30000);
  EXPECT_EQ(file.integer("test.u32"), 4000000000);
  EXPECT_EQ(file.integer("test.i32"), -2000000000);
  EXPECT_EQ(file.real("test.f32"), static_cast<double>(1e-5f));
  EXPECT_EQ(file.key("test.u64")->bits(), (std::uint64_t{1} << 63) + 5);
  EXPECT_EQ(file.integer("test.i64"), -(std::int64_t{1} << 62));
  EXPECT_EQ(file.real("test.f64"), 0.1);
  EXPECT_EQ(file.flag("test.bool"), true);
  EXPECT_EQ(file.text("test.text"), "stoa \u00e4 \u2581");
  const Value* texts = file.array("test.texts", ValueType::kText);
  ASSERT_EQ(texts->size(), 3u);
  EXPECT_EQ(*texts->text_at(2), "\u2581the");
  EXPECT_EQ(file.array("test.numbers", ValueType::kI32)->integer(1), -2);
  EXPECT_EQ(file.array("test.reals", ValueType::kF32)->real(1), -0.25);
  EXPECT_EQ(file.array("test.flags", ValueType::kBool)->flag(1), false);
  EXPECT_EQ(file.integer("test.absent"), std::nullopt);
  EXPECT_THAT([&] { static_cast<void>(file.integer("test.text")); },
              ThrowsMessage<DataError>(HasSubstr("expected a whole number")));
  const Tensor* eight = file.find("eight");
  ASSERT_NE(eight, nullptr);
  EXPECT_EQ(eight->format->name, "Q8_0");
  EXPECT_EQ(eight->shape, (std::vector<std::int64_t>{2, 64}));
  std::vector<float> row(64);
  quant::decode_numbers(*eight->format, eight->bytes.data(), 64, 64, row.data());
  for (int i = 0; i < 64; ++i)
    EXPECT_NEAR(row[static_cast<std::size_t>(i)], static_cast<float>(i) / 64, 0.005);
  EXPECT_EQ(file.find("vector")->shape, std::vector<std::int64_t>{3});
}

TEST(GgufFile, IsWrittenAgainByteForByte) {
  const std::string text = read_text(values_file());
  EXPECT_TRUE(rewritten(parse(as_file(text), "values")) == text);
}

TEST(GgufFile, SaysWhatIsWrong) {
  const std::string good = read_text(values_file());
  const auto message = [](const std::string& text) -> std::string {
    try {
      parse(as_file(text), "x.gguf");
    } catch (const DataError& error) {
      return error.what();
    }
    return "";
  };
  const auto with = [&](std::size_t at, const std::string& bytes) {
    std::string text = good;
    return text.replace(at, bytes.size(), bytes);
  };
  EXPECT_THAT(message("GGML"), HasSubstr("does not begin with GGUF"));
  EXPECT_THAT(message("version https://git-lfs.github.com/spec/v1"), HasSubstr("is a pointer of Git LFS"));
  EXPECT_THAT(message(with(4, std::string("\0\0\0\3", 4))), HasSubstr("big endian"));
  EXPECT_THAT(message(with(4, std::string("\1", 1))), HasSubstr("of version 1"));
  EXPECT_THAT(message(with(8, std::string(8, '\x7f'))), HasSubstr("announces"));
  EXPECT_THAT(message(with(16, std::string(7, '\xff'))), HasSubstr("announces"));
  EXPECT_THAT(message(good.substr(0, good.size() - 40)), HasSubstr("cut short"));
  EXPECT_THAT(message(good.substr(0, 100)), HasSubstr("x.gguf"));
  const auto at = good.find("eight") + 5 + 4 + 16;
  EXPECT_THAT(message(with(at, std::string("\x10", 1))), HasSubstr("IQ2_XXS"));
  EXPECT_THAT(message(with(at, std::string("\x0c", 1))), HasSubstr("blocks of 256"));
  EXPECT_THAT(message(with(good.find("test.u8"), "test.i8")), HasSubstr("twice"));
  EXPECT_THAT(message(with(good.find("plain") + 9, std::string(8, '\x7f'))), HasSubstr("dimension"));
}

// Blobs of Ollama have names without an extension.
TEST(GgufFile, IsOneByItsNameOrItsFirstBytes) {
  const TestFolder folder;
  write_text(folder / "sha256-970a", read_text(values_file()));
  EXPECT_TRUE(is_gguf(folder / "sha256-970a"));
  write_text(folder / "cut.gguf", "GG");
  EXPECT_TRUE(is_gguf(folder / "cut.gguf"));
  for (const char* other : {"", "GGU", "GGML", "notes"}) {
    write_text(folder / "other", other);
    EXPECT_FALSE(is_gguf(folder / "other")) << other;
  }
  EXPECT_FALSE(is_gguf(folder / "none"));
  EXPECT_FALSE(is_gguf(folder.path()));
}

// Parts of a split file.
TEST(GgufFile, SplitFilesAreOne) {
  const TestFolder folder;
  const std::vector<float> numbers(32, 2.0f);
  const auto& f32 = quant::format_of(quant::BlockType::kF32);
  const auto part = [&](const char* name, std::uint32_t number, const char* tensor) {
    Keys keys{{"split.no", Value::number(ValueType::kU16, number)},
              {"split.count", Value::number(ValueType::kU16, 2)},
              {"split.tensors.count", Value::number(ValueType::kI32, 2)}};
    Writer writer(folder / name, keys, {{tensor, {32}, &f32}});
    writer.append(std::as_bytes(std::span(numbers)));
    writer.commit();
  };
  part("m-00001-of-00002.gguf", 0, "a");
  EXPECT_THROW(File(folder / "m-00001-of-00002.gguf"), IoError);
  part("m-00002-of-00002.gguf", 1, "b");
  const File file(folder / "m-00001-of-00002.gguf");
  EXPECT_EQ(file.parts(), 2u);
  EXPECT_NE(file.find("b"), nullptr);
  EXPECT_THAT([&] { File(folder / "m-00002-of-00002.gguf"); },
              ThrowsMessage<DataError>(HasSubstr("name its first part")));
  part("m-00002-of-00002.gguf", 1, "a");
  EXPECT_THAT([&] { File(folder / "m-00001-of-00002.gguf"); }, ThrowsMessage<DataError>(HasSubstr("twice")));
}

}  // namespace
}  // namespace stoa::gguf

#include "ckpt/torch/torch_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "base/test_paths.h"
#include "ckpt/safetensors.h"

namespace stoa::ckpt::torch {
namespace {

using ::testing::HasSubstr, testing::ThrowsMessage;

fs::path fixture(const std::string& name) { return test::source_dir() / "tests/fixtures/torch" / name; }

std::span<const std::byte> as_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

class FileOfTensors : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(TorchFile, FileOfTensors,
                         ::testing::Values("tensors.pt", "tensors_protocol_5.pt", "tensors_before_1.6.pt"));

TEST_P(FileOfTensors, IsReadAsSafetensorsOfTheSame) {
  const TorchFile file(fixture(GetParam()));
  const SafetensorsFile twin(fixture("tensors.safetensors"));
  EXPECT_EQ(file.root().find("step")->integer(), 7);
  EXPECT_EQ(file.root().find("name")->text(), "tiny");
  EXPECT_EQ(file.root().find("shape").value()[1].integer(), 6);
  EXPECT_EQ(file.root().find("dtype")->text(), "torch.bfloat16");
  const Value tensors = file.root().find("tensors").value();
  ASSERT_EQ(tensors.size(), twin.tensors().size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    SCOPED_TRACE(tensors.key(i).text());
    const TensorValue& tensor = tensors.value(i).tensor();
    const StoredTensor* other = twin.find(tensors.key(i).text());
    ASSERT_NE(other, nullptr);
    EXPECT_EQ(tensor.shape, other->entry.shape);
    ASSERT_EQ(tensor.type->stored, other->entry.type);
    // Every range of it.
    for (std::int64_t begin = 0; begin <= tensor.elements(); ++begin)
      for (std::int64_t end = begin; end <= tensor.elements(); ++end) {
        std::vector<std::byte> scratch;
        const auto found = file.elements(tensor, begin, end, scratch);
        const std::size_t each = tensor.type->bytes;
        ASSERT_EQ(found.size(), static_cast<std::size_t>(end - begin) * each);
        ASSERT_EQ(std::memcmp(found.data(), other->bytes.data() + static_cast<std::size_t>(begin) * each,
                              found.size()),
                  0)
            << begin << " to " << end;
      }
  }
}

TEST(TorchFile, GivesElementsThatLieTogetherWithoutACopy) {
  const TorchFile file(fixture("tensors.pt"));
  const Value tensors = file.root().find("tensors").value();
  std::vector<std::byte> scratch;
  for (const char* name : {"whole", "rows", "parameter", "unused", "one"}) {
    const TensorValue& tensor = tensors.find(name)->tensor();
    file.elements(tensor, 0, tensor.elements(), scratch);
    EXPECT_TRUE(scratch.empty()) << name;
  }
  const TensorValue& turned = tensors.find("transposed")->tensor();
  file.elements(turned, 0, turned.elements(), scratch);
  EXPECT_EQ(scratch.size(), 96u);
  // Views of one storage lie where they lay in memory.
  const auto whole = file.elements(tensors.find("whole")->tensor(), 0, 24, scratch);
  const auto rows = file.elements(tensors.find("rows")->tensor(), 0, 12, scratch);
  EXPECT_EQ(rows.data(), whole.data() + 24);
}

TEST(TorchFile, RefusesWhatIsMoreThanData) {
  EXPECT_THAT([] { TorchFile file(fixture("module.pt")); },
              ThrowsMessage<DataError>(HasSubstr("calls for 'torch.nn.modules.linear.Linear'")));
  EXPECT_THAT([] { TorchFile file(fixture("script.pt")); },
              ThrowsMessage<DataError>(HasSubstr("TorchScript")));
}

TEST(TorchFile, SaysWhatIsNoFileOfTorch) {
  const auto refused = [](const std::string& text, const std::string& message) {
    EXPECT_THAT([&] { TorchFile file(as_bytes(text), "x.bin"); },
                ThrowsMessage<DataError>(HasSubstr(message)));
  };
  refused("", "'x.bin' (0 bytes) was not written by torch.save");
  refused("version https://git-lfs.github.com/spec/v1", "'x.bin' is a pointer of Git LFS");
  refused("PK\3\4", "damaged zip file");
  EXPECT_THROW(TorchFile(fixture("absent.pt")), IoError);
}

TEST(TorchFile, IsRefusedWhereverItEnds) {
  for (const char* name : {"tensors.pt", "tensors_before_1.6.pt"}) {
    const std::string text = read_text(fixture(name));
    for (std::size_t n = 0; n < text.size(); n += n < 200 || n + 200 > text.size() ? 1 : 37) {
      const std::string part(text, 0, n);
      EXPECT_THROW(TorchFile(as_bytes(part), "part"), DataError) << name << " " << n;
    }
  }
}

TEST(TorchFile, ReadsNeitherCompressedNorRepeatedEntries) {
  const std::string text = read_text(fixture("tensors.pt"));
  const auto first = text.find("PK\1\2");
  std::string compressed = text;
  compressed[first + 10] = 8;
  EXPECT_THAT([&] { TorchFile file(as_bytes(compressed), "x"); },
              ThrowsMessage<DataError>(HasSubstr("compressed")));
  std::string encrypted = text;
  encrypted[first + 8] = static_cast<char>(encrypted[first + 8] | 1);
  EXPECT_THAT([&] { TorchFile file(as_bytes(encrypted), "x"); },
              ThrowsMessage<DataError>(HasSubstr("encrypted")));
  std::string twice = text;
  const auto name = twice.find("tensors/data/1", first);
  twice[name + 13] = '0';
  EXPECT_THAT([&] { TorchFile file(as_bytes(twice), "x"); }, ThrowsMessage<DataError>(HasSubstr("twice")));
  std::string moved = text;
  moved[first + 42] = 1;
  EXPECT_THAT([&] { TorchFile file(as_bytes(moved), "x"); },
              ThrowsMessage<DataError>(HasSubstr("where its directory says")));
}

TEST(TorchFile, ComparesItsChecksumsWhenAsked) {
  std::string text = read_text(fixture("tensors.pt"));
  EXPECT_TRUE(TorchFile(as_bytes(text), "x").check_sums());
  const ZipDirectory zip(as_bytes(text), "x");
  const auto* storage = zip.find("tensors/data/0");
  ASSERT_NE(storage, nullptr);
  const auto at = static_cast<std::size_t>(storage->bytes.data() - as_bytes(text).data());
  text[at] = static_cast<char>(text[at] ^ 1);
  const TorchFile damaged(as_bytes(text), "x");
  EXPECT_THAT([&] { damaged.check_sums(); },
              ThrowsMessage<DataError>(HasSubstr("'tensors/data/0' has the checksum")));
  EXPECT_FALSE(TorchFile(fixture("tensors_before_1.6.pt")).check_sums()) << "the older format has none";
}

TEST(TorchFile, HoldsEveryStorageThatItsPickleDeclares) {
  std::string text = read_text(fixture("tensors.pt"));
  // The entry's name in the directory, so that the pickle's key leads nowhere.
  const auto name = text.find("tensors/data/0", text.find("PK\1\2"));
  text[name + 13] = 'x';
  const TorchFile file(as_bytes(text), "x");
  std::vector<std::byte> scratch;
  const Value whole = file.root().find("tensors")->find("whole").value();
  EXPECT_THAT(
      [&] { file.elements(whole.tensor(), 0, 1, scratch); },
      ThrowsMessage<DataError>(HasSubstr("holds 0 bytes of storage '0', and its pickle declares 96")));
}

}  // namespace
}  // namespace stoa::ckpt::torch

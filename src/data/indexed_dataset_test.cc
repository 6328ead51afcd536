#include "data/indexed_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>

#include "base/error.h"
#include "base/test_folder.h"
#include "data/indexed_writer.h"
#include "data/test_files.h"

namespace stoa::data {
namespace {

using ::testing::HasSubstr;

std::string unhex(std::string_view hex) {
  std::string out;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    out += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  return out;
}

template <class E, class F>
std::string message_of(F&& action) {
  try {
    action();
  } catch (const E& e) {
    return e.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

class IndexedDatasetTest : public ::testing::Test {
 protected:
  TestFolder folder_;
  fs::path prefix_ = folder_ / "corpus";
  fs::path idx_ = folder_ / "corpus.idx", bin_ = folder_ / "corpus.bin";

  void write_vector() { write_documents(prefix_, {{1, 2, 3, 4, 5}, {6, 7, 8}, {9, 10, 11, 12, 13, 14, 15}}); }
  std::string open_error() {
    return message_of<DataError>([&] { IndexedDataset dataset(prefix_); });
  }
};

TEST_F(IndexedDatasetTest, WritesMegatronsBytes) {  // megatron-facts B1
  write_vector();
  const std::string expected = unhex(
      "4d4d49444944580000010000000000000008030000000000000004000000000000000500000003000000070000000000000000"
      "0000000a00"
      "0000000000001000000000000000000000000000000001000000000000000200000000000000"
      "0300000000000000");
  ASSERT_EQ(expected.size(), 102u);
  EXPECT_EQ(read_text(idx_), expected);
  EXPECT_EQ(read_text(bin_).size(), 30u);
  EXPECT_EQ(read_text(bin_).substr(0, 4), unhex("01000200"));
}

TEST_F(IndexedDatasetTest, ReadsWhatItWrote) {
  write_vector();
  const IndexedDataset dataset(prefix_);
  EXPECT_EQ(dataset.sequences(), 3);
  EXPECT_EQ(dataset.documents(), 3);
  EXPECT_EQ(dataset.tokens(), 15);
  EXPECT_EQ(dataset.longest(), 7);
  std::vector<std::int32_t> ids(3);
  dataset.read(2, 4, ids);
  EXPECT_THAT(ids, ::testing::ElementsAre(13, 14, 15));
  EXPECT_THROW(dataset.read(2, 5, ids), DataError);
  EXPECT_THROW(dataset.read(3, 0, ids), DataError);
  EXPECT_THROW(dataset.read(0, -1, ids), DataError);
  EXPECT_TRUE(dataset.verify_checksums());
  EXPECT_EQ(IndexedDataset(idx_).tokens(), 15);  // a file name serves as prefix
}

TEST_F(IndexedDatasetTest, ChoosesTypeAsMegatronDoes) {
  EXPECT_EQ(token_dtype_for_vocabulary(65499), TokenDtype::kUint16);
  EXPECT_EQ(token_dtype_for_vocabulary(65500), TokenDtype::kInt32);
}

TEST_F(IndexedDatasetTest, StoresEveryIntegerType) {
  for (const auto dtype : {TokenDtype::kUint8, TokenDtype::kInt8, TokenDtype::kInt16, TokenDtype::kInt32,
                           TokenDtype::kInt64, TokenDtype::kUint16}) {
    IndexedWriter writer(prefix_, dtype);
    writer.add_document(std::vector<std::int32_t>{0, 17, 127});
    writer.commit({});
    const IndexedDataset dataset(prefix_);
    EXPECT_EQ(dataset.dtype(), dtype);
    std::vector<std::int32_t> ids(3);
    dataset.read(0, 0, ids);
    EXPECT_THAT(ids, ::testing::ElementsAre(0, 17, 127));
  }
}

TEST_F(IndexedDatasetTest, KeepsSequencesAndEmptyDocuments) {
  IndexedWriter writer(prefix_, TokenDtype::kUint16);
  writer.add_document(std::vector<std::int32_t>{1, 2, 3}, std::vector<std::int32_t>{1, 2});
  writer.add_document({});
  writer.add_document(std::vector<std::int32_t>{4});
  writer.commit({});
  const IndexedDataset dataset(prefix_);
  EXPECT_EQ(dataset.sequences(), 3);
  EXPECT_EQ(dataset.documents(), 3);
  EXPECT_EQ(dataset.document_start(1), 2);
  EXPECT_EQ(dataset.document_start(2), 2);
  EXPECT_EQ(dataset.document_start(3), 3);
}

TEST_F(IndexedDatasetTest, MergesLikeOneWriter) {
  write_documents(folder_ / "a", {{1, 2}, {3}});
  write_documents(folder_ / "b", {{4, 5, 6}});
  write_documents(folder_ / "whole", {{1, 2}, {3}, {4, 5, 6}});
  IndexedWriter writer(prefix_, TokenDtype::kUint16);
  writer.append(IndexedDataset(folder_ / "a"));
  writer.append(IndexedDataset(folder_ / "b"));
  writer.commit({});
  EXPECT_EQ(read_text(idx_), read_text(folder_ / "whole.idx"));
  EXPECT_EQ(read_text(bin_), read_text(folder_ / "whole.bin"));
  IndexedWriter other(folder_ / "c", TokenDtype::kInt32);
  EXPECT_THROW(other.append(IndexedDataset(folder_ / "a")), DataError);
}

TEST_F(IndexedDatasetTest, RefusesEveryTruncationOfTheIndex) {
  write_vector();
  const std::string whole = read_text(idx_);
  for (std::size_t n = 0; n < whole.size(); ++n) {
    write_text(idx_, whole.substr(0, n));
    EXPECT_THROW(IndexedDataset dataset(prefix_), DataError) << n;
  }
  write_text(idx_, whole + std::string(3, '\1'));  // modes of a multimodal file are ignored
  EXPECT_NO_THROW(IndexedDataset dataset(prefix_));
}

TEST_F(IndexedDatasetTest, SaysWhatIsWrong) {
  write_vector();
  const std::string whole = read_text(idx_);
  const auto with = [&](std::size_t at, std::string_view bytes) {
    std::string text = whole;
    text.replace(at, bytes.size(), bytes);
    write_text(idx_, text);
    return open_error();
  };
  EXPECT_THAT(with(0, "XX"), HasSubstr("does not begin with MMIDIDX"));
  EXPECT_THAT(with(9, "\2"), HasSubstr("version 2"));
  EXPECT_THAT(with(17, "\11"), HasSubstr("dtype code 9"));
  EXPECT_THAT(with(18, "\xff\xff\xff\xff\xff\xff\xff\xff"), HasSubstr("truncated"));
  EXPECT_THAT(with(26, "\xff\xff\xff\xff\xff\xff\xff\x1f"), HasSubstr("truncated"));
  EXPECT_THAT(with(34, "\xff\xff\xff\xff"), HasSubstr("length -1"));
  EXPECT_THAT(with(42, "\x08"), HasSubstr("truncated or belongs to other data"));
  EXPECT_THAT(with(42, "\x06"), HasSubstr("do not belong together"));
  EXPECT_THAT(with(70, "\1"), HasSubstr("document index 0 is 1"));
  EXPECT_THAT(with(94, "\2"), HasSubstr("last document index is 2"));
  write_text(idx_, whole);
  write_text(bin_, read_text(bin_).substr(0, 29));
  EXPECT_THAT(open_error(), HasSubstr("truncated"));
  write_text(bin_, "");
  EXPECT_THAT(open_error(), HasSubstr("truncated"));
}

TEST_F(IndexedDatasetTest, NamesTheNearestWhenMissing) {
  write_vector();
  const auto text = message_of<IoError>([&] { IndexedDataset dataset(folder_ / "corpsu"); });
  EXPECT_THAT(text, HasSubstr("did you mean 'corpus'"));
  // As Megatron names what it writes.
  const auto named = message_of<IoError>([&] { IndexedDataset dataset(folder_ / "corpus_text_document"); });
  EXPECT_THAT(named, HasSubstr("did you mean 'corpus'"));
  fs::remove(bin_);
  EXPECT_THAT(message_of<IoError>([&] { IndexedDataset dataset(prefix_); }), HasSubstr("corpus.bin"));
}

TEST_F(IndexedDatasetTest, FindsIdsBeyondTheVocabulary) {
  write_vector();
  const IndexedDataset dataset(prefix_);
  EXPECT_NO_THROW(dataset.require_ids_below(16));
  EXPECT_THAT(message_of<DataError>([&] { dataset.require_ids_below(15); }),
              HasSubstr("token 6 of sequence 2 is 15"));
}

TEST_F(IndexedDatasetTest, ChecksTheSideFile) {
  write_vector();
  const std::string side = read_text(provenance_path(prefix_));
  write_text(bin_, std::string(30, '\0'));
  EXPECT_THAT(message_of<DataError>([&] { IndexedDataset(prefix_).verify_checksums(); }),
              HasSubstr("damaged"));
  write_text(provenance_path(prefix_), "{}");
  EXPECT_THAT(open_error(), HasSubstr("is not what Stoa writes"));
  auto other = side;
  other.replace(other.find("\"tokens\": 15"), 12, "\"tokens\": 16");
  write_text(provenance_path(prefix_), other);
  EXPECT_THAT(open_error(), HasSubstr("is not of this data"));
  fs::remove(provenance_path(prefix_));
  EXPECT_FALSE(IndexedDataset(prefix_).provenance().has_value());
}

TEST_F(IndexedDatasetTest, LeavesNothingWithoutCommit) {
  {
    IndexedWriter writer(prefix_, TokenDtype::kUint16);
    writer.add_document(std::vector<std::int32_t>{1, 2, 3});
  }
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(IndexedDatasetTest, DiskFullLeavesNothing) {
  std::signal(SIGXFSZ, SIG_IGN);  // so that the limit shows as an error of write()
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  std::string text;
  {
    rlimit limit = before;
    limit.rlim_cur = 3 << 20;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    text = message_of<IoError>([&] {
      IndexedWriter writer(prefix_, TokenDtype::kUint16);
      for (int i = 0; i < 64; ++i) writer.add_document(std::vector<std::int32_t>(50000, 7));
      writer.commit({});
    });
  }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_THAT(text, HasSubstr("corpus.bin"));
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(IndexedDatasetTest, ReadOnlyFolderIsAnErrorAtOnce) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write anywhere";
  fs::permissions(folder_.path(), fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_THROW(IndexedWriter(prefix_, TokenDtype::kUint16), IoError);
  fs::permissions(folder_.path(), fs::perms::owner_all);
}

TEST_F(IndexedDatasetTest, AnOutputThatCannotBeAFolderIsAnErrorAtOnce) {  // also as root
  write_text(folder_ / "file", "x");
  EXPECT_THROW(IndexedWriter(folder_ / "file" / "corpus", TokenDtype::kUint16), IoError);
}

}  // namespace
}  // namespace stoa::data

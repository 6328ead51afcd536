#include "eval/data/documents.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/test_paths.h"

namespace stoa::eval {
namespace {

TEST(Documents, RowsOfAParquetFileAreDocuments) {
  const fs::path folder = test::source_dir() / "tests/fixtures/parquet";
  const auto rows = read_documents({folder / "gzip-1.0.parquet"});
  EXPECT_EQ(rows.size(), 40u);
  EXPECT_EQ(rows, read_documents({folder / "rows.jsonl"}));
  EXPECT_EQ(read_documents({folder / "chats.parquet", folder / "chats.parquet"}).size(), 4u);
  EXPECT_THROW(read_documents({folder / "rows.arrow"}), DataError);
}

}  // namespace
}  // namespace stoa::eval

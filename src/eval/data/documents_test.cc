#include "eval/data/documents.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/file.h"
#include "base/test_folder.h"
#include "base/test_paths.h"
#include "eval/data/find_data.h"

namespace stoa::eval {
namespace {

TEST(Documents, RowsOfAParquetFileAreDocuments) {
  const fs::path folder = test::source_dir() / "tests/fixtures/parquet";
  const auto rows = read_documents({folder / "gzip-1.0.parquet"});
  EXPECT_EQ(rows.size(), 40u);
  EXPECT_EQ(rows, read_documents({folder / "rows.jsonl"}));
  EXPECT_EQ(read_documents({folder / "chats.parquet", folder / "chats.parquet"}).size(), 4u);
  EXPECT_EQ(read_documents({test::source_dir() / "tests/fixtures/arrow/file.arrow"}), rows);
  EXPECT_THROW(read_documents({folder / "rows.feather"}), DataError);
}

TEST(Documents, SplitsAreFoundWhereDatasetsSavedOrCachedThem) {
  TaskConfig task;
  task.source = "piqa.yaml";
  task.dataset_path = "baber/piqa";
  const fs::path fixtures = test::source_dir() / "tests/fixtures/arrow";
  const auto found = [&](const fs::path& place, const std::string& split) {
    const FoundSplit files = find_split(task, split, {place});
    return files.files.empty() ? std::size_t{0} : read_documents(files.files).size();
  };
  EXPECT_EQ(found(fixtures / "cache", "validation"), 5U);
  EXPECT_EQ(found(fixtures / "cache", "train"), 0U);
  task.dataset_path = (fixtures / "saved").string();
  EXPECT_EQ(found(fixtures, "train"), 5U);
  EXPECT_EQ(found(fixtures, "validation"), 3U);
  task.dataset_path = (fixtures / "saved_split").string();
  EXPECT_EQ(found(fixtures, "validation"), 3U);
}

TEST(Documents, SplitsAreFoundInSnapshotsOfTheHub) {
  const TestFolder cache;
  const fs::path top = cache / "hub/datasets--baber--piqa";
  const auto place = [&](const std::string& commit, const std::string& file, const std::string& goal) {
    const fs::path path = top / "snapshots" / commit / file;
    fs::create_directories(path.parent_path());
    write_text(path, "{\"goal\": \"" + goal + "\"}\n");
  };
  place("aaaa", "data/validation-00000-of-00001.jsonl", "old");
  place("bbbb", "data/validation-00000-of-00001.jsonl", "new");
  place("bbbb", "plain/train.jsonl", "of a configuration");
  fs::create_directories(top / "refs");
  write_text(top / "refs/main", "bbbb");
  TaskConfig task;
  task.source = "piqa.yaml";
  task.dataset_path = "baber/piqa";
  const auto goal = [&](const std::string& split) {
    return read_documents(find_split(task, split, {cache.path()}).files).at(0).at("goal").get<std::string>();
  };
  EXPECT_EQ(goal("validation"), "new");
  task.dataset_name = "plain";
  EXPECT_EQ(goal("train"), "of a configuration");
}

}  // namespace
}  // namespace stoa::eval

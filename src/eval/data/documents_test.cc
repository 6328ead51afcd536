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

// A clone of a data set, or what the hub converts it to, whose configuration the task does not name.
TEST(Documents, ConfigurationsWithoutANameAreFound) {
  const TestFolder folder;
  const auto place = [&](const char* file) {
    fs::create_directories((folder / file).parent_path());
    write_text(folder / file, "{\"q\": \"1\"}\n");
  };
  place("a/one/plain_text/test-00000-of-00001.jsonl");
  place("a/two/two/test.jsonl");
  place("a/three/other/test.jsonl");
  place("a/three/README.md");
  TaskConfig task;
  task.source = "task.yaml";
  const auto find = [&](const char* name) {
    task.dataset_path = name;
    return find_split(task, "test", {folder.path()});
  };
  EXPECT_EQ(find("a/one").files.size(), 1u);
  EXPECT_EQ(find("a/two").files.size(), 1u);
  EXPECT_TRUE(find("a/three").files.empty());
  EXPECT_THAT(find("a/three").looked_for, ::testing::HasSubstr("a/three/test.jsonl; '"));
  EXPECT_THAT(find("a/three").looked_for, ::testing::HasSubstr("three' holds README.md, other/test.jsonl"));
}

// dataset_path json or csv with data_files, as the data loader of the harness reads them.
TEST(Documents, WhatATaskSaysOfItsFilesIsHonoured) {
  const TestFolder folder;
  write_text(folder / "a.json", R"({"version": 1, "data": [{"q": "1"}, {"q": "2"}]})");
  write_text(folder / "a.csv", "q;label\nx, y;1\n");
  write_text(folder / "b-1.jsonl", "{\"q\": \"1\"}\n");
  write_text(folder / "b-2.jsonl", "{\"q\": \"2\"}\n");
  TaskConfig task;
  task.source = (folder / "task.yaml").string();
  const auto read = [&](const char* form, const Json& kwargs) {
    task.dataset_path = form;
    task.dataset_kwargs = kwargs;
    const FoundSplit found = find_split(task, "test", {});
    return read_documents(found.files, found.form);
  };
  const auto of = [](const char* name) { return Json{{"test", name}}; };
  const std::vector<Json> both{{{"q", "1"}}, {{"q", "2"}}};
  EXPECT_EQ(read("json", {{"data_files", of("a.json")}, {"field", "data"}}), both);
  EXPECT_EQ(read("json", {{"data_files", of("b-*.jsonl")}}), both);
  EXPECT_TRUE(find_split(task, "test", {}).files.size() == 2);
  const std::vector<Json> row{{{"q", "x, y"}, {"label", 1}}};
  EXPECT_EQ(read("csv", {{"data_files", of("a.csv")}, {"sep", ";"}}), row);
  EXPECT_EQ(read("csv", {{"data_files", of("a.csv")}, {"delimiter", ";"}}), row);
  EXPECT_THROW(read("csv", {{"data_files", of("a.csv")}, {"sep", ";;"}}), ConfigError);
  EXPECT_THROW(read("csv", {{"data_files", of("a.csv")}, {"field", "data"}}), ConfigError);
  EXPECT_THROW(read("json", {{"data_files", of("a.json")}, {"field", "rows"}}), DataError);
  EXPECT_TRUE(read("json", {{"data_files", of("c-*.jsonl")}}).empty());
  EXPECT_THROW(read("owner/name", {{"field", "data"}}), ConfigError);
  write_text(folder / "b-[1].jsonl", "{\"q\": \"of this name\"}\n");
  EXPECT_EQ(read("json", {{"data_files", of("b-[1].jsonl")}}), (std::vector<Json>{{{"q", "of this name"}}}));
}

TEST(Documents, BytesThatAreNoTextAreNamed) {
  const TestFolder folder;
  const auto fault = [&](const std::string& content) {
    write_text(folder / "a.jsonl", content);
    try {
      read_documents({folder / "a.jsonl"});
    } catch (const DataError& error) {
      return std::string(error.what());
    }
    return std::string("read");
  };
  EXPECT_THAT(fault("\xFF\xFE{"), ::testing::HasSubstr("is UTF-16 text; save it as UTF-8"));
  EXPECT_THAT(fault("PAR1"), ::testing::HasSubstr("is a Parquet file"));
}

}  // namespace
}  // namespace stoa::eval

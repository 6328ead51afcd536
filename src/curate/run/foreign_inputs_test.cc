// Files as people have them: names, forms of JSON and damage that no program of our own writes.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/test_folder.h"
#include "base/test_paths.h"
#include "curate/run/run.h"

namespace stoa::curate {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class ForeignInputs : public ::testing::Test {
 protected:
  ForeignInputs() {
    fs::create_directories(folder_ / "in");
    write_text(folder_ / "pipeline.yaml", "allow_empty: true\nstages: [fix_text]\n");
  }
  void file(const std::string& name, std::string_view content) const {
    fs::create_directories((folder_ / "in" / name).parent_path());
    write_text(folder_ / "in" / name, content);
  }
  RunResult run(const std::string& output = "out") const {
    Console quiet(Console::Level::kQuiet);
    return run_pipeline(read_pipeline(folder_ / "pipeline.yaml"), {{folder_ / "in"}, folder_ / output, 1},
                        quiet);
  }
  // MEMBER of each document of a part of the output.
  std::vector<std::string> all(const std::string& part, const char* member = "text") const {
    std::vector<std::string> out;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder_ / "out" / part, error)) {
      std::istringstream lines(read_text(entry.path()));
      for (std::string line; std::getline(lines, line);) {
        const nlohmann::json value = nlohmann::json::parse(line).at(member);
        out.push_back(value.is_string() ? value.get<std::string>() : value.dump());
      }
    }
    return out;
  }
  InputSearch search() const {
    InputSearch search;
    find_inputs({folder_ / "in"}, search);
    return search;
  }

  TestFolder folder_;
};

TEST_F(ForeignInputs, NamesInCapitalsAndOfAnyBytesAreRead) {
  file("A.TXT", "capitals");
  file("B.JSONL", "{\"text\":\"lines\"}\n");
  file("caf\xe9.jsonl", "{\"text\":\"a name in Latin-1\"}\n");
  file("lines.jsonlines", "{\"text\":\"scrapy\"}\n");
  run();
  EXPECT_THAT(all("kept"), ElementsAre("capitals", "lines", "a name in Latin-1", "scrapy"));
  EXPECT_THAT(all("kept", "id"),
              ElementsAre("A.TXT:1", "B.JSONL:1", "caf\\xe9.jsonl:1", "lines.jsonlines:1"));
  EXPECT_TRUE(run().was_complete);
}

TEST_F(ForeignInputs, PartsOfWikipediasDumpsAreExports) {
  file("xxwiki-20260101-pages-articles1.xml-p1p41242",
       "<mediawiki><siteinfo><base>https://xx.wikipedia.org/wiki/A</base></siteinfo><page><title>A</"
       "title><ns>0</ns>"
       "<id>1</id><revision><text>One boat.</text></revision></page></mediawiki>");
  run();
  EXPECT_THAT(all("kept"), ElementsAre("One boat."));
}

TEST_F(ForeignInputs, WhatFoldersHaveAndIsNotReadIsTold) {
  file("a.txt", "text");
  file("b.csv", "a,b");
  file("deep/c.jsonl.xz", "");
  file("deep/d.jsonl.XZ", "");
  file("deep/Makefile", "");
  fs::create_directory_symlink("deep", folder_ / "in/link");
  EXPECT_EQ(words_for_left_out(search()),
            "left out 4 files of kinds that are not read (2 .xz, 1 without extension, 1 .csv) and 1 link to "
            "folders");
  for (const char* name : {"b.csv", "deep", "link"}) fs::remove_all(folder_ / "in" / name);
  EXPECT_EQ(words_for_left_out(search()), "");
}

TEST_F(ForeignInputs, NotesOfMacOsAreNoInputs) {
  file("a.txt", "text");
  file("._a.txt", std::string("\0\5\26\7", 4));
  EXPECT_EQ(run().flow.read.documents, 1);
}

TEST_F(ForeignInputs, AnOutputWithinTheInputsIsNoInput) {
  file("a.txt", "text");
  EXPECT_EQ(run("in/out").flow.kept.documents, 1);
  EXPECT_TRUE(run("in/out").was_complete);
}

TEST_F(ForeignInputs, OfARunWhatItKeptIsGiven) {
  file("a.txt", "text");
  EXPECT_EQ(run("in/old").flow.kept.documents, 1);
  try {
    run("new");
    ADD_FAILURE();
  } catch (const ConfigError& e) {
    EXPECT_THAT(e.what(), HasSubstr("in/old' holds a run of `stoa data`; give what it kept, '"));
  }
}

TEST_F(ForeignInputs, RecordsBehindDamageOfAnArchiveAreDocuments) {
  const auto record = [](std::string_view text, std::size_t length) {
    return fmt::format("WARC/1.0\r\nWARC-Type: conversion\r\nContent-Length: {}\r\n\r\n{}\r\n\r\n", length,
                       text);
  };
  file("a.wet", record("one", 3) + record("two and more", 3) + record("three", 5));
  EXPECT_EQ(run().flow.damaged_inputs, 1);  // which a script learns of
  EXPECT_THAT(all("kept"), ElementsAre("one", "two", "three"));
  EXPECT_THAT(all("quarantine", "reason"),
              ElementsAre(HasSubstr("a.wet': between two records are bytes that belong to none")));
  Console quiet(Console::Level::kQuiet);
  EXPECT_THROW(
      run_pipeline(read_pipeline(folder_ / "pipeline.yaml"),
                   {.inputs = {folder_ / "in"}, .output = folder_ / "strict", .strict = true}, quiet),
      DataError);
}

TEST_F(ForeignInputs, ArraysAndObjectsOverSeveralLinesAreDocuments) {
  file("a.json", "[{\"text\": \"one\"},{\"text\":\"two, \\\"{\\\" \", \"more\": {\"a\": [1, {}]}}]\n");
  file("b.json", "\n[\n  {\n    \"text\": \"three\"\n  },\n  5,\n  {\n    \"text\": \"four\"\n  }\n]\n");
  file("c.json", "{\n  \"text\": \"five\"\n}\n{\n  \"text\": \"six\"\n}\n");
  file("d.json", "{\"text\": \"seven\"}\n{\"text\": \"eight\"}\n");
  file("e.json", "[\n  {\"text\": \"nine\"},\n  {\"text\": \"cut o");
  file("f.json", "[\n{\"text\":\"no mark\n},\n{\"text\":\"ten\"}\n]\n");
  run();
  EXPECT_THAT(all("kept"), ElementsAre("one", "two, \"{\" ", "three", "four", "five", "six", "seven", "eight",
                                       "nine", "ten"));
  EXPECT_THAT(all("quarantine"), ElementsAre("5", "{\"text\": \"cut o", "{\"text\":\"no mark }"));
}

TEST_F(ForeignInputs, WhatPythonWritesAndJsonHasNotCostsNoDocument) {
  file("a.jsonl",
       "{\"text\":\"NaN -Infinity\",\"a\":NaN,\"b\":[-Infinity,1.5,-2e3],\"c\":\"1\"}\n"
       "{\"text\":\"large\",\"a\":123456789012345678901234567890,\"b\":[1e999],\"c\":18446744073709551615}\n"
       "{\"text\":\"wrong\",\"a\":Nan}\n");
  run();
  EXPECT_THAT(all("kept"), ElementsAre("NaN -Infinity", "large"));
  EXPECT_THAT(all("kept", "a"), ElementsAre("null", "123456789012345678901234567890"));
  EXPECT_THAT(all("kept", "b"), ElementsAre("[null,1.5,-2000.0]", "[\"1e999\"]"));
  EXPECT_THAT(all("kept", "c"), ElementsAre("1", "18446744073709551615"));
  EXPECT_EQ(all("quarantine").size(), 1U);
}

TEST_F(ForeignInputs, AnIdThatIsNullIsNone) {
  file("a.jsonl", "{\"id\":null,\"text\":\"one\"}\n{\"id\":7,\"text\":\"two\"}\n");
  run();
  EXPECT_THAT(all("kept", "id"), ElementsAre("a.jsonl:1", "7"));
}

TEST_F(ForeignInputs, DamagedBytesCostTheirDocumentAlone) {
  std::string lines;
  for (int i = 0; i < 9; ++i) lines += "{\"text\":\"schön\"}\n";
  file("a.jsonl", lines + "{\"text\":\"sch\xf6n\"}\n" + lines);
  const RunResult result = run();
  EXPECT_EQ(result.flow.kept.documents, 18);
  EXPECT_EQ(result.flow.damaged_inputs, 0);
  EXPECT_THAT(all("quarantine", "reason"), ElementsAre(HasSubstr("UTF-8")));
}

TEST_F(ForeignInputs, ATextOfParquetThatIsNotUtf8CostsItsRowAlone) {
  fs::copy_file(test::source_dir() / "tests/fixtures/parquet/others/torn.parquet", folder_ / "in/a.parquet");
  EXPECT_EQ(run().flow.damaged_inputs, 0);
  EXPECT_THAT(all("kept"), ElementsAre("one", "früh"));
  EXPECT_THAT(all("quarantine", "reason"), ElementsAre(HasSubstr("UTF-8")));
}

TEST_F(ForeignInputs, DataSetsThatWereSavedAreRead) {
  fs::copy_file(test::source_dir() / "tests/fixtures/arrow/stream.arrow",
                folder_ / "in/data-00000-of-00001.arrow");
  fs::copy_file(test::source_dir() / "tests/fixtures/arrow/stream.arrow", folder_ / "in/cache-0123.arrow");
  const RunResult result = run();
  EXPECT_EQ(result.flow.read.documents, 40);
  EXPECT_EQ(all("kept", "required").front(), "row 0");
}

TEST_F(ForeignInputs, SourcesInUtf16AreNotBinary) {
  write_text(folder_ / "pipeline.yaml", "input: {source_code: true}\nstages: [fix_text]\n");
  file("a.cs", std::string("\xff\xfe"
                           "i\0n\0t\0",
                           8));
  file("b.cs", std::string("int\0", 4));
  run();
  EXPECT_THAT(all("kept"), ElementsAre("int"));
  EXPECT_THAT(all("quarantine", "reason"), ElementsAre("a binary file"));
}

TEST_F(ForeignInputs, FilesOfOtherKindsAreRefusedWithWhatToDo) {
  const auto refusal = [&](const char* name) {
    file(name, "a,b");
    try {
      find_inputs({folder_ / "in" / name});
    } catch (const ConfigError& e) {
      return std::string(e.what());
    }
    return std::string("read");
  };
  EXPECT_THAT(refusal("a.csv"), HasSubstr("convert it to .parquet or .jsonl"));
  EXPECT_THAT(refusal("a.csv.gz"), HasSubstr("convert it to .parquet or .jsonl"));
  EXPECT_THAT(refusal("a.jsonl.xz"), HasSubstr("compress it by gzip or zstd"));
  EXPECT_THAT(refusal("a.tar.gz"), HasSubstr("unpack it"));
  EXPECT_THAT(refusal("a.pq"), HasSubstr("name it .parquet"));
  EXPECT_EQ(refusal("a.jsonl"), "read");
}

TEST_F(ForeignInputs, WhatAFileReallyIsIsTold) {
  file("a.jsonl", "\x1f\x8b\x08 and more");
  file("b.txt", "PK\x03\x04 and more");
  file("c.jsonl", "PAR1 and more");
  file("d.txt", std::string("notes.txt") + std::string(248, '\0') + "ustar");
  run();
  EXPECT_THAT(
      all("quarantine", "reason"),
      ElementsAre(HasSubstr("is gzip data: give it a name that ends with .gz"), HasSubstr("b.txt' is"),
                  HasSubstr("a name that ends with .parquet"), HasSubstr("is a tar archive")));
}

TEST_F(ForeignInputs, AMissingKeyIsToldWithThoseThatThereAre) {
  file("a.jsonl", "{\"content\":\"one\",\"url\":\"\"}\n");
  run();
  EXPECT_THAT(all("quarantine", "reason"), ElementsAre("it has no key \"text\"; its keys: content, url"));
}

TEST_F(ForeignInputs, WhereNothingIsKeptTheFirstReasonIsTold) {
  write_text(folder_ / "pipeline.yaml", "stages: [{gopher_quality: {min_doc_words: 1, min_stop_words: 0}}]");
  file("a.jsonl", "{\"content\":\"one\"}\n{\"content\":\"two\"}\n");
  Console quiet(Console::Level::kQuiet);
  try {
    run_pipeline(read_pipeline(folder_ / "pipeline.yaml"),
                 {.inputs = {folder_ / "in"}, .output = folder_ / "none"}, quiet);
    FAIL() << "kept";
  } catch (const DataError& e) {
    EXPECT_THAT(e.what(), HasSubstr("the first: a.jsonl:1: it has no key \"text\"; its keys: content"));
  }
}

TEST_F(ForeignInputs, WhatDescribesASavedDataSetIsNoDocument) {
  file("saved/dataset_info.json", "{\n  \"citation\": \"\"\n}");
  file("saved/state.json", "{\n  \"_split\": null\n}");
  file("dataset_dict.json", R"({"splits": ["train"]})");
  file("saved/rows.jsonl", "{\"text\":\"one\"}\n");
  file("other/state.json", "{\"text\":\"two\"}\n");  // of somebody else
  run();
  EXPECT_THAT(all("kept"), UnorderedElementsAre("one", "two"));
  EXPECT_THAT(all("quarantine"), ElementsAre());
}

}  // namespace
}  // namespace stoa::curate

#include "curate/io/collect.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/test_folder.h"
#include "curate/io/glob.h"
#include "curate/io/json_document.h"

namespace stoa::curate {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Collect : public ::testing::Test {
 protected:
  Collect() {
    for (const char* file : {"books/a.txt", "books/deep/b.txt", "books/deep/er/c.md", "books/.hidden/d.txt",
                             "books/picture.png", "crawl/x.jsonl", "crawl/y.jsonl.gz"}) {
      fs::create_directories((folder_ / file).parent_path());
      write_text(folder_ / file, "text");
    }
    write_text(
        folder_ / "crawl/LICENSE",
        "Permission is hereby granted, free of charge, to any person obtaining a copy of this software");
  }
  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  // SOURCE:FILE:LICENCE of each.
  std::vector<std::string> collected(const CollectRequest& request) const {
    std::vector<std::string> out;
    InputSearch search;
    for (const CollectedFile& file : collect_files(request, search))
      out.push_back(file.from.source + ":" + file.from.file + ":" + file.from.license);
    return out;
  }
  std::string refusal(const CollectRequest& request) const {
    try {
      InputSearch search;
      collect_files(request, search);
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  }

  TestFolder folder_;
};

TEST_F(Collect, PatternsNameFilesInTheOrderOfTheirBytes) {
  const auto names = [&](const std::string& pattern) {
    std::vector<std::string> out;
    for (const fs::path& path : expand_pattern(at(pattern)))
      out.push_back(path.lexically_relative(at("")).string());
    return out;
  };
  EXPECT_THAT(names("books/*.txt"), ElementsAre("books/a.txt"));
  EXPECT_THAT(names("b*/**/*.txt"), ElementsAre("books/a.txt", "books/deep/b.txt"));
  EXPECT_THAT(names("books/**"),
              ElementsAre("books/a.txt", "books/deep/b.txt", "books/deep/er/c.md", "books/picture.png"));
  EXPECT_THAT(names("crawl/[xy].json?*"), ElementsAre("crawl/x.jsonl", "crawl/y.jsonl.gz"));
  EXPECT_THAT(names("books/.*/*"), ElementsAre("books/.hidden/d.txt"));
  EXPECT_THAT(names("none/*"), ElementsAre());
}

TEST_F(Collect, FilesHaveTheSourceAndLicenceOfTheirPlaceUnlessTheyAreGiven) {
  EXPECT_THAT(collected({{at("books"), at("crawl/x.jsonl")}, "", ""}),
              ElementsAre("books:.hidden/d.txt:unknown", "books:a.txt:unknown", "books:deep/b.txt:unknown",
                          "books:deep/er/c.md:unknown", "x:x.jsonl:MIT"));
  EXPECT_THAT(collected({{at("books/*"), at("crawl")}, "lib", "CC0-1.0"}),
              ElementsAre("lib:a.txt:CC0-1.0", "lib:b.txt:CC0-1.0", "lib:er/c.md:CC0-1.0",
                          "lib:x.jsonl:CC0-1.0", "lib:y.jsonl.gz:CC0-1.0"))
      << "pictures are no text";
}

TEST_F(Collect, AFileThatIsNamedTwiceIsTakenOnce) {
  fs::create_symlink(folder_ / "books", folder_ / "again");
  EXPECT_THAT(collected({{at("books/a.txt"), at("again/*.txt"), at("books/deep")}, "", ""}),
              ElementsAre("a:a.txt:unknown", "deep:b.txt:unknown", "deep:er/c.md:unknown"));
}

TEST_F(Collect, ListsSayWhatDiffers) {
  write_text(folder_ / "all.list",
             "# a comment\n\nbooks/**/*.txt\tprose\tCC-BY-4.0\r\ncrawl\t\tApache-2.0\ncrawl/x.jsonl\n" +
                 at("books/deep/er/c.md") + "\tnotes\n");
  EXPECT_THAT(collected({{"@" + at("all.list")}, "web", ""}),
              ElementsAre("prose:a.txt:CC-BY-4.0", "prose:b.txt:CC-BY-4.0", "web:x.jsonl:Apache-2.0",
                          "web:y.jsonl.gz:Apache-2.0", "notes:c.md:unknown"));
}

TEST_F(Collect, WhatCannotBeCollectedIsRefused) {
  EXPECT_THAT(refusal({{at("nothing/*.txt")}, "", ""}), HasSubstr("is the pattern right"));
  EXPECT_THAT(refusal({{at("books/*.png")}, "", ""}), HasSubstr("no file that can be read, of the 1"));
  EXPECT_THAT(refusal({{at("nothing.txt")}, "", ""}), HasSubstr("nothing.txt"));
  EXPECT_THAT(refusal({{"@" + at("no.list")}, "", ""}), HasSubstr("no.list"));
  write_text(folder_ / "bad.list", "crawl\ta\tb\tc\n");
  EXPECT_THAT(refusal({{"@" + at("bad.list")}, "", ""}), HasSubstr("line 1: expected PATH"));
  write_text(folder_ / "bad.list", "@all.list\n");
  EXPECT_THAT(refusal({{"@" + at("bad.list")}, "", ""}), HasSubstr("a list in a list"));
  write_text(folder_ / "bad.list", "# nothing\n");
  EXPECT_THAT(refusal({{"@" + at("bad.list")}, "", ""}), HasSubstr("names no input"));
  write_text(folder_ / "bad.list", std::string("a\0b\n", 4));
  EXPECT_THAT(refusal({{"@" + at("bad.list")}, "", ""}), HasSubstr("not UTF-8 text"));
}

TEST(Provenance, WhatADocumentSaysOfItselfStaysUnlessTheUserSaysMore) {
  Document document{"", "text", R"("license":"MIT","n":1)", ""};
  Provenance from{"books", "a.txt", "unknown"};
  add_provenance(from, document);
  EXPECT_EQ(document.metadata, R"("license":"MIT","n":1,"source":"books","file":"a.txt")");
  from.license = "CC0-1.0";
  from.license_given = true;
  add_provenance(from, document);
  EXPECT_EQ(string_member("license", document.metadata), "CC0-1.0");
}

}  // namespace
}  // namespace stoa::curate

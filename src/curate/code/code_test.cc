// Source files: their languages, comments and licences.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/file.h"
#include "base/test_folder.h"
#include "base/test_paths.h"
#include "curate/code/extension_limits.h"
#include "curate/code/licence.h"
#include "curate/code/source_language.h"
#include "curate/filters/code_per_extension.h"
#include "curate/filters/code_quality.h"
#include "data/test_files.h"

namespace stoa::curate {
namespace {

TEST(SourceCode, LanguagesByExtensionAndName) {
  EXPECT_EQ(source_language("a/b.py"), "Python");
  EXPECT_EQ(source_language("b.CPP"), "C++");
  EXPECT_EQ(source_language("src/CMakeLists.txt"), "CMake");
  EXPECT_EQ(source_language("Makefile"), "Makefile");
  EXPECT_EQ(source_language("x.ada"), "Ada");
  EXPECT_EQ(source_language("x.zig"), "Zig");
  EXPECT_EQ(source_language("notes.txt"), "");
  EXPECT_EQ(source_language("noextension"), "");
}

// What NeMo Curator's PerExtensionFilter keeps (tests/oracle/make_code_fixtures.py).
TEST(SourceCode, TheTableOfExtensionsKeepsTheSameFilesAsNemo) {
  const auto stage = make_stage(CodePerExtension{});
  std::istringstream lines(read_text(test::source_dir() / "tests/fixtures/curate/code_extensions.jsonl"));
  int kept = 0, dropped = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto row = nlohmann::json::parse(line);
    Document document{"", row["text"], "", ""};
    document.metadata = "\"language\":" + row["language"].dump() + ",\"path\":" + row["path"].dump();
    Features features;
    features.reset(document.text);
    Verdict verdict;
    stage->apply(document, features, verdict);
    EXPECT_EQ(!verdict.dropped(), row["keep"].get<bool>()) << verdict.rule() << " " << line;
    (verdict.dropped() ? dropped : kept) += 1;
  }
  EXPECT_GT(kept, 80);
  EXPECT_GT(dropped, 80);
}

TEST(SourceCode, ExtensionsAreKnownByGitHubsNamesOfLanguages) {
  const auto known = [](std::string_view language, std::string_view path) {
    const ExtensionLimits* const found = find_extension_limits(language, path);
    return found && found->included;
  };
  EXPECT_TRUE(known("C#", "src/A.CS"));
  EXPECT_TRUE(known("Protocol Buffer", "a.proto"));
  EXPECT_TRUE(known("Visual Basic .NET", "a.vb"));
  EXPECT_TRUE(known("Dockerfile", "docker/Dockerfile"));
  EXPECT_FALSE(known("Common Lisp", "a.sexp"));
  EXPECT_FALSE(known("Python", "a.txt"));
  EXPECT_FALSE(known("", "a.py"));
  CodePerExtension options;
  options.drop_unlisted = false;
  Document document{"", "text", "\"language\":\"Python\",\"path\":\"a.txt\"", ""};
  Features features;
  features.reset(document.text);
  Verdict verdict;
  make_stage(options)->apply(document, features, verdict);
  EXPECT_FALSE(verdict.dropped());
}

TEST(SourceCode, CommentsAreNotWhatStringsHold) {
  const auto share = [](std::string_view text, std::string_view language) {
    return comment_share(text, language).value() * static_cast<double>(text.size());
  };
  EXPECT_DOUBLE_EQ(share("int a; // four\nint b;\n", "C"), 7);
  EXPECT_DOUBLE_EQ(share("char* a = \"// no\"; /* yes\n yes */\n", "C++"), 14);
  EXPECT_DOUBLE_EQ(share("x = '#' # c\n", "Python"), 3);
  EXPECT_DOUBLE_EQ(share("def f():\n  \"\"\"Doc.\"\"\"\n  return \"\"\"no\"\"\"\n", "Python"), 10);
  EXPECT_DOUBLE_EQ(share("s = \"a\\\"# no\" # c", "Python"), 3);
  EXPECT_DOUBLE_EQ(share("/* without an end", "Java"), 17);
  EXPECT_DOUBLE_EQ(share("'lone quote\n// c", "JavaScript"), 4);
  EXPECT_FALSE(comment_share("text", "Markdown").has_value());
}

TEST(SourceCode, LicencesOfTheNearestFolder) {
  EXPECT_EQ(
      licence_named(
          "Permission is hereby granted, free of charge, to any person obtaining\na copy of this software"),
      "MIT");
  EXPECT_EQ(
      licence_named(
          "                    GNU GENERAL PUBLIC LICENSE\n                       Version 3, 29 June 2007"),
      "GPL-3.0");
  EXPECT_EQ(licence_named("All rights reserved."), "");
  const TestFolder folder;
  fs::create_directories(folder / "repo/.git");
  fs::create_directories(folder / "repo/src/vendor");
  write_text(folder / "LICENSE", "Apache License\n Version 2.0, January 2004");
  write_text(folder / "repo/COPYING", "Mozilla Public License Version 2.0");
  write_text(folder / "repo/src/vendor/LICENSE.txt", "our own terms");
  LicenceFinder find;
  EXPECT_EQ(find(folder / "repo/src/a.c", ""), "MPL-2.0");
  EXPECT_EQ(find(folder / "repo/src/vendor/a.c", ""), "unknown");
  EXPECT_EQ(find(folder / "repo/src/a.c", "/* SPDX-License-Identifier: MIT OR Apache-2.0 */"),
            "MIT OR Apache-2.0");
  fs::remove(folder / "repo/COPYING");
  LicenceFinder again;
  EXPECT_EQ(again(folder / "repo/src/a.c", ""), "") << "not from above the repository";
}

TEST(SourceCode, LicenceFilesHaveManyNames) {
  const std::string mit =
      "Permission is hereby granted, free of charge, to any person obtaining a copy of this software";
  const auto found = [&](const char* name) {
    const TestFolder folder;
    fs::create_directories(folder / ".git");
    write_text(folder / name, mit);
    return LicenceFinder()(folder / "a.c", "");
  };
  for (const char* name :
       {"LICENSE", "License.md", "LICENSE-MIT", "MIT-LICENSE.txt", "COPYING3", "COPYRIGHT"})
    EXPECT_EQ(found(name), "MIT") << name;
  for (const char* name : {"license.py", "licence.cc", "licenses.json", "copyright.js", "NOTES"})
    EXPECT_EQ(found(name), "") << name;
}

TEST(SourceCode, TagsOfSpdxEndWhereTheirExpressionDoes) {
  const TestFolder folder;
  const auto found = [&](const std::string& line) {
    return LicenceFinder()(folder / "a.c", line + "\nmore text");
  };
  EXPECT_EQ(found("<!-- SPDX-License-Identifier: MIT -->"), "MIT");
  EXPECT_EQ(found("<!-- SPDX-License-Identifier: MIT-->"), "MIT");
  EXPECT_EQ(found("{# SPDX-License-Identifier: Apache-2.0 #}"), "Apache-2.0");
  EXPECT_EQ(found("tag = \"SPDX-License-Identifier: Zlib\" in text"), "Zlib");
  EXPECT_EQ(found("// SPDX-License-Identifier: (GPL-2.0-only WITH Linux-syscall-note) OR BSD-3-Clause"),
            "(GPL-2.0-only WITH Linux-syscall-note) OR BSD-3-Clause");
  EXPECT_EQ(found("# SPDX-License-Identifier:   GPL-2.0+"), "GPL-2.0+");
}

std::string first_rule(const CodeQuality& options, const std::string& text, const std::string& language,
                       const std::string& more = "") {
  Document document{"", text, "\"language\":\"" + language + "\"" + more, ""};
  Features features;
  features.reset(document.text);
  Verdict verdict;
  make_stage(options)->apply(document, features, verdict);
  return verdict.rule();
}

TEST(CodeQuality, EveryRuleDecides) {
  const std::string good = "# Adds two numbers.\ndef add(a, b):\n    return a + b\n";
  EXPECT_EQ(first_rule({}, good, "Python"), "");
  EXPECT_EQ(first_rule({}, "# This file is generated by x\n" + good, "Python"), "generated");
  EXPECT_EQ(first_rule({}, "\n\n\n\n\n# autogenerated\n" + good, "Python"), "") << "in the sixth line";
  EXPECT_EQ(first_rule({}, "<?xml version=\"1.0\"?>\n<a/>", "XML"), "xml");
  EXPECT_EQ(first_rule({}, good + std::string(1001, 'x'), "Python"), "line_max");
  EXPECT_EQ(first_rule({}, std::string(150, 'x') + '\n', "C"), "line_mean");
  EXPECT_EQ(first_rule({}, "{{{{}}}}; ((((a))))\n", "C"), "alphanum_fraction");
  EXPECT_EQ(first_rule({}, "def add(a, b):\n    return a + b\n", "Python"), "few_comments");
  EXPECT_EQ(first_rule({}, "int a;\n", "C"), "") << "comments of C are not judged";
  EXPECT_EQ(first_rule({}, "# only\n# comments\n# here\nx\n", "Python"), "comments");
  EXPECT_EQ(
      first_rule({}, "<html><script>var someLongName = 1; var another = 2;</script><p>Hi</p></html>", "HTML"),
      "visible_text");
  EXPECT_EQ(first_rule({}, "<p>Hello there</p>", "HTML"), "visible_characters");
  CodeQuality permissive;
  permissive.licenses = {"MIT"};
  EXPECT_EQ(first_rule(permissive, good, "Python"), "license");
  EXPECT_EQ(first_rule(permissive, good, "Python", ",\"license\":\"MIT\""), "");
}

}  // namespace
}  // namespace stoa::curate

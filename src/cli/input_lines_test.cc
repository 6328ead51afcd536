#include "cli/input_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/test_folder.h"

namespace stoa::cli {
namespace {

using ::testing::ElementsAre;

TEST(InputLines, EndAsInUnixOrWindowsAndMayFollowAMark) {
  const TestFolder folder;
  const fs::path path = folder / "lines.txt";
  write_text(path,
             "\xEF\xBB\xBF"
             "one\r\ntwo\n\r\n\xEF\xBB\xBFin\rside\r\nlast");
  InputLines in(path.string());
  std::vector<std::string> lines;
  for (std::string line; in.next(line);) lines.push_back(line);
  EXPECT_THAT(lines, ElementsAre("one", "two", "", "\xEF\xBB\xBFin\rside", "last"));
  fs::remove(path);
  EXPECT_THROW(InputLines(path.string()), IoError);
  EXPECT_THROW(InputLines(folder.path().string()), IoError);
}

// As PowerShell's > writes them.
TEST(InputLines, OfUtf16AreRefused) {
  const TestFolder folder;
  for (const std::string& text : {std::string("\xFF\xFE"
                                              "a\0\n\0",
                                              6),
                                  std::string("\xFE\xFF\0a\0\n", 6)}) {
    write_text(folder / "lines.txt", text);
    InputLines in((folder / "lines.txt").string());
    std::string line;
    EXPECT_THROW(in.next(line), DataError);
  }
  write_text(folder / "lines.txt", "\xFF\xFE, two bytes that are no UTF-8\n");
  InputLines in((folder / "lines.txt").string());
  std::string line;
  EXPECT_TRUE(in.next(line));
}

}  // namespace
}  // namespace stoa::cli

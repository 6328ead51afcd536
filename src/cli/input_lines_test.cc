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

}  // namespace
}  // namespace stoa::cli

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "base/test_folder.h"
#include "foreign/checkpoint/foreign_checkpoint.h"

namespace stoa::foreign {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(FindForeign, AGgufFileNeedsNoImport) {
  const TestFolder folder;
  write_text(folder / "a.gguf", "GGUF");
  EXPECT_THAT(
      [&] { open_foreign(folder / "a.gguf"); },
      ThrowsMessage<IoError>(HasSubstr("a.gguf --dtype bf16 --output DIR` makes a Hugging Face directory")));
}

TEST(FindForeign, TheNearestCheckpointIsNamed) {
  const TestFolder folder;
  const fs::path rank = folder / "run/iter_0000020/mp_rank_00";
  fs::create_directories(rank);
  fs::create_directories(folder / "run/iter_0000010");
  const auto refused = [](const fs::path& given, const std::string& message) {
    EXPECT_THAT([&] { open_foreign(given); }, ThrowsMessage<Error>(HasSubstr(message)));
  };
  refused(folder / "run", "run/iter_0000020'? (latest_checkpointed_iteration.txt");
  refused(rank, "iter_0000020', which has all ranks?");
  refused(folder / "a.nemo", "a.nemo' does not exist");
}

}  // namespace
}  // namespace stoa::foreign

// Archives as other programs write them (tests/oracle/make_warc_fixtures.py): wget, warcio, fastwarc.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/test_folder.h"
#include "base/test_paths.h"
#include "curate/run/run.h"

namespace stoa::curate {
namespace {

using ::testing::ElementsAre;

std::vector<nlohmann::json> lines_of(const fs::path& file) {
  std::vector<nlohmann::json> rows;
  std::istringstream lines(read_text(file));
  for (std::string line; std::getline(lines, line);) rows.push_back(nlohmann::json::parse(line));
  return rows;
}

TEST(ForeignArchives, HoldTheSamePagesWhoeverWroteThem) {
  const fs::path folder = test::source_dir() / "tests/fixtures/curate/warc";
  const auto pages = lines_of(folder / "pages.jsonl");
  ASSERT_EQ(pages.size(), 5U);
  for (const char* name : {"warcio.warc.gz", "warcio.warc", "fastwarc.warc.gz", "wget.warc.gz"}) {
    SCOPED_TRACE(name);
    const TestFolder output;
    Console quiet(Console::Level::kQuiet);
    const RunResult result =
        run_pipeline(pipeline_of(config::Node::map()), {{folder / name}, output / "out", 1}, quiet);
    EXPECT_EQ(result.flow.quarantined.documents, 0);
    EXPECT_EQ(result.flow.damaged_inputs, 0);
    const auto kept = lines_of(output / "out/kept/00000.jsonl");
    ASSERT_GE(kept.size(), pages.size());  // wget follows a page that has moved
    for (std::size_t i = 0; i < pages.size(); ++i) {
      EXPECT_EQ(kept[i]["title"], pages[i]["title"]);
      EXPECT_EQ(kept[i]["text"].get<std::string>(), pages[i]["text"].get<std::string>() + "\n");
      EXPECT_TRUE(kept[i]["url"].get<std::string>().starts_with("http://127.0.0.1")) << kept[i]["url"];
      EXPECT_TRUE(kept[i]["url"].get<std::string>().ends_with(".html")) << kept[i]["url"];
    }
    std::vector<std::string> dropped;
    for (const auto& row : lines_of(output / "out/dropped/00000.jsonl")) dropped.push_back(row["reason"]);
    if (std::string_view(name).starts_with("wget"))
      EXPECT_EQ(dropped.size(), 4U) << "and what it writes about itself";
    else
      EXPECT_THAT(dropped, ElementsAre("input/no_page", "input/http_status", "input/http_status"));
  }
}

}  // namespace
}  // namespace stoa::curate

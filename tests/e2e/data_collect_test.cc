// Corpora collected from files and folders, and copies removed, as a user does it.
#include <gmock/gmock.h>
#include <signal.h>

#include <sstream>

#include "base/file.h"
#include "workplace.h"

namespace stoa::e2e {
namespace {

using ::testing::HasSubstr;

class DataCollect : public Workplace {
 protected:
  std::vector<nlohmann::json> kept(const std::string& output) const {
    std::vector<nlohmann::json> rows;
    std::istringstream lines(read_text(path(output + "/kept/00000.jsonl")));
    for (std::string line; std::getline(lines, line);) rows.push_back(nlohmann::json::parse(line));
    return rows;
  }
  void refuse(const Arguments& arguments, const std::string& words) const {
    const Outcome outcome = stoa(arguments);
    EXPECT_EQ(outcome.exit_code, 1) << outcome.text();
    EXPECT_THAT(outcome.err, HasSubstr(words));
  }
};

TEST_F(DataCollect, DocumentsHaveTheirSourceAndLicence) {
  fs::create_directories(path("mount/books"));
  write_text(path("mount/books/one.txt"), "first\n\nsecond");
  write_text(path("mount/crawl.jsonl"),
             "{\"content\":\"third\",\"license\":\"MIT\"}\n{\"content\":\"fourth\"}\n");
  write_text(path("mount/all.list"), "books\tlibrary\tCC0-1.0\n*.jsonl\n");
  const Arguments command{"data",       "collect", "@mount/all.list", "--text-split", "paragraph",
                          "--json-key", "content", "--source",        "web",          "--output"};
  stoa_ok(command + Arguments{"raw"});
  const auto rows = kept("raw");
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0], (nlohmann::json{{"id", "one.txt:1"},
                                     {"text", "first"},
                                     {"source", "library"},
                                     {"file", "one.txt"},
                                     {"license", "CC0-1.0"}}));
  EXPECT_EQ(rows[2]["license"], "MIT") << "its own";
  EXPECT_EQ(rows[2]["source"], "web");
  EXPECT_EQ(rows[3]["license"], "unknown");
  EXPECT_THAT(read_text(path("raw/DATASHEET.md")), HasSubstr("| library | CC0-1.0 |"));
  EXPECT_THAT(stoa_ok(command + Arguments{"raw"}).err, HasSubstr("is complete"));
  refuse(command + Arguments{"raw", "--license", "MIT"}, "license");
  refuse({"data", "collect", "mount/*.pdf", "--output", "x"}, "is the pattern right");
  // Shared by processes, and by another number of workers: the same bytes.
  stoa_ok(command + Arguments{"shared", "--shared", "--workers", "3"});
  EXPECT_EQ(read_text(path("shared/kept/00000.jsonl")), read_text(path("raw/kept/00000.jsonl")));
}

TEST_F(DataCollect, ARunThatWasKilledGoesOn) {
  std::string lines;
  for (int i = 0; i < 30'000; ++i)
    lines += nlohmann::json{{"text", pseudo_prose(static_cast<std::uint64_t>(i), 40)}}.dump() + "\n";
  write_text(path("big.jsonl"), lines);
  write_text(path("bigger.jsonl"), lines);
  const Arguments command{"data", "collect", "big.jsonl", "bigger.jsonl", "--license", "CC0-1.0", "--output"};
  stoa_ok(command + Arguments{"whole", "--workers", "1"});
  for (int kill = 1; kill < 6; ++kill) {
    ProgramOptions options;
    options.directory = directory();
    Program program(command + Arguments{"killed", "--workers", "2"}, options);
    std::this_thread::sleep_for(std::chrono::milliseconds(60 * kill));
    program.signal(SIGKILL);
    program.wait();
  }
  stoa_ok(command + Arguments{"killed"});
  EXPECT_EQ(read_text(path("killed/manifest.json")), read_text(path("whole/manifest.json")));
}

TEST_F(DataCollect, CopiesAreRemovedAndNothingElse) {
  write_text(path("in.jsonl"),
             "{\"id\":1,\"text\":\"a b\",\"s\":1}\n{\"id\":2,\"text\":\"c\",\"s\":1}\n{\"id\":3,\"text\":\"a "
             "b\",\"s\":5}\n");
  stoa_ok({"data", "dedup", "in.jsonl", "--output", "first"});
  EXPECT_EQ(kept("first").size(), 2U);
  EXPECT_EQ(kept("first")[0]["id"], "1");
  stoa_ok({"data", "dedup", "in.jsonl", "--method", "exact,minhash", "--keep", "best", "--score", "s",
           "--output", "best"});
  EXPECT_EQ(kept("best")[1]["id"], "3");
  refuse({"data", "dedup", "in.jsonl", "--keep", "best", "--output", "x"}, "belong together");
  EXPECT_NE(stoa({"data", "dedup", "in.jsonl", "--method", "simhash", "--output", "x"}).exit_code, 0);
}

}  // namespace
}  // namespace stoa::e2e

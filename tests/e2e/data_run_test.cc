// The data factory as a user runs it: kept and dropped documents, the same bytes for any number of workers
// and after kills, and what is refused.
#include <gmock/gmock.h>
#include <signal.h>

#include <fstream>
#include <thread>

#include "base/file.h"
#include "workplace.h"

namespace stoa::e2e {
namespace {

using ::testing::HasSubstr;

class DataRun : public Workplace {
 protected:
  void SetUp() override {
    Workplace::SetUp();
    write_text(path("pipeline.yaml"),
               "shard_bytes: 20_000\nstages:\n  - gopher_quality: {min_doc_words: 30, min_stop_words: 0, "
               "max_avg_word_length: 20}\n"
               "deduplicate: [exact, minhash]\n");
    std::ofstream out(path("corpus.jsonl"));
    for (int i = 0; i < 600; ++i) {
      const nlohmann::json row{
          {"id", i},
          {"text", pseudo_prose(static_cast<std::uint64_t>(i % 500), i % 7 == 0 ? 10 : 120)},
          {"n", i}};
      out << row.dump() << '\n';
    }
  }
  Arguments run(const std::string& output, const Arguments& more = {}) const {
    return Arguments{"data", "run", "pipeline.yaml", "--input", "corpus.jsonl", "--output", output} + more;
  }
  std::map<std::string, std::string> files(const std::string& output) const {
    std::map<std::string, std::string> contents;
    for (const auto& entry : fs::recursive_directory_iterator(path(output)))
      if (entry.is_regular_file())
        contents[fs::relative(entry.path(), path(output)).string()] = read_text(entry.path());
    return contents;
  }
  void refuse(const Arguments& arguments, const std::string& words) const {
    const Outcome outcome = stoa(arguments);
    EXPECT_EQ(outcome.exit_code, 1) << outcome.text();
    EXPECT_THAT(outcome.err, HasSubstr(words));
  }
};

TEST_F(DataRun, SameBytesForAnyWorkersAndAfterKills) {
  const auto result = json_of(run("one", {"--workers", "1", "--json"}));
  EXPECT_EQ(result["flow"]["read"]["documents"], 600);
  EXPECT_GT(result["flow"]["dropped"]["gopher_quality/gopher_short_doc"]["documents"], 50);
  EXPECT_GT(result["flow"]["dropped"]["exact/duplicate"]["documents"], 50);
  EXPECT_GE(result["shards"], 5);
  const auto one = files("one");
  stoa_ok(run("seven", {"--workers", "7"}));
  EXPECT_EQ(files("seven"), one);
  for (int kill = 0; kill < 8; ++kill) {
    ProgramOptions options;
    options.directory = directory();
    Program program(run("killed", {"--workers", "2"}), options);
    std::this_thread::sleep_for(std::chrono::milliseconds(10 * kill));
    program.signal(SIGKILL);
    program.wait();
  }
  stoa_ok(run("killed", {"--workers", "2"}));
  EXPECT_EQ(files("killed"), one);
  EXPECT_THAT(stoa_ok(run("killed")).err, HasSubstr("is complete"));
}

TEST_F(DataRun, CompressedInputsAndShippedPipelines) {
  ProgramOptions gzip;
  gzip.directory = directory();
  gzip.program = "/usr/bin/gzip";
  const Outcome zipped = Program({"-k", "corpus.jsonl"}, gzip).wait();
  ASSERT_EQ(zipped.exit_code, 0) << zipped.text();
  stoa_ok(run("plain"));
  stoa_ok({"data", "run", "pipeline.yaml", "--input", "corpus.jsonl.gz", "--output", "zipped"});
  EXPECT_EQ(read_text(path("plain/kept/00000.jsonl")), read_text(path("zipped/kept/00000.jsonl")));
  EXPECT_THAT(
      stoa_ok({"data", "run", "fineweb", "--input", "corpus.jsonl", "--output", "x", "--dry-run"}).out,
      HasSubstr("the whole, with"));
  EXPECT_FALSE(fs::exists(path("x")));
  EXPECT_THAT(stoa_ok({"data", "stages"}).out, HasSubstr("short_line_thr"));
  // Half of the compressed file.
  fs::resize_file(path("corpus.jsonl.gz"), fs::file_size(path("corpus.jsonl.gz")) / 2);
  refuse({"data", "run", "pipeline.yaml", "--input", "corpus.jsonl.gz", "--output", "torn"}, "truncated");
  EXPECT_FALSE(fs::exists(path("torn/manifest.json")));
}

TEST_F(DataRun, RefusesWhatItCannotDo) {
  refuse({"data", "run", "finewebb", "--input", "corpus.jsonl", "--output", "x"}, "did you mean 'fineweb'");
  refuse({"data", "run", "pipeline.yaml", "--input", "none.jsonl", "--output", "x"}, "none.jsonl");
  refuse({"data", "run", "pipeline.yaml", "--input", "corpus.jsonl", "--output", "tok"}, "holds no run");
  stoa_ok(run("out"));
  write_text(path("pipeline.yaml"), "stages: [gopher_quality]");
  refuse(run("out"), "another pipeline");
  write_text(path("pipeline.yaml"), "stages: [{c4_quality: {min_num_sentences: 1000}}]");
  refuse(run("nothing"), "no document was kept");
  ProgramOptions small;
  small.file_bytes = 1000;
  const Outcome full = stoa(run("full"), small);
  EXPECT_NE(full.exit_code, 0);
  EXPECT_THAT(full.err, HasSubstr("ERROR"));
}

}  // namespace
}  // namespace stoa::e2e

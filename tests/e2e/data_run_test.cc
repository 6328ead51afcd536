// The data factory as a user runs it: kept and dropped documents, the same bytes for any number of workers
// and after kills, and what is refused.
#include <gmock/gmock.h>
#include <signal.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <thread>

#include "base/file.h"
#include "base/test_paths.h"
#include "http_client.h"
#include "workplace.h"

namespace stoa::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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
  EXPECT_THAT(one.at("report.html"), HasSubstr("<td>dropped by gopher_quality/gopher_short_doc</td>"));
  EXPECT_THAT(one.at("report.html"), HasSubstr("<h3>exact/duplicate</h3>"));
  EXPECT_THAT(one.at("DATASHEET.md"), HasSubstr("| corpus.jsonl | "));
  EXPECT_THAT(one.at("DATASHEET.md"), HasSubstr("| exact/duplicate | "));
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

// Processes that share a run, one of which is killed and comes back, write what one writes.
TEST_F(DataRun, ProcessesShareARun) {
  fs::create_directories(path("in"));
  for (int i = 0; i < 8; ++i) fs::copy_file(path("corpus.jsonl"), path("in/" + std::to_string(i) + ".jsonl"));
  const auto shared = [&](const std::string& output) {
    return Arguments{"data", "run", "pipeline.yaml", "--input", "in", "--output", output, "--workers", "1"};
  };
  stoa_ok(shared("alone"));
  const auto one = files("alone");
  ProgramOptions options;
  options.directory = directory();
  {
    Program killed(shared("several") + Arguments{"--shared"}, options);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    killed.signal(SIGKILL);
    killed.wait();
  }
  std::vector<std::unique_ptr<Program>> processes;
  for (int i = 0; i < 3; ++i)
    processes.push_back(std::make_unique<Program>(shared("several") + Arguments{"--shared"}, options));
  for (auto& process : processes) {
    const Outcome outcome = process->wait();
    EXPECT_EQ(outcome.exit_code, 0) << outcome.text();
  }
  EXPECT_EQ(files("several"), one);
}

// Without --shared: what launchers say of their processes.
TEST_F(DataRun, ProcessesOfALauncherShareARun) {
  stoa_ok({"data", "run", "pipeline.yaml", "--input", "corpus.jsonl", "--output", "alone"});
  const auto one = files("alone");
  for (const std::string name : {"SLURM_ARRAY_TASK_COUNT", "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE",
                                 "PMI_SIZE", "JOB_COMPLETION_INDEX"}) {
    ProgramOptions options;
    options.directory = directory();
    ::setenv(name.c_str(), "2", 1);
    std::vector<std::unique_ptr<Program>> processes;
    for (int i = 0; i < 2; ++i)
      processes.push_back(
          std::make_unique<Program>(Arguments{"data", "run", "pipeline.yaml", "--input", "corpus.jsonl",
                                              "--output", name, "--workers", "1"},
                                    options));
    ::unsetenv(name.c_str());
    for (auto& process : processes) {
      const Outcome outcome = process->wait();
      EXPECT_EQ(outcome.exit_code, 0) << name << ": " << outcome.text();
    }
    EXPECT_EQ(files(name), one) << name;
  }
}

// One document takes long; the run starts again without it.
TEST_F(DataRun, ADocumentThatTakesTooLongGoesToQuarantine) {
  const std::string piece = pseudo_prose(1, 20'000);
  std::string text;
  for (int i = 0; i < 150; ++i) text += piece + std::to_string(i);
  std::ofstream(path("corpus.jsonl"), std::ios::app)
      << nlohmann::json{{"id", "long"}, {"text", text}}.dump() << '\n';
  write_text(path("pipeline.yaml"),
             "document_seconds: 0.2\nstages: [{gopher_quality: {min_doc_words: 30, min_stop_words: 0, "
             "max_avg_word_length: 20, max_doc_words: 0}}, {rpv2_signals: {}}]\nallow_empty: true\n");
  const auto result = json_of(run("out", {"--workers", "2", "--json"}));
  EXPECT_EQ(result["flow"]["quarantined"]["documents"], 1);
  EXPECT_EQ(result["flow"]["read"]["documents"], 601);
  EXPECT_THAT(files("out").at("quarantine/00000.jsonl"), HasSubstr("it took more than 0.2 s"));
}

TEST_F(DataRun, TheOutputIsShownInABrowser) {
  stoa_ok(run("out"));
  write_text(path("said.txt"), "");
  ProgramOptions options;
  options.directory = directory();
  options.output = path("said.txt");
  Program server({"data", "browse", "out", "--port", "0"}, options);
  ASSERT_TRUE(server.wait_until([&] { return read_text(path("said.txt")).find('\n') != std::string::npos; }));
  const std::string said = read_text(path("said.txt"));
  const auto port = static_cast<std::uint16_t>(std::stoi(said.substr(said.rfind(':') + 1)));
  HttpConnection connection(port);
  const auto get = [&](const std::string& address, const std::string& headers = {}) {
    connection.send(http_request("GET", address, {}, headers));
    return connection.read();
  };
  EXPECT_THAT(get("/").body, HasSubstr("<h1>Data run</h1>"));
  EXPECT_THAT(get("/search/dropped/gopher_short_doc").body,
              HasSubstr("dropped: gopher_quality/gopher_short_doc"));
  EXPECT_THAT(get("/document/3").body, HasSubstr("<h1>3</h1>"));
  EXPECT_EQ(get("/document/nobody").status, 404);
  connection.send("GET / HTTP/1.1\r\nHost: elsewhere.example\r\n\r\n");
  EXPECT_EQ(connection.read().status, 403);
  server.signal(SIGTERM);
  server.wait();
  refuse({"data", "browse", "corpus.jsonl"}, "holds no complete output");
}

// Decisions about tags are those of a run, with any limits; the tags have the same bytes for any number of
// workers and after kills.
TEST_F(DataRun, TagsDecideAsARunDoes) {
  const Arguments stages{"pipeline.yaml", "--input", "corpus.jsonl", "--output"};
  const auto write = [&](int words) {
    write_text(path("pipeline.yaml"),
               "shard_bytes: 20_000\nstages:\n  - gopher_quality: {min_doc_words: " + std::to_string(words) +
                   ", min_stop_words: 0, max_avg_word_length: 20}\n  - c4_quality: {min_num_sentences: 1, "
                   "filter_no_terminal_punct: false}\n");
  };
  write(30);
  EXPECT_EQ(json_of(Arguments{"data", "tag"} + stages +
                    Arguments{"tagged", "--workers", "1", "--json"})["flow"]["kept"]["documents"],
            600);
  const auto one = files("tagged");
  for (int kill = 0; kill < 4; ++kill) {
    ProgramOptions options;
    options.directory = directory();
    Program program(Arguments{"data", "tag"} + stages + Arguments{"killed", "--workers", "3"}, options);
    std::this_thread::sleep_for(std::chrono::milliseconds(15 * kill));
    program.signal(SIGKILL);
    program.wait();
  }
  stoa_ok(Arguments{"data", "tag"} + stages + Arguments{"killed", "--workers", "2"});
  const auto killed = files("killed");
  for (const auto& [name, text] : killed) EXPECT_TRUE(one.contains(name) && one.at(name) == text) << name;
  EXPECT_EQ(killed.size(), one.size());
  const auto kept = [&](const std::string& output) {
    std::map<std::string, std::string> found;
    for (const auto& [name, text] : files(output))
      if (name.starts_with("kept/")) found[name] = text;
    return found;
  };
  stoa_ok(Arguments{"data", "run"} + stages + Arguments{"run30"});
  const auto decided = json_of({"data", "decide", "tagged", "--output", "decided30", "--json"});
  EXPECT_EQ(decided["flow"]["dropped"].size(), 1);
  EXPECT_GT(decided["flow"]["dropped"]["gopher_quality/gopher_short_doc"]["documents"], 50);
  EXPECT_EQ(kept("decided30"), kept("run30"));
  write(5);
  stoa_ok(Arguments{"data", "run"} + stages + Arguments{"run5"});
  const Arguments more{"data",     "decide",  "tagged", "--limit", "gopher_quality/gopher_short_doc=5",
                       "--output", "decided5"};
  stoa_ok(more);
  EXPECT_EQ(kept("decided5"), kept("run5"));
  EXPECT_NE(kept("decided5"), kept("decided30"));
  stoa_ok(more);  // is complete
  refuse({"data", "decide", "tagged", "--output", "decided5"}, "differs in its limits");
  const auto curve = json_of(
      {"data", "decide", "tagged", "--what-if", "gopher_quality/gopher_short_doc", "--json"})["what_if"];
  EXPECT_GE(curve.size(), 3U);
  EXPECT_EQ(curve.front()["limit"], 0);
  EXPECT_EQ(curve.front()["dropped"]["documents"], 0);
  EXPECT_GT(curve.back()["dropped"]["documents"], curve.front()["dropped"]["documents"]);
  EXPECT_THAT(stoa_ok({"data", "decide", "tagged", "--limit", "gopher_quality/gopher_short_doc=off"}).out,
              Not(HasSubstr("short_doc")));
  refuse({"data", "decide", "tagged", "--limit", "gopher_quality/gopher_shrt_doc=3"}, "did you mean");
  refuse({"data", "decide", "tagged", "--limit", "gopher_quality/gopher_short_doc=many"}, "got 'many'");
  refuse({"data", "decide", "tagged", "--limit", "gopher_quality"}, "RULE=VALUE");
  refuse({"data", "decide", "run30"}, "stoa data tag");
  refuse({"data", "decide", "none"}, "holds no finished run");
  write_text(path("tagged/attributes/00001.jsonl"), "{\"id\":1}\n");
  refuse({"data", "decide", "tagged"}, "a line of attributes");
}

// Of equal lines the first stays, wherever shards end and runs are killed.
TEST_F(DataRun, CopiesOfPartsAreCut) {
  std::ofstream out(path("parts.jsonl"));
  for (int i = 0; i < 200; ++i)
    out << nlohmann::json{{"id", i},
                          {"text", "Own line " + pseudo_prose(static_cast<std::uint64_t>(i), 9) +
                                       " end\nThe same line in " + (i % 2 == 0 ? "even" : "odd") +
                                       " ones 2026\nand its last"},
                          {"n", i}}
               .dump()
        << '\n';
  out.close();
  write_text(path("pipeline.yaml"),
             "shard_bytes: 3000\ndeduplicate: [exact]\ncut:\n  - lines: {min_characters: 13}\n  - bloom\n  - "
             "substrings: {min_bytes: 500}\n");
  const Arguments words{"data", "run", "pipeline.yaml", "--input", "parts.jsonl", "--output"};
  const auto result = json_of(words + Arguments{"one", "--workers", "1", "--json"});
  EXPECT_EQ(result["flow"]["cut"]["documents"], 198);
  EXPECT_EQ(result["flow"]["kept"]["documents"], 200);
  const auto one = files("one");
  EXPECT_THAT(one.at("kept/00000.jsonl"),
              HasSubstr("The same line in odd ones 2026\\nand its last\",\"n\":1}"));
  EXPECT_THAT(one.at("kept/00000.jsonl"), HasSubstr(" end\\nand its last\",\"n\":2}"));
  for (int kill = 0; kill < 6; ++kill) {
    ProgramOptions options;
    options.directory = directory();
    Program program(words + Arguments{"killed", "--workers", "2"}, options);
    std::this_thread::sleep_for(std::chrono::milliseconds(20 * kill));
    program.signal(SIGKILL);
    program.wait();
  }
  stoa_ok(words + Arguments{"killed", "--workers", "3", "--memory", "0.001"});
  EXPECT_EQ(files("killed"), one);
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
  const Arguments torn{"data",    "run",          "pipeline.yaml", "--input", "corpus.jsonl.gz",
                       "--input", "corpus.jsonl", "--output"};
  for (const char* output : {"torn", "torn"}) {  // done, and found done
    refuse(torn + Arguments{output}, "1 fault in the inputs; ");
    const auto manifest = nlohmann::json::parse(read_text(path("torn/manifest.json")));
    EXPECT_EQ(manifest["flow"]["damaged_inputs"], 1);
    EXPECT_GT(manifest["flow"]["read"]["documents"], 700);
    std::string quarantine;
    for (const auto& [name, text] : files("torn"))
      if (name.starts_with("quarantine")) quarantine += text;
    EXPECT_THAT(quarantine, HasSubstr("corpus.jsonl.gz"));
    EXPECT_THAT(quarantine, HasSubstr("truncated"));
  }
  refuse(torn + Arguments{"strict", "--strict"}, "truncated");
  EXPECT_FALSE(fs::exists(path("strict/manifest.json")));
}

// A tagging run goes through all stages, whatever the filters make of such prose.
TEST_F(DataRun, EveryShippedPipelineRuns) {
  int pipelines = 0;
  for (const auto& entry : fs::directory_iterator(test::source_dir() / "configs/pipelines")) {
    const std::string name = entry.path().stem().string();
    if (name == "code") continue;  // SourceCodeOfADirectoryHasLanguageAndLicense
    ++pipelines;
    const auto tagged =
        json_of({"data", "tag", name, "--input", "corpus.jsonl", "--output", "tagged-" + name, "--json"});
    EXPECT_EQ(tagged["flow"]["read"]["documents"], 600) << name;
    EXPECT_FALSE(read_text(path("tagged-" + name + "/attributes/00000.jsonl")).empty()) << name;
  }
  EXPECT_GE(pipelines, 6);
}

TEST_F(DataRun, ParquetFilesAreReadAsTheJsonLinesOfTheirRows) {
  const fs::path fixtures = test::source_dir() / "tests/fixtures/parquet";
  write_text(path("pipeline.yaml"),
             "input: {text_key: required}\nstages:\n  - gopher_quality: {min_doc_words: 2, min_stop_words: "
             "0, max_non_alpha_words_ratio: 0, min_avg_word_length: 0}\n");
  fs::create_directory(path("rows"));
  fs::copy_file(fixtures / "snappy-2.0.parquet", path("rows/rows.parquet"));
  stoa_ok({"data", "run", "pipeline.yaml", "--input", "rows", "--output", "parquet"});
  stoa_ok(
      {"data", "run", "pipeline.yaml", "--input", (fixtures / "rows.jsonl").string(), "--output", "lines"});
  for (const char* part : {"dropped", "kept"}) {
    std::ifstream rows(path(std::string("parquet/") + part + "/00000.jsonl")),
        lines(path(std::string("lines/") + part + "/00000.jsonl"));
    std::string row, line;
    while (std::getline(rows, row)) {
      ASSERT_TRUE(std::getline(lines, line));
      EXPECT_EQ(nlohmann::json::parse(row), nlohmann::json::parse(line));
    }
    EXPECT_FALSE(std::getline(lines, line));
  }
  fs::resize_file(path("rows/rows.parquet"), 20'000);
  refuse({"data", "run", "pipeline.yaml", "--input", "rows", "--output", "torn"}, "no document was kept");
  EXPECT_FALSE(fs::exists(path("torn/manifest.json")));
}

TEST_F(DataRun, WikipediaDumpsAreArticlesOfPlainText) {
  const std::string dump = (test::source_dir() / "tests/fixtures/curate/wiki/en/pages.xml.bz2").string();
  write_text(path("wiki.yaml"),
             "shard_bytes: 5_000\nstages:\n  - pii: {rule: starcoder}\n  - minhash_signature\n");
  const auto run = [&](const std::string& output, const char* workers) {
    stoa_ok({"data", "run", "wiki.yaml", "--input", dump, "--output", output, "--workers", workers});
    return files(output);
  };
  const auto one = run("wiki-one", "1");
  EXPECT_EQ(run("wiki-three", "3"), one);
  const auto manifest = nlohmann::json::parse(one.at("manifest.json"));
  EXPECT_EQ(manifest["flow"]["read"]["documents"], 8);
  EXPECT_EQ(manifest["flow"]["dropped"]["input/redirect"]["documents"], 1);
  std::istringstream rows(one.at("kept/00000.jsonl"));
  std::string row;
  ASSERT_TRUE(std::getline(rows, row));
  const auto first = nlohmann::json::parse(row);
  EXPECT_EQ(first["title"], "An American in Paris");
  EXPECT_EQ(first["url"], "https://en.wikipedia.org/wiki/An_American_in_Paris");
  EXPECT_EQ(first["minhash"].get<std::string>().size(), 112u * 16);
  EXPECT_THAT(first["text"].get<std::string>(), Not(HasSubstr("{{")));
  write_text(path("wiki.yaml"), "input: {wiki_namespaces: [10]}\nallow_empty: true\nstages: [pii]\n");
  const auto none = json_of({"data", "run", "wiki.yaml", "--input", dump, "--output", "none", "--json"});
  EXPECT_EQ(none["flow"]["dropped"]["input/namespace"]["documents"], 8);
}

TEST_F(DataRun, SourceCodeOfADirectoryHasLanguageAndLicense) {
  fs::create_directories(path("repo/src"));
  fs::create_directories(path("repo/.git"));
  write_text(path("repo/LICENSE"),
             "Permission is hereby granted, free of charge, to any person obtaining a copy of this software");
  write_text(path("repo/src/add.py"),
             "# Adds two numbers, and nothing else.\ndef add(a, b):\n    return a + b\n");
  write_text(path("repo/src/copy.py"),
             "# Adds two numbers, and nothing else.\ndef add(a, b):\n    return a + b\n");
  write_text(path("repo/src/made.c"), "/* automatically generated */\nint a;\n");
  write_text(path("repo/src/binary.c"), std::string("int\0a", 5));
  write_text(path("repo/notes.txt"), "no source");
  write_text(path("repo/.git/hook.sh"), "# hidden\n");
  stoa_ok({"data", "run", "code", "--input", "repo", "--output", "code"});
  const auto kept = nlohmann::json::parse(read_text(path("code/kept/00000.jsonl")));
  EXPECT_EQ(kept["path"], "repo/src/add.py");
  EXPECT_EQ(kept["language"], "Python");
  EXPECT_EQ(kept["license"], "MIT");
  const std::string dropped = read_text(path("code/dropped/00000.jsonl"));
  EXPECT_THAT(dropped, HasSubstr("code_quality/generated"));
  EXPECT_THAT(dropped, HasSubstr("exact/duplicate"));
  EXPECT_THAT(read_text(path("code/quarantine/00000.jsonl")), HasSubstr("a binary file"));
  refuse({"data", "run", "code", "--input", "repo/.git/hook.txt", "--output", "x"}, "no input file");
  fs::create_directory(path("empty"));
  refuse({"data", "run", "code", "--input", "empty", "--output", "x"}, "source code of a language");
}

TEST_F(DataRun, ReportsShowWhatRulesSaw) {
  std::ofstream out(path("odd.jsonl"));
  out << R"({"id":"braces","text":"The price <b> of { one } thing. Another line of it."})" << '\n';
  out << nlohmann::json{{"id", "again"},
                        {"text",
                         "first\nthe line that comes again\nthe line that comes again\nthe line that comes "
                         "again\n"}}
             .dump()
      << '\n';
  out << R"({"id":"fine","text":"One good sentence here. And a second one."})" << '\n';
  out.close();
  write_text(path("pipeline.yaml"),
             "stages:\n  - gopher_repetition: {top_n_grams: [], dup_n_grams: []}\n  - c4_quality: "
             "{min_num_sentences: 2}\n");
  stoa_ok({"data", "run", "pipeline.yaml", "--input", "odd.jsonl", "--output", "odd"});
  const std::string html = read_text(path("odd/report.html"));
  EXPECT_THAT(html, HasSubstr("The price &lt;b&gt; of <mark>{</mark> one"));
  EXPECT_THAT(html, HasSubstr("first\nthe line that comes again\n<mark>the line that comes again</mark>"));
  EXPECT_THAT(
      html, HasSubstr("would also fail gopher_repetition/dup_line_char_frac, c4_quality/too_few_sentences"));
  EXPECT_THAT(html, Not(HasSubstr("<b>fine</b>")));
}

TEST_F(DataRun, RefusesWhatItCannotDo) {
  refuse({"data", "run", "finewebb", "--input", "corpus.jsonl", "--output", "x"}, "did you mean 'fineweb'");
  refuse({"data", "run", "pipeline.yaml", "--input", "none.jsonl", "--output", "x"}, "none.jsonl");
  refuse({"data", "run", "pipeline.yaml", "--input", "corpus.jsonl", "--output", "tok"}, "holds no run");
  stoa_ok(run("out"));
  write_text(path("pipeline.yaml"), "stages: [gopher_quality]");
  refuse(run("out"), "differs in its pipeline");
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

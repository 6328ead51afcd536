#include "curate/run/run.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/test_folder.h"
#include "curate/run/browse.h"
#include "curate/run/document_watch.h"
#include "curate/run/lease.h"
#include "curate/run/stage_kinds.h"
#include "data/test_files.h"

namespace stoa::curate {
namespace {

using ::testing::HasSubstr;

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

// A gzip file of one block that is stored as it is and is not the last.
std::string unfinished_gzip(const std::string& text) {
  std::string out("\x1f\x8b\x08\0\0\0\0\0\0\x03\0", 11);
  for (const std::size_t length : {text.size(), ~text.size()}) {
    out += static_cast<char>(length & 0xff);
    out += static_cast<char>(length >> 8 & 0xff);
  }
  return out + text;
}

class Run : public ::testing::Test {
 protected:
  Run() {
    write_text(folder_ / "pipeline.yaml",
               "shard_bytes: 3000\nstages:\n  - gopher_quality: {min_doc_words: 6, min_stop_words: 1}\n");
    std::string lines;
    for (int i = 0; i < 200; ++i) {
      const std::string text =
          i % 3 == 0 ? "too short"
                     : "the text number " + std::to_string(i) + " has more than enough words of its own\\n";
      lines += R"({"id":"d)" + std::to_string(i) + R"(","url":"http://x/)" + std::to_string(i) +
               R"(","text":")" + text + "\"}\n";
      if (i % 50 == 7) lines += "{broken\n\n";
    }
    fs::create_directories(folder_ / "in/b");
    write_text(folder_ / "in/a.jsonl", lines);
    write_text(folder_ / "in/b/c.txt", "the only document of this file has enough words\nand two lines");
  }

  RunResult run(const std::string& output, int workers, const std::stop_token& stop = {}) {
    Console quiet(Console::Level::kQuiet);
    return run_pipeline(read_pipeline(folder_ / "pipeline.yaml"),
                        {{folder_ / "in"}, folder_ / output, workers}, quiet, stop);
  }
  std::map<std::string, std::string> files(const std::string& output) const {
    std::map<std::string, std::string> contents;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / output))
      if (entry.is_regular_file())
        contents[fs::relative(entry.path(), folder_ / output).string()] = read_text(entry.path());
    return contents;
  }
  // Names of files that only one of two outputs has, or that have another content.
  std::string differing(const std::string& a, const std::string& b) const {
    const auto of_a = files(a), of_b = files(b);
    std::string names;
    for (const auto& [name, content] : of_a)
      if (const auto found = of_b.find(name); found == of_b.end() || found->second != content)
        names += fmt::format("{}: {}\n", name, content.substr(0, 1000));
    for (const auto& [name, content] : of_b)
      if (!of_a.contains(name)) names += name + " is missing\n";
    return names;
  }

  TestFolder folder_;
};

TEST_F(Run, EveryDocumentIsKeptDroppedOrInQuarantineInOrder) {
  const RunResult result = run("out", 2);
  EXPECT_EQ(result.flow.read.documents, 205);
  EXPECT_EQ(result.flow.kept.documents, 134);
  EXPECT_EQ(result.flow.dropped_in_all().documents, 67);
  EXPECT_EQ(result.flow.quarantined.documents, 4);
  std::vector<int> kept;
  std::map<std::string, int> reasons;
  for (const auto& [name, text] : files("out")) {
    if (!name.ends_with(".jsonl")) continue;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      const auto json = nlohmann::json::parse(line);
      const std::string id = json["id"];
      if (name.starts_with("kept") && id.starts_with("d")) {
        kept.push_back(std::stoi(id.substr(1)));
        EXPECT_EQ(json["url"], "http://x/" + id.substr(1));
      }
      if (json.contains("reason")) ++reasons[json["reason"]];
    }
  }
  EXPECT_TRUE(std::is_sorted(kept.begin(), kept.end()));
  EXPECT_EQ(kept.size(), 133U);
  EXPECT_EQ(reasons["gopher_quality/gopher_short_doc"], 67);
  const auto manifest = nlohmann::json::parse(read_text(folder_ / "out/manifest.json"));
  EXPECT_EQ(manifest["flow"]["kept"]["documents"], 134);
  EXPECT_THAT(manifest["pipeline"].get<std::string>(), HasSubstr("min_doc_words: 6"));
}

TEST_F(Run, ArchivesOfExtractedTexts) {
  const auto record = [](const std::string& type, const std::string& id, const std::string& text) {
    return fmt::format(
        "WARC/1.0\r\nWARC-Type: {}\r\nWARC-Target-URI: http://x/{}\r\nWARC-Record-ID: <urn:uuid:{}>\r\n"
        "Content-Length: {}\r\n\r\n{}\r\n\r\n",
        type, id, id, text.size(), text);
  };
  fs::remove_all(folder_ / "in");
  fs::create_directories(folder_ / "in");
  write_text(
      folder_ / "in/a.warc.wet",
      record("warcinfo", "", "x") + record("conversion", "one", "the first text has enough words for it\n") +
          record("conversion", "two", "too short") + record("conversion", "three", "broken \xff text"));
  const RunResult result = run("out", 1);
  EXPECT_EQ(result.flow.kept.documents, 1);
  EXPECT_EQ(result.flow.dropped_in_all().documents, 1);
  EXPECT_EQ(result.flow.quarantined.documents, 1);
  const auto kept = nlohmann::json::parse(read_text(folder_ / "out/kept/00000.jsonl"));
  EXPECT_EQ(kept["id"], "one");
  EXPECT_EQ(kept["url"], "http://x/one");
}

TEST_F(Run, DamagedInputsGoToQuarantineAndTheRunGoesOn) {
  const std::string good = "the text has more than enough words of its own";
  std::string lines, records;
  for (int i = 0; i < 30; ++i) {
    lines += fmt::format("{{\"id\":\"l{}\",\"text\":\"{}\"}}\n", i, good);
    records += fmt::format("WARC/1.0\r\nWARC-Type: conversion\r\nContent-Length: {}\r\n\r\n{}\r\n\r\n",
                           good.size(), good);
  }
  fs::remove_all(folder_ / "in");
  fs::create_directories(folder_ / "in");
  write_text(folder_ / "in/a.warc", records.substr(0, records.size() - 20));
  write_text(folder_ / "in/b.jsonl.gz", unfinished_gzip(lines.substr(0, lines.size() / 2)));
  write_text(folder_ / "in/c.parquet", "PAR1 but no more");
  write_text(folder_ / "in/d.txt.gz", "no gzip data");
  write_text(folder_ / "in/e.jsonl", lines);
  write_text(folder_ / "pipeline.yaml",
             "shard_bytes: 1000\nstages:\n  - gopher_quality: {min_doc_words: 6, min_stop_words: 1}\n");
  const RunResult result = run("out", 2);
  EXPECT_EQ(result.flow.damaged_inputs, 4);
  EXPECT_EQ(result.flow.quarantined.documents, 4);
  EXPECT_GT(result.flow.kept.documents,
            29 + 30 + 2);  // of a.warc, of e.jsonl, and the lines that b.jsonl has
  EXPECT_EQ(result.flow.read.documents, result.flow.kept.documents + 4);
  std::vector<std::string> reasons;
  for (const auto& [name, text] : files("out"))
    if (name.starts_with("quarantine")) {
      std::istringstream rows(text);
      for (std::string row; std::getline(rows, row);) {
        const auto json = nlohmann::json::parse(row);
        reasons.push_back(json["id"].get<std::string>() + ": " + json["reason"].get<std::string>());
      }
    }
  ASSERT_EQ(reasons.size(), 4u);
  EXPECT_THAT(reasons[0], HasSubstr("a.warc: "));
  EXPECT_THAT(reasons[0], HasSubstr("46 bytes is announced"));
  EXPECT_THAT(reasons[1], HasSubstr("truncated: the gzip data ends too soon"));
  EXPECT_THAT(reasons[2], HasSubstr("c.parquet: "));
  EXPECT_THAT(reasons[3], HasSubstr("not valid gzip data"));
  // Wherever the run was ended.
  const auto whole = files("out");
  for (std::int64_t left = 0; left < result.shards; ++left) {
    run("killed", 1);
    fs::remove(folder_ / "killed/manifest.json");
    for (std::int64_t s = left; s < result.shards; ++s) {
      fs::remove(folder_ / fmt::format("killed/journal/{:05}.json", s));
      for (const char* folder : {"kept", "dropped", "quarantine"})
        fs::remove(folder_ / "killed" / folder / fmt::format("{:05}.jsonl", s));
    }
    run("killed", 3);
    EXPECT_EQ(files("killed"), whole) << left;
    fs::remove_all(folder_ / "killed");
  }
  Console quiet(Console::Level::kQuiet);
  EXPECT_THAT(error_of([&] {
                run_pipeline(read_pipeline(folder_ / "pipeline.yaml"),
                             {.inputs = {folder_ / "in"}, .output = folder_ / "strict", .strict = true},
                             quiet);
              }),
              HasSubstr("a.warc"));
  EXPECT_FALSE(fs::exists(folder_ / "strict/manifest.json"));
}

TEST_F(Run, SameBytesForAnyNumberOfWorkers) {
  run("one", 1);
  const auto one = files("one");
  EXPECT_GT(one.size(), 6U);
  for (const int workers : {2, 7}) {
    run(std::to_string(workers), workers);
    EXPECT_EQ(files(std::to_string(workers)), one) << workers;
  }
}

TEST_F(Run, GoesOnWhereItEnded) {
  run("whole", 1);
  const auto whole = files("whole");
  const std::int64_t shards = run("whole", 1).shards;
  ASSERT_GE(shards, 3);
  for (std::int64_t left = 0; left < shards;
       ++left) {  // as if killed after `left` shards, the next one half written
    run("killed", 2);
    fs::remove(folder_ / "killed/manifest.json");
    for (std::int64_t i = left; i < shards; ++i)
      fs::remove(folder_ / fmt::format("killed/journal/{:05}.json", i));
    write_text(folder_ / fmt::format("killed/kept/{:05}.jsonl", left), "half");
    const RunResult result = run("killed", 2);
    EXPECT_EQ(result.resumed_shards, left);
    EXPECT_EQ(files("killed"), whole);
    fs::remove_all(folder_ / "killed");
  }
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THROW(run("stopped", 1, stop.get_token()), Interrupted);
  run("stopped", 1);
  EXPECT_EQ(files("stopped"), whole);
  EXPECT_TRUE(run("stopped", 1).was_complete);
}

// Threads stand for processes: the bytes are those of one.
TEST_F(Run, SeveralThatShareARunWriteWhatOneWrites) {
  for (int i = 0; i < 5; ++i)
    fs::copy_file(folder_ / "in/a.jsonl", folder_ / fmt::format("in/copy{}.jsonl", i));
  write_text(folder_ / "in/damaged.txt.gz", "no gzip data");
  for (const char* more : {"", "deduplicate: [exact]\n"}) {
    write_text(folder_ / "pipeline.yaml",
               std::string("shard_bytes: 3000\nstages:\n  - gopher_quality: {min_doc_words: 6, "
                           "min_stop_words: 1}\n") +
                   more);
    const std::string one = std::string("one") + (*more ? "2" : ""), several = "several" + one;
    const RunResult alone = run(one, 2);
    const auto shared = [&] {
      Console quiet(Console::Level::kQuiet);
      return run_pipeline(
          read_pipeline(folder_ / "pipeline.yaml"),
          {.inputs = {folder_ / "in"}, .output = folder_ / several, .workers = 2, .shared = true}, quiet);
    };
    {
      std::vector<std::jthread> processes;
      for (int i = 0; i < 3; ++i)
        processes.emplace_back([&] { EXPECT_EQ(shared().flow.read.documents, alone.flow.read.documents); });
    }
    EXPECT_EQ(differing(several, one), "");
    // One that comes late, and one that came when the run was about to end.
    EXPECT_TRUE(shared().was_complete);
    EXPECT_EQ(differing(several, one), "");
    fs::create_directories(folder_ / several / "shared");
    write_text(folder_ / several / "shared/run.json", "{}");
    EXPECT_TRUE(shared().was_complete);
    EXPECT_EQ(differing(several, one), "");
  }
}

TEST_F(Run, PiecesOfAnotherRunAreRefused) {
  fs::create_directories(folder_ / "out/shared");
  fs::create_directories(folder_ / "out/journal");
  write_text(folder_ / "out/shared/run.json", R"({"pipeline":"stages: [c4_quality]","inputs":[]})");
  Console quiet(Console::Level::kQuiet);
  EXPECT_THAT(error_of([&] {
                run_pipeline(read_pipeline(folder_ / "pipeline.yaml"),
                             {.inputs = {folder_ / "in"}, .output = folder_ / "out", .shared = true}, quiet);
              }),
              HasSubstr("differs in its pipeline"));
}

TEST(LeaseOfWork, OneHasItUntilItEndsOrGrowsOld) {
  const TestFolder folder;
  auto first = Lease::take(folder.path(), "a", std::chrono::seconds(1));
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(Lease::take(folder.path(), "a", std::chrono::seconds(1)), nullptr);
  EXPECT_NE(Lease::take(folder.path(), "b"), nullptr);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // it is kept young
  EXPECT_EQ(Lease::take(folder.path(), "a", std::chrono::seconds(1)), nullptr);
  first.reset();
  EXPECT_NE(Lease::take(folder.path(), "a"), nullptr);
  // Of a process elsewhere that gave no sign for long, and of one here that has ended.
  write_text(folder / "a", "another-host-1\n");
  EXPECT_EQ(Lease::take(folder.path(), "a"), nullptr);
  fs::last_write_time(folder / "a", fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_NE(Lease::take(folder.path(), "a"), nullptr);
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(folder.path())) left.push_back(entry.path().filename());
  EXPECT_TRUE(left.empty()) << left.front();
}

// Longer than the blocks in which files are read, and shorter: its beginning goes to quarantine, and its
// neighbours stay.
TEST_F(Run, DocumentsThatAreTooLongGoToQuarantine) {
  const std::string good = "a line of a good many words, that is to say with enough";
  fs::remove_all(folder_ / "in");
  fs::create_directories(folder_ / "in");
  for (const std::size_t bytes : {1'100, 400'000, 1'300'000}) {
    const std::string words = std::string(bytes - 4, 'x') + " é";
    const auto json = [](const std::string& text) { return R"({"text":")" + text + "\"}\n"; };
    const std::string three = good + "\n" + words + "\n" + good + "\n";
    const std::pair<std::string, std::string> inputs[] = {
        {"a.jsonl", json(good) + json(words) + json(good)},
        {"a.txt", three},
        {"b.txt", good + "\n\n" + three + "\n" + good + "\n"},
        // A line of white space ends a paragraph, too.
        {"c.txt", good + "\n\n" + words + "\n \t\n" + good + "\n"}};
    for (const auto& [name, content] : inputs) {
      write_text(folder_ / "in" / name, content);
      write_text(folder_ / "pipeline.yaml",
                 fmt::format("input: {{document_bytes: 1000, text_split: {}}}\nstages:\n  - gopher_quality: "
                             "{{min_doc_words: 6, min_stop_words: 1}}\n",
                             name == "b.txt" || name == "c.txt" ? "paragraph" : "line"));
      fs::remove_all(folder_ / "out");
      const Flow flow = run("out", 2).flow;
      EXPECT_EQ(flow.kept.documents, 2) << name << " " << bytes;
      EXPECT_EQ(flow.quarantined.documents, 1) << name << " " << bytes;
      const std::string quarantine = files("out").at("quarantine/00000.jsonl");
      EXPECT_THAT(quarantine, HasSubstr("a document of more than 1000 bytes (input.document_bytes)"));
      EXPECT_LT(quarantine.size(), 1'000'300U);
      fs::remove(folder_ / "in" / name);
    }
    // Files that are one document each.
    write_text(folder_ / "in/a.md", words);
    write_text(folder_ / "in/b.md", good);
    write_text(folder_ / "pipeline.yaml",
               "input: {document_bytes: 1000}\nstages:\n  - gopher_quality: {min_doc_words: 6, "
               "min_stop_words: 1}\n");
    fs::remove_all(folder_ / "out");
    const Flow flow = run("out", 1).flow;
    EXPECT_EQ(flow.kept.documents, 1);
    EXPECT_EQ(flow.quarantined.documents, 1);
    fs::remove(folder_ / "in/a.md");
    fs::remove(folder_ / "in/b.md");
  }
}

// A document that was written down goes to quarantine, and the process that fails on one writes it down.
TEST_F(Run, DocumentsThatEndTheProgramGoToQuarantine) {
  fs::create_directories(folder_ / "bad/journal");
  write_text(folder_ / "bad/journal/bad_documents",
             "3\tit made the program fail\t" + (folder_ / "in/a.jsonl").string() + "\n17\thalf a li");
  EXPECT_EQ(run("bad", 2).flow.quarantined.documents, 5);
  EXPECT_THAT(files("bad").at("quarantine/00000.jsonl"),
              HasSubstr("\"reason\":\"it made the program fail\""));
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const fs::path list = folder_ / "list", input = folder_ / "an input.jsonl";
  EXPECT_EXIT(
      {
        DocumentWatch watch(list, 0, [] { ::_exit(7); });
        std::thread([&] {
          const DocumentWatch::Document document(&watch, input, 12);
          ::raise(SIGSEGV);
        }).join();
      },
      ::testing::ExitedWithCode(7), ::testing::_);
  EXPECT_EXIT(
      {
        DocumentWatch watch(list, 0.1, [] { ::_exit(8); });
        const DocumentWatch::Document document(&watch, input, 13);
        std::atomic<std::uint64_t> steps = 0;
        for (;;) ++steps;
      },
      ::testing::ExitedWithCode(8), ::testing::_);
}

// Copies of documents of other shards: 40 texts, some of them twice, and near-copies of the first ten.
class Deduplicate : public Run {
 protected:
  Deduplicate() {
    std::string lines;
    const auto text = [](int i, const std::string& end) {
      std::string words;
      for (int w = 0; w < 60; ++w)
        words += "the w" +
                 std::string{static_cast<char>('a' + i % 26), static_cast<char>('a' + i / 26),
                             static_cast<char>('a' + w % 26), static_cast<char>('a' + w / 26)} +
                 " ";
      return words + end;
    };
    for (int i = 0; i < 40; ++i)
      lines += nlohmann::json{{"id", "a" + std::to_string(i)}, {"text", text(i, "end")}}.dump() + "\n";
    for (int i = 0; i < 40; i += 2)
      lines += nlohmann::json{{"id", "b" + std::to_string(i)}, {"text", text(i, "end")}}.dump() + "\n";
    for (int i = 0; i < 10; ++i)
      lines += nlohmann::json{{"id", "c" + std::to_string(i)}, {"text", text(i, "another and longer end")}}
                   .dump() +
               "\n";
    fs::remove_all(folder_ / "in");
    fs::create_directories(folder_ / "in");
    write_text(folder_ / "in/all.jsonl", lines);
    pipeline("first");
  }
  void pipeline(const std::string& keep) {
    write_text(folder_ / "pipeline.yaml",
               "shard_bytes: 3000\nstages:\n  - gopher_quality: {min_stop_words: 1, max_avg_word_length: 12, "
               "max_non_alpha_words_ratio: 0}\n"
               "deduplicate:\n  - exact\n  - minhash: {keep: " +
                   keep + "}\n");
  }
  std::vector<std::string> ids(const std::string& output, const std::string& folder,
                               const std::string& reason = "") const {
    std::vector<std::string> found;
    for (const auto& [name, text] : files(output)) {
      if (!name.starts_with(folder)) continue;
      std::istringstream lines(text);
      for (std::string line; std::getline(lines, line);) {
        const auto json = nlohmann::json::parse(line);
        if (json.value("reason", "") == reason) found.push_back(json["id"]);
      }
    }
    return found;
  }
};

TEST_F(Deduplicate, CopiesGoAndTheChosenOneStays) {
  const RunResult first = run("first", 1);
  EXPECT_EQ(first.flow.kept.documents, 40);
  EXPECT_EQ(ids("first", "dropped", "exact/duplicate").size(), 20U);
  EXPECT_EQ(ids("first", "dropped", "minhash/duplicate").size(), 10U);
  EXPECT_EQ(ids("first", "kept").front(), "a0");
  EXPECT_FALSE(fs::exists(folder_ / "first/work"));
  pipeline("longest");
  run("longest", 1);
  const auto kept = ids("longest", "kept");
  EXPECT_EQ(kept.size(), 40U);
  EXPECT_EQ(kept.front(), "a10");
  EXPECT_EQ(kept.back(), "c9");
}

// Of equal documents the one of the largest score stays; one without a score counts least.
TEST_F(Deduplicate, TheBestOfACluster) {
  std::string lines;
  const std::string text = "the same words of all documents that stand here";
  const std::pair<const char*, const char*> scores[] = {{"none", ""},
                                                        {"low", ",\"quality\":-3.5"},
                                                        {"high", ",\"quality\": 0.75"},
                                                        {"text", ",\"quality\":\"9\""}};
  for (const auto& [id, score] : scores)
    lines += fmt::format("{{\"id\":\"{}\",\"text\":\"{}\"{}}}\n", id, text, score);
  write_text(folder_ / "in/all.jsonl", lines);
  write_text(folder_ / "pipeline.yaml", "deduplicate:\n  - exact: {keep: best, score: quality}\n");
  run("best", 2);
  EXPECT_THAT(ids("best", "kept"), ::testing::ElementsAre("high"));
  write_text(folder_ / "pipeline.yaml", "deduplicate:\n  - exact: {keep: best}\n");
  EXPECT_THAT(error_of([&] { run("none", 1); }), HasSubstr("score: MEMBER"));
}

TEST_F(Deduplicate, TheReportShowsMeasuresSamplesAndCopiesNextToEachOther) {
  write_text(folder_ / "in/short.txt", "the text is short");
  run("out", 2);
  const std::string report = read_text(folder_ / "out/report.html");
  for (const char* part :
       {"Of a sample of 71 documents", "<h3>By source</h3>", "all.jsonl", "<h3>By rule</h3>",
        "<h3>Rules that fail the same documents</h3>", "<figcaption>length: log10 of bytes</figcaption>",
        "<figcaption>gopher_quality/gopher_short_doc ≥</figcaption>", ": the limit 50 keeps 98.6 %",
        "<h4>Nearest to the limit</h4>", "<h2>Near-duplicates, first what stayed</h2>"})
    EXPECT_THAT(report, HasSubstr(part));
  // Every measured document has its line, also after deduplication.
  std::istringstream lines(read_text(folder_ / "out/measures/00000.jsonl"));
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json["id"], "a0");
  EXPECT_THAT(json["source"].get<std::string>(), HasSubstr("in/all.jsonl"));
}

TEST_F(Deduplicate, SameBytesForAnyNumberOfWorkersMemoryAndPlaceOfAKill) {
  run("one", 1);
  const auto one = files("one");
  run("three", 3);
  EXPECT_EQ(files("three"), one);
  Console quiet(Console::Level::kQuiet);
  const Pipeline pipeline = read_pipeline(folder_ / "pipeline.yaml");
  EXPECT_THAT(error_of([&] {
                run_pipeline(pipeline, {{folder_ / "in"}, folder_ / "small", 1, 1000}, quiet);
              }),
              HasSubstr("--memory"));
  run_pipeline(pipeline, {{folder_ / "in"}, folder_ / "small", 2, 100'000},
               quiet);  // goes on after its first pass
  EXPECT_EQ(files("small"), one);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THROW(run("stopped", 1, stop.get_token()), Interrupted);
  run("stopped", 2);
  EXPECT_EQ(files("stopped"), one);
}

TEST_F(Deduplicate, TheOutputIsBrowsed) {
  write_text(folder_ / "in/short.txt", "the text is <b>short</b> & that is all");
  run("out", 1);
  const RunBrowser browser(folder_ / "out");
  EXPECT_THAT(browser.page("/").body, HasSubstr("placeholder=\"words, an id or a rule\""));
  const std::string found = browser.page("/search/dropped/IS <b>short").body;
  EXPECT_THAT(found, HasSubstr("the text <mark>is &lt;b&gt;short</mark>&lt;/b&gt; &amp; that"));
  EXPECT_THAT(found, HasSubstr("dropped: gopher_quality/gopher_short_doc"));
  EXPECT_THAT(found, HasSubstr("/document/short%2Etxt%3A1"));
  EXPECT_THAT(browser.page("/search/kept/IS <b>short").body, HasSubstr("No document."));
  EXPECT_THAT(browser.page("/document/short.txt:1").body, HasSubstr("&lt;b&gt;short"));
  const std::string copies = browser.page("/cluster/0").body;
  for (const char* id : {">a0<", ">b0<", ">c0<"}) EXPECT_THAT(copies, HasSubstr(id));
  EXPECT_THAT(browser.page("/DATASHEET.md").body, HasSubstr("# Datasheet"));
  for (const char* path : {"/nothing", "/document/nobody", "/cluster/x", "/search/other/a", ""})
    EXPECT_EQ(browser.page(path).status, 404) << path;
  EXPECT_THAT(error_of([&] { RunBrowser(folder_ / "in"); }), HasSubstr("no complete output"));
}

TEST_F(Run, RefusesAnotherPipelineInputsAndDirectories) {
  run("out", 1);
  const auto before = files("out");
  write_text(folder_ / "pipeline.yaml",
             "shard_bytes: 3000\nstages:\n  - gopher_quality: {min_doc_words: 7, min_stop_words: 1}\n");
  EXPECT_THAT(error_of([&] { run("out", 1); }), HasSubstr("min_doc_words: 6"));
  EXPECT_EQ(files("out"), before);
  write_text(folder_ / "in/more.txt", "one more");
  write_text(folder_ / "pipeline.yaml",
             "shard_bytes: 3000\nstages:\n  - gopher_quality: {min_doc_words: 6, min_stop_words: 1}\n");
  EXPECT_THAT(error_of([&] { run("out", 1); }), HasSubstr("differs in its inputs"));
  fs::create_directories(folder_ / "other");
  write_text(folder_ / "other/file", "");
  EXPECT_THAT(error_of([&] { run("other", 1); }), HasSubstr("holds no run"));
}

TEST_F(Run, KeepingNothingIsAnErrorUnlessAllowed) {
  write_text(folder_ / "pipeline.yaml", "stages: [{gopher_quality: {min_doc_words: 1000}}]");
  EXPECT_THAT(error_of([&] { run("out", 1); }), HasSubstr("no document was kept"));
  EXPECT_FALSE(fs::exists(folder_ / "out/manifest.json"));
  write_text(folder_ / "pipeline.yaml",
             "allow_empty: true\nstages: [{gopher_quality: {min_doc_words: 1000}}]");
  EXPECT_EQ(run("allowed", 1).flow.kept.documents, 0);
}

TEST_F(Run, ForecastSeesTheBeginningOfEveryFile) {
  const Forecast f = forecast(read_pipeline(folder_ / "pipeline.yaml"), {folder_ / "in"}, 0.01);
  EXPECT_GT(f.flow.read.documents, 0);
  EXPECT_GT(f.input_bytes, 0);
}

TEST(Pipeline, ReferencePageIsUpToDate) {
  EXPECT_EQ(read_text(test::source_dir() / "docs/data-stages.md"), pipeline_reference())
      << "write it again: stoa data stages > docs/data-stages.md";
}

TEST(Pipeline, ShippedPipelinesAreRead) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(test::source_dir() / "configs/pipelines")) {
    const Pipeline pipeline = read_pipeline(entry.path());
    EXPECT_GT(pipeline.stages.size() + pipeline.deduplications.size(), 1U) << entry.path();
    ++count;
  }
  EXPECT_GE(count, 3);
}

TEST(Pipeline, MistakesAreNamedWithTheirPlace) {
  const TestFolder folder;
  const auto said = [&](const std::string& yaml) {
    write_text(folder / "p.yaml", yaml);
    return error_of([&] { read_pipeline(folder / "p.yaml"); });
  };
  EXPECT_THAT(said("stages: [gopher_qualty]"), HasSubstr("did you mean 'gopher_quality'"));
  EXPECT_THAT(said("stages:\n  - gopher_quality: {min_doc_word: 3}"), HasSubstr("min_doc_words"));
  EXPECT_THAT(said("stages:\n  - gopher_quality: {max_bullet_lines_ratio: 3}"), HasSubstr("0 to 1"));
  EXPECT_THAT(said("stage: [gopher_quality]"), HasSubstr("no list `stages`"));
  EXPECT_THAT(said("stages: [gopher_quality]\nshard_byte: 3"), HasSubstr("shard_bytes"));
  EXPECT_THAT(said("stages: [gopher_quality]\ninput: {text_split: word}"), HasSubstr("paragraph"));
  EXPECT_THAT(
      said("stages:\n  - _target_: nemo_curator.stages.text.io.reader.JsonlReader\n    file_paths: x\n"),
      HasSubstr("a configuration of NeMo Curator; write"));
  EXPECT_THAT(said("documents: [a.gz]\ntaggers: [c4_v2]\n"), HasSubstr("a configuration of dolma; write"));
  EXPECT_THAT(said("stages:\n  - language: {languages: [en, EN]}"), HasSubstr("'EN' (did you mean 'en'?)"));
  EXPECT_THAT(said("stages:\n  - language: {languages: [en, zh-Hant, eng_Latn]}"), HasSubstr("'eng_Latn'"));
  EXPECT_THAT(said("stages:\n  - language: {languages: [he]}"), HasSubstr("'he' (did you mean 'iw'?)"));
}

}  // namespace
}  // namespace stoa::curate

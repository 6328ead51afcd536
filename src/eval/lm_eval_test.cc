// Requests, scores and standard errors against lm-evaluation-harness 0.4.13:
// tests/fixtures/eval/lm_eval.json, which tests/oracle/check_lm_eval.py wrote. The model there answers by a
// hash of the request.
#include <gtest/gtest.h>

#include <map>

#include "base/file.h"
#include "base/test_folder.h"
#include "base/test_paths.h"
#include "eval/results/evaluation.h"
#include "eval/results/sha256.h"

namespace stoa::eval {
namespace {

struct HarnessFixture {
  HarnessFixture() : json(Json::parse(read_text(test::source_dir() / "tests/fixtures/eval/lm_eval.json"))) {
    for (const auto& [name, text] : json["data"].items()) write(folder / "data" / name, text);
    for (const auto& [name, text] : json["own"].items()) write(folder / "own" / (name + ".yaml"), text);
  }
  static void write(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    write_text(path, text);
  }

  Json json;
  TestFolder folder;
};

std::string printed_figure(const Json& value) {
  return value.is_string() ? value.get<std::string>() : fmt::format("{:.4f}", value.get<double>());
}

TEST(LmEval, RequestsAndFiguresAreTheHarness) {
  const HarnessFixture fixture;
  const TaskIndex index({test::source_dir() / "configs/eval", fixture.folder / "own"});
  EXPECT_TRUE(index.problems().empty());
  int tasks = 0, requests = 0, figures = 0;
  for (const Json& run : fixture.json["runs"]) {
    EvaluationOptions options;
    if (!run["shots"].is_null()) options.num_fewshot = run["shots"].get<std::int64_t>();
    options.fewshot_seed = run["seed"];
    options.bootstrap_draws = 1000;
    options.making.data = {fixture.folder / "data"};
    for (const auto& [name, expected] : run["tasks"].items()) {
      SCOPED_TRACE(fmt::format("{} with {} shots", name, dumped(run["shots"])));
      ++tasks;
      const Selection selection = index.select({name});
      ASSERT_EQ(selection.tasks.size(), 1U);
      const PreparedTask prepared = prepare_task(selection.tasks[0], options);
      std::vector<Json> theirs;
      std::vector<Answer> answers;
      for (std::size_t d = 0; d < expected["requests"].size(); ++d)
        for (std::size_t i = 0; i < expected["requests"][d].size(); ++i) {
          theirs.push_back(expected["requests"][d][i]);
          const Json& answer = expected["answers"][d][i];
          answers.push_back(answer.is_array()    ? Answer{answer[0], answer[1], ""}
                            : answer.is_number() ? Answer{answer, false, ""}
                                                 : Answer{0, false, answer});
        }
      ASSERT_EQ(prepared.requests.size(), theirs.size());
      for (std::size_t i = 0; i < theirs.size(); ++i) {
        const Request& r = prepared.requests[i];
        const bool rolling = r.kind == Request::Kind::kRolling;
        EXPECT_EQ(sha256(rolling ? r.continuation : r.context), theirs[i][0]) << i << ": " << r.context;
        if (r.kind == Request::Kind::kLoglikelihood) {
          EXPECT_EQ(sha256(r.continuation), theirs[i][1]) << r.continuation;
        }
        ++requests;
      }
      const TaskResult result = score_task(prepared, answers, options);
      std::map<std::string, std::string> mine;
      for (const MetricResult& m : result.metrics) {
        mine[m.name + "," + m.filter] = fmt::format("{:.4f}", m.result.value);
        mine[m.name + "_stderr," + m.filter] =
            m.result.standard_error ? fmt::format("{:.4f}", *m.result.standard_error) : "N/A";
      }
      for (const auto& [key, value] : expected["results"].items()) {
        EXPECT_EQ(mine[key], printed_figure(value)) << key;
        ++figures;
      }
      EXPECT_EQ(mine.size(), expected["results"].size());
      for (std::size_t d = 0; d < expected["hashes"].size(); ++d) {
        EXPECT_EQ(result.samples[d]["doc_hash"], expected["hashes"][d][0]);
        EXPECT_EQ(result.samples[d]["target_hash"], expected["hashes"][d][1]);
      }
    }
  }
  EXPECT_GT(tasks, 70);
  EXPECT_GT(requests, 1500);
  EXPECT_GT(figures, 200);
}

}  // namespace
}  // namespace stoa::eval

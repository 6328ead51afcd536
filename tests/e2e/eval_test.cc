// Benchmark tasks as a user evaluates them: files in the harness's form, resumed runs, and what is refused.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "base/file.h"
#include "base/test_paths.h"
#include "workplace.h"

namespace stoa::e2e {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

class Eval : public Workplace {
 protected:
  void SetUp() override {
    Workplace::SetUp();
    stoa_ok(train("run", {"trainer.max_steps=1", "model.optim.sched.warmup_steps=0"}));
    fs::create_directories(path("data/baber/piqa"));
    std::string docs;
    for (int i = 0; i < 12; ++i)
      docs += OrderedJson{{"goal", "open door " + std::to_string(i)},
                          {"sol1", "push it"},
                          {"sol2", "wait"},
                          {"label", i % 2}}
                  .dump() +
              "\n";
    write_text(path("data/baber/piqa/validation.jsonl"), docs);
    write_text(path("data/baber/piqa/train.jsonl"), docs);
    fs::create_directories(path("tasks"));
  }
  Arguments run(const std::string& tasks, const Arguments& more = {}) const {
    return Arguments{"eval", "run", "run", "--tasks", tasks, "--data", "data", "--include_path", "tasks"} +
           more;
  }
  void task(const std::string& name, const std::string& keys) const {
    write_text(path("tasks/" + name + ".yaml"), "task: " + name + "\n" + keys);
  }
  // A task of answers that are generated: two documents.
  void write_words() const {
    task("words",
         "dataset_path: json\ndataset_kwargs: {data_files: {test: words.jsonl}}\ntest_split: test\n"
         "doc_to_text: \"{{q}}\"\ndoc_to_target: \"{{a}}\"\nnum_fewshot: 0\n"
         "generation_kwargs: {until: [\"\\n\"], max_gen_toks: 6}\n"
         "filter_list:\n  - {name: word, filter: [{function: regex, regex_pattern: '(\\w+)'}, {function: "
         "take_first}]}\n"
         "metric_list: [{metric: exact_match, ignore_case: true}]\n");
    write_text(path("words.jsonl"),
               "{\"q\": \"the stone\", \"a\": \"walks\"}\n{\"q\": \"bread\", \"a\": \"walks\"}\n");
  }
  // All lines of samples_*.jsonl, sorted.
  std::vector<std::string> samples(const std::string& output) const {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(path(output + "/run"))) {
      if (!entry.path().filename().string().starts_with("samples_")) continue;
      const std::string text = read_text(entry.path());
      for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1)
        out.push_back(text.substr(at, text.find('\n', at) - at));
    }
    std::sort(out.begin(), out.end());
    return out;
  }
  void refuse(const Arguments& arguments, const std::string& words) const {
    const Outcome outcome = stoa(arguments);
    EXPECT_EQ(outcome.exit_code, 1) << outcome.text();
    EXPECT_THAT(outcome.err, HasSubstr(words));
  }
};

TEST_F(Eval, WritesResultsAndSamplesOfTheHarness) {
  const Outcome outcome =
      stoa_ok(run("piqa", {"--num_fewshot", "2", "--limit", "5", "--output_path", "out", "--log_samples"}));
  EXPECT_THAT(outcome.out, HasSubstr("|piqa |    1.0|none  |     2|acc     |↑  |"));
  OrderedJson results;
  int samples = 0;
  for (const auto& entry : fs::directory_iterator(path("out/run"))) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("results_")) results = OrderedJson::parse(read_text(entry.path()));
    if (!name.starts_with("samples_piqa_")) continue;
    const std::string text = read_text(entry.path());
    for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1, ++samples) {
      const OrderedJson sample = OrderedJson::parse(text.substr(at, text.find('\n', at) - at));
      EXPECT_EQ(sample["doc_id"], samples);
      EXPECT_EQ(sample["arguments"]["gen_args_0"]["arg_1"], " push it");
      EXPECT_THAT(sample["arguments"]["gen_args_0"]["arg_0"].get<std::string>(), HasSubstr("\nAnswer: "));
      EXPECT_EQ(sample["resps"].size(), 2U);
    }
  }
  EXPECT_EQ(samples, 5);
  EXPECT_EQ(results["n-samples"]["piqa"]["effective"], 5);
  EXPECT_EQ(results["n-samples"]["piqa"]["original"], 12);
  EXPECT_TRUE(results["results"]["piqa"].contains("acc_stderr,none"));
  EXPECT_FALSE(fs::exists(path("out/run/unfinished_answers.jsonl")));
}

TEST_F(Eval, AnswersOfAKilledRunCount) {
  const Outcome whole = stoa_ok(run("piqa", {"--output_path", "out"}));
  // A task whose data is broken at the end stops the run; the answers before stay.
  task(
      "broken",
      "dataset_path: csv\ndataset_kwargs: {data_files: {test: broken.csv}}\ntest_split: test\noutput_type: "
      "loglikelihood\ndoc_to_text: q\ndoc_to_target: a\nprocess_results: !function wikitext.process_results\n"
      "metric_list: [{metric: x, aggregation: mean}]\n");
  write_text(path("broken.csv"), "q,a\nto be,or\n");
  refuse(run("piqa,broken", {"--output_path", "again"}), "the document has no field 'page'");
  EXPECT_TRUE(fs::exists(path("again/run/unfinished_answers.jsonl")));
  const Outcome again = stoa_ok(run("piqa", {"--output_path", "again"}));
  EXPECT_THAT(again.err, HasSubstr("24 of 24 answers are those of the killed run"));
  EXPECT_EQ(again.out, whole.out);
}

TEST_F(Eval, RanksDivideTheDocumentsAndGiveTheSameDigits) {
  write_words();
  const Arguments kept{"--log_samples", "--output_path"};
  const Outcome one = stoa_ok(run("piqa,words", kept + Arguments{"one"}));
  const Outcome four = stoa_ok(run("piqa,words", kept + Arguments{"four", "--ranks", "4"}));
  EXPECT_EQ(one.out, four.out);
  EXPECT_EQ(samples("one"), samples("four"));
  EXPECT_EQ(samples("one").size(), 14U);
  refuse(run("boolq", {"--ranks", "2"}), "finds no split 'validation'");
}

TEST_F(Eval, AnswersOfKilledRanksCount) {
  task("broken",
       "dataset_path: csv\ndataset_kwargs: {data_files: {test: broken.csv}}\ntest_split: test\noutput_type: "
       "loglikelihood\ndoc_to_text: q\ndoc_to_target: a\nprocess_results: !function "
       "wikitext.process_results\nmetric_list: [{metric: x, aggregation: mean}]\n");
  write_text(path("broken.csv"), "q,a\nto be,or\n");
  refuse(run("piqa,broken", {"--output_path", "again", "--ranks", "2"}), "the document has no field 'page'");
  EXPECT_TRUE(fs::exists(path("again/run/unfinished_answers.jsonl")));
  EXPECT_TRUE(fs::exists(path("again/run/unfinished_answers-1.jsonl")));
  const Outcome again = stoa_ok(run("piqa", {"--output_path", "again", "--ranks", "3"}));
  EXPECT_THAT(again.err, HasSubstr("24 of 24 answers are those of the killed run"));
  EXPECT_FALSE(fs::exists(path("again/run/unfinished_answers-1.jsonl")));
}

TEST_F(Eval, FiguresOfWhatTheCorpusDoesNotHold) {
  write_text(path("corpus.txt"),
             "He said: \"OPEN door, 4 times!\"\n\nThe open doors. Open door 9: now. Open the door 2.\n");
  const Arguments search{"eval",     "contamination", "--tasks",      "piqa",      "--data",  "data",
                         "--corpus", "corpus.txt",    "--text-split", "paragraph", "--words", "3"};
  const Outcome found = stoa_ok(search + Arguments{"--output", "found.jsonl"});
  EXPECT_THAT(found.out, HasSubstr("piqa: 2 of 12 documents are in the corpus"));
  EXPECT_EQ(json_of(search + Arguments{"--json"})["tasks"]["piqa"]["found"], 2);
  EXPECT_THAT(read_text(path("found.jsonl")), HasSubstr("\"place\": \"corpus.txt: document 1\""));
  const OrderedJson results = json_of(
      run("piqa", {"--contamination", "found.jsonl", "--json", "--log_samples", "--output_path", "out"}));
  const OrderedJson& piqa = results["results"]["piqa"];
  EXPECT_EQ(results["n-samples"]["piqa"]["clean"], 10);
  double all = 0, clean = 0;
  for (const std::string& line : samples("out")) {
    const Json sample = Json::parse(line);
    EXPECT_EQ(sample["in_training_corpus"], sample["doc_id"] == 4 || sample["doc_id"] == 9);
    all += sample["acc"].get<double>() / 12;
    if (!sample["in_training_corpus"]) clean += sample["acc"].get<double>() / 10;
  }
  EXPECT_NEAR(piqa["acc,none"], all, 1e-12);
  EXPECT_NEAR(piqa["acc_clean,none"], clean, 1e-12);
  EXPECT_TRUE(piqa["acc_clean_stderr,none"].is_number());
  // Longer sequences than the documents have words find nothing, and that is told.
  Arguments longer = search;
  longer.back() = "40";
  EXPECT_THAT(stoa_ok(longer).out,
              HasSubstr("0 of 12 documents are in the corpus; 12 have fewer than 40 words"));
  write_words();
  refuse(run("piqa,words", {"--contamination", "found.jsonl"}), "the task 'words' was not looked for");
  write_text(path("data/baber/piqa/validation.jsonl"),
             OrderedJson{{"goal", "x"}, {"sol1", "a"}, {"sol2", "b"}, {"label", 0}}.dump() + "\n");
  refuse(run("piqa", {"--contamination", "found.jsonl"}), "document 0 of 'piqa' was not looked for");
  write_text(path("found.jsonl"), "{\"task\": 1}\n");
  refuse(run("piqa", {"--contamination", "found.jsonl"}), "not a line of stoa eval contamination");
}

// Lines of metrics.jsonl with figures of tasks, by step.
std::map<std::int64_t, OrderedJson> task_lines(const fs::path& run) {
  std::map<std::int64_t, OrderedJson> out;
  const std::string text = read_text(run / "metrics.jsonl");
  for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
    OrderedJson line = OrderedJson::parse(text.substr(at, text.find('\n', at) - at));
    if (!line.contains("loss") && !line.contains("val_loss")) out[line["step"]] = line;
  }
  return out;
}

TEST_F(Eval, TrainingAsksTasksAtIntervals) {
  write_words();
  const Arguments keys{"trainer.max_steps=5",      "model.optim.sched.warmup_steps=0",
                       "trainer.eval_interval=2",  "trainer.eval_tasks=[piqa,words]",
                       "trainer.eval_data=[data]", "trainer.eval_include_path=[tasks]",
                       "trainer.eval_shots=1"};
  const Outcome asked = stoa_ok(train("asked", keys));
  EXPECT_THAT(asked.err, HasSubstr("tasks  piqa/acc "));
  const auto lines = task_lines(path("asked"));
  ASSERT_EQ(lines.size(), 4U);  // steps 0, 2, 4 and the last
  const OrderedJson last = lines.at(5);
  EXPECT_TRUE(last.contains("piqa/acc_stderr")) << last.dump();
  // What the saved model says.
  Arguments saved =
      run("piqa,words", {"--num_fewshot", "1", "--max_length", "32", "--json", "--dtype", "fp32"});
  saved[2] = "asked";
  const Json results = json_of(saved)["results"];
  EXPECT_NEAR(last["piqa/acc"], results["piqa"]["acc,none"], 1e-9);
  EXPECT_NEAR(last["piqa/acc_stderr"], results["piqa"]["acc_stderr,none"], 1e-9);
  EXPECT_NEAR(last["words/exact_match,word"], results["words"]["exact_match,word"], 1e-9);
  const std::string report = read_text(path("asked/report.html"));
  EXPECT_THAT(report, HasSubstr("<h2>Tasks</h2>"));
  EXPECT_THAT(report, HasSubstr("words/exact_match,word"));
  // Every layout in which a rank holds the model gives the same; others are refused.
  stoa_ok(train("data", keys + Arguments{"--ranks", "2"}));
  stoa_ok(train("context", keys + Arguments{"--ranks", "2", "model.context_parallel_size=2"}));
  EXPECT_EQ(task_lines(path("data")), lines);
  EXPECT_EQ(task_lines(path("context")), lines);
  refuse(train("split", keys + Arguments{"--ranks", "2", "model.tensor_model_parallel_size=2"}),
         "trainer.eval_tasks needs the whole model on every rank");
  // Resumed, the figures of before stay.
  stoa_ok(train("asked", keys + Arguments{"trainer.max_steps=6"}));
  EXPECT_EQ(task_lines(path("asked")).size(), 5U);
  EXPECT_THAT(read_text(path("asked/report.html")), HasSubstr("\"tasks\":[{"));
}

TEST_F(Eval, TheBestCheckpointIsThatOfATask) {
  task("lines",
       "dataset_path: json\ndataset_kwargs: {data_files: {test: lines.jsonl}}\ntest_split: test\n"
       "output_type: loglikelihood\ndoc_to_text: \"{{q}}\"\ndoc_to_target: \"{{a}}\"\n"
       "metric_list: [{metric: perplexity, aggregation: perplexity, higher_is_better: false}]\n");
  write_text(path("lines.jsonl"), "{\"q\": \"the\", \"a\": \"stone\"}\n{\"q\": \"a\", \"a\": \"door\"}\n");
  const std::string callback = "exp_manager.checkpoint_callback_params.";
  const Arguments keys{"trainer.max_steps=6",
                       "model.optim.sched.warmup_steps=0",
                       "model.optim.lr=0.3",
                       "trainer.eval_interval=1",
                       "trainer.eval_tasks=[lines]",
                       "trainer.eval_include_path=[tasks]",
                       callback + "every_n_train_steps=1",
                       callback + "keep_last=1"};
  stoa_ok(train("best", keys + Arguments{callback + "monitor=lines/perplexity"}));
  std::int64_t best = 1;
  const auto lines = task_lines(path("best"));
  for (const auto& [step, line] : lines)
    if (step > 0 && line["lines/perplexity"] < lines.at(best)["lines/perplexity"]) best = step;
  ASSERT_LT(best, 6);  // the rate is too high for the last to be the best
  EXPECT_TRUE(fs::exists(path("best/checkpoints") / fmt::format("step-{:07}", best)));
  EXPECT_TRUE(fs::exists(path("best/checkpoints/step-0000006")));
  refuse(train("none", keys + Arguments{callback + "monitor=lines/perplexty"}),
         "did you mean 'lines/perplexity'?");
  refuse(train("none", {callback + "monitor=lines/perplexity"}), "there are no tasks");
}

TEST_F(Eval, LongPromptsAreCutAndTold) {
  const Outcome outcome =
      stoa_ok(run("piqa", {"--num_fewshot", "5", "--max_length", "24", "--bootstrap_iters", "0"}));
  EXPECT_THAT(outcome.err, HasSubstr("24 of 24 requests are longer than the window of 24 tokens"));
  EXPECT_THAT(outcome.out, HasSubstr("N/A"));
}

TEST_F(Eval, AnswersAreGeneratedAndFiltered) {
  write_words();
  const OrderedJson results = json_of(run("words", {"--json", "--gen_kwargs", "max_gen_toks=3"}));
  EXPECT_TRUE(results["results"]["words"].contains("exact_match,word")) << results.dump(1);
  EXPECT_EQ(results["config"]["gen_kwargs"]["max_gen_toks"], 3);
  const std::string letters =
      "dataset_path: json\ndataset_kwargs: {data_files: {test: letters.jsonl}}\ntest_split: test\n"
      "doc_to_text: \"{{q}}\"\ndoc_to_target: \"(A)\"\ngeneration_kwargs: {until: [\"\\n\"], max_gen_toks: "
      "3}\n"
      "filter_list:\n  - {name: letter, filter: [{function: multi_choice_regex, regex_pattern: '(zq)', "
      "fallback: '(A)'}, "
      "{function: take_first}]}\nmetric_list: [{metric: exact_match}]\n";
  task("letters", letters);
  write_text(path("letters.jsonl"), "{\"q\": \"the stone\", \"choices\": [\"zqx\", \"zqy\"]}\n");
  EXPECT_EQ(json_of(run("letters", {"--json"}))["results"]["letters"]["exact_match,letter"], 1.0);
  write_text(path("letters.jsonl"), "{\"q\": \"the stone\"}\n");
  refuse(run("letters"), "the filter multi_choice_regex needs 1 to 26 'choices' in the document");
}

TEST_F(Eval, AnswersThatDoNotEndAreCut) {
  write_words();
  const auto answers = [&](const std::string& output, const std::string& tokens) {
    stoa_ok(run("words", {"--log_samples", "--output_path", output, "--gen_kwargs",
                          R"({"until": [], "max_gen_toks": )" + tokens + "}"}));
    std::vector<std::string> out;
    for (const std::string& line : samples(output)) out.push_back(Json::parse(line)["resps"][0][0]);
    return out;
  };
  const auto brief = answers("brief", "3"), longer = answers("longer", "12");
  ASSERT_EQ(brief.size(), 2U);
  for (std::size_t i = 0; i < brief.size(); ++i) {
    EXPECT_FALSE(brief[i].empty());
    EXPECT_LT(brief[i].size(), longer[i].size());
    EXPECT_EQ(longer[i].substr(0, brief[i].size()), brief[i]);
  }
}

TEST_F(Eval, AModelWhoseNumbersAreNoneIsNamed) {
  stoa_ok({"checkpoint", "export", "run", "--dtype", "fp32", "--output", "broken"});
  const fs::path file = path("broken/model.safetensors");
  std::string bytes = read_text(file);
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  const float huge = 1e38F;  // a number, but not its sums
  for (std::size_t at = 8 + header; at < bytes.size(); at += sizeof huge)
    std::memcpy(bytes.data() + at, &huge, sizeof huge);
  write_text(file, bytes);
  fs::remove(path("broken/stoa-checksums.json"));
  write_words();
  Arguments asked = run("piqa");
  asked[2] = "broken";
  refuse(asked, "not a number");
  asked[4] = "words";
  refuse(asked, "the model's logits are not numbers");
}

TEST_F(Eval, ProgramsOfTheModelRunInTheSandbox) {
  // What the model writes stands in a comment, so that the prompts decide.
  fs::create_directories(path("data/openai/openai_humaneval"));
  std::string docs;
  for (const char* body :
       {"    return a + 1\n#", "    return a\n#", "    import os; os.fork()\n#", "    while 1: pass\n#"})
    docs += OrderedJson{{"prompt", std::string("def f(a):\n") + body},
                        {"test", "def check(candidate):\n    assert candidate(1) == 2\n"},
                        {"entry_point", "f"}}
                .dump() +
            "\n";
  write_text(path("data/openai/openai_humaneval/test.jsonl"), docs);
  const OrderedJson results =
      json_of(run("humaneval", {"--json", "--gen_kwargs", "max_gen_toks=1"}))["results"]["humaneval"];
  EXPECT_EQ(results["pass@1,create_test"], 0.25) << results.dump(1);
}

TEST_F(Eval, QuestionsThatATextDoesNotAnswerAreCountedApart) {
  fs::create_directories(path("data/lighteval/squad_v2"));
  std::string docs;
  for (int i = 0; i < 4; ++i)
    docs += OrderedJson{{"id", std::to_string(i)},
                        {"title", "stones"},
                        {"context", "the stone is cold"},
                        {"question", "what is cold?"},
                        {"answers", {{"text", i == 0 ? Json::array() : Json::array({"the stone"})}}}}
                .dump() +
            "\n";
  write_text(path("data/lighteval/squad_v2/validation.jsonl"), docs);
  const OrderedJson results =
      json_of(run("squadv2", {"--json", "--gen_kwargs", "max_gen_toks=3"}))["results"]["squadv2"];
  for (const char* figure : {"exact", "f1", "HasAns_exact", "NoAns_f1", "best_exact", "best_f1"})
    EXPECT_TRUE(results.contains(std::string(figure) + ",none")) << figure << results.dump(1);
  EXPECT_GE(results["best_exact,none"], 25.0);
}

TEST_F(Eval, LongTextsAreMadeAtTheLengthsAskedFor) {
  const Arguments lengths{"--metadata", R"({"max_seq_lengths": [1024, 2048], "num_samples": 2})",
                          "--gen_kwargs", "max_gen_toks=3", "--json"};
  const OrderedJson results = json_of(run("niah_single_1", lengths));
  const OrderedJson& figures = results["results"]["niah_single_1"];
  for (const char* figure : {"1024,none", "2048,none"})
    EXPECT_TRUE(figures.contains(figure)) << figures.dump();
  EXPECT_EQ(figures["4096,none"], -1.0);
  EXPECT_EQ(results["n-samples"]["niah_single_1"]["original"], 4);
  EXPECT_EQ(json_of(run("niah_single_1", lengths + Arguments{"--ranks", "4"}))["results"],
            results["results"]);
  refuse(run("niah_single_1", {"--metadata", "4096"}), "--metadata: '4096' is not a JSON object");
  refuse(run("niah_single_1", {"--metadata", R"({"max_seq_lengths": [9]})"}), "max_seq_lengths: expected");
  refuse(run("ruler_qa_squad"), "expected 'dev-v2.0.json' in a folder of --data");
  EXPECT_THAT(stoa_ok({"eval", "tasks", "niah_single_1"}).out, HasSubstr("made when it is asked"));
}

TEST_F(Eval, DataSetsMayBeWhatDatasetsSaved) {
  fs::create_directories(path("saved/baber"));
  fs::copy(test::source_dir() / "tests/fixtures/arrow/saved", path("saved/baber/piqa"),
           fs::copy_options::recursive);
  EXPECT_THAT(stoa_ok({"eval", "tasks", "piqa", "--data", "saved"}).out,
              HasSubstr("found: saved/baber/piqa/validation/data-00000-of-00001.arrow"));
  Arguments saved = run("piqa", {"--json"});
  saved[6] = "saved";
  EXPECT_EQ(json_of(saved)["n-samples"]["piqa"]["original"], 3);
}

TEST_F(Eval, TwoModelsAreComparedOnTheSameQuestions) {
  stoa_ok(train("better", {"trainer.max_steps=6", "model.optim.sched.warmup_steps=0"}));
  const Arguments kept{"--log_samples", "--output_path"};
  stoa_ok(run("piqa", kept + Arguments{"a"}));
  Arguments other = run("piqa", kept + Arguments{"b"});
  other[2] = "better";
  stoa_ok(other);
  const Json same = json_of({"eval", "compare", "a", "a", "--json"});
  EXPECT_EQ(same["metrics"][0]["difference"], 0.0);
  EXPECT_EQ(same["metrics"][0]["p"], 1.0);
  EXPECT_TRUE(same["changed"].empty());
  const Json two = json_of({"eval", "compare", "a", "b", "--json"});
  const Json& acc = two["metrics"][0];
  EXPECT_EQ(acc["metric"], "acc");
  EXPECT_EQ(acc["documents"], 12);
  EXPECT_EQ(two["changed"].size(), acc["only_a"].get<std::size_t>() + acc["only_b"].get<std::size_t>());
  EXPECT_DOUBLE_EQ(acc["difference"].get<double>() * 12,
                   acc["only_b"].get<double>() - acc["only_a"].get<double>());
  // One answer turned round is one question that changed.
  for (const auto& entry : fs::directory_iterator(path("a/run"))) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("samples_")) continue;
    std::string text = read_text(entry.path());
    Json first = Json::parse(text.substr(0, text.find('\n')));
    first["acc"] = 1.0 - first["acc"].get<double>();
    fs::create_directories(path("turned"));
    write_text(path("turned") / name, first.dump() + text.substr(text.find('\n')));
  }
  const Outcome page = stoa_ok({"eval", "compare", "a", "turned", "--page", "compare.html"});
  EXPECT_THAT(page.out, HasSubstr("1 question changed between right and wrong"));
  const std::string html = read_text(path("compare.html"));
  EXPECT_THAT(html, HasSubstr("Question: open door 0\nAnswer:"));
  EXPECT_THAT(html, HasSubstr("gold: 0<br>A: "));
  const Json report = json_of({"eval", "report", "a", "b", "--json"});
  EXPECT_EQ(report["figures"][0]["task"], "piqa");
  EXPECT_DOUBLE_EQ(report["figures"][0]["values"][0].get<double>(), acc["a"].get<double>());
  EXPECT_DOUBLE_EQ(report["figures"][0]["values"][1].get<double>(), acc["b"].get<double>());
  EXPECT_EQ(report["calibration"][0]["values"][0]["documents"], 12);
  EXPECT_DOUBLE_EQ(report["calibration"][0]["values"][1]["right"].get<double>(), acc["b"].get<double>());
  EXPECT_EQ(static_cast<double>(report["wrong"].size()), std::round(12 * (1 - acc["b"].get<double>())));
  EXPECT_THAT(stoa_ok({"eval", "report", "a", "b", "--page", "report.html"}).out,
              HasSubstr("calibration error"));
  const std::string told = read_text(path("report.html"));
  EXPECT_THAT(told, HasSubstr("Curves"));
  if (!report["wrong"].empty()) {
    EXPECT_THAT(told, HasSubstr("Question: open door"));
  }
  refuse({"eval", "report", "data"}, "'data' holds no results_*.json");
  refuse({"eval", "compare", "a", "data"}, "'data' holds no samples_*.jsonl: evaluate with --log_samples");
  refuse({"eval", "compare", "a", "nowhere"}, "'nowhere' is no folder of results");
  write_text(path("turned/samples_piqa_2999-01-01T00-00-00.000000.jsonl"), "{\"doc_id\": 1}\n");
  refuse({"eval", "compare", "a", "turned"}, "samples_piqa_2999-01-01T00-00-00.000000.jsonl:1: not a sample");
}

TEST_F(Eval, ListsTasksAndTheirData) {
  const Outcome outcome = stoa_ok({"eval", "tasks", "nemo", "--data", "data"});
  EXPECT_THAT(outcome.out, HasSubstr("piqa            found: data/baber/piqa/validation.jsonl"));
  EXPECT_THAT(outcome.out, HasSubstr("no data: expected data/EleutherAI/lambada_openai/default/test.jsonl"));
}

TEST_F(Eval, BadInputIsNamed) {
  refuse(run("pica"), "no task 'pica' (did you mean 'piqa'?)");
  refuse(run("boolq"),
         "finds no split 'validation' of the data set 'aps/super_glue': expected "
         "data/aps/super_glue/boolq/validation.jsonl");
  refuse(run("piqa", {"--num_fewshot", "12"}), "the task 'piqa' has 12 documents to take 12 shots from");
  refuse(run("piqa", {"--seed", "1,2"}), "--seed: expected one number or four");
  refuse(run("piqa", {"--gen_kwargs", "until"}), "expected NAME=VALUE");
  refuse(run("piqa", {"--gen_kwargs", "tempreature=1"}), "(did you mean 'temperature'?)");
  refuse(run("piqa", {"--apply_chat_template"}), "the model has no chat template");
  refuse(run("piqa", {"--fewshot_as_multiturn", "perhaps"}), "expected true or false");
  refuse(run("piqa", {"--max_length", "100000"}), "the model has");
  refuse(run("piqa", {"--log_samples"}), "--log_samples needs --output_path");
  const std::string data =
      "dataset_path: json\ndataset_kwargs: {data_files: {test: d.jsonl}}\ntest_split: test\n"
      "output_type: multiple_choice\n";
  write_text(path("d.jsonl"), "{\"q\": \"a\", \"c\": [\"x\", \"y\"]}\n");
  task("nogold", data + "doc_to_text: q\ndoc_to_choice: c\ndoc_to_target: \"{{gold}}\"\n");
  refuse(run("nogold"), "a value is not defined: 'gold'");
  task("notext", data + "doc_to_text: \"{{q.x.y}}\"\ndoc_to_choice: c\ndoc_to_target: 0\n");
  refuse(run("notext"), "doc_to_text");
  task("wrongkey", data + "doc_to_txt: q\ndoc_to_choice: c\ndoc_to_target: 0\n");
  refuse(run("wrongkey"), "unknown key 'doc_to_txt' (did you mean 'doc_to_text'?)");
  task("python", data + "doc_to_text: !function utils.text\ndoc_to_choice: c\ndoc_to_target: 0\n");
  refuse(run("python"), "the function 'utils.text' is Python, which Stoa does not run");
  task("whole", "class: !function task.Whole\n");
  refuse(run("whole"), "the function 'task.Whole' is Python, which Stoa does not run");
  task("counted", data +
                      "doc_to_text: q\ndoc_to_choice: c\ndoc_to_target: 0\n"
                      "metric_list: [{metric: acc, aggregation: !function utils.count}]\n");
  refuse(run("counted"), "the function 'utils.count' is Python, which Stoa does not run");
  task("outside", data + "doc_to_text: q\ndoc_to_choice: c\ndoc_to_target: 7\n");
  refuse(run("outside"), "the gold answer is choice 7 of 2");
  task("long",
       "dataset_path: json\ndataset_kwargs: {data_files: {test: d.jsonl}}\ntest_split: test\n"
       "doc_to_text: q\ndoc_to_target: q\ngeneration_kwargs: {max_gen_toks: 9000}\n");
  refuse(run("long"), "do not fit the window");
  EXPECT_FALSE(fs::exists(path("out")));
}

// To the last digit: a document's answers are those that it has alone, whatever else is in the run.
TEST_F(Eval, LogLikelihoodsDoNotDependOnTheOtherDocuments) {
  const Arguments kept{"--num_fewshot", "2", "--log_samples", "--output_path"};
  const auto answers = [&](const std::string& output, const Arguments& more) {
    stoa_ok(run("piqa", kept + Arguments{output} + more));
    std::map<int, Json> out;
    for (const std::string& line : samples(output)) {
      const Json sample = Json::parse(line);
      out[sample["doc_id"].get<int>()] = sample["resps"];
    }
    return out;
  };
  for (const char* type : {"fp32", "bf16"}) {
    const std::string of = type;
    const auto all = answers(of + "-all", {"--dtype", type, "--threads", "2"}),
               some = answers(of + "-some", {"--dtype", type, "--threads", "2", "--limit", "3"}),
               ranks = answers(of + "-ranks", {"--dtype", type, "--threads", "2", "--ranks", "2"});
    ASSERT_EQ(all.size(), 12u);
    ASSERT_EQ(some.size(), 3u);
    for (const auto& [document, own] : some) EXPECT_EQ(own, all.at(document)) << type << " " << document;
    EXPECT_EQ(ranks, all) << type;
  }
}

}  // namespace
}  // namespace stoa::e2e

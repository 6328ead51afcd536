// No key of the configuration is accepted and ignored: each is changed where it counts, and the run must show
// it. The keys are those of the schema, so a new one without an entry fails.
#include <gmock/gmock.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <tuple>

#include "base/file.h"
#include "cli/schema.h"
#include "key_cases.h"
#include "sample.h"
#include "workplace.h"

namespace stoa::keys {
namespace {

using e2e::Arguments;
using e2e::joined;
using e2e::Outcome;
using e2e::operator+;
using nlohmann::json;

// What a run left behind, without what the clock says.
struct Observation {
  int exit_code = 0;
  std::string text;  // console and report
  std::string numbers, weights, trace, files;
};

// Losses, norms, rates ...: what does not depend on the clock or on the machine.
std::string numbers_of(const fs::path& file) {
  std::string out;
  const std::string text = fs::exists(file) ? read_text(file) : "";
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    json line = json::parse(text.substr(begin, end - begin), nullptr, false);
    begin = end + 1;
    if (!line.is_object()) continue;
    for (const char* of_clock :
         {"peak_memory_bytes", "step_seconds", "tokens_per_second", "model_tflops", "mfu"})
      line.erase(of_clock);
    out += line.dump() + "\n";
  }
  return out;
}

// Names of the events of every rank in order of time.
std::string trace_of(const fs::path& file) {
  if (!fs::exists(file)) return "";
  const json document = json::parse(read_text(file), nullptr, false);
  const json& events = document.is_array() ? document : document["traceEvents"];
  std::vector<std::tuple<std::string, double, std::string>> found;
  for (const json& event : events)
    if (event.value("ph", "") == "X")
      found.emplace_back(event["pid"].dump() + "/" + event["tid"].dump(), event["ts"].get<double>(),
                         event["name"].get<std::string>());
  std::sort(found.begin(), found.end());
  std::string out;
  for (const auto& [place, time, name] : found) out += place + " " + name + "\n";
  return out;
}

class KeyWorkplace : public e2e::Workplace {
 protected:
  void SetUp() override {
    Workplace::SetUp();
    std::string other;
    for (std::uint64_t i = 0; i < 60; ++i)
      other += json{{"text", e2e::pseudo_prose(1000 + i, 60)}}.dump() + "\n";
    write_text(path("other.jsonl"), other);
    stoa_ok({"data", "prepare", "other.jsonl", "--tokenizer", "tok", "--output", "other"});
    fs::create_directories(path("sets/baber/piqa"));
    fs::create_directories(path("tasks"));
    std::string questions;
    for (int i = 0; i < 4; ++i)
      questions +=
          json{{"goal", "the stone"}, {"sol1", "walks"}, {"sol2", "sings"}, {"label", i % 2}}.dump() + "\n";
    for (const char* split : {"train", "validation"})
      write_text(path("sets/baber/piqa") / (std::string(split) + ".jsonl"), questions);
    write_text(path("tasks/piqa.yaml"),  // in place of the task of this name
               "task: piqa\ndataset_path: baber/piqa\nvalidation_split: validation\noutput_type: "
               "loglikelihood\ndoc_to_text: goal\ndoc_to_target: sol1\nmetric_list: [{metric: acc}]\n");
    stoa_ok(train("first", {"trainer.max_steps=1", "model.optim.sched.warmup_steps=0", "model.seed=5"}));
  }

  void make_pairs() {
    if (fs::exists(path("pairs.idx"))) return;
    stoa_ok({"tokenizer", "train", "text.jsonl", "--kind", "unigram", "--vocab-size", "60", "--sentinels",
             "20", "--output", "pieces"});
    stoa_ok({"data", "prepare", "text.jsonl", "--tokenizer", "pieces", "--output", "pairs"});
    write_sentences();
    stoa_ok({"data", "prepare", "sentences.jsonl", "--tokenizer", "pieces", "--split-sentences", "--output",
             "told"});
  }

  void make_sentences() {
    if (fs::exists(path("rows.idx"))) return;
    write_sentences();
    stoa_ok({"tokenizer", "train", "sentences.jsonl", "--kind", "wordpiece", "--vocab-size", "200",
             "--output", "wp"});
    stoa_ok(
        {"data", "prepare", "sentences.jsonl", "--tokenizer", "wp", "--split-sentences", "--output", "rows"});
    std::string classes, answers;
    for (int i = 0; i < 40; ++i) {
      std::string context = e2e::pseudo_prose(static_cast<std::uint64_t>(i), 24);
      std::replace(context.begin(), context.end(), '\n', ' ');
      classes += json{{"text", context}, {"label", i % 2 ? "hard" : "soft"}}.dump() + "\n";
      const std::size_t begin = context.find(' ') + 1;
      const std::string answer = context.substr(begin, context.find(' ', begin) - begin);
      answers += json{{"id", std::to_string(i)},
                      {"question", "what is under"},
                      {"context", context},
                      {"answers", {{"text", {answer}}, {"answer_start", {begin}}}}}
                     .dump() +
                 "\n";
    }
    write_text(path("classes.jsonl"), classes);
    write_text(path("answers.jsonl"), answers);
  }

  Arguments chats(Material which) {
    const std::string file = which == Material::kChats         ? "chats.jsonl"
                             : which == Material::kPreferences ? "preferences.jsonl"
                                                               : "judged.jsonl";
    if (!fs::exists(path(file))) {
      std::string lines;
      for (std::uint64_t i = 0; i < 40; ++i) {
        const std::string question = e2e::pseudo_prose(i, 2), answer = e2e::pseudo_prose(100 + i, 2);
        json line{{"prompt", question}};
        if (which == Material::kPreferences)
          line.update({{"chosen", answer + "a"}, {"rejected", answer + "b"}});
        else
          line["completion"] = answer;
        if (which == Material::kJudged) line["label"] = i % 2 == 0;
        lines += line.dump() + "\n";
      }
      write_text(path(file), lines);
      write_text(path("faulty.jsonl"), lines + "[]\n");
    }
    return {"model.data=../" + file, "model.data.chat=true", "model.tokenizer=../tok",
            "model.encoder_seq_length=64", "model.data.splits_string='90,10,0'"};
  }

  Arguments material(Material which) {
    switch (which) {
      case Material::kText:
      case Material::kKept:
        return {"model.data=../data", "model.tokenizer=../tok"};
      case Material::kPieces:  // without sentinels, which the configuration adds
        if (!fs::exists(path("plain"))) {
          stoa_ok({"tokenizer", "train", "text.jsonl", "--kind", "unigram", "--vocab-size", "60",
                   "--sentinels", "0", "--output", "plain"});
          stoa_ok({"data", "prepare", "text.jsonl", "--tokenizer", "plain", "--output", "spelt"});
        }
        return {"model.data=../spelt", "model.tokenizer.library=sentencepiece",
                "model.tokenizer.model=../plain/spiece.model"};
      case Material::kPairs:
      case Material::kToldSentences: {
        make_pairs();
        Arguments out{"model.data=../pairs", "model.tokenizer=../pieces"};
        if (which == Material::kToldSentences)
          out = {"model.data={data_prefix: ../told, dataset_type: t5_sentences}",
                 "model.tokenizer=../pieces"};
        return out;
      }
      case Material::kChats:
      case Material::kPreferences:
      case Material::kJudged:
        return chats(which);
      case Material::kSentences:
      case Material::kClasses:
      case Material::kAnswers:
      case Material::kCompared:
        break;
    }
    make_sentences();
    if (which == Material::kSentences) return {"model.data=../rows", "model.tokenizer=../wp"};
    if (which == Material::kCompared) {
      std::string lines;
      for (std::uint64_t i = 0; i < 40; ++i)
        lines +=
            json{{"query", e2e::pseudo_prose(i, 2)}, {"positive", e2e::pseudo_prose(100 + i, 3)}}.dump() +
            "\n";
      write_text(path("compared.jsonl"), lines);
      return {"model.data=../compared.jsonl", "model.data.chat=true", "model.tokenizer=../wp",
              "model.task=embedding", "model.objective.name=contrastive"};
    }
    const std::string file = which == Material::kClasses ? "classes.jsonl" : "answers.jsonl";
    Arguments out{"model.data.data_prefix={train: ../" + file + ", validation: ../" + file + "}",
                  "model.tokenizer=../wp"};
    if (which == Material::kClasses)
      out = out + Arguments{"model.task=sequence_classification", "model.labels=[soft, hard]"};
    return out;
  }

  // A run of four steps, without its command.
  Arguments configuration(const Context& context, const Arguments& change) {
    Arguments out = micro_model() +
                    Arguments{"trainer.max_steps=4",          "trainer.val_check_interval=2",
                              "trainer.limit_val_batches=1",  "trainer.num_threads=1",
                              "trainer.trace_steps=[3]",      "exp_manager.explicit_log_dir=run",
                              "model.optim.sched.min_lr=1e-4"} +
                    material(context.material);
    if (context.material == Material::kText || context.material == Material::kKept)
      out.emplace_back("model.data.splits_string='90,10,0'");
    return out + context.arguments + change;
  }

  e2e::ProgramOptions place_of_a_run() {
    e2e::ProgramOptions options;
    options.directory = path("run-" + std::to_string(++runs_));
    options.timeout = std::chrono::hours(1);
    fs::create_directories(options.directory);
    return options;
  }

  void keep_teacher(const Context& context) {
    if (fs::exists(path("kept"))) return;
    const e2e::ProgramOptions options = place_of_a_run();
    const Outcome outcome =
        stoa(Arguments{"train"} + configuration(context, {"model.distill.teacher=../first", "--keep-logits",
                                                          "../kept", "--top-k", "8"}),
             options);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.text();
    fs::remove_all(options.directory);
  }

  // Trains in a directory of its own and looks at what is there afterwards.
  Observation observe(const Context& context, const Arguments& change) {
    if (context.material == Material::kKept) keep_teacher(context);
    const e2e::ProgramOptions options = place_of_a_run();
    const fs::path& place = options.directory;
    if (context.resumed) {
      const Outcome before = stoa(Arguments{"train"} + configuration(context, {}), options);
      EXPECT_EQ(before.exit_code, 0) << before.text();
    }
    const Outcome outcome = stoa(Arguments{"train"} + configuration(context, change), options);
    Observation seen;
    seen.exit_code = outcome.exit_code;
    seen.text = outcome.err + outcome.out;
    std::vector<std::string> files;
    std::map<std::string, std::string> weights;
    for (const auto& entry : fs::recursive_directory_iterator(place)) {
      const std::string name = fs::relative(entry.path(), place).string();
      files.push_back(name.find("tfevents") == std::string::npos ? name : "tfevents");
      if (entry.path().filename() == "metrics.jsonl") seen.numbers = numbers_of(entry.path());
      if (entry.path().filename() == "trace.json") seen.trace = trace_of(entry.path());
      if (entry.path().filename() == "report.html") seen.text += read_text(entry.path());
      if (entry.path().extension() == ".safetensors" && name.find("/model/") != std::string::npos &&
          name.find("latest") == std::string::npos)
        weights[name] = read_text(entry.path());
    }
    std::sort(files.begin(), files.end());
    seen.files = joined(files);
    if (!weights.empty()) seen.weights = weights.rbegin()->second;
    fs::remove_all(place);
    return seen;
  }

  std::string planned(const Context& context, const Arguments& change) {
    const e2e::ProgramOptions options = place_of_a_run();
    const Arguments plan = Arguments{"plan", "memory"} + configuration(context, change) + Arguments{"--json"};
    const Outcome outcome = stoa(plan, options);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.text();
    fs::remove_all(options.directory);
    return outcome.out;
  }
  // Whether the plan shows the change. Asked only where nothing else decides: it takes two processes.
  bool plan_differs(const Context& context, const Arguments& change) {
    const auto known = usual_plans_.find(context.name);
    const std::string& before = known != usual_plans_.end()
                                    ? known->second
                                    : usual_plans_.emplace(context.name, planned(context, {})).first->second;
    return planned(context, change) != before;
  }

  const Observation& usual(const Context& context) {
    const auto found = usual_.find(context.name);
    if (found != usual_.end()) return found->second;
    Observation seen = observe(context, {});
    EXPECT_EQ(seen.exit_code, 0) << context.name << ": " << seen.text.substr(0, 4000);
    return usual_.emplace(context.name, std::move(seen)).first->second;
  }

 private:
  int runs_ = 0;
  std::map<std::string, Observation> usual_;
  std::map<std::string, std::string> usual_plans_;
};

Context context_of(const std::string& name) {
  for (Context& context : contexts())
    if (name == context.name) return context;
  ADD_FAILURE() << "no context '" << name << "' in key_contexts.cc";
  return {};
}

// Names of what differs between two runs: everything but Sees::kMemory.
std::set<Sees> differences(const Observation& a, const Observation& b) {
  std::set<Sees> out;
  if (a.numbers != b.numbers) out.insert(Sees::kNumbers);
  if (a.weights != b.weights) out.insert(Sees::kWeights);
  if (a.trace != b.trace) out.insert(Sees::kTrace);
  if (a.files != b.files) out.insert(Sees::kFiles);
  return out;
}

// One test per context, so that its plain run is made once.
class KeyEffect : public KeyWorkplace, public ::testing::WithParamInterface<std::string> {};

TEST_P(KeyEffect, IsSeen) {
  const Context context = context_of(GetParam());
  for (const KeyCase& c : key_cases()) {
    if (c.context != GetParam()) continue;
    SCOPED_TRACE(std::string(c.key) + ": " + joined(context.arguments + c.change));
    const Observation &before = usual(context), after = observe(context, c.change);
    if (c.sees == Sees::kRefusal) {
      EXPECT_NE(after.exit_code, 0) << "accepted";
      EXPECT_THAT(after.text, ::testing::HasSubstr(c.text));
      continue;
    }
    EXPECT_EQ(after.exit_code, 0) << after.text.substr(0, 4000);
    if (after.exit_code != 0) continue;
    if (c.sees == Sees::kText) {
      if (*c.text == '\0') {
        EXPECT_NE(after.text.size(), before.text.size());
      } else {
        EXPECT_THAT(after.text, ::testing::HasSubstr(c.text));
        EXPECT_THAT(before.text, ::testing::Not(::testing::HasSubstr(c.text)));
      }
      continue;
    }
    const std::set<Sees> found = differences(before, after);
    const bool any = c.sees == Sees::kAny;
    EXPECT_TRUE(c.sees == Sees::kMemory || (any && found.empty()) ? plan_differs(context, c.change)
                                                                  : any || found.contains(c.sees))
        << "The run with the key changed shows nothing of it: the key is accepted and ignored.";
  }
}

std::vector<std::string> context_names() {
  std::vector<std::string> out;
  for (const Context& context : contexts()) out.emplace_back(context.name);
  return out;
}

std::string as_name(const std::string& text) {
  std::string out;
  for (const char c : text) out += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return out;
}

INSTANTIATE_TEST_SUITE_P(Contexts, KeyEffect, ::testing::ValuesIn(context_names()),
                         [](const auto& test) { return as_name(test.param); });

TEST(KeyEffects, CoverEveryKeyOfTheSchema) {
  std::set<std::string> covered, keys;
  for (const KeyCase& c : key_cases()) covered.insert(c.key);
  for (const KeyWithoutEffect& k : keys_without_effect()) covered.insert(k.key);
  const auto section = cli::run_schema();
  for (const auto& field : section.schema().fields) keys.insert(field.path);
  for (const auto& key : keys)
    EXPECT_TRUE(covered.contains(key))
        << "'" << key << "' has no entry in tests/keys/key_cases.cc. Add a line\n"
        << "  set(\"" << key << "\", \"<another value>\", \"<context>\", <what is seen>);\n"
        << "to the function of its section: the context (key_contexts.cc) is a small run in which the key "
           "counts, and what is seen one of Sees. A key that counts only beside others gets a line in "
           "src/cli/key_conditions.cc, so that it is refused where it would do nothing. A key whose change "
           "truly cannot be seen goes into keys_without_effect() with the reason.";
  for (const auto& key : covered) EXPECT_TRUE(keys.contains(key)) << key << " is no key: delete its entry";
}

// The keys of the model in each kind: where a key changes nothing it must be refused, or be named.
class KeyOfKind : public KeyWorkplace, public ::testing::WithParamInterface<const char*> {};

TEST_P(KeyOfKind, IsSeenOrRefused) {
  const Context context = context_of(GetParam());
  std::set<std::string> named;
  for (const KeyOfOtherKind& k : keys_of_other_kinds())
    if (std::string(k.context) == GetParam() || std::string(k.context) == "any") named.insert(k.key);
  for (const KeyCase& c : key_cases()) {
    const std::string key = c.key;
    if (!key.starts_with("model.") || key.starts_with("model.tokenizer.") || named.contains(key)) continue;
    if (!is_sampled(key + " " + GetParam())) continue;
    SCOPED_TRACE(std::string(GetParam()) + ": " + joined(c.change));
    const Observation &before = usual(context), after = observe(context, c.change);
    if (after.exit_code != 0) {
      EXPECT_EQ(after.exit_code, 1) << after.text.substr(0, 2000);
      EXPECT_THAT(after.text, ::testing::HasSubstr("ERROR "));
      continue;
    }
    EXPECT_TRUE(!differences(before, after).empty() || plan_differs(context, c.change))
        << "The key is accepted here and changes nothing: give it a condition (src/cli/key_conditions.cc), "
           "or "
           "name it in keys_of_other_kinds() with the reason.";
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, KeyOfKind, ::testing::Values("gpt", "bert", "t5"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace stoa::keys

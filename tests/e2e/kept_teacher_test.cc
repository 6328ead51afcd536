// Distillation by what was kept of a teacher: its most likely tokens on disk, in the place of the model.
#include <gmock/gmock.h>

#include "base/file.h"
#include "base/test_paths.h"
#include "workplace.h"

namespace stoa::e2e {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class KeptTeacher : public Workplace {
 protected:
  static fs::path teacher() { return test::source_dir() / "tests/fixtures/distill/teacher"; }
  static fs::path student() { return test::source_dir() / "tests/fixtures/tuning"; }
  static std::string chats() { return (student() / "completions.jsonl").string(); }
  static Arguments run_of(const Arguments& more) {
    return Arguments{"train",
                     student().string(),
                     "model.data.train_ds.file_names=['" + chats() + "']",
                     "model.data.chat=true",
                     "model.data.chat_template=none",
                     "model.data.validation_ds.file_names=['" + chats() + "']",
                     "model.encoder_seq_length=96",
                     "model.micro_batch_size=2",
                     "model.global_batch_size=4",
                     "model.optim.name=adamw",
                     "model.optim.lr=2e-3",
                     "model.optim.sched.name=Constant",
                     "trainer.precision=fp32",
                     "trainer.log_every_n_steps=1",
                     "trainer.val_check_interval=3",
                     "trainer.num_threads=2",
                     "trainer.max_steps=6"} +
           more;
  }
  static Arguments from_teacher(const Arguments& more = {}) {
    return run_of({"model.distill.teacher=" + teacher().string()}) + more;
  }
  static Arguments from_kept(const std::string& kept, const std::string& run, const Arguments& more = {}) {
    return run_of({"model.distill.kept_logits=" + kept, "--output", run}) + more;
  }
  void keep(const std::string& kept, const Arguments& more = {}) {
    const Outcome outcome = stoa_ok(from_teacher({"--keep-logits", kept}) + more);
    EXPECT_THAT(outcome.err, HasSubstr("bytes a trained token"));
  }
  void expect_near(const std::string& run, const std::string& other, double tolerance) {
    const auto compare = [&](const auto& found, const auto& expected, const Arguments& figures) {
      ASSERT_EQ(found.size(), expected.size());
      for (const auto& [step, line] : expected)
        for (const std::string& figure : figures)
          EXPECT_NEAR(found.at(step)[figure].template get<double>(), line[figure].template get<double>(),
                      tolerance)
              << run << ", " << figure << " of step " << step;
    };
    compare(metrics(run), metrics(other), {"loss", "kl"});
    compare(validations(run), validations(other), {"val_loss", "val_kl"});
  }
};

// The whole vocabulary kept: what a teacher next to the model gives, to rounding. Fewer tokens: nearly that.
TEST_F(KeptTeacher, TeachesAsTheTeacherDoes) {
  keep("all", {"--top-k", "100000", "--kept-type", "fp32"});
  keep("some", {"--top-k", "32"});
  const json header = json::parse(read_text(path("some/kept_logits.json")));
  EXPECT_EQ(header["top_k"], 32);
  EXPECT_EQ(header["type"], "fp16");
  for (const Arguments& how :
       {Arguments{"model.distill.temperature=2", "model.distill.cross_entropy_weight=0.5"},
        Arguments{"model.distill.loss=reverse_kl"}}) {
    SCOPED_TRACE(how.front());
    const std::string name = std::to_string(how.size());
    stoa_ok(from_teacher(how) + Arguments{"--output", "beside" + name});
    const Outcome outcome = stoa_ok(from_kept("all", "all" + name, how));
    EXPECT_THAT(outcome.err, HasSubstr("taught by what was kept of"));
    expect_near("all" + name, "beside" + name, 2e-5);
    stoa_ok(from_kept("some", "some" + name, how));
    const double whole = metrics("beside" + name).at(1)["kl"].get<double>(),
                 kept = metrics("some" + name).at(1)["kl"].get<double>();
    EXPECT_LT(kept, whole);
    EXPECT_GT(kept, 0.1 * whole);
    EXPECT_LT(validations("some" + name).at(6)["val_kl"].get<double>(),
              validations("some" + name).at(0)["val_kl"].get<double>());
  }
}

// Kept by one rank or by eight, read by one or by four, stopped and resumed.
TEST_F(KeptTeacher, InAnyLayout) {
  keep("one");
  keep("eight", {"--ranks", "8", "model.tensor_model_parallel_size=2", "model.pipeline_model_parallel_size=2",
                 "model.micro_batch_size=1"});
  keep("context", {"--ranks", "2", "model.context_parallel_size=2"});
  stoa_ok(from_kept("one", "of-one"));
  for (const std::string kept : {"eight", "context"}) {
    stoa_ok(from_kept(kept, "of-" + kept));
    expect_near("of-" + kept, "of-one", 2e-4);  // of logits that are rounded otherwise
  }
  const std::vector<Arguments> layouts{
      // whose ranks see two rows at once, as one does
      {"--ranks", "4", "model.tensor_model_parallel_size=2", "model.sequence_parallel=true",
       "model.micro_batch_size=1"},
      {"--ranks", "4", "model.context_parallel_size=2", "model.pipeline_model_parallel_size=2"}};
  int number = 0;
  for (const Arguments& layout : layouts) {
    const std::string run = "split" + std::to_string(number++);
    stoa_ok(from_kept("one", run, layout));
    expect_near(run, "of-one", 2e-5);
  }
  stoa_ok(from_kept("one", "parts", {"--stop-after", "3"}));
  stoa_ok(from_kept("one", "parts"));
  expect_same("of-one", "parts");
}

// `stoa finetune` keeps and trains; epochs and the order of samples play no part.
TEST_F(KeptTeacher, FinetuneKeepsAndTrains) {
  const Arguments tune{"finetune", student().string(), "--data", chats(), "--template",
                       "none",     "--length",         "96"};
  const Outcome kept =
      stoa_ok(tune + Arguments{"--teacher", teacher().string(), "--keep-logits", "kept", "--top-k", "16"});
  EXPECT_THAT(kept.err, HasSubstr("kept the 16 most likely tokens of"));
  stoa_ok(tune + Arguments{"--kept-logits", "kept", "--temperature", "2", "--epochs", "5", "model.seed=7",
                           "trainer.log_every_n_steps=1", "model.optim.lr=3e-3", "--output", "run"});
  const auto found = metrics("run");
  EXPECT_LT(found.rbegin()->second["kl"].get<double>(), found.begin()->second["kl"].get<double>());
  const Outcome alone = stoa(tune + Arguments{"--kl", "reverse", "--output", "refused"});
  EXPECT_NE(alone.exit_code, 0);
  EXPECT_THAT(alone.err, HasSubstr("--kept-logits"));
}

// No teacher in memory: the plan has what is kept of the microbatches in flight, exactly.
TEST_F(KeptTeacher, MemoryIsPlanned) {
  keep("kept", {"--top-k", "20"});
  const auto bytes = [&](const Arguments& more) {
    Arguments arguments = run_of(more);
    arguments.erase(arguments.begin());
    return json::parse(stoa_ok(Arguments{"plan", "memory"} + arguments + Arguments{"--json"}).out)["bytes"];
  };
  const json alone = bytes({}), kept = bytes({"model.distill.kept_logits=kept"});
  EXPECT_EQ(kept["batch"].get<std::int64_t>() - alone["batch"].get<std::int64_t>(), 2 * 96 * (8 * 20 + 4))
      << kept << alone;
  for (const char* same : {"weights", "gradients", "optimizer state"}) EXPECT_EQ(kept[same], alone[same]);
  stoa_ok(from_kept("kept", "run"));
  EXPECT_THAT(read_text(path("run/report.html")), HasSubstr("The run used exactly what was planned."));
}

TEST_F(KeptTeacher, SaysWhatItCannotDo) {
  keep("kept");
  const auto refused = [&](const Arguments& arguments, const char* text) {
    const Outcome outcome = stoa(arguments);
    EXPECT_EQ(outcome.exit_code, 1) << outcome.text();
    EXPECT_THAT(outcome.err, HasSubstr(text));
  };
  refused(from_teacher({"--keep-logits", "unused", "--output", "run"}), "trains nothing");
  // Of other data, or of another teacher or vocabulary.
  write_text(path("other.jsonl"), R"({"prompt": "What barked?", "completion": " A dog."})"
                                  "\n");
  refused(from_kept("kept", "run", {"model.data.train_ds.file_names=[other.jsonl]"}),
          "no predictions of training sample");
  refused(from_kept("kept", "run", {"model.encoder_seq_length=128"}), "no predictions of training sample");
  refused(from_kept("kept", "run", {"model.distill.teacher=" + student().string()}), "was kept of");
  stoa_ok(from_kept("kept", "run", {"model.distill.teacher=" + teacher().string()}));
  refused(train("other", {"model.distill.kept_logits=kept"}), "both must have the same vocabulary");
  refused(from_kept("nowhere", "refused"), "nowhere holds no predictions of a teacher");
  // Kept twice, into a directory of something else, without a teacher, or by what was kept.
  refused(from_teacher({"--keep-logits", "kept"}), "holds the predictions of");
  refused(from_teacher({"--keep-logits", "run"}), "is not an empty folder");
  refused(run_of({"--keep-logits", "none"}), "--keep-logits keeps what a teacher predicts");
  refused(from_teacher({"--keep-logits", "none", "model.distill.kept_logits=kept"}), "give one of them");
  // Not finished, and finished by the same command.
  json header = json::parse(read_text(path("kept/kept_logits.json")));
  const json whole = header;
  for (const char* key : {"files", "rows", "tokens"}) header.erase(key);
  write_text(path("kept/kept_logits.json"), header.dump());
  refused(from_kept("kept", "refused"), "was stopped; give the same command again");
  refused(from_teacher({"--keep-logits", "kept", "--top-k", "5"}), "was begun otherwise");
  keep("kept");
  EXPECT_EQ(json::parse(read_text(path("kept/kept_logits.json"))), whole);
  // Damaged.
  const fs::path file = path("kept/rows-00000.safetensors");
  std::string bytes = read_text(file);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write_text(file, bytes);
  refused(from_kept("kept", "damaged"), "is damaged at sample");
  write_text(file, bytes.substr(0, bytes.size() / 2));
  refused(from_kept("kept", "damaged"), "rows-00000.safetensors");
  fs::remove(file);
  refused(from_kept("kept", "damaged"), "rows-00000.safetensors");
}

}  // namespace
}  // namespace stoa::e2e

// Distillation: a model learns from the predictions of another, beside which it is trained; losses are those
// of torch; a pruned model is taught by the one that it was cut from.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "base/test_paths.h"
#include "workplace.h"

namespace stoa::e2e {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Distill : public Workplace {
 protected:
  // tests/oracle/make_distill_fixtures.py.
  static fs::path fixture() { return test::source_dir() / "tests/fixtures/distill"; }
  static fs::path student() { return test::source_dir() / "tests/fixtures/tuning"; }
  static Arguments taught(const std::string& run, const json& how) {
    const json expected = json::parse(read_text(fixture() / "losses.json"));
    Arguments out{"train",
                  student().string(),
                  "model.data=" + (student() / "completions.jsonl").string(),
                  "model.data.chat=true",
                  "model.data.chat_template=none",
                  "model.data.packed_sequence=false",
                  "model.data.splits_string='1,0,0'",
                  "model.encoder_seq_length=96",
                  "model.micro_batch_size=4",
                  "model.global_batch_size=8",
                  "model.distill.teacher=" + (fixture() / "teacher").string(),
                  "model.distill.loss=" + how["loss"].get<std::string>(),
                  "model.distill.temperature=" + how["temperature"].dump(),
                  "model.distill.cross_entropy_weight=" + how["weight"].dump(),
                  "model.optim.name=adamw",
                  "model.optim.lr=" + expected["rate"].dump(),
                  "model.optim.betas=[0.9,0.95]",
                  "model.optim.weight_decay=0",
                  "model.optim.sched.name=Constant",
                  "trainer.gradient_clip_val=1",
                  "trainer.precision=fp32",
                  "trainer.log_every_n_steps=1",
                  "trainer.num_threads=2",
                  "trainer.max_steps=" + expected["steps"].dump(),
                  "--output",
                  run};
    if (how.contains("beta")) out.push_back("model.distill.jsd_beta=" + how["beta"].dump());
    return out;
  }
};

TEST_F(Distill, LossesAreThoseOfTorch) {
  const json expected = json::parse(read_text(fixture() / "losses.json"));
  int number = 0;
  for (const json& how : expected["runs"]) {
    const std::string run = "run" + std::to_string(number++);
    const Outcome outcome = stoa_ok(taught(run, how));
    EXPECT_THAT(outcome.err, HasSubstr("taught by"));
    const auto found = metrics(run);
    const auto& losses = how["losses"];
    ASSERT_EQ(found.size(), losses.size()) << how["loss"];
    for (std::size_t i = 0; i < losses.size(); ++i) {
      const double theirs = losses[i].get<double>();
      EXPECT_NEAR(found.at(static_cast<std::int64_t>(i) + 1)["loss"].get<double>(), theirs,
                  1e-3 * std::max(1.0, theirs))
          << how["loss"] << " step " << i + 1;
      const json& line = found.at(static_cast<std::int64_t>(i) + 1);
      const double divergence = line[how["loss"] == "jsd" ? "jsd" : "kl"].get<double>(),
                   of_torch = how["divergences"][i].get<double>();
      EXPECT_NEAR(divergence, of_torch, 1e-3 * std::max(1.0, of_torch)) << how["loss"] << " step " << i + 1;
      const double weight = how["weight"].get<double>(), temperature = how["temperature"].get<double>();
      EXPECT_EQ(line.contains("cross_entropy"), weight > 0);
      const double rest = weight > 0 ? weight * line["cross_entropy"].get<double>() : 0;
      EXPECT_NEAR(temperature * temperature * divergence + rest, line["loss"].get<double>(), 1e-6);
    }
  }
}

// Stopped and resumed, over ranks, with the memory that the plan says.
TEST_F(Distill, RunsLikeAnyOther) {
  const json how = json::parse(read_text(fixture() / "losses.json"))["runs"][1];
  const Arguments few{"trainer.max_steps=6"};
  stoa_ok(taught("one", how) + few);
  stoa_ok(taught("parts", how) + few + Arguments{"--stop-after", "3"});
  stoa_ok(taught("parts", how) + few);
  const auto weights = [&](const std::string& run) {
    return read_text(path(run) / "checkpoints/latest/model/model.safetensors");
  };
  EXPECT_EQ(weights("parts"), weights("one"));
  stoa_ok(taught("split", how) + few +
          Arguments{"--ranks", "4", "model.tensor_model_parallel_size=2",
                    "model.pipeline_model_parallel_size=2", "model.micro_batch_size=1"});
  const auto one = metrics("one"), split = metrics("split");
  for (const auto& [step, line] : one)
    EXPECT_NEAR(split.at(step)["loss"].get<double>(), line["loss"].get<double>(), 1e-4) << step;
}

// The divergence of training and of validation, in the log, the report and the progress line, and the same in
// every layout; the loss of a validation is the cross entropy, whatever the teacher.
TEST_F(Distill, DivergenceIsReported) {
  const json runs = json::parse(read_text(fixture() / "losses.json"))["runs"];
  const std::string held_out = (student() / "completions.jsonl").string();
  const Arguments more{"trainer.max_steps=4", "trainer.val_check_interval=2",
                       "model.data.train_ds.file_names=['" + held_out + "']",
                       "model.data.validation_ds.file_names=['" + held_out + "']"};
  const std::vector<Arguments> layouts{
      {"--ranks", "4", "model.tensor_model_parallel_size=2", "model.pipeline_model_parallel_size=2"},
      {"--ranks", "4", "model.context_parallel_size=2"},
      {"--ranks", "2", "model.tensor_model_parallel_size=2", "model.sequence_parallel=true"}};
  const auto run_of = [&](const std::string& run, const json& how) {
    Arguments out = taught(run, how) + more;
    std::erase_if(out, [](const std::string& word) { return word.starts_with("model.data="); });
    return out;
  };
  for (const auto& [how, name] : {std::pair{runs[1], "kl"}, std::pair{runs[3], "jsd"}}) {
    const std::string one = std::string("one-") + name;
    const Outcome outcome = stoa_ok(run_of(one, how));
    EXPECT_THAT(outcome.err, HasSubstr(std::string("  ") + name + " "));
    EXPECT_THAT(read_text(path(one) / "report.html"), HasSubstr("Divergence"));
    const auto trained = metrics(one), validated = validations(one);
    ASSERT_EQ(validated.size(), 3U);  // before the first step, too
    // The validation has the records of the first step, which sees all of them.
    EXPECT_NEAR(validated.at(0)["val_" + std::string(name)].get<double>(), trained.at(1)[name].get<double>(),
                1e-5);
    EXPECT_NEAR(validated.at(0)["val_loss"].get<double>(), trained.at(1)["cross_entropy"].get<double>(),
                1e-5);
    int number = 0;
    for (const Arguments& layout : layouts) {
      const std::string run = std::string(name) + std::to_string(number++);
      stoa_ok(run_of(run, how) + layout + Arguments{"model.micro_batch_size=1"});
      for (const auto& [step, line] : metrics(run))
        EXPECT_NEAR(line[name].get<double>(), trained.at(step)[name].get<double>(), 1e-5) << run;
      for (const auto& [step, line] : validations(run))
        for (const std::string& figure : {std::string("val_loss"), "val_" + std::string(name)})
          EXPECT_NEAR(line[figure].get<double>(), validated.at(step)[figure].get<double>(), 1e-5) << run;
    }
  }
}

// A teacher's weights, and its rows of a step's tokens: counted by the plan and used by the run, exactly.
TEST_F(Distill, MemoryIsPlanned) {
  const Arguments shape{student().string(),         "model.encoder_seq_length=64",
                        "model.micro_batch_size=2", "model.global_batch_size=8",
                        "trainer.precision=bf16",   "trainer.max_steps=2"};
  const Arguments teacher{"model.distill.teacher=" + (fixture() / "teacher").string()};
  const auto bytes = [&](const Arguments& more) {
    return json::parse(
        stoa_ok(Arguments{"plan", "memory"} + shape + more + Arguments{"--json"}).out)["bytes"];
  };
  const json alone = bytes({}), taught = bytes(teacher);
  EXPECT_EQ(taught["teacher"], 8 * 64 * 48 * 2);
  // 3 layers of 48: all weights in bf16 but norms, and untied or tied as the student's.
  EXPECT_GT(taught["weights"].get<std::int64_t>(), alone["weights"].get<std::int64_t>() + 2 * 48 * 600);
  for (const char* same : {"gradients", "optimizer state"}) EXPECT_EQ(taught[same], alone[same]) << same;
}

// Minitron's way: measured, cut, taught by what it was cut from.
TEST_F(Distill, AfterPruningByTheWholeModel) {
  const Arguments steps{"trainer.max_steps=40", "model.optim.lr=5e-3", "model.optim.sched.warmup_steps=0",
                        "trainer.log_every_n_steps=1"};
  stoa_ok(train("base", steps));
  stoa_ok({"checkpoint", "prune", "base", "--layers", "1", "--ffn", "64", "--text", "text.txt", "--dtype",
           "fp32", "--output", "smaller"});
  const auto perplexity = [&](const std::string& model) {
    return json_of(
               {"eval", "perplexity", model, "--text", "text.txt", "--dtype", "fp32", "--json"})["perplexity"]
        .get<double>();
  };
  stoa_ok(Arguments{"train", "smaller", "model.data=data", "model.tokenizer=tok",
                    "model.distill.teacher=base", "model.encoder_seq_length=32", "model.micro_batch_size=2",
                    "model.global_batch_size=4", "trainer.precision=fp32", "trainer.num_threads=2",
                    "--output", "taught"} +
          steps);
  const auto found = metrics("taught");
  EXPECT_LT(found.rbegin()->second["loss"].get<double>(), 0.5 * found.begin()->second["loss"].get<double>());
  const double whole = perplexity("base"), cut = perplexity("smaller"), taught = perplexity("taught");
  EXPECT_GT(cut, 1.02 * whole);
  EXPECT_LT(taught, cut);
}

TEST_F(Distill, SaysWhatItCannotDo) {
  const json how{{"loss", "forward_kl"}, {"temperature", 1.0}, {"weight", 0.0}};
  const auto refused = [&](const Arguments& more, const char* text) {
    const Outcome outcome = stoa(taught("refused", how) + more);
    EXPECT_EQ(outcome.exit_code, 1) << outcome.text();
    EXPECT_THAT(outcome.err, HasSubstr(text));
    EXPECT_FALSE(fs::exists(path("refused/checkpoints")));
  };
  stoa_ok(train("other", {"trainer.max_steps=3"}));
  refused({"model.distill.teacher=other"}, "both must have the same vocabulary");
  refused({"model.distill.teacher=nowhere"}, "nowhere");
  refused({"model.distill.jsd_beta=0.3"}, "distill.loss jsd");
  refused({"model.distill.temperature=0"}, "temperature");
  refused({"model.distill.loss=kl"}, "forward_kl");
  refused({"model.peft.peft_scheme=prompt", "model.peft.p_tuning.virtual_tokens=2"}, "virtual tokens");
  refused({"model.distill.teacher=" + (student() / "lora").string()}, "lora");
  refused({"model.distill.teacher=null", "model.distill.temperature=2"}, "a distill.teacher");
  const Outcome flag = stoa({"finetune", student().string(), "--data", (student() / "pairs.jsonl").string(),
                             "--template", "none", "--objective", "dpo", "--teacher",
                             (fixture() / "teacher").string(), "--output", "refused"});
  EXPECT_EQ(flag.exit_code, 1) << flag.text();
  EXPECT_THAT(flag.err, HasSubstr("with objective dpo"));
  EXPECT_NE(stoa({"finetune", student().string(), "--data", "x.jsonl", "--kl", "reverse", "--output", "x"})
                .exit_code,
            0);
}

}  // namespace
}  // namespace stoa::e2e

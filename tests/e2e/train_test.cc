// From text to a trained model, and what every command says about it.
#include <gmock/gmock.h>

#include <cmath>

#include "base/file.h"
#include "workplace.h"

namespace stoa::e2e {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Train : public Workplace {};

TEST_F(Train, WritesTheWholeRunDirectoryAndEveryCommandReadsIt) {
  stoa_ok(train("run", {"trainer.max_steps=60", "trainer.val_check_interval=30",
                        "trainer.limit_val_batches=2", "trainer.trace_steps=[5]", "model.optim.lr=3e-3",
                        "trainer.sample_prompts=['the stone']", "trainer.sample_max_tokens=4"}));
  for (const char* file :
       {"config.yaml", "metrics.jsonl", "trace.json", "report.html", "checkpoints/latest",
        "checkpoints/step-0000060/model/config.json", "checkpoints/step-0000060/model/model.safetensors",
        "checkpoints/step-0000060/model/tokenizer.json", "checkpoints/step-0000060/state/manifest.json"})
    EXPECT_TRUE(fs::exists(path("run") / file)) << file;
  int events = 0;
  for (const auto& entry : fs::directory_iterator(path("run")))
    events += entry.path().filename().string().starts_with("events.out.tfevents.");
  EXPECT_EQ(events, 1);
  EXPECT_EQ(fs::read_symlink(path("run") / "checkpoints/latest"), "step-0000060");

  const std::string report = read_text(path("run") / "report.html");
  EXPECT_THAT(report, HasSubstr("Changes against the preset tiny"));
  EXPECT_THAT(report, HasSubstr("<code>model.hidden_size</code></td><td>128</td><td>32</td>"));
  EXPECT_THAT(report, HasSubstr("stoa train tiny model.num_layers=2"));
  EXPECT_THAT(report, HasSubstr("<th class=\"n\">planned</th>"));

  const auto steps = metrics("run");
  ASSERT_EQ(steps.size(), 60u);
  for (const char* key : {"step", "samples", "tokens", "loss", "lr", "grad_norm", "loss_scale",
                          "step_seconds", "tokens_per_second", "model_tflops", "mfu", "peak_memory_bytes"})
    EXPECT_TRUE(steps.at(60).contains(key)) << key;
  EXPECT_EQ(steps.at(60)["samples"], 240);
  EXPECT_EQ(steps.at(60)["tokens"], 240 * 32);
  EXPECT_LT(steps.at(60)["loss"].get<double>(), steps.at(1)["loss"].get<double>() - 1);
  const auto validation = validations("run");
  ASSERT_EQ(validation.size(), 3u);  // before the first step, too
  EXPECT_LT(validation.at(60)["val_loss"].get<double>(), validation.at(30)["val_loss"].get<double>());
  EXPECT_TRUE(nlohmann::json::parse(read_text(path("run") / "trace.json"))["traceEvents"].size() > 50);

  const auto generated =
      json_of({"generate", "run", "--prompt", "the stone", "--max-tokens", "5", "--greedy", "--json"});
  EXPECT_EQ(generated["ids"].size(), 5u);
  EXPECT_EQ(generated["ids"], json_of({"generate", "run", "--prompt", "the stone", "--max-tokens", "5",
                                       "--greedy", "--json"})["ids"]);
  write_text(path("lines.txt"), "the stone walks\nbread\n");
  const std::string scores = stoa_ok({"score", "run", "lines.txt"}).out;
  const auto first = nlohmann::json::parse(scores.substr(0, scores.find('\n')));
  EXPECT_TRUE(first["logprobs"][0].is_null());
  EXPECT_EQ(first["ids"].size(), first["logprobs"].size());

  EXPECT_EQ(json_of({"checkpoint", "verify", "run", "--json"})["ok"], true);
  EXPECT_EQ(json_of({"checkpoint", "inspect", "run", "--json"})["training"]["step"], 60);
  stoa_ok({"checkpoint", "export", "run", "--dtype", "bf16", "--output", "exported"});
  stoa_ok({"score", "exported", "lines.txt"});
}

TEST_F(Train, ConfigurationOfARunTrainsItAgain) {
  stoa_ok(train("a"));
  stoa_ok({"train", "a/config.yaml", "--output", "b"});
  expect_same("a", "b");
}

TEST_F(Train, LimitsOfTokensAndEpochs) {
  // 12 steps x 4 samples x 32 tokens, had by tokens.
  stoa_ok(train("steps"));
  stoa_ok(train("tokens", {"trainer.max_steps=null", "trainer.max_tokens=1536"}));
  expect_same("steps", "tokens");
  stoa_ok(train("epoch", {"trainer.max_steps=null", "trainer.max_epochs=0.5"}));
  stoa_ok(train("two", {"trainer.max_steps=null", "trainer.max_epochs=1"}));
  const auto half = metrics("epoch").rbegin()->first, whole = metrics("two").rbegin()->first;
  EXPECT_GT(half, 20);
  EXPECT_LE(std::abs(whole - 2 * half), 1);
}

// Of documents "a" every second token is text, of one byte, and every other one ends a document.
TEST_F(Train, BitsPerByteAreThoseOfTheText) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += "{\"text\": \"a\"}\n";
  write_text(path("a.jsonl"), text);
  stoa_ok({"data", "prepare", "a.jsonl", "--tokenizer", "tok", "--output", "a"});
  stoa_ok(train("run", {"model.data=a", "trainer.max_steps=1", "model.optim.sched.warmup_steps=0",
                        "trainer.val_check_interval=1", "trainer.limit_val_batches=1"}));
  const auto line = validations("run").at(1);
  EXPECT_NEAR(line["val_bits_per_byte"].get<double>(), 2 * line["val_loss"].get<double>() / std::log(2.0),
              1e-5);
}

TEST_F(Train, TimeLimitSavesAndEnds) {
  const auto arguments =
      train("run", {"trainer.max_steps=1000000", "trainer.max_time=1s", "trainer.log_every_n_steps=1000"});
  const Outcome outcome = stoa(arguments);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text();
  const auto found = json_of({"checkpoint", "inspect", "run", "--json"});
  const auto step = found["training"]["step"].get<std::int64_t>();
  EXPECT_GT(step, 0);
  EXPECT_LT(step, 1000000);
}

TEST_F(Train, BatchRampsUp) {
  stoa_ok(train("run", {"model.global_batch_size=8", "model.rampup_batch_size=[2,2,24]",
                        "trainer.max_steps=16", "model.optim.sched.warmup_steps=1"}));
  const auto steps = metrics("run");
  std::vector<std::int64_t> sizes;
  std::int64_t before = 0;
  for (const auto& [step, line] : steps) {
    sizes.push_back(line["samples"].get<std::int64_t>() - before);
    before = line["samples"].get<std::int64_t>();
    EXPECT_EQ(line["tokens"].get<std::int64_t>(), before * 32);
  }
  // Three increments over 24 samples: a stage lasts until 8, 16, 24 samples were seen.
  EXPECT_THAT(sizes, ElementsAre(2, 2, 2, 2, 4, 4, 6, 6, 8, 8, 8, 8, 8, 8, 8, 8));
}

TEST_F(Train, KeepsTheNewestAndTheBest) {
  stoa_ok(train("run", {"trainer.max_steps=20", "trainer.val_check_interval=2", "trainer.limit_val_batches=1",
                        "exp_manager.checkpoint_callback_params.every_n_train_steps=2",
                        "exp_manager.checkpoint_callback_params.keep_last=2",
                        "exp_manager.checkpoint_callback_params.save_top_k=1", "model.optim.lr=1e-2"}));
  std::int64_t best = 0;
  double lowest = 1e9;
  for (const auto& [step, line] : validations("run")) {
    if (line["val_loss"].get<double>() >= lowest) continue;
    lowest = line["val_loss"].get<double>();
    best = step;
  }
  std::vector<std::string> expected{"step-0000018", "step-0000020"};
  const std::string name = "step-" + std::string(best < 10 ? "000000" : "00000") + std::to_string(best);
  if (best < 18) expected.insert(expected.begin(), name);
  EXPECT_EQ(checkpoints("run"), expected);
  stoa_ok(train("all", {"trainer.max_steps=6", "exp_manager.checkpoint_callback_params.every_n_train_steps=2",
                        "exp_manager.checkpoint_callback_params.save_top_k=-1"}));
  EXPECT_THAT(checkpoints("all"), ElementsAre("step-0000002", "step-0000004", "step-0000006"));
}

TEST_F(Train, EveryPrecisionLearns) {
  for (const char* precision : {"fp32", "bf16", "fp16"}) {
    Arguments arguments{"trainer.max_steps=50", std::string("trainer.precision=") + precision,
                        "model.optim.lr=3e-3"};
    if (precision == std::string("fp16")) arguments.emplace_back("model.native_amp_init_scale=65536");
    stoa_ok(train(precision, arguments));
    const auto steps = metrics(precision);
    EXPECT_LT(steps.at(50)["loss"].get<double>(), steps.at(1)["loss"].get<double>() - 0.8) << precision;
  }
  // One data order and one set of initial weights: the precisions start from the same loss.
  EXPECT_NEAR(metrics("fp32").at(1)["loss"].get<double>(), metrics("bf16").at(1)["loss"].get<double>(), 0.02);
  EXPECT_NEAR(metrics("fp32").at(1)["loss"].get<double>(), metrics("fp16").at(1)["loss"].get<double>(),
              0.005);
}

// Experts: from training to a model that every command reads, bit for bit resumed.
TEST_F(Train, ExpertsLearnAndResume) {
  const std::vector<std::string> options{"model.normalization=rmsnorm",
                                         "model.activation=swiglu",
                                         "model.bias=none",
                                         "model.position_embedding_type=rope",
                                         "model.num_moe_experts=4",
                                         "model.moe_aux_loss_coeff=0.01",
                                         "model.moe_ffn_hidden_size=48",
                                         "model.optim.lr=3e-3",
                                         "model.share_embeddings_and_output_weights=false"};
  const auto with = [&](const char* steps) {
    auto all = options;
    all.emplace_back(steps);
    all.emplace_back("model.optim.sched.max_steps=50");
    return all;
  };
  stoa_ok(train("whole", with("trainer.max_steps=50")));
  EXPECT_LT(metrics("whole").at(50)["loss"].get<double>(),
            metrics("whole").at(1)["loss"].get<double>() - 0.8);
  stoa_ok(train("parts", with("trainer.max_steps=20")));
  stoa_ok(train("parts", with("trainer.max_steps=50")));
  EXPECT_EQ(metrics("parts").at(50)["loss"], metrics("whole").at(50)["loss"]);
  const auto config =
      nlohmann::json::parse(read_text(path("whole") / "checkpoints/latest/model/config.json"));
  EXPECT_EQ(config["model_type"], "mixtral");
  const auto generated =
      json_of({"generate", "whole", "--prompt", "the stone", "--max-tokens", "5", "--greedy", "--json"});
  EXPECT_EQ(generated["ids"].size(), 5u);
  stoa_ok({"checkpoint", "export", "whole", "--dtype", "bf16", "--output", "exported"});
  write_text(path("lines.txt"), "the stone walks\nbread\n");
  stoa_ok({"score", "exported", "lines.txt"});
}

// Learning rates by width: a model like any other, resumed bit for bit, and not with another base.
TEST_F(Train, RatesFollowTheWidth) {
  const auto with = [&](const char* steps, const char* base) {
    return Arguments{"model.use_mup=true",
                     std::string("model.mup_base_hidden_size=") + base,
                     "model.mup_base_head_dim=8",
                     std::string("trainer.max_steps=") + steps,
                     "model.optim.sched.max_steps=6",
                     "trainer.num_threads=1"};
  };
  stoa_ok(train("whole", with("6", "8")));
  stoa_ok(train("parts", with("3", "8")));
  const Outcome other = stoa(train("parts", with("6", "16")));
  EXPECT_EQ(other.exit_code, 1) << other.text();
  EXPECT_THAT(other.err, ::testing::HasSubstr("trained with mup_base_hidden_size 8"));
  stoa_ok(train("parts", with("6", "8")));
  expect_same("whole", "parts");
  const auto config =
      nlohmann::json::parse(read_text(path("whole") / "checkpoints/latest/model/config.json"));
  EXPECT_EQ(config["model_type"], "gpt2");
}

// An expert takes so much of a sequence and no more; the model in files has all experts and no limit.
TEST_F(Train, ExpertsHaveACapacity) {
  const auto with = [&](const char* factor) {
    return Arguments{"model.normalization=rmsnorm",
                     "model.activation=swiglu",
                     "model.bias=none",
                     "model.position_embedding_type=rope",
                     "model.share_embeddings_and_output_weights=false",
                     "model.num_moe_experts=4",
                     "model.moe_ffn_hidden_size=32",
                     std::string("model.moe_expert_capacity_factor=") + factor,
                     "trainer.max_steps=4",
                     "trainer.val_check_interval=4",
                     "trainer.sample_prompts=[the stone]"};
  };
  stoa_ok(train("tight", with("0.5")));
  stoa_ok(train("wide", with("100")));
  stoa_ok(train("none", with("null")));
  EXPECT_EQ(metrics("wide").at(4)["loss"], metrics("none").at(4)["loss"]);
  EXPECT_NE(metrics("tight").at(4)["loss"], metrics("none").at(4)["loss"]);
  const auto config =
      nlohmann::json::parse(read_text(path("tight") / "checkpoints/latest/model/config.json"));
  EXPECT_EQ(config["model_type"], "mixtral");
  auto spread = train("spread", with("0.5"));
  for (const char* argument : {"--ranks", "2", "model.expert_model_parallel_size=2"})
    spread.push_back(argument);
  stoa_ok(spread);
  stoa_ok({"compare", "tight", "spread", "--tolerance", "0.001"});
}

TEST_F(Train, HalfPrecisionFindsItsLossScale) {
  const Outcome outcome =
      stoa_ok(train("run", {"trainer.max_steps=70", "trainer.precision=fp16", "model.optim.lr=3e-3",
                            "model.native_amp_growth_interval=20"}));
  const auto steps = metrics("run");
  EXPECT_EQ(steps.at(1)["loss_scale"].get<double>(), 4294967296.0);
  double lowest = 1e30;
  bool grew = false;
  for (const auto& [step, line] : steps) {
    const double scale = line["loss_scale"].get<double>();
    grew = grew || scale > lowest;
    lowest = std::min(lowest, scale);
  }
  EXPECT_LT(lowest, 4294967296.0);
  EXPECT_TRUE(grew) << "the scale doubles after 20 good steps";
  EXPECT_LT(steps.at(70)["loss"].get<double>(), steps.at(1)["loss"].get<double>() - 0.5);
  EXPECT_THAT(outcome.err, HasSubstr("skipped"));
}

}  // namespace
}  // namespace stoa::e2e

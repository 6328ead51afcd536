// GGUF files and quantised models through the commands that take a MODEL.
#include <gmock/gmock.h>

#include <cmath>

#include "base/file.h"
#include "workplace.h"

namespace stoa::e2e {
namespace {

using ::testing::HasSubstr;

class Gguf : public Workplace {
 protected:
  void SetUp() override {
    Workplace::SetUp();
    stoa_ok(train("run", {"trainer.max_steps=2", "model.activation=swiglu", "model.normalization=rmsnorm",
                          "model.position_embedding_type=rope", "model.bias=none"}));
    write_text(path("text.txt"), pseudo_prose(3, 200));
  }
  std::string scores(const std::string& model) const {
    write_text(path("ids.txt"), "1 5 9 33 2 200 7\n7 7 7\n");
    return stoa_ok({"score", model, "ids.txt", "--ids", "--dtype", "fp32", "--decoded-weights"}).out;
  }
};

TEST_F(Gguf, IsAModelForEveryCommand) {
  stoa_ok({"checkpoint", "export", "run", "--to", "gguf", "--format", "f32", "--output", "m.gguf"});
  stoa_ok({"checkpoint", "export", "run", "--dtype", "fp32", "--output", "hf"});
  const std::string expected = scores("hf");
  EXPECT_EQ(scores("m.gguf"), expected);
  const auto ids = [&](const std::string& from) {
    return stoa_ok({"tokenizer", "encode", "--tokenizer", from, "--json", "text.txt"}).out;
  };
  EXPECT_EQ(ids("m.gguf"), ids("hf"));
  EXPECT_EQ(stoa_ok({"generate", "m.gguf", "--prompt", "the", "--max-tokens", "8", "--greedy"}).out,
            stoa_ok({"generate", "hf", "--prompt", "the", "--max-tokens", "8", "--greedy"}).out);
  const auto perplexity = [&](const std::string& model) {
    return json_of({"eval", "perplexity", model, "--text", "text.txt", "--json"})["perplexity"].get<double>();
  };
  EXPECT_EQ(perplexity("m.gguf"), perplexity("hf"));
  const auto inspected = json_of({"checkpoint", "inspect", "m.gguf", "--json"});
  EXPECT_EQ(inspected["kind"], "GGUF model");
  EXPECT_EQ(inspected["keys"]["general.architecture"], "llama");
  stoa_ok({"checkpoint", "export", "m.gguf", "--dtype", "fp32", "--output", "back"});
  EXPECT_EQ(scores("back"), expected);
  EXPECT_EQ(ids("back"), ids("hf"));
  stoa_ok({"checkpoint", "export", "m.gguf", "--to", "gguf", "--output", "again.gguf"});
  EXPECT_EQ(read_text(path("again.gguf")), read_text(path("m.gguf")));
  // A run goes on from it.
  const Outcome started = stoa_ok({"train", "m.gguf", "model.data.data_prefix=data", "trainer.max_steps=1",
                                   "model.encoder_seq_length=32", "model.global_batch_size=4",
                                   "model.micro_batch_size=4", "trainer.precision=32", "--output", "on"});
  EXPECT_THAT(started.text(), HasSubstr("weights from"));
  // And an adapter is trained on it, used with it, and merged where there is a directory.
  Arguments tune{"train",
                 "m.gguf",
                 "model.data.data_prefix=data",
                 "trainer.max_steps=2",
                 "model.encoder_seq_length=32",
                 "model.global_batch_size=4",
                 "model.micro_batch_size=4",
                 "trainer.precision=32",
                 "model.peft.peft_scheme=lora",
                 "model.optim.lr=0.05",
                 "model.optim.sched.warmup_steps=0",
                 "--output",
                 "adapted",
                 "--stop-after",
                 "1"};
  stoa_ok(tune);
  tune.resize(tune.size() - 2);
  EXPECT_THAT(stoa_ok(tune).text(), HasSubstr("RESUMED"));
  EXPECT_NE(scores("adapted"), expected);
  EXPECT_EQ(stoa_ok({"score", "m.gguf", "--adapter", "adapted", "ids.txt", "--ids", "--dtype", "fp32",
                     "--decoded-weights"})
                .out,
            scores("adapted"));
  const Outcome merged = stoa({"checkpoint", "merge", "adapted", "--output", "merged"});
  EXPECT_EQ(merged.exit_code, 1);
  EXPECT_THAT(merged.err, HasSubstr("checkpoint export"));
}

TEST_F(Gguf, QuantisedModelsStayNearTheOriginal) {
  const auto kl = [&](const std::string& format, const std::string& output, const Arguments& more = {}) {
    Arguments arguments{"checkpoint", "quantize", "run",      "--format", format,     "--output", output,
                        "--text",     "text.txt", "--tokens", "64",       "--window", "32",       "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto answer = json_of(arguments);
    EXPECT_EQ(answer["tokens"], 64);
    EXPECT_GE(answer["kl_divergence"].get<double>(), -1e-9);
    return answer["kl_divergence"].get<double>();
  };
  EXPECT_LT(kl("f32", "f32.gguf"), 1e-9);
  EXPECT_LT(kl("q8_0", "q8.gguf"), 1e-3);
  EXPECT_LT(kl("q4_k_m", "q4.gguf", {"--imatrix", "text.txt"}), 2e-2);
  EXPECT_LT(kl("int8", "int8"), 1e-3);
  EXPECT_LT(kl("fp8", "fp8"), 1e-2);
  EXPECT_LT(kl("nf4", "nf4"), 3e-2);
  EXPECT_THAT(scores("nf4"), HasSubstr("logprobs"));
}

// Products with the file's weights, and with what they are decoded to.
TEST_F(Gguf, IsMultipliedWithAsItIs) {
  for (const std::string format : {"q8_0", "q4_1", "q5_0"}) {
    const std::string file = format + ".gguf";
    stoa_ok({"checkpoint", "export", "run", "--to", "gguf", "--format", format, "--output", file});
    const auto divergence = [&](const Arguments& more) {
      Arguments arguments{"eval",     "perplexity", file,     "--text",       "text.txt",
                          "--window", "32",         "--json", "--divergence", "64"};
      arguments.insert(arguments.end(), more.begin(), more.end());
      return json_of(arguments)["kl_divergence"].get<double>();
    };
    const double kept = divergence({}), decoded = divergence({"--decoded-weights"});
    EXPECT_LT(kept, 1e-6);
    EXPECT_NE(kept, 0);
    EXPECT_EQ(kept, divergence({"--stored-weights"}));
    EXPECT_LT(std::abs(decoded), 1e-12);
    EXPECT_LT(divergence({"--dtype", "bf16"}), 1e-3);
    EXPECT_NE(divergence({"--backend", "reference"}), 0);
    stoa_ok({"generate", file, "--prompt", "the", "--max-tokens", "8", "--greedy", "--backend", "check"});
    write_text(path("line.txt"), "the sun\n");
    const Arguments score{"score", file, "line.txt"};
    EXPECT_NE(stoa_ok(score).out, stoa_ok(score + Arguments{"--decoded-weights"}).out);
  }
  stoa_ok({"train", "q8_0.gguf", "model.data.data_prefix=data", "trainer.max_steps=2",
           "model.encoder_seq_length=32", "model.global_batch_size=4", "model.micro_batch_size=4",
           "trainer.precision=32", "model.peft.peft_scheme=lora", "model.optim.lr=0.05",
           "model.optim.sched.warmup_steps=0", "--output", "adapted"});
  const auto perplexity = [&](const Arguments& more) {
    Arguments arguments{"eval", "perplexity", "q8_0.gguf", "--text", "text.txt", "--window", "32", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return json_of(arguments)["perplexity"].get<double>();
  };
  const double adapted = perplexity({"--adapter", "adapted"});
  EXPECT_NEAR(adapted, perplexity({"--adapter", "adapted", "--decoded-weights"}), 1e-4 * adapted);
  EXPECT_NE(adapted, perplexity({}));
  EXPECT_THAT(stoa({"generate", "q8_0.gguf", "--prompt", "the", "--stored-weights", "--decoded-weights"}).err,
              HasSubstr("--decoded-weights"));
}

TEST_F(Gguf, KeysAndValuesHaveATypeOfTheirOwn) {
  stoa_ok({"checkpoint", "export", "run", "--to", "gguf", "--format", "q8_0", "--output", "m.gguf"});
  const auto divergence = [&](const Arguments& more) {
    return json_of(Arguments{"eval", "perplexity", "m.gguf", "--text", "text.txt", "--window", "32", "--json",
                             "--divergence", "64", "--decoded-weights"} +
                   more)["kl_divergence"]
        .get<double>();
  };
  const double exact = divergence({}), half = divergence({"--kv-dtype", "fp16"}),
               codes = divergence({"--kv-dtype", "int8"});
  EXPECT_LT(std::abs(exact), 1e-12);
  EXPECT_EQ(exact, divergence({"--kv-dtype", "fp32"}));
  EXPECT_GT(half, std::abs(exact));
  EXPECT_LT(half, 1e-7);
  EXPECT_GT(codes, half);
  EXPECT_LT(codes, 1e-4);
  // What the file holds stays as it is: so, by default, does the type that other programs have.
  const auto losses = [&](const Arguments& more) {
    return json_of(Arguments{"eval", "perplexity", "m.gguf", "--text", "text.txt", "--json"} + more)["loss"]
        .get<double>();
  };
  EXPECT_EQ(losses({}), losses({"--kv-dtype", "fp16"}));
  EXPECT_NE(losses({}), losses({"--kv-dtype", "fp32"}));

  // An answer does not depend on what else is answered, whatever the type.
  write_text(path("prompts.txt"), "the\nthe stone\nby the river the stone\n");
  for (const char* type : {"fp32", "bf16", "fp16", "int8"}) {
    const Arguments options{"--kv-dtype", type, "--max-tokens", "20", "--greedy"};
    std::string alone;
    for (const char* prompt : {"the", "the stone", "by the river the stone"})
      alone += stoa_ok(Arguments{"generate", "m.gguf", "--prompt", prompt} + options).out;
    EXPECT_EQ(stoa_ok(Arguments{"generate", "m.gguf", "--prompts", "prompts.txt"} + options).out, alone)
        << type;
    stoa_ok(Arguments{"generate", "m.gguf", "--prompt", "the", "--backend", "check"} + options);
  }
  // The same memory has room for more.
  const auto blocks = [&](const char* type) {
    return json_of({"bench", "engine", "run", "--dtype", "fp32", "--kv-memory-gb", "0.0001", "--kv-dtype",
                    type, "--rounds", "1", "--json"})["limits"]["blocks"]
        .get<int>();
  };
  const int whole = blocks("fp32");
  EXPECT_NEAR(blocks("bf16"), 2 * whole, 1);
  EXPECT_GT(blocks("int8"), 3 * whole);

  const auto refused = [&](const Arguments& command, const std::string& message) {
    const Outcome outcome = stoa(command);
    EXPECT_EQ(outcome.exit_code, 1) << outcome.text();
    EXPECT_THAT(outcome.err, HasSubstr(message));
  };
  const Arguments generate{"generate", "m.gguf", "--prompt", "the"};
  refused(generate + Arguments{"--kv-dtype", "q4_0"}, "nearest to it is int8");
  refused(generate + Arguments{"--kv-dtype", "fp32", "--dtype", "bf16"}, "give --kv-dtype bf16");
  refused({"serve", "m.gguf", "--port", "0", "--kv-dtype", "8"}, "auto, fp32, bf16, fp16 or int8");
}

TEST_F(Gguf, IsRefusedInOneMessage) {
  stoa_ok({"checkpoint", "export", "run", "--to", "gguf", "--format", "q8_0", "--output", "m.gguf"});
  const std::string good = read_text(path("m.gguf"));
  const auto refused = [&](const Arguments& command, const std::string& message) {
    const Outcome outcome = stoa(command);
    EXPECT_NE(outcome.exit_code, 0) << outcome.text();
    EXPECT_THAT(outcome.err, HasSubstr(message));
  };
  write_text(path("cut.gguf"), good.substr(0, good.size() / 2));
  refused({"score", "cut.gguf", "text.txt"}, "cut short");
  write_text(path("none.gguf"), "not a model");
  refused({"generate", "none.gguf", "--prompt", "a"}, "does not begin with GGUF");
  std::string other = good;
  other.replace(other.find("llama"), 5, "larma");
  write_text(path("other.gguf"), other);
  refused({"generate", "other.gguf", "--prompt", "a"}, "did you mean 'llama'");
  refused({"checkpoint", "export", "run", "--to", "gguf", "--output", "x.gguf"}, "--format");
  refused({"checkpoint", "export", "run", "--to", "gguf", "--format", "q8_0", "--output", "m.gguf"},
          "exists");
  refused({"checkpoint", "export", "run", "--output", "x"}, "--dtype");
  refused({"checkpoint", "quantize", "run", "--format", "int8", "--imatrix", "text.txt", "--output", "x"},
          "GGUF formats");
  EXPECT_FALSE(fs::exists(path("x.gguf")));
  EXPECT_FALSE(fs::exists(path("x")));
}

}  // namespace
}  // namespace stoa::e2e

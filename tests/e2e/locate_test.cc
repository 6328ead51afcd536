// Tensor dumps and `compare --locate`, as users call them.
#include <gmock/gmock.h>

#include <cstring>

#include "base/file.h"
#include "base/test_paths.h"
#include "workplace.h"

namespace stoa::e2e {
namespace {

using ::testing::HasSubstr;

class Locate : public Workplace {
 protected:
  // Trains with a dump of some steps and returns the run's name. (The rate of the first step is 0.)
  std::string dumped(const std::string& run, const Arguments& more = {}, const char* steps = "1-2") const {
    stoa_ok(train(run, Arguments{"trainer.max_steps=3", "--dump-tensors", steps} + more));
    return run;
  }
  nlohmann::json locate(const std::string& a, const std::string& b, int exit_code,
                        const Arguments& more = {}) const {
    const Outcome outcome = stoa(Arguments{"compare", a, b, "--locate", "--json"} + more);
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.text();
    const auto json = nlohmann::json::parse(outcome.out, nullptr, false);
    EXPECT_TRUE(json.is_object()) << outcome.text();
    return json;
  }
  // Weights of a fresh model, one element of one tensor changed.
  std::string changed_weights(const std::string& tensor_part, float by) const {
    const fs::path directory = path("changed");
    fs::copy(path("start") / "checkpoints/step-0000000/model", directory, fs::copy_options::recursive);
    const fs::path file = directory / "model.safetensors";
    std::string bytes = read_text(file);
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), 8);
    const auto header = nlohmann::json::parse(bytes.substr(8, length));
    for (const auto& [name, entry] : header.items()) {
      if (name.find(tensor_part) == name.npos) continue;
      EXPECT_EQ(entry["dtype"], "F32");
      char* at = bytes.data() + 8 + length + entry["data_offsets"][0].get<std::size_t>() + 7 * sizeof(float);
      float value = 0;
      std::memcpy(&value, at, sizeof value);
      value += by;
      std::memcpy(at, &value, sizeof value);
      write_text(file, bytes);
      return name;
    }
    ADD_FAILURE() << "no tensor with '" << tensor_part << "'";
    return "";
  }
};

TEST_F(Locate, DumpingChangesNothingAndEqualRunsAreEqualToTheLastBit) {
  stoa_ok(train("plain", {"trainer.max_steps=3"}));
  dumped("a", {"model.hidden_dropout=0"});
  dumped("b", {"trainer.num_threads=1"});
  expect_same("plain", "a");
  const auto result = locate("a", "b", 0);
  EXPECT_EQ(result["bit_equal"], true);
  EXPECT_EQ(result["steps"], (std::vector<int>{1, 2}));
  EXPECT_GT(result["tensors"], 200);
  EXPECT_THAT(stoa_ok({"compare", "a", "b", "--locate"}).out, HasSubstr("SAME to the last bit"));
  // Recomputation makes the same tensors, of which only those of the forward pass are written.
  dumped("full",
         {"model.activations_checkpoint_granularity=full", "model.activations_checkpoint_method=uniform",
          "model.activations_checkpoint_num_layers=2"});
  dumped("selective", {"model.activations_checkpoint_granularity=selective"});
  for (const char* run : {"full", "selective"}) {
    const auto same = locate("a", run, 0);
    EXPECT_EQ(same["bit_equal"], true) << same;
    EXPECT_EQ(same["only_in_a"].size() + same["only_in_b"].size(), 0u) << same;
    EXPECT_EQ(same["tensors"], result["tensors"]);
  }
}

TEST_F(Locate, MicrobatchesOfOtherSizesAreTheSameStep) {
  dumped("two", {"model.micro_batch_size=2"});
  dumped("one", {"model.micro_batch_size=1"});
  const auto result = locate("two", "one", 0);
  EXPECT_EQ(result["only_in_a"].size(), 0u) << result;
  EXPECT_GT(result["tensors"], 200);
}

TEST_F(Locate, PrecisionsAgreeWithinTheirRounding) {
  dumped("fp32");
  for (const std::string run : {"bf16", "fp16"}) {
    Arguments precision{"trainer.precision=" + run};
    if (run == "fp16") precision.push_back("model.native_amp_init_scale=1024");
    dumped(run, precision);
    const auto result = locate("fp32", run, 0);
    EXPECT_EQ(result["bit_equal"], false);
    EXPECT_EQ(locate("fp32", run, 3, {"--tolerance", "1e-6"})["same"], false);
  }
}

TEST_F(Locate, NamesAChangedWeightAndTheFirstTensorThatItChanges) {
  stoa_ok(train("start", {"trainer.max_steps=0", "model.optim.sched.warmup_steps=0"}));
  const std::string from = "restore_from_path=" + (path("start") / "checkpoints/step-0000000/model").string();
  dumped("a", {from});
  const std::string name = changed_weights("h.1.mlp.c_proj.weight", 0.25f);
  const std::string other = "restore_from_path=" + path("changed").string();
  dumped("b", {other});
  auto first = locate("a", "b", 3)["first"];
  EXPECT_EQ(first["phase"], "weights") << first;
  EXPECT_EQ(first["tensor"], "layers.1.mlp.down.weight") << first;
  EXPECT_EQ(first["index"], (std::vector<int>{7, 0}));
  EXPECT_NEAR(first["b"].get<double>() - first["a"].get<double>(), 0.25, 1e-6);
  EXPECT_EQ(first["step"], 1);

  // Without weights in the dump, the first tensor that the weight makes.
  const Arguments only{"--dump-only", "*output,*middle", "--dump-only", "*activated"};
  dumped("c", Arguments{from} + only);
  dumped("d", Arguments{other} + only);
  first = locate("c", "d", 3)["first"];
  EXPECT_EQ(first["tensor"], "layers.1.mlp.output") << first;
  EXPECT_EQ(first["phase"], "forward");
  EXPECT_EQ(first["microbatch"], 0);
  EXPECT_EQ(first["layer"], 1);
  EXPECT_EQ(first["index"][1], 7) << "the output channel of the weight's row";
  const Outcome text = stoa({"compare", "c", "d", "--locate"});
  EXPECT_EQ(text.exit_code, 3);
  EXPECT_THAT(text.out,
              HasSubstr("FIRST DIFFERENCE: step 1, forward, microbatch 0, layer 1, layers.1.mlp.output"));
  EXPECT_THAT(text.out, HasSubstr("position"));
}

// Dumps that tools/tensor_dump.py made of steps of Megatron-Core on two ranks (TP2, sequence parallel), from
// a checkpoint of Megatron-Core (tests/oracle/locate_megatron.py): one as it should be, one with another base
// of rotary positions.
TEST_F(Locate, RefereesAStepOfMegatron) {
  const fs::path megatron = test::source_dir() / "tests/fixtures/megatron";
  for (const char* file : {"tokens.bin", "tokens.idx"}) fs::copy(megatron / file, path(file));
  stoa_ok({"checkpoint", "import", megatron, "--output", "model"});
  stoa_ok({"train", path("model"), "model.data=" + path("tokens").string(), "trainer.max_steps=1",
           "trainer.precision=fp32", "trainer.val_check_interval=0", "model.encoder_seq_length=16",
           "model.micro_batch_size=2", "model.global_batch_size=4", "model.hidden_dropout=0",
           "model.attention_dropout=0", "model.data.splits_string=100,0,0", "--output", "run",
           "--dump-tensors", "1"});
  const auto same = locate(megatron / "dump", "run", 0);
  EXPECT_GE(same["tensors"], 200) << same;
  const auto first = locate(megatron / "other_rope_dump", "run", 3)["first"];
  EXPECT_EQ(first["phase"], "forward") << first;
  EXPECT_EQ(first["tensor"], "layers.0.attention.q") << first;
}

TEST_F(Locate, NamesAChangedOperation) {
  dumped("a", {"model.activation=gelu"}, "1-3");
  dumped("b", {"model.activation=quick_gelu"});
  auto first = locate("a", "b", 3)["first"];
  EXPECT_EQ(first["tensor"], "layers.0.mlp.activated") << first;
  EXPECT_EQ(first["phase"], "forward");
  dumped("c", {"model.activation=gelu", "model.optim.weight_decay=0.02"}, "1-3");
  first = locate("a", "c", 0)["first_of_any_size"];
  EXPECT_EQ(first["phase"], "weights") << "an update within the rate, but not equal: " << first;
  EXPECT_EQ(first["step"], 3);
  // Other data.
  dumped("e", {"model.activation=gelu", "model.seed=77"});
  EXPECT_EQ(locate("a", "e", 3)["first"]["phase"], "weights");
}

TEST_F(Locate, RunsWithoutADumpDoOneStepAgain) {
  const Arguments saving{"trainer.max_steps=6",
                         "exp_manager.checkpoint_callback_params.every_n_train_steps=2",
                         "exp_manager.checkpoint_callback_params.save_top_k=-1"};
  stoa_ok(train("a", saving + Arguments{"model.activation=gelu"}));
  stoa_ok(train("b", saving + Arguments{"model.activation=gelu_tanh"}));
  const auto before = read_text(path("a") / "metrics.jsonl");
  const auto result = locate("a", "b", 3);
  EXPECT_EQ(result["steps"], (std::vector<int>{1}));
  EXPECT_EQ(result["first"]["tensor"], "layers.0.mlp.activated") << result;
  EXPECT_EQ(read_text(path("a") / "metrics.jsonl"), before);
  // Steps of the other side's dump, from the checkpoint before them: bit for bit what the run did.
  stoa_ok(train("c", saving + Arguments{"model.activation=gelu", "--dump-tensors", "5"}));
  const auto again = locate("c", "a", 0);
  EXPECT_EQ(again["steps"], (std::vector<int>{5}));
  EXPECT_EQ(again["bit_equal"], true) << again;
  EXPECT_FALSE(fs::exists(path("a") / "dump"));
}

TEST_F(Locate, SaysWhatIsMissing) {
  dumped("a");
  fs::create_directory(path("empty"));
  for (const auto& [other, message] :
       std::vector<std::pair<std::string, std::string>>{{"nowhere", "'nowhere' does not exist"},
                                                        {"empty", "--dump-tensors"},
                                                        {"tok", "is not a run directory"}}) {
    const Outcome outcome = stoa({"compare", "a", other, "--locate"});
    EXPECT_EQ(outcome.exit_code, 1) << other;
    EXPECT_THAT(outcome.err, HasSubstr(message)) << other;
  }
  for (const char* steps : {"0", "x", "3-1", "1,", "1-999999999999"}) {
    const Outcome outcome = stoa(train("b", {"--dump-tensors", steps}));
    EXPECT_EQ(outcome.exit_code, 2) << steps << outcome.text();
    EXPECT_THAT(outcome.err, HasSubstr("1-3,7")) << steps;
  }
  const fs::path index = path("a") / "dump/rank-00000.jsonl";
  std::string text = read_text(index);
  text.replace(text.find("\"dtype\":\"F32\""), 13, "\"dtype\":\"F99\"");
  write_text(index, text);
  const Outcome outcome = stoa({"compare", "a", "a", "--locate"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("rank-00000.jsonl:2: dtype 'F99' is not known"));
}

}  // namespace
}  // namespace stoa::e2e

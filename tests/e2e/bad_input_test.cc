// Every kind of bad input: the exit status, one clear message that says what was given and what was expected,
// and nothing half written left behind.
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstring>

#include "base/file.h"
#include "workplace.h"

namespace stoa::e2e {
namespace {

using ::testing::HasSubstr;

class BadInput : public Workplace {
 protected:
  // Fails with `exit_code` and one message that holds all of `words`; `absent` does not exist afterwards.
  void refuse(const Arguments& arguments, const std::vector<std::string>& words,
              const std::string& absent = "", int exit_code = 1, ProgramOptions options = {}) {
    std::string command = "stoa";
    for (const auto& argument : arguments) command += " " + argument;
    SCOPED_TRACE(command);
    const Outcome outcome = stoa(arguments, std::move(options));
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.text();
    std::size_t messages = 0;
    for (std::size_t at = 0; (at = outcome.err.find("ERROR ", at)) != std::string::npos; ++at) ++messages;
    EXPECT_EQ(messages, 1u) << outcome.text();
    for (const auto& word : words) EXPECT_THAT(outcome.err, HasSubstr(word));
    EXPECT_EQ(outcome.err.find("terminate called"), std::string::npos) << outcome.text();
    if (!absent.empty()) {
      EXPECT_FALSE(fs::exists(path(absent))) << absent << " was left behind\n" << outcome.text();
    }
    expect_no_temporary_files();
  }

  void refuse_training(const Arguments& more, const std::vector<std::string>& words) {
    fs::remove_all(path("run"));
    refuse(train("run", more), words, "run");
  }

  void expect_no_temporary_files() const {
    for (const auto& entry : fs::recursive_directory_iterator(directory()))
      EXPECT_EQ(entry.path().filename().string().find(".tmp"), std::string::npos)
          << "left behind: " << entry.path();
  }

  void truncate(const std::string& name, std::uint64_t bytes) const { fs::resize_file(path(name), bytes); }

  // A trained run and its model as a bare Hugging Face directory `bare`.
  void make_model() {
    stoa_ok(train("base", {"trainer.max_steps=2", "model.optim.sched.warmup_steps=0"}));
    stoa_ok({"checkpoint", "export", "base", "--to", "hf", "--dtype", "fp32", "--output", "bare"});
    fs::remove(path("bare/stoa-checksums.json"));  // what is wrong below is to be found without
  }

  // Changes the header of bare/model.safetensors.
  void edit_header(const std::function<void(nlohmann::ordered_json&)>& edit) const {
    const std::string file = read_text(path("bare/model.safetensors"));
    std::uint64_t length = 0;
    std::memcpy(&length, file.data(), 8);
    auto header = nlohmann::ordered_json::parse(file.substr(8, length));
    edit(header);
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    length = text.size();
    std::string out(8, '\0');
    std::memcpy(out.data(), &length, 8);
    std::uint64_t old = 0;
    std::memcpy(&old, file.data(), 8);
    write_text(path("bare/model.safetensors"), out + text + file.substr(8 + old));
  }
};

TEST_F(BadInput, WrongUsage) {
  for (const Arguments& arguments :
       {Arguments{}, Arguments{"trian"}, Arguments{"train"}, Arguments{"generate", "x", "--promt", "y"},
        Arguments{"tokenizer", "train", "text.txt"}})
    EXPECT_EQ(stoa(arguments).exit_code, 2) << ::testing::PrintToString(arguments);
  refuse({"trian"}, {"'trian' is not a command of stoa", "'train'"}, "", 2);
  refuse({"eval", "perplexty", "run"}, {"'perplexty' is not a command of stoa eval", "'perplexity'"}, "", 2);
  for (const Arguments& length : {Arguments{"--max-token", "3"}, Arguments{"--max-token=3"}})
    refuse(Arguments{"generate", "run", "--prompt", "x"} + length,
           {"'--max-token' is not an option of stoa generate", "'--max-tokens'"}, "", 2);
  refuse({"generate", "run", "--prompt", "x", "--max-tokens", "1e3"},
         {"--max-tokens: expected a whole number, got '1e3'"}, "", 2);
  refuse({"eval", "perplexity", "run", "--text", "text.jsonl", "--txt", "x"},
         {"'--txt' is not an option of stoa eval perplexity", "'--text'"}, "", 2);
  for (const Arguments& command : {Arguments{"train"}, Arguments{"compare"}, Arguments{"tokenizer", "encode"},
                                   Arguments{"data", "prepare"}}) {
    const Outcome help = stoa(command + Arguments{"--help"});
    EXPECT_EQ(help.exit_code, 0);
  }
}

TEST_F(BadInput, Configuration) {
  const struct {
    Arguments arguments;
    std::vector<std::string> words;
  } cases[] = {
      {{"model.hiden_size=32"}, {"hiden_size", "hidden_size"}},
      {{"trainer.max_step=4"}, {"max_step", "max_steps"}},
      {{"model.num_layers=two"}, {"num_layers", "two"}},
      {{"model.num_layers=2.5"}, {"num_layers", "2.5"}},
      {{"trainer.precision=fp12"}, {"precision", "fp12"}},
      {{"model.hidden_dropout=1.5"}, {"hidden_dropout", "1.5"}},
      {{"model.num_layers=0"}, {"num_layers", "0"}},
      {{"model.num_attention_heads=3"}, {"hidden_size", "32", "3"}},
      {{"model.num_query_groups=3"}, {"num_query_groups", "3"}},
      {{"model.data.seq_length=64"}, {"seq_length", "64", "32"}},
      {{"model.global_batch_size=3"}, {"global_batch_size", "3", "micro_batch_size", "2"}},
      {{"model.vocab_size=100"}, {"100", "300"}},
      {{"model.max_position_embeddings=16"}, {"max_position_embeddings", "16", "32"}},
      {{"model.tensor_model_parallel_size=3"},
       {"tensor_model_parallel_size 3", "num_attention_heads 2", "at most 2"}},
      {{"model.context_parallel_size=3"},
       {"context_parallel_size 3", "6 chunks", "32 tokens", "nearest lengths are 30 and 36"}},
      {{"model.context_parallel_size=4", "model.cp_comm_type=a2a"},
       {"cp_comm_type a2a", "2 heads", "the nearest number that does is 2", "p2p"}},
      {{"model.cp_comm_type=al2a"}, {"cp_comm_type", "al2a", "a2a"}},
      {{"model.context_parallel_size=4", "model.cp_comm_type=a2a+p2p"},
       {"hierarchical_context_parallel_sizes", "a2a+p2p"}},
      {{"model.context_parallel_size=4", "model.cp_comm_type=a2a+p2p",
        "model.hierarchical_context_parallel_sizes=[2,3]"},
       {"2 x 3", "product 6", "context_parallel_size 4"}},
      {{"model.use_mup=true"}, {"use_mup needs mup_base_hidden_size"}},
      {{"model.mup_base_hidden_size=8"}, {"mup_base_hidden_size", "use_mup"}},
      {{"model.use_mup=true", "model.mup_base_hidden_size=8", "model.optim.name=muon"},
       {"use_mup has rules for optim.name adamw and adam"}},
      {{"model.moe_expert_capacity_factor=1"}, {"num_moe_experts"}},
      {{"model.bias=none", "model.num_moe_experts=4", "model.moe_pad_expert_input_to_capacity=true"},
       {"moe_pad_expert_input_to_capacity needs moe_expert_capacity_factor", "1.25"}},
      {{"model.bias=none", "model.num_moe_experts=4", "model.moe_token_drop_policy=position"},
       {"moe_token_drop_policy", "moe_expert_capacity_factor"}},
      {{"trainer.devices=4"}, {"global_batch_size 4", "4 data-parallel ranks", "nearest is 8"}},
      {{"trainer.max_steps=null"}, {"max_steps"}},
      {{"trainer.max_time=soon"}, {"max_time", "soon"}},
      {{"model.optim.sched.warmup_steps=50"},
       {"takes 50 steps", "ends after 12", "add model.optim.sched.warmup_steps=1,"}},
      {{"model.optim.sched.warmup_steps=50", "model.optim.sched.constant_steps=100"},
       {"takes 50 steps", "ends after 1 (12 steps without constant_steps 100)",
        "add model.optim.sched.warmup_steps=1 model.optim.sched.constant_steps=0"}},
      {{"model.data.splits_string='90,-10,0'"}, {"splits_string"}},
      {{"--ranks", "3"}, {"global_batch_size 4", "3 data-parallel ranks"}},
      {{"--backend", "gpu"}, {"gpu", "cpu"}},
  };
  for (const auto& c : cases) refuse_training(c.arguments, c.words);
  fs::remove_all(path("run"));
  refuse({"train", "tinny", "--output", "run"}, {"tinny", "tiny"}, "run");
  refuse({"train", "nowhere/config.yaml", "--output", "run"}, {"nowhere/config.yaml"}, "run");
  write_text(path("broken.yaml"), "model: {num_layers: 2\n");
  refuse({"train", "broken.yaml", "--output", "run"}, {"broken.yaml"}, "run");
  write_text(path("twice.yaml"), "model: {num_layers: 2, num_layers: 3}\n");
  refuse({"config", "check", "twice.yaml"}, {"num_layers"});
}

TEST_F(BadInput, DataFiles) {
  refuse_training({"model.data=nothing"}, {"nothing"});
  refuse_training({"model.data=dota"}, {"dota", "data"});
  const auto index_bytes = fs::file_size(path("data.idx"));
  const auto copy = [&](const std::string& to) {
    for (const char* end : {".idx", ".bin"}) fs::copy_file(path(std::string("data") + end), path(to + end));
  };
  copy("noidx");
  fs::remove(path("noidx.idx"));
  refuse_training({"model.data=noidx"}, {"noidx.idx"});
  copy("nobin");
  fs::remove(path("nobin.bin"));
  refuse_training({"model.data=nobin"}, {"nobin.bin"});
  for (const std::uint64_t bytes :
       {std::uint64_t{0}, std::uint64_t{5}, std::uint64_t{20}, index_bytes / 2, index_bytes - 1}) {
    const std::string name = "cut" + std::to_string(bytes);
    copy(name);
    truncate(name + ".idx", bytes);
    refuse_training({"model.data=" + name}, {name + ".idx"});
    refuse({"data", "inspect", name}, {name + ".idx"});
  }
  copy("short");
  truncate("short.bin", 100);
  refuse_training({"model.data=short"}, {"short.idx", ".bin", "100 bytes"});
}

TEST_F(BadInput, DataThatDoesNotFit) {
  // Ids up to 299, a model of 100, and no tokenizer that could tell.
  refuse(train("runs/ids", {"model.tokenizer=null", "model.vocab_size=100"}), {"vocabulary has 100"}, "runs");
  fs::create_directory(path("mine"));  // made by the user: it stays, and nothing is put into it
  refuse(train("mine", {"model.tokenizer=null", "model.vocab_size=100"}), {"vocabulary has 100"},
         "mine/config.yaml");
  EXPECT_TRUE(fs::exists(path("mine")));
  write_text(path("other.txt"), pseudo_prose(3, 500) + "other other other words\n");
  stoa_ok({"tokenizer", "train", "other.txt", "--vocab-size", "310", "--output", "other"});
  refuse_training({"model.tokenizer=other"}, {"tokenizer", "data"});
  write_text(path("empty.txt"), "");
  refuse({"data", "prepare", "empty.txt", "--tokenizer", "tok", "--output", "empty"}, {"empty"}, "empty.bin");
  write_text(path("hollow.jsonl"), "{\"text\": \"\"}\n{\"text\": \"\"}\n");
  refuse(
      {"data", "prepare", "hollow.jsonl", "--tokenizer", "tok", "--output", "hollow", "--append-eod=false"},
      {"corpus is empty"}, "hollow.bin");
  write_text(path("bad.jsonl"), "{\"text\": \"fine\"}\n{\"text\": broken}\n");
  refuse({"data", "prepare", "bad.jsonl", "--tokenizer", "tok", "--output", "bad"}, {"bad.jsonl", "2"},
         "bad.bin");
  refuse({"data", "prepare", "text.jsonl", "--json-key", "body", "--tokenizer", "tok", "--output", "keys"},
         {"body"}, "keys.bin");
  refuse({"data", "prepare", "absent.jsonl", "--tokenizer", "tok", "--output", "absent"}, {"absent.jsonl"},
         "absent.bin");
  refuse({"tokenizer", "train", "empty.txt", "--vocab-size", "300", "--output", "t"}, {"no text to train on"},
         "t");
  refuse({"tokenizer", "train", "text.txt", "--vocab-size", "10", "--output", "t"}, {"10"}, "t");
}

TEST_F(BadInput, Tokenizers) {
  refuse_training({"model.tokenizer=nowhere"}, {"nowhere"});
  fs::copy(path("tok"), path("cut"));
  truncate("cut/tokenizer.json", fs::file_size(path("cut/tokenizer.json")) / 2);
  refuse_training({"model.tokenizer=cut"}, {"cut"});
  refuse({"tokenizer", "info", "--tokenizer", "cut"}, {"cut"});
  refuse({"tokenizer", "encode", "--tokenizer", "nowhere"}, {"nowhere"});
  refuse({"tokenizer", "encode", "--tokenizer", "tok", "nowhere.txt"},
         {"cannot read 'nowhere.txt': No such file"});
  refuse({"tokenizer", "encode", "--tokenizer", "tok", "tok"}, {"cannot read 'tok': it is a directory"});
  refuse({"data", "prepare", "text.jsonl", "--tokenizer", "cut", "--output", "x"}, {"cut"}, "x.bin");
}

TEST_F(BadInput, ModelsAndCheckpoints) {
  refuse({"generate", "nowhere", "--prompt", "a"}, {"nowhere"});
  refuse({"generate", "tok", "--prompt", "a"}, {"tok"});  // a directory, but no model
  refuse_training({"restore_from_path=nowhere"}, {"nowhere"});
  refuse_training({"exp_manager.resume_ignore_no_checkpoint=false"}, {"run", "resume"});
  make_model();
  // A model of another shape than the configuration's.
  refuse_training({"restore_from_path=bare", "model.num_layers=3"}, {"layers.2", "missing"});
  refuse(train("base", {"exp_manager.resume_if_exists=false"}), {"base", "resume"});
  refuse(train("base", {"model.num_layers=1"}), {"base"});
  // Equal shapes, another function.
  refuse(train("base", {"model.num_attention_heads=4"}), {"base", "model.num_attention_heads", "2", "4"});
  refuse(train("base", {"model.layernorm_epsilon=1e-3"}), {"model.layernorm_epsilon", "1e-05", "0.001"});
  refuse_training({"restore_from_path=bare", "model.num_attention_heads=4"},
                  {"bare", "model.num_attention_heads"});
  refuse_training({"restore_from_path=bare", "model.activation=relu"},
                  {"model.activation", "gelu_tanh", "relu"});
  fs::copy(path("bare"), path("none"));
  fs::remove(path("none/model.safetensors"));
  refuse({"generate", "none", "--prompt", "a"}, {"none"});
  fs::copy(path("bare"), path("cut"));
  truncate("cut/model.safetensors", fs::file_size(path("cut/model.safetensors")) - 100);
  refuse({"generate", "cut", "--prompt", "a"}, {"cut/model.safetensors"});
  refuse_training({"restore_from_path=cut"}, {"cut/model.safetensors"});
  truncate("cut/model.safetensors", 4);
  refuse({"score", "cut", "text.txt"}, {"cut/model.safetensors"});
  refuse({"checkpoint", "export", "cut", "--dtype", "bf16", "--output", "out"}, {"cut/model.safetensors"},
         "out");

  // One byte of the optimizer's state changes: verify names the file; a run that has nothing else does not
  // start anew.
  const std::string state = "base/checkpoints/step-0000002/state/optimizer.safetensors";
  std::string bytes = read_text(path(state));
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_text(path(state), bytes);
  refuse({"checkpoint", "verify", "base"}, {"state/optimizer.safetensors"});
  refuse(train("base"), {"optimizer.safetensors"});
}

TEST_F(BadInput, TensorsOfModels) {
  make_model();
  const std::string whole = read_text(path("bare/model.safetensors"));
  const std::string name = "transformer.h.0.attn.c_attn.weight";
  const auto edited = [&](const std::function<void(nlohmann::ordered_json&)>& edit,
                          const std::vector<std::string>& words) {
    write_text(path("bare/model.safetensors"), whole);
    edit_header(edit);
    refuse({"generate", "bare", "--prompt", "a"}, words);
    refuse_training({"restore_from_path=bare"}, words);
  };
  edited(
      [&](auto& header) {
        header[name + "s"] = header[name];  // renamed: one is missing, one unexpected
        header.erase(name);
      },
      {name, name + "s", "missing"});
  edited(
      [&](nlohmann::ordered_json& header) {  // whole, and one more, of no bytes
        std::uint64_t end = 0;
        for (const auto& [key, entry] : header.items())
          if (key != "__metadata__") end = std::max(end, entry["data_offsets"][1].get<std::uint64_t>());
        header["transformer.h.0.extra"] = {{"dtype", "F32"}, {"shape", {0}}, {"data_offsets", {end, end}}};
      },
      {"unexpected", "transformer.h.0.extra"});
  edited([&](auto& header) { header[name]["shape"] = {96, 32}; }, {name, "[96, 32]", "[32, 96]"});
  edited([&](auto& header) { header[name]["shape"] = {32, 95}; }, {name, "model.safetensors"});
  edited([&](auto& header) { header[name]["dtype"] = "I32"; }, {name});
  edited([&](auto& header) { header[name]["data_offsets"][1] = 1ull << 60; }, {"model.safetensors"});
}

TEST_F(BadInput, NowhereToWrite) {
  // /proc takes no files, from root neither.
  refuse(train("", {"--output", "/proc/stoa-run"}), {"/proc/stoa-run"});
  refuse({"data", "prepare", "text.jsonl", "--tokenizer", "tok", "--output", "/proc/stoa-data"},
         {"/proc/stoa-data"});
  refuse({"tokenizer", "train", "text.txt", "--vocab-size", "300", "--output", "/proc/stoa-tok"},
         {"/proc/stoa-tok"});
  if (::geteuid() == 0) return;
  fs::create_directory(path("locked"));
  fs::permissions(path("locked"), fs::perms::owner_read | fs::perms::owner_exec);
  refuse(train("locked/run"), {"locked/run"}, "locked/run");
  refuse({"data", "prepare", "text.jsonl", "--tokenizer", "tok", "--output", "locked/data"}, {"locked/data"},
         "locked/data.bin");
}

TEST_F(BadInput, DiskFull) {
  // A limit on file sizes fails writes as a full disk does.
  const auto limited = [](std::uint64_t bytes) {
    ProgramOptions options;
    options.file_bytes = bytes;
    return options;
  };
  refuse({"data", "prepare", "text.jsonl", "--tokenizer", "tok", "--output", "full"}, {"full"}, "full.bin", 1,
         limited(4096));
  EXPECT_FALSE(fs::exists(path("full.idx")));
  refuse({"tokenizer", "train", "text.txt", "--vocab-size", "300", "--output", "full-tok"}, {"full-tok"},
         "full-tok/tokenizer.json", 1, limited(1000));
  // The run's small files fit, its checkpoint does not: the one before stays the newest.
  stoa_ok(train("run", {"exp_manager.checkpoint_callback_params.every_n_train_steps=6",
                        "exp_manager.checkpoint_callback_params.save_top_k=-1"}));
  fs::remove_all(path("run/checkpoints/step-0000012"));
  fs::remove(path("run/checkpoints/latest"));
  refuse(train("run"), {"checkpoints"}, "run/checkpoints/step-0000012", 1, limited(60000));
  EXPECT_EQ(json_of({"checkpoint", "verify", "run", "--json"})["ok"], true);
  stoa_ok(train("run"));
  stoa_ok(train("straight"));
  expect_same("run", "straight");
}

TEST_F(BadInput, LossThatIsNotANumber) {
  // Steps of length 10 leave the range of fp16 at once.
  const Outcome outcome =
      stoa(train("run", {"trainer.max_steps=100", "trainer.precision=fp16", "model.optim.lr=10",
                         "trainer.gradient_clip_val=0", "model.native_amp_init_scale=1",
                         "model.optim.sched.warmup_steps=0"}));
  EXPECT_EQ(outcome.exit_code, 1) << outcome.text();
  EXPECT_THAT(outcome.err, HasSubstr("the loss has not been finite"));
  EXPECT_THAT(outcome.err, HasSubstr("learning rate"));
  EXPECT_FALSE(fs::exists(path("run/checkpoints/step-0000100")));
}

}  // namespace
}  // namespace stoa::e2e

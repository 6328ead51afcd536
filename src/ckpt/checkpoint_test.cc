// The commit protocol under kills, full disks, other writers and damage; what a path resolves to; export.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/checksum.h"
#include "base/error.h"
#include "base/test_folder.h"
#include "ckpt/checkpoint_writer.h"
#include "ckpt/export_model.h"
#include "ckpt/find_checkpoint.h"
#include "ckpt/model_checksums.h"
#include "ckpt/state_reader.h"

namespace stoa::ckpt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// A model of one weight, whose values tell the step.
class TinySnapshot : public Snapshot {
 public:
  explicit TinySnapshot(float value, std::function<void()> during_state = nullptr, std::int64_t rows = 6)
      : rows_(rows),
        weight_(static_cast<std::size_t>(rows) * 4, value),
        during_state_(std::move(during_state)) {}

  std::vector<TensorEntry> model_tensors() const override {
    return {{"w.weight", StorageType::kBF16, {rows_, 4}, 0, 0}};
  }
  void write_model(ShardedWriter& writer) override { writer.write("w.weight", view()); }
  std::vector<TextFile> model_files() const override {
    return {{"config.json", "{\"model_type\": \"gpt2\", \"torch_dtype\": \"bfloat16\", \"n_layer\": 2}\n"},
            {"tokenizer.json", "{}"}};
  }
  std::vector<TensorEntry> state_tensors() const override {
    return {{master_name("w"), StorageType::kF32, {rows_, 4}, 0, 0},
            {adam_m_name("w"), StorageType::kF32, {rows_, 4}, 0, 0}};
  }
  void write_state(ShardedWriter& writer) override {
    writer.write(master_name("w"), view());
    if (during_state_) during_state_();
    writer.write(adam_m_name("w"), view());
  }

 private:
  TensorView view() { return TensorView(weight_.data(), DType::kF32, {rows_, 4}); }
  std::int64_t rows_;
  std::vector<float> weight_;
  std::function<void()> during_state_;
};

TrainingState state_at(std::int64_t step, double loss = 1.0) {
  TrainingState state;
  state.step = step;
  state.samples = step * 8;
  state.seed = 0xfedcba9876543210u;
  state.loss_scale = {65536.0, 0.1, 3};
  state.config_hash = "c0ffee";
  state.metrics = {{"val_loss", loss}};
  state.counters = {{"skipped", 2}};
  return state;
}

class Checkpoint : public ::testing::Test {
 protected:
  fs::path run() const { return directory_.path() / "run"; }
  fs::path checkpoints() const { return run() / "checkpoints"; }
  fs::path step(std::int64_t n) const { return checkpoints() / checkpoint_name(n); }

  void save(std::int64_t n, WriterOptions options = {}, double loss = 1.0) {
    CheckpointWriter writer(checkpoints(), std::move(options));
    writer.save(state_at(n, loss), std::make_unique<TinySnapshot>(static_cast<float>(n)));
    writer.wait();
  }
  std::vector<std::string> steps() const {
    std::vector<std::string> out;
    for (const auto& item : fs::directory_iterator(checkpoints()))
      if (item.path().filename() != ".lock") out.push_back(item.path().filename().string());
    std::sort(out.begin(), out.end());
    return out;
  }
  std::int64_t newest() const { return find_checkpoint(run()).manifest->training.step; }
  static void flip(const fs::path& path, std::size_t at) {
    std::string text = read_text(path);
    text[at] = static_cast<char>(text[at] ^ 1);
    write_text(path, text);
  }

  TestFolder directory_;
};

TEST_F(Checkpoint, SavesAndReadsBackEverything) {
  save(100);
  const auto found = find_checkpoint(run());
  EXPECT_EQ(found.kind, FoundCheckpoint::Kind::kRun);
  EXPECT_TRUE(fs::equivalent(found.root, checkpoints() / "latest"));
  const StateReader reader(found);
  const TrainingState& t = reader.training();
  EXPECT_EQ(t.step, 100);
  EXPECT_EQ(t.samples, 800);
  EXPECT_EQ(t.seed, 0xfedcba9876543210u);
  EXPECT_THAT(t.loss_scale, ElementsAre(65536.0, 0.1, 3.0));
  EXPECT_EQ(t.counters.at("skipped"), 2);
  std::vector<float> half(8);
  const ShardSpec shard{{2, 4}, {{"w", {6, 4}, 4, 2, 0, 0, 0}}, std::nullopt};
  reader.read("master/", shard, TensorView(half.data(), DType::kF32, {2, 4}));
  EXPECT_EQ(half, std::vector<float>(8, 100.0f));
  EXPECT_EQ(TensorDirectory(found.model).at("w.weight").dtype(), DType::kBF16);
  EXPECT_EQ(find_checkpoint(step(100)).kind, FoundCheckpoint::Kind::kCheckpoint);
  EXPECT_EQ(find_checkpoint(checkpoints() / "latest").manifest->training.step, 100);
  EXPECT_EQ(find_checkpoint(checkpoints()).manifest->training.step, 100);
  const auto bare = find_checkpoint(step(100) / "model");
  EXPECT_EQ(bare.kind, FoundCheckpoint::Kind::kHuggingFace);
  EXPECT_THAT([&] { StateReader none(bare); }, ThrowsMessage<DataError>(HasSubstr("no training state")));
}

TEST_F(Checkpoint, ManifestNoticesEveryFlippedBitThatMatters) {
  Manifest manifest;
  manifest.training = state_at(7);
  manifest.training.metrics["train_loss"] = std::nan("");
  manifest.files = {{"model/a", 3, 0x1234}};
  const std::string text = manifest_text(manifest);
  const Manifest back = parse_manifest(text, "m");
  EXPECT_FALSE(back.training.metrics.contains("train_loss"));
  EXPECT_EQ(back.files[0].checksum, 0x1234u);
  for (std::size_t i = 0; i < text.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = text;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      try {  // white space may change; nothing else may
        EXPECT_EQ(manifest_text(parse_manifest(damaged, "m")), text) << i;
        EXPECT_TRUE(std::isspace(static_cast<unsigned char>(text[i]))) << i << " bit " << bit;
      } catch (const DataError&) {
      }
    }
  for (std::size_t n = 0; n + 2 < text.size(); ++n)
    EXPECT_THROW(parse_manifest(text.substr(0, n), "m"), DataError);
  EXPECT_THROW(parse_manifest("[" + std::string(100000, '['), "m"), DataError);
  manifest.files = {{"../../etc/passwd", 3, 0}};
  EXPECT_THAT([&] { parse_manifest(manifest_text(manifest), "m"); },
              ThrowsMessage<DataError>(HasSubstr("passwd")));
}

TEST_F(Checkpoint, KilledAtEveryStageLeavesACompleteOne) {
  save(10);
  const std::vector<std::string> stages{"created", "model",   "in state", "state",  "manifest",
                                        "synced",  "renamed", "linked",   "retired"};
  for (const auto& stage : stages) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      WriterOptions options;
      options.retention.keep_last = 1;
      options.on_stage = [&](std::string_view done) {
        if (done == stage) ::_exit(42);
      };
      CheckpointWriter writer(checkpoints(), options);
      writer.save(state_at(20), std::make_unique<TinySnapshot>(20.0f, [&] {
                    if (stage == "in state") ::_exit(42);
                  }));
      writer.wait();
      ::_exit(1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 42) << stage;
    const bool published = stage == "linked" || stage == "retired";
    EXPECT_EQ(newest(), published ? 20 : 10) << stage;
    { CheckpointWriter cleaner(checkpoints(), {}); }
    for (const auto& name : steps()) EXPECT_FALSE(is_unfinished_name(name)) << stage;
    fs::remove_all(checkpoints());
    save(10);
  }
}

// A run that resumes from an earlier checkpoint comes to a step again.
TEST_F(Checkpoint, IsReplacedOnFileSystemsThatCannotExchangeDirectories) {
  const auto loss = [&] { return find_checkpoint(run()).manifest->training.metrics.at("val_loss"); };
  const std::vector<std::string> names{"latest", "step-0000010"};
  WriterOptions options;
  options.exchange = [](const fs::path&, const fs::path&) {
    return std::make_error_code(std::errc::invalid_argument);
  };
  save(10);
  save(10, options, 2.0);
  EXPECT_EQ(loss(), 2.0);
  EXPECT_EQ(steps(), names);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    options.on_stage = [&](std::string_view done) {
      if (done == "moved aside") ::_exit(42);
    };
    save(10, options, 3.0);
    ::_exit(1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 42);
  { CheckpointWriter cleaner(checkpoints(), {}); }
  EXPECT_EQ(loss(), 2.0) << "brought back";
  EXPECT_EQ(steps(), names);
  options.exchange = [](const fs::path&, const fs::path&) {
    return std::make_error_code(std::errc::permission_denied);
  };
  EXPECT_THROW(save(10, options, 4.0), IoError);
  EXPECT_EQ(loss(), 2.0);
  EXPECT_EQ(steps(), names);
}

// Killed at random moments, again and again, as in a run that is preempted.
TEST_F(Checkpoint, KilledAtRandomMomentsAlwaysResumes) {
  save(1);
  for (int round = 0; round < 15; ++round) {
    const std::int64_t start = newest();
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      WriterOptions options;
      options.retention.keep_last = 2;
      CheckpointWriter writer(checkpoints(), options);
      for (std::int64_t n = start + 1;; ++n)
        writer.save(state_at(n), std::make_unique<TinySnapshot>(static_cast<float>(n), nullptr, 500));
    }
    ::usleep(static_cast<useconds_t>(3000 + round * 1700));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    const auto found = find_checkpoint(run());
    EXPECT_GE(found.manifest->training.step, start);
    EXPECT_TRUE(found.skipped.empty());
    const float value = TensorDirectory(*found.state, kStateStem).at(master_name("w")).view().as<float>()[0];
    EXPECT_EQ(value, static_cast<float>(found.manifest->training.step));
  }
}

TEST_F(Checkpoint, FallsBackToTheNewestThatVerifiesAndSaysWhy) {
  for (const int n : {1, 2, 3}) save(n);
  flip(step(3) / "model" / "model.safetensors", fs::file_size(step(3) / "model" / "model.safetensors") - 1);
  auto found = find_checkpoint(run());
  EXPECT_EQ(found.manifest->training.step, 2);
  ASSERT_EQ(found.skipped.size(), 1u);
  EXPECT_THAT(found.skipped[0], HasSubstr("step-0000003: model/model.safetensors: checksum"));
  EXPECT_EQ(find_checkpoint(run(), Verify::kSizes).manifest->training.step, 3);
  EXPECT_THAT([&] { find_checkpoint(step(3)); },
              ThrowsMessage<DataError>(::testing::AllOf(HasSubstr("damaged"), HasSubstr("step-0000002"))));

  fs::resize_file(step(2) / "state" / "optimizer.safetensors", 10);
  EXPECT_EQ(newest(), 1);
  fs::remove(step(1) / "model" / "config.json");
  EXPECT_THAT([&] { find_checkpoint(run()); },
              ThrowsMessage<DataError>(::testing::AllOf(HasSubstr("no usable checkpoint"),
                                                        HasSubstr("config.json: missing"),
                                                        HasSubstr("is 10 bytes"), HasSubstr("checksum"))));
  EXPECT_THROW(find_resume(run()), DataError);
  EXPECT_EQ(find_resume(directory_.path() / "other"), std::nullopt);
}

TEST_F(Checkpoint, EveryFlippedBitOfAnyFileIsFound) {
  save(5);
  for (const auto& item : fs::recursive_directory_iterator(step(5))) {
    if (!item.is_regular_file() || item.path().filename() == "manifest.json") continue;
    for (std::size_t at = 0; at < item.file_size(); at += 1 + item.file_size() / 20) {
      flip(item.path(), at);
      const auto report = verify_checkpoint(step(5));
      ASSERT_EQ(report.problems.size(), 1u) << item.path() << " " << at;
      EXPECT_EQ(fs::path(report.problems[0].path).filename(), item.path().filename());
      flip(item.path(), at);
    }
  }
  EXPECT_TRUE(verify_checkpoint(step(5)).ok());
  write_text(step(5) / "model" / "README.md", "mine");
  EXPECT_TRUE(verify_checkpoint(step(5)).ok());
  EXPECT_THAT(verify_checkpoint(step(5)).unlisted, ElementsAre("model/README.md"));
}

TEST_F(Checkpoint, LatestWinsOverHigherStepsOfAnotherPast) {
  save(100);
  save(200);
  fs::remove_all(step(200));
  save(300);
  save(150);  // resumed from 100 by someone who asked for it
  EXPECT_EQ(newest(), 150);
  fs::remove(checkpoints() / "latest");
  EXPECT_EQ(newest(), 150);  // by order of writing
  WriterOptions options;
  options.retention.keep_last = 1;
  save(120, options);
  EXPECT_THAT(steps(), ElementsAre("latest", "step-0000120"));
}

TEST_F(Checkpoint, TheSameStepAgainReplacesIt) {
  save(7, {}, 3.0);
  save(7, {}, 2.0);
  EXPECT_THAT(steps(), ElementsAre("latest", "step-0000007"));
  EXPECT_EQ(find_checkpoint(run()).manifest->training.metrics.at("val_loss"), 2.0);
}

TEST_F(Checkpoint, KeepsTheLastAndTheBest) {
  WriterOptions options;
  options.retention.keep_last = 2;
  options.retention.keep_best = 1;
  const std::vector<double> losses{3.0, 1.0, 2.5, 2.0, std::nan(""), 2.2};
  for (std::size_t i = 0; i < losses.size(); ++i) save(static_cast<std::int64_t>(i + 1), options, losses[i]);
  EXPECT_THAT(steps(), ElementsAre("latest", "step-0000002", "step-0000005", "step-0000006"));
}

TEST_F(Checkpoint, ErrorsOfTheBackgroundComeWithTheNextCall) {
  save(1);
  CheckpointWriter writer(checkpoints(), {});
  const auto broken = [] { fail<IoError>("the cat sat on it"); };
  writer.save(state_at(2), std::make_unique<TinySnapshot>(2.0f, broken));
  EXPECT_THAT([&] { writer.save(state_at(3), std::make_unique<TinySnapshot>(3.0f)); },
              ThrowsMessage<IoError>(
                  ::testing::AllOf(HasSubstr("step-0000002"), HasSubstr("cat"), HasSubstr("intact"))));
  EXPECT_THAT(steps(), ElementsAre("latest", "step-0000001"));
  writer.save(state_at(3), std::make_unique<TinySnapshot>(3.0f));
  writer.wait();
  EXPECT_FALSE(writer.busy());
  EXPECT_GT(writer.last_cost().bytes, 0u);
  EXPECT_EQ(newest(), 3);
}

TEST_F(Checkpoint, TwoWritersAreRefusedAndLeftoversOfDeadOnesRemoved) {
  {
    CheckpointWriter first(checkpoints(), {});
    EXPECT_THAT([&] { CheckpointWriter second(checkpoints(), {}); },
                ThrowsMessage<IoError>(HasSubstr("another process")));
  }
  fs::create_directories(checkpoints() / ".step-0000100.tmp-999" / "model");
  fs::create_directories(checkpoints() / ".step-mine");
  CheckpointWriter third(checkpoints(), {});
  EXPECT_THAT(third.removed_at_start(), ElementsAre(".step-0000100.tmp-999"));
  EXPECT_THAT(steps(), ElementsAre(".step-mine"));
}

TEST_F(Checkpoint, FullDiskLeavesTheOldOnesAndNothingElse) {
  save(1);
  ASSERT_NE(::signal(SIGXFSZ, SIG_IGN), SIG_ERR);
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const rlimit small{1 << 20, old.rlim_max};
  CheckpointWriter writer(checkpoints(), {});
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  writer.save(state_at(2),
              std::make_unique<TinySnapshot>(2.0f, nullptr, 100'000));  // 0.8 MB of weights, 3.2 MB of state
  std::string message;
  try {
    writer.wait();
  } catch (const IoError& e) {
    message = e.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &old);
  ::signal(SIGXFSZ, SIG_DFL);
  EXPECT_THAT(message, ::testing::AllOf(HasSubstr("step-0000002"), HasSubstr("optimizer.safetensors"),
                                        HasSubstr("File too large")));
  EXPECT_THAT(steps(), ElementsAre("latest", "step-0000001"));
  EXPECT_EQ(newest(), 1);
}

TEST_F(Checkpoint, MoreThanTheDiskHoldsIsRefusedBeforeAByte) {
  CheckpointWriter writer(checkpoints(), {});
  class Huge : public TinySnapshot {
   public:
    Huge() : TinySnapshot(1.0f) {}
    std::vector<TensorEntry> model_tensors() const override {
      return {{"w", StorageType::kF32, {1 << 30, 1 << 20}, 0, 0}};
    }
  };
  writer.save(state_at(2), std::make_unique<Huge>());
  EXPECT_THAT([&] { writer.wait(); }, ThrowsMessage<IoError>(HasSubstr("are needed")));
  EXPECT_TRUE(steps().empty());
}

TEST_F(Checkpoint, UnwritablePlacesAreNamed) {
  fs::create_directories(run());
  write_text(checkpoints(), "a file in its place");
  EXPECT_THAT([&] { CheckpointWriter writer(checkpoints(), {}); },
              ThrowsMessage<IoError>(HasSubstr("run/checkpoints")));
  EXPECT_THAT([&] { CheckpointWriter writer("/proc/checkpoints", {}); },
              ThrowsMessage<IoError>(HasSubstr("/proc/checkpoints")));
}

TEST_F(Checkpoint, WrongPathsSayWhatIsThere) {
  save(1);
  const auto refused = [](const fs::path& path, const std::string& message) {
    EXPECT_THAT([&] { find_checkpoint(path); }, ThrowsMessage<Error>(HasSubstr(message))) << path;
  };
  refused("", "empty path");
  refused(directory_.path() / "rum", "did you mean 'run'?");
  refused(directory_.path() / "absent" / "x" / "y", "holds no 'absent'");
  refused(directory_.path(), "did you mean '" + run().string());
  refused(step(1) / "state", "did you mean '" + step(1).string());
  refused(step(1) / "model" / "config.json", "is a file");
  refused(checkpoints() / "step-0000002", "did you mean 'step-0000001'?");
  fs::create_directories(directory_.path() / "empty" / "checkpoints");
  refused(directory_.path() / "empty", "no complete checkpoint yet");
  fs::create_directories(checkpoints() / ".step-0000009.tmp-1" / "model");
  refused(checkpoints() / ".step-0000009.tmp-1", "unfinished checkpoint");
  fs::create_directories(step(4));
  refused(step(4), "damaged");
  fs::create_directories(directory_.path() / "old");
  write_text(directory_.path() / "old" / "config.json", "{}");
  refused(directory_.path() / "old", "neither model.safetensors nor pytorch_model.bin");
  write_text(directory_.path() / "old" / "pytorch_model.bin", "");
  EXPECT_EQ(find_checkpoint(directory_.path() / "old").kind, FoundCheckpoint::Kind::kHuggingFace);
  EXPECT_NO_THROW(find_checkpoint(run() / ""));
}

TEST_F(Checkpoint, ExportConvertsWeightsAndConfig) {
  save(3);
  const fs::path out = directory_.path() / "exported";
  const auto result = export_model(find_checkpoint(run()), DType::kF32, out);
  EXPECT_EQ(result.tensors, 1);
  const TensorDirectory files(out);
  EXPECT_EQ(files.at("w.weight").view().as<float>()[23], 3.0f);
  const auto config = nlohmann::json::parse(read_text(out / "config.json"));
  EXPECT_EQ(config["dtype"], "float32");
  EXPECT_EQ(config["torch_dtype"], "float32");
  EXPECT_EQ(config["n_layer"], 2);
  EXPECT_EQ(read_text(out / "tokenizer.json"), "{}");
  EXPECT_FALSE(fs::exists(out / "manifest.json"));
  EXPECT_THAT([&] { export_model(find_checkpoint(out), DType::kBF16, out); },
              ThrowsMessage<IoError>(HasSubstr("empty directory")));
  EXPECT_THROW(export_model(find_checkpoint(out), DType::kI64, directory_.path() / "i"), ConfigError);

  std::vector<float> large(24, 70000.0f);
  fs::remove(out / "model.safetensors");
  ShardedWriter writer(out, "model", {{"w.weight", StorageType::kF32, {6, 4}, 0, 0}}, WriteMode::kAtomic);
  writer.write("w.weight", TensorView(large.data(), DType::kF32, {6, 4}));
  writer.commit();
  EXPECT_THAT([&] { find_checkpoint(out); },
              ThrowsMessage<DataError>(HasSubstr("differ from what was exported")));
  fs::remove(out / kModelChecksums);
  EXPECT_THAT(
      [&] { export_model(find_checkpoint(out), DType::kF16, directory_.path() / "half"); },
      ThrowsMessage<DataError>(HasSubstr("24 weights of tensor 'w.weight' are beyond the range of fp16")));
  EXPECT_FALSE(fs::exists(directory_.path() / "half"));
}

TEST_F(Checkpoint, ExportLeavesNothingHalfDone) {
  save(3);
  const fs::path out = directory_.path() / "exported", killed = directory_.path() / ".exported.tmp-4000000",
                 living = directory_.path() / ".exported.tmp-4000001",
                 other = directory_.path() / ".exported.tmp-mine";
  for (const auto& path : {killed, living, other}) {
    fs::create_directory(path);
    write_text(path / "model.safetensors", "x");
  }
  const int lock = ::open(living.c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(::flock(lock, LOCK_SH), 0);
  const auto stop = [](std::uint64_t, std::uint64_t) { throw Interrupted("stopped"); };
  EXPECT_THROW(export_model(find_checkpoint(run()), DType::kF32, out, kDefaultShardBytes, stop), Interrupted);
  // Asked to stop after the last tensor, it has not begun to be there.
  const auto stop_late = [calls = 0](std::uint64_t, std::uint64_t) mutable {
    if (++calls == 2) throw Interrupted("stopped");
  };
  EXPECT_THROW(export_model(find_checkpoint(run()), DType::kF32, out, kDefaultShardBytes, stop_late),
               Interrupted);
  EXPECT_FALSE(fs::exists(out));
  EXPECT_FALSE(fs::exists(killed)) << "what a killed export left goes with the next one";
  EXPECT_TRUE(fs::exists(living));
  EXPECT_TRUE(fs::exists(other)) << "a name of somebody else's";
  int left = 0;
  for (const auto& item : fs::directory_iterator(directory_.path()))
    left += item.path().filename().string().starts_with(".exported.tmp-");
  EXPECT_EQ(left, 2);
  ::close(lock);
}

}  // namespace
}  // namespace stoa::ckpt

// Ctrl-C and SIGTERM, the first and the second. What hangs here reads a FIFO into which nobody writes.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "base/file.h"
#include "workplace.h"

namespace stoa::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Made at once, so that who opens it for reading waits.
class Fifo {
 public:
  explicit Fifo(fs::path path) : path_(std::move(path)) {
    EXPECT_EQ(::mkfifo(path_.c_str(), 0644), 0) << path_;
  }
  ~Fifo() {
    if (fd_ >= 0) ::close(fd_);
  }
  Fifo(const Fifo&) = delete;
  Fifo& operator=(const Fifo&) = delete;

  // True when somebody reads from it; from then on it waits for a first byte.
  bool read_from() {
    if (fd_ < 0) fd_ = ::open(path_.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    return fd_ >= 0;
  }

 private:
  const fs::path path_;
  int fd_ = -1;
};

class Interrupt : public Workplace {
 protected:
  // Nothing of that name, and nothing begun.
  void expect_no_trace_of(const std::string& name) const {
    for (const auto& item : fs::directory_iterator(directory()))
      EXPECT_THAT(item.path().filename().string(), Not(HasSubstr(name)));
  }
};

TEST_F(Interrupt, CommandsThatKeepNothingEndAtOnce) {
  for (const int number : {SIGINT, SIGTERM}) {
    const std::string name = number == SIGINT ? "SIGINT" : "SIGTERM";
    fs::copy(path("tok"), path(name));
    fs::remove(path(name + "/tokenizer.json"));
    Fifo fifo(path(name + "/tokenizer.json"));
    Program program({"data", "inspect", "data", "--tokenizer", name}, {directory(), {}});
    ASSERT_TRUE(program.wait_until([&] { return fifo.read_from(); }));
    program.signal(number);
    const Outcome outcome = program.wait();
    EXPECT_EQ(outcome.exit_code, 130) << outcome.text();
    EXPECT_THAT(outcome.err, HasSubstr(name + ": exiting"));
  }
}

TEST_F(Interrupt, AnInterruptedMeasurementLeavesNoFolder) {
  Program program({"bench", "calibrate", "--output", "here", "--largest", "256", "--passes", "1000"},
                  {directory(), {}});
  ASSERT_TRUE(
      program.wait_until([&] { return program.errors().find("short trainings") != std::string::npos; }));
  program.signal(SIGINT);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 130) << outcome.text();
  EXPECT_THAT(outcome.err, HasSubstr("SIGINT: exiting"));
  expect_no_trace_of("here");
}

TEST_F(Interrupt, AModelOfNgramsLeavesNothingThatItSorted) {
  std::string text;
  for (int i = 0; i < 400'000; ++i)
    text += "{\"text\":\"the boats " + std::to_string(i) + " of harbour " + std::to_string(7 * i % 1001) +
            " leave\"}\n";
  write_text(path("many.jsonl"), text);
  Program program({"data", "train-lm", "many.jsonl", "--raw", "--output", "m.arpa"}, {directory(), {}});
  ASSERT_TRUE(program.wait_until([&] { return fs::exists(path("m.arpa.sort")); }));
  program.signal(SIGINT);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 130) << outcome.text();
  EXPECT_THAT(outcome.err, HasSubstr("SIGINT: exiting, nothing is written"));
  expect_no_trace_of("m.arpa");
}

TEST_F(Interrupt, TheSecondSignalEndsAProcessThatHangs) {
  Fifo fifo(path("endless.txt"));
  Program program({"data", "prepare", "endless.txt", "--tokenizer", "tok", "--output", "other"},
                  {directory(), {}});
  ASSERT_TRUE(program.wait_until([&] { return fifo.read_from(); }));
  program.signal(SIGINT);
  ASSERT_TRUE(program.wait_until(
      [&] { return program.errors().find("SIGINT: exiting, nothing is written") != std::string::npos; }));
  EXPECT_TRUE(program.running());
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // longer than a launcher's echo
  program.signal(SIGTERM);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 130) << outcome.text();
  EXPECT_THAT(outcome.err, HasSubstr("SIGTERM again: exiting immediately"));
  EXPECT_FALSE(fs::exists(path("other.bin")));
  // What such an end leaves goes with the next start.
  stoa_ok({"data", "prepare", "text.jsonl", "--tokenizer", "tok", "--output", "other"});
  expect_no_trace_of(".tmp-");
}

TEST_F(Interrupt, WhatTakesTooLongIsEnded) {
  // Before the first step: the tokenizer is read and read.
  fs::copy(path("tok"), path("slow"));
  fs::remove(path("slow/tokenizer.json"));
  Fifo tokenizer(path("slow/tokenizer.json"));
  Program early(train("early", {"model.tokenizer=slow"}), {directory(), {}});
  ASSERT_TRUE(early.wait_until([&] { return tokenizer.read_from(); }));
  early.signal(SIGINT);
  // In training: the metrics of before are read and read.
  fs::create_directory(path("late"));
  Fifo metrics(path("late/metrics.jsonl"));
  Program late(train("late", {"trainer.stop_grace=3s"}), {directory(), {}});
  ASSERT_TRUE(late.wait_until([&] { return metrics.read_from(); }));
  late.signal(SIGTERM);
  Outcome outcome = early.wait();
  EXPECT_EQ(outcome.exit_code, 130) << outcome.text();
  EXPECT_THAT(outcome.err, HasSubstr("SIGINT: exiting before the first step (again: exit immediately)"));
  EXPECT_THAT(outcome.err, HasSubstr("SIGINT: exiting, not finished within 5s; nothing was trained"));
  expect_no_trace_of("early");
  outcome = late.wait();
  EXPECT_EQ(outcome.exit_code, 130) << outcome.text();
  EXPECT_THAT(
      outcome.err,
      HasSubstr("SIGTERM: saving and exiting after this step, for at most 3s (again: exit immediately)"));
  EXPECT_THAT(outcome.err,
              HasSubstr("SIGTERM: exiting, not finished within 3s; there is no complete checkpoint"));
}

TEST_F(Interrupt, TheFirstIsSaidAndAllRanksEndAlike) {
  for (const bool threads : {true, false}) {
    const std::string run = threads ? "threads" : "one";
    Arguments arguments = train(run, {"trainer.max_steps=100000", "trainer.num_threads=1"});
    if (threads) arguments = arguments + Arguments{"--ranks", "2"};
    Program program(arguments, {directory(), {}});
    ASSERT_TRUE(program.wait_until([&] { return program.errors().find("step 5/") != std::string::npos; }));
    program.signal(SIGTERM);
    const Outcome outcome = program.wait();
    EXPECT_EQ(outcome.exit_code, 130) << outcome.text();
    EXPECT_THAT(outcome.err, HasSubstr("SIGTERM: saving and exiting after this step"));
    EXPECT_THAT(outcome.err, HasSubstr("; a checkpoint was saved"));
    EXPECT_EQ(checkpoints(run).size(), 1u);
  }
}

}  // namespace
}  // namespace stoa::e2e

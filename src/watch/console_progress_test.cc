#include "watch/console_progress.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <limits>

#include "watch/test_run.h"

namespace stoa::watch {
namespace {

// A console that writes to a file, a clock that the test sets.
struct Fixture {
  std::FILE* file = std::tmpfile();
  Console console{Console::Level::kNormal, file};
  double now = 0;
  ConsoleProgress progress{console, [this] { return now; }};

  ~Fixture() { std::fclose(file); }

  std::string text() {
    std::string out(static_cast<std::size_t>(std::ftell(file)), '\0');
    std::rewind(file);
    out.resize(std::fread(out.data(), 1, out.size(), file));
    std::rewind(file);
    EXPECT_EQ(::ftruncate(fileno(file), 0), 0);
    return out;
  }
};

StepReport contract_step() {
  StepReport step = test::step_report(410);
  step.loss = 2.9131;
  step.gradient_norm = 0.8194;
  step.learning_rate = 5.9e-4;
  step.tokens_per_second = 41'230;
  step.mfu = 0.4603;
  step.peak_memory_bytes = 61'200'000'000;
  return step;
}

TEST(ConsoleProgress, StartAndResume) {
  Fixture f;
  f.progress.on_start(test::small_start());
  EXPECT_EQ(f.text(),
            "START shakespeare | 1 rank = TP1 PP1 DP1 | layers 6 | plan 433.0 MB/rank\n"
            "  12.3M parameters: 6 layers x 384, 6 heads, sequence 512, vocabulary 4096 | bf16 | cpu, "
            "avx512-bf16, 2 threads"
            " | 0.92 TFLOP/s\n");
  RunStart resumed = test::resumed_start(400);
  resumed.layout = "16 ranks = TP2 PP2 DP4 ZeRO-1 | layers 12+12";
  resumed.planned = {};
  resumed.planned[0] = 61'200'000'000;
  f.progress.on_start(resumed);
  const std::string text = f.text();
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "RESUMED step-400 (verified) | 16 ranks = TP2 PP2 DP4 ZeRO-1 | layers 12+12 | plan 61.2 GB/rank");
}

TEST(ConsoleProgress, LineOfTheContract) {
  Fixture f;
  f.progress.on_start(test::resumed_start(400));
  f.progress.on_validation({.step = 400,
                            .samples = 0,
                            .tokens = 0,
                            .loss = 2.9812,
                            .valid_tokens = 163'840,
                            .seconds = 4.2,
                            .best = true});
  f.text();
  f.now = 10 * 11520.0 / 4590;  // ten steps at a rate that leaves 3 h 12 for the other 4590
  f.progress.on_step(contract_step());
  EXPECT_EQ(f.text(),
            "step 410/5000  loss 2.913  val 2.981@400  gnorm 0.82  lr 5.9e-4 | 41.2k tok/s  46 % of peak | "
            "61.2 GB | left 3h12\n");
}

TEST(ConsoleProgress, OnlyLoggedStepsWithoutTerminal) {
  Fixture f;
  f.progress.on_start(test::small_start());
  f.text();
  for (int step = 1; step <= 25; ++step) {
    f.now += 0.2;
    f.progress.on_step(test::step_report(step));
  }
  const std::string text = f.text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  EXPECT_NE(text.find("step 20/5000"), std::string::npos);
  EXPECT_NE(text.find("left 16m36"), std::string::npos) << text;  // 4980 x 0.2 s
}

TEST(ConsoleProgress, TimeLeftNeverExceedsMaxTime) {
  Fixture f;
  RunStart start = test::small_start();
  start.planned_seconds = 300;
  f.progress.on_start(start);
  f.text();
  f.now = 60;
  StepReport step = test::step_report(10);
  f.progress.on_step(step);
  EXPECT_NE(f.text().find("left 4m00"), std::string::npos);
  start.last_step = 0;  // no known end: time alone
  f.progress.on_start(start);
  f.now = 120;
  f.text();
  f.progress.on_step(step);
  const std::string text = f.text();
  EXPECT_EQ(text.find("step 10  loss"), 0U) << text;
  EXPECT_NE(text.find("left 4m00"), std::string::npos) << text;
}

TEST(ConsoleProgress, SkippedStepIsToldEvenBetweenLoggedSteps) {
  Fixture f;
  f.progress.on_start(test::small_start());
  f.text();
  StepReport step = test::step_report(412);
  step.skipped = true;
  step.loss_scale = 32768;
  step.skipped_steps = 3;
  f.progress.on_step(step);
  EXPECT_EQ(f.text(), "step 412 skipped: gradients not finite, loss scale now 32768 (3 skipped so far)\n");
}

// Where each text has one label, or one vector.
TEST(ConsoleProgress, ValidationOfTextsCountsThem) {
  Fixture f;
  f.progress.on_start(test::small_start());
  f.text();
  f.progress.on_validation({.step = 100, .loss = 0.25, .valid_tokens = 300, .of_texts = true, .seconds = 2});
  EXPECT_EQ(f.text(), "step 100/5000  validation loss 0.2500  300 texts in 2s\n");
}

TEST(ConsoleProgress, ValidationSampleCheckpointFinish) {
  Fixture f;
  f.progress.on_start(test::small_start());
  f.text();
  f.progress.on_validation({.step = 100,
                            .samples = 1600,
                            .tokens = 819'200,
                            .loss = 3.14159,
                            .valid_tokens = 163'840,
                            .seconds = 4.2,
                            .best = true});
  EXPECT_EQ(f.text(), "step 100/5000  validation loss 3.1416 (best)  163.8k tokens in 4s\n");
  f.progress.on_sample({.step = 100, .prompt = "To be", .text = " or\nnot\x1b[2J"});
  EXPECT_EQ(f.text(), "step 100/5000  sample\n  | To be or\n  | not\\x1b[2J\n");
  f.progress.on_checkpoint(
      {.step = 100, .path = "runs/s/checkpoints/step-0000100", .snapshot_seconds = 0.123});
  EXPECT_EQ(f.text(), "step 100/5000  checkpoint runs/s/checkpoints/step-0000100 (paused 0.12 s)\n");
  RunFinish finish;
  finish.reason = StopReason::kTime;
  finish.detail = "trainer.max_time reached after step 120";
  finish.step = 120;
  finish.tokens = 983'040;
  finish.seconds = 301;
  finish.peak_memory_bytes = 612'000'000;
  f.progress.on_finish(finish);
  EXPECT_EQ(f.text(),
            "STOPPED step 120 | 983.0k tokens in 5m01 | val 3.1416@100 | peak 612.0 MB | trainer.max_time "
            "reached after step 120\n");
}

TEST(ConsoleProgress, LiveInATerminalAndWithinItsWidth) {
  int terminal = -1, program = -1;
  winsize size{};
  size.ws_col = 24;
  size.ws_row = 25;
  if (::openpty(&terminal, &program, nullptr, nullptr, &size) != 0)
    GTEST_SKIP() << "no pseudo-terminals here";
  std::FILE* file = ::fdopen(program, "w");
  {
    Console console(Console::Level::kNormal, file);
    ASSERT_TRUE(console.is_terminal());
    ConsoleProgress progress(console, [] { return 0.0; });
    StepReport step = test::step_report(7);
    progress.on_step(step);  // not logged, and shown all the same
    step.step = 8;
    progress.on_step(step);
    progress.on_finish({});
  }
  std::string text;
  pollfd ready{terminal, POLLIN, 0};
  while (text.find("DONE") == std::string::npos && ::poll(&ready, 1, 5000) == 1) {  // it comes in pieces
    char block[512];
    const ssize_t n = ::read(terminal, block, sizeof block);
    if (n <= 0) break;
    text.append(block, static_cast<std::size_t>(n));
  }
  EXPECT_EQ(text.rfind("\r\x1b[2Kstep 7  loss 7.466  gnor\r\x1b[2Kstep 8  loss 7.466  gnor\r\n", 0), 0U)
      << text;
  std::fclose(file);
  ::close(terminal);
}

TEST(ConsoleProgress, Rates) {
  EXPECT_EQ(format_rate(5.9e-4), "5.9e-4");
  EXPECT_EQ(format_rate(0), "0");
  EXPECT_EQ(format_rate(1), "1.0e0");
  EXPECT_EQ(format_rate(3e-12), "3.0e-12");
  EXPECT_EQ(format_rate(std::numeric_limits<double>::quiet_NaN()), "not finite");
}

}  // namespace
}  // namespace stoa::watch

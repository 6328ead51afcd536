// Events of an imaginary run, for the tests of what people see.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

#include "watch/run_observer.h"

namespace stoa::watch::test {

// Root may write anywhere: while this lives, the process acts as a user who may not.
class NotRoot {
 public:
  NotRoot() : root_(::geteuid() == 0) {
    if (root_ && ::seteuid(65534) != 0) std::abort();
  }
  ~NotRoot() {
    if (root_ && ::seteuid(0) != 0) std::abort();
  }
  NotRoot(const NotRoot&) = delete;
  NotRoot& operator=(const NotRoot&) = delete;

 private:
  const bool root_;
};

inline RunStart small_start() {
  RunStart start;
  start.name = "shakespeare";
  start.layout = "1 rank = TP1 PP1 DP1 | layers 6";
  start.machine = "cpu, avx512-bf16, 2 threads";
  start.model = "12.3M parameters: 6 layers x 384, 6 heads, sequence 512, vocabulary 4096";
  start.precision = "bf16";
  start.parameters = 12'300'000;
  start.tokens_per_sample = 512;
  start.last_step = 5000;
  start.gemm_tflops = 0.92;
  start.planned[static_cast<int>(MemoryCategory::kWeights)] = 24'600'000;
  start.planned[static_cast<int>(MemoryCategory::kOptimizer)] = 98'400'000;
  start.planned[static_cast<int>(MemoryCategory::kActivations)] = 310'000'000;
  start.schedule = "F0.0 B0.0 F0.1 B0.1 RD0 STEP";
  start.config_yaml = "name: shakespeare\ntrainer:\n  max_steps: 5000\n";
  start.planned_times.compute = 0.088;
  start.preset = "tiny";
  start.changes = {{"model.hidden_size", "256", "384"}};
  start.version = "0.1.0";
  start.commit = "2d7a3f5";
  start.tokenizer_fingerprint = "00ff00ff00ff00ff";
  start.data = {"1 x data/shakespeare"};
  start.command = {"stoa", "train", "shakespeare.yaml"};
  return start;
}

inline RunStart resumed_start(std::int64_t step) {
  RunStart start = small_start();
  start.first_step = step;
  start.resumed_from = "step-0000400";
  start.verified = true;
  return start;
}

inline StepReport step_report(std::int64_t step) {
  const auto s = static_cast<double>(step);
  StepReport report;
  report.step = step;
  report.samples = 16 * step;
  report.tokens = 8192 * step;
  report.loss = 2.0 + 6.0 * std::exp(-s / 80) + 0.05 * std::sin(s * 1.7);
  report.learning_rate = 6e-4 * std::min(1.0, s / 50);
  report.gradient_norm = 0.5 + 2.0 / (1 + s / 20);
  report.step_seconds = 0.2 + 0.01 * std::sin(s);
  report.tokens_per_second = 8192 / report.step_seconds;
  report.model_tflops = 0.42;
  report.mfu = 0.42 / 0.92;
  report.peak_memory_bytes = 612'000'000;
  report.logged = step % 10 == 0;
  report.compute_seconds = 0.19;
  report.data_seconds = 0.006;
  report.save_seconds = 0.004;
  return report;
}

}  // namespace stoa::watch::test

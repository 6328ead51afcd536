// Runs a tiny model over the ranks of a layout, as threads, and brings back what must not depend on the
// layout: losses, norms, gradients and weights under their canonical names.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/nccl/nccl_api.h"
#include "comm/processes/process_world.h"
#include "run/training_rank.h"

namespace stoa::layouts {

// What is trained. The same for every layout of a comparison.
struct TestRun {
  model::ModelConfig config;
  std::int64_t rows = 8;  // of the global batch
  std::int64_t micro_batch = 1;
  std::int64_t steps = 20;
  double max_norm = 0.5;  // some steps are clipped
  optim::OptimizerKind optimizer = optim::OptimizerKind::kAdamW;
  double rate = 2e-3;
  double epsilon = 1e-3;  // small gradients must not become signs
  DType type = DType::kF64;
  bool packed = false;
  bool full_rows = false;  // kind bert: every token is real and to be predicted, as memory is planned for
  int masked_rows = 0;     // so many first rows have no valid token
  std::optional<run::TeacherOptions> teacher;  // with its initial weights
  // The same by predictions that were kept of a teacher, which are random.
  std::optional<run::TrainingOptions::Kept> kept = {};
  std::int64_t evaluation_rows = 0;  // 0: as many as a step
  std::int64_t sample_context = 0;
  bool trace = false;          // of the last step
  std::filesystem::path dump;  // the tensors of a step are written there; empty: not
  std::int64_t dump_step = 0;
  std::function<void(int rank, run::TrainingRank&)> before;  // the first step: spoils something
  // The global batch of a step, `rows` rows; none: random words.
  std::function<data::Batch(std::int64_t step)> batches;
  // Called with a rank's rows before each step: gives their tokens weights.
  std::function<void(int rank, data::Batch&)> weigh;
  std::function<infer::Machine()> machine;  // of every rank; none: the reference on the host
  // Each rank's machine is a GPU of its own, and this joins them; none: the ranks share a device.
  std::function<comm::NcclApi()> nccl;
};

// 4 layers, hidden 16, 4 heads in 2 groups, sequences of 12, 61 words; dropout everywhere.
TestRun tiny_run();
// The same as T5 1.1: two encoder and two decoder layers, targets of 8.
TestRun tiny_pairs_run();

constexpr double kRounding = 1e-9;  // of fp64 sums in another order

using Tensors = std::map<std::string, std::vector<double>>;  // by canonical name

struct RunResult {
  std::vector<double> losses, norms;  // of every step
  double evaluation = 0;              // loss after the last step
  // Of a distillation: the sum over a step's tokens, the last of the evaluation.
  std::vector<double> divergences;
  Tensors gradients;                // of the first step
  Tensors weights;                  // after the last step
  Tensors histories;                // of delayed scaling, after the last step
  std::vector<std::string> traces;  // by rank
  // What should never be: replicas that differ, ranks that report different scalars, memory that was declared
  // and not used, or used and not planned.
  std::vector<std::string> faults;
};

// The global batch of a step where TestRun::batches is none.
data::Batch batch_of(const TestRun& run, std::int64_t step);

// One thread per rank, communicators that check each other. Errors of any rank are thrown.
RunResult run_layout(const TestRun& run, const run::Layout& layout);

// This process's part of it, as a rank of `world`: of tensors what the rank holds, NaN elsewhere.
RunResult run_process(const TestRun& run, const run::Layout& layout, comm::ProcessWorld& world);

// Where two runs differ by more than `tolerance` relative to the largest element of the tensor (0: in any
// bit); empty when nowhere. `norms`: compare these too.
std::vector<std::string> differences(const RunResult& reference, const RunResult& other, double tolerance);

// "tp 1, cp 1, ep 1, dp 2, pp 4"; experts over cp x dp ranks.
run::Layout layout_of(int tensor, int context, int expert, int data, int pipeline);
inline run::Layout tensor_parallel(int ranks, bool sequence, int data = 1, int pipeline = 1) {
  run::Layout layout = layout_of(ranks, 1, 1, data, pipeline);
  layout.sequence_parallel = sequence;
  return layout;
}
inline run::Layout data_parallel(int data) { return layout_of(1, 1, 1, data, 1); }
inline run::Layout pipeline(int ranks, std::string schedule = "1f1b", int chunks = 0) {
  run::Layout layout = layout_of(1, 1, 1, 1, ranks);
  layout.schedule = std::move(schedule);
  layout.chunks = chunks;
  return layout;
}

}  // namespace stoa::layouts

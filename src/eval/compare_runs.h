// Are two runs the same run? Curves of metrics.jsonl, weights and optimizer state of the newest checkpoint
// that both have.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace stoa::eval {

namespace fs = std::filesystem;

struct CompareOptions {
  // 0: every value equal to the last bit. Otherwise |a - b| <= tolerance x scale, where the scale of a metric
  // is the larger of |a| and |b|, and that of an element the larger of these and the root mean square of A's
  // tensors of its kind (weights, masters, first moments …): what is nothing but rounding, as the gradient of
  // a key's bias, is small compared with that.
  double tolerance = 0;
};

// One metric over all steps that both runs logged.
struct CurveDifference {
  std::string metric;  // "loss", "grad_norm", "val_loss" …
  std::int64_t points = 0, different = 0;
  std::optional<std::int64_t> first_step;  // the first step beyond the tolerance
  std::int64_t worst_step = 0;
  double a = 0, b = 0;  // at worst_step
  double relative = 0;  // |a - b| / scale there
};

// One tensor that is not equal.
struct TensorDifference {
  std::string name;                          // "model/transformer.wte.weight", "state/adam.m/…"
  std::int64_t elements = 0, different = 0;  // beyond the tolerance
  std::vector<std::int64_t> index;           // of the worst element
  double a = 0, b = 0, relative = 0;
  std::string problem;  // instead of values: "only in A", "F32 [4, 2] and BF16 [4, 2]"
};

struct Comparison {
  double tolerance = 0;
  std::vector<CurveDifference> curves;
  std::int64_t steps = 0, only_a = 0, only_b = 0;  // logged steps: in both, in one
  std::optional<std::int64_t> checkpoint_step;     // none: no common checkpoint
  std::int64_t tensors = 0, equal_tensors = 0;     // equal: to the last bit
  std::vector<TensorDifference> different;         // the worst first; beyond the tolerance
  std::vector<std::string> counters;               // of the training state, that differ: "samples: 40 and 80"
  std::vector<std::string> notes;                  // what could not be compared
  bool same = false;
};

// A, B: run directories; checkpoints and Hugging Face models too (tensors only). IoError, DataError: not
// found or damaged, or nothing in common to compare.
Comparison compare_runs(const fs::path& a, const fs::path& b, const CompareOptions& options = {});

std::string to_text(const Comparison& comparison);
std::string to_json(const Comparison& comparison);

}  // namespace stoa::eval

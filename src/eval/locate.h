// Where do two runs part? Compares the tensor dumps of both (ckpt/tensor_dump.h) in the order in which a step
// makes its tensors, and names the first that differs by more than rounding explains.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ckpt/tensor_dump.h"
#include "eval/tolerance.h"

namespace stoa::eval {

namespace fs = std::filesystem;

struct LocateOptions {
  // Of the norm and of each element, relative; none: derived from types, depth and norms (tolerance.h);
  // 0: equal to the last bit.
  std::optional<double> tolerance;
};

// Where A and B hold the same part of a tensor, and what was found there.
struct Location {
  std::int64_t step = 0;
  ckpt::DumpPhase phase = ckpt::DumpPhase::kForward;
  std::int64_t microbatch = -1, microbatch_b = -1;  // of A's rank and of B's
  std::int64_t layer = 0;
  std::string tensor;
  int rank_a = 0, rank_b = 0;
  std::int64_t elements = 0, beyond = 0;  // compared; further apart than allowed
  double distance = 0;                    // |A - B| / |A|, Euclidean norms
  Allowed allowed;
  std::vector<std::int64_t> index;  // of the worst element, in the whole tensor
  double a = 0, b = 0;              // there
  double share = 0;                 // of what is allowed: above 1 is beyond
  std::string problem;              // instead of values: "[8, 4] and [16, 4]"
};

struct LocateResult {
  std::vector<std::int64_t> steps;    // in both dumps
  std::int64_t boxes = 0, equal = 0;  // compared parts of tensors; of equal values
  double bytes = 0;
  std::optional<Location> first_bit;        // the first that is not equal to the last bit
  std::optional<Location> first;            // the first beyond the tolerance
  std::optional<Location> nearest;          // of those within: nearest to its limit
  std::vector<std::string> only_a, only_b;  // names of tensors
  std::vector<std::string> notes;
  std::string compute_a, compute_b;
  std::int64_t length = 0;  // tokens per row, when told
  bool same() const { return !first; }
};

// IoError, DataError: see DumpReader; nothing in common to compare.
LocateResult locate(ckpt::DumpReader& a, ckpt::DumpReader& b, const LocateOptions& options = {});

std::string to_text(const LocateResult& result);
std::string to_json(const LocateResult& result);

}  // namespace stoa::eval

// Finds where two runs diverge: compares their tensor dumps (ckpt/tensor_dump.h) in the order in which a step
// computes its tensors, and names the first that differs by more than rounding explains.
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
  // Relative tolerance for the norm and for each element. None: derived from types, depth and norms
  // (tolerance.h); 0: results must be bitwise equal.
  std::optional<double> tolerance;
};

// Where A and B hold the same part of a tensor, and the result of comparing it.
struct Location {
  std::int64_t step = 0;
  ckpt::DumpPhase phase = ckpt::DumpPhase::kForward;
  std::int64_t microbatch = -1, microbatch_b = -1;  // of A's rank and of B's
  std::int64_t layer = 0;
  std::string tensor;
  int rank_a = 0, rank_b = 0;
  std::int64_t elements = 0, beyond = 0;  // number compared; number beyond the tolerance
  double distance = 0;                    // |A - B| / |A|, Euclidean norms
  Allowed allowed;
  std::vector<std::int64_t> index;  // of the worst element, in the whole tensor
  double a = 0, b = 0;              // its values
  double share = 0;                 // difference / tolerance at the worst element: above 1 is beyond
  std::string problem;              // instead of values: "[8, 4] and [16, 4]"
};

struct LocateResult {
  std::vector<std::int64_t> steps;    // in both dumps
  std::int64_t boxes = 0, equal = 0;  // compared parts of tensors; of equal values
  double bytes = 0;
  std::optional<Location> first_bit;        // the first that is not equal to the last bit
  std::optional<Location> first;            // the first beyond the tolerance
  std::optional<Location> nearest;          // within the tolerance, but closest to it
  std::vector<std::string> only_a, only_b;  // names of tensors
  std::vector<std::string> notes;
  std::string compute_a, compute_b;
  std::int64_t length = 0;  // tokens per row, where the dumps record it
  bool same() const { return !first; }
};

// IoError, DataError: see DumpReader; nothing in common to compare.
LocateResult locate(ckpt::DumpReader& a, ckpt::DumpReader& b, const LocateOptions& options = {});

std::string to_text(const LocateResult& result);
std::string to_json(const LocateResult& result);

}  // namespace stoa::eval

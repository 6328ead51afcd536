// Rotary tables that follow the length of the sequence a pass belongs to (nn/rope_length.h): short and long
// factors of longrope, the stretched base of dynamic.
#pragma once

#include <vector>

#include "infer/constants.h"
#include "model/gpt.h"

namespace stoa::infer {

class LengthTables {
 public:
  explicit LengthTables(const model::ModelConfig& config);

  // False: every length is read by the same tables, and nothing below does anything.
  bool any() const { return any_; }
  // Whether sequences of both lengths are read by the same tables.
  bool same(std::int64_t a, std::int64_t b) const;
  // Whether keys that were turned for a sequence of `before` positions must be made again for one of `now`:
  // where longrope changes its factors, in either direction, as transformers does for Phi-3; and where the
  // tables are no longer stretched (dynamic).
  bool remakes_keys(std::int64_t before, std::int64_t now) const;
  // Rows [first, first + count) as a sequence of `length` is read.
  void write(Machine& machine, Arena& arena, const ChunkConstants& constants, std::int64_t first,
             std::int64_t count, std::int64_t length) const;

 private:
  std::vector<nn::RopeOptions> ropes_;  // in the order of the chunk's constants
  bool any_ = false;
};

// Longest sequence that a model reads: its positions; those that rope scaling dynamic stretches them to.
std::int64_t usable_positions(const model::ModelConfig& config);

}  // namespace stoa::infer

// How close decoding comes to the limit that reading memory sets.
#pragma once

#include <optional>

#include "infer/engine/paged_decoder.h"
#include "ops/cpu/instruction_set.h"

namespace stoa::cli {

// A gigabyte in host memory, more than caches hold.
class ReadMemory {
 public:
  ReadMemory(infer::Machine& machine, ops::cpu::InstructionSet isa);
  // Reads all of it, on all threads; afterwards nothing else is in a cache.
  double bytes_per_second() const;
  double bytes() const { return static_cast<double>(memory_.bytes()); }

 private:
  infer::Machine& machine_;
  const ops::cpu::InstructionSet isa_;
  const Buffer memory_;
};

struct MemoryShare {
  double token_bytes = 0;  // that a token of one text reads: weights, and keys and values
  // Medians over rounds: bytes per second, and the time in which a token's bytes are read from elsewhere in
  // memory / the time of the token.
  double read_rate = 0, share = 0;
  double least = 0, most = 0;  // quartiles of the share
};

// Reads memory and draws a token of one text in turns, `rounds` times: a machine that others use too does not
// hold its speed for long. None: the model is not in host memory. The model must not be in use.
std::optional<MemoryShare> measure_memory_share(infer::PagedDecoder& decoder, ops::cpu::InstructionSet isa,
                                                int rounds);

}  // namespace stoa::cli

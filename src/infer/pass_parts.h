// What passes of a model run with: those of a model loaded for use, or of a training rank.
#pragma once

#include "infer/machine.h"
#include "model/chunk.h"

namespace stoa::infer {

class AdapterSet;
class ChunkConstants;

// All references live as long as passes are made.
struct PassParts {
  Machine& machine;
  ops::OpContext& ops;
  const parallel::ParallelContext& parallel;
  const model::Chunk& chunk;
  nn::ParamAccess& parameters;
  // Rotary tables of the chunk that depend on the sequence length and are updated; null: they stay as they
  // are (a training rank needs them for the length of its samples).
  const ChunkConstants* constants = nullptr;
  AdapterSet* adapters = nullptr;  // null: none can be chosen
};

}  // namespace stoa::infer

// The arguments of Megatron-LM that describe a model of Stoa, as its checkpoints hold them.
#pragma once

#include "ckpt/torch/pickle_writer.h"
#include "model/model_spec.h"

namespace stoa::foreign {

// What a training has done, which Megatron-LM keeps among the arguments.
struct MegatronCounters {
  std::int64_t iteration = 0, updates = 0, samples = 0;
};

// Writes an argparse.Namespace. ConfigError: Megatron-LM has no such model; the message says what would be
// lost.
void write_megatron_args(ckpt::torch::PickleWriter& pickle, const model::ModelSpec& spec,
                         const MegatronCounters& counters);

}  // namespace stoa::foreign

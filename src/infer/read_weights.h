// Weights from files into the memory of a rank, on whatever device.
#pragma once

#include <functional>

#include "infer/adapter_files.h"
#include "infer/machine.h"
#include "infer/model_files.h"

namespace stoa::infer {

// `memory(id)`: the rank's part of a parameter on the machine's device. The host holds few parameters at a
// time. Complete when this returns. An adapter is read into its own parameters and those that it replaces.
void read_weights(Machine& machine, const ModelFiles& files, const HeldParameters& rank,
                  const std::function<TensorView(nn::ParamId)>& memory);
void read_weights(Machine& machine, const AdapterFiles& files, const HeldParameters& rank,
                  const std::function<TensorView(nn::ParamId)>& memory);
// Fills the magnitudes of a fresh adapter (nn/low_rank.h) with the norms of the rows of the matrices in
// `files`.
void read_magnitudes(Machine& machine, const ModelFiles& files, const HeldParameters& rank,
                     const std::function<TensorView(nn::ParamId)>& memory);

}  // namespace stoa::infer

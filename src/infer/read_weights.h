// Weights from files into the memory of a rank, on whatever device.
#pragma once

#include <functional>

#include "infer/adapter_files.h"
#include "infer/machine.h"
#include "infer/model_files.h"
#include "model/adapter_plan.h"

namespace stoa::infer {

// `memory(id)`: the rank's part of a parameter on the machine's device. The host holds few parameters at a
// time. Complete when this returns. An adapter is read into its own parameters and those that it replaces.
void read_weights(Machine& machine, const ModelFiles& files, const HeldParameters& rank,
                  const std::function<TensorView(nn::ParamId)>& memory);
void read_weights(Machine& machine, const AdapterFiles& files, const HeldParameters& rank,
                  const std::function<TensorView(nn::ParamId)>& memory);
// Fills what is_stored() of the parameters `specs`.
void read_stored_weights(Machine& machine, const ModelFiles& files, const std::vector<nn::ParamSpec>& specs,
                         const std::function<TensorView(nn::ParamId)>& memory);
// Fills what of a fresh adapter begins as the model is: magnitudes (nn/low_rank.h) with the norms of the rows
// of the matrices in `files`, rows of tokens (nn/token_rows.h) with those of the embedding and the head.
void read_start_values(Machine& machine, const ModelFiles& files, const model::AdapterPlan& plan,
                       const HeldParameters& rank, const std::function<TensorView(nn::ParamId)>& memory);

}  // namespace stoa::infer

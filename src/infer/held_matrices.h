// Quantised matrices of a GGUF file that a backend holds as they are, in place of a parameter's memory.
#pragma once

#include <filesystem>
#include <vector>

#include "model/huggingface/family.h"
#include "ops/quantised_memory.h"
#include "optim/parameter_store.h"

namespace stoa::infer {

// Gives `memory` every matrix of `parameters` whose rows lie quantised in the file; by parameter: whether it was
// taken. The others' memory is to be filled as always. `family`: the architecture of the file.
std::vector<bool> hold_matrices(ops::QuantisedMemory& memory, const std::filesystem::path& file,
                                const model::ModelSpec& model, const model::huggingface::Family& family,
                                optim::ParameterStore& parameters);

}  // namespace stoa::infer

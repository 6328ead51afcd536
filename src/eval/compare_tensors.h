// The tensors of two directories of safetensors, element by element.
#pragma once

#include <string_view>

#include "eval/compare_runs.h"

namespace stoa::ckpt {
class TensorDirectory;
}

namespace stoa::eval {

// Adds to tensors, equal_tensors, different, with names under `prefix` ("model/"). True: equal within the
// tolerance.
bool compare_tensors(const ckpt::TensorDirectory& a, const ckpt::TensorDirectory& b, std::string_view prefix,
                     double tolerance, Comparison& out);

}  // namespace stoa::eval

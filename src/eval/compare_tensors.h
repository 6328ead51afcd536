// The tensors of two directories, element by element.
#pragma once

#include <string_view>

#include "eval/compare_runs.h"

namespace stoa::ckpt {
class TensorSource;
}

namespace stoa::eval {

// Adds to tensors, equal_tensors, different, with names under `prefix` ("model/"). True: equal within the
// tolerance.
bool compare_tensors(const ckpt::TensorSource& a, const ckpt::TensorSource& b, std::string_view prefix,
                     double tolerance, Comparison& out);

}  // namespace stoa::eval

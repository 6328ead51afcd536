// The machine's own matrix-product rate, measured in a moment: what "share of peak" in the progress line divides by.
// `stoa bench gemm` measures with more care.
#pragma once

#include "run/machine.h"

namespace stoa::run {

// Best of a few products [1024, 768] x [3072, 768]^T in `type`, in TFLOP/s; 0 on a meta machine and on the slow
// backends (reference, check).
double measure_gemm_tflops(Machine& machine, DType type);

}  // namespace stoa::run

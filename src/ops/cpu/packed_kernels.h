// Kernels that unpack rows of packed matrices (quant/packed_rows.h). The instruction set changes no bit.
#pragma once

#include "ops/cpu/kernel_table.h"
#include "quant/packed_rows.h"

namespace stoa::ops::cpu {

STOA_FOR_EACH_WIDTH(const quant::RowKernels&, packed_kernels)

}  // namespace stoa::ops::cpu

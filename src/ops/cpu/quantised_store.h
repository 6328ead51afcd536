// Finished sums of products with quantised matrices, to where they belong.
#pragma once

#include "ops/cpu/gemm_pack.h"
#include "ops/cpu/quantised_units.h"

namespace stoa::ops::cpu::STOA_ISA {

// y[t] are the sums of rows [row, row + kLanes) of the part and of token `token` + t.
STOA_INLINE void store_sums(const WeightsJob& job, std::int64_t row, std::int64_t token, int tokens,
                            const F* y) {
  const int rows = static_cast<int>(least(kLanes, job.rows - row)),
            count = static_cast<int>(least(tokens, job.tokens - token));
  if (rows <= 0) return;
  F bias{};
  if (job.bias) bias = load_first(job.bias + row, rows);
  dispatch(
      job.out_element, [&]<Element E>() __attribute__((always_inline)) {
        for (int t = 0; t < count; ++t)
          store_first_as<E>(job.out, (token + t) * job.out_stride + row, job.bias ? y[t] + bias : y[t], rows);
      });
}

}  // namespace stoa::ops::cpu::STOA_ISA

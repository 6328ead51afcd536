// A matrix of quantised rows, packed for cpu/quantised_kernels.h.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/worker_pool.h"
#include "ops/cpu/quantised_kernels.h"
#include "ops/quantised_memory.h"

namespace stoa::ops::cpu {

class QuantisedMatrix {
 public:
  // None: rows of formats that are not packed, or of several formats within 16 rows, or whose number is not a
  // multiple of 32.
  static std::optional<QuantisedMatrix> pack(std::int64_t columns, std::span<const QuantisedRow> rows);

  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  std::size_t bytes() const;

  // out[t, n] = sum over k of x[t, k] w[n, k] for floats x [count, columns] and out [count, rows]. The bits of a
  // row depend neither on the other rows nor on the number of workers.
  void product(const float* x, std::int64_t count, float* out, const QuantisedKernels& kernels,
               WorkerPool& pool) const;
  // Row `row` as floats.
  void decode(std::int64_t row, float* out) const;

 private:
  // Panels of consecutive rows of one format.
  struct Section {
    const quant::BlockFormat* format = nullptr;
    PackedLayout layout;
    std::int64_t first_panel = 0;
    std::vector<std::uint8_t> panels;
  };

  std::int64_t rows_ = 0, columns_ = 0;
  std::vector<Section> sections_;
};

}  // namespace stoa::ops::cpu

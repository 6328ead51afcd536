// What a backend offers that multiplies by quantised matrices as they are: their numbers stay packed in memory.
#pragma once

#include <cstddef>
#include <span>

#include "quant/block_format.h"
#include "tensor/tensor_view.h"

namespace stoa::ops {

// A row of a matrix as a file holds it.
struct QuantisedRow {
  const quant::BlockFormat* format = nullptr;
  const std::byte* bytes = nullptr;
};

class QuantisedMemory {
 public:
  virtual ~QuantisedMemory() = default;
  // From now on `matrix` ([rows, columns]) stands for these rows wherever it is an operand of LinearForward or the
  // table of EmbeddingForward; its own memory is not read. Copies what it needs. False: these formats or shapes
  // are not held, nothing changed.
  virtual bool hold(const TensorView& matrix, std::span<const QuantisedRow> rows) = 0;
  virtual std::size_t held_bytes() const = 0;
};

}  // namespace stoa::ops

// Matrices [rows, columns] that memory holds in a packed form, not as numbers of a type, and that are
// unpacked as they are multiplied by: the frozen base of QLoRA (2305.14314). Each form is a PackedFormat in a
// file of its own. A rank may hold parts of several matrices, one below the other; the numbers that they
// stand for do not depend on how matrices are split.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/half.h"

namespace stoa::quant {

// kInt8: a code for every number, a scale for every row: its largest magnitude / 127 (packed_int8.cc).
// kNf4: as quant/nf4.h, blocks along the rows, their magnitudes doubly quantised (packed_nf4.cc).
enum class PackedKind : std::uint8_t { kNone, kInt8, kNf4 };

struct PackedShape {
  PackedKind kind = PackedKind::kNone;
  std::int64_t rows = 0, columns = 0;
  // What all rows of a matrix share is held in groups, however many of its rows there are: those of all
  // matrices that have a part here.
  std::int64_t groups = 0;

  std::size_t bytes() const;
};

// Rows and columns of what is held.
struct PackedRange {
  std::int64_t row = 0, rows = 0, column = 0, columns = 0;
};

// A part of a whole matrix, and where it goes. Columns begin and end with whole blocks of the format.
struct PackedPart {
  std::int64_t row = 0, rows = 0, column = 0, columns = 0;  // of the whole matrix
  std::int64_t memory_row = 0;                              // where its rows begin
  std::int64_t memory_group = 0;                            // where the groups of its matrix begin
};

// A whole matrix, packed before it is cut into parts.
class PackedMatrix {
 public:
  virtual ~PackedMatrix() = default;
  // Writes a part to `memory` of `shape`, whose columns are the part's.
  virtual void copy(const PackedPart& part, const PackedShape& shape, std::byte* memory) const = 0;
};

struct RowTarget;   // packed_formats.h
struct RowKernels;  // packed_rows.h

struct PackedFormat {
  PackedKind kind;
  std::string_view name;
  std::int64_t block;  // numbers of a row that are packed together: rows are cut between blocks only
  std::int64_t (*groups)(std::int64_t rows, std::int64_t columns);  // of one matrix
  std::size_t (*bytes)(const PackedShape& shape);                   // a multiple of 64
  // Of row-major numbers; columns are a multiple of `block`.
  std::unique_ptr<PackedMatrix> (*pack)(std::span<const float> numbers, std::int64_t columns);
  void (*unpack)(const PackedShape& shape, const std::byte* memory, const PackedRange& range,
                 const RowTarget& to, const RowKernels& kernels);
};

// `kind`: not kNone.
const PackedFormat& packed_format(PackedKind kind);
// The shape of one whole matrix.
PackedShape whole_shape(PackedKind kind, std::int64_t rows, std::int64_t columns);

// Writes the numbers of a range, each computed in fp32 and rounded once: [i, j] to out + i * stride + j. T:
// float, bf16, f16. unpack_rows.h does so with the kernels of a processor.
template <class T>
void unpack(const PackedShape& shape, const std::byte* memory, const PackedRange& range, T* out,
            std::int64_t stride);

// What `numbers` become when they are packed and unpacked.
void pass_through(PackedKind kind, std::span<float> numbers, std::int64_t columns);

}  // namespace stoa::quant

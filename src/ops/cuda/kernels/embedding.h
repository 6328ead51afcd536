// Embedding lookup and its gradient (ops/embedding.h).
#pragma once

#include <cstddef>

#include "ops/cuda/kernels/element.h"

namespace stoa::ops::cuda {

struct EmbeddingArgs {
  std::int64_t tokens = 0, columns = 0;
  const std::int32_t* ids = nullptr;
  const std::int32_t* positions = nullptr;
  // The table holds ids from first_id of a vocabulary of so many; rows of other ids are zero.
  std::int64_t first_id = 0, table_rows = 0, vocabulary = 0, position_rows = 0;
  Element table_type = Element::kF32, y_type = Element::kF32;
  const void* table = nullptr;
  const void* position_table = nullptr;  // or null
  void* y = nullptr;
  DropoutArgs dropout;
  bool wide = false;
};
void launch_embedding_forward(const EmbeddingArgs& args, void* stream);

// Tokens in the order of their ids, those of one id in token order: a stable sort by 4-bit digits, each digit
// by two kernels, which count and place.
struct SortArgs {
  const std::int32_t* ids = nullptr;
  std::int64_t count = 0;
  std::int64_t limit = 0;           // ids are below it
  std::int32_t* order = nullptr;    // [count] out: token indices
  std::int32_t* keys = nullptr;     // [count] out: their ids
  std::int32_t* scratch = nullptr;  // [2 * count]
  std::int32_t* counts = nullptr;   // [sort_counts(count)]
};
std::int64_t sort_counts(std::int64_t count);
void launch_sort_tokens(const SortArgs& args, void* stream);

// table[id] += the rows of dy whose token has that id, in token order.
struct EmbeddingGradientArgs {
  const std::int32_t* order = nullptr;
  const std::int32_t* keys = nullptr;
  std::int64_t count = 0, columns = 0, first_id = 0, table_rows = 0;
  Element type = Element::kF32;
  const void* dy = nullptr;
  float* table = nullptr;
  DropoutArgs dropout;
  bool wide = false;
};
void launch_embedding_backward(const EmbeddingGradientArgs& args, void* stream);

}  // namespace stoa::ops::cuda

// Kernels of the embeddings (ops/embedding.h).
#pragma once

#include "ops/cpu/kernel_table.h"
#include "ops/cpu/matrix_args.h"

namespace stoa::ops::cpu {

struct EmbeddingArgs {
  const std::int32_t* tokens = nullptr;
  const std::int32_t* positions = nullptr;
  Rows table, position_table;          // of the weights; backward: their main gradients, or absent
  Rows y;                              // backward: dy
  std::int64_t first_id = 0, ids = 0;  // the table's; rows of other tokens are zero, and add nothing to it
  DropoutArgs dropout;
};

struct EmbeddingKernels {
  void (*forward)(const EmbeddingArgs& args, std::int64_t begin, std::int64_t end);  // tokens
  // All tokens in order, on columns [begin, end).
  void (*backward)(const EmbeddingArgs& args, std::int64_t tokens, std::int64_t begin, std::int64_t end);
};

STOA_FOR_EACH_WIDTH(const EmbeddingKernels&, embedding_kernels)

}  // namespace stoa::ops::cpu

// The block that options ask for.
#pragma once

#include "nn/transformer_block.h"

namespace stoa::nn {

// A branch_norm_block, parallel_block or transformer_block. InternalError: parallel branches with norms after
// them.
std::unique_ptr<Block> make_block(const TransformerBlockOptions& options);

}  // namespace stoa::nn

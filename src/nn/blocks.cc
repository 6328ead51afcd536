#include "nn/blocks.h"

#include "nn/branch_norm_block.h"
#include "nn/parallel_block.h"

namespace stoa::nn {

std::unique_ptr<Block> make_block(const TransformerBlockOptions& options) {
  const bool after = options.norm_placement != NormPlacement::kBefore;
  require<InternalError>(!options.parallel || !after, "'{}': parallel branches are normalised before alone",
                         options.name);
  if (options.parallel) return std::make_unique<ParallelBlock>(options);
  if (after) return std::make_unique<BranchNormBlock>(options);
  return std::make_unique<TransformerBlock>(options);
}

}  // namespace stoa::nn

// Sum of squares of all gradients, over all ranks: sums of blocks of 65,536 elements of the canonical
// tensors, added in the order of names and blocks, each parameter once. The result does not depend on how
// tensors are split: blocks cut by data-parallel shards are gathered first; for those cut by tensor
// parallelism the sums of the parts are added.
#pragma once

#include <string>
#include <vector>

#include "ops/optimizer.h"
#include "optim/gradient_store.h"

namespace stoa::optim {

// A trained canonical tensor of the whole model, whichever rank holds it.
struct CanonicalTensor {
  std::string name;
  std::int64_t elements = 0;
};

class GlobalNorm {
 public:
  // `tensors`: all of the model; those of this rank when empty (the model is not cut into stages).
  GlobalNorm(Arena& arena, const ParameterStore& parameters, GradientStore& gradients,
             std::vector<CanonicalTensor> tensors);

  // state[kSquares] = the sum, state[kLossSum] = the sum of all ranks' token losses (those of one tensor
  // rank). The same on all ranks, so that they agree on what follows from it.
  void run(ops::OpContext& ops, TensorView state);

 private:
  // Elements of a bucket that belong to one canonical tensor.
  struct Part {
    int bucket = 0;
    FlatRange range;
    ops::CanonicalCut cut;
    std::int64_t sums = 0;  // block sum of its first element
  };
  // A block that is split among the shards of several ranks.
  struct SharedBlock {
    Part part;                      // whole
    int owner = 0;                  // of the group
    std::vector<FlatRange> pieces;  // by group rank
  };
  void add_piece(const nn::ParamSpec& spec, int parameter, const ShardPiece& piece,
                 std::int64_t tensor_begin);
  void add_part(const Part& part, std::int64_t tensor_begin);
  // Whether a shard boundary is within one of the blocks of `part`.
  bool is_cut(const Part& part) const;
  void sum(ops::OpContext& ops, const Part& part, TensorView x);
  void sum_shared_blocks(ops::OpContext& ops);

  Arena* arena_;
  GradientStore& gradients_;
  const BucketLayout& layout_;
  const DataParallel parallel_;
  struct Tensor {
    std::int64_t begin, blocks;
  };
  std::vector<Tensor> tensors_;  // in the order of names
  std::vector<Part> parts_;
  std::vector<SharedBlock> shared_;
  std::vector<bool> cut_;  // by bucket: whether any shard boundary cuts a block
  Arena::Id sums_;         // fp64: all block sums, then the loss
  std::int64_t blocks_ = 0;
};

}  // namespace stoa::optim

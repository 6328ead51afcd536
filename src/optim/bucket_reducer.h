// Sums buckets of gradients over the ranks that hold the same parameters, with one or two in flight.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "device/arena.h"
#include "ops/elementwise.h"
#include "ops/op_context.h"
#include "optim/bucket_layout.h"
#include "optim/data_parallel.h"

namespace stoa::optim {

// Every rank starts the same buckets in the same order. Sums are in group-rank order, so that neither the
// size of buckets nor the time of their reduction affects a bit.
class BucketReducer {
 public:
  BucketReducer(Arena& arena, const BucketLayout& layout, const DataParallel& parallel, DType type);

  // `whole`: the bucket [elements], complete on this rank. Must not be accessed until complete().
  void start(int bucket, TensorView whole, ops::OpContext& ops);
  bool under_way(int bucket) const;
  // Waits; `whole` then holds the sum: all of it, or with `scatter` this rank's share, in its place.
  void complete(int bucket, ops::OpContext& ops);
  // The part of a bucket that holds the sum.
  FlatRange reduced(int bucket) const;

 private:
  struct Work {
    int bucket;
    TensorView whole, staging;
    std::unique_ptr<Event> event;
  };
  void finish(Work& work, ops::OpContext& ops);

  Arena* arena_;
  const BucketLayout* layout_;
  const DataParallel parallel_;
  const bool scatter_;
  std::vector<Arena::Id> staging_;  // two, where gradients travel in another type
  std::size_t next_staging_ = 0;
  std::deque<Work> works_;
};

}  // namespace stoa::optim

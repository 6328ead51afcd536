#include "optim/bucket_reducer.h"

#include <algorithm>

#include "optim/communication_mark.h"

namespace stoa::optim {

BucketReducer::BucketReducer(Arena& arena, const BucketLayout& layout, const DataParallel& parallel,
                             DType type)
    : arena_(&arena), layout_(&layout), parallel_(parallel), scatter_(parallel.sharded(1)) {
  if (!parallel.reduce_type || *parallel.reduce_type == type) return;
  std::int64_t largest = 0;
  for (const FlatBucket& bucket : layout.buckets())
    if (bucket.trained && bucket.shards > 1) largest = std::max(largest, bucket.elements);
  if (largest == 0) return;
  for (int i = 0; i < (parallel.overlap ? 2 : 1); ++i)
    staging_.push_back(arena.declare(MemoryCategory::kCommunication,
                                     {"gradients on their way", *parallel.reduce_type, Shape{largest}}));
}

FlatRange BucketReducer::reduced(int bucket) const {
  const FlatBucket& b = layout_->bucket(bucket);
  return scatter_ ? layout_->range(bucket, parallel_.shard(b.copies)) : FlatRange{0, b.elements};
}

bool BucketReducer::under_way(int bucket) const {
  return std::any_of(works_.begin(), works_.end(), [&](const Work& work) { return work.bucket == bucket; });
}

void BucketReducer::start(int bucket, TensorView whole, ops::OpContext& ops) {
  const FlatBucket& b = layout_->bucket(bucket);
  if (b.shards == 1) return;
  Work work{bucket, whole, whole, nullptr};
  if (!staging_.empty()) {
    if (works_.size() >= staging_.size()) {  // the oldest leaves its staging memory
      finish(works_.front(), ops);
      works_.pop_front();
    }
    work.staging = part_of(arena_->view(staging_[next_staging_]), {0, whole.elements()});
    next_staging_ = (next_staging_ + 1) % staging_.size();
    ops::run(ops, ops::Cast{.x = whole, .y = work.staging});
  }
  comm::Communicator& group = parallel_.parallel.along(b.copies);
  marked(ops.observer, "post gradients", bucket, [&] {
    work.event = scatter_ ? group.reduce_scatter(work.staging, part_of(work.staging, reduced(bucket)),
                                                 parallel_.stream)
                          : group.all_reduce(work.staging, comm::ReduceOp::kSum, parallel_.stream);
  });
  works_.push_back(std::move(work));
  if (!parallel_.overlap) complete(bucket, ops);
}

void BucketReducer::complete(int bucket, ops::OpContext& ops) {
  const auto it =
      std::find_if(works_.begin(), works_.end(), [&](const Work& work) { return work.bucket == bucket; });
  if (it == works_.end()) return;
  finish(*it, ops);
  works_.erase(it);
}

void BucketReducer::finish(Work& work, ops::OpContext& ops) {
  marked(ops.observer, "wait for gradients", work.bucket, [&] { work.event->wait(); });
  if (work.staging.data == work.whole.data) return;
  const FlatRange own = reduced(work.bucket);
  ops::run(ops, ops::Cast{.x = part_of(work.staging, own), .y = part_of(work.whole, own)});
}

}  // namespace stoa::optim

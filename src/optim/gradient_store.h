// Main gradients of a chunk: one accumulator per use of a trained parameter, in the accumulation type, summed
// over the ranks that hold the same parameters.
#pragma once

#include <memory>
#include <vector>

#include "optim/bucket_reducer.h"
#include "optim/parameter_store.h"

namespace stoa::optim {

class GradientStore final : public nn::GradAccess {
 public:
  // `parameters` (made for training from `params`) must outlive the store.
  GradientStore(Arena& arena, const nn::ParamList& params, nn::Precision precision,
                const ParameterStore& parameters);

  // The first write of a step overwrites: accumulators need not be cleared. `microbatches` of this step;
  // `ops` is used by notify().
  void begin_step(ops::OpContext& ops, int microbatches);
  nn::GradTarget target(nn::GradId id) override;
  // With overlap: in the last microbatch, notify() for a bucket's last accumulator starts its reduction.
  void notify(nn::GradId id) override;
  // After the last microbatch: zeroes accumulators without a write, adds the uses of a tied weight in order
  // of declaration, and sums gradients over the axes on which they are partial, then over the ranks that hold
  // the same parameters.
  void finish(ops::OpContext& ops);

  // The gradient for this rank's part of a parameter (ParameterStore::held), after finish(); none of a frozen
  // one.
  TensorView gradient(nn::ParamId id);
  // Elements of a bucket, within the range of reduced(bucket).
  TensorView reduced(int bucket, FlatRange range);
  // The range of a bucket whose sum this rank has.
  FlatRange reduced(int bucket) const { return reducer_.reduced(bucket); }

 private:
  // The state of a bucket in this step.
  struct Progress {
    int notices = 0;             // of accumulators; of a bucket of the window since it was last reduced
    bool under_way = false;      // its reduction
    bool shard_written = false;  // by an earlier microbatch
  };
  TensorView whole(int bucket);
  TensorView accumulator(nn::GradId id);
  static bool may_pass(const FlatBucket& bucket) {
    return bucket.trained && !bucket.late && bucket.shards > 1;
  }
  bool passes_window(const FlatBucket& bucket) const { return window_ && may_pass(bucket); }
  void enter(int unit);
  void send(int bucket);
  void absorb(int bucket);
  bool used_by_stages(const nn::ParamSpec& spec) const;
  void add_uses(int parameter, TensorView sum);
  void reduce_further(const FlatBucket& bucket, TensorView whole);

  Arena* arena_;
  const nn::ParamList* params_;
  const ParameterStore* parameters_;
  const BucketLayout* layout_;
  const DataParallel parallel_;
  // Whole, or this rank's share where the bucket passes through the window; none of frozen parameters.
  std::vector<Arena::Id> buckets_;
  std::vector<Arena::Id> further_;  // by GradId: accumulators of second uses
  std::vector<int> uses_;           // by bucket: accumulators
  std::unique_ptr<UnitWindow> window_;
  BucketReducer reducer_;

  ops::OpContext* ops_ = nullptr;
  int microbatches_ = 1;
  std::vector<bool> written_;  // by GradId: since the bucket was last reduced
  std::vector<Progress> progress_;
};

}  // namespace stoa::optim

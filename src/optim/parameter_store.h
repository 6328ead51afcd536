// Holds the values of a chunk's parameters: in compute precision for the layers, in fp32 for the optimizer;
// whole, or in shards that are gathered when a layer asks (ZeRO).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "device/arena.h"
#include "ops/op_context.h"
#include "optim/bucket_layout.h"
#include "optim/data_parallel.h"
#include "optim/unit_window.h"

namespace stoa::optim {

// What holds_bytes() (nn/param.h) is a tensor of bytes that every rank holds whole, for get() and
// master(). Matrices are held in compute precision with a separate fp32 master; if the two types are equal,
// for vectors and for what is frozen, the value is its own master. Masters are sharded from stage 1 on,
// values in stage 3.
class ParameterStore final : public nn::ParamAccess {
 public:
  // Training. What `parallel` refers to must outlive the store.
  ParameterStore(Arena& arena, const nn::ParamList& params, nn::Precision precision,
                 const DataParallel& parallel);
  // Inference: compute values only, whole.
  ParameterStore(Arena& arena, const std::vector<nn::ParamSpec>& specs, nn::Precision precision);
  ~ParameterStore() override;

  // The whole value, of shape shard.local. In stage 3 it is gathered if necessary, and remains valid until
  // parameters of two other blocks have been requested.
  TensorView get(nn::ParamId id) override;

  // What this rank updates: the whole parameter, or in stages 1 to 3 its part of it (all, if no other rank
  // has it).
  bool sharded() const { return parallel_ && parallel_->sharded(1); }
  // The canonical pieces of that part; shard.flat is set if it is not everything.
  ShardSpec held(nn::ParamId id) const;
  // The pieces of held() that this rank writes to files: the first of the ranks with the same elements does.
  ShardSpec written(nn::ParamId id) const;
  // Whether this rank is the first, among tensor ranks and pipeline stages, that holds a piece.
  bool is_first_copy(nn::ParamId id, const ShardPiece& piece) const;
  // Elements of the parameter that are held (all of them unless sharded; maybe none).
  FlatRange held_range(nn::ParamId id) const;
  // In the accumulation type (of what is frozen: as the value is held): of shape shard.local, or flat if
  // sharded. A view without memory if nothing is held.
  TensorView master(nn::ParamId id);
  bool has_separate_master(nn::ParamId id) const;
  // The part of `bucket` that belongs to this rank's part of a parameter.
  TensorView held_part(TensorView bucket, nn::ParamId id) const;
  // The compute values of the held part if they are separate from the master; else none.
  TensorView held_value(nn::ParamId id);
  // Makes held values that were written visible to get() on every rank; frozen ones, which no step writes,
  // only with `frozen`. Collective.
  void publish(bool frozen);
  // Must be called before held values are written: waits for gathers, and ends the use of gathered values.
  void settle();

  // Reports gathers and waits for them to `observer` from now on; none: no report.
  void observe(ops::OpObserver* observer) { observer_ = observer; }

  const std::vector<nn::ParamSpec>& specs() const { return *specs_; }
  const BucketLayout& layout() const { return layout_; }
  const std::optional<DataParallel>& data_parallel() const { return parallel_; }

 private:
  void declare(Arena& arena, nn::Precision precision, bool masters);
  bool holds_bytes(nn::ParamId id) const {
    return (*specs_)[static_cast<std::size_t>(id.index)].holds_bytes();
  }
  TensorView bytes_of(nn::ParamId id);
  TensorView part(TensorView bucket, std::int64_t origin, nn::ParamId id) const;
  FlatRange own_range(int bucket) const;  // this rank's share of the bucket
  void post_gather(int bucket, TensorView own, TensorView whole);
  void wait_gather(int bucket);  // if one is under way
  void gather_unit(int unit);    // posts
  void wait_unit(int unit);
  void prefetch(int unit);

  Arena* arena_;
  const std::vector<nn::ParamSpec>* specs_;
  const nn::ParamList* params_ = nullptr;
  std::optional<DataParallel> parallel_;
  BucketLayout layout_;
  std::vector<Arena::Id> values_;                // by bucket: whole, in stage 3 this rank's share
  std::vector<Arena::Id> masters_;               // by bucket; none where the value is its own master
  std::unique_ptr<UnitWindow> window_;           // stage 3
  std::vector<std::unique_ptr<Event>> gathers_;  // by bucket: under way
  int last_unit_ = -1;
  ops::OpObserver* observer_ = nullptr;
};

}  // namespace stoa::optim

// Holds the values of a chunk's parameters: in compute precision for the layers, in fp32 for the optimizer;
// whole, or in shards that are gathered when a layer asks (ZeRO).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "device/arena.h"
#include "ops/op_context.h"
#include "optim/data_parallel.h"
#include "optim/flat_layout.h"
#include "optim/unit_window.h"

namespace stoa::optim {

// Matrices are held in compute precision with an fp32 master beside them; where the two types are one, and
// for vectors, the value is its own master. Masters are sharded from stage 1 on, values in stage 3.
class ParameterStore final : public nn::ParamAccess {
 public:
  // Training. What `parallel` refers to outlives the store.
  ParameterStore(Arena& arena, const nn::ParamList& params, nn::Precision precision,
                 const DataParallel& parallel);
  // Inference: compute values only, whole.
  ParameterStore(Arena& arena, const std::vector<nn::ParamSpec>& specs, nn::Precision precision);
  ~ParameterStore() override;

  // The whole value, of shape shard.local. In stage 3 it is gathered if it is not there, and holds until
  // parameters of two other blocks have been asked for.
  TensorView get(nn::ParamId id) override;

  // What this rank updates: the whole parameter, or in stages 1 to 3 its part of it (all, where it alone has
  // it).
  bool sharded() const { return parallel_ && parallel_->sharded(1); }
  // The canonical pieces of that part: shard.flat is set where it is a part.
  ShardSpec held(nn::ParamId id) const;
  // Of these the pieces that this rank writes to files: of ranks that hold the same elements, the first does.
  ShardSpec written(nn::ParamId id) const;
  // Whether this rank is, among tensor ranks and pipeline stages, the first that holds a piece.
  bool is_first_copy(nn::ParamId id, const ShardPiece& piece) const;
  // Elements of the parameter that are held (all of them unless sharded; maybe none).
  FlatRange held_range(nn::ParamId id) const;
  // In the accumulation type: of shape shard.local, or flat where sharded. A view without memory where
  // nothing is held.
  TensorView master(nn::ParamId id);
  bool has_separate_master(nn::ParamId id) const;
  // The held part of a parameter in memory for what is held of its bucket.
  TensorView held_part(TensorView bucket, nn::ParamId id) const;
  // The compute values of the held part, where they are apart from the master; else none.
  TensorView held_value(nn::ParamId id);
  // After held values were written: they become visible to get() on every rank. Collective.
  void publish();
  // Before held values are written: nobody reads them any more.
  void settle();

  // Shows from now on when values are gathered and waited for; none: to nobody.
  void observe(ops::OpObserver* observer) { observer_ = observer; }

  const std::vector<nn::ParamSpec>& specs() const { return *specs_; }
  const FlatLayout& layout() const { return layout_; }
  const std::optional<DataParallel>& data_parallel() const { return parallel_; }

 private:
  void declare(Arena& arena, nn::Precision precision, bool masters);
  TensorView part(TensorView bucket, std::int64_t origin, nn::ParamId id) const;
  FlatRange own_range(int bucket) const;  // this rank's share of it
  void post_gather(int bucket, TensorView own, TensorView whole);
  void wait_gather(int bucket);  // if one is under way
  void gather_unit(int unit);    // posts
  void wait_unit(int unit);
  void prefetch(int unit);

  Arena* arena_;
  const std::vector<nn::ParamSpec>* specs_;
  const nn::ParamList* params_ = nullptr;
  std::optional<DataParallel> parallel_;
  FlatLayout layout_;
  std::vector<Arena::Id> values_;                // by bucket: whole, in stage 3 this rank's share
  std::vector<Arena::Id> masters_;               // by bucket; none where the value is its own master
  std::unique_ptr<UnitWindow> window_;           // stage 3
  std::vector<std::unique_ptr<Event>> gathers_;  // by bucket: under way
  int last_unit_ = -1;
  ops::OpObserver* observer_ = nullptr;
};

}  // namespace stoa::optim

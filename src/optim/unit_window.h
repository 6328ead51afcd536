// Room for the whole buckets of a few units at a time: blocks take turns in two slots, every other unit
// (embedding, head) has its own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "device/arena.h"
#include "optim/bucket_layout.h"

namespace stoa::optim {

class UnitWindow {
 public:
  struct Options {
    std::string name;
    std::function<DType(const FlatBucket&)> type;
    std::function<bool(const FlatBucket&)> includes;  // buckets that pass through the window
  };
  // The layout was made by unit.
  UnitWindow(Arena& arena, const nn::ParamList& params, const BucketLayout& layout, const Options& options);

  const std::vector<int>& buckets_of(int unit) const {
    return units_[static_cast<std::size_t>(unit)].buckets;
  }
  bool resident(int unit) const { return units_[static_cast<std::size_t>(unit)].slot >= 0; }
  // The slot that `unit` would take: its own, or the one that was not used last. Unit there now, -1: none.
  int occupant(int unit) const;
  void enter(int unit);  // takes that slot; its occupant leaves
  void leave(int unit);
  void used(int unit);          // marks its slot as used last
  TensorView view(int bucket);  // [elements] of a resident unit

 private:
  int slot_for(int unit) const;

  struct Unit {
    std::vector<int> buckets;
    int slot = -1;  // where it is; -1: nowhere
    int own = -1;   // its own slot; -1: one of the two
  };
  struct Slot {
    Arena::Id memory;
    int unit = -1;
  };
  Arena* arena_;
  const BucketLayout* layout_;
  std::vector<Unit> units_;
  std::vector<Slot> slots_;
  std::vector<int> turns_;            // slots of blocks
  int last_ = -1;                     // of those, used last
  std::vector<std::size_t> offsets_;  // by bucket, in its unit's slot
  std::vector<DType> types_;
};

}  // namespace stoa::optim

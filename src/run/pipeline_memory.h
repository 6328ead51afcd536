// Memory of a rank's chunks between the actions of a schedule: activations and stash of microbatches in
// flight, and buffers for what is received from other chunks and sent to them.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "device/arena.h"
#include "model/chunk.h"
#include "schedule/holdings.h"

namespace stoa::run {

// A fixed number of slots, each used by one microbatch at a time.
class Places {
 public:
  explicit Places(int count = 0) : held_(static_cast<std::size_t>(count), -1) {}
  int count() const { return static_cast<int>(held_.size()); }
  // InternalError if no slot is free, or the microbatch has none.
  int take(int microbatch);
  int find(int microbatch) const;
  void release(int microbatch);
  void clear() { held_.assign(held_.size(), -1); }

 private:
  std::vector<int> held_;
};

// A tensor of the residual stream that comes from another chunk.
struct Arrival {
  TensorView tensor;
  std::unique_ptr<Event> event;  // of the receive; none if it was computed on this rank
};

// A chunk of this rank and all its memory.
class LocalChunk {
 public:
  // Declares its memory, which is touched when a microbatch first uses it. `number`: in model order. Arena,
  // `chunk` and `ring`, the buffers for offloaded activations, must outlive this.
  LocalChunk(Arena& arena, int number, const model::Chunk& chunk, const schedule::Holdings& holdings,
             nn::OffloadRing& ring);
  int number() const { return number_; }
  const model::Chunk& chunk() const { return *chunk_; }

  // Activations of a microbatch, from its forward to the end of its backward.
  model::Chunk::Slot& take_slot(int microbatch);
  model::Chunk::Slot& slot(int microbatch) { return *slots_[slot_places_.find(microbatch)]; }
  void release_slot(int microbatch) { slot_places_.release(microbatch); }
  // Stash of a split backward.
  TensorView take_stash(int microbatch) { return arena_->view(stash_ids_[stash_places_.take(microbatch)]); }
  void release_stash(int microbatch) { stash_places_.release(microbatch); }

  // Input of the forward pass, output gradient for the backward pass.
  enum class Inbox { kInput, kGradient };
  Arrival& expect(Inbox box, int microbatch);
  // Whether it comes from another rank.
  bool expected(Inbox box, int microbatch) {
    return static_cast<bool>(of(box).arrivals[of(box).places.find(microbatch)].event);
  }
  // Waits for the tensor.
  TensorView await(Inbox box, int microbatch);
  void release(Inbox box, int microbatch);

  // Releases everything.
  void clear();

 private:
  struct Box {
    std::vector<Arena::Id> ids;
    std::vector<Arrival> arrivals;
    Places places;
  };
  Box& of(Inbox box) { return box == Inbox::kInput ? inputs_ : gradients_; }

  Arena* arena_;
  int number_;
  const model::Chunk* chunk_;
  nn::OffloadRing* ring_;
  std::vector<Arena::Id> slot_ids_, host_ids_, stash_ids_;
  std::vector<std::optional<model::Chunk::Slot>> slots_;  // created at first use
  Places slot_places_, stash_places_;
  Box inputs_, gradients_;
};

// Send buffers for results. Before a buffer is reused, take() waits for its send to complete.
class Outbox {
 public:
  Outbox(Arena& arena, const TensorSpec& boundary, int count);

  // A free buffer, for a result that is identified by `key` until it is posted.
  TensorView take(std::int64_t key);
  TensorView find(std::int64_t key) const;
  void posted(std::int64_t key, std::unique_ptr<Event> event);
  // Waits for all posted sends.
  void finish();
  void clear();

 private:
  struct Entry {
    Arena::Id id;
    std::int64_t key = -1;         // computed and not yet posted
    std::unique_ptr<Event> event;  // posted
    std::int64_t order = 0;
  };
  std::size_t at(std::int64_t key) const;

  Arena* arena_;
  std::vector<Entry> entries_;
  std::int64_t orders_ = 0;
};

}  // namespace stoa::run

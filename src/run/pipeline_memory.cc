#include "run/pipeline_memory.h"

#include <fmt/format.h>

#include <algorithm>

namespace stoa::run {

int Places::take(int microbatch) {
  const auto free = std::find(held_.begin(), held_.end(), -1);
  require<InternalError>(free != held_.end(), "microbatch {}: all {} slots are in use", microbatch,
                         held_.size());
  *free = microbatch;
  return static_cast<int>(free - held_.begin());
}

int Places::find(int microbatch) const {
  const auto place = std::find(held_.begin(), held_.end(), microbatch);
  require<InternalError>(place != held_.end(), "microbatch {} holds none of {} slots", microbatch,
                         held_.size());
  return static_cast<int>(place - held_.begin());
}

void Places::release(int microbatch) { held_[static_cast<std::size_t>(find(microbatch))] = -1; }

LocalChunk::LocalChunk(Arena& arena, int number, const model::Chunk& chunk,
                       const schedule::Holdings& holdings, nn::OffloadRing& ring)
    : arena_(&arena),
      number_(number),
      chunk_(&chunk),
      ring_(&ring),
      slot_places_(holdings.activations[number]),
      stash_places_(holdings.stashes[number]) {
  const auto bytes = [](const char* name, std::size_t size) {
    return TensorSpec{name, DType::kU8, Shape{static_cast<std::int64_t>(size)}};
  };
  for (int i = 0; i < slot_places_.count(); ++i)
    slot_ids_.push_back(
        arena.declare(MemoryCategory::kActivations, bytes("activations", chunk.saved_bytes())));
  for (int i = 0; i < slot_places_.count() && chunk.offloaded_bytes() > 0; ++i)
    host_ids_.push_back(
        arena.declare(MemoryCategory::kOffloaded, bytes("offloaded activations", chunk.offloaded_bytes())));
  for (int i = 0; i < stash_places_.count(); ++i)
    stash_ids_.push_back(
        arena.declare(MemoryCategory::kStash, bytes("weight gradient stash", chunk.stash_bytes())));
  slots_.resize(slot_ids_.size());
  const auto boxes = [&](Box& box, const char* name, int count) {
    box.places = Places(count);
    TensorSpec spec = chunk.boundary();
    spec.name = name;
    for (int i = 0; i < count; ++i) box.ids.push_back(arena.declare(MemoryCategory::kCommunication, spec));
    box.arrivals.resize(static_cast<std::size_t>(count));
  };
  boxes(inputs_, "pipeline input", holdings.inputs[number]);
  boxes(gradients_, "pipeline gradient", holdings.gradients[number]);
}

model::Chunk::Slot& LocalChunk::take_slot(int microbatch) {
  const int place = slot_places_.take(microbatch);
  auto& slot = slots_[place];
  if (!slot) {
    slot.emplace(chunk_->make_slot(arena_->view(slot_ids_[place])));
    if (!host_ids_.empty()) chunk_->set_offload(*slot, arena_->view(host_ids_[place]), *ring_);
  }
  return *slot;
}

Arrival& LocalChunk::expect(Inbox box, int microbatch) {
  const int place = of(box).places.take(microbatch);
  Arrival& arrival = of(box).arrivals[place];
  if (!arrival.tensor) arrival.tensor = arena_->view(of(box).ids[place]);
  return arrival;
}

TensorView LocalChunk::await(Inbox box, int microbatch) {
  Arrival& arrival = of(box).arrivals[of(box).places.find(microbatch)];
  if (arrival.event) arrival.event->wait();
  arrival.event.reset();
  return arrival.tensor;
}

void LocalChunk::release(Inbox box, int microbatch) { of(box).places.release(microbatch); }

void LocalChunk::clear() {
  slot_places_.clear();
  stash_places_.clear();
  for (Box* box : {&inputs_, &gradients_}) {
    box->places.clear();
    for (auto& arrival : box->arrivals) arrival.event.reset();
  }
}

Outbox::Outbox(Arena& arena, const TensorSpec& boundary, int count) : arena_(&arena) {
  TensorSpec spec = boundary;
  spec.name = "pipeline send";
  for (int i = 0; i < count; ++i)
    entries_.push_back({arena.declare(MemoryCategory::kCommunication, spec), -1, nullptr, 0});
}

TensorView Outbox::take(std::int64_t key) {
  // One that was not used yet, else the one that was sent first, which has had most time. So which buffers
  // are used does not depend on how fast the others are.
  Entry* chosen = nullptr;
  for (Entry& entry : entries_)
    if (entry.key < 0 && (!chosen || entry.order < chosen->order)) chosen = &entry;
  require<InternalError>(chosen != nullptr, "no buffer is left for a result that is to be sent");
  if (chosen->event) chosen->event->wait();
  chosen->event.reset();
  chosen->key = key;
  return arena_->view(chosen->id);
}

std::size_t Outbox::at(std::int64_t key) const {
  const auto entry =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.key == key; });
  require<InternalError>(entry != entries_.end(), "a result is sent that was not made");
  return static_cast<std::size_t>(entry - entries_.begin());
}

TensorView Outbox::find(std::int64_t key) const { return arena_->view(entries_[at(key)].id); }

void Outbox::posted(std::int64_t key, std::unique_ptr<Event> event) {
  Entry& entry = entries_[at(key)];
  entry.key = -1;
  entry.event = std::move(event);
  entry.order = ++orders_;
}

void Outbox::finish() {
  for (Entry& entry : entries_) {
    if (entry.event) entry.event->wait();
    entry.event.reset();
  }
}

void Outbox::clear() {
  for (Entry& entry : entries_) {
    entry.key = -1;
    entry.event.reset();
  }
}

}  // namespace stoa::run

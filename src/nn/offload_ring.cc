#include "nn/offload_ring.h"

#include <algorithm>

namespace stoa::nn {

OffloadRing::OffloadRing(Arena& arena, std::int64_t blocks, std::size_t bytes) : arena_(&arena) {
  for (std::int64_t i = 0; i < std::min<std::int64_t>(blocks, kMostPlaces); ++i)
    places_.push_back(
        {arena.declare(MemoryCategory::kActivations, {"slot of offloaded activations", DType::kU8,
                                                      Shape{static_cast<std::int64_t>(bytes)}}),
         nullptr});
  if (places_.empty()) return;
  away_ = arena.device().create_stream();
  back_ = arena.device().create_stream();
}

int OffloadRing::next() {
  last_ = (last_ + 1) % places();
  return last_;
}

TensorView OffloadRing::view(const Offloaded& block) {
  require<InternalError>(block.place >= 0, "offloaded activations are used that are not on the device");
  const TensorView place = arena_->view(places_[static_cast<std::size_t>(block.place)].memory);
  return TensorView(place.data, place.dtype, block.host.shape, place.device);
}

TensorView OffloadRing::open(Offloaded& block, Stream& compute) {
  block.place = next();
  if (const Place& place = places_[static_cast<std::size_t>(block.place)]; place.free)
    compute.wait(*place.free);
  return view(block);
}

void OffloadRing::store(Offloaded& block, Stream& compute) {
  away_->wait(*compute.record());
  arena_->device().copy(block.host.data, view(block).data, block.host.bytes(), *away_);
  block.away = away_->record();
  places_[static_cast<std::size_t>(block.place)].free = block.away;
  block.place = -1;
}

void OffloadRing::fetch(Offloaded& block) {
  block.place = next();
  if (const Place& place = places_[static_cast<std::size_t>(block.place)]; place.free)
    back_->wait(*place.free);
  back_->wait(*block.away);
  arena_->device().copy(view(block).data, block.host.data, block.host.bytes(), *back_);
  block.back = back_->record();
}

TensorView OffloadRing::await(Offloaded& block, Stream& compute) {
  compute.wait(*block.back);
  return view(block);
}

void OffloadRing::release(Offloaded& block, Stream& compute) {
  places_[static_cast<std::size_t>(block.place)].free = compute.record();
  block.place = -1;
}

void OffloadRing::clear() {
  for (Place& place : places_) place.free.reset();
}

}  // namespace stoa::nn

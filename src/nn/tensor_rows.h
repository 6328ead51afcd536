// The residual stream within a tensor-parallel group. Where its rows are split (sequence parallelism), matrix
// products need all of them: rows are gathered before a product and the partial sums of a product are added
// and scattered after it. Where they are not split, partial sums are added on every rank. One rank: nothing
// happens.
#pragma once

#include <memory>

#include "nn/pass.h"

namespace stoa::nn {

// A tensor that a communication in flight fills or reads.
class InFlight {
 public:
  InFlight(TensorView tensor, std::unique_ptr<Event> event) : tensor_(tensor), event_(std::move(event)) {}

  TensorView wait() {
    if (event_) event_->wait();
    event_.reset();
    return tensor_;
  }

 private:
  TensorView tensor_;
  std::unique_ptr<Event> event_;
};

// All rows of a tensor of which every rank has those of its part of the stream: in scratch of the current
// frame; the tensor itself where the stream is not split.
InFlight gather_rows(Pass& pass, const parallel::TensorPlace& place, TensorView rows);

// Where this rank's partial sums of all rows belong, before they are added up into `rows`: scratch of the
// current frame, or `rows` itself.
TensorView partial_rows(Pass& pass, const parallel::TensorPlace& place, TensorView rows);

// Adds the partial sums of all ranks, in their order, into `rows`.
InFlight add_rows(Pass& pass, const parallel::TensorPlace& place, TensorView partial, TensorView rows);

}  // namespace stoa::nn

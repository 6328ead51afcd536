// What comes before a training pass where an objective compares whole texts: the model is run forward over
// the rows of the step, and the derivative of the loss by what it says of every text becomes an input of the
// training pass. Every rank calls the same in the same order.
#pragma once

#include "data/batch.h"
#include "watch/run_observer.h"

namespace stoa::train {

class LossPass {
 public:
  virtual ~LossPass() = default;

  struct Measure {
    double loss = 0;
    watch::Scores scores;
  };
  // Gives this rank's rows of a global batch their derivatives, and the batch the number by which the step
  // divides. The measure is that of the global batch, on every rank.
  virtual Measure weigh(data::Batch& batch) = 0;
  // Validation: adds the rows of a batch to what take() returns; take() starts again.
  virtual void add(const data::Batch& batch) = 0;
  virtual Measure take() = 0;
};

}  // namespace stoa::train

// Seconds and bytes of a training step on a cluster: closed forms, microseconds to evaluate.
// Method and accuracy: docs/planner.md.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan/calibration.h"
#include "plan/cluster.h"
#include "plan/counted_memory.h"
#include "plan/workload.h"

namespace stoa::plan {

// Seconds of the step of the pipeline rank that sets the pace; they add up to Prediction::seconds.
struct TimeSplit {
  double linear = 0;       // products of the layers
  double attention = 0;    // the core: scores, softmax, values
  double elementwise = 0;  // norms, activations, dropout, residuals: bound by memory bandwidth
  double head = 0;         // embedding, output layer, loss, with everything around them
  double recompute = 0;    // all that runs again in the backward pass
  double host = 0;         // launches that the device waits for, and the fixed part of a step
  double tensor = 0;       // exposed communication by axis
  double context = 0;
  double expert = 0;
  double pipeline = 0;
  double data = 0;     // gradients and parameters
  double offload = 0;  // copies of activations to and from the host, where they are waited for
  double bubble = 0;
  double optimizer = 0;
  double straggler = 0;  // what grows with the number of nodes

  double sum() const;
  // Name of each part and its seconds, longest first.
  std::vector<std::pair<std::string_view, double>> parts() const;
};

// One pipeline rank.
struct StageTime {
  double forward = 0, backward_input = 0,
         backward_weight = 0;  // of a microbatch; recomputation in backward_input
  double busy = 0;             // of a step
  double memory = 0;           // bytes
  std::int64_t layers = 0;
};

struct Prediction {
  double seconds = 0;        // of an optimizer step
  double low = 0, high = 0;  // where 8 of 10 measurements are expected to lie (plan/error_band)
  TimeSplit time;
  MemorySplit memory;
  bool counted = false;  // memory is that of Stoa's own program, and not an estimate
  std::string whose;     // bytes these are, for people; filled by the caller
  double reserve = 0;    // bytes of a device that the program cannot have
  bool fits = true;
  std::vector<StageTime> stages;
  double model_flops = 0, hardware_flops = 0;  // per second and device
  double share_of_peak = 0;                    // model FLOP/s over the peak of the workload's format
  double tokens_per_second = 0;                // of the whole machine
  std::vector<std::string> notes;              // assumptions; the calibration used
  std::vector<std::string> nearest;            // the most similar published runs; filled by the caller
};

// ConfigError where the workload contradicts itself or the cluster cannot hold it (no network between nodes).
// Without `counted` the memory is estimated. `reserve`: bytes of a device for what the program does not
// allocate itself.
Prediction predict(const Workload& w, const Cluster& c, const Calibration& calibration,
                   const CountedMemory* counted = nullptr, double reserve = 0);

// Only the time, with given constants and without checks: for searches and fits.
TimeSplit predict_time(const Workload& w, const Cluster& c, const Constants& k,
                       std::vector<StageTime>* stages = nullptr);
// No more than predict_time(): the bubble of schedules that would be simulated is bounded.
double least_seconds(const Workload& w, const Cluster& c, const Constants& k);

}  // namespace stoa::plan

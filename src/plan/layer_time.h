// Seconds of one transformer layer and of the two ends of the model, for one microbatch on one rank.
#pragma once

#include "plan/calibration.h"
#include "plan/cluster.h"
#include "plan/collective_time.h"
#include "plan/workload.h"

namespace stoa::plan {

// Seconds by kind. Communication is what stays visible.
struct KindTime {
  double linear = 0, attention = 0, elementwise = 0, host = 0;
  double tensor = 0, context = 0, expert = 0;
  double sum() const { return linear + attention + elementwise + host + tensor + context + expert; }
  KindTime operator+(const KindTime& o) const;
  KindTime operator*(double factor) const;
};

struct LayerTime {
  KindTime forward;
  KindTime backward_input;   // gradient of the input, without what is recomputed
  KindTime backward_weight;  // gradient of the weights
  KindTime again;            // recomputation, within the backward pass
  double all() const { return forward.sum() + backward_input.sum() + backward_weight.sum() + again.sum(); }
  LayerTime operator+(const LayerTime& o) const;
  LayerTime operator*(double factor) const;
};

class LayerModel {
 public:
  LayerModel(const Workload& w, const Cluster& c, const Constants& k);

  LayerTime dense() const { return layer(false, rows_); }
  LayerTime experts() const { return layer(true, rows_); }
  // The layers of an encoder-decoder.
  LayerTime encoder() const { return layer(false, rows_); }
  LayerTime decoder() const { return layer(false, targets_); }
  LayerTime embedding() const;
  LayerTime head() const;           // output layer and loss
  LayerTime further_token() const;  // of a layer that predicts one token more, with its head

  // C[m,n] += A[m,k] B[k,n]. Efficiency falls with every side (planner-modelling, A100/H100 fits of cuBLAS).
  double product(double m, double n, double k, Format format) const;

 private:
  // A microbatch's rows on a rank.
  struct Rows {
    double tokens = 0;
    std::int64_t sequence = 0;
    bool causal = true;
    // A decoder's layer also attends to sources: their rows together, and the tokens of one.
    double sources = 0;
    std::int64_t source_length = 0;
  };
  LayerTime layer(bool experts, const Rows& rows) const;
  void exchange(LayerTime& out) const;                        // of tokens with their experts
  KindTime linear(double rows, double in, double out) const;  // one product
  double repeated_products(bool experts, double ffn, double shared) const;
  double bytes(double count) const { return count / memory_; }

  const Workload& w_;
  const Constants& k_;
  CollectiveTime comm_;
  double peak_, peak16_, memory_, ramp_, ramp16_, older_;
  Rows rows_, targets_;  // targets_: of an encoder-decoder, whose rows_ are sources
  Format plain_;         // of what stays out of fp8
};

}  // namespace stoa::plan

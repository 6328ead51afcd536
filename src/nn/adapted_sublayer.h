// A branch with a bottleneck adapter (nn/bottleneck.h): y = h + B(r), h what the layer makes, r what the
// bottleneck reads: h, the stream x that h is added to, or x + h. The dropout of branches comes after it.
#pragma once

#include <memory>

#include "nn/bottleneck.h"
#include "nn/norm.h"
#include "nn/sublayer.h"

namespace stoa::nn {

class AdaptedSublayer final : public Sublayer {
 public:
  // `norm`: of x + h, where one follows the sum; it must outlive this, and is not trained. Null: none.
  AdaptedSublayer(std::unique_ptr<Sublayer> layer, const BottleneckOptions& options, const Norm* norm);

  void set_stream(int activation) override { stream_ = activation; }
  void declare(ParamList& params, ActivationTable& table, std::int64_t tokens, Precision precision,
               int input) override;
  int last() const override { return read_; }
  int output_gradient() const override { return layer_->output_gradient(); }
  void forward(Pass& pass, Saved& saved, TensorView y) const override;
  TensorView stream_gradient(Pass& pass, Saved& saved, TensorView dy) const override;
  void backward(Pass& pass, Saved& saved, Which which, TensorView dy, TensorView dx) const override;
  void backward_weight(Pass& pass, Saved& saved) const override { layer_->backward_weight(pass, saved); }

 private:
  bool reads(BottleneckReads what) const { return bottleneck_.options().reads == what; }
  void make_output(Pass& pass, Saved& saved) const;
  void make_read(Pass& pass, Saved& saved) const;
  // y = x + h, in scratch, in the type of the stream.
  TensorView sum(Pass& pass, Saved& saved) const;
  // The gradient of what the bottleneck reads, in scratch: of x + h itself where it reads a norm of it.
  TensorView read_gradient(Pass& pass, Saved& saved, bool weights, TensorView dy) const;

  std::unique_ptr<Sublayer> layer_;
  Bottleneck bottleneck_;
  const Norm* norm_;
  Precision precision_;
  int stream_ = -1, output_ = -1, read_ = -1;  // x, h, r
};

// `layer` itself without options.
std::unique_ptr<Sublayer> adapted(std::unique_ptr<Sublayer> layer,
                                  const std::optional<BottleneckOptions>& options,
                                  const Norm* norm = nullptr);

}  // namespace stoa::nn

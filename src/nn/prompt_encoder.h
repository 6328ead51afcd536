// What makes the embeddings of virtual tokens (nn/adapter_policy.h): a table, or a small network over one
// (p-tuning). Its P rows are few, so every rank of a tensor-parallel group computes all of it; in the
// backward pass it is recomputed.
#pragma once

#include "nn/adapter_policy.h"
#include "nn/lstm.h"
#include "nn/module.h"
#include "ops/activation.h"

namespace stoa::nn {

// A parameter that every rank of a tensor-parallel group holds and knows the gradient of.
ParamSpec encoder_parameter(std::string name, const Shape& shape, ParamInit init,
                            const parallel::TensorPlace& place);
// The gradients of y = x w^T + b into the main gradients; of frozen ones none.
void add_linear_gradient(Pass& pass, TensorView x, TensorView dy, const Param& w, const Param& bias);

class PromptEncoder {
 public:
  // The canonical name of the embeddings, where they are a parameter; of what an encoder makes, likewise.
  static constexpr const char* kTable = "embedding.prompt.weight";

  // `hidden`: columns of an embedding.
  PromptEncoder(const PromptOptions& options, std::int64_t hidden, const parallel::TensorPlace& place);

  void declare(ParamList& params);
  std::int64_t tokens() const { return options_.tokens; }
  bool trains() const { return table_.trained(); }

  // [P, hidden] in compute precision: the parameter itself, or in scratch of the current frame.
  TensorView embeddings(Pass& pass) const;
  // Adds to the main gradients. add(dtable): adds the gradients of the embeddings to [P, hidden] of the
  // accumulation type.
  template <class F>
  void backward(Pass& pass, F&& add) const {
    Scratch::Frame frame(pass.ops.scratch);
    const TensorView target = gradient_target(pass);
    add(target);
    finish(pass, target);
  }

 private:
  struct Dense {
    std::string name;
    std::int64_t inputs = 0, outputs = 0;
    Param w, bias;
  };
  // One run of the network, in scratch of the current frame.
  struct Trace {
    std::vector<Lstm::Trace> lstms;   // by direction of each layer
    std::vector<TensorView> inputs;   // of the linear layers
    std::vector<TensorView> outputs;  // of the linear layers, before the function between them
  };
  Trace run(Pass& pass) const;
  // The main gradient of the table, or zeros in scratch for what the encoder makes.
  TensorView gradient_target(Pass& pass) const;
  void finish(Pass& pass, TensorView dembeddings) const;
  bool encodes() const { return options_.encoder != PromptEncoderKind::kNone; }
  ops::ActivationKind between() const {
    return options_.encoder == PromptEncoderKind::kTensorMlp ? ops::ActivationKind::kGelu
                                                             : ops::ActivationKind::kRelu;
  }

  PromptOptions options_;
  std::int64_t hidden_;
  parallel::TensorPlace place_;
  Param table_;              // the embeddings, or what the encoder reads
  std::vector<Lstm> lstms_;  // forward and reverse direction of each layer
  std::vector<Dense> dense_;
};

}  // namespace stoa::nn

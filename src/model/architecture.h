// The parts of each kind of model. Chunks get their parts here and all higher layers use chunks: no other
// code distinguishes kinds of models. A new kind is a new derived class.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "model/model_spec.h"
#include "nn/head.h"

namespace stoa::model {

struct ChunkOptions {
  std::int64_t first_layer = 0, layers = 0;
  bool embedding = true, head = true;  // the chunk starts, ends the model
  bool trained_before =
      true;                 // a chunk in front has something to train: backward returns the input's gradient
  bool tied_apart = false;  // embedding and tied head are on different pipeline ranks
  nn::Precision precision;
  parallel::TensorPlace place;    // in the tensor-parallel group
  parallel::ExpertPlace experts;  // among the ranks that share the experts
  std::int64_t tokens = 1;        // T of a training microbatch, at most
  std::int64_t positions =
      0;  // rows of the rotary table: the longest sequence of this use; 0: the model's maximum
  bool split_backward = false;  // backward comes as kInput and kWeight: there is a stash
  nn::RecomputeOptions recompute;
  bool fp8 = false;  // linear layers in 8 bits as the configuration says: of training and its validation
};

// How samples of training are made of text.
enum class Samples {
  kNextToken,   // every token predicts the next
  kMaskedText,  // masked tokens are predicted, and whether the second sentence follows the first
  kPairs,       // a source and a target
  kLabelled     // rows of labelled text, read whole
};

// What training and inference need to know of a kind of model with its task.
struct Traits {
  Samples samples = Samples::kNextToken;
  // Rows have lengths of their own, and the head works on their labelled tokens alone (nn::MaskedTargets):
  // such rows are not split over ranks.
  bool picks_tokens() const { return samples == Samples::kMaskedText || samples == Samples::kLabelled; }
  bool continues_text = false;   // a prompt is continued token by token
  std::string untrainable = {};  // why nothing can be trained; empty: it can
};
Traits traits(const ModelConfig& config);

// Values that layers read but do not train: tables of the rotary embedding.
struct Constant {
  TensorSpec tensor;
  // `sequence`: the longest sequence of this use (the rotary scalings dynamic and longrope depend on it).
  std::function<std::vector<double>(std::int64_t sequence)> values;
  // The same as the tensor's bytes.
  std::vector<std::byte> bytes(std::int64_t sequence) const;
};

class Architecture {
 public:
  virtual ~Architecture() = default;

  // What the chunk's layers find in Pass::constants.
  virtual std::vector<Constant> constants() const { return {}; }
  // Declares what several layers use, unless an earlier chunk of the rank did: every stage of a pipeline has
  // it.
  virtual void declare_shared(nn::ParamList& params) const { static_cast<void>(params); }
  virtual std::unique_ptr<nn::Embedding> embedding() const = 0;
  // `layer`: its number in the whole model.
  virtual std::unique_ptr<nn::Block> block(std::int64_t layer) const = 0;
  // None: the model has none.
  virtual std::unique_ptr<nn::Head> head() const = 0;
};

// The architecture of spec.config.kind, for the parts of one chunk.
std::unique_ptr<Architecture> make_architecture(const ModelSpec& spec, const ChunkOptions& options);

}  // namespace stoa::model

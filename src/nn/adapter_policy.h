// What adapters add to layers: asked by each layer as it declares its parameters (ParamList::adapters). Which
// layers are adapted, and how, is decided in one place (model/adapter_plan.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "nn/param.h"

namespace stoa::nn {

// A low-rank branch of a linear layer (LoRA, 2106.09685): y += scale B A dropout(x).
struct LowRankBranch {
  std::string name;                 // of A [rank, inputs], without ".lora_A.weight"
  std::vector<std::string> pieces;  // whose outputs it adds to: neighbours in the layer; each has rows of B
  std::int64_t rank = 0;
  double scale = 1;
  float dropout = 0;  // of the branch's input
  ParamInit init;     // of A; B is zero
  double b_rate = 1;  // learning rate of B, relative to that of A (LoRA+, 2402.12354)
  // Rows of W + scale B A are brought to norms m that are trained (DoRA, 2402.09353), of all branches of a
  // layer or none: y = m / norm * (W x + scale B A x) + bias.
  bool magnitude = false;
};

// A factor of every output of a linear layer, or of every input (IA3, 2205.05638).
struct Rescaling {
  std::string name;                 // of the factors, without ".ia3_l"
  std::vector<std::string> pieces;  // whose outputs are scaled: neighbours in the layer
  bool inputs = false;              // scale what the layer reads: the only one of it, of all its pieces
};

// What makes the embeddings of virtual tokens.
enum class PromptEncoderKind : std::uint8_t {
  kNone,  // they are trained themselves (prompt tuning, 2104.08691)
  // p-tuning (2103.10385): a network makes them of smaller rows, and only its results are needed later.
  kMlp,        // PEFT's: three linear layers with ReLU
  kLstm,       // PEFT's: LSTMs of both directions, then two linear layers with ReLU
  kTensorMlp,  // NeMo's "tpmlp": two linear layers with GELU
};

struct PromptOptions {
  std::int64_t tokens = 0;
  PromptEncoderKind encoder = PromptEncoderKind::kNone;
  std::int64_t inputs = 0;  // columns of the rows that the encoder reads
  std::int64_t width = 0;   // of its hidden layers, of an LSTM's direction
  std::int64_t layers = 0;  // of its LSTM
  double deviation = 0.02;  // of initial embeddings; with an encoder of kTensorMlp's weights
};

// Keys and values that stand before those of every text in every layer (prefix tuning, 2101.00190).
struct PrefixOptions {
  std::int64_t tokens = 0;
  double deviation = 0.02;
};

class AdapterPolicy {
 public:
  virtual ~AdapterPolicy() = default;
  // The branches of the linear layer that consists of `pieces` (canonical names without ".weight"), in the
  // order of their pieces.
  virtual std::vector<LowRankBranch> branches(const std::vector<std::string>& pieces) const = 0;

  // The factors of that layer, likewise.
  virtual std::vector<Rescaling> rescalings(const std::vector<std::string>& pieces) const = 0;

  // Tokens that are in front of every text, with the ids that follow the vocabulary: they are of a prompt or
  // of a prefix. 0: none.
  virtual std::int64_t virtual_tokens() const = 0;
  virtual std::optional<PromptOptions> prompt() const = 0;
  virtual std::optional<PrefixOptions> prefix() const = 0;

  // Tokens whose rows of the embedding are trained (nn/token_rows.h), and of the head, where that
  // is tied or head_rows().
  virtual const std::vector<std::int64_t>& token_rows() const = 0;
  virtual bool head_rows() const = 0;
};

}  // namespace stoa::nn

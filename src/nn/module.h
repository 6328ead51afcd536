// A module writes its forward and backward pass side by side, and declares what both need before any memory
// exists.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "nn/saved.h"
#include "quant/block_format.h"

namespace stoa::nn {

class AdapterPolicy;

// Types of canonical matrices in a model's files, of those whose blocks a rank may hold as they are.
using StoredTypes = std::map<std::string, quant::BlockType, std::less<>>;

// Collects the parameters of a model chunk, in order. Names are made from the path of scopes.
class ParamList {
 public:
  Param add(ParamSpec spec);
  // Parameters from here on belong to the next part of the chunk: one block, or what stands before or after
  // the blocks. Sharded state is gathered and reduced part by part.
  void begin_unit(bool block);
  // Whether a part is a block: blocks are walked in order, one at a time.
  bool is_block(int unit) const { return blocks_[static_cast<std::size_t>(unit)]; }
  int units() const { return static_cast<int>(blocks_.size()); }
  // A further use of a parameter declared before: same value, own gradient accumulator. `use`: which of
  // ParamSpec::uses it is.
  Param tie(ParamId id, std::int64_t use = -1);
  void set_scales(ParamId id, std::vector<ParamScale> scales);
  // Parameters from here on for which `trains` is false are frozen. Without it, all are trained.
  void train_where(std::function<bool(const ParamSpec&)> trains) { trains_ = std::move(trains); }
  // How parameters from here on are held that are frozen and whose layers take them packed. Without it, none
  // is packed.
  void pack_where(std::function<quant::PackedKind(const ParamSpec&)> packs) { packs_ = std::move(packs); }
  // Layers that declare their parameters from here on have the adapters of `policy`.
  void adapt(std::shared_ptr<const AdapterPolicy> policy) { adapters_ = std::move(policy); }
  const AdapterPolicy* adapters() const { return adapters_.get(); }  // or null
  // For inference: matrices from here on may be held in the numbers of the files. `types` may be null.
  void set_stored(std::shared_ptr<const StoredTypes> types) { stored_ = std::move(types); }
  // Sets spec.stored, if all pieces are stored in types that there are products with; add() undoes it where
  // an adapter replaces the matrix. Asked by layers that multiply with such a matrix, or with `matrices` of
  // one shape, each of equally many pieces.
  void hold_as_stored(ParamSpec& spec, std::int64_t matrices = 1) const;

  const std::vector<ParamSpec>& specs() const { return specs_; }
  const ParamSpec& spec(ParamId id) const { return specs_[static_cast<std::size_t>(id.index)]; }
  // Accumulator -> parameter; none is of a frozen one.
  const std::vector<ParamId>& grads() const { return grads_; }
  // Which use of the whole model's an accumulator is of; -1 where that does not matter.
  std::int64_t use(GradId id) const { return grad_uses_[static_cast<std::size_t>(id.index)]; }

 private:
  std::vector<ParamSpec> specs_;
  std::vector<ParamId> grads_;
  std::vector<std::int64_t> grad_uses_;
  std::vector<bool> blocks_;  // by unit
  std::function<bool(const ParamSpec&)> trains_;
  std::function<quant::PackedKind(const ParamSpec&)> packs_;
  std::shared_ptr<const AdapterPolicy> adapters_;
  std::shared_ptr<const StoredTypes> stored_;
};

// Types in which a model runs.
struct Precision {
  DType compute = DType::kBF16;                                 // matrices, branches
  DType residual = DType::kBF16;                                // the residual stream; fp32 as an option
  DType vectors() const { return accumulation_type(compute); }  // norms, biases, statistics, gradients
};

// A block of a model chunk: residual stream in, residual stream out, [T, hidden].
class Block {
 public:
  virtual ~Block() = default;

  // Called once, before memory exists: parameters into `params`, activations and stash into `table` for T
  // tokens.
  virtual void declare(ParamList& params, ActivationTable& table, std::int64_t tokens) = 0;
  // Activation that holds the input of the block (Producer::kInput).
  virtual int input() const = 0;
  // Reads saved.get(input()); writes out.
  virtual void forward(Pass& pass, Saved& saved, TensorView out) = 0;
  // kBoth/kInput: reads dout, writes din. kWeight: reads the stash only.
  virtual void backward(Pass& pass, Saved& saved, Which which, TensorView dout, TensorView din) = 0;
};

}  // namespace stoa::nn

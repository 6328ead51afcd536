// Saved activations. A block declares every tensor that its backward pass reads, with the function that
// computes it. A resolved table says which are kept, which of them are offloaded to host memory and which are
// recomputed; forward and backward simply request them.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "device/scratch.h"
#include "nn/pass.h"
#include "tensor/tensor_spec.h"

namespace stoa::nn {

class Saved;

enum class Keep : std::uint8_t {
  kSave,
  kOffload,  // saved, away from the device between forward and backward: of a block, all that is saved or
             // nothing
  kRecompute
};

// What kind of operation computed a tensor: recompute policies are defined by kind.
enum class Producer : std::uint8_t {
  kInput,       // input of the block: always saved
  kNorm,        // cheap: limited by bandwidth; also a norm's statistics, computed with it
  kActivation,  // cheap
  kLinear,      // expensive: a GEMM
  kAttention,   // expensive: core attention
  kBranch,      // dear, and needed for nothing but the sum of kind kSum that is made of it: one of the two is
                // kept
  kSum,         // cheap: stream + branch, in the type of the stream, which may be wider
  kCast,        // another activation in another type: never kept
  kSmall        // log-sum-exp: small enough to save always
};

// Which rows of the stream dimension 0 of an activation counts: all, or those of source or target in an
// encoder-decoder.
enum class RowPart : std::uint8_t { kAll, kSource, kTarget };

// Computes its outputs from other activations of the block: calls saved.get(inputs) and saved.put(outputs).
using Make = std::function<void(Pass&, Saved&)>;

struct ActivationSpec {
  TensorSpec tensor;
  Producer producer = Producer::kLinear;
  Make make;
  bool weight_input =
      false;  // a weight gradient reads it: when it is not kept, a split backward moves it to the stash
  std::int64_t least_rows = 0;   // it has, however few tokens a pass has
  Keep keep = Keep::kSave;       // decided by resolve()
  RowPart part = RowPart::kAll;  // set by declare()
};

// All activations of one block for one microbatch, and its stash for weight gradients. Filled by declare(),
// then resolved.
class ActivationTable {
 public:
  int declare(ActivationSpec spec);
  int declare_stash(TensorSpec spec, std::int64_t least_rows = 0);
  // Later declarations count rows of this part.
  void begin_rows(RowPart part) { part_ = part; }
  // Rows of the stream for which a part was declared.
  void declare_rows(RowPart part, std::int64_t rows) { rows_[static_cast<std::size_t>(part)] = rows; }
  // Decides for every activation. `input`: what happens to the input of the block; if it is not kept, the
  // block's owner recomputes it and calls Saved::set(). `split`: backward has two passes, so that weight
  // inputs that are not kept need room in the stash.
  void resolve(const std::function<Keep(const ActivationSpec&)>& policy, Keep input = Keep::kSave,
               bool split = false);

  const std::vector<ActivationSpec>& activations() const { return activations_; }
  const std::vector<TensorSpec>& stash() const { return stash_; }
  std::int64_t declared_rows(RowPart part) const {
    return part == RowPart::kAll ? activations_[0].tensor.shape[0] : rows_[static_cast<std::size_t>(part)];
  }
  RowPart stash_part(int index) const { return stash_parts_[static_cast<std::size_t>(index)]; }
  std::int64_t stash_least_rows(int index) const {
    return stash_least_rows_[static_cast<std::size_t>(index)];
  }
  std::size_t saved_bytes() const;  // aligned, as laid out in a slot
  std::size_t offloaded_bytes() const;
  std::size_t stash_bytes() const;
  std::size_t offset(int activation) const { return offsets_[activation]; }
  std::size_t stash_offset(int index) const { return stash_offsets_[index]; }
  // Stash entry for a weight input that is not kept, or -1.
  int stash_of(int activation) const { return stash_of_[activation]; }

 private:
  std::vector<ActivationSpec> activations_;
  std::vector<TensorSpec> stash_;
  std::vector<std::size_t> offsets_, stash_offsets_;
  std::vector<int> stash_of_;
  std::vector<RowPart> stash_parts_;
  std::vector<std::int64_t> stash_least_rows_;
  RowPart part_ = RowPart::kAll;
  std::array<std::int64_t, 3> rows_{};
  bool resolved_ = false;
};

// The activations of one block and one microbatch in flight.
class Saved {
 public:
  // `slot` has table.saved_bytes() bytes (for an offloaded block: see set_slot), `stash` table.stash_bytes()
  // (or is none: backward is never split).
  Saved(const ActivationTable& table, TensorView slot, TensorView stash);
  // For inference: nothing is kept; every activation is a temporary with `tokens` rows of the block's input
  // (the first activation), whatever the table was declared for.
  Saved(const ActivationTable& table, std::int64_t tokens);

  // The tensor, computed now unless it is saved or was computed since begin(). Temporaries stay on the
  // scratch stack until the current frame ends: call get() and put() before opening a frame of your own.
  TensorView get(Pass& pass, int activation);
  bool made(int activation) const { return static_cast<bool>(made_[activation]); }
  // The shape of the tensor in this pass, whether it is computed or not.
  Shape shape(int activation) const;
  // Where a producer writes: in the slot if kept, else on the scratch stack. Marks the tensor as computed.
  TensorView put(Pass& pass, int activation);
  // The block's input is written in place: into the slot, by the previous block.
  TensorView input_slot(int activation) const;
  // Sets the block's input; it need not be in the slot (inference, recomputed inputs).
  void set(Pass& pass, int activation, TensorView view);

  // Output gradient of a linear layer: in the stash if backward is split, else on the scratch stack.
  TensorView put_stash(Pass& pass, Which which, int index);
  TensorView get_stash(int index) const;

  // The memory of the next pass's activations: for an offloaded block, table.offloaded_bytes() bytes.
  void set_slot(TensorView slot) { slot_ = slot; }
  // The stash of the next backward pass; none: it is not split.
  void set_stash(TensorView stash) { stash_ = stash; }

  // Starts a pass over the block: drops temporaries of earlier passes; forward also drops what was saved.
  // `tokens`: rows of the block's input in this microbatch, at most those that were declared.
  void begin_forward(std::int64_t tokens);
  void begin_backward(Which which);
  // Rows of the stream per part in this microbatch, for encoder-decoders.
  void set_rows(std::int64_t source, std::int64_t target) { rows_ = {tokens_, source, target}; }

 private:
  TensorView in_slot(int activation) const;

  bool in_place(int activation) const;  // not recomputed, and there is a slot
  Shape shape_of(const TensorSpec& spec, RowPart part, std::int64_t least_rows) const;
  Shape stash_shape(int index) const;

  const ActivationTable* table_;
  std::int64_t tokens_ = 0;             // rows of the block's input
  std::array<std::int64_t, 3> rows_{};  // by part
  Which which_ = Which::kBoth;
  TensorView slot_, stash_;
  std::vector<TensorView> made_;  // valid views of this pass, including saved ones
  std::vector<bool> written_;     // saved tensors that forward has written
};

}  // namespace stoa::nn

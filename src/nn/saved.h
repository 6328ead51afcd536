// Saved activations. A block declares every tensor that its backward pass reads, with the function that makes
// it. One resolved table says which are kept, which wait in the host's memory and which are made again;
// forward and backward both simply ask for them.
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

// What kind of operation made a tensor: recompute policies speak of kinds.
enum class Producer : std::uint8_t {
  kInput,       // input of the block: always saved
  kNorm,        // cheap: bandwidth only; a norm's statistics too, which are made with it
  kActivation,  // cheap
  kLinear,      // dear: a matrix product
  kAttention,   // dear: core attention
  kBranch,      // dear, and needed for nothing but the sum of kind kSum that is made of it: one of the two is
                // kept
  kSum,         // cheap: stream + branch, in the type of the stream, which may be wider
  kCast,        // another activation in another type: never kept
  kSmall        // log-sum-exp: so small that saving is free
};

// Which rows of the stream dimension 0 of an activation counts: all, or those of one part in an
// encoder-decoder.
enum class RowPart : std::uint8_t { kAll, kSource, kTarget };

// Makes its outputs from other activations of the block: saved.get(inputs), then writes saved.put(outputs).
using Make = std::function<void(Pass&, Saved&)>;

struct ActivationSpec {
  TensorSpec tensor;
  Producer producer = Producer::kLinear;
  Make make;
  bool weight_input =
      false;  // a weight gradient reads it: when it is not kept, a split backward moves it to the stash
  Keep keep = Keep::kSave;       // decided by resolve()
  RowPart part = RowPart::kAll;  // set by declare()
};

// All activations of one block for one microbatch, and all its weight-gradient stash. Filled by declare(),
// then resolved.
class ActivationTable {
 public:
  int declare(ActivationSpec spec);
  int declare_stash(TensorSpec spec);
  // What is declared from here on counts rows of this part.
  void begin_rows(RowPart part) { part_ = part; }
  // Rows of the stream that a part was declared with.
  void declare_rows(RowPart part, std::int64_t rows) { rows_[static_cast<std::size_t>(part)] = rows; }
  // Decides for every activation. `input`: what becomes of the input of the block; when it is not kept, the
  // owner of the block makes it again and calls Saved::set(). `split`: backward comes in two passes, so that
  // weight inputs that are not kept get room in the stash.
  void resolve(const std::function<Keep(const ActivationSpec&)>& policy, Keep input = Keep::kSave,
               bool split = false);

  const std::vector<ActivationSpec>& activations() const { return activations_; }
  const std::vector<TensorSpec>& stash() const { return stash_; }
  std::int64_t declared_rows(RowPart part) const {
    return part == RowPart::kAll ? activations_[0].tensor.shape[0] : rows_[static_cast<std::size_t>(part)];
  }
  RowPart stash_part(int index) const { return stash_parts_[static_cast<std::size_t>(index)]; }
  std::size_t saved_bytes() const;  // aligned, as laid out in a slot
  std::size_t offloaded_bytes() const;
  std::size_t stash_bytes() const;
  std::size_t offset(int activation) const { return offsets_[activation]; }
  std::size_t stash_offset(int index) const { return stash_offsets_[index]; }
  // Stash entry that holds a weight input which is not kept, or -1.
  int stash_of(int activation) const { return stash_of_[activation]; }

 private:
  std::vector<ActivationSpec> activations_;
  std::vector<TensorSpec> stash_;
  std::vector<std::size_t> offsets_, stash_offsets_;
  std::vector<int> stash_of_;
  std::vector<RowPart> stash_parts_;
  RowPart part_ = RowPart::kAll;
  std::array<std::int64_t, 3> rows_{};
  bool resolved_ = false;
};

// The activations of one block and one microbatch in flight.
class Saved {
 public:
  // `slot` holds table.saved_bytes() bytes (of an offloaded block: see set_slot), `stash` table.stash_bytes()
  // (or is none: backward is never split).
  Saved(const ActivationTable& table, TensorView slot, TensorView stash);
  // Nothing is kept (inference): every activation is a temporary, `tokens` rows of the block's input (the
  // first activation), whatever the table was declared for.
  Saved(const ActivationTable& table, std::int64_t tokens);

  // The tensor, made now if it is neither saved nor made since begin(). Temporaries live on the scratch stack
  // until the frame of the current pass ends: call get() and put() before opening a frame of your own.
  TensorView get(Pass& pass, int activation);
  bool made(int activation) const { return static_cast<bool>(made_[activation]); }
  // Where a producer writes: in the slot when kept, on the scratch stack otherwise. Marks it made.
  TensorView put(Pass& pass, int activation);
  // The block's input arrives in place: the slot is where the previous block writes its output.
  TensorView input_slot(int activation) const;
  // Gives the block's input; it need not be in the slot (inference, inputs that are made again).
  void set(Pass& pass, int activation, TensorView view);

  // Output gradient of a linear layer: in the stash when backward is split, on the scratch stack otherwise.
  TensorView put_stash(Pass& pass, Which which, int index);
  TensorView get_stash(int index) const;

  // Where the activations lie in the coming pass: of an offloaded block, table.offloaded_bytes() bytes.
  void set_slot(TensorView slot) { slot_ = slot; }
  // Where the stash of the coming backward pass lies; none: it is not split.
  void set_stash(TensorView stash) { stash_ = stash; }

  // A pass over the block starts: temporaries of earlier passes are gone. Forward also forgets what was
  // saved. `tokens`: rows of the block's input in this microbatch, at most those that were declared.
  void begin_forward(std::int64_t tokens);
  void begin_backward(Which which);
  // Rows of the stream of the parts in this microbatch, where there are parts.
  void set_rows(std::int64_t source, std::int64_t target) { rows_ = {tokens_, source, target}; }

 private:
  TensorView in_slot(int activation) const;

  bool in_place(int activation) const;  // not made again, and there is a slot
  Shape shape_of(const TensorSpec& spec, RowPart part) const;

  const ActivationTable* table_;
  std::int64_t tokens_ = 0;             // rows of the block's input
  std::array<std::int64_t, 3> rows_{};  // by part
  Which which_ = Which::kBoth;
  TensorView slot_, stash_;
  std::vector<TensorView> made_;  // valid views of this pass, saved ones included
  std::vector<bool> written_;     // saved tensors that forward has written
};

}  // namespace stoa::nn

#include "nn/saved.h"

#include <algorithm>

#include "ops/all.h"

namespace stoa::nn {
namespace {

TensorView view_at(TensorView block, std::size_t offset, DType type, const Shape& shape) {
  void* data = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(block.data) + offset);
  return TensorView(data, type, shape, block.device);
}

}  // namespace

int ActivationTable::declare(ActivationSpec spec) {
  spec.part = part_;
  activations_.push_back(std::move(spec));
  stash_of_.push_back(-1);
  return static_cast<int>(activations_.size()) - 1;
}

int ActivationTable::declare_stash(TensorSpec spec, std::int64_t least_rows) {
  stash_least_rows_.push_back(least_rows);
  stash_offsets_.push_back(stash_bytes());
  stash_.push_back(std::move(spec));
  stash_parts_.push_back(part_);
  return static_cast<int>(stash_.size()) - 1;
}

void ActivationTable::resolve(const std::function<Keep(const ActivationSpec&)>& policy, Keep input,
                              bool split) {
  require<InternalError>(!resolved_, "an activation table is resolved twice");
  resolved_ = true;
  std::size_t offset = 0;
  for (std::size_t i = 0; i < activations_.size(); ++i) {
    auto& spec = activations_[i];
    spec.keep = spec.producer == Producer::kInput ? input : policy(spec);
    offsets_.push_back(offset);
    if (spec.keep != Keep::kRecompute)
      offset += aligned_bytes(spec.tensor.bytes());
    else if (split && spec.weight_input) {
      begin_rows(spec.part);
      stash_of_[i] = declare_stash(spec.tensor, spec.least_rows);
    }
  }
}

namespace {

std::size_t bytes_of(const std::vector<ActivationSpec>& activations, Keep keep) {
  std::size_t total = 0;
  for (const auto& spec : activations)
    if (spec.keep == keep) total += aligned_bytes(spec.tensor.bytes());
  return total;
}

}  // namespace

std::size_t ActivationTable::saved_bytes() const { return bytes_of(activations_, Keep::kSave); }
std::size_t ActivationTable::offloaded_bytes() const { return bytes_of(activations_, Keep::kOffload); }

std::size_t ActivationTable::stash_bytes() const {
  std::size_t total = 0;
  for (const auto& spec : stash_) total += aligned_bytes(spec.bytes());
  return total;
}

Saved::Saved(const ActivationTable& table, TensorView slot, TensorView stash)
    : table_(&table),
      tokens_(table.activations()[0].tensor.shape[0]),
      rows_{tokens_, table.declared_rows(RowPart::kSource), table.declared_rows(RowPart::kTarget)},
      slot_(slot),
      stash_(stash),
      made_(table.activations().size()),
      written_(table.activations().size(), false) {}

Saved::Saved(const ActivationTable& table, std::int64_t tokens) : Saved(table, TensorView(), TensorView()) {
  tokens_ = tokens;
}

bool Saved::in_place(int activation) const {
  return static_cast<bool>(slot_) && table_->activations()[activation].keep != Keep::kRecompute;
}

Shape Saved::shape_of(const TensorSpec& spec, RowPart part, std::int64_t least_rows) const {
  Shape shape = spec.shape;
  // Dimension 0 counts tokens, or grows with them: the block's input has this rank's rows of the stream.
  const std::int64_t declared = table_->declared_rows(part),
                     rows = part == RowPart::kAll ? tokens_ : rows_[static_cast<std::size_t>(part)];
  if (rows != declared)
    shape.set(0, std::max((shape[0] * rows + declared - 1) / declared, std::min(least_rows, shape[0])));
  return shape;
}

Shape Saved::shape(int activation) const {
  const ActivationSpec& spec = table_->activations()[activation];
  return shape_of(spec.tensor, spec.part, spec.least_rows);
}

Shape Saved::stash_shape(int index) const {
  return shape_of(table_->stash()[index], table_->stash_part(index), table_->stash_least_rows(index));
}

TensorView Saved::in_slot(int activation) const {
  return view_at(slot_, table_->offset(activation), table_->activations()[activation].tensor.dtype,
                 shape(activation));
}

TensorView Saved::get(Pass& pass, int activation) {
  if (made_[activation]) return made_[activation];
  const ActivationSpec& spec = table_->activations()[activation];
  if (written_[activation]) return made_[activation] = in_slot(activation);
  require<InternalError>(static_cast<bool>(spec.make), "activation '{}' is read before it is written",
                         spec.tensor.name);
  spec.make(pass, *this);
  require<InternalError>(static_cast<bool>(made_[activation]), "activation '{}' was not made by its producer",
                         spec.tensor.name);
  return made_[activation];
}

TensorView Saved::put(Pass& pass, int activation) {
  const ActivationSpec& spec = table_->activations()[activation];
  if (in_place(activation)) {
    written_[activation] = true;
    return made_[activation] = in_slot(activation);
  }
  if (!made_[activation]) {
    const int stash = table_->stash_of(activation);
    made_[activation] = which_ == Which::kInput && stash >= 0
                            ? get_stash(stash)
                            : pass.ops.scratch.allocate(spec.tensor.dtype, shape(activation));
  }
  return made_[activation];
}

TensorView Saved::input_slot(int activation) const {
  require<InternalError>(in_place(activation), "the input of a block has no memory in its slot");
  return in_slot(activation);
}

void Saved::set(Pass& pass, int activation, TensorView view) {
  made_[activation] = view;
  // An input that weight gradients read outlives the pass that made it again.
  if (const int stash = table_->stash_of(activation); which_ == Which::kInput && stash >= 0) {
    made_[activation] = get_stash(stash);
    ops::run(pass.ops, ops::Cast{.x = view, .y = made_[activation]});
  }
  if (in_place(activation) && view.data == in_slot(activation).data) written_[activation] = true;
}

TensorView Saved::put_stash(Pass& pass, Which which, int index) {
  if (which == Which::kInput) return get_stash(index);
  const TensorSpec& spec = table_->stash()[index];
  return pass.ops.scratch.allocate(spec.dtype, stash_shape(index));
}

TensorView Saved::get_stash(int index) const {
  require<InternalError>(static_cast<bool>(stash_), "backward is split but no stash was declared");
  const TensorSpec& spec = table_->stash()[index];
  return view_at(stash_, table_->stash_offset(index), spec.dtype, stash_shape(index));
}

void Saved::begin_forward(std::int64_t tokens) {
  require<InternalError>(tokens <= table_->activations()[0].tensor.shape[0],
                         "{} tokens in a slot declared for {}", tokens,
                         table_->activations()[0].tensor.shape[0]);
  tokens_ = tokens;
  made_.assign(made_.size(), {});
  written_.assign(written_.size(), false);
  which_ = Which::kBoth;
}

void Saved::begin_backward(Which which) {
  made_.assign(made_.size(), {});
  which_ = which;
  if (which != Which::kWeight) return;
  for (std::size_t i = 0; i < made_.size(); ++i)
    if (const int stash = table_->stash_of(static_cast<int>(i)); stash >= 0) made_[i] = get_stash(stash);
}

}  // namespace stoa::nn

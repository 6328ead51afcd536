#include "nn/saved.h"

namespace stoa::nn {
namespace {

TensorView view_at(TensorView block, std::size_t offset, const TensorSpec& spec) {
  void* data = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(block.data) + offset);
  return TensorView(data, spec.dtype, spec.shape, block.device);
}

}  // namespace

int ActivationTable::declare(ActivationSpec spec) {
  activations_.push_back(std::move(spec));
  return static_cast<int>(activations_.size()) - 1;
}

int ActivationTable::declare_stash(TensorSpec spec) {
  stash_offsets_.push_back(stash_bytes());
  stash_.push_back(std::move(spec));
  return static_cast<int>(stash_.size()) - 1;
}

void ActivationTable::resolve(const std::function<Keep(const ActivationSpec&)>& policy) {
  offsets_.clear();
  std::size_t offset = 0;
  for (auto& spec : activations_) {
    spec.keep = spec.producer == Producer::kInput ? Keep::kSave : policy(spec);
    offsets_.push_back(offset);
    if (spec.keep == Keep::kSave) offset += aligned_bytes(spec.tensor.bytes());
  }
}

std::size_t ActivationTable::saved_bytes() const {
  std::size_t total = 0;
  for (const auto& spec : activations_)
    if (spec.keep == Keep::kSave) total += aligned_bytes(spec.tensor.bytes());
  return total;
}

std::size_t ActivationTable::stash_bytes() const {
  std::size_t total = 0;
  for (const auto& spec : stash_) total += aligned_bytes(spec.bytes());
  return total;
}

Saved::Saved(const ActivationTable& table, TensorView slot, TensorView stash)
    : table_(&table),
      slot_(slot),
      stash_(stash),
      made_(table.activations().size()),
      written_(table.activations().size(), false) {}

TensorView Saved::in_slot(int activation) const {
  return view_at(slot_, table_->offset(activation), table_->activations()[activation].tensor);
}

TensorView Saved::get(Pass& pass, int activation) {
  if (made_[activation]) return made_[activation];
  const ActivationSpec& spec = table_->activations()[activation];
  if (written_[activation]) return made_[activation] = in_slot(activation);
  require<InternalError>(static_cast<bool>(spec.make), "activation '{}' is read before it is written", spec.tensor.name);
  spec.make(pass, *this);
  require<InternalError>(static_cast<bool>(made_[activation]), "activation '{}' was not made by its producer",
                         spec.tensor.name);
  return made_[activation];
}

TensorView Saved::put(Pass& pass, int activation) {
  const ActivationSpec& spec = table_->activations()[activation];
  if (spec.keep == Keep::kSave) {
    written_[activation] = true;
    return made_[activation] = in_slot(activation);
  }
  if (!made_[activation]) made_[activation] = pass.ops.scratch.allocate(spec.tensor.dtype, spec.tensor.shape);
  return made_[activation];
}

TensorView Saved::input_slot(int activation) const { return in_slot(activation); }

void Saved::set(int activation, TensorView view) {
  made_[activation] = view;
  if (view.data == in_slot(activation).data) written_[activation] = true;
}

TensorView Saved::put_stash(Pass& pass, Which which, int index) {
  if (which == Which::kInput) return get_stash(index);
  const TensorSpec& spec = table_->stash()[index];
  return pass.ops.scratch.allocate(spec.dtype, spec.shape);
}

TensorView Saved::get_stash(int index) const {
  require<InternalError>(static_cast<bool>(stash_), "backward is split but no stash was declared");
  return view_at(stash_, table_->stash_offset(index), table_->stash()[index]);
}

void Saved::begin_forward() {
  made_.assign(made_.size(), {});
  written_.assign(written_.size(), false);
}

void Saved::begin_backward() { made_.assign(made_.size(), {}); }

}  // namespace stoa::nn

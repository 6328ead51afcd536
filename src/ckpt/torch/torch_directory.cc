#include "ckpt/torch/torch_directory.h"

#include <algorithm>

#include "base/error.h"
#include "ckpt/foreign_directory.h"
#include "ckpt/shard_index.h"

namespace stoa::ckpt::torch {
namespace {

fs::path weights_file(const fs::path& directory, std::string_view stem) {
  return directory / (std::string(stem) + ".bin");
}
fs::path weights_index(const fs::path& directory, std::string_view stem) {
  return directory / (std::string(stem) + ".bin.index.json");
}

// The .pt or .pth file next to config.json, where there is one. What the Trainer of transformers leaves next
// to the weights is none, and the files of training checkpoints are read otherwise.
fs::path single_state(const fs::path& directory) {
  std::error_code error;
  if (!fs::is_regular_file(directory / "config.json", error) || is_foreign_checkpoint(directory)) return {};
  fs::path found;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    const fs::path& path = it->path();
    const std::string stem = path.stem().string(), extension = path.extension().string();
    if (extension != ".pt" && extension != ".pth") continue;
    if (stem == "optimizer" || stem == "scheduler" || stem == "scaler" || stem.starts_with("rng_state"))
      continue;
    if (!found.empty()) return {};
    found = path;
  }
  return found;
}

fs::path directory_of(const fs::path& place) {
  std::error_code ignored;
  if (!fs::is_regular_file(place, ignored)) return place;
  return place.has_parent_path() ? place.parent_path() : fs::path(".");
}

// Under these keys a program keeps the model, next to other things.
constexpr std::string_view kHolders[] = {"state_dict", "model_state_dict", "model", "module"};
// What wraps a model puts these before its names.
constexpr std::string_view kWrappers[] = {"module.", "_orig_mod."};

}  // namespace

bool TorchDirectory::exists(const fs::path& directory, std::string_view stem) {
  std::error_code ignored;
  return fs::exists(weights_file(directory, stem), ignored) ||
         fs::exists(weights_index(directory, stem), ignored) ||
         (stem == kTorchModelStem && !single_state(directory).empty());
}

TorchDirectory::TorchDirectory(fs::path given, std::string_view stem) : TensorSource(directory_of(given)) {
  const fs::path index_path = weights_index(directory(), stem);
  if (fs::is_regular_file(given)) {
    add(given);
  } else if (const auto single = weights_file(directory(), stem); fs::exists(single)) {
    add(single);
  } else if (const auto state = single_state(directory()); !fs::exists(index_path) && !state.empty()) {
    add(state);
  } else {
    require<IoError>(fs::exists(index_path), "'{}' holds neither {} nor {}", directory().string(),
                     single.filename().string(), index_path.filename().string());
    const ShardIndex index(index_path);
    for (const auto& file : index.files()) add(directory() / file);
    index.require_all([&](const std::string& name) { return tensors_.contains(name); });
  }
  std::vector<const TensorEntry*> entries;
  for (const auto& [name, tensor] : tensors_) entries.push_back(&tensor.entry);
  set_entries(std::move(entries));
}

void TorchDirectory::add(const fs::path& path) {
  files_.push_back(std::make_unique<TorchFile>(path));
  const TorchFile& file = *files_.back();
  const Value root = file.root();
  require<DataError>(root.is(ValueKind::kDict),
                     "'{}' holds {}, and a model's weights are a dict of tensors by name (its state_dict)",
                     file.source(), root);
  for (const std::string_view holder : kHolders)
    if (const auto inner = root.find(holder); inner && inner->is(ValueKind::kDict))
      return add_tensors(file, *inner, true);
  add_tensors(file, root, false);
}

// `nested`: other things than tensors are not the model's.
void TorchDirectory::add_tensors(const TorchFile& file, const Value& root, bool nested) {
  std::string wrapper;
  const auto all_begin = [&](const std::string& prefix) {
    bool all = root.size() > 0;
    for (std::size_t i = 0; i < root.size() && all; ++i)
      all = root.key(i).is(ValueKind::kString) && root.key(i).text().starts_with(prefix);
    return all;
  };
  for (bool more = true; more;) {
    more = false;
    for (const std::string_view each : kWrappers)
      if (const std::string prefix = wrapper + std::string(each); all_begin(prefix)) {
        wrapper = prefix;
        more = true;
      }
  }
  for (std::size_t i = 0; i < root.size(); ++i) {
    const Value key = root.key(i), value = root.value(i);
    if (nested && !value.is(ValueKind::kTensor)) continue;
    require<DataError>(key.is(ValueKind::kString) && value.is(ValueKind::kTensor),
                       "'{}' holds {} under {}, and a model's weights are a dict of tensors by name (its "
                       "state_dict)",
                       file.source(), value, key);
    const TensorValue& tensor = value.tensor();
    TensorEntry entry;
    entry.name = key.text().substr(wrapper.size());
    entry.shape = tensor.shape;
    require<DataError>(tensor.type->stored.has_value(),
                       "'{}' holds tensor '{}' of type {}, which no safetensors file has", file.source(),
                       entry.name, tensor.type->name);
    entry.type = *tensor.type->stored;
    const auto added = tensors_.try_emplace(entry.name, Tensor{entry, &file, &tensor});
    require<DataError>(added.second, "'{}' holds tensor '{}', as it or another shard did before",
                       file.source(), entry.name);
  }
}

std::span<const std::byte> TorchDirectory::elements(const TensorEntry& entry, std::int64_t begin,
                                                    std::int64_t end, std::vector<std::byte>& scratch) const {
  const Tensor& tensor = tensors_.at(entry.name);
  return tensor.file->elements(*tensor.value, begin, end, scratch);
}

bool TorchDirectory::check_sums() const {
  bool all = true;
  for (const auto& file : files_) all = file->check_sums() && all;
  return all;
}

}  // namespace stoa::ckpt::torch

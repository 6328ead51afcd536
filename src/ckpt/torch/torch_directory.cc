#include "ckpt/torch/torch_directory.h"

#include "base/error.h"
#include "ckpt/shard_index.h"

namespace stoa::ckpt::torch {
namespace {

fs::path weights_file(const fs::path& directory, std::string_view stem) {
  return directory / (std::string(stem) + ".bin");
}
fs::path weights_index(const fs::path& directory, std::string_view stem) {
  return directory / (std::string(stem) + ".bin.index.json");
}

}  // namespace

bool TorchDirectory::exists(const fs::path& directory, std::string_view stem) {
  std::error_code ignored;
  return fs::exists(weights_file(directory, stem), ignored) ||
         fs::exists(weights_index(directory, stem), ignored);
}

TorchDirectory::TorchDirectory(fs::path given, std::string_view stem) : TensorSource(std::move(given)) {
  if (const auto single = weights_file(directory(), stem); fs::exists(single)) {
    add(single);
  } else {
    const auto path = weights_index(directory(), stem);
    require<IoError>(fs::exists(path), "'{}' holds neither {} nor {}", directory().string(),
                     single.filename().string(), path.filename().string());
    const ShardIndex index(path);
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
  for (std::size_t i = 0; i < root.size(); ++i) {
    const Value key = root.key(i), value = root.value(i);
    require<DataError>(key.is(ValueKind::kString) && value.is(ValueKind::kTensor),
                       "'{}' holds {} under {}, and a model's weights are a dict of tensors by name (its "
                       "state_dict)",
                       file.source(), value, key);
    const TensorValue& tensor = value.tensor();
    TensorEntry entry;
    entry.name = key.text();
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

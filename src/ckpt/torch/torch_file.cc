#include "ckpt/torch/torch_file.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/lfs_pointer.h"
#include "ckpt/strided_elements.h"

namespace stoa::ckpt::torch {
namespace {

constexpr std::string_view kPickleName = "/data.pkl";

// The first value of a file before PyTorch 1.6, as the int of 10 bytes that it is.
constexpr std::string_view kMagic("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10);

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

TorchFile::TorchFile(const fs::path& path) : map_(path), source_(path.string()) { read(map_.bytes()); }

TorchFile::TorchFile(std::span<const std::byte> bytes, std::string source) : source_(std::move(source)) {
  read(bytes);
}

void TorchFile::read(std::span<const std::byte> bytes) {
  if (ZipDirectory::is_zip(bytes))
    read_zip(bytes);
  else
    read_sequence(bytes);
}

void TorchFile::read_zip(std::span<const std::byte> bytes) {
  zip_.emplace(bytes, source_);
  const ZipEntry* pickle = nullptr;
  for (const ZipEntry& entry : zip_->entries()) {
    if (!entry.name.ends_with(kPickleName)) continue;
    require<DataError>(!pickle, "'{}' holds both '{}' and '{}'", source_, pickle ? pickle->name : "",
                       entry.name);
    pickle = &entry;
  }
  require<DataError>(pickle != nullptr, "'{}' is a zip file without a data.pkl: torch.save did not write it",
                     source_);
  const std::string root(pickle->name.substr(0, pickle->name.size() - kPickleName.size()));
  require<DataError>(!zip_->find(root + "/constants.pkl"),
                     "'{}' is a TorchScript program, which is not executed: save its state_dict() instead",
                     source_);
  for (const ZipEntry& entry : zip_->entries())
    require<DataError>(!entry.compressed, "'{}' holds '{}' compressed, and torch.save compresses nothing",
                       source_, entry.name.substr(0, 200));
  if (const ZipEntry* order = zip_->find(root + "/byteorder"))
    require<DataError>(text_of(order->bytes) == "little",
                       "'{}' was written on a {}-endian machine; only "
                       "little-endian files are read",
                       source_, text_of(order->bytes).substr(0, 20));
  pickle_.emplace(pickle->bytes, source_);
  const std::string data = root + "/data/";
  for (const ZipEntry& entry : zip_->entries())
    if (entry.name.starts_with(data)) storages_.emplace(entry.name.substr(data.size()), entry.bytes);
}

// Five pickles: the magic number, the version, what wrote it, the content, the keys of its storages; then
// each storage after its number of elements.
void TorchFile::read_sequence(std::span<const std::byte> bytes) {
  refuse_lfs_pointer(bytes, source_);
  std::size_t at = 0;
  const auto next = [&] {
    Pickle pickle(bytes.subspan(at), source_);
    at += pickle.bytes_read();
    return pickle;
  };
  constexpr std::string_view kStart("\x80\x02\x8a\x0a", 4);
  require<DataError>(
      text_of(bytes).starts_with(std::string(kStart) + std::string(kMagic)),
      "'{}' ({} bytes) was not written by torch.save: it is neither a zip file nor begins with "
      "PyTorch's magic number",
      source_, bytes.size());
  next();
  const Pickle version = next();
  require<DataError>(version.root().integer() == 1001,
                     "'{}' is of version {} of torch.save's format; 1001 is "
                     "read",
                     source_, version.root().integer());
  const Pickle system = next();
  const auto little = system.root().find("little_endian");
  require<DataError>(!little || little->boolean(),
                     "'{}' was written on a big-endian machine; only little-endian files are read", source_);
  pickle_.emplace(bytes.subspan(at), source_);
  at += pickle_->bytes_read();
  const Pickle keys = next();
  std::unordered_map<std::string_view, const StorageValue*> declared;
  for (const StorageValue& storage : pickle_->storages()) declared.emplace(storage.key, &storage);
  for (std::size_t i = 0; i < keys.root().size(); ++i) {
    const std::string key(keys.root()[i].text());
    const auto storage = declared.find(key);
    require<DataError>(storage != declared.end(), "'{}' holds a storage '{}' that nothing refers to", source_,
                       key);
    require<DataError>(bytes.size() - at >= 8, "'{}' ends before storage '{}' (truncated?)", source_, key);
    std::uint64_t elements = 0;
    for (std::size_t b = 8; b-- > 0;) elements = elements << 8 | static_cast<std::uint64_t>(bytes[at + b]);
    at += 8;
    const std::uint64_t each = storage->second->type->bytes;
    require<DataError>(elements <= (bytes.size() - at) / each,
                       "'{}' ends within storage '{}' of {} elements (truncated?)", source_, key, elements);
    storages_.emplace(key, bytes.subspan(at, static_cast<std::size_t>(elements * each)));
    at += static_cast<std::size_t>(elements * each);
  }
}

std::span<const std::byte> TorchFile::elements(const TensorValue& tensor, std::int64_t begin,
                                               std::int64_t end, std::vector<std::byte>& scratch) const {
  require<InternalError>(0 <= begin && begin <= end && end <= tensor.elements(),
                         "elements [{}, {}) of a tensor of {}", begin, end, tensor.elements());
  if (begin == end) return {};
  const auto storage = storages_.find(std::string(tensor.storage.key));
  const auto declared = static_cast<std::uint64_t>(tensor.storage.elements) * tensor.storage.type->bytes;
  require<DataError>(storage != storages_.end() && storage->second.size() >= declared,
                     "'{}' holds {} bytes of storage '{}', and its pickle declares {}", source_,
                     storage == storages_.end() ? 0 : storage->second.size(), tensor.storage.key, declared);
  const auto from = storage->second.subspan(static_cast<std::size_t>(tensor.offset) * tensor.type->bytes);
  return strided_elements(from, tensor.type->bytes, tensor.shape, tensor.stride, begin, end, scratch);
}

}  // namespace stoa::ckpt::torch

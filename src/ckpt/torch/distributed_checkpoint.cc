#include "ckpt/torch/distributed_checkpoint.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace stoa::ckpt::torch {
namespace {

fs::path metadata_file(const fs::path& directory) { return directory / ".metadata"; }

std::vector<std::int64_t> ints(const Value& list) {
  std::vector<std::int64_t> out;
  for (std::size_t i = 0; i < list.size(); ++i) out.push_back(list[i].integer());
  return out;
}

Value attribute(const Value& object, std::string_view name, const std::string& source) {
  const auto found = object.attribute(name);
  require<DataError>(found.has_value(), "'{}': an object of {} has no '{}'", source, object.class_name(),
                     name);
  return *found;
}

// TensorProperties gives a tuple as its state, older ones a dict.
const ElementType* type_of(const Value& properties, const std::string& source) {
  const auto state = properties.state();
  require<DataError>(state.has_value(), "'{}': a tensor without properties", source);
  const Value dtype = state->is(ValueKind::kTuple) ? (*state)[0] : attribute(properties, "dtype", source);
  std::string_view name = dtype.text();
  constexpr std::string_view kModule = "torch.";
  if (name.starts_with(kModule)) name.remove_prefix(kModule.size());
  const ElementType* type = element_type(name);
  require<DataError>(type != nullptr, "'{}': a tensor of the type {}", source, dtype);
  return type;
}

// Product of sizes that were checked to fit.
std::int64_t product(const std::vector<std::int64_t>& sizes) {
  std::int64_t n = 1;
  for (const auto size : sizes) n *= size;
  return n;
}

std::string key_of(std::string_view name, const std::vector<std::int64_t>& offsets) {
  return fmt::format("{} at {}", name, fmt::join(offsets, ", "));
}

}  // namespace

struct DistributedCheckpoint::Place {
  std::string file;
  std::int64_t offset = 0, length = 0;
};

bool DistributedCheckpoint::exists(const fs::path& directory) {
  std::error_code ignored;
  return fs::is_regular_file(metadata_file(directory), ignored);
}

namespace {

std::shared_ptr<const FileSet> files_of_checkpoint(fs::path directory) {
  require<IoError>(DistributedCheckpoint::exists(directory),
                   "'{}' is not a checkpoint of torch.distributed.checkpoint: it has no "
                   ".metadata (a save that did not end leaves none)",
                   directory.string());
  return std::make_shared<FolderFiles>(std::move(directory));
}

}  // namespace

DistributedCheckpoint::DistributedCheckpoint(fs::path directory)
    : DistributedCheckpoint(files_of_checkpoint(std::move(directory))) {}

DistributedCheckpoint::DistributedCheckpoint(std::shared_ptr<const FileSet> files)
    : TensorSource(files->path()), files_(std::move(files)) {
  const std::string source = metadata_file(directory()).string();
  const Pickle pickle(files_->at(".metadata"), source);
  const Value root = pickle.root();

  std::unordered_map<std::string, Place> places;
  const Value storage = attribute(root, "storage_data", source);
  for (std::size_t i = 0; i < storage.size(); ++i) {
    const Value index = storage.key(i), info = storage.value(i);
    const auto offsets = index.attribute("offset");
    if (!offsets || offsets->is(ValueKind::kNone)) continue;  // an object, not a tensor's part
    if (const auto transforms = info.attribute("transform_descriptors"))
      require<DataError>(transforms->is(ValueKind::kNone) || transforms->size() == 0,
                         "'{}': the parts of '{}' are compressed or otherwise transformed, which is not read",
                         source, attribute(index, "fqn", source).text());
    Place place{std::string(attribute(info, "relative_path", source).text()),
                attribute(info, "offset", source).integer(), attribute(info, "length", source).integer()};
    places.insert_or_assign(key_of(attribute(index, "fqn", source).text(), ints(*offsets)), std::move(place));
  }

  std::string missing;
  const Value all = attribute(root, "state_dict_metadata", source);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string name(all.key(i).text());
    const Value item = all.value(i);
    const bool is_tensor = item.class_name().ends_with(".TensorStorageMetadata");
    const ElementType* type = is_tensor ? type_of(attribute(item, "properties", source), source) : nullptr;
    if (!type || !type->stored) {
      other_items_.push_back(name);
      continue;
    }
    Tensor tensor;
    tensor.entry.name = name;
    tensor.entry.type = *type->stored;
    tensor.entry.shape = ints(attribute(item, "size", source));
    const Value chunks = attribute(item, "chunks", source);
    for (std::size_t c = 0; c < chunks.size(); ++c) {
      Part part;
      part.offsets = ints(attribute(chunks[c], "offsets", source));
      part.sizes = ints(attribute(chunks[c], "sizes", source));
      const auto place = places.find(key_of(name, part.offsets));
      require<DataError>(place != places.end(), "'{}' does not say where '{}' lies", source,
                         key_of(name, part.offsets));
      part.source = fmt::format("{} ({})", (directory() / place->second.file).string(), place->first);
      try {
        part.bytes = file_part(place->second.file, place->second.offset, place->second.length);
      } catch (const IoError&) {
        missing += fmt::format("\n  {}", place->second.file);
      }
      tensor.parts.push_back(std::move(part));
    }
    check_parts(tensor);
    tensors_.emplace(name, std::move(tensor));
  }
  require<IoError>(missing.empty(), "'{}' names files that cannot be read:{}", source, missing);

  std::vector<const TensorEntry*> entries;
  for (const auto& [name, tensor] : tensors_) entries.push_back(&tensor.entry);
  set_entries(std::move(entries));
  std::sort(other_items_.begin(), other_items_.end());
}

std::span<const std::byte> DistributedCheckpoint::file_part(const std::string& file, std::int64_t offset,
                                                            std::int64_t length) {
  require<DataError>(
      !file.empty() && file.find('/') == file.npos && file.find('\0') == file.npos && file != "..",
      "'{}' names the file '{}': only files of its own directory are allowed",
      metadata_file(directory()).string(), file);
  const auto bytes = files_->at(file);
  used_files_.insert(file);
  const auto size = static_cast<std::int64_t>(bytes.size());
  require<DataError>(0 <= offset && 0 <= length && offset <= size && length <= size - offset,
                     "'{}' is {} bytes long, and bytes [{}, {}) of it are to be read (truncated?)",
                     (directory() / file).string(), size, offset, offset + length);
  return bytes.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(length));
}

void DistributedCheckpoint::check_parts(const Tensor& tensor) const {
  const auto& shape = tensor.entry.shape;
  const auto check = [&](bool condition) {
    require<DataError>(condition, "'{}': the parts of tensor '{}' do not make up its shape {}",
                       metadata_file(directory()).string(), tensor.entry.name, tensor.entry.shape_text());
  };
  std::int64_t elements = static_cast<std::int64_t>(size_of(tensor.entry.type));
  for (const auto size : shape) check(size >= 0 && !__builtin_mul_overflow(elements, size, &elements));
  std::int64_t held = 0;
  for (const Part& part : tensor.parts) {
    check(part.offsets.size() == shape.size() && part.sizes.size() == shape.size());
    for (std::size_t d = 0; d < shape.size(); ++d)
      check(0 <= part.offsets[d] && 0 <= part.sizes[d] && part.offsets[d] <= shape[d] &&
            part.sizes[d] <= shape[d] - part.offsets[d]);
    check(!__builtin_add_overflow(held, product(part.sizes), &held));
  }
  check(held == product(shape));
}

const TensorValue& DistributedCheckpoint::tensor_of(const TorchFile& file, const Tensor& tensor,
                                                    const Part& part) const {
  const TensorValue& value = file.root().tensor();
  require<DataError>(value.shape == part.sizes && value.type->stored == tensor.entry.type,
                     "'{}' holds a tensor [{}] of type {}, and the metadata says [{}] of type {}",
                     part.source, fmt::join(value.shape, ", "), value.type->name, fmt::join(part.sizes, ", "),
                     name_of(tensor.entry.type));
  return value;
}

std::span<const std::byte> DistributedCheckpoint::elements(const TensorEntry& entry, std::int64_t begin,
                                                           std::int64_t end,
                                                           std::vector<std::byte>& scratch) const {
  const Tensor& tensor = tensors_.at(entry.name);
  const auto& shape = entry.shape;
  const std::size_t each = size_of(entry.type);
  require<InternalError>(0 <= begin && begin <= end && end <= entry.elements(),
                         "elements [{}, {}) of tensor '{}' {}", begin, end, entry.name, entry.shape_text());
  if (begin == end) return {};
  std::vector<std::int64_t> stride(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) stride[d - 1] = stride[d] * shape[d];

  std::int64_t found = 0;
  std::vector<std::byte> pieces;
  for (const Part& part : tensor.parts) {
    // The part's elements are runs of the tensor: its last dimensions as far as they are whole, and one
    // more.
    std::size_t outer = shape.size();
    std::int64_t run = 1;
    while (outer > 0) {
      run *= part.sizes[--outer];
      if (part.sizes[outer] != shape[outer]) break;
    }
    if (run == 0 || product(part.sizes) == 0) continue;
    std::int64_t base = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) base += part.offsets[d] * stride[d];
    // The rows of the first dimension that reach into the range.
    std::int64_t first = 0, last = outer > 0 ? part.sizes[0] : 1;
    if (outer > 0) {
      first = std::clamp<std::int64_t>(begin / stride[0] - part.offsets[0], 0, last);
      last = std::clamp<std::int64_t>((end - 1) / stride[0] - part.offsets[0] + 1, first, last);
    }
    std::int64_t rows = 1;  // runs per index of the first dimension
    for (std::size_t d = 1; d < outer; ++d) rows *= part.sizes[d];
    const TorchFile* file = nullptr;
    const TensorValue* value = nullptr;
    for (std::int64_t row = first * rows; row < last * rows; ++row) {
      std::int64_t at = base, rest = row;
      for (std::size_t d = outer; d-- > 0;) {
        at += rest % part.sizes[d] * stride[d];
        rest /= part.sizes[d];
      }
      const std::int64_t from = std::max(begin, at), to = std::min(end, at + run);
      if (from >= to) continue;
      if (!file) {
        file = &opened(part);
        value = &tensor_of(*file, tensor, part);
      }
      const auto piece = file->elements(*value, row * run + from - at, row * run + to - at, pieces);
      if (to - from == end - begin && pieces.empty()) return piece;  // on the map, in one piece
      if (found == 0) scratch.resize(std::max(scratch.size(), static_cast<std::size_t>(end - begin) * each));
      std::memcpy(scratch.data() + static_cast<std::size_t>(from - begin) * each, piece.data(), piece.size());
      found += to - from;
    }
  }
  require<DataError>(found == end - begin, "'{}': the parts of tensor '{}' overlap", directory().string(),
                     entry.name);
  return std::span(scratch).first(static_cast<std::size_t>(end - begin) * each);
}

const TorchFile& DistributedCheckpoint::opened(const Part& part) const {
  const std::lock_guard lock(opening_);
  auto& file = opened_[&part];
  if (!file) file = std::make_unique<const TorchFile>(part.bytes, part.source);
  return *file;
}

bool DistributedCheckpoint::check_sums() const {
  bool all = true;
  for (const auto& [name, tensor] : tensors_)
    for (const Part& part : tensor.parts) {
      const TorchFile file(part.bytes, part.source);
      tensor_of(file, tensor, part);
      all = file.check_sums() && all;
    }
  return all;
}

}  // namespace stoa::ckpt::torch

#include "ckpt/safetensors_writer.h"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "ckpt/convert.h"
#include "ckpt/crc32.h"
#include "ckpt/shard_io.h"

namespace stoa::ckpt {
namespace {

constexpr std::int64_t kChunkElements = 1 << 20;  // converted at a time

fs::path temporary_name(const fs::path& path, WriteMode placement) {
  if (placement != WriteMode::kAtomic) return path;
  fs::path out = path;
  out += fmt::format(".tmp-{}-0", ::getpid());  // as an AtomicFile's
  return out;
}

}  // namespace

SafetensorsLayout::SafetensorsLayout(std::vector<TensorEntry> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : tensors_(std::move(tensors)) {
  std::sort(tensors_.begin(), tensors_.end(), [](const TensorEntry& a, const TensorEntry& b) {
    const auto wide_a = size_of(a.type), wide_b = size_of(b.type);
    return wide_a != wide_b ? wide_a > wide_b : a.name < b.name;
  });
  std::unordered_map<std::string, int> seen;
  using Entry = nlohmann::ordered_json::object_t::value_type;
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  // The list that the object is: the object itself would look through all of it for each name.
  std::vector<Entry>& entries = header.get_ref<nlohmann::ordered_json::object_t&>();
  for (auto& tensor : tensors_) {
    require<InternalError>(++seen[tensor.name] == 1 && tensor.name != "__metadata__",
                           "tensor '{}' would be written twice", tensor.name);
    tensor.begin = data_bytes_;
    tensor.end = data_bytes_ += tensor.bytes();
    entries.emplace_back(tensor.name, nlohmann::ordered_json{{"dtype", name_of(tensor.type)},
                                                             {"shape", tensor.shape},
                                                             {"data_offsets", {tensor.begin, tensor.end}}});
  }
  std::string json = header.dump();
  json.append((8 - json.size() % 8) % 8, ' ');
  require<InternalError>(json.size() <= SafetensorsHeader::kMaxHeaderBytes,
                         "a header of {} bytes is more than readers accept; write more shards", json.size());
  for (int i = 0; i < 8; ++i) header_.push_back(static_cast<char>(json.size() >> (8 * i) & 0xff));
  header_ += json;
}

SafetensorsWriter::SafetensorsWriter(fs::path path, SafetensorsLayout layout, WriteMode placement)
    : path_(std::move(path)),
      temporary_(temporary_name(path_, placement)),
      placement_(placement),
      layout_(std::move(layout)),
      written_(std::make_unique<std::atomic<std::int64_t>[]>(layout_.tensors().size())),
      file_(temporary_, layout_.file_bytes()) {
  for (std::size_t i = 0; i < layout_.tensors().size(); ++i) index_.emplace(layout_.tensors()[i].name, i);
  file_.write_at(0, layout_.header().data(), layout_.header().size());
  sum(0, std::as_bytes(std::span(layout_.header())));
}

SafetensorsWriter::~SafetensorsWriter() {
  if (!committed_ && placement_ == WriteMode::kAtomic) ::unlink(temporary_.c_str());
}

std::size_t SafetensorsWriter::index_of(const std::string& name) const {
  const auto it = index_.find(name);
  require<InternalError>(it != index_.end(), "tensor '{}' was not declared for '{}'", name, path_.string());
  return it->second;
}

void SafetensorsWriter::write_bytes_at(std::uint64_t offset, const std::byte* data, std::size_t bytes) {
  if (placement_ == WriteMode::kJoint) {
    file_.write_at(offset, data, bytes);
    crc_ ^= crc32_part(crc32({data, bytes}), layout_.file_bytes() - offset - bytes);
    return;
  }
  constexpr std::size_t kPiece = 256 << 10;  // summed while it is in the processor's cache
  for (std::size_t done = 0; done < bytes; done += kPiece) {
    const std::size_t count = std::min(kPiece, bytes - done);
    file_.write_at(offset + done, data + done, count);
    sum(offset + done, {data + done, count});
  }
}

void SafetensorsWriter::sum(std::uint64_t offset, std::span<const std::byte> bytes) {
  const std::lock_guard lock(summing_);
  if (offset != summed_) return;
  sum_.add(bytes);
  summed_ += bytes.size();
}

std::optional<std::uint64_t> SafetensorsWriter::checksum() const {
  if (!committed_ || summed_ != layout_.file_bytes()) return std::nullopt;
  return sum_.value();
}

std::uint32_t SafetensorsWriter::crc_of_header() const {
  const std::string& header = layout_.header();
  return crc32_part(crc32(std::as_bytes(std::span(header))), layout_.file_bytes() - header.size());
}

void SafetensorsWriter::write_run(std::size_t index, std::int64_t element, const std::byte* data, DType type,
                                  std::int64_t count) {
  const TensorEntry& entry = layout_.tensors()[index];
  const std::size_t width = size_of(entry.type);
  const std::uint64_t offset =
      layout_.header().size() + entry.begin + static_cast<std::uint64_t>(element) * width;
  if (storage_type(type) == entry.type) {
    write_bytes_at(offset, data, static_cast<std::size_t>(count) * width);
  } else {
    const auto target = memory_type(entry.type);
    require<InternalError>(target.has_value(), "tensor '{}' of {} can only be written as bytes", entry.name,
                           name_of(entry.type));
    std::vector<std::byte> chunk(static_cast<std::size_t>(std::min(count, kChunkElements)) * width);
    for (std::int64_t done = 0; done < count; done += kChunkElements) {
      const std::int64_t n = std::min(kChunkElements, count - done);
      convert_elements(data + static_cast<std::size_t>(done) * stoa::size_of(type), type, chunk.data(),
                       *target, n);
      write_bytes_at(offset + static_cast<std::uint64_t>(done) * width, chunk.data(),
                     static_cast<std::size_t>(n) * width);
    }
  }
  written_[index] += count;
}

void SafetensorsWriter::write(const std::string& name, const TensorView& tensor) {
  write(ShardSpec::whole(name, tensor.shape).pieces.front(), tensor);
}

void SafetensorsWriter::write(const ShardPiece& piece, const TensorView& local,
                              const std::optional<FlatRange>& flat) {
  const std::size_t index = index_of(piece.name);
  TensorSpec spec;
  spec.shape = piece.global;
  require<ShapeError>(entry_of(spec).shape == layout_.tensors()[index].shape,
                      "tensor '{}' was declared as {}, written as {}", piece.name,
                      layout_.tensors()[index].shape_text(), piece.global.text());
  for_each_run(piece, local.shape, local.stride0, flat, [&](const ElementRun& run) {
    write_run(index, run.file, static_cast<const std::byte*>(local.byte_offset(run.memory)), local.dtype,
              run.count);
  });
}

void SafetensorsWriter::write_bytes(const std::string& name, std::span<const std::byte> bytes) {
  const TensorEntry& entry = layout_.tensors()[index_of(name)];
  require<ShapeError>(bytes.size() == entry.bytes(), "tensor '{}' takes {} bytes, got {}", name,
                      entry.bytes(), bytes.size());
  write_elements(name, 0, bytes);
}

void SafetensorsWriter::write_elements(const std::string& name, std::int64_t begin,
                                       std::span<const std::byte> bytes) {
  const std::size_t index = index_of(name);
  const TensorEntry& entry = layout_.tensors()[index];
  const std::size_t width = size_of(entry.type);
  const std::uint64_t offset = static_cast<std::uint64_t>(begin) * width;
  require<ShapeError>(begin >= 0 && bytes.size() % width == 0 && offset <= entry.bytes() &&
                          bytes.size() <= entry.bytes() - offset,
                      "{} bytes at element {} are not within tensor '{}' of {} bytes", bytes.size(), begin,
                      name, entry.bytes());
  write_bytes_at(layout_.header().size() + entry.begin + offset, bytes.data(), bytes.size());
  written_[index] += static_cast<std::int64_t>(bytes.size() / width);
}

void SafetensorsWriter::commit() {
  if (placement_ != WriteMode::kJoint) {
    std::string wrong;
    for (std::size_t i = 0; i < layout_.tensors().size(); ++i) {
      const TensorEntry& entry = layout_.tensors()[i];
      if (written_[i] != entry.elements())
        wrong += fmt::format("\n  '{}': {} of {} elements", entry.name, written_[i].load(), entry.elements());
    }
    require<InternalError>(wrong.empty(), "'{}' is not complete:{}", path_.string(), wrong);
  }
  file_.sync();
  if (placement_ == WriteMode::kAtomic) fs::rename(temporary_, path_);
  file_.close();
  if (placement_ == WriteMode::kAtomic) sync_directory(path_.parent_path());
  committed_ = true;
}

}  // namespace stoa::ckpt

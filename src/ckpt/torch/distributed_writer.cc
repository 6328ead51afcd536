#include "ckpt/torch/distributed_writer.h"

#include <zlib.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/file.h"
#include "ckpt/convert.h"
#include "ckpt/torch/torch_writer.h"

namespace stoa::ckpt::torch {
namespace {

constexpr std::string_view kMetadataModule = "torch.distributed.checkpoint.metadata";
constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;  // of a block

std::int64_t number_in(const std::vector<std::int64_t>& sizes) {
  std::int64_t n = 1;
  for (const auto size : sizes) n *= size;
  return n;
}

// Pieces of a block along its first dimension of more than one.
std::vector<WrittenPart> split(const WrittenPart& part, StorageType type) {
  std::size_t along = 0;
  while (along + 1 < part.sizes.size() && part.sizes[along] == 1) ++along;
  const std::int64_t bytes = number_in(part.sizes) * static_cast<std::int64_t>(size_of(type));
  if (bytes <= kMostBytes || part.sizes.empty()) return {part};
  const std::int64_t rows = part.sizes[along], row = number_in(part.sizes) / rows;
  const std::int64_t step = std::max<std::int64_t>(1, rows * kMostBytes / bytes);
  std::vector<WrittenPart> out;
  for (std::int64_t first = 0; first < rows; first += step) {
    WrittenPart piece = part;
    piece.offsets[along] += first;
    piece.sizes[along] = std::min(step, rows - first);
    piece.begin += first * row;
    out.push_back(std::move(piece));
  }
  return out;
}

// Where a block or object lies.
struct Written {
  std::string name;
  std::vector<std::int64_t> offsets;
  bool object = false;
  std::string file;
  std::uint64_t offset = 0, bytes = 0;
};

class PartsWriter {
 public:
  PartsWriter(const fs::path& directory, std::uint64_t max_file_bytes)
      : directory_(directory), max_file_bytes_(max_file_bytes) {}

  void object(const std::string& name) {
    PickleWriter list;  // of the objects under that name
    const std::string text = torch_file_of(list.begin_list().none().end_list().finish());
    open(text.size());
    written.push_back({name, {}, true, name_, file_->size(), text.size()});
    file_->write(text);
  }

  void block(const WrittenTensor& tensor, const WrittenPart& part,
             const std::function<void(std::uint64_t)>& advance) {
    constexpr std::int64_t kPiece = 1 << 22;  // elements
    TensorFileFrame frame(tensor.type, part.sizes);
    open(frame.bytes());
    const std::uint64_t at = file_->size();
    file_->write(frame.head(0));
    const auto from = memory_type(part.tensor->type), to = memory_type(tensor.type);
    std::uint32_t crc = static_cast<std::uint32_t>(::crc32(0, nullptr, 0));
    std::vector<std::byte> scratch, converted;
    const std::int64_t elements = number_in(part.sizes);
    for (std::int64_t done = 0; done < elements; done += kPiece) {
      const std::int64_t n = std::min(kPiece, elements - done);
      auto bytes = part.source->elements(*part.tensor, part.begin + done, part.begin + done + n, scratch);
      if (part.tensor->type != tensor.type) {
        converted.resize(static_cast<std::size_t>(n) * size_of(tensor.type));
        convert_elements(bytes.data(), *from, converted.data(), *to, n);
        bytes = converted;
      }
      crc = static_cast<std::uint32_t>(
          ::crc32(crc, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
      file_->write(bytes.data(), bytes.size());
      advance(bytes.size());
    }
    file_->write(frame.tail(crc));
    const std::string& head = frame.head(crc);
    file_->write_at(at, head.data(), head.size());
    written.push_back({tensor.name, part.offsets, false, name_, at, file_->size() - at});
  }

  void finish() {
    if (file_) file_->commit();
    file_.reset();
  }

  std::vector<Written> written;

 private:
  void open(std::uint64_t bytes) {
    if (file_ && file_->size() > 0 && file_->size() + bytes > max_file_bytes_) finish();
    if (file_) return;
    name_ = fmt::format("__0_{}.distcp", number_++);
    file_ = std::make_unique<AtomicFile>(directory_ / name_);
  }

  const fs::path directory_;
  const std::uint64_t max_file_bytes_;
  int number_ = 0;
  std::string name_;
  std::unique_ptr<AtomicFile> file_;
};

void write_size(PickleWriter& pickle, const std::vector<std::int64_t>& sizes) {
  pickle.global("torch", "Size").begin_tuple().integers(sizes).end_tuple().call();
}

PickleWriter& new_object(PickleWriter& pickle, std::string_view module, std::string_view name) {
  return pickle.global(module, name).begin_tuple().end_tuple().object();
}

// torch.distributed.checkpoint.metadata.TensorProperties: dtype, layout, requires_grad, memory format,
// pinned.
void write_properties(PickleWriter& pickle, StorageType type) {
  new_object(pickle, kMetadataModule, "TensorProperties").begin_tuple();
  pickle.global("torch", torch_dtype_name(type));
  pickle.global("torch.serialization", "_get_layout").begin_tuple().text("torch.strided").end_tuple().call();
  pickle.boolean(false);
  pickle.global(kMetadataModule, "_MEM_FORMAT_ENCODING").begin_tuple().integer(0).end_tuple().call();
  pickle.boolean(false).end_tuple().state();
}

std::string metadata_text(const std::vector<WrittenTensor>& tensors, const std::vector<Written>& written) {
  PickleWriter pickle;
  new_object(pickle, kMetadataModule, "Metadata").begin_dict();
  pickle.text("state_dict_metadata").begin_dict();
  for (const WrittenTensor& tensor : tensors) {
    pickle.text(tensor.name);
    new_object(pickle, kMetadataModule, "TensorStorageMetadata").begin_dict();
    pickle.text("properties");
    write_properties(pickle, tensor.type);
    pickle.text("size");
    write_size(pickle, tensor.shape);
    pickle.text("chunks").begin_list();
    for (const WrittenPart& part : tensor.parts) {
      new_object(pickle, kMetadataModule, "ChunkStorageMetadata").begin_dict();
      pickle.text("offsets");
      write_size(pickle, part.offsets);
      pickle.text("sizes");
      write_size(pickle, part.sizes);
      pickle.end_dict().state();
    }
    pickle.end_list().end_dict().state();
  }
  for (const Written& place : written)
    if (place.object) new_object(pickle.text(place.name), kMetadataModule, "BytesStorageMetadata");
  pickle.end_dict();
  pickle.text("planner_data").none();
  pickle.text("storage_data").begin_dict();
  for (const Written& place : written) {
    new_object(pickle, kMetadataModule, "MetadataIndex").begin_dict();
    pickle.text("fqn").text(place.name);
    if (!place.object) {
      pickle.text("offset");
      write_size(pickle, place.offsets);
    }
    pickle.text("index").none().end_dict().state();
    new_object(pickle, "torch.distributed.checkpoint.filesystem", "_StorageInfo").begin_dict();
    pickle.text("relative_path").text(place.file);
    pickle.text("offset").integer(static_cast<std::int64_t>(place.offset));
    pickle.text("length").integer(static_cast<std::int64_t>(place.bytes)).end_dict().state();
  }
  pickle.end_dict();
  pickle.text("storage_meta").none();
  pickle.end_dict().state();
  return pickle.finish();
}

}  // namespace

void write_distributed(const fs::path& directory, const std::vector<WrittenTensor>& given,
                       const std::vector<std::string>& empty_objects, std::uint64_t max_file_bytes,
                       const ExportProgress& progress) {
  std::vector<WrittenTensor> tensors = given;
  std::uint64_t total = 0, done = 0;
  for (WrittenTensor& tensor : tensors) {
    std::vector<WrittenPart> parts;
    for (const WrittenPart& part : tensor.parts)
      for (WrittenPart& piece : split(part, tensor.type)) parts.push_back(std::move(piece));
    tensor.parts = std::move(parts);
    total += static_cast<std::uint64_t>(number_in(tensor.shape)) * size_of(tensor.type);
  }
  PartsWriter writer(directory, max_file_bytes);
  for (const WrittenTensor& tensor : tensors)
    for (const WrittenPart& part : tensor.parts)
      writer.block(tensor, part, [&](std::uint64_t bytes) {
        done += bytes;
        if (progress) progress(done, total);
      });
  for (const std::string& name : empty_objects) writer.object(name);
  writer.finish();
  write_text(directory / ".metadata", metadata_text(tensors, writer.written));
}

}  // namespace stoa::ckpt::torch

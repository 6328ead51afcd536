#include "formats/gguf/gguf_writer.h"

#include <set>

#include "base/error.h"

namespace stoa::gguf {
namespace {

void put_bits(std::string& out, std::uint64_t bits, std::size_t bytes) {
  out.append(reinterpret_cast<const char*>(&bits), bytes);
}
void put_u32(std::string& out, std::uint32_t value) { put_bits(out, value, 4); }
void put_u64(std::string& out, std::uint64_t value) { put_bits(out, value, 8); }
void put_text(std::string& out, const std::string& text) {
  put_u64(out, text.size());
  out += text;
}

void put_value(std::string& out, const Value& value) {
  put_u32(out, static_cast<std::uint32_t>(value.type()));
  ValueType scalar = value.type();
  if (value.is_array()) {
    scalar = value.element();
    put_u32(out, static_cast<std::uint32_t>(scalar));
    put_u64(out, value.size());
  }
  for (std::size_t i = 0; i < value.size(); ++i)
    if (scalar == ValueType::kText)
      put_text(out, *value.text_at(i));
    else
      put_bits(out, value.bits(i), bytes_of(scalar));
}

}  // namespace

std::uint64_t NewTensor::bytes() const {
  std::uint64_t numbers = 1;
  for (const std::int64_t size : shape) numbers *= static_cast<std::uint64_t>(size);
  return numbers / static_cast<std::uint64_t>(format->numbers) * static_cast<std::uint64_t>(format->bytes);
}

std::string header(std::uint32_t version, const Keys& keys, const std::vector<NewTensor>& tensors,
                   std::uint64_t alignment) {
  std::string out;
  put_u32(out, kMagic);
  put_u32(out, version);
  put_u64(out, tensors.size());
  put_u64(out, keys.size());
  for (const auto& [key, value] : keys) {
    put_text(out, key);
    put_value(out, value);
  }
  std::uint64_t offset = 0;
  std::set<std::string> names;
  for (const NewTensor& tensor : tensors) {
    require<DataError>(
        tensor.name.size() <= kLongestName && names.insert(tensor.name).second,
        "tensor '{}' cannot be in a GGUF file: its name is there twice or longer than {} bytes", tensor.name,
        kLongestName);
    require<DataError>(
        !tensor.shape.empty() && tensor.shape.size() <= kMaxRank &&
            tensor.shape.back() % tensor.format->numbers == 0,
        "tensor '{}' cannot be {} in a GGUF file: rows are whole blocks of {}, at most {} dimensions",
        tensor.name, tensor.format->name, tensor.format->numbers, kMaxRank);
    put_text(out, tensor.name);
    put_u32(out, static_cast<std::uint32_t>(tensor.shape.size()));
    for (std::size_t i = tensor.shape.size(); i-- > 0;)
      put_u64(out, static_cast<std::uint64_t>(tensor.shape[i]));
    put_u32(out, static_cast<std::uint32_t>(tensor.format->type));
    put_u64(out, offset);
    offset = padded(offset + tensor.bytes(), alignment);
  }
  out.resize(static_cast<std::size_t>(padded(out.size(), alignment)), '\0');
  return out;
}

Writer::Writer(fs::path path, const Keys& keys, std::vector<NewTensor> tensors, std::uint64_t alignment,
               std::uint32_t version)
    : tensors_(std::move(tensors)), alignment_(alignment), file_(std::move(path)) {
  const std::string text = header(version, keys, tensors_, alignment_);
  file_bytes_ = text.size();
  for (const NewTensor& tensor : tensors_) file_bytes_ += padded(tensor.bytes(), alignment_);
  file_.write(text);
}

void Writer::append(std::span<const std::byte> bytes) {
  require<InternalError>(tensor_ < tensors_.size() && written_ + bytes.size() <= tensors_[tensor_].bytes(),
                         "more bytes than the tensors of a GGUF file have");
  file_.write(bytes.data(), bytes.size());
  written_ += bytes.size();
  if (written_ < tensors_[tensor_].bytes()) return;
  const std::string padding(static_cast<std::size_t>(padded(written_, alignment_) - written_), '\0');
  file_.write(padding);
  ++tensor_;
  written_ = 0;
}

void Writer::commit() {
  require<InternalError>(tensor_ == tensors_.size(), "tensor '{}' of a GGUF file is not complete",
                         tensor_ < tensors_.size() ? tensors_[tensor_].name : "");
  file_.commit();
}

}  // namespace stoa::gguf

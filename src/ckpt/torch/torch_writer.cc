#include "ckpt/torch/torch_writer.h"

#include <fmt/format.h>
#include <zlib.h>

#include "base/error.h"

namespace stoa::ckpt::torch {
namespace {

constexpr std::size_t kAlignment = 64;  // of elements in the file, as torch.save aligns them

struct TorchTypeName {
  StorageType type;
  std::string_view dtype, storage;
};
constexpr TorchTypeName kTypeNames[] = {
    {StorageType::kF64, "float64", "DoubleStorage"}, {StorageType::kF32, "float32", "FloatStorage"},
    {StorageType::kF16, "float16", "HalfStorage"},   {StorageType::kBF16, "bfloat16", "BFloat16Storage"},
    {StorageType::kI64, "int64", "LongStorage"},     {StorageType::kI32, "int32", "IntStorage"},
    {StorageType::kI16, "int16", "ShortStorage"},    {StorageType::kI8, "int8", "CharStorage"},
    {StorageType::kU8, "uint8", "ByteStorage"},      {StorageType::kBool, "bool", "BoolStorage"}};

const TorchTypeName& names_of(StorageType type) {
  for (const TorchTypeName& names : kTypeNames)
    if (names.type == type) return names;
  fail<DataError>("PyTorch's checkpoints hold no tensor of type {}", name_of(type));
}

void put(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

std::uint32_t crc_of(std::string_view bytes) {
  return static_cast<std::uint32_t>(
      ::crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
}

// An archive of stored files, one after the other.
class ZipText {
 public:
  // Adds a file whose bytes are not here: they are expected after what was written so far.
  void begin(const std::string& name, std::uint64_t bytes, std::uint32_t crc) {
    require<InternalError>(bytes < 0xffffffff,
                           "a part of {} bytes is larger than a zip archive without "
                           "extensions holds",
                           bytes);
    Entry entry{name, bytes, crc, offset_ + text.size(), 0};
    std::string header;
    put(header, 0x04034b50, 4);
    put(header, 20, 2);      // version
    put(header, 0x0800, 2);  // names are UTF-8
    put(header, 0, 2);       // stored
    put(header, 0, 4);       // no time
    entry.crc_at = text.size() + header.size();
    put(header, crc, 4);
    put(header, bytes, 4);
    put(header, bytes, 4);
    put(header, name.size(), 2);
    // An extra field of PyTorch's name, which fills up to the alignment.
    const std::size_t unpadded = static_cast<std::size_t>(entry.offset) + header.size() + 2 + name.size() + 4;
    const std::size_t padding = (kAlignment - unpadded % kAlignment) % kAlignment;
    put(header, padding + 4, 2);
    header += name + "FB";
    put(header, padding, 2);
    header.append(padding, 'Z');
    text += header;
    entries_.push_back(entry);
  }
  void add(const std::string& name, const std::string& content) {
    begin(name, content.size(), crc_of(content));
    text += content;
  }
  // The bytes of the last file begun were written elsewhere.
  void skip(std::uint64_t bytes) { offset_ += bytes; }

  // Returns where the checksum of the entry `patched` stands in the directory.
  std::size_t finish(std::size_t patched) {
    const std::uint64_t begin = offset_ + text.size();
    std::size_t place = 0;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const Entry& entry = entries_[i];
      put(text, 0x02014b50, 4);
      put(text, 0, 2);
      put(text, 20, 2);
      put(text, 0x0800, 2);
      put(text, 0, 2);
      put(text, 0, 4);
      if (i == patched) place = text.size();
      put(text, entry.crc, 4);
      put(text, entry.bytes, 4);
      put(text, entry.bytes, 4);
      put(text, entry.name.size(), 2);
      put(text, 0, 8);  // no extra field, no comment, first disk, no attributes
      put(text, 0, 4);
      put(text, entry.offset, 4);
      text += entry.name;
    }
    const std::uint64_t end = offset_ + text.size();
    put(text, 0x06054b50, 4);
    put(text, 0, 4);
    put(text, entries_.size(), 2);
    put(text, entries_.size(), 2);
    put(text, end - begin, 4);
    put(text, begin, 4);
    put(text, 0, 2);
    return place;
  }
  std::size_t crc_of_last() const { return entries_.back().crc_at; }

  std::string text;

 private:
  struct Entry {
    std::string name;
    std::uint64_t bytes;
    std::uint32_t crc;
    std::uint64_t offset;
    std::size_t crc_at;
  };
  std::vector<Entry> entries_;
  std::uint64_t offset_ = 0;
};

void patch(std::string& text, std::size_t at, std::uint32_t crc) {
  std::string bytes;
  put(bytes, crc, 4);
  text.replace(at, bytes.size(), bytes);
}

}  // namespace

std::string_view torch_dtype_name(StorageType type) { return names_of(type).dtype; }

void write_tensor_value(PickleWriter& pickle, StorageType type, const std::vector<std::int64_t>& shape,
                        int storage) {
  std::int64_t elements = 1;
  std::vector<std::int64_t> stride(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 0;) {
    stride[d] = elements;
    elements *= shape[d];
  }
  pickle.global("torch._utils", "_rebuild_tensor_v2").begin_tuple();
  pickle.begin_tuple().text("storage").global("torch", names_of(type).storage).text(std::to_string(storage));
  pickle.text("cpu").integer(elements).end_tuple().persistent();
  pickle.integer(0).integers(shape).integers(stride).boolean(false);
  pickle.global("collections", "OrderedDict").begin_tuple().end_tuple().call();
  pickle.end_tuple().call();
}

std::string torch_file_of(const std::string& pickle) {
  ZipText zip;
  zip.add("archive/data.pkl", pickle);
  zip.add("archive/byteorder", "little");
  zip.add("archive/version", "3\n");
  zip.finish(0);
  return std::move(zip.text);
}

TensorFileFrame::TensorFileFrame(StorageType type, const std::vector<std::int64_t>& shape) {
  PickleWriter pickle;
  write_tensor_value(pickle, type, shape, 0);
  elements_ = size_of(type);
  for (const auto size : shape) elements_ *= static_cast<std::uint64_t>(size);
  ZipText zip;
  zip.add("archive/data.pkl", pickle.finish());
  zip.add("archive/byteorder", "little");
  zip.add("archive/version", "3\n");
  zip.begin("archive/data/0", elements_, 0);
  crc_in_head_ = zip.crc_of_last();
  head_ = std::move(zip.text);
  zip.text.clear();
  zip.skip(head_.size() + elements_);
  constexpr std::size_t kData = 3;  // its number in the archive
  crc_in_tail_ = zip.finish(kData);
  tail_ = std::move(zip.text);
}

const std::string& TensorFileFrame::head(std::uint32_t crc) {
  patch(head_, crc_in_head_, crc);
  return head_;
}
const std::string& TensorFileFrame::tail(std::uint32_t crc) {
  patch(tail_, crc_in_tail_, crc);
  return tail_;
}

}  // namespace stoa::ckpt::torch

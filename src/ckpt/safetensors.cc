#include "ckpt/safetensors.h"

#include <fmt/ranges.h>
#include <simdjson.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <unordered_set>

#include "base/error.h"
#include "base/lfs_pointer.h"

namespace stoa::ckpt {
namespace {

namespace dom = simdjson::dom;
constexpr std::size_t kMaxRank = 64;

class HeaderParser {
 public:
  explicit HeaderParser(std::string_view source) : source_(source) {}

  SafetensorsHeader parse(std::span<const std::byte> file) {
    refuse_lfs_pointer(file, source_);
    check(file.size() >= 8, "is only {} bytes long: a safetensors file starts with 8 bytes of header length",
          file.size());
    std::uint64_t length = 0;
    for (int i = 7; i >= 0; --i)
      length = length << 8 | static_cast<std::uint64_t>(file[static_cast<std::size_t>(i)]);
    check(length <= SafetensorsHeader::kMaxHeaderBytes,
          "claims a header of {} bytes; at most {} are accepted", length, SafetensorsHeader::kMaxHeaderBytes);
    check(length <= file.size() - 8, "claims a header of {} bytes but is only {} bytes long (truncated?)",
          length, file.size());
    const std::string_view text(reinterpret_cast<const char*>(file.data()) + 8, length);
    check(!text.empty() && text.front() == '{', "has a header that does not start with '{{'");

    header_.data_offset = 8 + length;
    parse_json(text);
    check_layout(file.size() - header_.data_offset);
    return std::move(header_);
  }

 private:
  template <class... Args>
  void check(bool condition, fmt::format_string<Args...> format, Args&&... args) const {
    if (!condition) [[unlikely]]
      fail<DataError>("'{}' {}", source_, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class T>
  T value(simdjson::simdjson_result<T> result, std::string_view what) const {
    check(result.error() == simdjson::SUCCESS, "has a damaged header: {}: {}", what,
          simdjson::error_message(result.error()));
    return std::move(result).value_unsafe();
  }

  void parse_json(std::string_view text) {
    const simdjson::padded_string padded(text);
    dom::parser parser;
    const dom::object root = value(parser.parse(padded).get_object(), "JSON");
    std::unordered_set<std::string> seen;
    for (const auto field : root) {
      check(seen.emplace(field.key).second, "names '{}' twice", field.key);
      if (field.key != "__metadata__")
        parse_tensor(field.key, value(field.value.get_object(), field.key));
      else if (!field.value.is_null())  // null: none, as Hugging Face's reader has it
        parse_metadata(value(field.value.get_object(), "__metadata__"));
    }
  }

  void parse_metadata(const dom::object& object) {
    for (const auto field : object) {
      const auto text = value(field.value.get_string(), "__metadata__");
      check(header_.metadata.emplace(field.key, text).second, "names '{}' twice in __metadata__", field.key);
    }
  }

  void parse_tensor(std::string_view name, const dom::object& object) {
    TensorEntry entry;
    entry.name = name;
    bool has_type = false, has_shape = false, has_offsets = false;
    for (const auto field : object) {
      if (field.key == "dtype" && !has_type) {
        const auto text = value(field.value.get_string(), name);
        const auto type = storage_type_from_name(text);
        check(type.has_value(), "has tensor '{}' of unknown type '{}'", name, text);
        entry.type = *type;
        has_type = true;
      } else if (field.key == "shape" && !has_shape) {
        for (const auto item : value(field.value.get_array(), name)) {
          const std::uint64_t d = value(item.get_uint64(), name);
          check(entry.shape.size() < kMaxRank && d <= std::numeric_limits<std::int64_t>::max(),
                "has tensor '{}' of an impossible shape", name);
          entry.shape.push_back(static_cast<std::int64_t>(d));
        }
        has_shape = true;
      } else if (field.key == "data_offsets" && !has_offsets) {
        const auto array = value(field.value.get_array(), name);
        check(array.size() == 2, "has tensor '{}' with {} data offsets instead of 2", name, array.size());
        entry.begin = value(array.at(0).get_uint64(), name);
        entry.end = value(array.at(1).get_uint64(), name);
        has_offsets = true;
      } else {
        check(false, "has tensor '{}' with the field '{}', repeated or not of this format", name, field.key);
      }
    }
    check(has_type && has_shape && has_offsets, "has tensor '{}' without dtype, shape or data_offsets", name);
    check_size(entry);
    header_.tensors.push_back(std::move(entry));
  }

  void check_size(const TensorEntry& entry) const {
    std::uint64_t bytes = size_of(entry.type);
    bool overflow = false;
    for (const auto d : entry.shape)
      overflow = __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(d), &bytes) || overflow;
    overflow = overflow && std::find(entry.shape.begin(), entry.shape.end(), 0) == entry.shape.end();
    check(!overflow && entry.begin <= entry.end && entry.end - entry.begin == bytes_of(entry, bytes),
          "has tensor '{}' of {} {} at bytes [{}, {}), which is not its size", entry.name,
          name_of(entry.type), entry.shape_text(), entry.begin, entry.end);
  }
  static std::uint64_t bytes_of(const TensorEntry& entry, std::uint64_t product) {
    return std::find(entry.shape.begin(), entry.shape.end(), 0) == entry.shape.end() ? product : 0;
  }

  void check_layout(std::uint64_t data_bytes) {
    auto& tensors = header_.tensors;
    std::stable_sort(tensors.begin(), tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    std::uint64_t position = 0;
    for (const auto& entry : tensors) {
      check(entry.begin == position, "has tensor '{}' at byte {} where {} was expected: {}", entry.name,
            entry.begin, position,
            entry.begin < position ? "it overlaps another tensor" : "there is a hole before it");
      position = entry.end;
    }
    check(position == data_bytes, "holds {} bytes of data but its header describes {}{}", data_bytes,
          position, data_bytes < position ? " (truncated?)" : "");
  }

  const std::string_view source_;
  SafetensorsHeader header_;
};

}  // namespace

std::int64_t TensorEntry::elements() const {
  // An empty dimension wins over others whose product would not fit.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::int64_t n = 1;
  for (const auto d : shape) n *= d;
  return n;
}

std::string TensorEntry::shape_text() const { return fmt::format("[{}]", fmt::join(shape, ", ")); }

TensorEntry entry_of(const TensorSpec& spec) {
  TensorEntry entry;
  entry.name = spec.name;
  entry.type = storage_type(spec.dtype);
  for (int i = 0; i < spec.shape.rank(); ++i) entry.shape.push_back(spec.shape[i]);
  return entry;
}

SafetensorsHeader parse_safetensors(std::span<const std::byte> file, std::string_view source) {
  return HeaderParser(source).parse(file);
}

Shape StoredTensor::shape() const {
  require<DataError>(entry.shape.size() <= Shape::kMaxRank,
                     "tensor '{}' has {} dimensions; at most {} are supported", entry.name,
                     entry.shape.size(), Shape::kMaxRank);
  switch (entry.shape.size()) {
    case 0:
      return {};
    case 1:
      return {entry.shape[0]};
    case 2:
      return {entry.shape[0], entry.shape[1]};
    case 3:
      return {entry.shape[0], entry.shape[1], entry.shape[2]};
    default:
      return {entry.shape[0], entry.shape[1], entry.shape[2], entry.shape[3]};
  }
}

DType TensorEntry::dtype() const {
  const auto memory = memory_type(type);
  require<DataError>(memory.has_value(), "tensor '{}' is {}, which has no type in memory", name,
                     name_of(type));
  return *memory;
}

TensorView StoredTensor::view() const {
  const DType type = dtype();
  require<DataError>(reinterpret_cast<std::uintptr_t>(bytes.data()) % stoa::size_of(type) == 0,
                     "tensor '{}' is not aligned in its file: it can be read but not viewed", entry.name);
  return TensorView(const_cast<std::byte*>(bytes.data()), type, shape());
}

SafetensorsFile::SafetensorsFile(const fs::path& path) : path_(path), map_(path) {
  SafetensorsHeader header = parse_safetensors(map_.bytes(), path.string());
  metadata_ = std::move(header.metadata);
  tensors_.reserve(header.tensors.size());
  for (auto& entry : header.tensors) {
    const auto bytes = map_.bytes().subspan(header.data_offset + entry.begin, entry.end - entry.begin);
    index_.emplace(entry.name, tensors_.size());
    tensors_.push_back({std::move(entry), bytes});
  }
}

const StoredTensor* SafetensorsFile::find(std::string_view name) const {
  const auto it = index_.find(std::string(name));
  return it == index_.end() ? nullptr : &tensors_[it->second];
}

}  // namespace stoa::ckpt

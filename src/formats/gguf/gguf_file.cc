#include "formats/gguf/gguf_file.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <fstream>
#include <set>

#include "base/error.h"
#include "base/lfs_pointer.h"
#include "formats/gguf/gguf_writer.h"

namespace stoa::gguf {
namespace {

// Walks over the bytes of a file; a read beyond its end is a DataError.
class Cursor {
 public:
  Cursor(std::span<const std::byte> file, std::string_view source) : file_(file), source_(source) {}

  std::size_t at() const { return at_; }
  std::size_t left() const { return file_.size() - at_; }

  template <class T>
  T take(std::string_view what) {
    need(sizeof(T), what);
    T value;
    std::memcpy(&value, file_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::uint64_t take_bits(std::size_t bytes, std::string_view what) {
    need(bytes, what);
    std::uint64_t bits = 0;
    std::memcpy(&bits, file_.data() + at_, bytes);
    at_ += bytes;
    return bits;
  }
  std::string take_text(std::string_view what) {
    const auto length = take<std::uint64_t>(what);
    need(length, what);
    std::string text(reinterpret_cast<const char*>(file_.data() + at_), static_cast<std::size_t>(length));
    at_ += static_cast<std::size_t>(length);
    return text;
  }
  // `count` things of at least `bytes` each can be in what is left.
  void need_room(std::uint64_t count, std::size_t bytes, std::string_view what) const {
    require<DataError>(count <= left() / bytes, "'{}' is damaged: it announces {} {}, and {} bytes follow",
                       source_, count, what, left());
  }

 private:
  void need(std::uint64_t bytes, std::string_view what) const {
    require<DataError>(bytes <= left(), "'{}' ends within {}: {} bytes are missing", source_, what,
                       bytes - left());
  }

  const std::span<const std::byte> file_;
  const std::string_view source_;
  std::size_t at_ = 0;
};

ValueType take_type(Cursor& cursor, std::string_view source, std::string_view key) {
  const auto type = cursor.take<std::uint32_t>("the type of a value");
  require<DataError>(type <= kLastValueType, "'{}': key '{}' has a value of type {}, which is none of GGUF's",
                     source, key, type);
  return static_cast<ValueType>(type);
}

void require_flag(std::uint64_t bits, ValueType type, std::string_view source, std::string_view key) {
  require<DataError>(type != ValueType::kBool || bits <= 1, "'{}': key '{}' is a bool of value {}", source,
                     key, bits);
}

Value take_value(Cursor& cursor, std::string_view source, std::string_view key) {
  const ValueType type = take_type(cursor, source, key);
  if (type == ValueType::kText) return Value::text(cursor.take_text("a text"));
  if (type != ValueType::kArray) {
    const std::uint64_t bits = cursor.take_bits(bytes_of(type), "a value");
    require_flag(bits, type, source, key);
    return Value::number(type, bits);
  }
  const ValueType element = take_type(cursor, source, key);
  require<DataError>(element != ValueType::kArray, "'{}': key '{}' is an array of arrays, which is not read",
                     source, key);
  const auto count = cursor.take<std::uint64_t>("the size of an array");
  if (element == ValueType::kText) {
    cursor.need_room(count, sizeof(std::uint64_t), "texts");
    std::vector<std::string> texts(static_cast<std::size_t>(count));
    for (auto& text : texts) text = cursor.take_text("an array of texts");
    return Value::texts(std::move(texts));
  }
  cursor.need_room(count, bytes_of(element), "numbers");
  std::vector<std::uint64_t> bits(static_cast<std::size_t>(count));
  for (auto& number : bits) {
    number = cursor.take_bits(bytes_of(element), "an array");
    require_flag(number, element, source, key);
  }
  return Value::numbers(element, std::move(bits));
}

void take_header(Cursor& cursor, std::string_view source, Content& out) {
  require<DataError>(cursor.left() >= 4 && cursor.take<std::uint32_t>("the header") == kMagic,
                     "'{}' is not a GGUF file: it does not begin with GGUF", source);
  out.version = cursor.take<std::uint32_t>("the header");
  require<DataError>((out.version & 0xffffu) != 0, "'{}' is big endian, which is not read", source);
  require<DataError>(out.version == 2 || out.version == 3, "'{}' is of version {}, read are 2 and 3", source,
                     out.version);
}

std::uint64_t alignment_of(const Keys& keys, std::string_view source) {
  for (const auto& [key, value] : keys)
    if (key == kAlignmentKey) {
      const auto alignment = value.integer();
      require<DataError>(value.type() == ValueType::kU32 && *alignment > 0 && *alignment <= (1 << 20) &&
                             std::has_single_bit(static_cast<std::uint64_t>(*alignment)),
                         "'{}': {} is {}, expected a power of two up to 2^20 (u32)", source, key,
                         value.shown());
      return static_cast<std::uint64_t>(*alignment);
    }
  return kDefaultAlignment;
}

struct Placed {
  Tensor tensor;
  std::uint64_t offset = 0, bytes = 0;
};

Placed take_tensor(Cursor& cursor, std::string_view source) {
  Placed out;
  Tensor& tensor = out.tensor;
  tensor.name = cursor.take_text("a tensor's name");
  const auto rank = cursor.take<std::uint32_t>("a tensor");
  require<DataError>(rank >= 1 && rank <= kMaxRank, "'{}': tensor '{}' has {} dimensions, expected 1 to {}",
                     source, tensor.name, rank, kMaxRank);
  tensor.shape.resize(rank);
  std::uint64_t numbers = 1;
  constexpr std::uint64_t kMost = std::uint64_t{1} << 60;
  for (std::uint32_t i = rank; i-- > 0;) {
    const auto size = cursor.take<std::uint64_t>("a tensor");
    require<DataError>(size > 0 && size <= kMost / numbers, "'{}': tensor '{}' has a dimension of {}", source,
                       tensor.name, size);
    numbers *= size;
    tensor.shape[i] = static_cast<std::int64_t>(size);
  }
  const auto type = cursor.take<std::uint32_t>("a tensor");
  try {
    tensor.format = &quant::block_format(type);
  } catch (const DataError& error) {
    fail<DataError>("'{}': tensor '{}': {}", source, tensor.name, error.what());
  }
  require<DataError>(tensor.columns() % tensor.format->numbers == 0,
                     "'{}': tensor '{}' has rows of {} numbers, and {} has blocks of {}", source, tensor.name,
                     tensor.columns(), tensor.format->name, tensor.format->numbers);
  out.offset = cursor.take<std::uint64_t>("a tensor");
  out.bytes = numbers / static_cast<std::uint64_t>(tensor.format->numbers) *
              static_cast<std::uint64_t>(tensor.format->bytes);
  return out;
}

}  // namespace

std::int64_t Tensor::numbers() const {
  std::int64_t out = 1;
  for (const std::int64_t size : shape) out *= size;
  return out;
}

Content parse(std::span<const std::byte> file, std::string_view source) {
  refuse_lfs_pointer(file, source);
  Cursor cursor(file, source);
  Content out;
  take_header(cursor, source, out);
  const auto tensors = cursor.take<std::uint64_t>("the header"),
             keys = cursor.take<std::uint64_t>("the header");
  constexpr std::size_t kSmallestKey = 13, kSmallestTensor = 32;  // bytes
  cursor.need_room(keys, kSmallestKey, "keys");
  cursor.need_room(tensors, kSmallestTensor, "tensors");
  std::set<std::string> seen;
  for (std::uint64_t i = 0; i < keys; ++i) {
    std::string key = cursor.take_text("a key");
    require<DataError>(!key.empty() && seen.insert(key).second,
                       "'{}' has the key '{}' twice, or one without a name", source, key);
    Value value = take_value(cursor, source, key);
    out.keys.emplace_back(std::move(key), std::move(value));
  }
  out.alignment = alignment_of(out.keys, source);
  seen.clear();
  std::vector<Placed> placed;
  for (std::uint64_t i = 0; i < tensors; ++i) {
    placed.push_back(take_tensor(cursor, source));
    require<DataError>(seen.insert(placed.back().tensor.name).second, "'{}' holds tensor '{}' twice", source,
                       placed.back().tensor.name);
  }
  const std::uint64_t start = padded(cursor.at(), out.alignment);
  std::uint64_t expected = 0;
  for (auto& [tensor, offset, bytes] : placed) {
    require<DataError>(offset == expected, "'{}': tensor '{}' is at offset {}, where {} was expected", source,
                       tensor.name, offset, expected);
    require<DataError>(
        start <= file.size() && offset <= file.size() - start && bytes <= file.size() - start - offset,
        "'{}' is cut short: tensor '{}' needs {} bytes at {}, the file has {}", source, tensor.name, bytes,
        start + offset, file.size());
    tensor.bytes = file.subspan(static_cast<std::size_t>(start + offset), static_cast<std::size_t>(bytes));
    expected = padded(offset + bytes, out.alignment);
    out.tensors.push_back(std::move(tensor));
  }
  return out;
}

bool is_gguf(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  if (path.extension() == ".gguf") return true;
  std::uint32_t first = 0;
  return std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(&first), sizeof first) &&
         first == kMagic;
}

namespace {

// The part of a split file: NAME-00001-of-00003.gguf.
fs::path part_path(const fs::path& first, std::size_t part, std::size_t count) {
  const std::string name = first.filename().string(), end = fmt::format("-00001-of-{:05}.gguf", count);
  require<DataError>(name.ends_with(end), "'{}' is the first of {} files, whose name ends with '{}'",
                     first.string(), count, end);
  return first.parent_path() /
         fmt::format("{}-{:05}-of-{:05}.gguf", name.substr(0, name.size() - end.size()), part, count);
}

}  // namespace

File::File(const fs::path& path) : path_(path) {
  maps_.push_back(std::make_unique<MappedFile>(path));
  first_ = parse(maps_.front()->bytes(), path.string());
  tensors_ = first_.tensors;
  index();
  const auto count = integer("split.count").value_or(1), number = integer("split.no").value_or(0);
  require<DataError>(number == 0, "'{}' is part {} of a split file: name its first part", path.string(),
                     number + 1);
  require<DataError>(count >= 1 && count < 100'000, "'{}': split.count is {}", path.string(), count);
  if (count == 1) return;
  for (std::int64_t i = 2; i <= count; ++i) {
    const fs::path other = part_path(path, static_cast<std::size_t>(i), static_cast<std::size_t>(count));
    require<IoError>(fs::exists(other), "'{}' is split into {} files, and '{}' is missing", path.string(),
                     count, other.string());
    maps_.push_back(std::make_unique<MappedFile>(other));
    Content part = parse(maps_.back()->bytes(), other.string());
    const auto own =
        std::find_if(part.keys.begin(), part.keys.end(), [](const auto& k) { return k.first == "split.no"; });
    require<DataError>(own != part.keys.end() && own->second.integer() == i - 1,
                       "'{}' does not say that it is part {} of '{}'", other.string(), i, path.string());
    std::move(part.tensors.begin(), part.tensors.end(), std::back_inserter(tensors_));
  }
  const auto total = integer("split.tensors.count");
  require<DataError>(!total || *total == static_cast<std::int64_t>(tensors_.size()),
                     "'{}' announces {} tensors in its {} files, which hold {}", path.string(),
                     total.value_or(0), count, tensors_.size());
  index();
}

File::File(std::span<const std::byte> bytes, std::string_view source)
    : path_(source), first_(parse(bytes, source)), tensors_(first_.tensors) {
  index();
}

void File::index() {
  tensor_index_.clear();
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    require<DataError>(tensor_index_.emplace(tensors_[i].name, i).second, "'{}' holds tensor '{}' twice",
                       path_.string(), tensors_[i].name);
  for (std::size_t i = 0; i < first_.keys.size(); ++i) key_index_.emplace(first_.keys[i].first, i);
}

std::uint64_t File::tensor_bytes() const {
  std::uint64_t total = 0;
  for (const auto& tensor : tensors_) total += tensor.bytes.size();
  return total;
}

const Tensor* File::find(std::string_view name) const {
  const auto it = tensor_index_.find(name);
  return it == tensor_index_.end() ? nullptr : &tensors_[it->second];
}

const Value* File::key(std::string_view name) const {
  const auto it = key_index_.find(name);
  return it == key_index_.end() ? nullptr : &first_.keys[it->second].second;
}

void File::wrong(std::string_view key_name, std::string_view expected) const {
  const Value& value = *key(key_name);
  fail<DataError>("'{}': {} is {} ({}), expected {}", path_.string(), key_name, value.shown(),
                  name_of(value.type()), expected);
}

std::optional<std::int64_t> File::integer(std::string_view name) const {
  const Value* value = key(name);
  if (!value) return std::nullopt;
  const auto found = value->is_array() ? std::nullopt : value->integer();
  if (!found) wrong(name, "a whole number");
  return found;
}

std::optional<double> File::real(std::string_view name) const {
  const Value* value = key(name);
  if (!value) return std::nullopt;
  const auto found = value->is_array() ? std::nullopt : value->real();
  if (!found) wrong(name, "a number");
  return found;
}

std::optional<bool> File::flag(std::string_view name) const {
  const Value* value = key(name);
  if (!value) return std::nullopt;
  const auto found = value->is_array() ? std::nullopt : value->flag();
  if (!found) wrong(name, "true or false");
  return found;
}

std::optional<std::string> File::text(std::string_view name) const {
  const Value* value = key(name);
  if (!value) return std::nullopt;
  if (value->type() != ValueType::kText) wrong(name, "a text");
  return *value->text_at();
}

const Value* File::array(std::string_view name, ValueType element) const {
  const Value* value = key(name);
  if (value && (!value->is_array() || value->element() != element))
    wrong(name, fmt::format("an array of {}", name_of(element)));
  return value;
}

std::int64_t File::need_integer(std::string_view name) const {
  const auto found = integer(name);
  require<DataError>(found.has_value(), "'{}' has no key {}", path_.string(), name);
  return *found;
}

std::string File::need_text(std::string_view name) const {
  const auto found = text(name);
  require<DataError>(found.has_value(), "'{}' has no key {}", path_.string(), name);
  return *found;
}

}  // namespace stoa::gguf

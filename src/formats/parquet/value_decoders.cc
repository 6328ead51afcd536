#include "formats/parquet/value_decoders.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace stoa::parquet {
namespace {

constexpr std::uint64_t kMostDeltas = std::uint64_t{1} << 24;  // in a page: they are decoded at once

std::string_view take(std::uint64_t count, std::string_view& in) {
  require<DataError>(count <= in.size(), "a page ends within a value");
  const std::string_view out = in.substr(0, count);
  in.remove_prefix(count);
  return out;
}

template <class T>
T take_as(std::string_view& in) {
  T value;
  std::memcpy(&value, take(sizeof(T), in).data(), sizeof(T));
  return value;
}

std::uint64_t take_varint(std::string_view& in) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto b = take_as<std::uint8_t>(in);
    value |= static_cast<std::uint64_t>(b & 127) << shift;
    if (b < 128) return value;
  }
  fail<DataError>("a page with a number of more than 64 bits");
}

std::uint64_t take_zigzag(std::string_view& in) {
  const std::uint64_t v = take_varint(in);
  return (v >> 1) ^ (~(v & 1) + 1);
}

// `width` <= 64 bits from bit `at` on; bits beyond the end are 0.
std::uint64_t bits_at(std::string_view bytes, std::uint64_t at, int width) {
  unsigned char word[16] = {};
  const std::uint64_t first = at / 8;
  if (first < bytes.size())
    std::memcpy(word, bytes.data() + first, std::min<std::uint64_t>(9, bytes.size() - first));
  std::uint64_t low = 0;
  std::memcpy(&low, word, sizeof low);
  const int shift = static_cast<int>(at % 8);
  std::uint64_t value = low >> shift;
  if (shift > 0) value |= static_cast<std::uint64_t>(word[8]) << (64 - shift);
  return width == 64 ? value : value & ((std::uint64_t{1} << width) - 1);
}

// Days from 4713 BC to 1970 and nanoseconds of the day, as Impala and Spark wrote times.
std::int64_t nanoseconds_of(std::string_view int96) {
  const auto nanoseconds = take_as<std::uint64_t>(int96);
  const std::uint64_t days = take_as<std::uint32_t>(int96) - std::uint64_t{2440588};
  return static_cast<std::int64_t>(days * 86'400'000'000'000 + nanoseconds);
}

class PlainValues final : public ValueDecoder {
 public:
  PlainValues(std::string_view bytes, const Node& leaf) : bytes_(bytes), leaf_(leaf) {}

  Value next() override {
    Value out;
    switch (leaf_.type) {
      case Physical::kBoolean:
        require<DataError>(bit_ / 8 < bytes_.size(), "a page ends within a value");
        out.integer = static_cast<std::int64_t>(bits_at(bytes_, bit_++, 1));
        break;
      case Physical::kInt32:
        out.integer = take_as<std::int32_t>(bytes_);
        break;
      case Physical::kInt64:
        out.integer = take_as<std::int64_t>(bytes_);
        break;
      case Physical::kInt96:
        out.integer = nanoseconds_of(take(12, bytes_));
        break;
      case Physical::kFloat:
        out.real = static_cast<double>(take_as<float>(bytes_));
        break;
      case Physical::kDouble:
        out.real = take_as<double>(bytes_);
        break;
      case Physical::kBytes:
        out.bytes = take(take_as<std::uint32_t>(bytes_), bytes_);
        break;
      case Physical::kFixedBytes:
        out.bytes = take(static_cast<std::uint64_t>(leaf_.length), bytes_);
        break;
    }
    return out;
  }

 private:
  std::string_view bytes_;
  const Node& leaf_;
  std::uint64_t bit_ = 0;
};

class DictionaryValues final : public ValueDecoder {
 public:
  DictionaryValues(std::string_view bytes, const std::vector<Value>& dictionary) : dictionary_(dictionary) {
    const int width = take_as<std::uint8_t>(bytes);
    indices_ = RunLengthDecoder(bytes, width);
  }
  Value next() override {
    const std::uint32_t index = indices_.next();
    require<DataError>(index < dictionary_.size(), "entry {} of a dictionary of {}", index,
                       dictionary_.size());
    return dictionary_[index];
  }

 private:
  const std::vector<Value>& dictionary_;
  RunLengthDecoder indices_;
};

class RunLengthBooleans final : public ValueDecoder {
 public:
  explicit RunLengthBooleans(std::string_view bytes) {
    const auto length = take_as<std::uint32_t>(bytes);
    bits_ = RunLengthDecoder(take(length, bytes), 1);
  }
  Value next() override {
    Value out;
    out.integer = bits_.next();
    return out;
  }

 private:
  RunLengthDecoder bits_;
};

// All numbers of a DELTA_BINARY_PACKED stretch; takes it from `in`.
std::vector<std::int64_t> take_deltas(std::string_view& in) {
  const std::uint64_t block = take_varint(in), minis = take_varint(in), count = take_varint(in);
  std::uint64_t value = take_zigzag(in);  // unsigned: sums may wrap
  require<DataError>(minis > 0 && block % minis == 0 && block / minis % 8 == 0 && block > 0 &&
                         block <= (1 << 20) && minis <= 4096 && count <= kMostDeltas,
                     "a page of {} differences in blocks of {} by {}", count, block, minis);
  const std::uint64_t per_mini = block / minis;
  std::vector<std::int64_t> out;
  if (count > 0) out.push_back(static_cast<std::int64_t>(value));
  while (out.size() < count) {
    const std::uint64_t least = take_zigzag(in);
    const std::string_view widths = take(minis, in);
    for (std::size_t m = 0; m < minis && out.size() < count; ++m) {
      const int width = static_cast<unsigned char>(widths[m]);
      require<DataError>(width <= 64, "differences of {} bits", width);
      const std::string_view packed = take(per_mini / 8 * static_cast<std::uint64_t>(width), in);
      for (std::uint64_t i = 0; i < per_mini && out.size() < count; ++i) {
        value += least + (width == 0 ? 0 : bits_at(packed, i * static_cast<std::uint64_t>(width), width));
        out.push_back(static_cast<std::int64_t>(value));
      }
    }
  }
  return out;
}

class DeltaIntegers final : public ValueDecoder {
 public:
  DeltaIntegers(std::string_view bytes, bool narrow) : numbers_(take_deltas(bytes)), narrow_(narrow) {}
  Value next() override {
    require<DataError>(at_ < numbers_.size(), "a page ends within a value");
    Value out;
    out.integer = narrow_ ? static_cast<std::int32_t>(numbers_[at_]) : numbers_[at_];
    ++at_;
    return out;
  }

 private:
  const std::vector<std::int64_t> numbers_;
  const bool narrow_;
  std::size_t at_ = 0;
};

// Texts whose lengths, and with `prefixes` what each shares with the one before, stand first.
class DeltaTexts final : public ValueDecoder {
 public:
  DeltaTexts(std::string_view bytes, bool prefixes) {
    if (prefixes) shared_ = take_deltas(bytes);
    lengths_ = take_deltas(bytes);
    require<DataError>(!prefixes || shared_.size() == lengths_.size(), "texts without lengths");
    bytes_ = bytes;
  }
  Value next() override {
    require<DataError>(at_ < lengths_.size() && lengths_[at_] >= 0, "a page ends within a value");
    Value out;
    out.bytes = take(static_cast<std::uint64_t>(lengths_[at_]), bytes_);
    if (!shared_.empty()) {
      const std::int64_t shared = shared_[at_];
      require<DataError>(shared >= 0 && shared <= std::ssize(text_), "a text begins with {} bytes of {}",
                         shared, text_.size());
      text_.resize(static_cast<std::size_t>(shared));
      text_ += out.bytes;
      out.bytes = text_;
    }
    ++at_;
    return out;
  }

 private:
  std::vector<std::int64_t> shared_, lengths_;
  std::string_view bytes_;
  std::string text_;
  std::size_t at_ = 0;
};

// The first bytes of all values, then the second ones, and so on.
class SplitValues final : public ValueDecoder {
 public:
  SplitValues(std::string_view bytes, const Node& leaf)
      : bytes_(bytes), leaf_(leaf), width_(width_of(leaf)), count_(bytes.size() / width_) {}
  Value next() override {
    require<DataError>(at_ < count_, "a page ends within a value");
    one_.clear();
    for (std::size_t b = 0; b < width_; ++b) one_ += bytes_[b * count_ + at_];
    ++at_;
    return PlainValues(one_, leaf_).next();
  }

 private:
  static std::size_t width_of(const Node& leaf) {
    if (leaf.type == Physical::kInt32 || leaf.type == Physical::kFloat) return 4;
    return leaf.type == Physical::kFixedBytes ? static_cast<std::size_t>(leaf.length) : 8;
  }

  const std::string_view bytes_;
  const Node& leaf_;
  const std::size_t width_, count_;
  std::string one_;
  std::size_t at_ = 0;
};

}  // namespace

RunLengthDecoder::RunLengthDecoder(std::string_view bytes, int width) : bytes_(bytes), width_(width) {
  require<DataError>(width >= 0 && width <= 32, "numbers of {} bits", width);
}

void RunLengthDecoder::next_run() {
  const std::uint64_t head = take_varint(bytes_);
  packed_ = (head & 1) != 0;
  require<DataError>(head >> 1 > 0 && head >> 1 <= (std::uint64_t{1} << 32), "a run of {} values", head >> 1);
  left_ = head >> 1;
  if (packed_) {
    // The last group may be cut off where its numbers end.
    const std::uint64_t bytes = left_ * static_cast<std::uint64_t>(width_);
    group_ = take(std::min<std::uint64_t>(bytes, bytes_.size()), bytes_);
    require<DataError>(width_ == 0 || !group_.empty(), "a page ends within a run");
    left_ *= 8;
    if (width_ > 0) left_ = std::min(left_, 8 * group_.size() / static_cast<std::uint64_t>(width_));
    require<DataError>(left_ > 0, "a page ends within a run");
    bit_ = 0;
  } else {
    const std::string_view bytes = take(static_cast<std::uint64_t>((width_ + 7) / 8), bytes_);
    value_ = static_cast<std::uint32_t>(bits_at(bytes, 0, 32));
  }
}

std::uint32_t RunLengthDecoder::next() {
  if (left_ == 0) next_run();
  --left_;
  if (!packed_) return value_;
  const auto out = static_cast<std::uint32_t>(bits_at(group_, bit_, width_));
  bit_ += static_cast<std::uint64_t>(width_);
  return out;
}

std::unique_ptr<ValueDecoder> decode_values(std::string_view bytes, Encoding encoding, const Node& leaf,
                                            std::int64_t count, const std::vector<Value>* dictionary) {
  if (count == 0) return nullptr;  // nulls only: there may be no bytes at all
  const bool texts = leaf.type == Physical::kBytes || leaf.type == Physical::kFixedBytes;
  const bool integers = leaf.type == Physical::kInt32 || leaf.type == Physical::kInt64;
  switch (encoding) {
    case Encoding::kPlain:
      return std::make_unique<PlainValues>(bytes, leaf);
    case Encoding::kPlainDictionary:
    case Encoding::kRunLengthDictionary:
      require<DataError>(dictionary != nullptr, "a page that needs a dictionary where there is none");
      return std::make_unique<DictionaryValues>(bytes, *dictionary);
    case Encoding::kRunLength:
      if (leaf.type == Physical::kBoolean) return std::make_unique<RunLengthBooleans>(bytes);
      break;
    case Encoding::kDeltaIntegers:
      if (integers) return std::make_unique<DeltaIntegers>(bytes, leaf.type == Physical::kInt32);
      break;
    case Encoding::kDeltaLengths:
    case Encoding::kDeltaTexts:
      if (texts) return std::make_unique<DeltaTexts>(bytes, encoding == Encoding::kDeltaTexts);
      break;
    case Encoding::kSplitBytes:
      if (leaf.type != Physical::kBoolean && leaf.type != Physical::kInt96 && leaf.type != Physical::kBytes)
        return std::make_unique<SplitValues>(bytes, leaf);
      break;
    default:
      break;
  }
  fail<DataError>("values of type {} in encoding {} cannot be read", static_cast<int>(leaf.type),
                  static_cast<int>(encoding));
}

}  // namespace stoa::parquet

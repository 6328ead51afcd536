#include "formats/parquet/thrift_compact.h"

namespace stoa::parquet {

std::uint64_t ThriftReader::varint() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const std::uint8_t b = byte();
    value |= static_cast<std::uint64_t>(b & 127) << shift;
    if (b < 128) return value;
  }
  fail<DataError>("a number of more than 64 bits");
}

std::int64_t ThriftReader::number(const Field& field) {
  switch (field.type) {
    case kTrue:
      return 1;
    case kFalse:
      return 0;
    case kByte:
      return static_cast<std::int8_t>(byte());
    case kI16:
    case kI32:
    case kI64:
      return zigzag();
    default:
      fail<DataError>("field {} is no whole number", field.id);
  }
}

std::string_view ThriftReader::binary() {
  const std::uint64_t length = varint();
  require<DataError>(length <= bytes_.size() - at_, "it ends within a text");
  at_ += length;
  return bytes_.substr(at_ - length, length);
}

std::pair<std::uint64_t, ThriftReader::Type> ThriftReader::list_head() {
  const std::uint8_t head = byte();
  const std::uint64_t count = head >> 4 == 15 ? varint() : head >> 4;
  require<DataError>(count <= bytes_.size() - at_, "a list of {} elements in {} bytes", count,
                     bytes_.size() - at_);
  return {count, type_of(head & 15)};
}

void ThriftReader::skip(Type type) {
  switch (type) {
    case kStop:
    case kTrue:
    case kFalse:
      return;
    case kByte:
      byte();
      return;
    case kI16:
    case kI32:
    case kI64:
      varint();
      return;
    case kDouble:
      for (int i = 0; i < 8; ++i) byte();
      return;
    case kBinary:
      binary();
      return;
    case kList:
    case kSet: {
      const auto [count, of] = list_head();
      require<DataError>(++depth_ <= kDeepest, "lists nested deeper than {}", kDeepest);
      for (std::uint64_t i = 0; i < count; ++i)
        if (of == kTrue || of == kFalse)
          byte();
        else
          skip(of);
      --depth_;
      return;
    }
    case kMap: {
      const std::uint64_t count = varint();
      if (count == 0) return;
      const std::uint8_t types = byte();
      require<DataError>(count <= bytes_.size() - at_ && ++depth_ <= kDeepest, "a map of {} entries", count);
      for (std::uint64_t i = 0; i < count; ++i) {
        skip(type_of(types >> 4));
        skip(type_of(types & 15));
      }
      --depth_;
      return;
    }
    case kStruct:
      each_field([this](const Field& field) { skip(field.type); });
      return;
  }
}

}  // namespace stoa::parquet

#include "ckpt/torch/pickle_writer.h"

#include <bit>
#include <limits>
#include <type_traits>

namespace stoa::ckpt::torch {

template <class T>
void PickleWriter::little_endian(T value) {
  auto bits = static_cast<std::make_unsigned_t<T>>(value);
  for (std::size_t i = 0; i < sizeof(T); ++i, bits = static_cast<decltype(bits)>(bits >> 4 >> 4))
    text_ += static_cast<char>(bits & 0xff);
}

PickleWriter& PickleWriter::integer(std::int64_t value) {
  if (value >= std::numeric_limits<std::int32_t>::min() &&
      value <= std::numeric_limits<std::int32_t>::max()) {
    put('J');
    little_endian(static_cast<std::int32_t>(value));
  } else {
    put('\x8a').put('\x08');
    little_endian(value);
  }
  return *this;
}

PickleWriter& PickleWriter::real(double value) {
  put('G');
  const auto bits = std::bit_cast<std::uint64_t>(value);
  for (int shift = 56; shift >= 0; shift -= 8) text_ += static_cast<char>(bits >> shift & 0xff);
  return *this;
}

PickleWriter& PickleWriter::text(std::string_view utf8) {
  put('X');
  little_endian(static_cast<std::uint32_t>(utf8.size()));
  text_ += utf8;
  return *this;
}

PickleWriter& PickleWriter::integers(const std::vector<std::int64_t>& values) {
  begin_tuple();
  for (const std::int64_t value : values) integer(value);
  return end_tuple();
}

PickleWriter& PickleWriter::global(std::string_view module, std::string_view name) {
  put('c');
  text_ += module;
  text_ += '\n';
  text_ += name;
  return put('\n');
}

}  // namespace stoa::ckpt::torch

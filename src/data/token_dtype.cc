#include "data/token_dtype.h"

#include <limits>

#include "base/error.h"

namespace stoa::data {
namespace {

template <class T>
bool widen(const std::byte* from, std::int32_t* to, std::size_t count) {
  bool fits = true;
  for (std::size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    if constexpr (sizeof(T) > 4)
      fits &= value >= std::numeric_limits<std::int32_t>::min() &&
              value <= std::numeric_limits<std::int32_t>::max();
    to[i] = static_cast<std::int32_t>(value);
  }
  return fits;
}

template <class T>
void narrow(const std::int32_t* from, std::byte* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const T value = static_cast<T>(from[i]);
    std::memcpy(to + i * sizeof(T), &value, sizeof(T));
  }
}

}  // namespace

std::optional<TokenDtype> token_dtype_of_code(std::uint8_t code) {
  if (code < 1 || code > 8) return {};
  return static_cast<TokenDtype>(code);
}

std::string_view token_dtype_name(TokenDtype dtype) {
  constexpr std::string_view names[] = {"uint8", "int8",    "int16",   "int32",
                                        "int64", "float64", "float32", "uint16"};
  return names[static_cast<std::size_t>(dtype) - 1];
}

std::size_t token_dtype_bytes(TokenDtype dtype) {
  constexpr std::size_t bytes[] = {1, 1, 2, 4, 8, 8, 4, 2};
  return bytes[static_cast<std::size_t>(dtype) - 1];
}

bool is_integer(TokenDtype dtype) { return dtype != TokenDtype::kFloat64 && dtype != TokenDtype::kFloat32; }

TokenDtype token_dtype_for_vocabulary(std::int64_t vocabulary) {
  return vocabulary < 65500 ? TokenDtype::kUint16 : TokenDtype::kInt32;
}

bool load_tokens(TokenDtype dtype, const std::byte* from, std::int32_t* to, std::size_t count) {
  switch (dtype) {
    case TokenDtype::kUint8:
      return widen<std::uint8_t>(from, to, count);
    case TokenDtype::kInt8:
      return widen<std::int8_t>(from, to, count);
    case TokenDtype::kInt16:
      return widen<std::int16_t>(from, to, count);
    case TokenDtype::kInt32:
      return widen<std::int32_t>(from, to, count);
    case TokenDtype::kInt64:
      return widen<std::int64_t>(from, to, count);
    case TokenDtype::kUint16:
      return widen<std::uint16_t>(from, to, count);
    case TokenDtype::kFloat64:
    case TokenDtype::kFloat32:
      break;
  }
  return false;
}

void store_tokens(TokenDtype dtype, const std::int32_t* from, std::byte* to, std::size_t count) {
  switch (dtype) {
    case TokenDtype::kUint8:
      return narrow<std::uint8_t>(from, to, count);
    case TokenDtype::kInt8:
      return narrow<std::int8_t>(from, to, count);
    case TokenDtype::kInt16:
      return narrow<std::int16_t>(from, to, count);
    case TokenDtype::kInt32:
      return narrow<std::int32_t>(from, to, count);
    case TokenDtype::kInt64:
      return narrow<std::int64_t>(from, to, count);
    case TokenDtype::kUint16:
      return narrow<std::uint16_t>(from, to, count);
    case TokenDtype::kFloat64:
    case TokenDtype::kFloat32:
      break;
  }
  fail<InternalError>("tokens are not written as {}", token_dtype_name(dtype));
}

}  // namespace stoa::data

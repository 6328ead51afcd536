// Element types of Megatron's token files and their codes in the `.idx` header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

namespace stoa::data {

enum class TokenDtype : std::uint8_t {
  kUint8 = 1,
  kInt8 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kFloat64 = 6,
  kFloat32 = 7,
  kUint16 = 8
};

std::optional<TokenDtype> token_dtype_of_code(std::uint8_t code);
std::string_view token_dtype_name(TokenDtype dtype);  // "uint16", …
std::size_t token_dtype_bytes(TokenDtype dtype);
bool is_integer(TokenDtype dtype);

// Megatron's writer: uint16 below 65 500 entries of the vocabulary, int32 otherwise.
TokenDtype token_dtype_for_vocabulary(std::int64_t vocabulary);

// Widens `count` stored tokens to int32. False when a value does not fit int32 (only possible for int64) or
// the type is a floating one.
bool load_tokens(TokenDtype dtype, const std::byte* from, std::int32_t* to, std::size_t count);

// Narrows ids (already known to fit) to the stored type; `to` has count * token_dtype_bytes bytes.
void store_tokens(TokenDtype dtype, const std::int32_t* from, std::byte* to, std::size_t count);

}  // namespace stoa::data

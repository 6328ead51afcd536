// Every field that a request may have, by endpoint, and what becomes of it. docs/serving.md has the same
// tables, and a test compares them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace stoa::serve {

enum class FieldUse : std::uint8_t {
  kHonoured,
  kIgnored,  // cannot change the answer
  kRefused   // 400 that names it, unless its value is `neutral`
};

struct Field {
  std::string_view name;
  FieldUse use = FieldUse::kHonoured;
  std::string_view note = {};     // a few words for the table
  std::string_view neutral = {};  // JSON: a value that means the same as leaving the field out
};

struct Endpoint {
  std::string_view path;
  std::span<const Field> fields;
};

// Those with a body.
std::span<const Endpoint> endpoints();
// The fields of a path. InternalError: not an endpoint with a body.
std::span<const Field> fields_of(std::string_view path);

}  // namespace stoa::serve

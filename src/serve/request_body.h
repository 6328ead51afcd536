// The JSON object of a request, read field by field: what is missing, of the wrong type, out of range,
// unknown or refused becomes an ApiError that names the field.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/error.h"
#include "serve/fields.h"

namespace stoa::serve {

using Json = nlohmann::ordered_json;

// ApiError 400: not JSON (deeper than 64 levels, invalid UTF-8, a number beyond double …).
Json parse_json(std::string_view text, const char* what = "the body");

class RequestBody {
 public:
  // `lenient`: unknown fields are ignored, refused ones not.
  // `what`: the text, in messages.
  RequestBody(std::string_view text, std::span<const Field> fields, bool lenient,
              const char* what = "the body");
  // The same of a value that was made here.
  static RequestBody of(Json object, std::span<const Field> fields, bool lenient,
                        const char* what = "the body");

  // Whether the field is there and not null.
  bool has(const char* name) const { return find(name) != nullptr; }
  const Json* find(const char* name) const;
  const Json& at(const char* name) const;  // 400 where it is missing
  const Json& object() const { return object_; }

  std::optional<double> number(const char* name, double low, double high) const;
  std::optional<std::int64_t> integer(const char* name, std::int64_t low, std::int64_t high) const;
  bool boolean(const char* name, bool otherwise) const;
  std::optional<std::string> text(const char* name) const;
  // A text or a list of them; at most `most`.
  std::vector<std::string> texts(const char* name, std::size_t most) const;
  // A list of ids below `vocabulary`.
  std::vector<std::int32_t> ids(const char* name, std::int64_t vocabulary) const;

 private:
  explicit RequestBody(Json&& object) : object_(std::move(object)) {}
  void check_fields(std::span<const Field> fields, bool lenient) const;

  Json object_;
};

// 400 where an object within the field has a key that is not among `known`, unless its value is null.
void check_keys(const Json& object, const char* field, const std::vector<std::string>& known);

// The same for a value at a place, such as "prompt[3]".
std::vector<std::int32_t> ids_of(const Json& value, const std::string& place, std::int64_t vocabulary);

}  // namespace stoa::serve

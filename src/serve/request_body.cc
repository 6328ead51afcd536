#include "serve/request_body.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/nearest.h"

namespace stoa::serve {
namespace {

constexpr int kDeepest = 64;

// "a text", for messages.
const char* kind_of(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "a list";
    case Json::value_t::string:
      return "a text";
    case Json::value_t::boolean:
      return "true or false";
    default:
      return "a number";
  }
}

// None where 64 bits do not hold it.
std::optional<std::int64_t> whole_number(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto x = value.get<std::uint64_t>();
    return std::in_range<std::int64_t>(x) ? std::optional(static_cast<std::int64_t>(x)) : std::nullopt;
  }
  if (value.is_number_integer()) return value.get<std::int64_t>();
  const auto x = value.get<double>();
  return x >= -0x1p63 && x < 0x1p63 ? std::optional(static_cast<std::int64_t>(x)) : std::nullopt;
}

bool is_neutral(const Json& value, std::string_view neutral) {
  return value.is_null() || (!neutral.empty() && value == Json::parse(neutral));
}

}  // namespace

Json parse_json(std::string_view text, const char* what) {
  int depth = 0;
  try {
    return Json::parse(text, [&](int, Json::parse_event_t event, const Json&) {
      if (event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start) {
        if (++depth > kDeepest)
          throw ApiError(400, fmt::format("{} nests deeper than {} levels", what, kDeepest));
      } else if (event == Json::parse_event_t::object_end || event == Json::parse_event_t::array_end) {
        --depth;
      }
      return true;
    });
  } catch (const Json::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: …"
    std::string message = error.what();
    if (const auto end = message.find("] "); end != std::string::npos) message.erase(0, end + 2);
    if (message.size() > 300) message.resize(300);
    throw ApiError(400, fmt::format("{} is not JSON: {}", what, message));
  }
}

RequestBody RequestBody::of(Json object, std::span<const Field> fields, bool lenient, const char* what) {
  check(object.is_object(), "", "{} must be a JSON object, got {}", what, kind_of(object));
  RequestBody out(std::move(object));
  out.check_fields(fields, lenient);
  return out;
}

RequestBody::RequestBody(std::string_view text, std::span<const Field> fields, bool lenient, const char* what)
    : RequestBody(of(parse_json(text, what), fields, lenient, what)) {}

void RequestBody::check_fields(std::span<const Field> fields, bool lenient) const {
  std::vector<std::string> names;
  for (const auto& [key, value] : object_.items()) {
    const auto found =
        std::find_if(fields.begin(), fields.end(), [&](const Field& field) { return field.name == key; });
    if (found == fields.end()) {
      if (lenient) continue;
      if (names.empty())
        for (const Field& field : fields) names.emplace_back(field.name);
      throw ApiError(
          400,
          fmt::format("unknown field '{}'{}", key.substr(0, 100), did_you_mean(key.substr(0, 100), names)),
          key.substr(0, 100), "unknown_field");
    }
    if (found->use == FieldUse::kRefused && !is_neutral(value, found->neutral))
      throw ApiError(
          400,
          fmt::format("'{}' is not supported{}{}{}", key, found->note.empty() ? "" : ": ", found->note,
                      found->neutral.empty() ? "" : fmt::format("; only {} is taken", found->neutral)),
          key, "unsupported_field");
  }
}

const Json* RequestBody::find(const char* name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

const Json& RequestBody::at(const char* name) const {
  const Json* value = find(name);
  check(value != nullptr, name, "'{}' is missing", name);
  return *value;
}

std::optional<double> RequestBody::number(const char* name, double low, double high) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  check(value->is_number(), name, "'{}' must be a number, got {}", name, kind_of(*value));
  const auto x = value->get<double>();
  check(x >= low && x <= high, name, "'{}' must be between {} and {}, got {}", name, low, high, x);
  return x;
}

std::optional<std::int64_t> RequestBody::integer(const char* name, std::int64_t low,
                                                 std::int64_t high) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  check(value->is_number(), name, "'{}' must be a whole number, got {}", name, kind_of(*value));
  const auto x = value->get<double>();
  check(x == std::floor(x), name, "'{}' must be a whole number, got {}", name, value->dump());
  const std::optional<std::int64_t> whole = whole_number(*value);
  check(whole && *whole >= low && *whole <= high, name, "'{}' must be between {} and {}, got {}", name, low,
        high, value->dump());
  return whole;
}

bool RequestBody::boolean(const char* name, bool otherwise) const {
  const Json* value = find(name);
  if (value == nullptr) return otherwise;
  check(value->is_boolean(), name, "'{}' must be true or false, got {}", name, kind_of(*value));
  return value->get<bool>();
}

std::optional<std::string> RequestBody::text(const char* name) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  check(value->is_string(), name, "'{}' must be a text, got {}", name, kind_of(*value));
  return value->get<std::string>();
}

std::vector<std::string> RequestBody::texts(const char* name, std::size_t most) const {
  const Json* value = find(name);
  if (value == nullptr) return {};
  if (value->is_string()) return {value->get<std::string>()};
  check(value->is_array(), name, "'{}' must be a text or a list of texts, got {}", name, kind_of(*value));
  check(value->size() <= most, name, "'{}' has {} entries, at most {} are taken", name, value->size(), most);
  std::vector<std::string> out;
  for (const Json& item : *value) {
    check(item.is_string(), name, "'{}' must be a list of texts, found {}", name, kind_of(item));
    out.push_back(item.get<std::string>());
  }
  return out;
}

std::vector<std::int32_t> RequestBody::ids(const char* name, std::int64_t vocabulary) const {
  const Json* value = find(name);
  return value == nullptr ? std::vector<std::int32_t>() : ids_of(*value, name, vocabulary);
}

void check_keys(const Json& object, const char* field, const std::vector<std::string>& known) {
  for (const auto& [key, value] : object.items())
    check(value.is_null() || std::ranges::find(known, key) != known.end(), field,
          "'{}' has an unknown field '{}'; known are {}", field, key.substr(0, 100), fmt::join(known, ", "));
}

std::vector<std::int32_t> ids_of(const Json& value, const std::string& place, std::int64_t vocabulary) {
  check(value.is_array(), place, "'{}' must be a list of token ids, got {}", place, kind_of(value));
  std::vector<std::int32_t> out;
  out.reserve(value.size());
  for (const Json& item : value) {
    check(item.is_number_integer(), place, "'{}' must be a list of token ids, found {}", place,
          kind_of(item));
    const bool fits =
        item.is_number_unsigned() && item.get<std::uint64_t>() < static_cast<std::uint64_t>(vocabulary);
    check(fits, place, "'{}': the token id {} is outside the vocabulary of {}", place, item.dump(),
          vocabulary);
    out.push_back(item.get<std::int32_t>());
  }
  return out;
}

}  // namespace stoa::serve

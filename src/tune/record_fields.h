// An object of a tuning file, whose errors name its place.
#pragma once

#include <fmt/ranges.h>

#include <cmath>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/error.h"
#include "tune/record.h"

namespace stoa::tune {

inline bool is_blank_text(std::string_view text) { return text.find_first_not_of(" \t\r\n") == text.npos; }

// Null, or a text of blanks: files have them for nothing.
inline bool is_nothing(const Json& value) {
  return value.is_null() || (value.is_string() && is_blank_text(value.get_ref<const std::string&>()));
}

// A value in a message: its first hundred bytes.
inline std::string beginning_of(const Json& value) {
  const std::string text = value.dump(-1, ' ', true);  // in ASCII, which may be cut anywhere
  return text.size() <= 100 ? text : text.substr(0, 100) + "...";
}

class RecordFields {
 public:
  RecordFields(const Json& object, const Place& place) : object_(object), place_(place) {}

  double number(const Json& value, const char* name) const {
    require<DataError>(value.is_number() && std::isfinite(value.get<double>()),
                       "{}: \"{}\" is {}, expected a number", place_.text(), name, value.dump());
    return value.get<double>();
  }
  // The value of the first of `names` that is there; null: none is.
  const Json* find(std::initializer_list<const char*> names) const {
    for (const char* name : names)
      if (const auto found = object_.find(name); found != object_.end() && !found->is_null()) return &*found;
    return nullptr;
  }
  const Json& need(std::initializer_list<const char*> names) const {
    const Json* found = find(names);
    require<DataError>(found != nullptr, "{}: no \"{}\", which other records of the file have", place_.text(),
                       fmt::join(names, "\" or \""));
    return *found;
  }
  std::string text(const Json& value, const char* name) const {
    require<DataError>(value.is_string(), "{}: \"{}\" is {}, expected text", place_.text(), name,
                       value.type_name());
    return value.get<std::string>();
  }
  std::string text(std::initializer_list<const char*> names) const {
    return text(need(names), name_of(names));
  }
  std::string optional_text(std::initializer_list<const char*> names) const {
    const Json* found = find(names);
    return found ? text(*found, name_of(names)) : std::string();
  }
  // The first of `names` that is there; there is one.
  const char* name_of(std::initializer_list<const char*> names) const {
    for (const char* name : names)
      if (find({name})) return name;
    return *names.begin();
  }

 private:
  const Json& object_;
  const Place& place_;
};

}  // namespace stoa::tune

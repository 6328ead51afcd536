// An object of a tuning file, whose errors name its place.
#pragma once

#include <cmath>
#include <initializer_list>
#include <string>

#include "base/error.h"
#include "tune/record.h"

namespace stoa::tune {

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
                       *names.begin());
    return *found;
  }
  std::string text(const Json& value, const char* name) const {
    require<DataError>(value.is_string(), "{}: \"{}\" is {}, expected text", place_.text(), name,
                       value.type_name());
    return value.get<std::string>();
  }
  std::string text(std::initializer_list<const char*> names) const {
    return text(need(names), *names.begin());
  }
  std::string optional_text(std::initializer_list<const char*> names) const {
    const Json* found = find(names);
    return found ? text(*found, *names.begin()) : std::string();
  }

 private:
  const Json& object_;
  const Place& place_;
};

}  // namespace stoa::tune

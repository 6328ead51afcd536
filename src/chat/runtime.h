// What templates can do with values: operators, attributes, methods, filters and tests, as Jinja and Python
// have them.
#pragma once

#include <initializer_list>
#include <string_view>

#include "chat/value.h"

namespace stoa::chat {

// Arguments of a call, filter or test.
struct Arguments {
  List values;
  Entries named;

  // By position or name; none where it was not given.
  const Value* find(std::size_t position, std::string_view name) const;
  const Value& need(std::size_t position, std::string_view name, std::string_view what) const;
  // TemplateError where there are more values, or other names.
  void allow(std::size_t most, std::initializer_list<std::string_view> names, std::string_view what) const;
};

Value binary(std::string_view op, const Value& a, const Value& b, Budget& budget);
Value slice(const Value& object, const Value* from, const Value* to, const Value* step, Budget& budget);
Value item_of(const Value& object, const Value& key, Budget& budget);            // object[key]
Value attribute_of(const Value& object, std::string_view name, Budget& budget);  // object.name
Value call_method(const Value::Method& method, const Arguments& arguments, Budget& budget);
Value apply_filter(std::string_view name, const Value& subject, const Arguments& arguments, Budget& budget);
bool apply_test(std::string_view name, const Value& subject, const Arguments& arguments, Budget& budget);

// Shared by methods and filters.
std::string_view strip(std::string_view text, const Value* characters, bool left, bool right, Budget& budget);
std::string replace(std::string_view text, std::string_view from, std::string_view to, std::int64_t most,
                    Budget& budget);
enum class Case { kUpper, kLower, kCapitalize, kTitle };
std::string change_case(std::string_view text, Case to, Budget& budget);
// The string of a value that has to be one.
const std::string& text_of(const Value& value, std::string_view what);

}  // namespace stoa::chat

// Values of a template: those of Python that chat templates use. They are immutable but for namespaces, and
// bounded: no value nests deeper than kDeepest, and no work on values is done that the budget does not pay
// for.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"

namespace stoa::chat {

class TemplateError : public DataError {
 public:
  using DataError::DataError;
};

// What rendering may cost: templates come from other people.
class Budget {
 public:
  explicit Budget(std::int64_t steps = 20'000'000) : left_(steps) {}
  void pay(std::size_t steps = 1) {  // a node evaluated, an element or 4 bytes made or compared
    left_ -= static_cast<std::int64_t>(steps);
    require<TemplateError>(left_ >= 0, "the chat template does too much work");
  }
  void pay_bytes(std::size_t bytes) { pay(1 + bytes / 4); }

 private:
  std::int64_t left_;
};

struct Node;  // syntax.h
class Value;
using List = std::vector<Value>;
using Entries = std::vector<std::pair<std::string, Value>>;  // of a dictionary, in order of insertion

struct Undefined {
  std::string name;     // for the message when it is used
  bool usable = false;  // under StrictUndefined, too: what a condition without `else` gives
  bool operator==(const Undefined&) const { return true; }
};
struct Namespace {  // the only thing that a template changes
  Entries attributes;
};

class Value {
 public:
  struct Method;  // of a string, list or dictionary: object and name
  struct Function {
    std::string name;  // of a global function
  };
  struct Macro {
    const Node* node;
  };
  static constexpr int kDeepest = 64;

  Value() : data_(Undefined{}) {}
  Value(std::nullptr_t) : data_(nullptr) {}
  Value(bool b) : data_(b) {}
  Value(std::int64_t i) : data_(i) {}
  Value(int i) : data_(std::int64_t{i}) {}
  Value(std::size_t i) : data_(static_cast<std::int64_t>(i)) {}
  Value(double d) : data_(d) {}
  Value(std::string s) : data_(std::make_shared<const std::string>(std::move(s))) {}
  Value(const char* s) : Value(std::string(s)) {}
  Value(std::string_view s) : Value(std::string(s)) {}
  Value(Function f) : data_(std::move(f)) {}
  Value(Macro m) : data_(m) {}
  Value(std::shared_ptr<Namespace> n) : data_(std::move(n)) {}
  static Value undefined(std::string_view name) { return Value(Undefined{std::string(name)}); }
  static Value missing_else() { return Value(Undefined{"", true}); }
  // TemplateError where an element is a namespace or nests too deep.
  static Value list(List items, bool tuple = false);
  static Value dict(Entries entries);
  static Value method(Value object, std::string name);
  static Value from_json(const nlohmann::ordered_json& json, int depth = 0);

  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_unusable() const;                   // undefined, and StrictUndefined refuses it
  const std::string& undefined_name() const;  // "" where it has none, or is defined
  bool is_none() const { return std::holds_alternative<std::nullptr_t>(data_); }
  bool is_bool() const { return std::holds_alternative<bool>(data_); }
  bool is_int() const { return std::holds_alternative<std::int64_t>(data_); }
  bool is_float() const { return std::holds_alternative<double>(data_); }
  bool is_number() const { return is_bool() || is_int() || is_float(); }
  bool is_string() const { return std::holds_alternative<std::shared_ptr<const std::string>>(data_); }
  bool is_list() const { return std::holds_alternative<std::shared_ptr<const ListData>>(data_); }
  bool is_dict() const { return std::holds_alternative<std::shared_ptr<const DictData>>(data_); }
  bool is_callable() const { return as_function() || as_macro() || as_method(); }

  const std::string& as_string() const { return *std::get<std::shared_ptr<const std::string>>(data_); }
  const List& as_list() const { return std::get<std::shared_ptr<const ListData>>(data_)->items; }
  bool is_tuple() const { return is_list() && std::get<std::shared_ptr<const ListData>>(data_)->tuple; }
  const Entries& as_dict() const { return std::get<std::shared_ptr<const DictData>>(data_)->entries; }
  bool as_bool() const { return std::get<bool>(data_); }
  std::int64_t as_int() const;      // of an int or bool
  double as_double() const;         // of a number
  Namespace* as_namespace() const;  // or none
  const Function* as_function() const { return std::get_if<Function>(&data_); }
  const Macro* as_macro() const { return std::get_if<Macro>(&data_); }
  const Method* as_method() const;

  const Value* find(std::string_view key) const;  // of a dictionary; none when absent
  bool truthy() const;
  const char* type_name() const;  // as Python says
  int depth() const;

 private:
  struct ListData {
    List items;
    int depth = 1;
    bool tuple = false;
  };
  struct DictData {
    Entries entries;
    int depth = 1;
  };
  explicit Value(Undefined u) : data_(std::move(u)) {}

  std::variant<Undefined, std::nullptr_t, bool, std::int64_t, double, std::shared_ptr<const std::string>,
               std::shared_ptr<const ListData>, std::shared_ptr<const DictData>, std::shared_ptr<Namespace>,
               Function, Macro, std::shared_ptr<const Method>>
      data_;
};

struct Value::Method {
  Value object;
  std::string name;
};

bool equal(const Value& a, const Value& b, Budget& budget);
// Negative, 0, positive; TemplateError where Python does not order the two.
int compare(const Value& a, const Value& b, Budget& budget);
bool contains(const Value& container, const Value& item, Budget& budget);
// Elements as `for` sees them: items of a list, keys of a dictionary, characters of a string, none of an
// undefined value.
List elements(const Value& value, Budget& budget);

std::string to_string(const Value& value, Budget& budget);  // str()
std::string repr(const Value& value, Budget& budget);       // repr()

struct JsonStyle {
  std::optional<int> indent;
  std::optional<std::string> item_separator, key_separator;
  bool sort_keys = false, ascii = false;
};
std::string to_json(const Value& value, const JsonStyle& style, Budget& budget);  // json.dumps()

// Characters of a string, as views into it. Bytes that are not UTF-8 count one each.
std::vector<std::string_view> characters(std::string_view text, Budget& budget);
std::int64_t count_characters(std::string_view text);

}  // namespace stoa::chat

#include "chat/value.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace stoa::chat {

Value Value::list(List items, bool tuple) {
  int depth = 1;
  for (const Value& item : items) {
    require<TemplateError>(!item.as_namespace(), "a template cannot keep a namespace in a list");
    depth = std::max(depth, item.depth() + 1);
  }
  require<TemplateError>(depth <= kDeepest, "values of the template nest more than {} deep", kDeepest);
  Value out;
  out.data_ = std::make_shared<const ListData>(ListData{std::move(items), depth, tuple});
  return out;
}

Value Value::dict(Entries entries) {
  int depth = 1;
  for (const auto& [key, item] : entries) {
    require<TemplateError>(!item.as_namespace(), "a template cannot keep a namespace in a dictionary");
    depth = std::max(depth, item.depth() + 1);
  }
  require<TemplateError>(depth <= kDeepest, "values of the template nest more than {} deep", kDeepest);
  Value out;
  out.data_ = std::make_shared<const DictData>(DictData{std::move(entries), depth});
  return out;
}

Value Value::method(Value object, std::string name) {
  Value out;
  out.data_ = std::make_shared<const Method>(Method{std::move(object), std::move(name)});
  return out;
}

Value Value::from_json(const nlohmann::ordered_json& json, int depth) {
  require<TemplateError>(depth < kDeepest, "the messages nest more than {} deep", kDeepest);
  if (json.is_null()) return nullptr;
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_unsigned() && json.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))
    return json.get<double>();
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_array()) {
    List items;
    for (const auto& item : json) items.push_back(from_json(item, depth + 1));
    return list(std::move(items));
  }
  Entries entries;
  for (const auto& [key, item] : json.items()) entries.emplace_back(key, from_json(item, depth + 1));
  return dict(std::move(entries));
}

bool Value::is_unusable() const {
  const auto* undefined = std::get_if<Undefined>(&data_);
  return undefined != nullptr && !undefined->usable;
}

const std::string& Value::undefined_name() const {
  static const std::string none;
  const auto* undefined = std::get_if<Undefined>(&data_);
  return undefined ? undefined->name : none;
}

std::int64_t Value::as_int() const {
  return is_bool() ? std::int64_t{as_bool()} : std::get<std::int64_t>(data_);
}
double Value::as_double() const {
  return is_float() ? std::get<double>(data_) : static_cast<double>(as_int());
}
Namespace* Value::as_namespace() const {
  const auto* n = std::get_if<std::shared_ptr<Namespace>>(&data_);
  return n ? n->get() : nullptr;
}
const Value::Method* Value::as_method() const {
  const auto* m = std::get_if<std::shared_ptr<const Method>>(&data_);
  return m ? m->get() : nullptr;
}

const Value* Value::find(std::string_view key) const {
  for (const auto& [name, value] : as_dict())
    if (name == key) return &value;
  return nullptr;
}

bool Value::truthy() const {
  if (is_undefined() || is_none()) return false;
  if (is_number()) return as_double() != 0;
  if (is_string()) return !as_string().empty();
  if (is_list()) return !as_list().empty();
  if (is_dict()) return !as_dict().empty();
  return true;
}

const char* Value::type_name() const {
  if (is_undefined()) return "Undefined";
  if (is_none()) return "NoneType";
  if (is_bool()) return "bool";
  if (is_int()) return "int";
  if (is_float()) return "float";
  if (is_string()) return "str";
  if (is_list()) return is_tuple() ? "tuple" : "list";
  if (is_dict()) return "dict";
  return as_namespace() ? "Namespace" : "function";
}

int Value::depth() const {
  if (is_list()) return std::get<std::shared_ptr<const ListData>>(data_)->depth;
  if (is_dict()) return std::get<std::shared_ptr<const DictData>>(data_)->depth;
  if (const Method* m = as_method()) return m->object.depth() + 1;
  return 0;
}

bool equal(const Value& a, const Value& b, Budget& budget) {
  budget.pay();
  if (a.is_number() && b.is_number()) {
    return a.is_float() || b.is_float() ? a.as_double() == b.as_double() : a.as_int() == b.as_int();
  }
  if (a.is_string() && b.is_string()) {
    budget.pay_bytes(std::min(a.as_string().size(), b.as_string().size()));
    return a.as_string() == b.as_string();
  }
  if (a.is_list() && b.is_list()) {
    if (a.as_list().size() != b.as_list().size() || a.is_tuple() != b.is_tuple()) return false;
    for (std::size_t i = 0; i < a.as_list().size(); ++i)
      if (!equal(a.as_list()[i], b.as_list()[i], budget)) return false;
    return true;
  }
  if (a.is_dict() && b.is_dict()) {
    if (a.as_dict().size() != b.as_dict().size()) return false;
    for (const auto& [key, value] : a.as_dict()) {
      budget.pay(b.as_dict().size());
      const Value* other = b.find(key);
      if (!other || !equal(value, *other, budget)) return false;
    }
    return true;
  }
  if (a.is_none() || b.is_none()) return a.is_none() && b.is_none();
  if (a.is_undefined() || b.is_undefined()) return a.is_undefined() && b.is_undefined();
  if (a.as_namespace() || b.as_namespace()) return a.as_namespace() == b.as_namespace();
  return false;
}

int compare(const Value& a, const Value& b, Budget& budget) {
  budget.pay();
  const auto sign = [](auto x, auto y) { return x < y ? -1 : x > y ? 1 : 0; };
  if (a.is_number() && b.is_number())
    return a.is_float() || b.is_float() ? sign(a.as_double(), b.as_double()) : sign(a.as_int(), b.as_int());
  if (a.is_string() && b.is_string()) {
    budget.pay_bytes(std::min(a.as_string().size(), b.as_string().size()));
    return a.as_string().compare(b.as_string());  // the order of UTF-8 is that of its characters
  }
  if (a.is_list() && b.is_list() && a.is_tuple() == b.is_tuple()) {
    const auto& x = a.as_list();
    const auto& y = b.as_list();
    for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i)
      if (!equal(x[i], y[i], budget)) return compare(x[i], y[i], budget);
    return sign(x.size(), y.size());
  }
  fail<TemplateError>("the template compares '{}' with '{}'", a.type_name(), b.type_name());
}

bool contains(const Value& container, const Value& item, Budget& budget) {
  if (container.is_string()) {
    require<TemplateError>(item.is_string(), "'in <string>' requires a string, not '{}'", item.type_name());
    budget.pay_bytes(container.as_string().size());
    return container.as_string().find(item.as_string()) != std::string::npos;
  }
  if (container.is_dict()) {
    budget.pay(container.as_dict().size());
    return item.is_string() && container.find(item.as_string()) != nullptr;
  }
  if (container.is_undefined()) return false;
  require<TemplateError>(container.is_list(), "a value of type '{}' cannot be searched with 'in'",
                         container.type_name());
  for (const Value& value : container.as_list())
    if (equal(value, item, budget)) return true;
  return false;
}

List elements(const Value& value, Budget& budget) {
  List out;
  if (value.is_undefined()) return out;
  if (value.is_list()) {
    budget.pay(value.as_list().size());
    return value.as_list();
  }
  if (value.is_dict()) {
    for (const auto& [key, item] : value.as_dict()) budget.pay_bytes(key.size()), out.emplace_back(key);
    return out;
  }
  require<TemplateError>(value.is_string(), "a value of type '{}' cannot be iterated over",
                         value.type_name());
  for (const auto character : characters(value.as_string(), budget)) out.emplace_back(character);
  return out;
}

std::vector<std::string_view> characters(std::string_view text, Budget& budget) {
  budget.pay(text.size());
  std::vector<std::string_view> out;
  for (std::size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    std::size_t length = first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    length = std::min(length, text.size() - i);
    for (std::size_t k = 1; k < length; ++k)
      if ((static_cast<unsigned char>(text[i + k]) & 0xc0) != 0x80) length = k;
    out.push_back(text.substr(i, length));
    i += length;
  }
  return out;
}

std::int64_t count_characters(std::string_view text) {
  Budget free(INT64_MAX);
  return static_cast<std::int64_t>(characters(text, free).size());
}

}  // namespace stoa::chat

#include <algorithm>
#include <cmath>

#include "chat/runtime.h"

namespace stoa::chat {
namespace {

[[noreturn]] void unsupported(std::string_view op, const Value& a, const Value& b) {
  const Value& bad = a.is_undefined() ? a : b;
  if (bad.is_undefined()) fail<TemplateError>("the template uses an undefined value with '{}'", op);
  fail<TemplateError>("unsupported operand types for '{}': '{}' and '{}'", op, a.type_name(), b.type_name());
}

std::string repeat(const std::string& text, std::int64_t times, Budget& budget) {
  std::string out;
  if (times <= 0 || text.empty()) return out;
  budget.pay(static_cast<std::size_t>(times));
  for (std::int64_t i = 0; i < times; ++i) {
    budget.pay_bytes(text.size());
    out += text;
  }
  return out;
}

Value integers(std::string_view op, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  bool overflow = false;
  if (op == "+") overflow = __builtin_add_overflow(a, b, &out);
  if (op == "-") overflow = __builtin_sub_overflow(a, b, &out);
  if (op == "*") overflow = __builtin_mul_overflow(a, b, &out);
  if (op == "//" || op == "%") {  // towards minus infinity
    require<TemplateError>(b != 0, "the template divides by zero");
    if (b == -1) {
      if (op == "%") return 0;
      overflow = __builtin_sub_overflow(std::int64_t{0}, a, &out);
    } else {
      const std::int64_t quotient = a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
      out = op == "//" ? quotient : a - quotient * b;
    }
  }
  if (op == "**") {
    if (b < 0) return std::pow(static_cast<double>(a), static_cast<double>(b));
    out = 1;
    if (a == 0 || a == 1) return b == 0 ? std::int64_t{1} : a;
    if (a == -1) return std::int64_t{b % 2 == 0 ? 1 : -1};
    for (std::int64_t i = 0; i < b && !overflow; ++i) overflow = __builtin_mul_overflow(out, a, &out);
  }
  require<TemplateError>(!overflow, "an integer of the template is beyond 64 bits");
  return out;
}

Value floats(std::string_view op, double a, double b) {
  if (op == "+") return a + b;
  if (op == "-") return a - b;
  if (op == "*") return a * b;
  if (op == "**") return std::pow(a, b);
  require<TemplateError>(b != 0, "the template divides by zero");
  if (op == "/") return a / b;
  if (op == "//") return std::floor(a / b);
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

}  // namespace

Value binary(std::string_view op, const Value& a, const Value& b, Budget& budget) {
  budget.pay();
  if (op == "~") return to_string(a, budget) + to_string(b, budget);
  if (a.is_number() && b.is_number()) {
    if (a.is_float() || b.is_float() || op == "/") return floats(op, a.as_double(), b.as_double());
    return integers(op, a.as_int(), b.as_int());
  }
  if (op == "+" && a.is_string() && b.is_string()) {
    budget.pay_bytes(a.as_string().size() + b.as_string().size());
    return a.as_string() + b.as_string();
  }
  if (op == "+" && a.is_list() && b.is_list() && a.is_tuple() == b.is_tuple()) {
    budget.pay(a.as_list().size() + b.as_list().size());
    List items = a.as_list();
    items.insert(items.end(), b.as_list().begin(), b.as_list().end());
    return Value::list(std::move(items), a.is_tuple());
  }
  if (op == "*") {
    const bool turned = a.is_int() && !b.is_int();
    const Value& what = turned ? b : a;
    const Value& times = turned ? a : b;
    if (what.is_string() && times.is_int()) return repeat(what.as_string(), times.as_int(), budget);
    if (what.is_list() && times.is_int()) {
      List items;
      for (std::int64_t i = 0; i < times.as_int(); ++i) {
        budget.pay(1 + what.as_list().size());
        items.insert(items.end(), what.as_list().begin(), what.as_list().end());
      }
      return Value::list(std::move(items), what.is_tuple());
    }
  }
  unsupported(op, a, b);
}

Value slice(const Value& object, const Value* from, const Value* to, const Value* step, Budget& budget) {
  require<TemplateError>(object.is_string() || object.is_list(), "a value of type '{}' cannot be sliced",
                         object.type_name());
  std::vector<std::string_view> letters;
  if (object.is_string()) letters = characters(object.as_string(), budget);
  const auto size = static_cast<std::int64_t>(object.is_string() ? letters.size() : object.as_list().size());
  const auto number = [&](const Value* v, std::int64_t otherwise) {
    if (!v || v->is_none()) return otherwise;
    require<TemplateError>(v->is_int() || v->is_bool(), "slice indices must be integers, not '{}'",
                           v->type_name());
    return v->as_int();
  };
  const std::int64_t stride = number(step, 1);
  require<TemplateError>(stride != 0, "a slice of step 0");
  const std::int64_t lowest = stride < 0 ? -1 : 0, highest = stride < 0 ? size - 1 : size;
  const auto place = [&](const Value* v, std::int64_t otherwise) {
    if (!v || v->is_none()) return otherwise;
    std::int64_t i = number(v, 0);
    if (i < 0) i = i < -size ? lowest : i + size;
    return std::clamp(i, lowest, std::max(lowest, highest));
  };
  const std::int64_t begin = place(from, stride < 0 ? highest : lowest),
                     end = place(to, stride < 0 ? lowest : highest);
  std::string text;
  List items;
  for (std::int64_t i = begin; stride > 0 ? i < end : i > end;) {
    budget.pay();
    if (object.is_string())
      text += letters[static_cast<std::size_t>(i)];
    else
      items.push_back(object.as_list()[static_cast<std::size_t>(i)]);
    if (__builtin_add_overflow(i, stride, &i)) break;
  }
  return object.is_string() ? Value(std::move(text)) : Value::list(std::move(items), object.is_tuple());
}

Value item_of(const Value& object, const Value& key, Budget& budget) {
  require<TemplateError>(!object.is_undefined(), "the template takes an item of an undefined value");
  if (object.is_dict()) {
    budget.pay(object.as_dict().size());
    if (key.is_string()) {
      if (const Value* found = object.find(key.as_string())) return *found;
      return attribute_of(object, key.as_string(), budget);
    }
    return Value::undefined("item");
  }
  if (object.is_list() || object.is_string()) {
    if (key.is_int() || key.is_bool()) {
      std::int64_t i = key.as_int();
      const auto letters =
          object.is_string() ? characters(object.as_string(), budget) : std::vector<std::string_view>{};
      const auto size =
          static_cast<std::int64_t>(object.is_string() ? letters.size() : object.as_list().size());
      if (i < 0) i += size;
      if (i < 0 || i >= size) return Value::undefined("item");
      return object.is_string() ? Value(letters[static_cast<std::size_t>(i)])
                                : object.as_list()[static_cast<std::size_t>(i)];
    }
  }
  if (key.is_string()) return attribute_of(object, key.as_string(), budget);
  return Value::undefined("item");
}

const Value* Arguments::find(std::size_t position, std::string_view name) const {
  if (position < values.size()) return &values[position];
  for (const auto& [key, value] : named)
    if (key == name) return &value;
  return nullptr;
}
const Value& Arguments::need(std::size_t position, std::string_view name, std::string_view what) const {
  const Value* found = find(position, name);
  require<TemplateError>(found != nullptr, "'{}' in the template needs the argument '{}'", what, name);
  return *found;
}
void Arguments::allow(std::size_t most, std::initializer_list<std::string_view> names,
                      std::string_view what) const {
  require<TemplateError>(values.size() <= most, "'{}' in the template takes at most {} arguments, got {}",
                         what, most, values.size());
  for (const auto& [key, value] : named)
    require<TemplateError>(std::find(names.begin(), names.end(), key) != names.end(),
                           "'{}' in the template has no argument '{}'", what, key);
}

const std::string& text_of(const Value& value, std::string_view what) {
  require<TemplateError>(value.is_string(), "'{}' in the template needs a string, got '{}'", what,
                         value.type_name());
  return value.as_string();
}

}  // namespace stoa::chat

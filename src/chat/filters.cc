#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/escape.h"
#include "base/nearest.h"
#include "base/utf8.h"
#include "chat/runtime.h"

namespace stoa::chat {
namespace {

// "a.b.0": attributes or items one after the other, as map(attribute=…) and selectattr() take them.
Value path_of(const Value& value, const Value& path, Budget& budget) {
  if (path.is_int()) return item_of(value, path, budget);
  Value at = value;
  std::string_view rest = text_of(path, "attribute");
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find('.'));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    std::int64_t index = 0;
    const auto number = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool is_index =
        !part.empty() && number.ptr == part.data() + part.size() && number.ec == std::errc{};
    at = is_index ? item_of(at, index, budget) : item_of(at, part, budget);
  }
  return at;
}

Arguments after(const Arguments& a, std::size_t skipped) {
  Arguments out;
  if (a.values.size() > skipped)
    out.values.assign(a.values.begin() + static_cast<std::ptrdiff_t>(skipped), a.values.end());
  out.named = a.named;
  return out;
}

Value map(const Value& subject, const Arguments& a, Budget& budget) {
  List out;
  const Value* attribute = a.values.empty() ? a.find(0, "attribute") : nullptr;
  const Value* otherwise = attribute ? a.find(1, "default") : nullptr;
  for (const Value& item : elements(subject, budget)) {
    if (attribute) {
      Value found = path_of(item, *attribute, budget);
      out.push_back(found.is_undefined() && otherwise ? *otherwise : std::move(found));
    } else {
      out.push_back(apply_filter(text_of(a.need(0, "filter", "map"), "map"), item, after(a, 1), budget));
    }
  }
  return Value::list(std::move(out));
}

Value select(std::string_view name, const Value& subject, const Arguments& a, Budget& budget) {
  const bool by_attribute = name.ends_with("attr"), wanted = name.starts_with("select");
  const std::size_t at = by_attribute ? 1 : 0;
  List out;
  for (const Value& item : elements(subject, budget)) {
    const Value tested = by_attribute ? path_of(item, a.need(0, "attribute", name), budget) : item;
    const bool holds = a.values.size() > at
                           ? apply_test(text_of(a.values[at], name), tested, after(a, at + 1), budget)
                           : tested.truthy();
    if (holds == wanted) out.push_back(item);
  }
  return Value::list(std::move(out));
}

Value sorted(const Value& subject, const Arguments& a, Budget& budget) {
  a.allow(3, {"reverse", "case_sensitive", "attribute"}, "sort");
  const Value* reverse = a.find(0, "reverse");
  const Value* exact = a.find(1, "case_sensitive");
  const Value* attribute = a.find(2, "attribute");
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : elements(subject, budget)) {
    Value key = attribute && !attribute->is_none() ? path_of(item, *attribute, budget) : item;
    if (key.is_string() && !(exact && exact->truthy()))
      key = change_case(key.as_string(), Case::kLower, budget);
    keyed.emplace_back(std::move(key), item);
  }
  const bool down = reverse && reverse->truthy();
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& x, const auto& y) {
    const int order = compare(x.first, y.first, budget);
    return down ? order > 0 : order < 0;
  });
  List out;
  for (auto& [key, item] : keyed) out.push_back(std::move(item));
  return Value::list(std::move(out));
}

Value dict_sorted(const Value& subject, Budget& budget) {
  require<TemplateError>(subject.is_dict(), "'dictsort' needs a dictionary, got '{}'", subject.type_name());
  std::vector<std::pair<std::string, const Entries::value_type*>> keyed;
  for (const auto& entry : subject.as_dict())
    keyed.emplace_back(change_case(entry.first, Case::kLower, budget), &entry);
  std::stable_sort(keyed.begin(), keyed.end(),
                   [](const auto& x, const auto& y) { return x.first < y.first; });
  List out;
  for (const auto& [key, entry] : keyed)
    out.push_back(Value::list({Value(entry->first), entry->second}, true));
  return Value::list(std::move(out));
}

Value unique(const Value& subject, Budget& budget) {
  List out, keys;
  for (const Value& item : elements(subject, budget)) {
    const Value key = item.is_string() ? Value(change_case(item.as_string(), Case::kLower, budget)) : item;
    if (std::any_of(keys.begin(), keys.end(), [&](const Value& k) { return equal(k, key, budget); }))
      continue;
    keys.push_back(key);
    out.push_back(item);
  }
  return Value::list(std::move(out));
}

Value join(const Value& subject, const Arguments& a, Budget& budget) {
  a.allow(2, {"d", "attribute"}, "join");
  const Value* between = a.find(0, "d");
  const Value* attribute = a.find(1, "attribute");
  const std::string separator = between ? to_string(*between, budget) : "";
  std::string out;
  bool first = true;
  for (const Value& item : elements(subject, budget)) {
    if (!std::exchange(first, false)) budget.pay_bytes(separator.size()), out += separator;
    out += to_string(attribute && !attribute->is_none() ? path_of(item, *attribute, budget) : item, budget);
  }
  return out;
}

Value json(const Value& subject, const Arguments& a, Budget& budget) {
  a.allow(4, {"ensure_ascii", "indent", "separators", "sort_keys"}, "tojson");
  JsonStyle style;
  // Hugging Face's order: ensure_ascii, indent, separators, sort_keys.
  if (const Value* ascii = a.find(0, "ensure_ascii")) style.ascii = ascii->truthy();
  if (const Value* indent = a.find(1, "indent"); indent && !indent->is_none()) {
    require<TemplateError>(indent->is_int(), "'tojson' needs an integer indent, got '{}'",
                           indent->type_name());
    style.indent = static_cast<int>(std::clamp<std::int64_t>(indent->as_int(), -1, 1000));
  }
  if (const Value* separators = a.find(2, "separators"); separators && !separators->is_none()) {
    require<TemplateError>(separators->is_list() && separators->as_list().size() == 2,
                           "'tojson' needs two separators");
    style.item_separator = text_of(separators->as_list()[0], "tojson");
    style.key_separator = text_of(separators->as_list()[1], "tojson");
  }
  if (const Value* sort = a.find(3, "sort_keys")) style.sort_keys = sort->truthy();
  return to_json(subject, style, budget);
}

Value indented(const Value& subject, const Arguments& a, Budget& budget) {
  a.allow(3, {"width", "first", "blank"}, "indent");
  const Value* width = a.find(0, "width");
  std::string lead(4, ' ');
  if (width && width->is_string()) lead = width->as_string();
  if (width && width->is_int())
    lead = std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(width->as_int(), 0, 1000)), ' ');
  const Value* first = a.find(1, "first");
  const Value* blank = a.find(2, "blank");
  std::string out;
  std::string_view rest = text_of(subject, "indent");
  bool lead_this = first && first->truthy();
  for (;;) {
    const std::size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    if (lead_this && (!line.empty() || (blank && blank->truthy()))) out += lead;
    budget.pay_bytes(lead.size() + line.size());
    out += line;
    if (end == std::string_view::npos) return out;
    out += '\n';
    rest.remove_prefix(end + 1);
    lead_this = true;
  }
}

Value to_int(const Value& subject, const Arguments& a) {
  const Value* otherwise = a.find(0, "default");
  const Value fallback = otherwise ? *otherwise : Value(0);
  if (subject.is_int() || subject.is_bool()) return subject.as_int();
  if (subject.is_float())
    return std::abs(subject.as_double()) < 9e18 ? Value(static_cast<std::int64_t>(subject.as_double()))
                                                : fallback;
  if (!subject.is_string()) return fallback;
  std::string_view text = subject.as_string();
  while (const std::size_t n = leading_white_space(text)) text.remove_prefix(n);
  while (const std::size_t n = trailing_white_space(text)) text.remove_suffix(n);
  if (text.starts_with("+")) text.remove_prefix(1);
  std::int64_t value = 0;
  auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  if (!text.empty() && end.ec == std::errc{} && end.ptr == text.data() + text.size()) return value;
  double number = 0;
  end = std::from_chars(text.data(), text.data() + text.size(), number);
  if (!text.empty() && end.ec == std::errc{} && end.ptr == text.data() + text.size() &&
      std::abs(number) < 9e18)
    return static_cast<std::int64_t>(number);
  return fallback;
}

Value to_float(const Value& subject, const Arguments& a) {
  if (subject.is_number()) return subject.as_double();
  double value = 0;
  if (subject.is_string()) {
    const std::string& text = subject.as_string();
    const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
    if (!text.empty() && end.ec == std::errc{} && end.ptr == text.data() + text.size()) return value;
  }
  const Value* otherwise = a.find(0, "default");
  return otherwise ? *otherwise : Value(0.0);
}

Value length(const Value& subject) {
  if (subject.is_undefined()) return 0;
  if (subject.is_string()) return count_characters(subject.as_string());
  if (subject.is_list()) return subject.as_list().size();
  require<TemplateError>(subject.is_dict(), "a value of type '{}' has no length", subject.type_name());
  return subject.as_dict().size();
}

constexpr std::array<std::string_view, 38> kFilters{
    "abs",     "capitalize", "count",  "d",      "default",    "dictsort", "e",          "escape",
    "first",   "float",      "indent", "int",    "items",      "join",     "last",       "length",
    "list",    "lower",      "map",    "max",    "min",        "reject",   "rejectattr", "replace",
    "reverse", "round",      "safe",   "select", "selectattr", "sort",     "string",     "sum",
    "title",   "tojson",     "trim",   "unique", "upper",      "wordcount"};

}  // namespace

Value apply_filter(std::string_view name, const Value& subject, const Arguments& a, Budget& budget) {
  budget.pay();
  if (name == "trim") {
    a.allow(1, {"chars"}, name);
    return strip(to_string(subject, budget), a.find(0, "chars"), true, true, budget);
  }
  if (name == "tojson") return json(subject, a, budget);
  if (name == "default" || name == "d") {
    a.allow(2, {"default_value", "boolean"}, name);
    const Value* otherwise = a.find(0, "default_value");
    const Value* empty_too = a.find(1, "boolean");
    const bool missing = subject.is_undefined() || (empty_too && empty_too->truthy() && !subject.truthy());
    return !missing ? subject : otherwise ? *otherwise : Value("");
  }
  if (name == "join") return join(subject, a, budget);
  if (name == "map") return map(subject, a, budget);
  if (name == "select" || name == "reject" || name == "selectattr" || name == "rejectattr")
    return select(name, subject, a, budget);
  if (name == "sort") return sorted(subject, a, budget);
  if (name == "indent") return indented(subject, a, budget);
  if (name == "replace") {
    a.allow(3, {"old", "new", "count"}, name);
    const Value* most = a.find(2, "count");
    return replace(to_string(subject, budget), to_string(a.need(0, "old", name), budget),
                   to_string(a.need(1, "new", name), budget), most && most->is_int() ? most->as_int() : -1,
                   budget);
  }
  if (name == "int") return to_int(subject, a);
  if (name == "float") return to_float(subject, a);
  if (name == "round") {
    a.allow(1, {"precision"}, name);
    const Value* digits = a.find(0, "precision");
    require<TemplateError>(subject.is_number() && (!digits || digits->is_int()), "'round' needs numbers");
    const double scale = std::pow(10.0, static_cast<double>(digits ? digits->as_int() : 0));
    return std::nearbyint(subject.as_double() * scale) / scale;
  }
  if (name == "sum") {
    a.allow(2, {"attribute", "start"}, name);
    const Value* attribute = a.find(0, "attribute");
    const Value* start = a.find(1, "start");
    Value total = start ? *start : Value(0);
    for (const Value& item : elements(subject, budget))
      total = binary("+", total,
                     attribute && !attribute->is_none() ? path_of(item, *attribute, budget) : item, budget);
    return total;
  }
  a.allow(0, {}, name);
  if (name == "length" || name == "count") return length(subject);
  if (name == "upper") return change_case(to_string(subject, budget), Case::kUpper, budget);
  if (name == "lower") return change_case(to_string(subject, budget), Case::kLower, budget);
  if (name == "title") return change_case(to_string(subject, budget), Case::kTitle, budget);
  if (name == "capitalize") return change_case(to_string(subject, budget), Case::kCapitalize, budget);
  if (name == "string") return to_string(subject, budget);
  if (name == "safe") return subject;
  if (name == "escape" || name == "e") return escape_html_characters(to_string(subject, budget), "&#34;");
  if (name == "list") return Value::list(elements(subject, budget));
  if (name == "items") {
    if (subject.is_undefined()) return Value::list({});
    require<TemplateError>(subject.is_dict(), "'items' needs a dictionary, got '{}'", subject.type_name());
    return call_method({subject, "items"}, {}, budget);
  }
  if (name == "dictsort") return dict_sorted(subject, budget);
  if (name == "unique") return unique(subject, budget);
  if (name == "reverse") {
    if (subject.is_string()) {
      const Value back(std::int64_t{-1});
      return slice(subject, nullptr, nullptr, &back, budget);
    }
    List items = elements(subject, budget);
    std::reverse(items.begin(), items.end());
    return Value::list(std::move(items));
  }
  if (name == "first" || name == "last") {
    const List items = elements(subject, budget);
    if (items.empty()) return Value::undefined(name);
    return name == "first" ? items.front() : items.back();
  }
  if (name == "min" || name == "max") {
    const List items = elements(subject, budget);
    if (items.empty()) return Value::undefined(name);
    const auto less = [&](const Value& x, const Value& y) { return compare(x, y, budget) < 0; };
    return name == "min" ? *std::min_element(items.begin(), items.end(), less)
                         : *std::max_element(items.begin(), items.end(), less);
  }
  if (name == "abs") {
    require<TemplateError>(subject.is_number(), "'abs' needs a number, got '{}'", subject.type_name());
    if (subject.is_float()) return std::abs(subject.as_double());
    return subject.as_int() < 0 ? binary("-", 0, subject, budget) : subject;
  }
  if (name == "wordcount") {
    const Value words = call_method({Value(to_string(subject, budget)), "split"}, {}, budget);
    return words.as_list().size();
  }
  std::vector<std::string> known(kFilters.begin(), kFilters.end());
  fail<TemplateError>("the template uses the filter '{}', which does not exist here{}", name.substr(0, 80),
                      did_you_mean(name, known));
}

bool apply_test(std::string_view name, const Value& v, const Arguments& a, Budget& budget) {
  budget.pay();
  const auto other = [&]() -> const Value& {
    a.allow(1, {}, name);
    return a.need(0, "other", name);
  };
  if (name == "equalto" || name == "eq" || name == "==") return equal(v, other(), budget);
  if (name == "ne" || name == "!=") return !equal(v, other(), budget);
  if (name == "lt" || name == "lessthan" || name == "<") return compare(v, other(), budget) < 0;
  if (name == "le" || name == "<=") return compare(v, other(), budget) <= 0;
  if (name == "gt" || name == "greaterthan" || name == ">") return compare(v, other(), budget) > 0;
  if (name == "ge" || name == ">=") return compare(v, other(), budget) >= 0;
  if (name == "in") return contains(other(), v, budget);
  if (name == "sameas") {
    const Value& o = other();
    return std::string_view(v.type_name()) == o.type_name() && equal(v, o, budget);
  }
  if (name == "divisibleby") return binary("%", v, other(), budget).as_double() == 0;
  a.allow(0, {}, name);
  if (name == "defined") return !v.is_undefined();
  if (name == "undefined") return v.is_undefined();
  if (name == "none") return v.is_none();
  if (name == "string") return v.is_string();
  if (name == "mapping") return v.is_dict();
  if (name == "sequence" || name == "iterable")
    return v.is_string() || v.is_list() || v.is_dict() || v.is_undefined();
  if (name == "number") return v.is_number();
  if (name == "integer") return v.is_int();
  if (name == "float") return v.is_float();
  if (name == "boolean") return v.is_bool();
  if (name == "true") return v.is_bool() && v.as_bool();
  if (name == "false") return v.is_bool() && !v.as_bool();
  if (name == "callable") return v.is_callable();
  if (name == "odd" || name == "even") return (binary("%", v, 2, budget).as_double() != 0) == (name == "odd");
  if (name == "lower" || name == "upper") {
    const std::string text = to_string(v, budget);
    return call_method({Value(text), name == "lower" ? "islower" : "isupper"}, {}, budget).truthy();
  }
  fail<TemplateError>("the template uses the test '{}', which does not exist here", name.substr(0, 80));
}

}  // namespace stoa::chat

// Methods of strings, lists and dictionaries that return a value and leave the object unchanged.
#include <utf8proc.h>

#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "chat/runtime.h"

namespace stoa::chat {
namespace {

constexpr std::array<std::string_view, 27> kStringMethods{
    "strip",    "lstrip",  "rstrip",  "split",        "rsplit",       "splitlines", "startswith",
    "endswith", "replace", "upper",   "lower",        "title",        "capitalize", "join",
    "find",     "rfind",   "index",   "count",        "isdigit",      "isnumeric",  "isspace",
    "isalpha",  "isupper", "islower", "removeprefix", "removesuffix", "partition"};
constexpr std::array<std::string_view, 4> kDictMethods{"items", "keys", "values", "get"};
constexpr std::array<std::string_view, 2> kListMethods{"index", "count"};

template <class Array>
bool has(const Array& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// For startswith and endswith: true if `fits` holds for the argument, or for any string of a tuple.
template <class Fits>
bool any_of(const Value& choice, std::string_view what, Fits&& fits) {
  if (!choice.is_list()) return fits(text_of(choice, what));
  return std::any_of(choice.as_list().begin(), choice.as_list().end(),
                     [&](const Value& v) { return fits(text_of(v, what)); });
}

List split_space(std::string_view text, std::int64_t most, Budget& budget) {
  budget.pay(1 + text.size());
  List out;
  while (const std::size_t n = leading_white_space(text)) text.remove_prefix(n);
  while (!text.empty()) {
    if (most >= 0 && static_cast<std::int64_t>(out.size()) == most) {
      while (const std::size_t n = trailing_white_space(text)) text.remove_suffix(n);
      out.emplace_back(text);
      return out;
    }
    std::size_t end = 0;
    while (end < text.size() && !leading_white_space(text.substr(end))) ++end;
    out.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
    while (const std::size_t n = leading_white_space(text)) text.remove_prefix(n);
  }
  return out;
}

List split_at(std::string_view text, std::string_view separator, std::int64_t most, bool from_right,
              Budget& budget) {
  require<TemplateError>(!separator.empty(), "split() with an empty separator");
  budget.pay(1 + text.size());
  List out;
  while (most < 0 || static_cast<std::int64_t>(out.size()) < most) {
    const std::size_t at = from_right ? text.rfind(separator) : text.find(separator);
    if (at == std::string_view::npos) break;
    if (from_right) {
      out.emplace_back(text.substr(at + separator.size()));
      text = text.substr(0, at);
    } else {
      out.emplace_back(text.substr(0, at));
      text.remove_prefix(at + separator.size());
    }
  }
  out.emplace_back(text);
  if (from_right) std::reverse(out.begin(), out.end());
  return out;
}

List split_lines(std::string_view text, bool keep, Budget& budget) {
  budget.pay(1 + text.size());
  List out;
  while (!text.empty()) {
    std::size_t end = text.find_first_of("\n\r\v\f"), next = end;
    if (end == std::string_view::npos)
      end = next = text.size();
    else
      next = end + (text.substr(end, 2) == "\r\n" ? 2 : 1);
    out.emplace_back(text.substr(0, keep ? next : end));
    text.remove_prefix(next);
  }
  return out;
}

template <class Is>
bool all_characters(std::string_view text, Budget& budget, Is&& is) {
  const auto letters = characters(text, budget);
  return !letters.empty() && std::all_of(letters.begin(), letters.end(), [&](std::string_view c) {
    utf8proc_int32_t code = 0;
    const auto length = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(c.data()),
                                         static_cast<utf8proc_ssize_t>(c.size()), &code);
    return length > 0 && is(c, code);
  });
}

std::int64_t position_of(std::string_view text, std::size_t at) {
  return at == std::string_view::npos ? -1 : count_characters(text.substr(0, at));
}

Value string_method(const std::string& text, const std::string& name, const Arguments& a, Budget& budget) {
  budget.pay(1 + text.size() / 16);
  const auto whole = [&](std::size_t i, std::string_view key, std::int64_t otherwise) {
    const Value* v = a.find(i, key);
    if (!v || v->is_none()) return otherwise;
    require<TemplateError>(v->is_int(), "'{}' in the template needs an integer, got '{}'", name,
                           v->type_name());
    return v->as_int();
  };
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    a.allow(1, {}, name);
    return strip(text, a.find(0, "chars"), name != "rstrip", name != "lstrip", budget);
  }
  if (name == "split" || name == "rsplit") {
    a.allow(2, {"sep", "maxsplit"}, name);
    const Value* separator = a.find(0, "sep");
    const std::int64_t most = whole(1, "maxsplit", -1);
    if (!separator || separator->is_none()) {
      require<TemplateError>(most < 0 || name == "split", "rsplit() with a limit needs a separator");
      return Value::list(split_space(text, most, budget));
    }
    return Value::list(split_at(text, text_of(*separator, name), most, name == "rsplit", budget));
  }
  if (name == "splitlines") {
    a.allow(1, {"keepends"}, name);
    const Value* keep = a.find(0, "keepends");
    return Value::list(split_lines(text, keep && keep->truthy(), budget));
  }
  if (name == "startswith" || name == "endswith") {
    a.allow(1, {}, name);
    return any_of(a.need(0, "prefix", name), name, [&](const std::string& part) {
      return name == "startswith" ? text.starts_with(part) : text.ends_with(part);
    });
  }
  if (name == "removeprefix" || name == "removesuffix") {
    a.allow(1, {}, name);
    const std::string& part = text_of(a.need(0, "prefix", name), name);
    if (name == "removeprefix") return text.starts_with(part) ? text.substr(part.size()) : text;
    return text.ends_with(part) ? text.substr(0, text.size() - part.size()) : text;
  }
  if (name == "partition") {
    a.allow(1, {}, name);
    const std::string& separator = text_of(a.need(0, "sep", name), name);
    const std::size_t at = separator.empty() ? std::string::npos : text.find(separator);
    if (at == std::string::npos) return Value::list({text, "", ""}, true);
    return Value::list({text.substr(0, at), separator, text.substr(at + separator.size())}, true);
  }
  if (name == "replace") {
    a.allow(3, {"count"}, name);
    return replace(text, text_of(a.need(0, "old", name), name), text_of(a.need(1, "new", name), name),
                   whole(2, "count", -1), budget);
  }
  if (name == "join") {
    a.allow(1, {}, name);
    std::string out;
    bool first = true;
    for (const Value& item : elements(a.need(0, "iterable", name), budget)) {
      if (!std::exchange(first, false)) out += text;
      out += text_of(item, name);
      budget.pay_bytes(text.size() + item.as_string().size());
    }
    return out;
  }
  if (name == "find" || name == "rfind" || name == "index" || name == "count") {
    a.allow(1, {}, name);
    const std::string& part = text_of(a.need(0, "sub", name), name);
    if (name == "count") {
      if (part.empty()) return count_characters(text) + 1;
      std::int64_t count = 0;
      for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++count;
      return count;
    }
    const std::int64_t at = position_of(text, name == "rfind" ? text.rfind(part) : text.find(part));
    require<TemplateError>(name != "index" || at >= 0, "index() in the template: substring not found");
    return at;
  }
  a.allow(0, {}, name);
  if (name == "upper") return change_case(text, Case::kUpper, budget);
  if (name == "lower") return change_case(text, Case::kLower, budget);
  if (name == "title") return change_case(text, Case::kTitle, budget);
  if (name == "capitalize") return change_case(text, Case::kCapitalize, budget);
  if (name == "isspace")
    return all_characters(text, budget,
                          [](std::string_view c, int) { return leading_white_space(c) == c.size(); });
  const auto category = [](int code) { return utf8proc_category(code); };
  if (name == "isdigit")
    return all_characters(text, budget,
                          [&](auto, int code) { return category(code) == UTF8PROC_CATEGORY_ND; });
  if (name == "isnumeric")
    return all_characters(text, budget, [&](auto, int code) {
      const auto c = category(code);
      return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
    });
  if (name == "isalpha")
    return all_characters(text, budget, [&](auto, int code) {
      const auto c = category(code);
      return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
    });
  const std::string changed = change_case(text, name == "isupper" ? Case::kUpper : Case::kLower, budget);
  return changed == text &&
         change_case(text, name == "isupper" ? Case::kLower : Case::kUpper, budget) != text;
}

Value dict_method(const Value& object, const std::string& name, const Arguments& a, Budget& budget) {
  budget.pay(1 + object.as_dict().size());
  if (name == "get") {
    a.allow(2, {}, name);
    const Value& key = a.need(0, "key", name);
    const Value* found = key.is_string() ? object.find(key.as_string()) : nullptr;
    const Value* otherwise = a.find(1, "default");
    return found ? *found : otherwise ? *otherwise : Value(nullptr);
  }
  a.allow(0, {}, name);
  List out;
  for (const auto& [key, value] : object.as_dict())
    out.push_back(name == "items"  ? Value::list({Value(key), value}, true)
                  : name == "keys" ? Value(key)
                                   : value);
  return Value::list(std::move(out));
}

Value list_method(const Value& object, const std::string& name, const Arguments& a, Budget& budget) {
  a.allow(1, {}, name);
  const Value& wanted = a.need(0, "value", name);
  std::int64_t count = 0;
  for (std::size_t i = 0; i < object.as_list().size(); ++i) {
    if (!equal(object.as_list()[i], wanted, budget)) continue;
    if (name == "index") return i;
    ++count;
  }
  require<TemplateError>(name == "count", "index() in the template: the value is not in the list");
  return count;
}

}  // namespace

std::string_view strip(std::string_view text, const Value* set, bool left, bool right, Budget& budget) {
  budget.pay_bytes(text.size());
  if (!set || set->is_none()) {
    while (const std::size_t n = left ? leading_white_space(text) : 0) text.remove_prefix(n);
    while (const std::size_t n = right ? trailing_white_space(text) : 0) text.remove_suffix(n);
    return text;
  }
  const auto wanted = characters(text_of(*set, "strip"), budget);
  const auto letters = characters(text, budget);
  const auto drop = [&](std::string_view c) {
    budget.pay(1 + wanted.size() / 16);
    return std::find(wanted.begin(), wanted.end(), c) != wanted.end();
  };
  std::size_t begin = 0, end = letters.size();
  while (left && begin < end && drop(letters[begin])) text.remove_prefix(letters[begin++].size());
  while (right && end > begin && drop(letters[end - 1])) text.remove_suffix(letters[--end].size());
  return text;
}

std::string replace(std::string_view text, std::string_view from, std::string_view to, std::int64_t most,
                    Budget& budget) {
  std::string out;
  budget.pay_bytes(text.size());
  if (from.empty()) {  // between all characters
    for (const auto c : characters(text, budget)) {
      if (most-- != 0)
        budget.pay_bytes(to.size()), out += to;
      else
        ++most;
      out += c;
    }
    if (most != 0) out += to;
    return out;
  }
  std::size_t at = 0;
  for (std::size_t next; most != 0 && (next = text.find(from, at)) != std::string_view::npos; --most) {
    out += text.substr(at, next - at);
    out += to;
    budget.pay_bytes(to.size());
    at = next + from.size();
  }
  out += text.substr(at);
  return out;
}

std::string change_case(std::string_view text, Case to, Budget& budget) {
  std::string out;
  bool word_begins = true;
  for (const auto c : characters(text, budget)) {
    utf8proc_int32_t code = 0;
    const auto length = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(c.data()),
                                         static_cast<utf8proc_ssize_t>(c.size()), &code);
    if (length <= 0) {
      out += c;
      continue;
    }
    const auto upper = utf8proc_toupper(code), lower = utf8proc_tolower(code);
    const bool raise = to == Case::kUpper || (to != Case::kLower && word_begins);
    if (!raise && code == 0x130) {  // the one letter whose small form is two characters
      out += "i\u0307";
    } else {
      std::array<utf8proc_uint8_t, 4> bytes{};
      const auto count = utf8proc_encode_char(raise ? upper : lower, bytes.data());
      out.append(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(count));
    }
    word_begins = to == Case::kTitle && upper == lower;
  }
  return out;
}

Value attribute_of(const Value& object, std::string_view name, Budget& budget) {
  budget.pay();
  require<TemplateError>(!object.is_undefined(), "the template takes '{}' of an undefined value",
                         name.substr(0, 80));
  if (object.is_dict()) {
    if (has(kDictMethods, name)) return Value::method(object, std::string(name));
    budget.pay(object.as_dict().size());
    if (const Value* found = object.find(name)) return *found;
  } else if (object.is_string()) {
    if (has(kStringMethods, name)) return Value::method(object, std::string(name));
  } else if (object.is_list()) {
    if (has(kListMethods, name)) return Value::method(object, std::string(name));
  } else if (const Namespace* space = object.as_namespace()) {
    for (const auto& [key, value] : space->attributes)
      if (key == name) return value;
  }
  return Value::undefined(name);
}

Value call_method(const Value::Method& method, const Arguments& arguments, Budget& budget) {
  if (method.object.is_string())
    return string_method(method.object.as_string(), method.name, arguments, budget);
  if (method.object.is_dict()) return dict_method(method.object, method.name, arguments, budget);
  return list_method(method.object, method.name, arguments, budget);
}

}  // namespace stoa::chat

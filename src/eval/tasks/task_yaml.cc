#include "eval/tasks/task_yaml.h"

#include <utf8proc.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "token/stream_decoder.h"

namespace stoa::eval {
namespace {

constexpr std::size_t kLargestTaskFile = 4 << 20, kMostTaskValues = 200'000;
constexpr const char* kFunctionKey = "!function";

bool digits_only(std::string_view text, std::string_view allowed) {
  return !text.empty() && text.find_first_not_of(allowed) == std::string_view::npos;
}

std::string without(std::string_view text, char dropped) {
  std::string out;
  for (const char c : text)
    if (c != dropped) out += c;
  return out;
}

// yaml-cpp reads the escapes \_ and \N as the single bytes A0 and 85 instead of U+00A0 and U+0085. Files are
// UTF-8, so that such a byte outside of a character is one of them.
std::string with_whole_escapes(const std::string& text) {
  if (text.find_first_of("\xA0\x85") == std::string::npos) return text;
  std::string out;
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  for (std::ptrdiff_t at = 0; at < std::ssize(text);) {
    utf8proc_int32_t code = -1;
    const std::ptrdiff_t read = utf8proc_iterate(bytes + at, std::ssize(text) - at, &code);
    if (read <= 0) out += '\xC2';
    const std::ptrdiff_t length = std::max<std::ptrdiff_t>(1, read);
    out.append(text, static_cast<std::size_t>(at), static_cast<std::size_t>(length));
    at += length;
  }
  return out;
}

// A number in PyYAML's SafeLoader; null: none.
Json yaml_number(std::string_view text) {
  const std::string_view all = text;
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.empty()) return nullptr;
  const auto whole = [&](std::string_view digits, int base) -> Json {
    const std::string plain = without(digits, '_');
    if (plain.empty() || plain.size() > 18) return nullptr;
    const long long value = std::stoll(plain, nullptr, base);
    return negative ? -value : value;
  };
  if (text.starts_with("0b") && digits_only(text.substr(2), "01_")) return whole(text.substr(2), 2);
  if (text.starts_with("0x") && digits_only(text.substr(2), "0123456789abcdefABCDEF_"))
    return whole(text.substr(2), 16);
  if (text.size() > 1 && text[0] == '0' && digits_only(text.substr(1), "01234567_"))
    return whole(text.substr(1), 8);
  if (text == "0") return 0;
  if (text[0] >= '1' && text[0] <= '9' && digits_only(text, "0123456789_")) return whole(text, 10);
  if (text == ".inf" || text == ".Inf" || text == ".INF") return negative ? -HUGE_VAL : HUGE_VAL;
  if (all == ".nan" || all == ".NaN" || all == ".NAN") return NAN;
  // 12.5, 12., .5, each with an exponent that has a sign.
  const std::size_t point = text.find('.');
  if (point == std::string_view::npos) return nullptr;
  std::string_view before = text.substr(0, point), after = text.substr(point + 1);
  std::string_view exponent;
  if (const auto e = after.find_first_of("eE"); e != std::string_view::npos) {
    exponent = after.substr(e + 1);
    after = after.substr(0, e);
    if (exponent.size() < 2 || (exponent[0] != '+' && exponent[0] != '-') ||
        !digits_only(exponent.substr(1), "0123456789"))
      return nullptr;
  }
  constexpr std::string_view kDigits = "0123456789_";
  if (!before.empty() && (before[0] == '_' || !digits_only(before, kDigits))) return nullptr;
  if (before.empty() && (after.empty() || after[0] == '_' || text.data() != all.data())) return nullptr;
  if (!after.empty() && !digits_only(after, kDigits)) return nullptr;
  return std::stod(without(all, '_'));
}

class TaskYaml {
 public:
  TaskYaml(const fs::path& path, std::string_view text) : path_(path), text_(text) {}

  Json value(const YAML::Node& node) {
    require<ConfigError>(++values_ <= kMostTaskValues, "{}: more than {} values", path_.string(),
                         kMostTaskValues);
    const std::string& tag = node.Tag();
    const bool plain = tag.empty() || tag == "?" || tag == "!";
    if (tag == kFunctionKey) {
      if (!node.IsScalar()) wrong(node, "!function names no function");
      return {{kFunctionKey, node.Scalar()}, {"directory", path_.parent_path().string()}};
    }
    if (!plain && !tag.starts_with("tag:yaml.org,2002:"))
      wrong(node, fmt::format("tag '{}' is not supported", tag));
    switch (node.Type()) {
      case YAML::NodeType::Null:
      case YAML::NodeType::Undefined:
        return nullptr;
      case YAML::NodeType::Scalar:
        return tag == "!" || tag == "tag:yaml.org,2002:str" ? Json(quoted(node)) : scalar(node);
      case YAML::NodeType::Sequence: {
        Json out = Json::array();
        for (const auto& item : node) out.push_back(value(item));
        return out;
      }
      case YAML::NodeType::Map:
        return mapping(node);
    }
    return nullptr;
  }

 private:
  // yaml-cpp counts one blank line before a closing quote too few or not, by the indentation of the quote:
  // here they are as many as PyYAML counts.
  std::string quoted(const YAML::Node& node) const {
    std::string out = with_whole_escapes(node.Scalar());
    const auto begin = static_cast<std::size_t>(std::max(node.Mark().pos, 0));
    if (begin >= text_.size() || (text_[begin] != '"' && text_[begin] != '\'')) return out;
    const char quote = text_[begin];
    std::size_t written = 0;  // \n at the end of what precedes the blanks
    std::size_t breaks = 0;   // ends of lines among the blanks since then
    bool blank = false;
    for (std::size_t i = begin + 1; i < text_.size(); ++i) {
      const char c = text_[i];
      const bool pair = (quote == '"' && c == '\\') || (quote == '\'' && text_.substr(i, 2) == "''");
      if (c == quote && !pair) break;
      if (c == '\n' || c == '\r' || c == ' ' || c == '\t') {
        blank = true;
        if (c == '\n') ++breaks;
        continue;
      }
      const bool line_end = quote == '"' && text_.substr(i, 2) == "\\n";
      written = !line_end ? 0 : blank ? 1 : written + 1;
      blank = false;
      breaks = 0;
      if (pair) ++i;
    }
    if (breaks < 2) return out;
    while (out.ends_with('\n')) out.pop_back();
    return out.append(written + breaks - 1, '\n');
  }

  [[noreturn]] void wrong(const YAML::Node& node, std::string_view what) const {
    fail<ConfigError>("{}:{}: {}", path_.string(), node.Mark().line + 1, what);
  }

  Json scalar(const YAML::Node& node) const {
    const std::string text = with_whole_escapes(node.Scalar());
    static const std::set<std::string, std::less<>> kTrue{"yes",  "Yes", "YES", "true", "True",
                                                          "TRUE", "on",  "On",  "ON"},
        kFalse{"no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"};
    if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") return nullptr;
    if (kTrue.contains(text)) return true;
    if (kFalse.contains(text)) return false;
    const char first = text[0];
    const bool may_be_number = (first >= '0' && first <= '9') || first == '-' || first == '+' || first == '.';
    if (!may_be_number) return text;
    // Dates and numbers to the base of 60, which nobody means.
    const bool date = text.size() >= 8 && digits_only(std::string_view(text).substr(0, 4), "0123456789") &&
                      text[4] == '-' && digits_only(text, "0123456789-:+.TtZz ");
    const bool sixty = text.find(':') != std::string::npos && digits_only(text, "0123456789:._+-");
    if (date || sixty)
      wrong(node, fmt::format("'{}' is a date or a number to the base of 60 in YAML 1.1; quote it", text));
    Json number = yaml_number(text);
    return number.is_null() ? Json(text) : number;
  }

  Json mapping(const YAML::Node& node) {
    Json out = Json::object(), merged = Json::object();
    for (const auto& entry : node) {
      const Json key = value(entry.first);
      if (key == "<<" && entry.first.Tag() != "!") {
        const auto merge = [&](const YAML::Node& from) {
          const Json values = value(from);
          if (!values.is_object()) wrong(from, "'<<' merges no mapping");
          for (const auto& [k, v] : values.items())
            if (!merged.contains(k)) merged[k] = v;
        };
        if (entry.second.IsSequence())
          for (const auto& item : entry.second) merge(item);
        else
          merge(entry.second);
        continue;
      }
      if (!key.is_string())
        wrong(entry.first, fmt::format("the key {} is not a text; quote it", dumped(key)));
      out[key.get<std::string>()] = value(entry.second);
    }
    if (merged.empty()) return out;
    for (const auto& [k, v] : out.items()) merged[k] = v;
    return merged;
  }

  const fs::path path_;
  const std::string_view text_;
  std::size_t values_ = 0;
};

Json read_with(const fs::path& path, std::set<fs::path>& seen) {
  const fs::path full = fs::weakly_canonical(path);
  require<ConfigError>(seen.insert(full).second, "'{}' is included twice, or includes itself", full.string());
  Json own = parse_task_yaml(read_text(full), full);
  if (!own.contains("include")) return own;
  const Json includes = own["include"];
  own.erase("include");
  Json out = Json::object();
  for (const Json& include : includes.is_array() ? includes : Json::array({includes})) {
    require<ConfigError>(include.is_string(), "{}: 'include' names no file", full.string());
    Json theirs = read_with(full.parent_path() / include.get<std::string>(), seen);
    theirs.erase("task_list");
    for (auto& [key, value] : theirs.items()) out[key] = std::move(value);
  }
  for (auto& [key, value] : own.items()) out[key] = std::move(value);
  return out;
}

}  // namespace

bool is_function(const Json& value) { return value.is_object() && value.contains(kFunctionKey); }

Json parse_task_yaml(std::string_view text, const fs::path& path) {
  require<ConfigError>(text.size() <= kLargestTaskFile, "{}: {} bytes; at most {} are read", path.string(),
                       text.size(), kLargestTaskFile);
  std::string storage;
  require<ConfigError>(token::valid_utf8(text, storage).data() == text.data(), "{}: not UTF-8",
                       path.string());
  Json out;
  try {
    out = TaskYaml(path, text).value(YAML::Load(std::string(text)));
  } catch (const YAML::Exception& error) {
    fail<ConfigError>("{}:{}: {}", path.string(), error.mark.line + 1, error.msg);
  }
  require<ConfigError>(out.is_object(), "{}: expected a mapping of a task's keys", path.string());
  return out;
}

Json read_task_yaml(const fs::path& path) {
  std::set<fs::path> seen;
  return read_with(path, seen);
}

}  // namespace stoa::eval

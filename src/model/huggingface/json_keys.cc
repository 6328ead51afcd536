#include "model/huggingface/json_keys.h"

#include <cmath>

#include "base/nearest.h"

namespace stoa::model::huggingface {
namespace {

// A value as an error message shows it: long ones are cut.
std::string shown(const nlohmann::json& value) {
  std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

bool says_nothing(const nlohmann::json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number()) return value.get<double>() == 0;
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value.is_null() || value.empty();
}

}  // namespace

const nlohmann::json* JsonKeys::find(std::string_view key) {
  used_.insert(std::string(key));
  const auto found = object_->find(std::string(key));
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

bool JsonKeys::has(std::string_view key) const {
  const auto found = object_->find(std::string(key));
  return found != object_->end() && !found->is_null();
}

void JsonKeys::wrong(std::string_view key, std::string_view expected) const {
  fail<ConfigError>("{}: {}{} is {}, expected {}", file_, where_, key, shown((*object_)[std::string(key)]),
                    expected);
}

std::optional<std::int64_t> JsonKeys::integer(std::string_view key, std::int64_t least, std::int64_t most) {
  const auto* value = find(key);
  if (!value) return std::nullopt;
  double number = 0;
  if (value->is_number()) number = value->get<double>();
  // Some writers give whole numbers as 8.0.
  if (!value->is_number() || number != std::floor(number) || number < static_cast<double>(least) ||
      number > static_cast<double>(most))
    wrong(key, fmt::format("a whole number from {} to {}", least, most));
  return static_cast<std::int64_t>(number);
}

std::optional<double> JsonKeys::number(std::string_view key) {
  const auto* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_number() || !std::isfinite(value->get<double>())) wrong(key, "a number");
  return value->get<double>();
}

std::optional<bool> JsonKeys::boolean(std::string_view key) {
  const auto* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_boolean()) wrong(key, "true or false");
  return value->get<bool>();
}

std::optional<std::string> JsonKeys::text(std::string_view key) {
  const auto* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_string()) wrong(key, "a string");
  return value->get<std::string>();
}

std::optional<std::vector<double>> JsonKeys::numbers(std::string_view key) {
  const auto* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_array()) wrong(key, "a list of numbers");
  std::vector<double> out;
  for (const auto& item : *value) {
    if (!item.is_number()) wrong(key, "a list of numbers");
    out.push_back(item.get<double>());
  }
  return out;
}

std::optional<std::vector<std::string>> JsonKeys::texts(std::string_view key) {
  const auto* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_array()) wrong(key, "a list of strings");
  std::vector<std::string> out;
  for (const auto& item : *value) {
    if (!item.is_string()) wrong(key, "a list of strings");
    out.push_back(item.get<std::string>());
  }
  return out;
}

const nlohmann::json* JsonKeys::object(std::string_view key) {
  const auto* value = find(key);
  if (value && !value->is_object()) wrong(key, "an object");
  return value;
}

const nlohmann::json* JsonKeys::array(std::string_view key) {
  const auto* value = find(key);
  if (value && !value->is_array()) wrong(key, "a list");
  return value;
}

std::vector<std::int64_t> JsonKeys::integers(std::string_view key) {
  const auto* value = find(key);
  if (!value) return {};
  std::vector<std::int64_t> out;
  const auto add = [&](const nlohmann::json& item) {
    if (!item.is_number_integer()) wrong(key, "an integer or a list of them");
    out.push_back(item.get<std::int64_t>());
  };
  if (value->is_array())
    for (const auto& item : *value) add(item);
  else
    add(*value);
  return out;
}

void JsonKeys::only(std::string_view key, bool supported) {
  if (boolean(key).value_or(supported) != supported)
    fail<ConfigError>("{}: {}{} {} is not supported here, only {}", file_, where_, key, !supported,
                      supported);
}

void JsonKeys::finish(std::string_view owner) const {
  std::vector<std::string> known(used_.begin(), used_.end());
  for (const auto& [key, value] : object_->items()) {
    if (used_.contains(key) || key.starts_with("_") || says_nothing(value)) continue;
    fail<ConfigError>(
        "{}: {}{} = {} is not known for {}{}; it may change the model's function, so it cannot be ignored",
        file_, where_, key, shown(value), owner, did_you_mean(key, known));
  }
}

}  // namespace stoa::model::huggingface

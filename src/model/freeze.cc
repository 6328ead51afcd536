#include "model/freeze.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/nearest.h"
#include "model/chunk.h"

namespace stoa::model {
namespace {

// Takes a number from the beginning of `text`.
std::optional<std::int64_t> take_number(std::string_view& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || text.front() == '-') return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

bool ends_part(std::string_view text) { return text.empty() || text.front() == '.'; }

// Takes "A-B" that is a whole part of a pattern.
struct NumberRange {
  std::int64_t first, last;
};
std::optional<NumberRange> take_range(std::string_view& pattern) {
  std::string_view rest = pattern;
  const auto first = take_number(rest);
  if (!first || !rest.starts_with('-')) return std::nullopt;
  rest.remove_prefix(1);
  const auto last = take_number(rest);
  if (!last || !ends_part(rest)) return std::nullopt;
  pattern = rest;
  return NumberRange{*first, *last};
}

// `begins`: a part of the name begins here.
bool matches_rest(std::string_view pattern, std::string_view name, bool begins) {
  if (pattern.empty()) return ends_part(name);
  if (pattern.front() == '*') {
    for (std::size_t skip = 0; skip <= name.size(); ++skip)
      if (matches_rest(pattern.substr(1), name.substr(skip), skip > 0 && name[skip - 1] == '.')) return true;
    return false;
  }
  if (begins)
    if (const auto range = take_range(pattern)) {
      const auto number = take_number(name);
      return number && ends_part(name) && *number >= range->first && *number <= range->last &&
             matches_rest(pattern, name, false);
    }
  return !name.empty() && pattern.front() == name.front() &&
         matches_rest(pattern.substr(1), name.substr(1), name.front() == '.');
}

struct Pattern {
  bool trains;
  std::string_view text;
};
Pattern parse(std::string_view pattern) {
  const bool trains = pattern.starts_with('!');
  return {trains, pattern.substr(trains ? 1 : 0)};
}

// The names that a pattern may give: those of tensors and what they begin with, up to a dot.
std::vector<std::string> beginnings(const std::vector<CanonicalTensor>& tensors) {
  std::set<std::string> names;
  for (const auto& tensor : tensors)
    for (std::size_t end = 0; end != std::string::npos;) {
      end = tensor.name.find('.', end + 1);
      names.insert(tensor.name.substr(0, end));
    }
  return {names.begin(), names.end()};
}

}  // namespace

bool matches_name(std::string_view pattern, std::string_view name) {
  return matches_rest(pattern, name, true);
}

bool is_trained(std::span<const std::string> freeze, std::string_view name) {
  bool trained = true;
  for (const std::string& given : freeze)
    if (const Pattern pattern = parse(given); matches_name(pattern.text, name)) trained = pattern.trains;
  return trained;
}

bool is_trained(std::span<const std::string> freeze, const nn::ParamSpec& spec) {
  const auto& pieces = spec.shard.pieces;
  const bool trained = is_trained(freeze, pieces.front().name);
  for (const ShardPiece& piece : pieces)
    require<ConfigError>(
        is_trained(freeze, piece.name) == trained,
        "model.freeze trains '{}' and freezes '{}', which are held in one tensor: freeze both "
        "or none",
        trained ? pieces.front().name : piece.name, trained ? piece.name : pieces.front().name);
  return trained;
}

std::int64_t first_trained_layer(const ModelSpec& spec) {
  return spec.config.freeze.empty() && !spec.adapters ? -1 : whole_chunk(spec).first_trained();
}

void check_freeze(const ModelSpec& spec) {
  const auto& freeze = spec.config.freeze;
  if (freeze.empty()) return;
  const std::vector<CanonicalTensor> tensors = canonical_tensors(spec);
  for (const std::string& given : freeze) {
    const std::string_view text = parse(given).text;
    if (std::any_of(tensors.begin(), tensors.end(),
                    [&](const CanonicalTensor& tensor) { return matches_name(text, tensor.name); }))
      continue;
    const std::vector<std::string> names = beginnings(tensors);
    fail<ConfigError>(
        "model.freeze: '{}' matches no parameter of this model{}; names are those of its tensors or what "
        "they "
        "begin with, as {} and {}; * stands for any text, layers.0-3 for four layers",
        given, did_you_mean(text, names), tensors.front().name, tensors.back().name);
  }
  require<ConfigError>(
      std::any_of(tensors.begin(), tensors.end(), [](const CanonicalTensor& t) { return t.trained; }),
      "model.freeze freezes every parameter: nothing is left to train");
}

}  // namespace stoa::model

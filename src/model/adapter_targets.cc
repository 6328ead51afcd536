#include "model/adapter_targets.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <regex>
#include <string_view>

#include "base/error.h"
#include "base/nearest.h"

namespace stoa::model {
namespace {

// NeMo's and Megatron's names of linear layers, as ends of canonical ones.
struct FusedName {
  std::string_view name;
  std::vector<std::string_view> ends;
};
const std::vector<FusedName>& fused_names() {
  static const std::vector<std::string_view> qkv{".attention.q",     ".attention.k",      ".attention.v",
                                                 ".attention.gate",  ".self_attention.q", ".self_attention.k",
                                                 ".self_attention.v"},
      out{".attention.out", ".self_attention.out"}, up{".mlp.up", ".mlp.gate"}, down{".mlp.down"};
  static const std::vector<FusedName> names{{"attention_qkv", qkv},
                                            {"attention_dense", out},
                                            {"mlp_fc1", up},
                                            {"mlp_fc2", down},
                                            {"linear_qkv", qkv},
                                            {"linear_proj", out},
                                            {"linear_fc1", up},
                                            {"linear_fc2", down},
                                            {"attention", qkv},
                                            {"attention", out},
                                            {"mlp", up},
                                            {"mlp", down},
                                            {"all", qkv},
                                            {"all", out},
                                            {"all", up},
                                            {"all", down}};
  return names;
}

bool ends_with_name(std::string_view path, std::string_view name) {
  return path == name ||
         (path.size() > name.size() && path.ends_with(name) && path[path.size() - name.size() - 1] == '.');
}

bool is_glob(std::string_view text) {
  return text.find('*') != text.npos && text.find_first_of("\\()[]|^$+?{}") == text.npos;
}

bool is_expression(std::string_view text) { return text.find_first_of("\\()[]|^$+?{}") != text.npos; }

std::regex compiled(const std::string& text) {
  try {
    // Patterns come with adapters of others: matching must end in time that grows with the text alone.
    return std::regex(text, std::regex::ECMAScript | std::regex_constants::__polynomial);
  } catch (const std::regex_error& error) {
    fail<ConfigError>("'{}' is not a regular expression: {}", text, error.what());
  }
}

// A text with * at the end of a path, after a dot or from its beginning.
bool matches_glob(std::string_view pattern, std::string_view path) {
  std::string expression = "(.*\\.)?";
  for (const char c : pattern) {
    if (c == '*')
      expression += ".*";
    else if (c == '.')
      expression += "\\.";
    else
      expression += c;
  }
  return std::regex_match(path.begin(), path.end(), compiled(expression));
}

// A key of rank_pattern or alpha_pattern: a name, or a regular expression of the end of a path, as in PEFT.
bool matches_pattern(const std::string& pattern, const LinearModule& module) {
  const bool glob = is_glob(pattern);
  const auto matches = [&](const std::string& path) {
    return glob ? matches_glob(pattern, path) : std::regex_match(path, compiled("(.*\\.)?(" + pattern + ")"));
  };
  const auto pieces = module.piece_names();
  return matches(module.path) || std::any_of(pieces.begin(), pieces.end(), matches);
}

// A text with * means neither the embedding nor the head: only their names and regular expressions do.
bool target_means(const std::string& target, const LinearModule& module) {
  return (module.kind == ModuleKind::kLayer || !is_glob(target)) &&
         matches_target(target, module.path, module.piece_names());
}

constexpr std::size_t kMostLooked = 1000;  // longer lists are of whole paths

}  // namespace

bool matches_target(const std::string& target, const std::string& path,
                    const std::vector<std::string>& pieces) {
  if (is_glob(target)) {
    if (matches_glob(target, path)) return true;
    return std::any_of(pieces.begin(), pieces.end(), [&](const auto& p) { return matches_glob(target, p); });
  }
  if (is_expression(target)) return std::regex_match(path, compiled(target));
  if (ends_with_name(path, target)) return true;
  for (const std::string& piece : pieces) {
    if (ends_with_name(piece, target)) return true;
    for (const FusedName& fused : fused_names())
      if (fused.name == target)
        for (const std::string_view end : fused.ends)
          if (piece.ends_with(end)) return true;
  }
  return false;
}

std::vector<std::string> names_of_targets(const std::vector<LinearModule>& modules) {
  std::set<std::string> names{"all-linear"};
  for (const FusedName& fused : fused_names()) names.emplace(fused.name);
  for (const LinearModule& module : modules) names.insert(module.path.substr(module.path.rfind('.') + 1));
  return {names.begin(), names.end()};
}

bool TargetNames::mean(const LinearModule& module) const {
  const bool layer = module.kind == ModuleKind::kLayer;
  if ((layer && exact_.contains("all-linear")) || exact_.contains(module.path)) return true;
  const auto pieces = module.piece_names();
  if (std::any_of(pieces.begin(), pieces.end(), [&](const auto& p) { return exact_.contains(p); }))
    return true;
  return all_.size() <= kMostLooked &&
         std::any_of(all_.begin(), all_.end(), [&](const auto& t) { return target_means(t, module); });
}

void require_known_targets(const std::vector<std::string>& targets, const std::vector<LinearModule>& all,
                           const std::string& key) {
  std::set<std::string> paths, words;
  for (const LinearModule& module : all) {
    paths.insert(module.path);
    for (const auto& piece : module.pieces) paths.insert(piece.name);
    words.insert(module.path.substr(module.path.rfind('.') + 1));
  }
  for (const std::string& target : targets)
    require<ConfigError>(
        target == "all-linear" || paths.contains(target) ||
            std::any_of(all.begin(), all.end(), [&](const auto& m) { return target_means(target, m); }),
        "peft.{}: '{}' is no linear layer of this model{}; it has {}", key, target,
        did_you_mean(target, names_of_targets(all)), fmt::join(words, ", "));
}

void require_known_layers(const std::vector<std::int64_t>& selected, std::int64_t layers,
                          const char* section) {
  for (const auto layer : selected)
    require<ConfigError>(layer <= layers, "peft.{}.layer_selection names layer {}, expected 1 to {}", section,
                         layer, layers);
}

bool is_selected(std::optional<std::int64_t> layer, const std::vector<std::int64_t>& selected) {
  return selected.empty() ||
         (layer && std::find(selected.begin(), selected.end(), *layer + 1) != selected.end());
}

PatternValues::PatternValues(const std::vector<std::string>& texts, const char* key, bool whole) : key_(key) {
  for (const std::string& text : texts) {
    const std::size_t at = text.rfind('=');
    Entry entry;
    const char* const end = text.data() + text.size();
    bool good = at != text.npos && at > 0 && at + 1 < text.size();
    if (good) {
      entry.pattern = text.substr(0, at);
      const auto [last, error] = std::from_chars(text.data() + at + 1, end, entry.value);
      good = error == std::errc() && last == end && entry.value > 0 &&
             (!whole || entry.value == std::floor(entry.value));
    }
    require<ConfigError>(good, "peft.lora_tuning.{}: '{}' is not PATTERN={}, as in q_proj=4", key, text,
                         whole ? "RANK (a whole number above 0)" : "ALPHA (a number above 0)");
    entries_.push_back(std::move(entry));
  }
}

std::optional<double> PatternValues::find(const LinearModule& module) {
  for (Entry& entry : entries_) {
    if (!matches_pattern(entry.pattern, module)) continue;
    entry.used = true;
    return entry.value;
  }
  return std::nullopt;
}

void PatternValues::require_all_used() const {
  for (const Entry& entry : entries_)
    require<ConfigError>(entry.used, "peft.lora_tuning.{}: '{}' matches no adapted layer", key_,
                         entry.pattern);
}

}  // namespace stoa::model

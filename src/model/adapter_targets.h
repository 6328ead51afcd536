// What the keys of model.peft mean by layers: names, texts with *, regular expressions, numbers of layers.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "model/linear_module.h"

namespace stoa::model {

// Whether a name of target_modules, exclude_modules or modules_to_save means the module.
bool matches_target(const std::string& target, const std::string& path,
                    const std::vector<std::string>& pieces);
// The last words of the modules' paths, and names that mean several.
std::vector<std::string> names_of_targets(const std::vector<LinearModule>& modules);

// A list of targets, which may have thousands of whole paths (an adapter of experts).
class TargetNames {
 public:
  explicit TargetNames(const std::vector<std::string>& targets)
      : exact_(targets.begin(), targets.end()), all_(targets) {}

  bool mean(const LinearModule& module) const;

 private:
  std::set<std::string> exact_;
  const std::vector<std::string>& all_;
};
// ConfigError: a target that means none of the modules; the nearest name is given. `key`: below model.peft.
void require_known_targets(const std::vector<std::string>& targets, const std::vector<LinearModule>& all,
                           const std::string& key);

// layer_selection: numbers from 1; empty: all layers.
void require_known_layers(const std::vector<std::int64_t>& selected, std::int64_t layers,
                          const char* section);
// `layer`: counted from 0; none: of no layer, which only an empty selection has.
bool is_selected(std::optional<std::int64_t> layer, const std::vector<std::int64_t>& selected);

// rank_pattern or alpha_pattern: "PATTERN=NUMBER" each.
class PatternValues {
 public:
  // ConfigError: a text of another form. `whole`: the numbers are whole ones.
  PatternValues(const std::vector<std::string>& texts, const char* key, bool whole);

  // The number of the first pattern that the module matches.
  std::optional<double> find(const LinearModule& module);
  // ConfigError: a pattern that find() never used.
  void require_all_used() const;

 private:
  struct Entry {
    std::string pattern;
    double value = 0;
    bool used = false;
  };
  const char* key_;
  std::vector<Entry> entries_;
};

}  // namespace stoa::model

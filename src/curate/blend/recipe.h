// How sources are mixed, as a YAML file says it.
//
//   seed: 1234
//   temperature: 0.3
//   sources:
//     - {name: en, path: clean-en/kept}
//     - {name: sw, path: clean-sw/kept, max_epochs: 2}
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"

namespace stoa::curate {

struct BlendSource {
  std::string name, path;  // of texts, or the prefix of token files
  double weight = 0;       // 0: by temperature
  double max_epochs = 0;   // 0: the recipe's
};

struct BlendRecipe {
  std::int64_t seed = 1234;
  double temperature = 1;   // exponent of the tokens of a source
  std::int64_t tokens = 0;  // of the training split; 0: as many as the sources have
  double max_epochs = 4;
  double train = 1, validation = 0, test = 0;  // shares of documents
  std::vector<BlendSource> sources;
  std::string resolved;  // YAML with the values of all keys: what decides the output
};

// A recipe, or the manifest of a blend (.json), which holds one. ConfigError with the place of what is wrong.
BlendRecipe read_recipe(const fs::path& path);

// What the plan makes of the sizes of sources: how often each is taken.
struct SourceShare {
  double weight = 0;  // of 1
  double epochs = 0;
  double tokens = 0;
  bool capped = false;  // by max_epochs
};
// `tokens`: of the training split of every source. What a source that is capped leaves is divided among the
// others.
std::vector<SourceShare> plan_shares(const BlendRecipe& recipe, const std::vector<std::int64_t>& tokens);

// New tokens that are worth as much as `unique` ones seen `epochs` times (the law of data repetition,
// 2305.16264).
double effective_tokens(double unique, double epochs);

}  // namespace stoa::curate

#include "curate/blend/recipe.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "config/reader.h"
#include "config/schema.h"
#include "config/yaml.h"

namespace stoa::curate {
namespace {

// Epochs after the first at which repeated data is worth 1 - 1/e of what it could be worth at most.
constexpr double kRepetitionScale = 15.387756;

config::Section<BlendSource> source_section() {
  config::Section<BlendSource> s;
  s.field("name", &BlendSource::name).help("In reports.");
  s.field("path", &BlendSource::path).help("Texts as data run reads them, or the prefix of token files.");
  s.field("weight", &BlendSource::weight)
      .at_least(0)
      .help("Share of the tokens, relative to the other weights; 0: by temperature.");
  s.field("max_epochs", &BlendSource::max_epochs)
      .at_least(0)
      .help("How often it may be taken; 0: as the recipe says.");
  return s;
}

config::Section<BlendRecipe> recipe_section() {
  config::Section<BlendRecipe> s;
  s.field("seed", &BlendRecipe::seed)
      .at_least(0)
      .help("What splits, partial epochs and the order are drawn with.");
  s.field("temperature", &BlendRecipe::temperature)
      .range(0, 10)
      .help("Sources are taken as their tokens to this power: 1 as they are, 0 all alike.");
  s.field("tokens", &BlendRecipe::tokens)
      .at_least(0)
      .help("Size of the training split; 0: as many as the sources have.");
  s.field("max_epochs", &BlendRecipe::max_epochs).range(0.001, 1000).help("How often a source may be taken.");
  s.field("train", &BlendRecipe::train).range(0, 1).help("Share of the documents for training.");
  s.field("validation", &BlendRecipe::validation)
      .range(0, 1)
      .help("Share for validation: each document once.");
  s.field("test", &BlendRecipe::test).range(0, 1).help("Share for tests: each document once.");
  return s;
}

config::Node read_root(const fs::path& path) {
  if (path.extension() != ".json") return config::read_yaml(path);
  try {
    const auto manifest = nlohmann::json::parse(read_text(path));
    return config::parse_yaml(manifest.at("recipe").get<std::string>(), path.string());
  } catch (const nlohmann::json::exception& e) {
    fail<DataError>("'{}' is not a manifest of a blend: {}", path.string(), e.what());
  }
}

}  // namespace

BlendRecipe read_recipe(const fs::path& path) {
  config::Node root = read_root(path);
  require<ConfigError>(root.is_map(), "'{}' is not a recipe; expected a mapping with `sources`",
                       path.string());
  const config::Node* list = root.find("sources");
  require<ConfigError>(
      list != nullptr && list->is_sequence() && !list->items.empty(),
      "'{}' has no list `sources`; expected e.g. `sources: [{{name: en, path: clean/kept}}]`", path.string());
  const std::vector<config::Node> items = list->items;
  root.erase("sources");
  BlendRecipe recipe;
  const auto section = recipe_section();
  config::read_object(section.schema(), root, &recipe, {});
  config::Node resolved = section.schema().print(&recipe);
  std::vector<config::Node> printed;
  std::set<std::string> names;
  const auto sources = source_section();
  for (const config::Node& item : items) {
    require<ConfigError>(item.is_map(), "{}: a source is a mapping with `name` and `path`; got {}",
                         item.origin.text(), item.summary());
    BlendSource source;
    config::read_object(sources.schema(), item, &source, {});
    require<ConfigError>(!source.path.empty(), "{}: a source has no `path`", item.origin.text());
    if (source.name.empty()) source.name = fs::path(source.path).filename().string();
    require<ConfigError>(names.insert(source.name).second, "{}: two sources are named '{}'",
                         item.origin.text(), source.name);
    printed.push_back(sources.schema().print(&source));
    recipe.sources.push_back(std::move(source));
  }
  const auto has_weight = [](const BlendSource& source) { return source.weight > 0; };
  const auto without = std::find_if_not(recipe.sources.begin(), recipe.sources.end(), has_weight);
  require<ConfigError>(without == recipe.sources.end() ||
                           std::none_of(recipe.sources.begin(), recipe.sources.end(), has_weight),
                       "some sources have a `weight` above 0, and '{}' has none: give one to all or to none "
                       "(0 stands for none, "
                       "that is, by temperature; a source that nothing is taken of is left out of `sources`)",
                       without->name);
  require<ConfigError>(recipe.train > 0, "train is 0; expected a share of the documents");
  require<ConfigError>(std::abs(recipe.train + recipe.validation + recipe.test - 1) < 1e-9,
                       "train, validation and test sum to {}; expected 1",
                       recipe.train + recipe.validation + recipe.test);
  resolved.entries.emplace_back("sources", config::Node::sequence(std::move(printed)));
  recipe.resolved = config::write_yaml(resolved);
  return recipe;
}

std::vector<SourceShare> plan_shares(const BlendRecipe& recipe, const std::vector<std::int64_t>& tokens) {
  const std::size_t count = tokens.size();
  std::vector<SourceShare> shares(count);
  double sum = 0, all = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const BlendSource& source = recipe.sources[i];
    shares[i].weight = source.weight > 0 ? source.weight
                       : tokens[i] > 0   ? std::pow(static_cast<double>(tokens[i]), recipe.temperature)
                                         : 0;
    sum += shares[i].weight;
    all += static_cast<double>(tokens[i]);
  }
  double left = recipe.tokens > 0 ? static_cast<double>(recipe.tokens) : all, weight_left = sum;
  for (SourceShare& share : shares) share.weight /= sum;
  weight_left = 1;
  // A source that is capped may push another one over its cap: every round caps one more, at least.
  for (bool again = true; again && weight_left > 1e-15;) {
    again = false;
    const double per_weight = left / weight_left;
    for (std::size_t i = 0; i < count; ++i) {
      const double epochs =
          recipe.sources[i].max_epochs > 0 ? recipe.sources[i].max_epochs : recipe.max_epochs;
      const double most = epochs * static_cast<double>(tokens[i]);
      if (shares[i].capped || shares[i].weight * per_weight <= most) continue;
      shares[i].capped = again = true;
      shares[i].tokens = most;
      left -= most;
      weight_left -= shares[i].weight;
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (!shares[i].capped) shares[i].tokens = weight_left > 1e-15 ? shares[i].weight * left / weight_left : 0;
    shares[i].epochs = tokens[i] > 0 ? shares[i].tokens / static_cast<double>(tokens[i]) : 0;
  }
  return shares;
}

double effective_tokens(double unique, double epochs) {
  if (epochs <= 1) return unique * epochs;
  return unique + unique * kRepetitionScale * (1 - std::exp(-(epochs - 1) / kRepetitionScale));
}

}  // namespace stoa::curate

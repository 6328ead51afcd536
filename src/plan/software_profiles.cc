#include "plan/software_profiles.h"

#include "base/error.h"
#include "config/reader.h"
#include "config/yaml.h"

namespace stoa::plan {
namespace {

// Facts of a family; what is not given stays as it is.
struct FamilyFacts {
  std::optional<std::int64_t> kv_heads, experts, top_k;
  std::optional<std::int64_t> vocabulary;
  std::optional<bool> gated, tied, positions, biases;
};

void declare_facts(config::Section<FamilyFacts>& s) {
  s.field("kv_heads", &FamilyFacts::kv_heads).at_least(1).help("Key-value heads.");
  s.field("experts", &FamilyFacts::experts).at_least(1).help("Experts of every layer.");
  s.field("top_k", &FamilyFacts::top_k).at_least(1).help("Experts of a token.");
  s.field("vocabulary", &FamilyFacts::vocabulary).at_least(1).help("Where a row gives none.");
  s.field("gated", &FamilyFacts::gated).help("Two input projections.");
  s.field("tied", &FamilyFacts::tied).help("Embedding and head are one tensor.");
  s.field("positions", &FamilyFacts::positions).help("Learned absolute positions.");
  s.field("biases", &FamilyFacts::biases).help("Linear layers have biases.");
}

template <class T, class Declare>
T read(const config::Node& node, Declare&& declare_it) {
  config::Section<T> section;
  declare_it(section);
  T value;
  config::read_object(section.schema(), node, &value, {});
  return value;
}

std::string take(const config::Node& node, const char* key) {
  const config::Node* at = node.find(key);
  return at && at->is_scalar() ? at->scalar : std::string();
}

bool occurs(const std::string& part, const std::string& text) {
  return part.empty() || text.find(part) != std::string::npos;
}

void overlay(config::Node& base, const config::Node& top) {
  for (const auto& [key, value] : top.entries) base.make_path(key) = value;
}

}  // namespace

SoftwareProfiles SoftwareProfiles::load(const fs::path& file) {
  SoftwareProfiles profiles;
  const config::Node root = config::read_yaml(file);
  if (const config::Node* programs = root.find("programs")) {
    for (const config::Node& item : programs->items) {
      Entry entry{take(item, "source"),
                  take(item, "states"),
                  take(item, "cluster"),
                  take(item, "schedule"),
                  take(item, "independent") != "false",
                  item};
      for (const char* key : {"source", "states", "cluster", "schedule", "independent"})
        entry.software.erase(key);
      read<Software>(entry.software, [](auto& s) { declare(s); });
      profiles.entries_.push_back(std::move(entry));
    }
  }
  if (const config::Node* models = root.find("models")) {
    for (const config::Node& item : models->items) {
      Family family{take(item, "name"), take(item, "states"), item};
      for (const char* key : {"name", "states"}) family.facts.erase(key);
      read<FamilyFacts>(family.facts, [](auto& s) { declare_facts(s); });
      profiles.families_.push_back(std::move(family));
    }
  }
  return profiles;
}

SoftwareProfiles::Stated SoftwareProfiles::of(const std::string& source, const std::string& text) const {
  Stated stated;
  config::Node merged = config::Node::map();
  for (const Entry& entry : entries_) {
    if (!occurs(entry.source, source) || !occurs(entry.states, text)) continue;
    if (!entry.source.empty()) stated.known = true;
    if (!entry.cluster.empty()) stated.cluster = entry.cluster;
    stated.independent = stated.independent && entry.independent;
    if (!entry.schedule.empty()) stated.schedule = entry.schedule;
    overlay(merged, entry.software);
  }
  stated.software = read<Software>(merged, [](auto& s) { declare(s); });
  return stated;
}

void SoftwareProfiles::describe(const std::string& model, const std::string& text, ModelShape& shape) const {
  config::Node merged = config::Node::map();
  for (const Family& family : families_)
    if (occurs(family.name, model) && occurs(family.states, text)) overlay(merged, family.facts);
  const auto facts = read<FamilyFacts>(merged, [](auto& s) { declare_facts(s); });
  if (facts.kv_heads) shape.kv_heads = *facts.kv_heads;
  if (facts.gated) shape.gated = *facts.gated;
  if (facts.tied) shape.tied = *facts.tied;
  if (facts.positions) shape.positions = *facts.positions;
  if (facts.biases) shape.biases = *facts.biases;
  if (facts.vocabulary && shape.vocabulary == 0) shape.vocabulary = *facts.vocabulary;
  if (facts.experts) {
    shape.experts = *facts.experts;
    shape.top_k = facts.top_k.value_or(2);
    shape.expert_ffn = shape.ffn;
    shape.expert_layers = shape.layers;
  }
}

}  // namespace stoa::plan

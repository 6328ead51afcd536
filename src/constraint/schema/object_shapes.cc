// What a schema says of the members of objects.
#include <algorithm>

#include "constraint/schema/shapes_of.h"

namespace stoa::constraint {

void SchemaShapes::apply_objects(Shapes& shapes, const Json& schema) {
  MemberRules rules;
  if (const Json* named = get(schema, "properties")) {
    if (!named->is_object()) document_.refuse(schema, "'properties' must be an object");
    for (const auto& [key, part] : named->items()) rules.named.emplace_back(key, goal_of(part));
  }
  if (const Json* matching = get(schema, "patternProperties")) {
    if (!matching->is_object()) document_.refuse(schema, "'patternProperties' must be an object");
    for (const auto& [key, part] : matching->items())
      rules.matching.emplace_back(pattern(schema, key), goal_of(part));
  }
  if (const Json* others = get(schema, "additionalProperties")) {
    rules.others = goal_of(*others);
    rules.tells_others = true;
  }
  if (const Json* rest = get(schema, "unevaluatedProperties"); rest != nullptr && !goal_of(*rest).empty()) {
    for (const char* key :
         {"$ref", "allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas", "dependencies"})
      if (schema.contains(key))
        document_.refuse(schema, "'unevaluatedProperties' together with '{}' is not supported", key);
    if (!rules.tells_others) rules.others = goal_of(*rest);
    rules.tells_others = true;
  }
  const Json* required = get(schema, "required");
  if (required != nullptr && required->is_boolean()) required = nullptr;  // of draft 3
  if (required != nullptr && !required->is_array())
    document_.refuse(schema, "'required' must be a list of names");
  SharedTexts names;
  if (const Json* name = get(schema, "propertyNames"); name != nullptr && !goal_of(*name).empty()) {
    // The names as strings of that schema.
    for (const Shape& shape : of(goal_of(*name))) {
      if (shape.type != Type::kString) continue;
      CharAutomaton texts = of_length(shape.least, shape.most, budget_);
      for (const SharedTexts& more : shape.texts) texts = intersection(texts, *more, budget_);
      if (names) {
        const CharAutomaton neither =
            intersection(complement(*names, budget_), complement(texts, budget_), budget_);
        texts = complement(neither, budget_);
      }
      names = std::make_shared<const CharAutomaton>(std::move(texts));
    }
    if (!names) names = std::make_shared<const CharAutomaton>(one_of({}, budget_));
  }
  const Json* least = get(schema, "minProperties");
  const Json* most = get(schema, "maxProperties");
  for (Shape& shape : shapes) {
    if (shape.type != Type::kObject) continue;
    if (!rules.named.empty() || !rules.matching.empty() || rules.tells_others) shape.members.push_back(rules);
    if (required != nullptr)
      for (const Json& name : *required) {
        if (!name.is_string()) document_.refuse(schema, "'required' must be a list of names");
        shape.require_member(name.get<std::string>());
      }
    if (names) shape.names.push_back(names);
    if (least != nullptr) shape.at_least(count(schema, "minProperties", *least));
    if (most != nullptr) shape.at_most(count(schema, "maxProperties", *most));
    shape.at_least(std::ssize(shape.required));
  }
  std::erase_if(shapes, [](const Shape& s) { return !s.countable(); });
}

std::vector<Shape> SchemaShapes::apply_dependencies(Shapes shapes, const Json& schema) {
  for (const char* keyword : {"dependentRequired", "dependentSchemas", "dependencies"}) {
    const Json* all = get(schema, keyword);
    if (all == nullptr) continue;
    if (!all->is_object()) document_.refuse(schema, "'{}' must be an object", keyword);
    for (const auto& [key, needed] : all->items()) {
      // Without the member, or with it and what it needs.
      const Json absent{{"properties", {{key, false}}}};
      Json present{{"type", "object"}, {"required", Json::array({key})}};
      if (needed.is_array())
        for (const Json& name : needed) present["required"].push_back(name);
      Shapes with = apply(shapes, {&document_.keep(std::move(present)), true});
      if (!needed.is_array()) with = apply(std::move(with), {&needed, true});
      shapes = apply(std::move(shapes), {&document_.keep(absent), true});
      append(shapes, std::move(with));
      check(shapes);
    }
  }
  return shapes;
}

std::vector<std::pair<CharAutomaton, Goal>> SchemaShapes::other_members(const Shape& shape) {
  struct Part {
    CharAutomaton names;
    std::vector<bool> matches;  // of all rules, in their order
  };
  std::vector<std::vector<char32_t>> mentioned;
  for (const std::string& name : shape.named_members())
    mentioned.push_back(characters_of(name).value_or(std::vector<char32_t>()));
  std::vector<Part> parts{{complement(one_of(mentioned, budget_), budget_), {}}};
  for (const SharedTexts& names : shape.names) parts[0].names = intersection(parts[0].names, *names, budget_);
  for (const MemberRules& rules : shape.members)
    for (const auto& [texts, goal] : rules.matching) {
      std::vector<Part> next;
      const CharAutomaton others = complement(*texts, budget_);
      for (Part& part : parts)
        for (const bool match : {true, false}) {
          Part half{intersection(part.names, match ? *texts : others, budget_), part.matches};
          half.matches.push_back(match);
          if (!half.names.empty()) next.push_back(std::move(half));
        }
      parts = std::move(next);
      require<ConstraintError>(parts.size() <= kMostShapes,
                               "the schema is too complex: too many 'patternProperties'");
    }
  std::vector<std::pair<CharAutomaton, Goal>> out;
  for (Part& part : parts) {
    if (part.names.empty()) continue;
    Goal goal;
    std::size_t i = 0;
    bool mentions = options_.open_objects || mentioned.empty();
    for (const MemberRules& rules : shape.members) {
      bool told = false;
      for (const auto& [texts, wanted] : rules.matching)
        if (part.matches[i++]) goal = both(goal, wanted), told = true;
      if (!told) goal = both(goal, rules.others);
      mentions |= told || rules.tells_others;
    }
    if (!mentions) continue;
    const bool never = std::any_of(goal.begin(), goal.end(), [](const Demand& d) {
      return d.schema->is_boolean() && d.schema->get<bool>() != d.holds;
    });
    if (!never) out.emplace_back(std::move(part.names), std::move(goal));
  }
  return out;
}

}  // namespace stoa::constraint

// Values that a schema does not fit: for `not`, `oneOf` and `else`.
#include <algorithm>

#include "constraint/schema/shapes_of.h"

namespace stoa::constraint {
namespace {

using Type = Shape::Type;

bool is_one_of(std::string_view key, std::initializer_list<std::string_view> keys) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

}  // namespace

std::vector<Shape> SchemaShapes::deny_schema(const Shapes& shapes, const Json& schema) {
  Shapes out;
  const auto add = [&](Shapes more) {
    append(out, std::move(more));
    check(out);
  };
  if (const Json* reference = get(schema, "$ref")) {
    if (!reference->is_string()) document_.refuse(schema, "'$ref' must be a text");
    add(apply(shapes, {&document_.resolve(reference->get<std::string>()), false}));
    if (document_.reference_stands_alone()) return out;
  }
  for (const auto& [key, value] : schema.items())
    if (key != "$ref") add(deny_keyword(shapes, schema, key, value));
  std::erase_if(out, [](const Shape& s) { return !s.countable(); });
  return out;
}

std::vector<Shape> SchemaShapes::deny_keyword(Shapes shapes, const Json& schema, const std::string& key,
                                              const Json& value) {
  const auto only = [&](Type type, auto change) {
    Shapes out;
    for (Shape& shape : shapes)
      if (shape.type == type) change(shape), out.push_back(std::move(shape));
    return out;
  };
  const auto unsupported = [&]() -> Shapes {
    document_.refuse(schema, "'{}' within 'not', 'oneOf' or 'if' is not supported", key);
  };
  if (key == "type") return of_types(std::move(shapes), schema, value, false);
  if (key == "enum") return without_values(std::move(shapes), list(schema, "enum", value));
  if (key == "const") return without_value(shapes, value);
  if (is_one_of(key, {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})) {
    if (!value.is_number()) return value.is_boolean() ? unsupported() : Shapes();
    const bool low = key.ends_with("inimum"), open = key.starts_with("exclusive");
    // In draft 4 a neighbour says whether the bound itself is meant.
    if (!open && schema.contains(low ? "exclusiveMinimum" : "exclusiveMaximum") &&
        schema[low ? "exclusiveMinimum" : "exclusiveMaximum"].is_boolean())
      return unsupported();
    const Decimal bound = Decimal::of(value);
    return only(Type::kNumber,
                [&](Shape& s) { low ? s.number.lower(bound, !open) : s.number.raise(bound, !open); });
  }
  if (key == "minLength" || key == "minItems" || key == "minProperties") {
    const std::int64_t n = count(schema, key.c_str(), value);
    if (n == 0) return {};
    return only(key == "minLength"  ? Type::kString
                : key == "minItems" ? Type::kArray
                                    : Type::kObject,
                [&](Shape& s) { s.at_most(n - 1); });
  }
  if (key == "maxLength" || key == "maxItems" || key == "maxProperties") {
    const std::int64_t n = count(schema, key.c_str(), value);
    return only(key == "maxLength"  ? Type::kString
                : key == "maxItems" ? Type::kArray
                                    : Type::kObject,
                [&](Shape& s) { s.at_least(n + 1); });
  }
  if (key == "pattern" || key == "format") {
    if (!value.is_string()) document_.refuse(schema, "'{}' must be a text", key);
    const auto text = value.get<std::string>();
    const SharedTexts texts = key == "pattern" ? pattern(schema, text) : format(schema, text);
    if (!texts) return {};
    const SharedTexts others = not_these(*texts);
    return only(Type::kString, [&](Shape& s) { s.texts.push_back(others); });
  }
  if (key == "allOf") {
    Shapes out;
    for (const Json& part : list(schema, "allOf", value)) {
      Shapes more = apply(shapes, {&part, false});
      append(out, std::move(more));
    }
    return out;
  }
  if (key == "anyOf") {
    for (const Json& part : list(schema, "anyOf", value)) shapes = apply(std::move(shapes), {&part, false});
    return shapes;
  }
  if (key == "not") return apply(std::move(shapes), {&value, true});
  if (key == "if") {
    Shapes out;
    for (const bool met : {true, false}) {
      const Json* wanted = get(schema, met ? "then" : "else");
      if (wanted == nullptr) continue;
      Shapes more = apply(apply(shapes, {&value, met}), {wanted, false});
      append(out, std::move(more));
    }
    return out;
  }
  if (is_one_of(key,
                {"properties", "required", "additionalProperties", "patternProperties", "dependentRequired"}))
    return deny_members(shapes, schema, key, value);
  if (is_one_of(key, {"items", "prefixItems", "contains"})) return deny_items(shapes, schema, key, value);
  if (key == "uniqueItems" && value == false) return {};
  if (is_one_of(key, {"multipleOf", "oneOf", "uniqueItems", "additionalItems", "unevaluatedItems",
                      "unevaluatedProperties", "propertyNames", "dependentSchemas", "dependencies",
                      "minContains", "maxContains"}))
    return unsupported();
  return {};  // says nothing of the value
}

std::vector<Shape> SchemaShapes::deny_members(const Shapes& shapes, const Json& schema,
                                              const std::string& key, const Json& value) {
  Shapes out;
  const auto add = [&](const std::string* present, const std::string& name, Goal goal) {
    for (const Shape& shape : shapes) {
      if (shape.type != Type::kObject) continue;
      Shape& more = out.emplace_back(shape);
      if (present != nullptr) more.require_member(*present), more.at_least(std::ssize(more.required));
      more.members.push_back({.named = {{name, std::move(goal)}}, .matching = {}});
    }
  };
  const auto never = [&] { return goal_of(document_.keep(false)); };
  if (key == "required" && value.is_array()) {
    for (const Json& name : value)
      if (name.is_string()) add(nullptr, name.get<std::string>(), never());
  } else if (key == "properties" && value.is_object()) {
    for (const auto& [name, part] : value.items())
      if (!goal_of(part).empty()) add(&name, name, goal_of(part, false));
  } else if (key == "dependentRequired" && value.is_object()) {
    for (const auto& [name, needed] : value.items())
      for (const Json& other : needed)
        if (other.is_string()) add(&name, other.get<std::string>(), never());
  } else if (!(key == "additionalProperties" && goal_of(value).empty())) {
    document_.refuse(schema, "'{}' within 'not', 'oneOf' or 'if' is not supported", key);
  }
  return out;
}

std::vector<Shape> SchemaShapes::deny_items(const Shapes& shapes, const Json& schema, const std::string& key,
                                            const Json& value) {
  Shapes out;
  for (const Shape& shape : shapes) {
    if (shape.type != Type::kArray) continue;
    if (key == "contains") {
      const Json* least = get(schema, "minContains");
      if (least != nullptr || schema.contains("maxContains"))
        document_.refuse(schema, "'contains' within 'not', 'oneOf' or 'if' is not supported with a count");
      out.push_back(shape);
      out.back().restrict_items({}, goal_of(value, false));
    } else if (value.is_array()) {
      // Some item at its place does not fit.
      for (std::size_t i = 0; i < value.size(); ++i) {
        if (goal_of(value[i]).empty()) continue;
        std::vector<Goal> items(i + 1);
        items.back() = goal_of(value[i], false);
        out.push_back(shape);
        out.back().restrict_items(items, {});
        out.back().at_least(static_cast<std::int64_t>(i) + 1);
      }
    } else if (!goal_of(value).empty()) {
      if (schema.contains("prefixItems"))
        document_.refuse(schema, "'items' with 'prefixItems' within 'not', 'oneOf' or 'if' is not supported");
      out.push_back(shape);
      out.back().contains.push_back(goal_of(value, false));
      out.back().at_least(1);
    }
  }
  return out;
}

}  // namespace stoa::constraint

#include "constraint/schema/shapes_of.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "constraint/regex.h"
#include "constraint/schema/formats.h"

namespace stoa::constraint {
namespace {

using Json = SchemaDocument::Json;
using Type = Shape::Type;

constexpr std::size_t kDeepestGoal = 300, kDeepestExamination = 12;

constexpr std::array kTypes{Type::kNull,   Type::kTrue,  Type::kFalse, Type::kNumber,
                            Type::kString, Type::kArray, Type::kObject};

Type type_of(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return Type::kNull;
    case Json::value_t::boolean:
      return value.get<bool>() ? Type::kTrue : Type::kFalse;
    case Json::value_t::string:
      return Type::kString;
    case Json::value_t::array:
      return Type::kArray;
    case Json::value_t::object:
      return Type::kObject;
    default:
      return Type::kNumber;
  }
}

}  // namespace

void SchemaShapes::append(Shapes& to, Shapes more) {
  to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

Goal SchemaShapes::goal_of(const Json& schema, bool holds) {
  const bool any =
      (schema.is_boolean() && schema.get<bool>() == holds) || (holds && schema.is_object() && schema.empty());
  return any ? Goal() : Goal{{&schema, holds}};
}

const Json* SchemaShapes::get(const Json& schema, const char* key) const {
  const auto it = schema.find(key);
  return it == schema.end() ? nullptr : &*it;
}

const Json& SchemaShapes::list(const Json& schema, const char* key, const Json& value) const {
  if (!value.is_array() || value.empty()) document_.refuse(schema, "'{}' must be a list, and not empty", key);
  return value;
}

std::int64_t SchemaShapes::count(const Json& schema, const char* key, const Json& value) const {
  const bool whole = value.is_number() && value.get<double>() >= 0 && value.get<double>() <= 1e15 &&
                     value.get<double>() == std::floor(value.get<double>());
  if (!whole) document_.refuse(schema, "'{}' must be a whole number, at least 0", key);
  return static_cast<std::int64_t>(value.get<double>());
}

void SchemaShapes::check(const Shapes& shapes) const {
  budget_.check_time();
  require<ConstraintError>(shapes.size() <= kMostShapes,
                           "the schema is too complex: it combines more than {} alternatives", kMostShapes);
}

std::vector<Shape> SchemaShapes::of(const Goal& goal) {
  Shapes shapes;
  for (const Type type : kTypes) shapes.emplace_back().type = type;
  for (const Demand& demand : goal) shapes = apply(std::move(shapes), demand);
  return shapes;
}

std::vector<Shape> SchemaShapes::apply(Shapes shapes, const Demand& demand) {
  const Json& schema = *demand.schema;
  if (shapes.empty()) return shapes;
  if (schema.is_boolean()) return schema.get<bool>() == demand.holds ? std::move(shapes) : Shapes();
  if (!schema.is_object()) document_.refuse(schema, "a schema must be an object, true or false");
  document_.check_keywords(schema);
  if (std::find(open_.begin(), open_.end(), demand) != open_.end())
    document_.refuse(schema, "'$ref' leads back to the same place without anything in between");
  require<ConstraintError>(open_.size() < kDeepestGoal, "the schema nests too deeply");
  open_.push_back(demand);
  Shapes out = demand.holds ? apply_schema(std::move(shapes), schema) : deny_schema(shapes, schema);
  open_.pop_back();
  check(out);
  return out;
}

std::vector<Shape> SchemaShapes::apply_schema(Shapes shapes, const Json& schema) {
  if (const Json* reference = get(schema, "$ref")) {
    if (!reference->is_string()) document_.refuse(schema, "'$ref' must be a text");
    shapes = apply(std::move(shapes), {&document_.resolve(reference->get<std::string>()), true});
    if (document_.reference_stands_alone()) return shapes;
  }
  shapes = apply_values(std::move(shapes), schema);
  apply_numbers(shapes, schema);
  apply_strings(shapes, schema);
  apply_arrays(shapes, schema);
  apply_objects(shapes, schema);
  shapes = apply_dependencies(std::move(shapes), schema);
  return apply_combinations(std::move(shapes), schema);
}

std::vector<Shape> SchemaShapes::of_types(Shapes shapes, const Json& schema, const Json& types, bool wanted) {
  const Json all = types.is_array() ? types : Json::array({types});
  bool number = false, integer = false;
  std::array<bool, kTypes.size()> in{};
  const auto set = [&](Type type) { in[static_cast<std::size_t>(type)] = true; };
  for (const Json& type : all) {
    if (type == "null")
      set(Type::kNull);
    else if (type == "boolean")
      set(Type::kTrue), set(Type::kFalse);
    else if (type == "number")
      set(Type::kNumber), number = true;
    else if (type == "integer")
      integer = true;
    else if (type == "string")
      set(Type::kString);
    else if (type == "array")
      set(Type::kArray);
    else if (type == "object")
      set(Type::kObject);
    else
      document_.refuse(schema, "'type' must be one of null, boolean, number, integer, string, array, object");
  }
  Shapes out;
  for (Shape& shape : shapes) {
    bool keeps = in[static_cast<std::size_t>(shape.type)] == wanted;
    if (shape.type == Type::kNumber && integer && !number) {
      (wanted ? shape.number.whole : shape.number.broken) = true;
      keeps = !(shape.number.whole && shape.number.broken);
    }
    if (keeps) out.push_back(std::move(shape));
  }
  return out;
}

std::vector<Shape> SchemaShapes::of_value(const Shapes& shapes, const Json& value) {
  Shapes out;
  for (Shape shape : shapes) {
    if (shape.type != type_of(value)) continue;
    switch (shape.type) {
      case Type::kNumber: {
        const Decimal exact = Decimal::of(value);
        shape.number.raise(exact, false);
        shape.number.lower(exact, false);
        break;
      }
      case Type::kString: {
        const auto chars = characters_of(value.get_ref<const std::string&>());
        require<ConstraintError>(chars.has_value(), "a text of the schema is not UTF-8");
        shape.texts.push_back(std::make_shared<const CharAutomaton>(one_of({*chars}, budget_)));
        break;
      }
      case Type::kArray: {
        std::vector<Goal> items;
        for (const Json& item : value) items.push_back(goal_of(document_.keep({{"const", item}})));
        shape.restrict_items(items, {});
        shape.at_least(std::ssize(value));
        shape.at_most(std::ssize(value));
        break;
      }
      case Type::kObject: {
        MemberRules rules;
        for (const auto& [key, part] : value.items()) {
          rules.named.emplace_back(key, goal_of(document_.keep({{"const", part}})));
          shape.require_member(key);
        }
        rules.others = goal_of(document_.keep(false));
        shape.members.push_back(std::move(rules));
        break;
      }
      default:
        break;
    }
    out.push_back(std::move(shape));
  }
  return out;
}

std::vector<Shape> SchemaShapes::of_values(const Shapes& shapes, const Json& values) {
  Shapes out;
  // Texts together: there may be thousands.
  std::vector<std::vector<char32_t>> texts;
  for (const Json& value : values) {
    if (!value.is_string()) {
      append(out, of_value(shapes, value));
      check(out);
      continue;
    }
    auto chars = characters_of(value.get_ref<const std::string&>());
    require<ConstraintError>(chars.has_value(), "a text of the schema is not UTF-8");
    texts.push_back(std::move(*chars));
  }
  if (texts.empty()) return out;
  const auto automaton = std::make_shared<const CharAutomaton>(one_of(texts, budget_));
  for (Shape shape : shapes) {
    if (shape.type != Type::kString) continue;
    shape.texts.push_back(automaton);
    out.push_back(std::move(shape));
  }
  return out;
}

SharedTexts SchemaShapes::not_these(const CharAutomaton& texts) {
  return std::make_shared<const CharAutomaton>(complement(texts, budget_));
}

std::vector<Shape> SchemaShapes::without_value(const Shapes& shapes, const Json& value) {
  Shapes out;
  for (const Shape& shape : shapes) {
    if (shape.type != type_of(value)) {
      out.push_back(shape);
      continue;
    }
    switch (shape.type) {
      case Type::kNumber: {
        const Decimal exact = Decimal::of(value);
        out.push_back(shape);
        out.back().number.lower(exact, true);
        out.push_back(shape);
        out.back().number.raise(exact, true);
        break;
      }
      case Type::kString:
        out.push_back(shape);
        out.back().texts.push_back(not_these(
            one_of({characters_of(value.get_ref<const std::string&>()).value_or(std::vector<char32_t>())},
                   budget_)));
        break;
      case Type::kArray: {
        const std::int64_t size = std::ssize(value);
        if (size > 0) out.push_back(shape), out.back().at_most(size - 1);
        out.push_back(shape);
        out.back().at_least(size + 1);
        for (std::int64_t i = 0; i < size; ++i) {
          out.push_back(shape);
          std::vector<Goal> items(static_cast<std::size_t>(i) + 1);
          items.back() = goal_of(document_.keep({{"const", value[static_cast<std::size_t>(i)]}}), false);
          out.back().restrict_items(items, {});
          out.back().at_least(i + 1);
        }
        break;
      }
      case Type::kObject:
        fail<ConstraintError>("the schema: 'not' and 'oneOf' of an object's value are not supported");
      default:
        break;
    }
  }
  std::erase_if(out, [](const Shape& s) { return !s.countable(); });
  check(out);
  return out;
}

std::vector<Shape> SchemaShapes::without_values(Shapes shapes, const Json& values) {
  for (const Json& value : values) shapes = without_value(shapes, value);
  return shapes;
}

std::vector<Shape> SchemaShapes::apply_values(Shapes shapes, const Json& schema) {
  if (const Json* types = get(schema, "type")) shapes = of_types(std::move(shapes), schema, *types, true);
  if (const Json* values = get(schema, "enum")) shapes = of_values(shapes, list(schema, "enum", *values));
  if (const Json* value = get(schema, "const")) shapes = of_value(shapes, *value);
  return shapes;
}

void SchemaShapes::apply_numbers(Shapes& shapes, const Json& schema) {
  const auto bound = [&](const char* key) -> std::optional<Decimal> {
    const Json* value = get(schema, key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number()) document_.refuse(schema, "'{}' must be a number", key);
    return Decimal::of(*value);
  };
  // In draft 4, exclusiveMinimum is true or false and says what minimum means.
  const auto flag = [&](const char* key) {
    const Json* value = get(schema, key);
    return value != nullptr && value->is_boolean() ? std::optional(value->get<bool>()) : std::nullopt;
  };
  const auto low_flag = flag("exclusiveMinimum"), high_flag = flag("exclusiveMaximum");
  const auto low = bound("minimum"), high = bound("maximum"), divisor = bound("multipleOf");
  const auto above = low_flag ? std::nullopt : bound("exclusiveMinimum");
  const auto below = high_flag ? std::nullopt : bound("exclusiveMaximum");
  if (divisor && (divisor->negative || divisor->zero()))
    document_.refuse(schema, "'multipleOf' must be above 0");
  const Json* format = get(schema, "format");
  for (Shape& shape : shapes) {
    if (shape.type != Type::kNumber) continue;
    NumberBounds& number = shape.number;
    if (low) number.raise(*low, low_flag.value_or(false));
    if (high) number.lower(*high, high_flag.value_or(false));
    if (above) number.raise(*above, true);
    if (below) number.lower(*below, true);
    if (divisor) number.multiples_of.push_back(*divisor);
    if (format == nullptr) continue;
    const bool narrow = *format == "int32";
    if (!narrow && *format != "int64") continue;
    number.whole = true;
    number.raise(Decimal::of(narrow ? Json(-2147483648LL) : Json(std::numeric_limits<std::int64_t>::min())),
                 false);
    number.lower(Decimal::of(narrow ? Json(2147483647LL) : Json(std::numeric_limits<std::int64_t>::max())),
                 false);
  }
}

SharedTexts SchemaShapes::pattern(const Json& schema, const std::string& text) {
  auto& known = patterns_[text];
  if (known) return known;
  try {
    return known = std::make_shared<const CharAutomaton>(parse_regex(text, RegexMatch::kAnywhere, budget_));
  } catch (const ConstraintError& error) {
    document_.refuse(schema, "the pattern '{}': {}", text.substr(0, 60), error.what());
  }
}

SharedTexts SchemaShapes::format(const Json& schema, const std::string& name) {
  const auto known = formats_.find(name);
  if (known != formats_.end()) return known->second;
  try {
    return formats_[name] = texts_of_format(name, budget_);
  } catch (const ConstraintError& error) {
    document_.refuse(schema, "{}", error.what());
  }
}

void SchemaShapes::apply_strings(Shapes& shapes, const Json& schema) {
  const Json* least = get(schema, "minLength");
  const Json* most = get(schema, "maxLength");
  std::vector<SharedTexts> texts;
  if (const Json* value = get(schema, "pattern")) {
    if (!value->is_string()) document_.refuse(schema, "'pattern' must be a text");
    texts.push_back(pattern(schema, value->get<std::string>()));
  }
  if (const Json* value = get(schema, "format")) {
    if (!value->is_string()) document_.refuse(schema, "'format' must be a text");
    if (auto known = format(schema, value->get<std::string>())) texts.push_back(std::move(known));
  }
  for (Shape& shape : shapes) {
    if (shape.type != Type::kString) continue;
    shape.texts.insert(shape.texts.end(), texts.begin(), texts.end());
    if (least != nullptr) shape.at_least(count(schema, "minLength", *least));
    if (most != nullptr) shape.at_most(count(schema, "maxLength", *most));
  }
  std::erase_if(shapes, [](const Shape& s) { return !s.countable(); });
}

void SchemaShapes::apply_arrays(Shapes& shapes, const Json& schema) {
  std::vector<Goal> first;
  Goal others;
  const auto read_first = [&](const Json& items) {
    for (const Json& item : items) first.push_back(goal_of(item));
  };
  const Json* items = get(schema, "items");
  if (const Json* prefix = get(schema, "prefixItems")) read_first(list(schema, "prefixItems", *prefix));
  if (items != nullptr && items->is_array()) {
    // Up to draft 2019-09 a list; additionalItems are those behind it.
    read_first(*items);
    if (const Json* rest = get(schema, "additionalItems")) others = goal_of(*rest);
  } else if (items != nullptr) {
    others = goal_of(*items);
  }
  const auto applies_elsewhere = [&] {
    for (const char* key :
         {"$ref", "allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas", "dependencies", "contains"})
      if (schema.contains(key)) return true;
    return false;
  };
  if (const Json* rest = get(schema, "unevaluatedItems"); rest != nullptr && !goal_of(*rest).empty()) {
    if (applies_elsewhere())
      document_.refuse(schema, "'unevaluatedItems' together with other schemas is not supported");
    if (items == nullptr) others = goal_of(*rest);
  }
  const Json* contained = get(schema, "contains");
  const Json* least_contained = get(schema, "minContains");
  const std::int64_t wanted = contained == nullptr         ? 0
                              : least_contained == nullptr ? 1
                                                           : count(schema, "minContains", *least_contained);
  if (wanted > 1) document_.refuse(schema, "'minContains' above 1 is not supported");
  if (contained != nullptr && schema.contains("maxContains"))
    document_.refuse(schema, "'maxContains' is not supported");
  const Json* unique = get(schema, "uniqueItems");
  const bool distinct = unique != nullptr && *unique == true;
  const Json* least = get(schema, "minItems");
  const Json* most = get(schema, "maxItems");
  for (Shape& shape : shapes) {
    if (shape.type != Type::kArray) continue;
    shape.restrict_items(first, others);
    if (wanted == 1) shape.contains.push_back(goal_of(*contained)), shape.at_least(1);
    if (least != nullptr) shape.at_least(count(schema, "minItems", *least));
    if (most != nullptr) shape.at_most(count(schema, "maxItems", *most));
    if (distinct && (shape.most == kUnbounded || shape.most > 1))
      document_.refuse(schema, "'uniqueItems' is not supported");
  }
  std::erase_if(shapes, [](const Shape& s) { return !s.countable(); });
}

std::vector<Shape> SchemaShapes::apply_combinations(Shapes shapes, const Json& schema) {
  if (const Json* all = get(schema, "allOf"))
    for (const Json& part : list(schema, "allOf", *all)) shapes = apply(std::move(shapes), {&part, true});
  if (const Json* any = get(schema, "anyOf")) {
    Shapes out;
    for (const Json& part : list(schema, "anyOf", *any)) {
      append(out, apply(shapes, {&part, true}));
      check(out);
    }
    shapes = std::move(out);
  }
  if (schema.contains("oneOf")) shapes = apply_one_of(shapes, schema);
  if (const Json* denied = get(schema, "not")) shapes = apply(std::move(shapes), {denied, false});
  if (const Json* condition = get(schema, "if")) {
    const Json* then = get(schema, "then");
    const Json* otherwise = get(schema, "else");
    if (then == nullptr && otherwise == nullptr) return shapes;
    Shapes met = apply(shapes, {condition, true});
    if (then != nullptr) met = apply(std::move(met), {then, true});
    shapes = apply(std::move(shapes), {condition, false});
    if (otherwise != nullptr) shapes = apply(std::move(shapes), {otherwise, true});
    append(shapes, std::move(met));
  }
  return shapes;
}

// One of the parts and none of the others. Where two parts have no value in common, nothing is to be denied.
std::vector<Shape> SchemaShapes::apply_one_of(const Shapes& shapes, const Json& schema) {
  const Json& parts = list(schema, "oneOf", schema["oneOf"]);
  Shapes out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Shapes with = apply(shapes, {&parts[i], true});
    for (std::size_t k = 0; k < parts.size() && !with.empty(); ++k) {
      if (k == i || none_fits(both(goal_of(parts[i]), goal_of(parts[k])))) continue;
      with = apply(std::move(with), {&parts[k], false});
    }
    append(out, std::move(with));
    check(out);
  }
  return out;
}

bool SchemaShapes::none_fits(const Goal& goal) {
  if (goal.empty()) return false;
  if (examined_.size() >= kDeepestExamination ||
      std::find(examined_.begin(), examined_.end(), goal) != examined_.end())
    return false;
  examined_.push_back(goal);
  std::vector<Demand> open;
  std::swap(open, open_);  // what is examined is within a value
  const auto empty = [&](const Shape& shape) {
    if (!shape.countable()) return true;
    switch (shape.type) {
      case Type::kNumber:
        return !(shape.number.free()) && texts_of(shape.number, budget_).empty();
      case Type::kString: {
        if (shape.texts.empty()) return false;
        CharAutomaton all = *shape.texts[0];
        for (std::size_t i = 1; i < shape.texts.size(); ++i)
          all = intersection(all, *shape.texts[i], budget_);
        return all.empty();
      }
      case Type::kArray:
        for (std::size_t i = 0; i < static_cast<std::size_t>(shape.least) && i <= shape.first_items.size();
             ++i)
          if (none_fits(i < shape.first_items.size() ? shape.first_items[i] : shape.other_items)) return true;
        return false;
      case Type::kObject:
        return std::any_of(shape.required.begin(), shape.required.end(),
                           [&](const std::string& name) { return none_fits(shape.member(name)); });
      default:
        return false;
    }
  };
  const Shapes shapes = of(goal);
  const bool none = std::all_of(shapes.begin(), shapes.end(), empty);
  std::swap(open, open_);
  examined_.pop_back();
  return none;
}

}  // namespace stoa::constraint

// The shapes of the values that fit schemas.
#pragma once

#include <map>
#include <string_view>

#include "constraint/schema/shape.h"

namespace stoa::constraint {

struct SchemaOptions {
  // An object whose schema names members, and does not say what others are, may have others. A standard
  // validator takes them; a model that may invent members does so without end.
  bool open_objects = false;
};

class SchemaShapes {
 public:
  static constexpr std::size_t kMostShapes = 400;  // of one schema

  SchemaShapes(SchemaDocument& document, const SchemaOptions& options, Budget& budget)
      : document_(document), options_(options), budget_(budget) {}

  // ConstraintError: a keyword is not supported, alone or in this place.
  std::vector<Shape> of(const Goal& goal);
  // Whether no value fits, as far as it can be told; false in doubt.
  bool none_fits(const Goal& goal);

  static Goal goal_of(const SchemaDocument::Json& schema, bool holds = true);
  // Members that an object may have in addition to those that its shape names: sets of names whose members
  // have to fit the same.
  std::vector<std::pair<CharAutomaton, Goal>> other_members(const Shape& shape);

 private:
  using Json = SchemaDocument::Json;
  using Shapes = std::vector<Shape>;
  using Type = Shape::Type;

  static void append(Shapes& to, Shapes more);
  Shapes apply(Shapes shapes, const Demand& demand);
  Shapes apply_schema(Shapes shapes, const Json& schema);
  Shapes apply_values(Shapes shapes, const Json& schema);
  Shapes apply_combinations(Shapes shapes, const Json& schema);
  Shapes apply_dependencies(Shapes shapes, const Json& schema);
  void apply_numbers(Shapes& shapes, const Json& schema);
  void apply_strings(Shapes& shapes, const Json& schema);
  void apply_arrays(Shapes& shapes, const Json& schema);
  void apply_objects(Shapes& shapes, const Json& schema);
  Shapes apply_one_of(const Shapes& shapes, const Json& schema);

  // Shapes of which `schema` does not hold: for each keyword, those that it alone excludes.
  Shapes deny_schema(const Shapes& shapes, const Json& schema);
  Shapes deny_keyword(Shapes shapes, const Json& schema, const std::string& key, const Json& value);
  Shapes deny_members(const Shapes& shapes, const Json& schema, const std::string& key, const Json& value);
  Shapes deny_items(const Shapes& shapes, const Json& schema, const std::string& key, const Json& value);

  Shapes of_types(Shapes shapes, const Json& schema, const Json& types, bool wanted);
  Shapes of_value(const Shapes& shapes, const Json& value);
  Shapes of_values(const Shapes& shapes, const Json& values);
  Shapes without_value(const Shapes& shapes, const Json& value);
  Shapes without_values(Shapes shapes, const Json& values);

  SharedTexts pattern(const Json& schema, const std::string& text);
  SharedTexts format(const Json& schema, const std::string& name);
  SharedTexts not_these(const CharAutomaton& texts);
  std::int64_t count(const Json& schema, const char* key, const Json& value) const;
  const Json* get(const Json& schema, const char* key) const;
  const Json& list(const Json& schema, const char* key, const Json& value) const;
  void check(const Shapes& shapes) const;

  SchemaDocument& document_;
  const SchemaOptions options_;
  Budget& budget_;
  std::map<std::string, SharedTexts> patterns_, formats_;
  std::vector<Demand> open_;    // demands being applied, each within the former
  std::vector<Goal> examined_;  // by none_fits, each within the former
};

}  // namespace stoa::constraint

// What values of one JSON type may be. A schema is a list of shapes: a value fits it if it fits one of them.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "constraint/schema/decimal.h"
#include "constraint/schema/document.h"

namespace stoa::constraint {

// What a value has to fit: schemas all of which hold, or do not hold. Sorted, without doubles; without
// entries, any value fits.
struct Demand {
  const SchemaDocument::Json* schema = nullptr;
  bool holds = true;
  friend auto operator<=>(const Demand&, const Demand&) = default;
};
using Goal = std::vector<Demand>;
Goal both(const Goal& a, const Goal& b);

using SharedTexts = std::shared_ptr<const CharAutomaton>;

// What one schema says about the members of an object.
struct MemberRules {
  std::vector<std::pair<std::string, Goal>> named;
  std::vector<std::pair<SharedTexts, Goal>> matching;  // members whose names match
  Goal others = {};                                    // the rest
  bool tells_others = false;                           // whether it says so
};

struct Shape {
  enum class Type : std::uint8_t { kNull, kTrue, kFalse, kNumber, kString, kArray, kObject };
  Type type = Type::kNull;

  NumberBounds number = {};

  std::vector<SharedTexts> texts = {};  // strings that all of them accept
  // Characters of a string, items of a list, members of an object.
  std::int64_t least = 0, most = kUnbounded;

  std::vector<Goal> first_items = {};
  Goal other_items = {};
  std::vector<Goal> contains = {};  // each is met by some item

  std::vector<MemberRules> members = {};
  std::vector<std::string> required = {};
  std::vector<SharedTexts> names = {};  // of members that are not named

  void at_least(std::int64_t count) { least = std::max(least, count); }
  void at_most(std::int64_t count) { most = most == kUnbounded ? count : std::min(most, count); }
  bool countable() const { return most == kUnbounded || least <= most; }
  // Goals of items become stricter.
  void restrict_items(const std::vector<Goal>& first, const Goal& others);
  void require_member(const std::string& name);
  // What the member `name` has to fit.
  Goal member(const std::string& name) const;
  // All names that rules or `required` mention, in their order.
  std::vector<std::string> named_members() const;
};

}  // namespace stoa::constraint

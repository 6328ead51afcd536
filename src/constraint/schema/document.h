// A JSON schema as a document: its parts by reference, and which keywords are known.
#pragma once

#include <deque>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <unordered_map>

#include "constraint/budget.h"

namespace stoa::constraint {

class SchemaDocument {
 public:
  using Json = nlohmann::ordered_json;

  // ConstraintError: the schema is neither an object nor true or false, or is nested too deeply.
  explicit SchemaDocument(Json schema);
  SchemaDocument(const SchemaDocument&) = delete;
  SchemaDocument& operator=(const SchemaDocument&) = delete;

  const Json& root() const { return root_; }
  // The part that a reference in the document names. ConstraintError: there is none, or it is elsewhere.
  const Json& resolve(const std::string& reference) const;
  // A part that is made while a schema is read; it lives as long as the document.
  const Json& keep(Json made) { return kept_.emplace_back(std::move(made)); }
  // ConstraintError: `schema` has a keyword that is not supported.
  void check_keywords(const Json& schema);
  // Whether keywords in addition to $ref are ignored, as up to draft 7.
  bool reference_stands_alone() const { return old_; }

  // "'/properties/a'", for messages.
  std::string place_of(const Json& schema) const;
  template <class... Args>
  [[noreturn]] void refuse(const Json& schema, fmt::format_string<Args...> format, Args&&... args) const {
    fail<ConstraintError>("the schema{}: {}", place_of(schema),
                          fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  void collect(const Json& value, int depth);

  const Json root_;
  bool old_ = false;
  std::deque<Json> kept_;
  std::unordered_map<std::string, const Json*> named_;  // by $id and $anchor
  std::set<const Json*> checked_;
};

}  // namespace stoa::constraint

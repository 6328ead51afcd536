// The forms in which a constraint is given.
#pragma once

#include <string>
#include <vector>

#include "constraint/gbnf.h"
#include "constraint/schema/schema_grammar.h"

namespace stoa::constraint {

struct Source {
  enum class Kind : std::uint8_t {
    kJsonObject,  // any JSON object
    kSchema,      // JSON that fits the schema `text`
    kRegex,       // what the regular expression `text` matches as a whole
    kGrammar,     // GBNF
    kChoice       // one of `choices`
  };
  Kind kind = Kind::kJsonObject;
  std::string text = {};
  std::vector<std::string> choices = {};
  SchemaOptions schema = {};

  // Equal for equal constraints.
  std::string key() const;
};

// ConstraintError: what is wrong with it.
Grammar grammar_of(const Source& source, const TokenNames& tokens, Budget& budget);
// ConstraintError: not JSON, or nested too deeply.
nlohmann::ordered_json parse_schema(std::string_view text);

}  // namespace stoa::constraint

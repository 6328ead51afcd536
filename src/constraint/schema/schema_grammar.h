// Grammars of the JSON texts that fit a JSON schema.
#pragma once

#include "constraint/schema/json_text.h"
#include "constraint/schema/shapes_of.h"

namespace stoa::constraint {

// Adds to `grammar` rules for the values that fit the schema, and returns a call of theirs. Members of
// objects come in the order in which the schema names them, those that it does not name last. Every text of
// the grammar fits the schema; a schema with a keyword for which that cannot be had is refused.
// ConstraintError: the keyword and its place; no value fits; beyond the budget.
Node values_of_schema(nlohmann::ordered_json schema, const SchemaOptions& options, Grammar& grammar,
                      JsonRules& json, Budget& budget);

}  // namespace stoa::constraint

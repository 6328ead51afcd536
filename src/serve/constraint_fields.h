// The fields of a request that say what the text of an answer must be.
#pragma once

#include "serve/served_model.h"
#include "serve/tools/forced_calls.h"

namespace stoa::serve {

// response_format, structured_outputs, guided_…, grammar and json_schema. Null: the answer may be anything.
// ApiError 400: more than one of them, an unknown form, or what is wrong with the constraint, and where.
std::shared_ptr<constraint::Constraint> read_constraint(const RequestBody& body, const ServedModel& model);
// The same of calls that must be made: together with one of the fields, 400.
std::shared_ptr<constraint::Constraint> constraint_of(const ForcedCalls& calls, const RequestBody& body,
                                                      const ServedModel& model);

}  // namespace stoa::serve

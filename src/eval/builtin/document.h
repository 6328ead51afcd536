// Fields of a document for the built-in functions of tasks.
#pragma once

#include <string>

#include "eval/python/text.h"

namespace stoa::eval {

// DataError: the document lacks the field, or it is of another kind.
std::string text_field(const Json& doc, const char* name);
const Json& list_field(const Json& doc, const char* name);

}  // namespace stoa::eval

// A preference: two answers to a prompt, the chosen one and the rejected one.
#pragma once

#include "tune/record_fields.h"

namespace stoa::tune {

// Fills text, rejected and margin. DataError: the answers are equal, or of different kinds.
void read_preference(const RecordFields& fields, Record& out, const RecordOptions& options);

}  // namespace stoa::tune

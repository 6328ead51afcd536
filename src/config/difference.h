// The fields in which two objects of one declaration differ.
#pragma once

#include <string>
#include <vector>

#include "config/schema.h"

namespace stoa::config {

struct Difference {
  std::string path;      // "model.num_layers"
  std::string from, to;  // values as one line of text, shortened where long
};

// In the order of declaration. `a` and `b` are of the type that the schema was declared for.
std::vector<Difference> differences(const Schema& schema, const void* a, const void* b);

}  // namespace stoa::config

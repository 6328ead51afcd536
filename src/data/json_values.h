// JSON values of a file, each on a line of its own.
#pragma once

#include <memory>

#include "data/byte_source.h"

namespace stoa::data {

// The bytes of `source`, unless they begin as an array of objects or texts, or as an object over several
// lines: then these, a line each.
std::unique_ptr<ByteSource> one_value_per_line(std::unique_ptr<ByteSource> source);

}  // namespace stoa::data

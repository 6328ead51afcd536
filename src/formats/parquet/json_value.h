// Values of Parquet columns as JSON.
#pragma once

#include <string>
#include <string_view>

#include "formats/parquet/value_decoders.h"

namespace stoa::parquet {

// DataError: a text that is not UTF-8, a decimal of more than 16 bytes.
void append_json_value(const Value& value, const Node& leaf, std::string& out);

}  // namespace stoa::parquet

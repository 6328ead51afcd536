// One line of JSON as an object of simdjson.
#pragma once

#include <simdjson.h>

#include <string>
#include <string_view>

namespace stoa::data {

// SIMDJSON_PADDING bytes after the line can be read. Halves of surrogate pairs that stand alone become
// U+FFFD, for which `repaired` is memory. DataError: not valid JSON, or no object. The object lives until the
// parser's next use.
simdjson::dom::object parse_json_line(simdjson::dom::parser& parser, std::string_view line,
                                      std::string& repaired);

}  // namespace stoa::data

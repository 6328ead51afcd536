// One line of JSON as an object of simdjson.
#pragma once

#include <simdjson.h>

#include <string>
#include <string_view>

namespace stoa::data {

// SIMDJSON_PADDING bytes after the line can be read. What Python's json writes and JSON lacks is repaired, for
// which `repaired` is memory: halves of surrogate pairs that stand alone become U+FFFD, NaN and infinities null,
// and numbers beyond 64 bits texts of their digits. DataError: not valid JSON, or no object. The object lives
// until the parser's next use.
simdjson::dom::object parse_json_line(simdjson::dom::parser& parser, std::string_view line,
                                      std::string& repaired);

// "it has no key "text"", with the keys that it has.
std::string no_such_key(simdjson::dom::object object, const std::string& key);

}  // namespace stoa::data

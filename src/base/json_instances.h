// nlohmann's parsers and writers, compiled once (json_instances.cc) for builds that parse headers once: only
// their precompiled headers include this (cmake/StoaParseOnce.cmake).
#pragma once

#include <nlohmann/json.hpp>

// For strings and for views, with both orders of keys. The templates are those of 3.11; others are compiled
// where used.
#if NLOHMANN_JSON_VERSION_MAJOR == 3 && NLOHMANN_JSON_VERSION_MINOR == 11
#define STOA_JSON_INSTANCES(declare)                                                   \
  namespace nlohmann {                                                                 \
  declare template class basic_json<>;                                                 \
  declare template class basic_json<ordered_map>;                                      \
  namespace detail {                                                                   \
  STOA_JSON_READERS(declare, iterator_input_adapter<std::string::const_iterator>)      \
  STOA_JSON_READERS(declare, iterator_input_adapter<std::string_view::const_iterator>) \
  declare template class serializer<json>;                                             \
  declare template class serializer<ordered_json>;                                     \
  declare template class json_sax_dom_parser<json>;                                    \
  declare template class json_sax_dom_parser<ordered_json>;                            \
  declare template class json_sax_dom_callback_parser<json>;                           \
  declare template class json_sax_dom_callback_parser<ordered_json>;                   \
  }                                                                                    \
  }
#define STOA_JSON_READERS(declare, input)            \
  declare template class lexer<json, input>;         \
  declare template class lexer<ordered_json, input>; \
  declare template class parser<json, input>;        \
  declare template class parser<ordered_json, input>;
#ifndef STOA_JSON_DEFINED_HERE
STOA_JSON_INSTANCES(extern)
#endif
#endif

// How values are written as JSON: the spellings that constraints allow.
//
// White space: none, one space, or a new line and up to 20 blanks, after { [ , : and before } ]. Strings of a
// given text escape what they must and nothing else; free ones may escape anything. Numbers have at most 20
// digits before and behind the point.
#pragma once

#include <map>

#include "constraint/char_automaton.h"

namespace stoa::constraint {

// One of the characters, as it stands in a string.
Node json_characters(CodeSet set);
// A string whose text the automaton accepts, with its quotation marks.
Node json_string(const CharAutomaton& text);
// The string of exactly this text.
Node json_string(std::string_view text);

inline constexpr int kMostDigits = 20;

// Rules of JSON, added to a grammar when they are first asked for.
class JsonRules {
 public:
  explicit JsonRules(Grammar& grammar) : grammar_(grammar) {}

  Node space();
  Node value();                                        // any
  Node object();                                       // any
  Node array();                                        // any
  Node number();                                       // any
  Node integer();                                      // any
  Node string();                                       // any
  Node string(std::int64_t least, std::int64_t most);  // characters
  Node member(Node key, Node value);                   // of an object

 private:
  template <class Make>
  Node shared(const std::string& name, Make make);

  Grammar& grammar_;
  std::map<std::string, std::int32_t> rules_;
};

}  // namespace stoa::constraint

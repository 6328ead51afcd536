// Calls of tools in an answer that grows: what is new is read, not the whole answer again.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/tools/tool_calls.h"

namespace stoa::serve {

// Where JSON values of a growing text end, and how far those were read that do not end yet.
class ValueEnds {
 public:
  // The value that begins at `begin`, or what there is of it.
  std::string_view value_at(std::string_view text, std::size_t begin, bool& complete);

 private:
  struct Scan {
    std::size_t at = 0, end = 0;
    int depth = 0;
    bool inside = false;  // of a string
    bool complete = false;
  };
  std::map<std::size_t, Scan> scans_;  // by begin
};

// A call whose name is complete, and where its arguments begin.
struct BegunCall {
  std::string name;
  std::size_t arguments = 0;
};

class GrowingCalls {
 public:
  explicit GrowingCalls(ToolFamily family) : family_(family) {}

  // The answer as far as it goes; it begins with what was given before.
  void read(std::string_view answer);
  // What begun_calls() and held_for_tools() say of it.
  const std::vector<ToolCall>& calls() const { return calls_; }
  std::size_t held() const { return held_; }

 private:
  std::size_t search_from(std::string_view mark) const;
  void hold(std::string_view answer);
  void read_marked(std::string_view answer, std::string_view mark);
  void read_object(std::string_view answer);
  void read_list(std::string_view answer);
  // The next part, which may be a call, begins at `at`.
  void open(std::size_t at);
  // The call of the part in `text`; `call`: where it has begun now.
  void grow(std::string_view text, std::optional<BegunCall> call);

  const ToolFamily family_;
  std::vector<ToolCall> calls_;
  std::size_t seen_ = 0, held_ = 0;
  std::optional<std::size_t> held_from_;  // once a call is sure to begin
  std::optional<std::size_t> part_;       // where the last part begins
  std::optional<std::size_t> begun_;      // where the arguments of its call begin
  ValueEnds ends_;                        // of its values
};

}  // namespace stoa::serve

// What the rules measured of documents, next to them: DIR/attributes/00000.jsonl has a line for each of
// DIR/kept/00000.jsonl.
//
//   {"id":"a","rules":[["gopher_quality/gopher_short_doc",38.0,">=",50.0],…,["c4_quality/lorem_ipsum"]],"bytes":210}
//
// A rule with its value, whether its limit is the largest (<=) or smallest (>=) value that holds, and the
// limit (0: the rule is off), in the order in which the rules decide; one without a limit only where it
// fails.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "curate/verdict.h"

namespace stoa::curate {

inline constexpr const char* kTagsFolder = "attributes";

// Writes one line.
class TagLine {
 public:
  TagLine(std::string_view id, std::string& out);
  void add(std::string_view stage, const Verdict::Value& value);
  // `members`: further ones, each with a comma before it.
  void finish(std::size_t text_bytes, std::string_view members = {});

 private:
  std::string& out_;
  const std::size_t begin_;
  bool first_ = true;
};

struct TaggedDocument {
  std::vector<Verdict::Value> values;  // rules as "stage/rule"
  std::int64_t bytes = 0;
};

// Reads lines. DataError: not one of them.
class TagReader {
 public:
  TagReader();
  ~TagReader();
  // `readable` bytes from the beginning of the line may be read. Lives until the next call.
  const TaggedDocument& read(std::string_view line, std::size_t readable);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
  TaggedDocument document_;
};

}  // namespace stoa::curate

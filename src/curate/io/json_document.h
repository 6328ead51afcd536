// Documents as lines of JSON: read with any key, written with the keys that all stages share.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "curate/document.h"

namespace stoa::curate {

class JsonDocuments {
 public:
  JsonDocuments(std::string text_key, std::string id_key);
  ~JsonDocuments();
  // One JSON object, without its line end; `readable` bytes from its beginning may be read. DataError says
  // what is wrong. The id is empty where the object has none. The members of other keys become the metadata,
  // except "reason" and
  // "duplicate_cluster", which a run writes.
  void read(std::string_view line, std::size_t readable, Document& document);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
  const std::string text_key_, id_key_;
};

// Gives a member to a document's metadata; one of the same name goes. `value` is JSON.
void set_member(std::string_view key, std::string_view value, std::string& metadata);
bool has_member(std::string_view key, std::string_view metadata);
// The value of a member of a document's metadata that is a string without escapes; empty: there is none.
std::string string_member(std::string_view key, std::string_view metadata);
// The value of one that is a number; NaN: there is none.
double number_member(std::string_view key, std::string_view metadata);
// Appends a line of JSON: id, text, reason if there is one, metadata.
void append_json_line(const Document& document, std::string_view reason, std::string& out);

}  // namespace stoa::curate

// Cuts HTML into tags and text, as browsers do: nothing is an error, and no byte is read twice.
#pragma once

#include <cstdint>
#include <string_view>

#include "curate/html/tags.h"

namespace stoa::curate {

struct HtmlToken {
  enum class Kind : std::uint8_t { kText, kStart, kEnd };
  Kind kind = Kind::kText;
  Tag tag = Tag::kUnknown;
  bool is_raw = false;          // text without references
  std::string_view name;        // of a tag, as it is written
  std::string_view attributes;  // of a start tag, as they are written; each_attribute() reads them
  std::string_view text;        // as it is written
};

class HtmlTokenizer {
 public:
  explicit HtmlTokenizer(std::string_view html) : html_(html) {}
  // False at the end. Comments, declarations and instructions are ignored.
  bool next(HtmlToken& token);

 private:
  bool next_content(HtmlToken& token);
  bool read_tag(HtmlToken& token);
  void skip_markup();  // of a kind that is no tag

  std::string_view html_;
  std::size_t at_ = 0;
  bool has_comment_end_ = true;     // as far as is known
  Tag content_of_ = Tag::kUnknown;  // the element whose content is text only
};

// Calls visit(name, value) for every attribute, as they are written (a value without its quotes). Ends where
// visit returns false.
template <class Visit>
void each_attribute(std::string_view attributes, Visit&& visit) {
  const auto is_space = [](char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '/';
  };
  for (std::size_t at = 0;;) {
    while (at < attributes.size() && is_space(attributes[at])) ++at;
    if (at == attributes.size()) return;
    const std::size_t begin = at++;  // a name may begin with =
    while (at < attributes.size() && !is_space(attributes[at]) && attributes[at] != '=') ++at;
    const std::string_view name = attributes.substr(begin, at - begin);
    std::size_t equals = at;
    while (equals < attributes.size() && is_space(attributes[equals]) && attributes[equals] != '/') ++equals;
    std::string_view value;
    if (equals < attributes.size() && attributes[equals] == '=') {
      at = equals + 1;
      while (at < attributes.size() && is_space(attributes[at]) && attributes[at] != '/') ++at;
      if (at < attributes.size() && (attributes[at] == '"' || attributes[at] == '\'')) {
        const std::size_t end = attributes.find(attributes[at], at + 1);
        value = attributes.substr(at + 1, end == attributes.npos ? end : end - at - 1);
        at = end == attributes.npos ? attributes.size() : end + 1;
      } else {
        const std::size_t from = at;
        while (at < attributes.size() && (!is_space(attributes[at]) || attributes[at] == '/')) ++at;
        value = attributes.substr(from, at - from);
      }
    }
    if (!visit(name, value)) return;
  }
}

// Whether two names are equal but for the case of ASCII letters; `lower` has no capitals.
bool is_named(std::string_view name, std::string_view lower);

}  // namespace stoa::curate

// Spans of words from their tags: B-X begins a span of type X, I-X continues it, as in CoNLL-2003; an I-X
// after a different type begins a span (Ramshaw and Marcus 1995, as conlleval counts).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace stoa::infer {

struct TagSpan {
  std::size_t begin = 0, end = 0;  // words [begin, end)
  std::string type;
  bool operator==(const TagSpan&) const = default;
};

// Whether every label is O, B-X or I-X, and some label names a span.
bool are_span_tags(const std::vector<std::string>& labels);
// `tags`: indices into `labels`, one per word.
std::vector<TagSpan> tag_spans(std::span<const std::int32_t> tags, const std::vector<std::string>& labels);

}  // namespace stoa::infer

#include "infer/tag_spans.h"

#include <algorithm>

namespace stoa::infer {
namespace {

bool names_span(const std::string& label) {
  return label.size() > 2 && (label.starts_with("B-") || label.starts_with("I-"));
}

}  // namespace

bool are_span_tags(const std::vector<std::string>& labels) {
  return std::any_of(labels.begin(), labels.end(), names_span) &&
         std::all_of(labels.begin(), labels.end(),
                     [](const std::string& l) { return l == "O" || names_span(l); });
}

std::vector<TagSpan> tag_spans(std::span<const std::int32_t> tags, const std::vector<std::string>& labels) {
  std::vector<TagSpan> out;
  bool open = false;
  for (std::size_t i = 0; i < tags.size(); ++i) {
    const std::string& label = labels[static_cast<std::size_t>(tags[i])];
    if (!names_span(label)) {
      open = false;
      continue;
    }
    const std::string type = label.substr(2);
    if (open && label.front() == 'I' && out.back().type == type) {
      out.back().end = i + 1;
      continue;
    }
    out.push_back({i, i + 1, type});
    open = true;
  }
  return out;
}

}  // namespace stoa::infer

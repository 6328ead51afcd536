#include "foreign/yaml_patch.h"

#include <fmt/format.h>

#include "base/error.h"
#include "config/node.h"
#include "config/yaml.h"

namespace stoa::foreign {
namespace {

using config::Node;

class YamlLines {
 public:
  explicit YamlLines(std::string text) : text_(std::move(text)) {}

  void apply(const YamlChange& change) {
    root_ = config::parse_yaml(text_, "the file");
    if (const Node* node = root_.find_path(change.path))
      change.value ? replace(change, *node) : remove(change, *node);
    else if (change.value)
      add(change);
  }
  std::string take() { return std::move(text_); }

 private:
  struct Place {
    std::size_t key = 0, begin = 0, end = 0;  // of the key; of its value
    bool flow = false;                        // within braces
  };

  std::size_t line_begin(int line) const {
    std::size_t at = 0;
    for (int i = 1; i < line; ++i) at = text_.find('\n', at) + 1;
    return at;
  }
  std::size_t line_end(std::size_t at) const { return std::min(text_.find('\n', at), text_.size()); }

  // The last part of a path, and its value on the line where the value begins.
  Place find(const std::string& path, const Node& node) const {
    const std::string key = config::split_path(path).back();
    const std::size_t begin = line_begin(node.origin.line), end = line_end(begin);
    for (std::size_t at = begin; (at = text_.find(key, at)) < end; at += key.size()) {
      std::size_t before = at, after = at + key.size();
      if (after < end && (text_[after] == '"' || text_[after] == '\'')) ++after, --before;
      while (after < end && text_[after] == ' ') ++after;
      if (after >= end || text_[after] != ':') continue;
      if (before > begin && text_[before - 1] != ' ' && text_[before - 1] != '{' && text_[before - 1] != ',')
        continue;
      ++after;
      while (after < end && text_[after] == ' ') ++after;
      Place place{before, after, after, false};
      for (std::size_t i = begin; i < before; ++i)
        place.flow = place.flow || text_[i] == '{' || text_[i] == ',';
      if (!place.flow) {  // a mapping in braces that began on a line above
        const auto parent = path.rfind('.');
        const Node* above = parent == std::string::npos ? nullptr : root_.find_path(path.substr(0, parent));
        place.flow = above && above->origin.line < node.origin.line &&
                     text_.substr(line_begin(above->origin.line),
                                  line_end(line_begin(above->origin.line)) - line_begin(above->origin.line))
                             .find('{') != std::string::npos;
      }
      place.end = value_end(after, end, place.flow);
      return place;
    }
    fail<ConfigError>("{}: its value is not on the line of the key: change it by hand", path);
  }

  // One past a value on one line: to a comment, or within braces to the comma or brace behind it.
  std::size_t value_end(std::size_t at, std::size_t end, bool flow) const {
    int depth = 0;
    char quote = 0;
    std::size_t last = at;
    for (; at < end; ++at) {
      const char c = text_[at];
      if (quote) {
        if (c == quote) quote = 0;
      } else if (c == '"' || c == '\'') {
        quote = c;
      } else if (c == '[' || c == '{') {
        ++depth;
      } else if (c == ']' || c == '}') {
        if (depth == 0) break;
        --depth;
      } else if ((c == ',' && flow && depth == 0) || (c == '#' && at > 0 && text_[at - 1] == ' ')) {
        break;
      }
      if (c != ' ') last = at + 1;
    }
    if (depth != 0 || quote) fail<ConfigError>("a value is spread over several lines: change it by hand");
    return last;
  }

  void comment(std::size_t at, const std::string& words) {
    text_.insert(line_end(at), fmt::format("  # plan: {}", words));
  }

  void replace(const YamlChange& change, const Node& node) {
    require<ConfigError>(node.is_scalar() || node.is_null() || node.is_sequence(),
                         "{}: is a mapping: change it by hand", change.path);
    const Place place = find(change.path, node);
    const std::string key = config::split_path(change.path).back();
    comment(place.end, place.flow ? fmt::format("{} {}", key, change.mark) : change.mark);
    text_.replace(place.begin, place.end - place.begin, *change.value);
  }

  void remove(const YamlChange& change, const Node& node) {
    const Place place = find(change.path, node);
    if (!place.flow) {
      text_.insert(place.key, "# plan: left out: ");
      return;
    }
    const std::string gone = text_.substr(place.key, place.end - place.key);
    comment(place.end, "left out: " + gone);
    std::size_t end = place.end;
    while (end < text_.size() && (text_[end] == ' ' || text_[end] == ',')) ++end;
    text_.erase(place.key, end - place.key);
  }

  void add(const YamlChange& change) {
    // The deepest mapping on the way that is there; what is missing below it comes in braces.
    std::vector<std::string> parts = config::split_path(change.path);
    std::string parent, rest = *change.value;
    std::vector<std::string> missing{parts.back()};
    parts.pop_back();
    const Node* above = nullptr;
    while (!parts.empty()) {
      parent.clear();
      for (const std::string& part : parts) parent = config::join_path(parent, part);
      above = root_.find_path(parent);
      if (above && above->is_map()) break;
      above = nullptr;
      missing.push_back(parts.back());
      parts.pop_back();
    }
    for (std::size_t i = 0; i + 1 < missing.size(); ++i) rest = fmt::format("{{{}: {}}}", missing[i], rest);
    const std::string entry = fmt::format("{}: {}", missing.back(), rest);
    if (!above) {
      if (!text_.empty() && text_.back() != '\n') text_ += '\n';
      text_ += fmt::format("{}  # plan: {}\n", entry, change.mark);
      return;
    }
    const Node& first = above->entries.front().second;
    const std::string first_path = config::join_path(parent, above->entries.front().first);
    const std::size_t brace = text_.find('{', line_begin(above->origin.line));
    if (above->origin.line == first.origin.line && brace < line_end(line_begin(above->origin.line))) {
      const Place place = find(first_path, first);
      comment(place.end, fmt::format("{} {}", missing.back(), change.mark));
      text_.insert(place.key, entry + ", ");
      return;
    }
    // Before the first key of the mapping, indented as it is. A nested first key begins above its value.
    int line = first.origin.line;
    while (line > 1 && text_.substr(line_begin(line), line_end(line_begin(line)) - line_begin(line))
                               .find(above->entries.front().first) == std::string::npos)
      --line;
    const std::size_t at = line_begin(line);
    const std::size_t indent = text_.find_first_not_of(' ', at) - at;
    text_.insert(at, fmt::format("{}{}  # plan: {}\n", std::string(indent, ' '), entry, change.mark));
  }

  std::string text_;
  Node root_;
};

}  // namespace

std::string patch_yaml(std::string text, const std::vector<YamlChange>& changes) {
  YamlLines lines(std::move(text));
  for (const YamlChange& change : changes) lines.apply(change);
  return lines.take();
}

}  // namespace stoa::foreign

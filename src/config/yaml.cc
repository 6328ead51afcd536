#include "config/yaml.h"

#include <yaml-cpp/anchor.h>
#include <yaml-cpp/emitterstyle.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <map>
#include <sstream>
#include <vector>

#include "base/error.h"

namespace stoa::config {
namespace {

std::size_t count_nodes(const Node& node) {
  std::size_t count = 1;
  for (const auto& item : node.items) count += count_nodes(item);
  for (const auto& entry : node.entries) count += count_nodes(entry.second);
  return count;
}

int depth_of(const Node& node) {
  int deepest = 0;
  for (const auto& item : node.items) deepest = std::max(deepest, depth_of(item));
  for (const auto& entry : node.entries) deepest = std::max(deepest, depth_of(entry.second));
  return deepest + 1;
}

// Builds the tree from yaml-cpp's events: its own node type forgets quotes and accepts duplicate keys.
class Builder : public YAML::EventHandler {
 public:
  Builder(const std::string& source, int layer, std::vector<std::string>* repeated)
      : source_(std::make_shared<const std::string>(source)), layer_(layer), repeated_(repeated) {}

  Node take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { add(start(mark), anchor, mark); }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto it = anchors_.find(anchor);
    if (it == anchors_.end()) refuse(mark, "an alias inside the value that it names");
    spend(count_nodes(it->second), mark);
    if (static_cast<int>(stack_.size()) + depth_of(it->second) > kMaxYamlDepth) too_deep(mark);
    Node copy = it->second;
    copy.origin = origin(mark);
    add(std::move(copy), 0, mark);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    Node node = start(mark);
    node.quoted = check_tag(tag, mark);
    const bool null = !node.quoted && (value.empty() || value == "~" || value == "null" || value == "Null" ||
                                       value == "NULL");
    node.kind = null ? Node::Kind::kNull : Node::Kind::kScalar;
    if (!null) node.scalar = value;
    // yaml-cpp passes keys as scalars too: null as a key keeps its text.
    if (expects_key()) node.scalar = value;
    add(std::move(node), anchor, mark);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Kind::kSequence);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Kind::kMap);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Frame {
    Node node;
    YAML::anchor_t anchor = 0;
    YAML::Mark mark;
    std::string key;
    bool has_key = false;
  };

  [[noreturn]] void refuse(const YAML::Mark& mark, std::string_view what) const {
    fail<ConfigError>("{}:{}: {}", *source_, mark.line + 1, what);
  }
  [[noreturn]] void too_deep(const YAML::Mark& mark) const {
    refuse(mark, fmt::format("nested deeper than {} levels", kMaxYamlDepth));
  }

  Origin origin(const YAML::Mark& mark) const { return {source_, mark.line + 1, layer_}; }
  Node start(const YAML::Mark& mark) const {
    Node node;
    node.origin = origin(mark);
    return node;
  }
  void spend(std::size_t count, const YAML::Mark& mark) {
    nodes_ += count;
    if (nodes_ > kMaxYamlNodes) {
      refuse(mark, fmt::format("more than {} values once aliases are expanded", kMaxYamlNodes));
    }
  }
  // True for text by tag ("!" is how yaml-cpp marks quotes).
  bool check_tag(const std::string& tag, const YAML::Mark& mark) const {
    if (tag.empty() || tag == "?") return false;
    if (tag == "!" || tag == "tag:yaml.org,2002:str") return true;
    refuse(mark, fmt::format("tag '{}' is not supported; write the plain value", tag));
  }
  bool expects_key() const {
    return !stack_.empty() && stack_.back().node.is_map() && !stack_.back().has_key;
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Node::Kind kind) {
    check_tag(tag, mark);
    if (static_cast<int>(stack_.size()) >= kMaxYamlDepth) too_deep(mark);
    if (expects_key()) refuse(mark, "a key must be a word, not a mapping or a list");
    Frame frame;
    frame.node = start(mark);
    frame.node.kind = kind;
    frame.anchor = anchor;
    frame.mark = mark;
    stack_.push_back(std::move(frame));
  }

  void close() {
    Frame frame = std::move(stack_.back());
    stack_.pop_back();
    add(std::move(frame.node), frame.anchor, frame.mark);
  }

  void add(Node node, YAML::anchor_t anchor, const YAML::Mark& mark) {
    spend(1, mark);
    if (anchor) anchors_[anchor] = node;
    if (stack_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& top = stack_.back();
    if (top.node.is_sequence()) {
      top.node.items.push_back(std::move(node));
    } else if (!top.has_key) {
      set_key(top, node, mark);
    } else {
      top.node.entries.emplace_back(std::move(top.key), std::move(node));
      top.has_key = false;
    }
  }

  void set_key(Frame& top, const Node& node, const YAML::Mark& mark) {
    if (node.is_map() || node.is_sequence()) refuse(mark, "a key must be a word, not a mapping or a list");
    if (node.scalar.empty()) refuse(mark, "a key is missing before ':'");
    if (node.scalar == "<<") refuse(mark, "merge keys (<<) are not supported; use 'base: FILE' or an alias");
    if (const Node* first = top.node.find(node.scalar)) {
      if (!repeated_)
        refuse(mark,
               fmt::format("key '{}' is given twice (first on line {})", node.scalar, first->origin.line));
      repeated_->push_back(node.scalar);
      std::erase_if(top.node.entries, [&](const auto& entry) { return entry.first == node.scalar; });
    }
    top.key = node.scalar;
    top.has_key = true;
  }

  const std::shared_ptr<const std::string> source_;
  const int layer_;
  std::vector<std::string>* const repeated_;
  Node root_;
  std::vector<Frame> stack_;
  std::map<YAML::anchor_t, Node> anchors_;
  std::size_t nodes_ = 0;
};

// `line` counts from 0.
bool is_indented_by_tab(std::string_view text, int line) {
  for (; line > 0; --line) {
    const std::size_t end = text.find('\n');
    if (end == text.npos) return false;
    text.remove_prefix(end + 1);
  }
  const std::size_t word = text.find_first_not_of(" \t");
  return text.substr(0, word).find('\t') != text.npos;
}

}  // namespace

Node parse_yaml(std::string_view text, const std::string& source, int layer,
                std::vector<std::string>* repeated) {
  require<ConfigError>(text.size() <= kMaxYamlBytes, "{}: {} bytes of YAML; at most {} are read", source,
                       text.size(), kMaxYamlBytes);
  require<ConfigError>(text.find('\0') == std::string_view::npos, "{}: this is not text (it has a zero byte)",
                       source);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    Builder builder(source, layer, repeated);
    parser.HandleNextDocument(builder);
    Node root = builder.take();
    Builder rest(source, layer, repeated);
    if (parser.HandleNextDocument(rest)) {
      fail<ConfigError>(
          "{}: something follows where the value has ended (text that begins with a brace or a bracket needs "
          "quotes), or a second YAML document begins; one per file is read",
          source);
    }
    return root;
  } catch (const YAML::Exception& error) {
    const bool tab = is_indented_by_tab(text, error.mark.line);
    fail<ConfigError>("{}:{}: not valid YAML: {}", source, error.mark.line + 1,
                      tab ? "the line is indented by a tab; expected blanks" : error.msg);
  }
}

Node read_yaml(const fs::path& path, int layer) { return parse_yaml(read_text(path), path.string(), layer); }

}  // namespace stoa::config

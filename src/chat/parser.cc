#include <algorithm>
#include <charconv>

#include "chat/lexer.h"
#include "chat/syntax.h"

namespace stoa::chat {
namespace {

class Parser {
 public:
  Parser(std::string_view source, const WhiteSpace& space) : tokens_(tokenize(source, space)) {}

  NodePtr run() {
    NodePtr body = statements({});
    if (now().kind != TokenKind::kEnd) wrong("unexpected end of a block");
    return body;
  }

 private:
  class Deeper {  // recursion of the parser itself
   public:
    explicit Deeper(Parser& parser) : depth_(parser.depth_) {
      require<TemplateError>(++depth_ <= kDeepestTree, "line {} of the template: nested more than {} deep",
                             parser.now().line, kDeepestTree);
    }
    ~Deeper() { --depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    int& depth_;
  };

  // --- tokens
  const Token& now() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token take() { return at_ + 1 < tokens_.size() ? std::move(tokens_[at_++]) : tokens_[at_]; }
  bool is_operator(std::string_view text) const {
    return now().kind == TokenKind::kOperator && now().text == text;
  }
  bool is_name(std::string_view text) const { return now().kind == TokenKind::kName && now().text == text; }
  bool accept(std::string_view op) {
    if (!is_operator(op)) return false;
    take();
    return true;
  }
  bool accept_name(std::string_view name) {
    if (!is_name(name)) return false;
    take();
    return true;
  }
  void expect(std::string_view op) {
    if (!accept(op)) wrong(fmt::format("expected '{}'", op));
  }
  void expect_name(std::string_view name) {
    if (!accept_name(name)) wrong(fmt::format("expected '{}'", name));
  }
  std::string identifier() {
    if (now().kind != TokenKind::kName) wrong("expected a name");
    return take().text;
  }
  void block_end() {
    if (now().kind != TokenKind::kBlockEnd) wrong("expected the end of the block");
    take();
  }
  [[noreturn]] void wrong(std::string_view what) const {
    const Token& t = now();
    fail<TemplateError>("line {} of the template: {}{}", t.line, what,
                        t.text.empty() ? "" : fmt::format(", found '{}'", t.text.substr(0, 40)));
  }

  // --- nodes
  NodePtr make(NodeKind kind, std::string text = {}) const {
    auto node = std::make_unique<Node>();
    node->kind = kind;
    node->line = now().line;
    node->text = std::move(text);
    return node;
  }
  void add(Node& parent, NodePtr child) const {
    if (child) {
      parent.depth = std::max(parent.depth, child->depth + 1);
      require<TemplateError>(parent.depth <= kDeepestTree,
                             "line {} of the template: nested more than {} deep", parent.line, kDeepestTree);
    }
    parent.children.push_back(std::move(child));
  }
  template <class... Children>
  NodePtr make_with(NodeKind kind, std::string text, Children... children) const {
    NodePtr node = make(kind, std::move(text));
    (add(*node, std::move(children)), ...);
    return node;
  }

  // --- statements
  // Up to a block whose name is in `ends`; that name is the current token then.
  NodePtr statements(std::initializer_list<std::string_view> ends) {
    const Deeper deeper(*this);
    NodePtr body = make(NodeKind::kBody);
    for (;;) {
      if (now().kind == TokenKind::kText) {
        add(*body, make_with(NodeKind::kText, take().text));
      } else if (now().kind == TokenKind::kPrintBegin) {
        take();
        NodePtr print = make(NodeKind::kPrint);
        add(*print, tuple(true));
        if (now().kind != TokenKind::kPrintEnd) wrong("expected '}}'");
        take();
        add(*body, std::move(print));
      } else if (now().kind == TokenKind::kBlockBegin) {
        if (ahead().kind == TokenKind::kName &&
            std::find(ends.begin(), ends.end(), ahead().text) != ends.end()) {
          take();
          return body;
        }
        take();
        if (NodePtr node = statement()) add(*body, std::move(node));
      } else if (now().kind == TokenKind::kEnd) {
        if (ends.size() > 0) wrong(fmt::format("'{}' is missing", *(ends.end() - 1)));
        return body;
      } else {
        wrong("unexpected");
      }
    }
  }

  NodePtr statement() {
    const std::string word = identifier();
    if (word == "if") return if_statement();
    if (word == "for") return for_statement();
    if (word == "set") return set_statement();
    if (word == "macro") return macro_statement();
    if (word == "filter") return filter_block();
    if (word == "with") return with_statement();
    if (word == "generation") {
      block_end();
      NodePtr node = make(NodeKind::kGeneration);
      add(*node, closed_body("endgeneration"));
      return node;
    }
    if (word == "break" || word == "continue") {
      if (loops_ == 0) wrong(fmt::format("'{}' outside a loop", word));
      block_end();
      return make(word == "break" ? NodeKind::kBreak : NodeKind::kContinue);
    }
    fail<TemplateError>("line {} of the template: '{}' is not a statement that templates may use", now().line,
                        word.substr(0, 40));
  }

  NodePtr closed_body(std::string_view end) {
    NodePtr body = statements({end});
    take();
    block_end();
    return body;
  }

  NodePtr if_statement() {
    NodePtr node = make(NodeKind::kIf);
    add(*node, tuple(false));
    block_end();
    for (;;) {
      add(*node, statements({"elif", "else", "endif"}));
      const std::string word = take().text;
      if (word == "endif") break;
      if (word == "else") {
        block_end();
        add(*node, statements({"endif"}));
        take();
        break;
      }
      add(*node, tuple(false));
      block_end();
    }
    block_end();
    return node;
  }

  NodePtr for_statement() {
    NodePtr node = make(NodeKind::kFor);
    add(*node, target(false));
    expect_name("in");
    add(*node, tuple(false));
    add(*node, accept_name("if") ? expression() : nullptr);
    if (is_name("recursive")) wrong("recursive loops are not supported");
    block_end();
    ++loops_;
    add(*node, statements({"else", "endfor"}));
    --loops_;
    NodePtr otherwise;
    if (take().text == "else") {
      block_end();
      otherwise = statements({"endfor"});
      take();
    }
    add(*node, std::move(otherwise));
    block_end();
    return node;
  }

  // Names, ns.name, or a tuple of names.
  NodePtr target(bool with_namespace) {
    const auto one = [&]() -> NodePtr {
      NodePtr name = make(NodeKind::kName, identifier());
      if (with_namespace && accept(".")) {
        std::string attribute = identifier();
        return make_with(NodeKind::kAttribute, std::move(attribute), std::move(name));
      }
      return name;
    };
    const bool bracket = accept("(");
    NodePtr first = one();
    if (is_operator(",")) {
      NodePtr names = make(NodeKind::kTuple);
      add(*names, std::move(first));
      while (accept(",")) {
        if (now().kind != TokenKind::kName || is_name("in")) break;
        add(*names, one());
      }
      first = std::move(names);
    }
    if (bracket) expect(")");
    return first;
  }

  NodePtr set_statement() {
    NodePtr to = target(true);
    if (accept("=")) {
      NodePtr node = make(NodeKind::kSet);
      add(*node, std::move(to));
      add(*node, tuple(true));
      block_end();
      return node;
    }
    NodePtr node = make(NodeKind::kSetBlock);
    add(*node, std::move(to));
    NodePtr filters;
    while (accept("|")) filters = filter(std::move(filters));
    block_end();
    add(*node, closed_body("endset"));
    add(*node, std::move(filters));
    return node;
  }

  NodePtr macro_statement() {
    NodePtr node = make(NodeKind::kMacro, identifier());
    expect("(");
    while (!is_operator(")")) {
      node->names.push_back(identifier());
      if (accept("="))
        add(*node, expression());
      else if (!node->children.empty())
        wrong("a parameter without default after one that has one");
      if (!accept(",")) break;
    }
    expect(")");
    block_end();
    const int outer = std::exchange(loops_, 0);
    add(*node, closed_body("endmacro"));
    loops_ = outer;
    return node;
  }

  NodePtr filter_block() {
    NodePtr node = make(NodeKind::kFilterBlock);
    NodePtr filters = filter(nullptr);
    while (accept("|")) filters = filter(std::move(filters));
    block_end();
    add(*node, std::move(filters));
    add(*node, closed_body("endfilter"));
    return node;
  }

  NodePtr with_statement() {
    NodePtr node = make(NodeKind::kWith);
    while (now().kind != TokenKind::kBlockEnd) {
      add(*node, target(false));
      expect("=");
      add(*node, expression());
      if (!accept(",")) break;
    }
    block_end();
    add(*node, closed_body("endwith"));
    return node;
  }

  // --- expressions, from loose to tight
  NodePtr tuple(bool conditional) {
    NodePtr first = conditional ? expression() : or_expression();
    if (!is_operator(",")) return first;
    NodePtr node = make(NodeKind::kTuple);
    add(*node, std::move(first));
    while (accept(",")) {
      if (now().kind == TokenKind::kBlockEnd || now().kind == TokenKind::kPrintEnd || is_operator(")")) break;
      add(*node, expression());
    }
    return node;
  }

  NodePtr expression() {
    const Deeper deeper(*this);
    NodePtr value = or_expression();
    while (accept_name("if")) {
      NodePtr condition = or_expression();
      NodePtr otherwise = accept_name("else") ? expression() : nullptr;
      value =
          make_with(NodeKind::kConditional, "", std::move(condition), std::move(value), std::move(otherwise));
    }
    return value;
  }
  NodePtr or_expression() {
    NodePtr left = and_expression();
    while (accept_name("or")) {
      NodePtr right = and_expression();
      left = make_with(NodeKind::kOr, "", std::move(left), std::move(right));
    }
    return left;
  }
  NodePtr and_expression() {
    NodePtr left = not_expression();
    while (accept_name("and")) {
      NodePtr right = not_expression();
      left = make_with(NodeKind::kAnd, "", std::move(left), std::move(right));
    }
    return left;
  }
  NodePtr not_expression() {
    const Deeper deeper(*this);
    if (!accept_name("not")) return comparison();
    NodePtr operand = not_expression();
    return make_with(NodeKind::kNot, "", std::move(operand));
  }
  NodePtr comparison() {
    NodePtr first = sum();
    NodePtr node;
    for (;;) {
      std::string op;
      for (const auto* symbol : {"==", "!=", "<=", ">=", "<", ">"})
        if (op.empty() && accept(symbol)) op = symbol;
      if (op.empty() && accept_name("in")) op = "in";
      if (op.empty() && is_name("not") && ahead().kind == TokenKind::kName && ahead().text == "in") {
        take();
        take();
        op = "not in";
      }
      if (op.empty()) return node ? std::move(node) : std::move(first);
      if (!node) {
        node = make(NodeKind::kCompare);
        add(*node, std::move(first));
      }
      node->names.push_back(op);
      add(*node, sum());
    }
  }
  template <class Next>
  NodePtr chain(std::initializer_list<std::string_view> operators, Next&& next) {
    NodePtr left = next();
    for (;;) {
      const auto* op =
          std::find_if(operators.begin(), operators.end(), [&](auto o) { return is_operator(o); });
      if (op == operators.end()) return left;
      take();
      NodePtr right = next();
      left = make_with(NodeKind::kBinary, std::string(*op), std::move(left), std::move(right));
    }
  }
  NodePtr sum() {
    return chain({"+", "-"}, [&] { return chain({"~"}, [&] { return product(); }); });
  }
  NodePtr product() {
    return chain({"*", "/", "//", "%"}, [&] { return chain({"**"}, [&] { return unary(true); }); });
  }
  NodePtr unary(bool with_filter) {
    const Deeper deeper(*this);
    NodePtr node;
    if (is_operator("-") || is_operator("+")) {
      const bool negative = take().text == "-";
      NodePtr operand = unary(false);
      node = make_with(negative ? NodeKind::kNegative : NodeKind::kPositive, "", std::move(operand));
    } else {
      node = primary();
    }
    node = postfix(std::move(node));
    return with_filter ? filters_and_tests(std::move(node)) : std::move(node);
  }

  NodePtr primary() {
    if (now().kind == TokenKind::kName) {
      const std::string word = take().text;
      if (word == "true" || word == "True") return literal(true);
      if (word == "false" || word == "False") return literal(false);
      if (word == "none" || word == "None") return literal(nullptr);
      return make(NodeKind::kName, word);
    }
    if (now().kind == TokenKind::kString) {
      std::string text;
      while (now().kind == TokenKind::kString) text += take().text;
      return literal(std::move(text));
    }
    if (now().kind == TokenKind::kInteger) {
      std::int64_t value = 0;
      const std::string& text = now().text;
      const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
      if (result.ec != std::errc{}) wrong("an integer beyond 64 bits");
      take();
      return literal(value);
    }
    if (now().kind == TokenKind::kFloat) {
      double value = 0;
      const std::string& text = now().text;
      std::from_chars(text.data(), text.data() + text.size(), value);
      take();
      return literal(value);
    }
    if (accept("(")) {
      NodePtr node = is_operator(")") ? make(NodeKind::kTuple) : tuple(true);
      expect(")");
      return node;
    }
    if (accept("[")) {
      NodePtr node = make(NodeKind::kList);
      while (!is_operator("]")) {
        add(*node, expression());
        if (!accept(",")) break;
      }
      expect("]");
      return node;
    }
    if (accept("{")) {
      NodePtr node = make(NodeKind::kDict);
      while (!is_operator("}")) {
        add(*node, expression());
        expect(":");
        add(*node, expression());
        if (!accept(",")) break;
      }
      expect("}");
      return node;
    }
    wrong("expected a value");
  }
  NodePtr literal(Value value) const {
    NodePtr node = make(NodeKind::kLiteral);
    node->value = std::move(value);
    return node;
  }

  NodePtr postfix(NodePtr node) {
    for (;;) {
      if (accept(".")) {
        if (now().kind == TokenKind::kInteger) {
          NodePtr index = primary();
          node = make_with(NodeKind::kItem, "", std::move(node), std::move(index));
        } else {
          std::string name = identifier();
          node = make_with(NodeKind::kAttribute, std::move(name), std::move(node));
        }
      } else if (accept("[")) {
        node = subscript(std::move(node));
        expect("]");
      } else if (is_operator("(")) {
        node = call(std::move(node));
      } else {
        return node;
      }
    }
  }

  NodePtr subscript(NodePtr object) {
    NodePtr parts[3];
    bool slice = false;
    for (std::size_t i = 0; i < 3; ++i) {
      if (!is_operator(":") && !is_operator("]")) parts[i] = expression();
      if (!accept(":")) break;
      slice = true;
    }
    if (!slice) {
      if (!parts[0]) wrong("an empty subscript");
      return make_with(NodeKind::kItem, "", std::move(object), std::move(parts[0]));
    }
    return make_with(NodeKind::kSlice, "", std::move(object), std::move(parts[0]), std::move(parts[1]),
                     std::move(parts[2]));
  }

  void arguments(Node& node) {
    expect("(");
    while (!is_operator(")")) {
      if (now().kind == TokenKind::kName && ahead().kind == TokenKind::kOperator && ahead().text == "=") {
        node.names.push_back(identifier());
        take();
      } else if (!node.names.empty()) {
        wrong("an argument without name after one that has one");
      }
      add(node, expression());
      if (!accept(",")) break;
    }
    expect(")");
  }
  NodePtr call(NodePtr callee) {
    NodePtr node = make_with(NodeKind::kCall, "", std::move(callee));
    arguments(*node);
    return node;
  }

  NodePtr filters_and_tests(NodePtr node) {
    for (;;) {
      if (accept("|"))
        node = filter(std::move(node));
      else if (accept_name("is"))
        node = test(std::move(node));
      else if (is_operator("("))
        node = call(std::move(node));
      else
        return node;
    }
  }
  NodePtr filter(NodePtr subject) {
    NodePtr node = make(NodeKind::kFilter, identifier());
    add(*node, std::move(subject));
    if (is_operator("(")) arguments(*node);
    return node;
  }
  NodePtr test(NodePtr subject) {
    const bool negated = accept_name("not");
    NodePtr node = make(NodeKind::kTest, identifier());
    node->negated = negated;
    add(*node, std::move(subject));
    if (is_operator("(")) {
      arguments(*node);
    } else if (now().kind == TokenKind::kString || now().kind == TokenKind::kInteger ||
               now().kind == TokenKind::kFloat || is_operator("[") || is_operator("{") ||
               (now().kind == TokenKind::kName && !is_name("else") && !is_name("or") && !is_name("and") &&
                !is_name("is") && !is_name("if") && !is_name("not") && !is_name("in"))) {
      add(*node, postfix(primary()));
    }
    return node;
  }

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0, loops_ = 0;
};

}  // namespace

NodePtr parse_template(std::string_view source, const WhiteSpace& space) {
  require<TemplateError>(source.size() <= kLongestTemplate, "a template of {} bytes; at most {} are read",
                         source.size(), kLongestTemplate);
  return Parser(source, space).run();
}

}  // namespace stoa::chat

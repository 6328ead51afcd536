#include "chat/interpreter.h"

#include <algorithm>
#include <array>

namespace stoa::chat {
namespace {

constexpr std::array<std::string_view, 5> kFunctions{"raise_exception", "strftime_now", "namespace", "range",
                                                     "dict"};

enum class Flow { kNext, kBreak, kContinue };

class Interpreter {
 public:
  Interpreter(Entries variables, const std::tm& now, const RenderLimits& limits,
              std::vector<TextSpan>* generated, const OtherFilter& other)
      : limits_(limits),
        now_(now),
        budget_(limits.steps),
        globals_(std::move(variables)),
        generated_(generated),
        other_(other) {
    scopes_.emplace_back();
  }

  std::string run(const Node& tree) {
    execute(tree);
    return std::move(out_);
  }

 private:
  struct Scope {
    Entries variables;
    bool macro = false;  // scopes between it and the template's own scope are not visible
  };
  class Inner {  // a scope that ends with its block
   public:
    explicit Inner(Interpreter& i, bool macro = false) : interpreter_(i) {
      i.scopes_.emplace_back().macro = macro;
    }
    ~Inner() { interpreter_.scopes_.pop_back(); }
    Inner(const Inner&) = delete;
    Inner& operator=(const Inner&) = delete;

   private:
    Interpreter& interpreter_;
  };
  class Deeper {
   public:
    explicit Deeper(Interpreter& i) : depth_(i.depth_) {
      require<TemplateError>(++depth_ <= i.limits_.depth, "the template calls itself too often");
    }
    ~Deeper() { --depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    int& depth_;
  };

  // --- names
  Value lookup(const std::string& name) {
    for (std::size_t i = scopes_.size(); i-- > 0;) {
      if (const Value* found = find(scopes_[i].variables, name)) return *found;
      if (scopes_[i].macro && i > 0) i = 1;
    }
    if (const Value* found = find(globals_, name)) return *found;
    if (std::find(kFunctions.begin(), kFunctions.end(), name) != kFunctions.end())
      return Value::Function{name};
    return Value::undefined(name);
  }
  const Value* find(const Entries& entries, std::string_view name) {
    budget_.pay(1 + entries.size() / 8);
    for (const auto& [key, value] : entries)
      if (key == name) return &value;
    return nullptr;
  }
  static void put(Entries& entries, const std::string& name, Value value) {
    for (auto& [key, old] : entries)
      if (key == name) {
        old = std::move(value);
        return;
      }
    entries.emplace_back(name, std::move(value));
  }

  void assign(const Node& target, const Value& value) {
    if (target.kind == NodeKind::kName) return put(scopes_.back().variables, target.text, value);
    if (target.kind == NodeKind::kAttribute) {
      const Value space = lookup(target.children[0]->text);
      require<TemplateError>(space.as_namespace() != nullptr, "line {} of the template: '{}' is no namespace",
                             target.line, target.children[0]->text);
      require<TemplateError>(!value.as_namespace(), "line {} of the template: a namespace in a namespace",
                             target.line);
      budget_.pay(1 + space.as_namespace()->attributes.size());
      return put(space.as_namespace()->attributes, target.text, value);
    }
    const List parts = elements(value, budget_);
    require<TemplateError>(parts.size() == target.children.size(),
                           "line {} of the template: {} values for {} names", target.line, parts.size(),
                           target.children.size());
    for (std::size_t i = 0; i < parts.size(); ++i) assign(*target.children[i], parts[i]);
  }

  // --- statements
  Flow execute(const Node& node) {
    const Deeper deeper(*this);
    budget_.pay();
    switch (node.kind) {
      case NodeKind::kText:
        write(node.text);
        return Flow::kNext;
      case NodeKind::kPrint:
        write(to_string(used(evaluate(*node.children[0])), budget_));
        return Flow::kNext;
      case NodeKind::kBody:
        for (const auto& child : node.children)
          if (const Flow flow = execute(*child); flow != Flow::kNext) return flow;
        return Flow::kNext;
      case NodeKind::kIf: {
        const auto& c = node.children;
        for (std::size_t i = 0; i + 1 < c.size(); i += 2)
          if (truth(*c[i])) return execute(*c[i + 1]);
        return c.size() % 2 == 1 ? execute(*c.back()) : Flow::kNext;
      }
      case NodeKind::kFor:
        loop(node);
        return Flow::kNext;
      case NodeKind::kSet:
        assign(*node.children[0], evaluate(*node.children[1]));
        return Flow::kNext;
      case NodeKind::kSetBlock: {
        Value text = capture(*node.children[1]);
        if (node.children[2]) text = filter(*node.children[2], &text);
        assign(*node.children[0], text);
        return Flow::kNext;
      }
      case NodeKind::kFilterBlock: {
        const Value text = capture(*node.children[1]);
        write(to_string(filter(*node.children[0], &text), budget_));
        return Flow::kNext;
      }
      case NodeKind::kMacro:
        put(scopes_.back().variables, node.text, Value::Macro{&node});
        return Flow::kNext;
      case NodeKind::kWith: {
        List values;
        for (std::size_t i = 0; i + 1 < node.children.size(); i += 2)
          values.push_back(evaluate(*node.children[i + 1]));
        const Inner scope(*this);
        for (std::size_t i = 0; i < values.size(); ++i) assign(*node.children[2 * i], values[i]);
        return execute(*node.children.back());
      }
      case NodeKind::kGeneration:
        return generation(node);
      case NodeKind::kBreak:
        return Flow::kBreak;
      case NodeKind::kContinue:
        return Flow::kContinue;
      default:
        fail<InternalError>("an expression where a statement belongs");
    }
  }

  void write(std::string_view text) {
    budget_.pay_bytes(text.size());
    require<TemplateError>(out_.size() + text.size() <= limits_.output_bytes,
                           "the template writes more than {} bytes", limits_.output_bytes);
    out_ += text;
  }

  // What a body writes, as a value.
  Value capture(const Node& body) {
    std::string outer = std::exchange(out_, {});
    ++captures_;
    {
      const Inner scope(*this);
      execute(body);
    }
    --captures_;
    return std::exchange(out_, std::move(outer));
  }

  Flow generation(const Node& node) {
    if (!generated_) return execute(*node.children[0]);
    require<TemplateError>(captures_ == 0,
                           "line {} of the template: 'generation' within a macro, set or filter block, "
                           "where its place in the text is not known",
                           node.line);
    const std::size_t begin = out_.size();
    const Flow flow = execute(*node.children[0]);
    generated_->push_back({begin, out_.size()});
    return flow;
  }

  void loop(const Node& node) {
    const Node& target = *node.children[0];
    List items = elements(used(evaluate(*node.children[1])), budget_);
    if (const Node* condition = node.children[2].get()) {
      List kept;
      for (Value& item : items) {
        const Inner scope(*this);
        assign(target, item);
        if (truth(*condition)) kept.push_back(std::move(item));
      }
      items = std::move(kept);
    }
    if (items.empty()) {
      if (node.children[4]) {
        const Inner scope(*this);
        execute(*node.children[4]);
      }
      return;
    }
    for (std::size_t i = 0; i < items.size(); ++i) {
      const Inner scope(*this);
      assign(target, items[i]);
      put(scopes_.back().variables, "loop", loop_value(items, i));
      if (execute(*node.children[3]) == Flow::kBreak) break;
    }
  }

  Value loop_value(const List& items, std::size_t i) const {
    const std::size_t n = items.size();
    // A namespace may be looped over nowhere: lists hold none.
    Entries e{{"index", i + 1},  {"index0", i},        {"revindex", n - i}, {"revindex0", n - i - 1},
              {"first", i == 0}, {"last", i + 1 == n}, {"length", n},       {"depth", 1},
              {"depth0", 0}};
    if (i > 0) e.emplace_back("previtem", items[i - 1]);
    if (i + 1 < n) e.emplace_back("nextitem", items[i + 1]);
    return Value::dict(std::move(e));
  }

  // --- expressions
  Value evaluate(const Node& node) {
    const Deeper deeper(*this);
    budget_.pay();
    const auto& c = node.children;
    switch (node.kind) {
      case NodeKind::kLiteral:
        return node.value;
      case NodeKind::kName:
        return lookup(node.text);
      case NodeKind::kList:
      case NodeKind::kTuple:
        return Value::list(values_of(node, 0), node.kind == NodeKind::kTuple);
      case NodeKind::kDict: {
        Entries entries;
        for (std::size_t i = 0; i < c.size(); i += 2) {
          const Value key = evaluate(*c[i]);
          budget_.pay(1 + entries.size());
          put(entries, key.is_string() ? key.as_string() : to_string(key, budget_), evaluate(*c[i + 1]));
        }
        return Value::dict(std::move(entries));
      }
      case NodeKind::kAttribute:
        return attribute_of(evaluate(*c[0]), node.text, budget_);
      case NodeKind::kItem: {
        const Value object = evaluate(*c[0]);
        return item_of(object, evaluate(*c[1]), budget_);
      }
      case NodeKind::kSlice: {
        const Value object = evaluate(*c[0]);
        std::array<Value, 3> ends;
        std::array<const Value*, 3> given{};
        for (std::size_t i = 0; i < 3; ++i)
          if (c[i + 1]) ends[i] = evaluate(*c[i + 1]), given[i] = &ends[i];
        return chat::slice(object, given[0], given[1], given[2], budget_);
      }
      case NodeKind::kCall:
        return call(node);
      case NodeKind::kFilter:
        return filter(node, nullptr);
      case NodeKind::kTest: {
        const Value subject = evaluate(*c[0]);
        return apply_test(node.text, subject, arguments_of(node), budget_) != node.negated;
      }
      case NodeKind::kNot:
        return !truth(*c[0]);
      case NodeKind::kNegative:
        return binary("*", number(evaluate(*c[0])), -1, budget_);
      case NodeKind::kPositive:
        return number(evaluate(*c[0]));
      case NodeKind::kAnd: {
        Value left = used(evaluate(*c[0]));
        return left.truthy() ? evaluate(*c[1]) : left;
      }
      case NodeKind::kOr: {
        Value left = used(evaluate(*c[0]));
        return left.truthy() ? left : evaluate(*c[1]);
      }
      case NodeKind::kBinary: {
        const Value left = used(evaluate(*c[0]));
        return binary(node.text, left, used(evaluate(*c[1])), budget_);
      }
      case NodeKind::kCompare:
        return comparison(node);
      case NodeKind::kConditional:
        if (truth(*c[0])) return evaluate(*c[1]);
        return c[2] ? evaluate(*c[2]) : Value::missing_else();
      default:
        fail<InternalError>("a statement where an expression belongs");
    }
  }

  // A value that is more than tested for being there.
  const Value& used(const Value& value) const {
    require<TemplateError>(!limits_.strict_undefined || !value.is_unusable(), "a value is not defined{}",
                           value.undefined_name().empty() ? "" : ": '" + value.undefined_name() + "'");
    return value;
  }
  bool truth(const Node& node) { return used(evaluate(node)).truthy(); }

  static Value number(Value value) {
    require<TemplateError>(value.is_number(), "the template takes the negative of a '{}'", value.type_name());
    return value;
  }

  bool comparison(const Node& node) {
    Value left = used(evaluate(*node.children[0]));
    for (std::size_t i = 0; i < node.names.size(); ++i) {
      Value right = used(evaluate(*node.children[i + 1]));
      const std::string& op = node.names[i];
      bool holds = false;
      if (op == "in" || op == "not in")
        holds = contains(right, left, budget_) == (op == "in");
      else if (op == "==" || op == "!=")
        holds = equal(left, right, budget_) == (op == "==");
      else
        holds = apply_test(op, left, {{right}, {}}, budget_);
      if (!holds) return false;
      left = std::move(right);
    }
    return true;
  }

  List values_of(const Node& node, std::size_t first) {
    List out;
    for (std::size_t i = first; i < node.children.size(); ++i) out.push_back(evaluate(*node.children[i]));
    return out;
  }
  // Behind the callee or subject; the last ones have names.
  Arguments arguments_of(const Node& node) {
    Arguments out{values_of(node, 1), {}};
    const std::size_t plain = out.values.size() - node.names.size();
    for (std::size_t i = 0; i < node.names.size(); ++i)
      out.named.emplace_back(node.names[i], std::move(out.values[plain + i]));
    out.values.resize(plain);
    return out;
  }

  // `subject`: of a filter block; none: the first child.
  Value filter(const Node& node, const Value* subject) {
    const Value value = !node.children[0]                             ? *subject
                        : node.children[0]->kind == NodeKind::kFilter ? filter(*node.children[0], subject)
                                                                      : evaluate(*node.children[0]);
    const Arguments arguments = arguments_of(node);
    if (node.text != "default" && node.text != "d") used(value);
    if (other_)
      if (auto made = other_(node.text, value, arguments)) return *std::move(made);
    return apply_filter(node.text, value, arguments, budget_);
  }

  Value call(const Node& node) {
    const Value callee = evaluate(*node.children[0]);
    Arguments arguments = arguments_of(node);
    if (const auto* method = callee.as_method()) return call_method(*method, arguments, budget_);
    if (const auto* macro = callee.as_macro()) return call_macro(*macro->node, arguments);
    require<TemplateError>(!callee.is_undefined(), "line {} of the template: '{}' is not defined", node.line,
                           node.children[0]->text.substr(0, 80));
    const auto* function = callee.as_function();
    require<TemplateError>(function != nullptr,
                           "line {} of the template: a value of type '{}' cannot be called", node.line,
                           callee.type_name());
    return call_function(function->name, arguments);
  }

  Value call_macro(const Node& macro, const Arguments& arguments) {
    const Deeper deeper(*this);
    const std::size_t parameters = macro.names.size(), defaults = macro.children.size() - 1;
    require<TemplateError>(arguments.values.size() <= parameters,
                           "macro '{}' takes at most {} arguments, got {}", macro.text, parameters,
                           arguments.values.size());
    for (const auto& [name, value] : arguments.named)
      require<TemplateError>(std::find(macro.names.begin(), macro.names.end(), name) != macro.names.end(),
                             "macro '{}' has no argument '{}'", macro.text, name);
    std::string outer = std::exchange(out_, {});
    ++captures_;
    {
      const Inner scope(*this, true);
      for (std::size_t i = 0; i < parameters; ++i) {
        const Value* given = arguments.find(i, macro.names[i]);
        const std::size_t without = parameters - defaults;
        Value value = given          ? *given
                      : i >= without ? evaluate(*macro.children[i - without])
                                     : Value::undefined(macro.names[i]);
        put(scopes_.back().variables, macro.names[i], std::move(value));
      }
      execute(*macro.children.back());
    }
    --captures_;
    return std::exchange(out_, std::move(outer));
  }

  Value call_function(const std::string& name, const Arguments& a) {
    if (name == "raise_exception") {
      a.allow(1, {"message"}, name);
      fail<TemplateError>("the chat template refuses: {}", to_string(a.need(0, "message", name), budget_));
    }
    if (name == "strftime_now") {
      a.allow(1, {"format"}, name);
      const std::string& format = text_of(a.need(0, "format", name), name);
      require<TemplateError>(format.size() <= 256, "strftime_now() with a format of {} bytes", format.size());
      std::array<char, 4096> buffer{};
      const std::size_t length = std::strftime(buffer.data(), buffer.size(), format.c_str(), &now_);
      return std::string(buffer.data(), length);
    }
    if (name == "namespace" || name == "dict") {
      Entries entries;
      if (!a.values.empty()) {
        a.allow(1, {}, name);
        require<TemplateError>(a.values[0].is_dict(), "{}() takes a dictionary, not '{}'", name,
                               a.values[0].type_name());
        entries = a.values[0].as_dict();
      }
      for (const auto& [key, value] : a.named) put(entries, key, value);
      Value checked = Value::dict(entries);
      if (name == "dict") return checked;
      return std::make_shared<Namespace>(Namespace{std::move(entries)});
    }
    a.allow(3, {}, name);
    std::array<std::int64_t, 3> limits{0, 0, 1};
    require<TemplateError>(!a.values.empty(), "range() needs an argument");
    for (std::size_t i = 0; i < a.values.size(); ++i) {
      require<TemplateError>(a.values[i].is_int() || a.values[i].is_bool(),
                             "range() needs integers, got '{}'", a.values[i].type_name());
      limits[a.values.size() == 1 ? 1 : i] = a.values[i].as_int();
    }
    const auto [begin, end, step] = limits;
    require<TemplateError>(step != 0, "range() with step 0");
    List items;
    for (std::int64_t i = begin; step > 0 ? i < end : i > end;) {
      require<TemplateError>(items.size() < 100'000, "range() of more than 100000 numbers");
      items.emplace_back(i);
      if (__builtin_add_overflow(i, step, &i)) break;
    }
    budget_.pay(items.size());
    return Value::list(std::move(items));
  }

  const RenderLimits limits_;
  const std::tm now_;
  Budget budget_;
  const Entries globals_;
  std::vector<Scope> scopes_;
  std::string out_;
  std::vector<TextSpan>* const generated_;
  const OtherFilter& other_;
  int depth_ = 0, captures_ = 0;
};

}  // namespace

std::string interpret(const Node& tree, Entries variables, const std::tm& now, const RenderLimits& limits,
                      std::vector<TextSpan>* generated, const OtherFilter& other) {
  return Interpreter(std::move(variables), now, limits, generated, other).run(tree);
}

}  // namespace stoa::chat

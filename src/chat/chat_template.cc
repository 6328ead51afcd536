#include "chat/chat_template.h"

#include <algorithm>

namespace stoa::chat {
namespace {

bool has_generation(const Node& node) {
  return node.kind == NodeKind::kGeneration ||
         std::any_of(node.children.begin(), node.children.end(),
                     [](const NodePtr& child) { return child && has_generation(*child); });
}

}  // namespace

ChatTemplate::ChatTemplate(std::string_view jinja, std::string_view with_tools)
    : tree_(parse_template(jinja)) {
  if (with_tools == jinja) return;
  try {
    with_tools_ = parse_template(with_tools);
  } catch (const TemplateError& error) {
    tools_error_ = error.what();
  }
}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

bool ChatTemplate::marks_generation() const {
  return has_generation(*tree_) && (!with_tools_ || has_generation(*with_tools_));
}

std::string ChatTemplate::render(const nlohmann::ordered_json& messages, const RenderOptions& options) const {
  return render(messages, options, nullptr);
}

std::string ChatTemplate::render(const nlohmann::ordered_json& messages, const RenderOptions& options,
                                 std::vector<TextSpan>* generated) const {
  Entries variables;
  variables.emplace_back("messages", Value::from_json(messages));
  variables.emplace_back("add_generation_prompt", options.add_generation_prompt);
  for (const auto* absent : {"tools", "documents"})  // transformers passes None
    if (!options.variables.contains(absent)) variables.emplace_back(absent, nullptr);
  for (const auto& [key, value] : options.variables.items())
    variables.emplace_back(key, Value::from_json(value));
  std::tm now{};
  if (options.now) {
    now = *options.now;
  } else {
    const std::time_t seconds = std::time(nullptr);
    ::localtime_r(&seconds, &now);
  }
  const auto tools = options.variables.find("tools");
  const bool has_tools = tools != options.variables.end() && !tools->is_null();
  if (has_tools && !tools_error_.empty()) throw TemplateError("template for tools: " + tools_error_);
  return interpret(has_tools && with_tools_ ? *with_tools_ : *tree_, std::move(variables), now,
                   options.limits, generated);
}

}  // namespace stoa::chat

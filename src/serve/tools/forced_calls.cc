#include "serve/tools/forced_calls.h"

#include "serve/tools/call_texts.h"

namespace stoa::serve {
namespace {

using constraint::choice;
using constraint::Node;
using constraint::repeat;
using constraint::sequence;
using constraint::text;

// A mark of a family: one token where the vocabulary has it.
Node mark(const constraint::TokenNames& tokens, std::string_view name) {
  const Node token = tokens.by_text(name);
  return token ? token : text(name);
}

// Calls, a separator between each and the next.
Node several(Node call, bool one, std::string_view separator) {
  if (one) return call;
  return sequence({call, repeat(sequence({text(separator), call}), 0)});
}

}  // namespace

std::string ForcedCalls::key() const {
  return fmt::format("calls {} {} {} {}", static_cast<int>(family), one, named.size(), named) + tools.dump();
}

constraint::Grammar ForcedCalls::grammar(const constraint::TokenNames& tokens,
                                         constraint::Budget& budget) const {
  constraint::Grammar out;
  constraint::JsonRules json(out);
  const auto marked = [&](std::string_view name) { return mark(tokens, name); };
  std::vector<Node> calls;
  for (const Json& tool : tools) {
    const Json& function = tool["function"];
    const auto name = function["name"].get<std::string>();
    if (!named.empty() && name != named) continue;
    Node arguments;
    try {
      const auto schema = function.find("parameters");
      arguments = schema == function.end() || schema->is_null()
                      ? json.object()
                      : values_of_schema(*schema, {}, out, json, budget);
    } catch (const constraint::ConstraintError& error) {
      fail<constraint::ConstraintError>("the parameters of '{}': {}", name.substr(0, 100), error.what());
    }
    const auto object = [&](std::string_view key) {
      return sequence({text("{\"name\": "), constraint::json_string(name),
                       text(fmt::format(", \"{}\": ", key)), arguments, text("}")});
    };
    switch (family) {
      case ToolFamily::kHermes:
      case ToolFamily::kQwenXml:
      case ToolFamily::kGlm:
        calls.push_back(sequence(
            {marked(kHermesOpen), text("\n"), object("arguments"), text("\n"), marked(kHermesClose)}));
        break;
      case ToolFamily::kMistral:
        calls.push_back(object("arguments"));
        break;
      case ToolFamily::kMistralNames:
        calls.push_back(sequence({marked(kMistralOpen), text(name), marked(kMistralArguments), arguments}));
        break;
      case ToolFamily::kLlama:
      case ToolFamily::kPythonic:
        calls.push_back(object("parameters"));
        break;
      case ToolFamily::kDeepSeek:
        calls.push_back(
            sequence({marked(kDeepSeekCall), text("function"), marked(kDeepSeekName),
                      text(name + "\n```json\n"), arguments, text("\n```"), marked(kDeepSeekCallEnd)}));
        break;
      case ToolFamily::kDeepSeekBare:
        calls.push_back(sequence(
            {marked(kDeepSeekCall), text(name), marked(kDeepSeekName), arguments, marked(kDeepSeekCallEnd)}));
        break;
      case ToolFamily::kHarmony:
        calls.push_back(sequence({marked(kHarmonyChannel), text("commentary to=functions." + name + " "),
                                  marked(kHarmonyForm), text("json"), marked(kHarmonyMessage), arguments}));
    }
  }
  const Node call = constraint::rule(out.add("call", choice(std::move(calls))));
  Node answer = call;
  switch (family) {
    case ToolFamily::kHermes:
    case ToolFamily::kQwenXml:
    case ToolFamily::kGlm:
    case ToolFamily::kDeepSeek:
      answer = several(call, one, "\n");
      break;
    case ToolFamily::kMistral:
      answer = sequence({marked(kMistralOpen), text("["), several(call, one, ", "), text("]")});
      break;
    case ToolFamily::kPythonic:
      answer = sequence({text("["), several(call, one, ", "), text("]")});
      break;
    case ToolFamily::kMistralNames:
    case ToolFamily::kDeepSeekBare:
      answer = several(call, one, "");
      break;
    case ToolFamily::kLlama:    // this family calls one tool at a time
    case ToolFamily::kHarmony:  // a call ends the turn
      break;
  }
  if (family == ToolFamily::kDeepSeek || family == ToolFamily::kDeepSeekBare)
    answer = sequence({marked(kDeepSeekOpen), answer, marked(kDeepSeekClose)});
  out.root = out.add("root", answer);
  return out;
}

}  // namespace stoa::serve

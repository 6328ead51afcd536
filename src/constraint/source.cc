#include "constraint/source.h"

#include "constraint/regex.h"

namespace stoa::constraint {
namespace {

constexpr std::size_t kMostText = 4 << 20;  // bytes of a constraint
constexpr int kDeepestJson = 200;

}  // namespace

nlohmann::ordered_json parse_schema(std::string_view text) {
  using Json = nlohmann::ordered_json;
  int depth = 0;
  try {
    return Json::parse(text, [&](int, Json::parse_event_t event, const Json&) {
      if (event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start) {
        require<ConstraintError>(++depth <= kDeepestJson, "the schema nests deeper than {} levels",
                                 kDeepestJson);
      } else if (event == Json::parse_event_t::object_end || event == Json::parse_event_t::array_end) {
        --depth;
      }
      return true;
    });
  } catch (const Json::exception& error) {
    std::string why = error.what();
    if (const auto end = why.find("] "); end != std::string::npos) why.erase(0, end + 2);
    fail<ConstraintError>("the schema is not JSON: {}", why.substr(0, 300));
  }
}

std::string Source::key() const {
  std::string out = std::to_string(static_cast<int>(kind)) + (schema.open_objects ? "o" : "c") + text;
  for (const std::string& choice : choices) out += std::to_string(choice.size()) + ":" + choice;
  return out;
}

Grammar grammar_of(const Source& source, const TokenNames& tokens, Budget& budget) {
  std::size_t size = source.text.size();
  for (const std::string& choice : source.choices) size += choice.size();
  require<ConstraintError>(size <= kMostText, "a constraint of {} bytes: at most {} are taken", size,
                           kMostText);
  Grammar grammar;
  switch (source.kind) {
    case Source::Kind::kGrammar:
      return parse_gbnf(source.text, tokens, budget);
    case Source::Kind::kRegex:
      grammar.root = grammar.add(
          "root", expression_of(parse_regex(source.text, RegexMatch::kWhole, budget), characters));
      return grammar;
    case Source::Kind::kChoice: {
      require<ConstraintError>(!source.choices.empty(), "a choice of nothing");
      std::vector<Node> parts;
      for (const std::string& choice : source.choices) {
        require<ConstraintError>(characters_of(choice).has_value(), "a choice is not UTF-8");
        parts.push_back(text(choice));
      }
      grammar.root = grammar.add("root", choice(std::move(parts)));
      return grammar;
    }
    case Source::Kind::kSchema:
    case Source::Kind::kJsonObject: {
      JsonRules json(grammar);
      const Node values =
          source.kind == Source::Kind::kJsonObject
              ? json.object()
              : values_of_schema(parse_schema(source.text), source.schema, grammar, json, budget);
      grammar.root = grammar.add("root", values);
      return grammar;
    }
  }
  return grammar;
}

}  // namespace stoa::constraint

#include "serve/constraint_fields.h"

#include <array>

#include "base/nearest.h"

namespace stoa::serve {
namespace {

using constraint::Source;
using Kind = constraint::Source::Kind;

constexpr std::size_t kMostConstraintChoices = 10'000;

struct Wanted {
  std::string field;  // for messages
  Source source;
};

// A schema is an object, or true or false; vLLM takes its text, too.
Source schema_source(const Json& value, const std::string& field) {
  check(value.is_object() || value.is_boolean() || value.is_string(), field,
        "'{}' must be a JSON schema: an object", field);
  return {Kind::kSchema, value.is_string() ? value.get<std::string>() : value.dump()};
}

Source text_source(Kind kind, const Json& value, const std::string& field) {
  check(value.is_string(), field, "'{}' must be a text", field);
  return {kind, value.get<std::string>()};
}

Source choice_source(const Json& value, const std::string& field) {
  check(value.is_array() && !value.empty() && value.size() <= kMostConstraintChoices, field,
        "'{}' must be a list of 1 to {} texts", field, kMostConstraintChoices);
  Source out{Kind::kChoice};
  for (const Json& item : value) {
    check(item.is_string(), field, "'{}' must be a list of texts", field);
    out.choices.push_back(item.get<std::string>());
  }
  return out;
}

std::optional<Wanted> read_response_format(const Json& value) {
  const char* field = "response_format";
  const bool typed = value.is_object() && value.contains("type") && value["type"].is_string();
  check(typed, field,
        R"('response_format' must be an object with a type, such as {{"type": "json_object"}})");
  const auto type = value["type"].get<std::string>();
  if (type == "text") return std::nullopt;
  if (type == "json_object") {
    if (value.contains("schema")) return Wanted{field, schema_source(value["schema"], field)};
    return Wanted{field, {Kind::kJsonObject}};
  }
  static const std::vector<std::string> kTypes{"text", "json_object", "json_schema"};
  check(type == "json_schema", field,
        "'response_format': unknown type '{}'{}; text, json_object and "
        "json_schema are known",
        type.substr(0, 60), did_you_mean(type.substr(0, 60), kTypes));
  const Json& inner = value.contains("json_schema") ? value["json_schema"] : value;
  check(inner.is_object() && inner.contains("schema"), field,
        R"('response_format' needs {{"json_schema": {{"name": …, "schema": …}}}})");
  for (const auto& [key, unused] : inner.items()) {
    const bool known = key == "schema" || key == "name" || key == "strict" || key == "description" ||
                       (&inner == &value && key == "type");
    check(known, field, "'response_format.json_schema' has an unknown field '{}'", key.substr(0, 100));
  }
  return Wanted{field, schema_source(inner["schema"], "response_format.json_schema.schema")};
}

std::optional<Wanted> read_structured_outputs(const Json& value) {
  const std::string field = "structured_outputs";
  check(value.is_object(), field, "'structured_outputs' must be an object");
  std::optional<Wanted> out;
  static const std::vector<std::string> kForms{"json", "regex", "choice", "grammar", "json_object"};
  for (const auto& [key, inner] : value.items()) {
    const std::string place = field + "." + key.substr(0, 100);
    check(std::find(kForms.begin(), kForms.end(), key) != kForms.end(), field, "'{}' is not supported{}",
          place, did_you_mean(key.substr(0, 100), kForms));
    if (inner.is_null()) continue;
    if (key == "json_object" && inner == false) continue;
    check(!out.has_value(), field, "'structured_outputs' takes one form, got {} and {}",
          out ? out->field : "", place);
    if (key == "json") out = {place, schema_source(inner, place)};
    if (key == "regex") out = {place, text_source(Kind::kRegex, inner, place)};
    if (key == "grammar") out = {place, text_source(Kind::kGrammar, inner, place)};
    if (key == "choice") out = {place, choice_source(inner, place)};
    if (key == "json_object") {
      check(inner == true, field, "'{}' must be true or false", place);
      out = {place, {Kind::kJsonObject}};
    }
  }
  return out;
}

std::optional<Wanted> read_wanted(const RequestBody& body) {
  std::optional<Wanted> out;
  const auto add = [&](std::optional<Wanted> more) {
    if (!more) return;
    check(!out.has_value(), more->field, "'{}' and '{}' both say what the answer must be: give one of them",
          out ? out->field : "", more->field);
    out = std::move(more);
  };
  if (const Json* value = body.find("response_format")) add(read_response_format(*value));
  if (const Json* value = body.find("structured_outputs")) add(read_structured_outputs(*value));
  for (const char* field : {"guided_json", "json_schema"})
    if (const Json* value = body.find(field)) add(Wanted{field, schema_source(*value, field)});
  if (const Json* value = body.find("guided_regex"))
    add(Wanted{"guided_regex", text_source(Kind::kRegex, *value, "guided_regex")});
  if (const Json* value = body.find("guided_choice"))
    add(Wanted{"guided_choice", choice_source(*value, "guided_choice")});
  for (const char* field : {"guided_grammar", "grammar"})
    if (const Json* value = body.find(field); value != nullptr && *value != "")
      add(Wanted{field, text_source(Kind::kGrammar, *value, field)});
  return out;
}

}  // namespace

std::shared_ptr<constraint::Constraint> read_constraint(const RequestBody& body, const ServedModel& model) {
  const std::optional<Wanted> wanted = read_wanted(body);
  if (!wanted) return nullptr;
  try {
    return model.constraints().get(wanted->source);
  } catch (const constraint::ConstraintError& error) {
    reject(wanted->field, "'{}': {}", wanted->field, error.what());
  }
}

std::shared_ptr<constraint::Constraint> constraint_of(const ForcedCalls& calls, const RequestBody& body,
                                                      const ServedModel& model) {
  if (const auto wanted = read_wanted(body))
    reject(wanted->field, "'{}' and a 'tool_choice' that forces a call exclude each other", wanted->field);
  try {
    return model.constraints().get(calls.key(),
                                   [&](const constraint::TokenNames& tokens, constraint::Budget& budget) {
                                     return calls.grammar(tokens, budget);
                                   });
  } catch (const constraint::ConstraintError& error) {
    reject("tools", "'tools': {}", error.what());
  }
}

}  // namespace stoa::serve

#include "serve/openapi.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "serve/fields.h"

namespace stoa::serve {
namespace {

// What a field may be, in JSON schema. An empty path means every path without an entry of its own.
struct FieldSchema {
  std::string_view path, field, schema;
};

constexpr std::string_view kText = R"({"type": "string"})";
constexpr std::string_view kFlag = R"({"type": "boolean"})";
constexpr std::string_view kCount = R"({"type": "integer", "minimum": 1, "maximum": 2147483647})";
constexpr std::string_view kCountOrNone = R"({"type": "integer", "minimum": 0, "maximum": 2147483647})";
constexpr std::string_view kCountOrRest =
    R"({"anyOf": [{"const": -1}, {"type": "integer", "minimum": 1, "maximum": 2147483647}]})";
constexpr std::string_view kSeedRange =
    R"({"type": "integer", "minimum": -9223372036854774784, "maximum": 9223372036854774784})";
constexpr std::string_view kIds =
    R"({"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0}})";
constexpr std::string_view kTexts = R"({"type": "array", "minItems": 1, "items": {"type": "string"}})";
constexpr std::string_view kTextOrTexts =
    R"({"anyOf": [{"type": "string"}, {"type": "array", "minItems": 1, "maxItems": 2048, "items": {"type": "string"}}]})";
constexpr std::string_view kPrompts = R"({"anyOf": [{"type": "string"},
  {"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0}},
  {"type": "array", "minItems": 1, "maxItems": 1024, "items": {"anyOf": [{"type": "string"},
    {"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0}}]}}]})";
constexpr std::string_view kStops = R"({"anyOf": [{"type": "string", "minLength": 1, "maxLength": 250},
  {"type": "array", "maxItems": 64, "items": {"type": "string", "minLength": 1, "maxLength": 250}}]})";
constexpr std::string_view kWordOrWords = R"({"anyOf": [{"type": "string", "maxLength": 250},
  {"type": "array", "maxItems": 64, "items": {"type": "string", "maxLength": 250}}]})";
constexpr std::string_view kSchemaObject =
    R"({"anyOf": [{"type": "object"}, {"type": "boolean"}, {"type": "string"}]})";
constexpr std::string_view kChatMessages = R"({"type": "array", "minItems": 1, "maxItems": 4096, "items": {
  "type": "object", "required": ["role"], "properties": {
    "role": {"enum": ["system", "developer", "user", "assistant", "tool"]},
    "content": {"anyOf": [{"type": "string"}, {"type": "null"}, {"type": "array", "items": {"type": "object",
      "required": ["type", "text"], "properties": {"type": {"const": "text"}, "text": {"type": "string"}}}}]}}}})";
constexpr std::string_view kMessageBlocks = R"({"type": "array", "minItems": 1, "maxItems": 4096, "items": {
  "type": "object", "required": ["role", "content"], "properties": {
    "role": {"enum": ["system", "user", "assistant"]},
    "content": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object",
      "required": ["type"], "properties": {"type": {"type": "string"}}}}]}}}})";
constexpr std::string_view kToolChoiceBlock = R"({"type": "object", "required": ["type"],
  "properties": {"type": {"enum": ["auto", "any", "tool", "none"]}}})";

constexpr FieldSchema kSchemas[] = {
    {"", "model", kText},
    {"", "prompt", kPrompts},
    {"", "max_tokens", kCountOrRest},
    {"/v1/completions", "max_tokens", R"({"type": "integer", "minimum": -1, "maximum": 2147483647})"},
    {"/v1/messages", "max_tokens", kCount},
    {"", "max_completion_tokens", kCountOrRest},
    {"", "max_output_tokens", kCount},
    {"", "temperature", R"({"type": "number", "minimum": 0, "maximum": 100})"},
    {"/generate", "temperature", R"({"type": "number", "minimum": 1e-6, "maximum": 100})"},
    {"/api", "temperature", R"({"type": "number", "minimum": 1e-6, "maximum": 100})"},
    {"", "top_p", R"({"type": "number", "minimum": 0, "maximum": 1})"},
    {"", "top_k", R"({"type": "integer", "minimum": -1, "maximum": 2147483647})"},
    {"/generate", "top_k", kCountOrNone},
    {"/api", "top_k", kCountOrNone},
    {"", "min_p", R"({"type": "number", "minimum": 0, "maximum": 1})"},
    {"", "n", R"({"type": "integer", "minimum": 1, "maximum": 128})"},
    {"", "echo", kFlag},
    {"", "logprobs", R"({"type": "integer", "minimum": 0, "maximum": 20})"},
    {"/v1/chat/completions", "logprobs", kFlag},
    {"/api", "logprobs", kFlag},
    {"", "top_logprobs", R"({"type": "integer", "minimum": 0, "maximum": 20})"},
    {"", "stop", kStops},
    {"", "stop_sequences", kStops},
    {"", "end_strings", kStops},
    {"", "seed", kSeedRange},
    {"", "random_seed", R"({"type": "integer", "minimum": -1, "maximum": 9223372036854774784})"},
    {"", "suffix", kText},
    {"", "presence_penalty", R"({"type": "number", "minimum": -2, "maximum": 2})"},
    {"", "frequency_penalty", R"({"type": "number", "minimum": -2, "maximum": 2})"},
    {"", "repetition_penalty", R"({"type": "number", "minimum": 1e-3, "maximum": 1000})"},
    {"/generate", "repetition_penalty", R"({"type": "number", "minimum": 1, "maximum": 1000})"},
    {"", "logit_bias",
     R"({"anyOf": [{"type": "object", "maxProperties": 4096, "propertyNames": {"pattern": "^(0|[1-9][0-9]{0,8})$"},
         "additionalProperties": {"type": "number", "minimum": -100, "maximum": 100}},
       {"type": "array", "maxItems": 4096, "items": {"type": "array", "minItems": 2, "maxItems": 2, "prefixItems": [
         {"type": ["integer", "string"]}, {"anyOf": [{"const": false}, {"type": "number", "minimum": -100, "maximum": 100}]}]}}]})"},
    {"", "bad_words", kStops},
    {"", "sampler_order", R"({"enum": ["hf", "vllm", "llama.cpp"]})"},
    {"", "samplers",
     R"({"type": "array", "items": {"enum": ["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "typical_p", "top_p", "min_p",
         "xtc", "temp", "temperature", "infill"]}})"},
    {"", "n_indent", R"({"type": "integer", "minimum": 0, "maximum": 4096})"},
    {"", "t_max_predict_ms", R"({"type": "integer", "minimum": -1, "maximum": 86400000})"},
    {"", "response_fields", R"({"type": "array", "maxItems": 256, "items": {"type": "string"}})"},
    {"", "stream", kFlag},
    {"", "stream_options",
     R"({"type": "object", "additionalProperties": false, "properties": {"include_usage": {"type": "boolean"},
         "continuous_usage_stats": {"type": "boolean"}, "include_obfuscation": {"type": "boolean"}}})"},
    {"", "min_tokens", kCountOrNone},
    {"", "ignore_eos", kFlag},
    {"", "stop_token_ids", R"({"type": "array", "items": {"type": "integer", "minimum": 0}})"},
    {"", "skip_special_tokens", kFlag},
    {"", "include_stop_str_in_output", kFlag},
    {"", "add_special_tokens", kFlag},
    {"", "add_special", kFlag},
    {"", "truncate_prompt_tokens", R"({"type": "integer", "minimum": 1, "maximum": 1073741824})"},
    {"", "response_format",
     R"({"type": "object", "required": ["type"], "properties": {"type": {"enum": ["text", "json_object", "json_schema"]}}})"},
    {"", "guided_json", kSchemaObject},
    {"", "json_schema", kSchemaObject},
    {"", "guided_regex", kText},
    {"", "guided_choice", kTexts},
    {"", "guided_grammar", kText},
    {"", "grammar", kText},
    {"", "structured_outputs",
     R"({"type": "object", "additionalProperties": false, "properties": {"json": {}, "regex": {"type": ["string", "null"]},
         "choice": {"type": ["array", "null"]}, "grammar": {"type": ["string", "null"]}, "json_object": {"type": ["boolean", "null"]}}})"},
    {"", "messages", kChatMessages},
    {"/v1/messages", "messages", kMessageBlocks},
    {"/v1/messages/count_tokens", "messages", kMessageBlocks},
    {"", "output_config",
     R"({"type": "object", "properties": {"format": {"anyOf": [{"type": "null"}, {"type": "object", "required": ["type", "schema"],
         "properties": {"type": {"const": "json_schema"}, "schema": {"type": ["object", "boolean", "string"]}}}]}}})"},
    {"", "tools", R"({"type": "array", "maxItems": 128, "items": {"type": "object"}})"},
    {"", "tool_choice", R"({"anyOf": [{"enum": ["auto", "none", "required"]}, {"type": "object"}]})"},
    {"/v1/messages", "tool_choice", kToolChoiceBlock},
    {"/v1/messages/count_tokens", "tool_choice", kToolChoiceBlock},
    {"", "parallel_tool_calls", kFlag},
    {"", "add_generation_prompt", kFlag},
    {"", "continue_final_message", kFlag},
    {"", "chat_template_kwargs", R"({"type": "object"})"},
    {"", "input", kPrompts},
    {"/v1/responses", "input",
     R"({"anyOf": [{"type": "string"}, {"type": "array", "minItems": 1, "items": {"type": "object"}}]})"},
    {"", "instructions", kText},
    {"", "text", R"({"type": "object"})"},
    {"", "encoding_format", R"({"enum": ["float", "base64"]})"},
    {"", "system", R"({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}]})"},
    {"/tokenize", "prompt", kText},
    {"/completion", "prompt",
     R"({"anyOf": [{"type": "string"}, {"type": "object", "required": ["prompt_string"]}, {"type": "array", "minItems": 1}]})"},
    {"/infill", "prompt", kText},
    {"", "content", kText},
    {"", "return_token_strs", kFlag},
    {"", "with_pieces", kFlag},
    {"", "tokens", R"({"type": "array", "items": {"type": "integer", "minimum": 0}})"},
    {"", "text_1", kTextOrTexts},
    {"", "text_2", kTextOrTexts},
    {"", "query", kText},
    {"", "documents",
     R"({"type": "array", "minItems": 1, "maxItems": 2048, "items": {"anyOf": [{"type": "string"},
         {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}]}})"},
    {"", "top_n", R"({"type": "integer", "minimum": 1, "maximum": 2048})"},
    {"", "return_documents", kFlag},
    {"", "sentences", R"({"type": "array", "minItems": 1, "maxItems": 128, "items": {"type": "string"}})"},
    {"", "prompts", R"({"type": "array", "minItems": 1, "maxItems": 128, "items": {"type": "string"}})"},
    {"", "tokens_to_generate", kCount},
    {"/api", "tokens_to_generate", kCountOrNone},
    {"", "greedy", kFlag},
    {"", "min_tokens_to_generate", kCountOrNone},
    {"", "add_BOS", kFlag},
    {"", "compute_logprob", kFlag},
    {"", "stop_token", R"({"type": "integer", "minimum": 0})"},
    {"", "input_prefix", kText},
    {"", "input_suffix", kText},
    {"", "input_extra",
     R"({"type": "array", "maxItems": 1024, "items": {"type": "object", "required": ["text"],
         "properties": {"text": {"type": "string"}, "filename": {"type": "string"}}}})"},
    {"", "n_predict", R"({"type": "integer", "minimum": -1, "maximum": 2147483647})"},
    {"", "repeat_penalty", R"({"type": "number", "minimum": 1e-3, "maximum": 1000})"},
    {"", "repeat_last_n", R"({"type": "integer", "minimum": -1, "maximum": 2147483647})"},
    {"", "n_probs", R"({"type": "integer", "minimum": 0, "maximum": 1000})"},
    {"", "return_tokens", kFlag},
    {"", "cache_salt", kText},
    {"", "logprobs_mode", R"({"enum": ["raw_logprobs", "processed_logprobs"]})"},
    {"", "post_sampling_probs", kFlag},
    {"", "typical_p", R"({"type": "number", "minimum": 0, "maximum": 1})"},
    {"", "top_n_sigma", R"({"type": "number", "minimum": -1, "maximum": 1000})"},
    {"", "xtc_probability", R"({"type": "number", "minimum": 0, "maximum": 1})"},
    {"", "xtc_threshold", R"({"type": "number", "minimum": 0, "maximum": 1})"},
    {"", "text_input", kText},
    {"", "parameters", R"({"type": "object"})"},
    {"", "sampling_parameters", R"({"type": ["string", "object"]})"},
    {"", "stop_words", kWordOrWords},
    {"/v2/models/{model}/generate", "stop", kWordOrWords},
    {"/v2/models/{model}/generate_stream", "stop", kWordOrWords},
    {"/v2/models/{model}/generate", "bad_words", kWordOrWords},
    {"/v2/models/{model}/generate_stream", "bad_words", kWordOrWords},
    {"", "min_length", kCountOrNone},
    {"", "end_id", R"({"type": "integer", "minimum": 0})"},
    {"", "exclude_input_in_output", kFlag},
};

// Fields without which a request is refused.
constexpr std::pair<std::string_view, std::string_view> kRequired[] = {
    {"/v1/completions", "prompt"},
    {"/completion", "prompt"},
    {"/v1/chat/completions", "messages"},
    {"/v1/embeddings", "input"},
    {"/v1/messages", "messages"},
    {"/v1/messages", "max_tokens"},
    {"/v1/messages/count_tokens", "messages"},
    {"/v1/responses", "input"},
    {"/detokenize", "tokens"},
    {"/score", "text_1"},
    {"/score", "text_2"},
    {"/rerank", "query"},
    {"/rerank", "documents"},
    {"/generate", "sentences"},
    {"/api", "prompts"}};

bool is_required(std::string_view path, std::string_view field) {
  return std::ranges::find(kRequired, std::pair{path, field}) != std::ranges::end(kRequired);
}

Json schema_of(std::string_view path, const Field& field) {
  Json out;
  if (field.use == FieldUse::kIgnored) {
    out = Json::object();  // anything
  } else if (field.use == FieldUse::kRefused) {
    out = {{"enum", Json::array({nullptr})}};
    if (!field.neutral.empty()) out["enum"].push_back(Json::parse(field.neutral));
  } else {
    const FieldSchema* found = nullptr;
    for (const FieldSchema& entry : kSchemas)
      if (entry.field == field.name && (entry.path == path || (entry.path.empty() && found == nullptr)))
        found = &entry;
    // What is repeated in the answer is taken as it is.
    require<InternalError>(found != nullptr || field.name == "metadata", "no schema of '{}' of {}",
                           field.name, path);
    if (found != nullptr) out = Json::parse(found->schema);
    // null is the same as leaving a field out.
    if (found != nullptr && !is_required(path, field.name))
      out = {{"anyOf", Json::array({std::move(out), {{"type", "null"}}})}};
  }
  if (!field.note.empty()) out["description"] = field.note;
  return out;
}

Json content(const char* type, Json schema) { return {{type, {{"schema", std::move(schema)}}}}; }

Json body_of(std::string_view path, std::span<const Field> fields) {
  Json properties = Json::object(), required = Json::array();
  for (const Field& field : fields) {
    properties[std::string(field.name)] = schema_of(path, field);
    if (is_required(path, field.name)) required.push_back(field.name);
  }
  Json schema{{"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
  if (!required.empty()) schema["required"] = std::move(required);
  return {{"required", true}, {"content", content("application/json", std::move(schema))}};
}

// "post_v1_chat_completions"
std::string operation_id(std::string_view method, std::string_view path) {
  std::string out;
  for (const char c : method) out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const char c : path) out += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return out;
}

const char* answer_type(std::string_view path) {
  return path == "/" ? "text/html" : path == "/metrics" ? "text/plain" : "application/json";
}

Json operation(const DescribedRoute& route, bool keys) {
  Json ok{{"description", "The answer."}, {"content", content(answer_type(route.path), Json::object())}};
  Json out{{"operationId", operation_id(route.method, route.path)}, {"responses", Json::object()}};
  const auto found = std::ranges::find(endpoints(), route.path, &Endpoint::path);
  if (found != endpoints().end()) {
    out["requestBody"] = body_of(route.path, found->fields);
    if (std::ranges::find(found->fields, "stream", &Field::name) != found->fields.end()) {
      // No schema: some readers would hold it against each event, others against the whole text.
      ok["content"]["text/event-stream"] = Json::object();
    }
  }
  if (route.path.find('{') != std::string::npos)
    out["parameters"] = Json::array(
        {{{"name", "model"}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}}}}});
  out["responses"]["200"] = std::move(ok);
  out["responses"]["default"] = {
      {"description", "An error."},
      {"content", content("application/json", {{"$ref", "#/components/schemas/Error"}})}};
  if (keys && !route.open) out["security"] = Json::array({{{"key", Json::array()}}});
  return out;
}

}  // namespace

Json openapi(std::string_view version, const std::vector<DescribedRoute>& routes, bool keys) {
  const Json word{{"type", Json::array({"string", "null"})}};
  const Json error{
      {"type", "object"},
      {"required", Json::array({"message", "type", "param", "code"})},
      {"properties",
       {{"message", {{"type", "string"}}}, {"type", {{"type", "string"}}}, {"param", word}, {"code", word}}}};
  Json out{{"openapi", "3.1.0"},
           {"info", {{"title", "Stoa"}, {"version", version}}},
           {"paths", Json::object()},
           {"components",
            {{"schemas",
              {{"Error",
                {{"type", "object"},
                 {"required", Json::array({"type", "error"})},
                 {"properties", {{"type", {{"const", "error"}}}, {"error", error}}}}}}}}}};
  if (keys) out["components"]["securitySchemes"]["key"] = {{"type", "http"}, {"scheme", "bearer"}};
  for (const DescribedRoute& route : routes) {
    const std::string method = operation_id(route.method, "");
    out["paths"][route.path][method] = operation(route, keys);
  }
  return out;
}

}  // namespace stoa::serve

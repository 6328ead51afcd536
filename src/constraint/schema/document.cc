#include "constraint/schema/document.h"

#include <algorithm>
#include <array>

#include "base/nearest.h"

namespace stoa::constraint {
namespace {

using Json = SchemaDocument::Json;

constexpr int kDeepestSchema = 200;

// What a schema may say, in addition to keywords that begin with x-.
constexpr auto kKnown = std::to_array<std::string_view>(
    {// Of any value
     "$ref", "type", "enum", "const", "allOf", "anyOf", "oneOf", "not", "if", "then", "else",
     // of numbers
     "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
     // of strings
     "minLength", "maxLength", "pattern", "format",
     // of lists
     "items", "prefixItems", "additionalItems", "minItems", "maxItems", "contains", "minContains",
     "maxContains", "uniqueItems", "unevaluatedItems",
     // of objects
     "properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties",
     "maxProperties", "dependentRequired", "dependentSchemas", "dependencies", "unevaluatedProperties",
     // and what says nothing of the value
     "$schema", "$id", "id", "$anchor", "$comment", "$defs", "definitions", "$vocabulary", "title",
     "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly",
     "contentMediaType", "contentEncoding", "contentSchema", "$recursiveAnchor", "$dynamicAnchor", "strict",
     "discriminator"});

// A pointer's part: ~1 is /, ~0 is ~, %NN is a byte.
std::string unescaped(std::string_view part) {
  std::string out;
  for (std::size_t i = 0; i < part.size(); ++i) {
    const auto hex = [&](std::size_t at) {
      const char c = at < part.size() ? part[at] : 'x';
      return c >= '0' && c <= '9'   ? c - '0'
             : c >= 'a' && c <= 'f' ? c - 'a' + 10
             : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                    : -1;
    };
    if (part[i] == '%' && hex(i + 1) >= 0 && hex(i + 2) >= 0) {
      out += static_cast<char>(hex(i + 1) * 16 + hex(i + 2));
      i += 2;
    } else {
      out += part[i];
    }
  }
  for (std::size_t at = 0; (at = out.find('~', at)) != std::string::npos; ++at) {
    if (out.compare(at, 2, "~1") == 0) out.replace(at, 2, "/");
    if (out.compare(at, 2, "~0") == 0) out.replace(at, 2, "~");
  }
  return out;
}

// The way to `wanted` below `value`; false: it does not exist.
bool find_way(const Json& value, const Json* wanted, std::string& way) {
  if (&value == wanted) return true;
  const auto try_part = [&](const std::string& name, const Json& part) {
    const std::size_t size = way.size();
    way += "/" + name;
    if (find_way(part, wanted, way)) return true;
    way.resize(size);
    return false;
  };
  if (value.is_object())
    for (const auto& [key, part] : value.items())
      if (try_part(key.substr(0, 60), part)) return true;
  if (value.is_array())
    for (std::size_t i = 0; i < value.size(); ++i)
      if (try_part(std::to_string(i), value[i])) return true;
  return false;
}

}  // namespace

SchemaDocument::SchemaDocument(Json schema) : root_(std::move(schema)) {
  require<ConstraintError>(root_.is_object() || root_.is_boolean(), "a schema must be an object");
  collect(root_, 0);
  if (!root_.is_object() || !root_.contains("$schema") || !root_["$schema"].is_string()) return;
  const auto& dialect = root_["$schema"].get_ref<const std::string&>();
  for (const char* name : {"draft-03", "draft-04", "draft-06", "draft-07"})
    old_ |= dialect.find(name) != std::string::npos;
}

void SchemaDocument::collect(const Json& value, int depth) {
  require<ConstraintError>(depth <= kDeepestSchema, "the schema nests deeper than {} levels", kDeepestSchema);
  if (value.is_array())
    for (const Json& part : value) collect(part, depth + 1);
  if (!value.is_object()) return;
  for (const auto& [key, part] : value.items()) {
    if (part.is_string() && (key == "$id" || key == "id")) named_.emplace(part.get<std::string>(), &value);
    if (part.is_string() && (key == "$anchor" || key == "$dynamicAnchor"))
      named_.emplace("#" + part.get<std::string>(), &value);
    if (key != "enum" && key != "const" && key != "default" && key != "examples") collect(part, depth + 1);
  }
}

const Json& SchemaDocument::resolve(const std::string& reference) const {
  const auto hash = reference.find('#');
  const std::string document = reference.substr(0, hash);
  const std::string fragment = hash == std::string::npos ? "" : reference.substr(hash + 1);
  const Json* at = &root_;
  const std::string shown = reference.substr(0, 100);
  if (const auto whole = named_.find(reference); whole != named_.end()) return *whole->second;
  if (!document.empty()) {
    const auto found = named_.find(document);
    require<ConstraintError>(found != named_.end(),
                             "the schema: '$ref' to another document, '{}', is not supported", shown);
    at = found->second;
  }
  if (fragment.empty()) return *at;
  require<ConstraintError>(fragment[0] == '/', "the schema: '$ref' names '{}', which does not exist", shown);
  for (std::size_t begin = 1; begin <= fragment.size();) {
    const std::size_t end = std::min(fragment.find('/', begin), fragment.size());
    const std::string part = unescaped(std::string_view(fragment).substr(begin, end - begin));
    begin = end + 1;
    const Json* next = nullptr;
    if (at->is_object() && at->contains(part)) next = &(*at)[part];
    if (at->is_array() && !part.empty() && part.size() < 9 &&
        std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; }) &&
        std::stoul(part) < at->size())
      next = &(*at)[std::stoul(part)];
    require<ConstraintError>(next != nullptr, "the schema: '$ref' names '{}', which does not exist", shown);
    at = next;
  }
  return *at;
}

void SchemaDocument::check_keywords(const Json& schema) {
  if (!schema.is_object() || !checked_.insert(&schema).second) return;
  if (old_ && schema.contains("$ref")) return;
  for (const auto& [key, value] : schema.items()) {
    if (key.starts_with("x-") || std::find(kKnown.begin(), kKnown.end(), key) != kKnown.end()) continue;
    std::vector<std::string> names(kKnown.begin(), kKnown.end());
    refuse(schema, "the keyword '{}' is not supported{}", key.substr(0, 100),
           did_you_mean(key.substr(0, 100), names));
  }
}

std::string SchemaDocument::place_of(const Json& schema) const {
  std::string way;
  if (!find_way(root_, &schema, way) || way.empty()) return "";
  return " at '" + way + "'";
}

}  // namespace stoa::constraint

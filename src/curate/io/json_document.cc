#include "curate/io/json_document.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/error.h"
#include "base/escape.h"
#include "data/json_lines.h"

namespace stoa::curate {

struct JsonDocuments::Parser {
  simdjson::dom::parser dom;
  std::string mended;
};

JsonDocuments::JsonDocuments(std::string text_key, std::string id_key)
    : parser_(std::make_unique<Parser>()), text_key_(std::move(text_key)), id_key_(std::move(id_key)) {}
JsonDocuments::~JsonDocuments() = default;

void JsonDocuments::read(std::string_view line, std::size_t readable, Document& document) {
  require<InternalError>(readable >= line.size() + simdjson::SIMDJSON_PADDING, "a line without padding");
  document.id.clear();
  document.text.clear();
  document.metadata.clear();
  document.url.clear();
  const simdjson::dom::object object = data::parse_json_line(parser_->dom, line, parser_->mended);
  bool found = false;
  for (const auto& [key, value] : object) {
    if (key == text_key_) {
      std::string_view text;
      require<DataError>(value.get(text) == simdjson::SUCCESS, "its \"{}\" is no string", text_key_);
      document.text = text;  // of equal keys the last counts, as in Python
      found = true;
    } else if (key == id_key_) {
      if (value.is_null()) continue;
      std::string_view id;
      document.id =
          value.get(id) == simdjson::SUCCESS ? std::string(id) : std::string(simdjson::minify(value));
    } else if (key != "reason" && key != "duplicate_cluster" && key != "id" && key != "text") {
      std::string_view url;
      if (key == "url" && value.get(url) == simdjson::SUCCESS) document.url = url;
      if (!document.metadata.empty()) document.metadata += ',';
      append_json_string(key, document.metadata);
      document.metadata += ':';
      document.metadata += simdjson::minify(value);
    }
  }
  if (!found) fail<DataError>("{}", data::no_such_key(object, text_key_));
}

namespace {

// Cuts the first member off: `"a":1` of `"a":1,"b":[2,"x"]`.
std::string_view take_member(std::string_view& rest) {
  bool in_string = false;
  int depth = 0;
  std::size_t end = 0;
  for (; end < rest.size() && (in_string || depth > 0 || rest[end] != ','); ++end) {
    const char c = rest[end];
    if (in_string && c == '\\') {
      ++end;
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string) {
      depth += (c == '{' || c == '[') - (c == '}' || c == ']');
    }
  }
  const std::string_view member = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return member;
}

bool is_member(std::string_view member, std::string_view key) {
  return member.size() > key.size() + 2 && member.substr(1, key.size()) == key &&
         member[key.size() + 1] == '"';
}

// The value of a member; empty: there is none.
std::string_view member_value(std::string_view key, std::string_view metadata) {
  while (!metadata.empty()) {
    const std::string_view member = take_member(metadata);
    if (is_member(member, key)) return member.substr(key.size() + 3);
  }
  return {};
}

}  // namespace

void set_member(std::string_view key, std::string_view value, std::string& metadata) {
  // Members as they are written, without blanks between.
  std::string kept;
  for (std::string_view rest = metadata; !rest.empty();) {
    const std::string_view member = take_member(rest);
    if (is_member(member, key)) continue;
    if (!kept.empty()) kept += ',';
    kept += member;
  }
  if (!kept.empty()) kept += ',';
  kept += fmt::format("\"{}\":{}", key, value);
  metadata = std::move(kept);
}

bool has_member(std::string_view key, std::string_view metadata) {
  return !member_value(key, metadata).empty();
}

std::string string_member(std::string_view key, std::string_view metadata) {
  const std::string_view value = member_value(key, metadata);
  if (value.size() < 2 || value.front() != '"' || value.find('\\') != value.npos) return {};
  return std::string(value.substr(1, value.size() - 2));
}

double number_member(std::string_view key, std::string_view metadata) {
  double number = std::numeric_limits<double>::quiet_NaN();
  std::string_view value = member_value(key, metadata);
  value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
  std::from_chars(value.data(), value.data() + value.size(), number);
  return number;
}

void append_json_line(const Document& document, std::string_view reason, std::string& out) {
  out += "{\"id\":";
  append_json_string(document.id, out);
  out += ",\"text\":";
  append_json_string(document.text, out);
  if (!reason.empty()) {
    out += ",\"reason\":";
    append_json_string(reason, out);
  }
  if (!document.metadata.empty()) {
    out += ',';
    out += document.metadata;
  }
  out += "}\n";
}

}  // namespace stoa::curate

#include "curate/run/tags.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/escape.h"
#include "curate/io/json_document.h"
#include "data/json_lines.h"

namespace stoa::curate {
namespace {

constexpr double kLargest = std::numeric_limits<double>::max();  // JSON has no infinity

}  // namespace

TagLine::TagLine(std::string_view id, std::string& out) : out_(out), begin_(out.size()) {
  out_ += "{\"id\":";
  append_json_string(id, out_);
  out_ += ",\"rules\":[";
}

void TagLine::add(std::string_view stage, const Verdict::Value& value) {
  const bool limited = value.sense != Verdict::Sense::kNever;
  // A share of nothing is not a number: no limit fails it.
  if ((!limited && !value.fails) || std::isnan(value.value)) return;
  // One that every line of a text is judged by fails once.
  if (!limited && std::string_view(out_).substr(begin_).find(fmt::format("[\"{}/{}\"]", stage, value.rule)) !=
                      std::string_view::npos)
    return;
  if (!first_) out_ += ',';
  first_ = false;
  out_ += "[\"";
  out_ += stage;
  out_ += '/';
  out_ += value.rule;
  out_ += '"';
  if (limited)
    out_ += fmt::format(",{},\"{}\",{}", std::clamp(value.value, -kLargest, kLargest),
                        value.sense == Verdict::Sense::kAtMost ? "<=" : ">=", value.limit);
  out_ += ']';
}

void TagLine::finish(std::size_t text_bytes, std::string_view members) {
  out_ += fmt::format("],\"bytes\":{}{}}}\n", text_bytes, members);
}

struct TagReader::Parser {
  simdjson::dom::parser dom;
  std::string mended;
};

TagReader::TagReader() : parser_(std::make_unique<Parser>()) {}
TagReader::~TagReader() = default;

const TaggedDocument& TagReader::read(std::string_view line, std::size_t readable) {
  require<InternalError>(readable >= line.size() + simdjson::SIMDJSON_PADDING, "a line without padding");
  const simdjson::dom::object object = data::parse_json_line(parser_->dom, line, parser_->mended);
  simdjson::dom::array rules;
  require<DataError>(object["rules"].get(rules) == simdjson::SUCCESS &&
                         object["bytes"].get(document_.bytes) == simdjson::SUCCESS,
                     "a line of attributes has no \"rules\" and \"bytes\"");
  std::size_t count = 0;
  for (const simdjson::dom::element rule : rules) {
    if (count == document_.values.size()) document_.values.emplace_back();
    Verdict::Value& value = document_.values[count++];  // its memory is used again
    std::string_view name, sense;
    require<DataError>(rule.at(0).get(name) == simdjson::SUCCESS, "a rule of attributes has no name");
    value = {std::move(value.rule), 1, 0, Verdict::Sense::kNever, true};
    value.rule.assign(name);
    if (rule.at(1).error() != simdjson::SUCCESS) continue;
    require<DataError>(
        rule.at(1).get(value.value) == simdjson::SUCCESS && rule.at(2).get(sense) == simdjson::SUCCESS &&
            rule.at(3).get(value.limit) == simdjson::SUCCESS && (sense == "<=" || sense == ">="),
        "the rule '{}' of attributes is not [name, value, \"<=\" or \">=\", limit]", name);
    value.sense = sense == "<=" ? Verdict::Sense::kAtMost : Verdict::Sense::kAtLeast;
    value.fails = Verdict::is_beyond(value.value, value.sense, value.limit);
  }
  document_.values.resize(count);
  return document_;
}

}  // namespace stoa::curate

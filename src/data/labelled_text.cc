#include "data/labelled_text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/nearest.h"

namespace stoa::data {
namespace {

using Json = nlohmann::json;

std::string where(const LabelledSource& s) { return fmt::format("{} line {}", s.file, s.line); }

class Object {
 public:
  Object(std::string_view text, const LabelledSource& source)
      : where_(where(source)), json_(Json::parse(text, nullptr, false)) {
    require<DataError>(json_.is_object(), "{}: not a JSON object", where_);
  }

  // The value under the first of `names` that is there; null: none is.
  const Json* find(std::initializer_list<const char*> names) const {
    for (const char* name : names)
      if (const auto found = json_.find(name); found != json_.end() && !found->is_null()) return &*found;
    return nullptr;
  }
  const Json& need(std::initializer_list<const char*> names) const {
    const Json* found = find(names);
    if (found) return *found;
    std::vector<std::string> there;
    for (const auto& [key, value] : json_.items()) there.push_back(key);
    fail<DataError>("{}: no \"{}\"; the object has: {}", where_, *names.begin(), fmt::join(there, ", "));
  }
  std::string text(const char* name) const {
    const Json& value = need({name});
    require<DataError>(value.is_string(), "{}: \"{}\" is {}, expected text", where_, name, value.type_name());
    return value.get<std::string>();
  }
  LabelValue label(const Json& value, const char* name) const {
    require<DataError>(value.is_string() || value.is_number(),
                       "{}: \"{}\" is {}, expected the name of a class or its number", where_, name,
                       value.type_name());
    if (value.is_string()) return value.get<std::string>();
    if (value.is_number_float()) return value.get<double>();
    return value.get<std::int64_t>();
  }
  const std::string& place() const { return where_; }

 private:
  std::string where_;
  Json json_;
};

// The byte at which character number `character` of UTF-8 text begins; none beyond its end.
std::optional<std::size_t> byte_of(const std::string& text, std::int64_t character) {
  std::int64_t seen = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) == 0x80) continue;
    if (seen++ == character) return i;
  }
  return seen == character ? std::optional(text.size()) : std::nullopt;
}

}  // namespace

LabelledText parse_labelled_text(std::string_view json, const LabelledSource& source) {
  const Object object(json, source);
  LabelledText out;
  out.text = object.text("text");
  if (object.find({"text_pair"})) out.pair = object.text("text_pair");
  if (const Json* label = object.find({"label"})) out.label = object.label(*label, "label");
  return out;
}

LabelledWords parse_labelled_words(std::string_view json, const LabelledSource& source) {
  const Object object(json, source);
  LabelledWords out;
  const Json& words = object.need({"words", "tokens"});
  require<DataError>(words.is_array() && !words.empty(), "{}: \"words\" is not a list of words",
                     object.place());
  for (const Json& word : words) {
    require<DataError>(word.is_string() && !word.get_ref<const std::string&>().empty(),
                       "{}: \"words\" holds {}, expected a list of words", object.place(), word.dump());
    out.words.push_back(word.get<std::string>());
  }
  const Json* tags = object.find({"tags", "ner_tags", "labels"});
  if (!tags) return out;
  require<DataError>(tags->is_array() && tags->size() == words.size(),
                     "{}: {} words, but {} tags; expected one per word", object.place(), words.size(),
                     tags->is_array() ? tags->size() : 0);
  for (const Json& tag : *tags) out.tags.push_back(object.label(tag, "tags"));
  return out;
}

LabelledQuestion parse_labelled_question(std::string_view json, const LabelledSource& source) {
  const Object object(json, source);
  LabelledQuestion out;
  out.question = object.text("question");
  out.context = object.text("context");
  if (object.find({"id"})) out.id = object.text("id");
  const Json* answers = object.find({"answers"});
  if (!answers) return out;
  const std::string& place = object.place();
  require<DataError>(
      answers->is_object() && answers->contains("text") && answers->contains("answer_start") &&
          (*answers)["text"].is_array() && (*answers)["answer_start"].is_array() &&
          (*answers)["text"].size() == (*answers)["answer_start"].size(),
      "{}: \"answers\" is not {{\"text\": [...], \"answer_start\": [...]}} with as many of both", place);
  out.labelled = true;
  for (std::size_t i = 0; i < (*answers)["text"].size(); ++i) {
    const Json &text = (*answers)["text"][i], &start = (*answers)["answer_start"][i];
    require<DataError>(text.is_string() && start.is_number_integer(),
                       "{}: an answer is a text and the number of the character it begins at", place);
    LabelledQuestion::Answer answer{text.get<std::string>(), 0};
    const auto begin = byte_of(out.context, start.get<std::int64_t>());
    require<DataError>(
        begin && !answer.text.empty() && out.context.compare(*begin, answer.text.size(), answer.text) == 0,
        "{}: the context does not have the answer '{}' at character {}", place, answer.text,
        start.get<std::int64_t>());
    answer.begin = *begin;
    out.answers.push_back(std::move(answer));
  }
  return out;
}

std::int32_t label_number(const LabelValue& value, const std::vector<std::string>& labels,
                          const LabelledSource& source) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) {
    require<DataError>(*number >= 0 && *number < static_cast<std::int64_t>(labels.size()),
                       "{}: label {}, but model.labels names {} classes: expected 0 to {}", where(source),
                       *number, labels.size(), labels.size() - 1);
    return static_cast<std::int32_t>(*number);
  }
  if (const auto* number = std::get_if<double>(&value))
    fail<DataError>(
        "{}: label {}, expected one of the {} classes of model.labels ({}); one name there makes "
        "numbers labels",
        where(source), *number, labels.size(), fmt::join(labels, ", "));
  const auto& name = std::get<std::string>(value);
  const auto found = std::find(labels.begin(), labels.end(), name);
  require<DataError>(found != labels.end(), "{}: label '{}' is not among model.labels ({}){}", where(source),
                     name, fmt::join(labels, ", "), did_you_mean(name, labels));
  return static_cast<std::int32_t>(found - labels.begin());
}

double target_number(const LabelValue& value, const LabelledSource& source) {
  if (const auto* name = std::get_if<std::string>(&value))
    fail<DataError>(
        "{}: label '{}', expected a number: model.labels names one class, which makes the task a "
        "regression",
        where(source), *name);
  const auto* whole = std::get_if<std::int64_t>(&value);
  const double number = whole ? static_cast<double>(*whole) : std::get<double>(value);
  require<DataError>(std::isfinite(number) && std::abs(number) < 1e30, "{}: label {} is out of range",
                     where(source), number);
  return number;
}

}  // namespace stoa::data

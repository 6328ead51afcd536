// Labelled text: a JSON object per line. What an object holds depends on the task; `encode`
// (infer/labelled_rows) makes rows of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <istream>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace stoa::data {

namespace fs = std::filesystem;

// The name of a class, or its number; of a regression any number.
using LabelValue = std::variant<std::string, std::int64_t, double>;

// {"text": …, "text_pair": …, "label": …}: text_pair may be missing.
struct LabelledText {
  std::string text;
  std::optional<std::string> pair;
  std::optional<LabelValue> label;
};

// {"words": […], "tags": […]}, or as in Hugging Face's data sets "tokens" and "ner_tags".
struct LabelledWords {
  std::vector<std::string> words;
  std::vector<LabelValue> tags;  // one per word, or none
};

// {"question": …, "context": …, "answers": {"text": […], "answer_start": […]}}, as SQuAD has it: the first
// answer counts, none means that the context does not hold it. answer_start counts Unicode characters.
struct LabelledQuestion {
  std::string id, question, context;
  bool labelled = false;  // "answers" is there
  struct Answer {
    std::string text;
    std::size_t begin = 0;  // byte of the context
  };
  std::vector<Answer> answers;
};

struct LabelledSource {
  std::string file;  // for messages
  std::int64_t line = 0;
};

// One line. DataError names file, line and key.
LabelledText parse_labelled_text(std::string_view json, const LabelledSource& source);
LabelledWords parse_labelled_words(std::string_view json, const LabelledSource& source);
LabelledQuestion parse_labelled_question(std::string_view json, const LabelledSource& source);

// Number of the class. DataError: no such class; the nearest name is reported.
std::int32_t label_number(const LabelValue& value, const std::vector<std::string>& labels,
                          const LabelledSource& source);
// The label of a regression. DataError: not a number.
double target_number(const LabelValue& value, const LabelledSource& source);

}  // namespace stoa::data

#include "eval/metrics/regex_filters.h"

#include <fmt/ranges.h>
#include <utf8proc.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "eval/builtin/document.h"
#include "eval/metrics/english_number.h"
#include "eval/python/regex.h"

namespace stoa::eval {
namespace {

constexpr const char* kNumberBehindHashes = R"(#### (\-?[0-9\.\,]+))";

using Groups = std::vector<std::string>;

// The match of this number, counted from the end if it is negative.
const Groups& selected(const std::vector<Groups>& all, std::int64_t number) {
  const auto n = static_cast<std::int64_t>(all.size());
  const std::int64_t at = number < 0 ? number + n : number;
  require<DataError>(at >= 0 && at < n, "the filter regex selects match {} of {}", number, n);
  return all[static_cast<std::size_t>(at)];
}

std::string text_of_response(const Json& response) {
  return response.is_string() ? response.get<std::string>() : std::string();
}

class RegexFilter : public FilterAction {
 public:
  explicit RegexFilter(const Json& arguments)
      : regex_(arguments.value("regex_pattern", std::string(kNumberBehindHashes))),
        group_(arguments.value("group_select", std::int64_t{0})),
        fallback_(arguments.value("fallback", std::string("[invalid]"))) {}
  Json apply(const Json& responses, const Json&) const override {
    Json out = Json::array();
    for (const Json& response : responses) out.push_back(found(text_of_response(response)));
    return out;
  }

 private:
  std::string found(const std::string& text) const {
    const auto all = regex_.find_all(text);
    if (all.empty()) return fallback_;
    const auto& groups = selected(all, group_);
    if (groups.size() == 1) return std::string(strip(groups[0]));
    const auto it =
        std::find_if(groups.begin(), groups.end(), [](const std::string& g) { return !g.empty(); });
    return std::string(strip(it == groups.end() ? fallback_ : *it));
  }

  const PythonRegex regex_;
  const std::int64_t group_;
  const std::string fallback_;
};

// What the filters share that look again where their pattern finds nothing.
class LenientFilter : public FilterAction {
 protected:
  LenientFilter(const Json& arguments, const std::string& pattern)
      : regex_(pattern),
        group_(arguments.value("group_select", std::int64_t{0})),
        fallback_(arguments.value("fallback", std::string("[invalid]"))),
        ignore_case_(arguments.value("ignore_case", false)),
        ignore_punctuation_(arguments.value("ignore_punctuation", false)) {
    const auto ignored = arguments.find("regexes_to_ignore");
    if (ignored == arguments.end() || ignored->is_null()) return;
    for (const Json& pattern_of : *ignored) ignored_.emplace_back(pattern_of.get_ref<const std::string&>());
  }

  const PythonRegex& regex() const { return regex_; }
  const std::string& fallback() const { return fallback_; }

  // The first group that is not empty; "": none.
  std::string match(const PythonRegex& regex, const std::string& text) const {
    const auto all = regex.find_all(text);
    if (all.empty()) return "";
    const Groups& groups = selected(all, group_);
    const auto it = std::find_if(groups.begin(), groups.end(), [](const auto& g) { return !g.empty(); });
    return it == groups.end() ? "" : std::string(strip(*it));
  }

  std::string without_ignored(std::string text) const {
    for (const PythonRegex& pattern : ignored_) text = pattern.substitute(text, "");
    if (ignore_case_) text = lowered(text);
    return ignore_punctuation_ ? without_punctuation(text) : text;
  }

 private:
  static std::string without_punctuation(const std::string& text) {
    std::string out;
    const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
    for (std::ptrdiff_t at = 0; at < std::ssize(text);) {
      utf8proc_int32_t code = -1;
      const auto read = utf8proc_iterate(bytes + at, std::ssize(text) - at, &code);
      const auto length = std::max<std::ptrdiff_t>(1, read);
      const auto category = read > 0 ? utf8proc_category(code) : UTF8PROC_CATEGORY_CN;
      if (category < UTF8PROC_CATEGORY_PC || category > UTF8PROC_CATEGORY_PO)
        out.append(text, static_cast<std::size_t>(at), static_cast<std::size_t>(length));
      at += length;
    }
    return out;
  }

  const PythonRegex regex_;
  const std::int64_t group_;
  const std::string fallback_;
  const bool ignore_case_, ignore_punctuation_;
  std::vector<PythonRegex> ignored_;
};

class MultiChoiceFilter : public LenientFilter {
 public:
  MultiChoiceFilter(const Json& arguments, bool of_input)
      : LenientFilter(arguments, arguments.value("regex_pattern", std::string(kNumberBehindHashes))),
        of_input_(of_input) {}

  Json apply(const Json& responses, const Json& document) const override {
    std::map<std::string, std::string> of_text, of_letter;
    Groups texts, letters;
    for (const std::string& choice : choices_of(document)) {
      const std::string letter(1, static_cast<char>('A' + texts.size()));
      const std::string text = without_ignored(std::string(strip(choice)));
      of_text[text] = of_letter[letter] = "(" + letter + ")";
      texts.push_back(escaped(text));
      letters.push_back(letter);
    }
    // The longest first: a choice that another begins with must not hide it.
    std::stable_sort(texts.begin(), texts.end(), [](const std::string& a, const std::string& b) {
      return code_points(a) > code_points(b);
    });
    const PythonRegex any_text(fmt::format("{}", fmt::join(texts, "|"))),
        any_letter(fmt::format(":[\\s]*({})", fmt::join(letters, "|")));
    const auto named = [](const std::map<std::string, std::string>& by, const std::string& found) {
      const auto it = by.find(found);
      return it == by.end() ? found : it->second;
    };
    Json out = Json::array();
    for (const Json& response : responses) {
      const std::string text = text_of_response(response);
      std::string found = match(regex(), text);
      if (found.empty()) found = named(of_text, match(any_text, without_ignored(text)));
      if (found.empty()) found = named(of_letter, match(any_letter, text));
      out.push_back(found.empty() ? fallback() : found);
    }
    return out;
  }

 private:
  std::vector<std::string> choices_of(const Json& document) const {
    std::vector<std::string> out;
    if (of_input_) {
      static const PythonRegex kBehindLetter(R"(\([A-Z]\)([^\n^(]*))");
      for (const Groups& groups : kBehindLetter.find_all(text_field(document, "input")))
        out.push_back(groups[0]);
    } else {
      const auto choices = document.find("choices");
      require<DataError>(
          choices != document.end() && choices->is_array() && !choices->empty() && choices->size() <= 26,
          "the filter multi_choice_regex needs 1 to 26 'choices' in the document");
      for (const Json& choice : *choices) {
        require<DataError>(choice.is_string(), "'choices': {} is not a text", dumped(choice));
        out.push_back(choice);
      }
    }
    return out;
  }

  // re.escape
  static std::string escaped(const std::string& text) {
    std::string out;
    for (const char c : text) {
      if (std::string_view("()[]{}?*+-|^$\\.&~# \t\n\r\v\f").find(c) != std::string_view::npos) out += '\\';
      out += c;
    }
    return out;
  }

  const bool of_input_;
};

class MapRegexFilter : public LenientFilter {
 public:
  explicit MapRegexFilter(const Json& arguments) : LenientFilter(arguments, any_of(arguments)) {
    for (const auto& [pattern, value] : arguments.at("regex_pattern_to_value").items())
      values_.emplace_back(PythonRegex(pattern), value);
  }

  Json apply(const Json& responses, const Json&) const override {
    Json out = Json::array();
    for (const Json& response : responses) {
      const std::string found = match(regex(), without_ignored(text_of_response(response)));
      Json value;
      if (!found.empty())
        for (const auto& [pattern, stands_for] : values_)
          if (!match(pattern, without_ignored(found)).empty()) {
            value = stands_for;
            break;
          }
      const bool none = value.is_null() || value == "" || value == false || value == 0;
      out.push_back(none ? Json(fallback()) : value);
    }
    return out;
  }

 private:
  static std::string any_of(const Json& arguments) {
    const auto it = arguments.find("regex_pattern_to_value");
    require<DataError>(it != arguments.end() && it->is_object() && !it->empty(),
                       "needs 'regex_pattern_to_value', a mapping from patterns to values");
    Groups patterns;
    for (const auto& [pattern, value] : it->items()) patterns.push_back(pattern);
    return fmt::format("{}", fmt::join(patterns, "|"));
  }

  std::vector<std::pair<PythonRegex, Json>> values_;
};

class NumberFilter : public LenientFilter {
 public:
  explicit NumberFilter(const Json& arguments)
      : LenientFilter(arguments, arguments.value("regex_pattern", std::string(kNumberBehindHashes))) {}

  Json apply(const Json& responses, const Json&) const override {
    // As in the harness: "six", "seven", "eight" and "nine" are no last words of a number.
    static const auto word = [](const char* tens, const char* eight, const char* more) {
      return fmt::format(
          "(?:zero|one|two|three|four|five|(?:twen|thir|for|fif|six|seven|nine)(?:{}teen|ty)|"
          "eight(?:{}een|y)|ten|eleven|twelve|fourteen|hundred|thousand|(?:m|b|tr)illion{})",
          tens, eight, more);
    };
    static const PythonRegex kNumber("((?:" + word("", "|", "") + word("|", "", "|[^\\S\r\n]|,|and|&") +
                                     "+)?" + word("", "", "") + ")");
    Json out = Json::array();
    for (const Json& response : responses) {
      const std::string text = text_of_response(response);
      std::string found = match(regex(), text);
      if (found.empty())
        if (const std::string words = match(kNumber, lowered(text)); !words.empty())
          if (const auto number = english_number(words)) found = std::to_string(*number);
      out.push_back(found.empty() ? fallback() : found);
    }
    return out;
  }
};

class WordSortFilter : public FilterAction {
 public:
  Json apply(const Json& responses, const Json& document) const override {
    const std::string input = text_field(document, "input");
    const auto parts = pieces_of(input, "List:");
    require<DataError>(parts.size() > 1, "the filter WordSortFilter needs 'List:' in the document's 'input'");
    Groups patterns;
    for (const std::string_view word : words_of(parts[1])) patterns.push_back(fmt::format("\\b{}\\b", word));
    const PythonRegex any_word(fmt::format("{}", fmt::join(patterns, "|")));
    Json out = Json::array();
    for (const Json& response : responses) {
      Groups words;
      for (const Groups& groups : any_word.find_all(text_of_response(response))) {
        std::erase(words, groups[0]);  // only its last place counts
        words.push_back(groups[0]);
      }
      out.push_back(fmt::format("{}", fmt::join(words, " ")));
    }
    return out;
  }
};

}  // namespace

std::unique_ptr<const FilterAction> regex_filter(const Json& arguments) {
  return std::make_unique<RegexFilter>(arguments);
}

std::unique_ptr<const FilterAction> multi_choice_filter(const Json& arguments, bool of_input) {
  return std::make_unique<MultiChoiceFilter>(arguments, of_input);
}

std::unique_ptr<const FilterAction> map_regex_filter(const Json& arguments) {
  return std::make_unique<MapRegexFilter>(arguments);
}

std::unique_ptr<const FilterAction> number_filter(const Json& arguments) {
  return std::make_unique<NumberFilter>(arguments);
}

std::unique_ptr<const FilterAction> word_sort_filter() { return std::make_unique<WordSortFilter>(); }

}  // namespace stoa::eval

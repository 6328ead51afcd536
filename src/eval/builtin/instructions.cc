#include "eval/builtin/instructions.h"

#include <algorithm>
#include <map>
#include <vector>

#include "base/error.h"
#include "base/nearest.h"
#include "base/utf8.h"
#include "curate/language/identifier.h"
#include "eval/builtin/document.h"
#include "eval/builtin/sentences.h"
#include "eval/python/regex.h"

namespace stoa::eval {
namespace {

// What an instruction asks for in addition to its name.
class Wanted {
 public:
  Wanted(const std::string& id, const Json& arguments) : id_(id), arguments_(arguments) {}

  std::string text(const char* name) const {
    const Json& value = need(name);
    require<DataError>(value.is_string(), "the instruction '{}': '{}' is {}, expected a text", id_, name,
                       dumped(value));
    return value.get<std::string>();
  }
  std::string stripped(const char* name) const { return std::string(strip(text(name))); }
  std::int64_t number(const char* name) const {
    const Json& value = need(name);
    require<DataError>(value.is_number(), "the instruction '{}': '{}' is {}, expected a number", id_, name,
                       dumped(value));
    return value.is_number_float() ? static_cast<std::int64_t>(value.get<double>())
                                   : value.get<std::int64_t>();
  }
  std::vector<std::string> texts(const char* name) const {
    const Json& value = need(name);
    require<DataError>(value.is_array(), "the instruction '{}': '{}' is {}, expected texts", id_, name,
                       dumped(value));
    return value.get<std::vector<std::string>>();
  }
  // Whether `count` is less than the number, or at least it, by the relation.
  bool holds(std::int64_t count, const char* number_name, const char* relation_name) const {
    const std::string relation = text(relation_name);
    require<DataError>(relation == "less than" || relation == "at least",
                       "the instruction '{}': '{}' is '{}', expected 'less than' or 'at least'", id_,
                       relation_name, relation);
    return relation == "less than" ? count < number(number_name) : count >= number(number_name);
  }

 private:
  const Json& need(const char* name) const {
    const auto it = arguments_.find(name);
    require<DataError>(it != arguments_.end() && !it->is_null(), "the instruction '{}' needs '{}'", id_,
                       name);
    return *it;
  }

  const std::string& id_;
  const Json& arguments_;
};

std::int64_t matches_in(const PythonRegex& pattern, std::string_view text) {
  return static_cast<std::int64_t>(pattern.find_all(text).size());
}

bool found_in(const std::string& pattern, std::string_view text) {
  return matches_in(PythonRegex(pattern, true), text) > 0;
}

// The language of most of a text; "": it cannot be told.
std::string language_of(const std::string& text) {
  static const auto identifier = curate::make_cld2();
  const auto found = identifier->identify(text);
  if (found.empty()) return "";
  const std::string& code = found.front().first;
  return code == "iw" ? "he" : code;
}

// A text without letters is in every language.
bool is_in_language(const std::string& text, const std::string& wanted) {
  static const PythonRegex kLetter(R"([^\W\d_])");
  return matches_in(kLetter, text) == 0 || language_of(text) == wanted;
}

std::string_view without_marks(std::string_view text, std::string_view left, std::string_view right) {
  while (!text.empty() && left.find(text.front()) != std::string_view::npos) text.remove_prefix(1);
  while (!text.empty() && right.find(text.back()) != std::string_view::npos) text.remove_suffix(1);
  return text;
}

bool has_bullets(const Wanted& wanted, const std::string& answer) {
  static const PythonRegex kStars(R"((?:\A|(?<=\n))\s*\*[^\*].*)"), kDashes(R"((?:\A|(?<=\n))\s*-.*)");
  return matches_in(kStars, answer) + matches_in(kDashes, answer) == wanted.number("num_bullets");
}

bool has_highlights(const Wanted& wanted, const std::string& answer) {
  static const PythonRegex kSingle(R"(\*[^\n\*]*\*)"), kDouble(R"(\*\*[^\n\*]*\*\*)");
  std::int64_t count = 0;
  for (const auto& groups : kSingle.find_all(answer))
    count += !strip(without_marks(groups[0], "*", "*")).empty();
  for (const auto& groups : kDouble.find_all(answer))
    count += !strip(std::string_view(groups[0]).substr(2, groups[0].size() - 4)).empty();
  return count >= wanted.number("num_highlights");
}

// Between dividers "***" with one white space around each at most.
std::vector<std::string_view> divided(std::string_view text) {
  std::vector<std::string_view> out;
  std::size_t from = 0;
  for (std::size_t at = text.find("***"); at != std::string_view::npos; at = text.find("***", from)) {
    const std::string_view before = text.substr(from, at - from);
    out.push_back(before.substr(0, before.size() - trailing_white_space(before)));
    from = at + 3;
    from += leading_white_space(text.substr(from));
  }
  out.push_back(text.substr(from));
  return out;
}

bool has_paragraphs(const Wanted& wanted, const std::string& answer) {
  const auto paragraphs = divided(answer);
  auto count = static_cast<std::int64_t>(paragraphs.size());
  for (std::size_t i = 0; i < paragraphs.size(); ++i) {
    if (!strip(paragraphs[i]).empty()) continue;
    if (i > 0 && i + 1 < paragraphs.size()) return false;
    --count;
  }
  return count == wanted.number("num_paragraphs");
}

bool has_postscript(const Wanted& wanted, const std::string& answer) {
  const std::string marker = wanted.stripped("postscript_marker");
  const std::string pattern = marker == "P.P.S"  ? R"(p\.\s?p\.\s?s)"
                              : marker == "P.S." ? R"(p\.\s?s\.)"
                                                 : lowered(marker);
  return matches_in(PythonRegex(pattern), lowered(answer)) > 0;
}

bool is_json(const std::string& answer) {
  std::string_view text = strip(answer);
  for (const std::string_view fence : {"```json", "```Json", "```JSON", "```"})
    if (text.starts_with(fence)) text.remove_prefix(fence.size());
  if (text.ends_with("```")) text.remove_suffix(3);
  return Json::accept(strip(text));
}

bool has_first_word(const Wanted& wanted, const std::string& answer) {
  const auto paragraphs = pieces_of(answer, "\n\n");
  std::int64_t count = 0;
  for (const std::string_view paragraph : paragraphs) count += !strip(paragraph).empty();
  const std::int64_t number = wanted.number("nth_paragraph");
  if (number < 1 || number > count) return false;
  const std::string_view paragraph = strip(paragraphs[static_cast<std::size_t>(number - 1)]);
  if (paragraph.empty()) return false;
  std::string_view word = without_marks(without_marks(first_word(paragraph), "'", ""), "\"", "");
  word = word.substr(0, word.find_first_of(".,?!'\""));
  return count == wanted.number("num_paragraphs") && lowered(word) == lowered(wanted.text("first_word"));
}

bool has_two_answers(const std::string& answer) {
  std::vector<std::string_view> given;
  const auto parts = pieces_of(answer, "******");
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string_view part = strip(parts[i]);
    if (!part.empty())
      given.push_back(part);
    else if (i > 0 && i + 1 < parts.size())
      return false;
  }
  return given.size() == 2 && given[0] != given[1];
}

bool has_title(const std::string& answer) {
  static const PythonRegex kTitle(R"(<<[^\n]+>>)");
  const auto titles = kTitle.find_all(answer);
  return std::any_of(titles.begin(), titles.end(),
                     [](const auto& groups) { return !strip(without_marks(groups[0], "<", ">")).empty(); });
}

std::int64_t times_of_letter(const std::string& letter, const std::string& answer) {
  const std::string text = lowered(answer), wanted = lowered(strip(letter));
  if (wanted.empty()) return 0;
  return static_cast<std::int64_t>(pieces_of(text, wanted).size()) - 1;
}

std::int64_t words_in_capitals(const std::string& answer) {
  const auto words = SentenceCutter::english().words(answer);
  return std::count_if(words.begin(), words.end(), [](const std::string& word) { return is_upper(word); });
}

using Check = bool (*)(const Wanted& wanted, const std::string& answer);

const std::map<std::string, Check>& instruction_checks() {
  static const std::map<std::string, Check> table{
      {"keywords:existence",
       [](const Wanted& w, const std::string& a) {
         const auto words = w.texts("keywords");
         return std::all_of(words.begin(), words.end(), [&](const auto& word) { return found_in(word, a); });
       }},
      {"keywords:frequency",
       [](const Wanted& w, const std::string& a) {
         return w.holds(matches_in(PythonRegex(w.stripped("keyword"), true), a), "frequency", "relation");
       }},
      {"keywords:forbidden_words",
       [](const Wanted& w, const std::string& a) {
         const auto words = w.texts("forbidden_words");
         return std::none_of(words.begin(), words.end(),
                             [&](const auto& word) { return found_in("\\b" + word + "\\b", a); });
       }},
      {"keywords:letter_frequency",
       [](const Wanted& w, const std::string& a) {
         return w.holds(times_of_letter(w.text("letter"), a), "let_frequency", "let_relation");
       }},
      {"language:response_language",
       [](const Wanted& w, const std::string& a) { return is_in_language(a, w.text("language")); }},
      {"length_constraints:number_sentences",
       [](const Wanted& w, const std::string& a) {
         return w.holds(std::ssize(SentenceCutter::english().sentences(a)), "num_sentences", "relation");
       }},
      {"length_constraints:number_paragraphs", has_paragraphs},
      {"length_constraints:number_words",
       [](const Wanted& w, const std::string& a) {
         static const PythonRegex kWord(R"(\w+)");
         return w.holds(matches_in(kWord, a), "num_words", "relation");
       }},
      {"length_constraints:nth_paragraph_first_word", has_first_word},
      {"detectable_content:number_placeholders",
       [](const Wanted& w, const std::string& a) {
         static const PythonRegex kPlaceholder(R"(\[.*?\])");
         return matches_in(kPlaceholder, a) >= w.number("num_placeholders");
       }},
      {"detectable_content:postscript", has_postscript},
      {"detectable_format:number_bullet_lists", has_bullets},
      {"detectable_format:constrained_response",
       [](const Wanted&, const std::string& a) {
         return a.find("My answer is yes.") != std::string::npos ||
                a.find("My answer is no.") != std::string::npos ||
                a.find("My answer is maybe.") != std::string::npos;
       }},
      {"detectable_format:number_highlighted_sections", has_highlights},
      {"detectable_format:multiple_sections",
       [](const Wanted& w, const std::string& a) {
         const PythonRegex section(R"(\s?)" + w.stripped("section_spliter") + R"(\s?\d+\s?)");
         return matches_in(section, a) >= w.number("num_sections");
       }},
      {"detectable_format:json_format", [](const Wanted&, const std::string& a) { return is_json(a); }},
      {"detectable_format:title", [](const Wanted&, const std::string& a) { return has_title(a); }},
      {"combination:two_responses", [](const Wanted&, const std::string& a) { return has_two_answers(a); }},
      {"combination:repeat_prompt",
       [](const Wanted& w, const std::string& a) {
         return lowered(strip(a)).starts_with(lowered(w.stripped("prompt_to_repeat")));
       }},
      {"startend:end_checker",
       [](const Wanted& w, const std::string& a) {
         return lowered(without_marks(strip(a), "\"", "\"")).ends_with(lowered(w.stripped("end_phrase")));
       }},
      {"change_case:capital_word_frequency",
       [](const Wanted& w, const std::string& a) {
         return w.holds(words_in_capitals(a), "capital_frequency", "capital_relation");
       }},
      {"change_case:english_capital",
       [](const Wanted&, const std::string& a) { return is_upper(a) && is_in_language(a, "en"); }},
      {"change_case:english_lowercase",
       [](const Wanted&, const std::string& a) { return is_lower(a) && is_in_language(a, "en"); }},
      {"punctuation:no_comma",
       [](const Wanted&, const std::string& a) { return a.find(',') == std::string::npos; }},
      {"startend:quotation",
       [](const Wanted&, const std::string& a) {
         const std::string_view text = strip(a);
         return text.size() > 1 && text.front() == '"' && text.back() == '"';
       }},
  };
  return table;
}

// Nothing is left of one line.
std::string_view without_first_line(std::string_view text) {
  const std::size_t end = text.find('\n');
  return end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
}

std::string_view without_last_line(std::string_view text) {
  const std::size_t begin = text.rfind('\n');
  return begin == std::string_view::npos ? std::string_view() : text.substr(0, begin);
}

// The forms of an answer that count loosely, besides the answer itself.
std::vector<std::string> other_forms_of(const std::string& answer) {
  std::vector<std::string> out{replaced(answer, "*", "")};
  const std::string_view no_first = without_first_line(answer);
  for (const std::string_view lines : {no_first, without_last_line(answer), without_last_line(no_first)}) {
    out.emplace_back(strip(lines));
    out.push_back(replaced(out.back(), "*", ""));
  }
  return out;
}

}  // namespace

bool follows_instruction(const std::string& id, const Json& arguments, const std::string& answer) {
  const auto it = instruction_checks().find(id);
  if (it == instruction_checks().end()) {
    std::vector<std::string> known;
    for (const auto& [name, check] : instruction_checks()) known.push_back(name);
    fail<DataError>("the instruction '{}' is not known{}", id, did_you_mean(id, known));
  }
  return !strip(answer).empty() && it->second(Wanted(id, arguments), answer);
}

Json ifeval_results(const Json& doc, const Json& answers) {
  const std::string answer = answers.at(0);
  const Json &ids = list_field(doc, "instruction_id_list"), &arguments = list_field(doc, "kwargs");
  require<DataError>(ids.size() == arguments.size(), "{} instructions with arguments of {}", ids.size(),
                     arguments.size());
  const auto forms = other_forms_of(answer);
  Json strict = Json::array(), loose = Json::array();
  bool all_strict = true, all_loose = true;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::string id = ids[i];
    const bool exactly = follows_instruction(id, arguments[i], answer);
    const bool somehow = exactly || std::any_of(forms.begin(), forms.end(), [&](const std::string& form) {
                           return follows_instruction(id, arguments[i], form);
                         });
    strict.push_back(exactly);
    loose.push_back(somehow);
    all_strict = all_strict && exactly;
    all_loose = all_loose && somehow;
  }
  return {{"prompt_level_strict_acc", all_strict},
          {"inst_level_strict_acc", strict},
          {"prompt_level_loose_acc", all_loose},
          {"inst_level_loose_acc", loose}};
}

}  // namespace stoa::eval

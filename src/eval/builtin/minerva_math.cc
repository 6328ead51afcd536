#include "eval/builtin/minerva_math.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "eval/builtin/document.h"
#include "eval/builtin/math_answers.h"
#include "eval/python/regex.h"

namespace stoa::eval {
namespace {

bool is_letters(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); });
}

// What is left out of answers: units and words, and LaTeX that says nothing.
constexpr std::string_view kLeftOut[]{"square",       "ways",
                                      "integers",     "dollars",
                                      "mph",          "inches",
                                      "ft",           "hours",
                                      "km",           "units",
                                      "\\ldots",      "sue",
                                      "points",       "feet",
                                      "minutes",      "digits",
                                      "cents",        "degrees",
                                      "cm",           "gm",
                                      "pounds",       "meters",
                                      "meals",        "edges",
                                      "students",     "childrentickets",
                                      "multiples",    "\\text{s}",
                                      "\\text{.}",    "\\text{\ns}",
                                      "\\text{}^2",   "\\text{}^3",
                                      "\\text{\n}",   "\\text{}",
                                      "\\mathrm{th}", "^\\circ",
                                      "^{\\circ}",    "\\;",
                                      ",\\!",         "{,}",
                                      "\"",           "\\dots"};

// `text` without `word`, but not within the name of a LaTeX command.
std::string without_word(const std::string& text, const std::string& word) {
  std::string out, rest;
  const auto flush = [&] { out += replaced(std::exchange(rest, {}), word, ""); };
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i + 1;
    while (text[i] == '\\' && end < text.size() && is_letters(text.substr(end, 1))) ++end;
    if (text[i] == '\\' && end > i + 1) {
      flush();
      out.append(text, i, end - i);
    } else {
      rest.append(text, i, end - i);
    }
    i = end;
  }
  flush();
  return out;
}

// Commas between groups of three digits.
bool has_thousands(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  const auto groups = pieces_of(text, ",");
  if (groups.size() < 2 || !is_digits(groups[0]) || groups[0].size() > 3) return false;
  return std::all_of(groups.begin() + 1, groups.end(),
                     [](std::string_view group) { return group.size() == 3 && is_digits(group); });
}

}  // namespace

std::string minerva_normal_answer(std::string text) {
  static const std::vector<PythonRegex> kWords = [] {
    std::vector<PythonRegex> out;
    for (const std::string_view word : kLeftOut)
      if (is_letters(word)) out.emplace_back("(?<!\\\\)\\b" + std::string(word) + "\\b");
    return out;
  }();
  static const RegexReplacements kForms{
      {R"((.*?)(\$)(.*?)(\$)(.*))", R"($\3$)"},     {R"((\\text\{)(.*?)(\}))", R"(\2)"},
      {R"((\\textbf\{)(.*?)(\}))", R"(\2)"},        {R"((\\overline\{)(.*?)(\}))", R"(\2)"},
      {R"((\\boxed\{)(.*)(\}))", R"(\2)"},          {R"((frac)([^{])(.))", R"(frac{\2}{\3})"},
      {R"((sqrt)(\[[^\]]*\])(\w))", R"(\1\2{\3})"}, {R"((sqrt)(?!\[)([^{]))", R"(sqrt{\2})"}};
  text = std::string(pieces_of(text, "=").back());
  for (const PythonRegex& word : kWords) text = word.substitute(text, "");
  for (const auto& [from, to] : {std::pair{"an ", ""},
                                 {"a ", ""},
                                 {".$", "$"},
                                 {"\\$", ""},
                                 {"\\ ", ""},
                                 {" ", ""},
                                 {"mbox", "text"},
                                 {",\\text{and}", ","},
                                 {"\\text{and}", ","},
                                 {"\\text{m}", "\\text{}"}})
    text = replaced(text, from, to);
  for (const std::string_view word : kLeftOut)
    text = is_letters(word) ? without_word(text, std::string(word)) : replaced(text, word, "");
  text = replaced(kForms(text), "$", "");
  return has_thousands(text) ? replaced(text, ",", "") : text;
}

std::string minerva_final_answer(const std::string& text) {
  static const PythonRegex kFinal("Final Answer: The final answer is(.*?). I hope it is correct.");
  const auto found = kFinal.find_all(text + "I hope it is correct.");
  return found.empty() ? "[invalidanswer]" : std::string(strip(found[0][0]));
}

Json minerva_document(const Json& doc) {
  const std::string solution = text_field(doc, "solution");
  return {{"problem", text_field(doc, "problem")},
          {"solution", solution},
          {"answer", minerva_normal_answer(boxed_answer(solution))}};
}

Json minerva_text(const Json& doc) { return "Problem:\n" + text_field(doc, "problem") + "\n\nSolution:"; }

Json minerva_results(const Json& doc, const Json& answers) {
  const std::string answer = minerva_normal_answer(minerva_final_answer(answers.at(0)));
  return {{"exact_match_text", !answer.empty() && answer == text_field(doc, "answer") ? 1 : 0}};
}

Json minerva_samples() {
  return Json::parse(R"json([
{"problem": "Find the domain of the expression  $\\frac{\\sqrt{x-2}}{\\sqrt{5-x}}$.", "solution": "The expressions inside each square root must be non-negative. Therefore, $x-2 \\ge 0$, so $x\\ge2$, and $5 - x \\ge 0$, so $x \\le 5$. Also, the denominator cannot be equal to zero, so $5-x>0$, which gives $x<5$. Therefore, the domain of the expression is $\\boxed{[2,5)}$.\nFinal Answer: The final answer is $[2,5)$. I hope it is correct.", "few_shot": "1"},
{"problem": "If $\\det \\mathbf{A} = 2$ and $\\det \\mathbf{B} = 12,$ then find $\\det (\\mathbf{A} \\mathbf{B}).$", "solution": "We have that $\\det (\\mathbf{A} \\mathbf{B}) = (\\det \\mathbf{A})(\\det \\mathbf{B}) = (2)(12) = \\boxed{24}.$\nFinal Answer: The final answer is $24$. I hope it is correct.", "few_shot": "1"},
{"problem": "Terrell usually lifts two 20-pound weights 12 times. If he uses two 15-pound weights instead, how many times must Terrell lift them in order to lift the same total weight?", "solution": "If Terrell lifts two 20-pound weights 12 times, he lifts a total of $2\\cdot 12\\cdot20=480$ pounds of weight.  If he lifts two 15-pound weights instead for $n$ times, he will lift a total of $2\\cdot15\\cdot n=30n$ pounds of weight.  Equating this to 480 pounds, we can solve for $n$:\n\\begin{align*}\n30n&=480\\\\\n\\Rightarrow\\qquad n&=480/30=\\boxed{16}\n\\end{align*}\nFinal Answer: The final answer is $16$. I hope it is correct.", "few_shot": "1"},
{"problem": "If the system of equations\n\n\\begin{align*}\n6x-4y&=a,\\\\\n6y-9x &=b.\n\\end{align*}has a solution $(x, y)$ where $x$ and $y$ are both nonzero,\nfind $\\frac{a}{b},$ assuming $b$ is nonzero.", "solution": "If we multiply the first equation by $-\\frac{3}{2}$, we obtain\n\n$$6y-9x=-\\frac{3}{2}a.$$Since we also know that $6y-9x=b$, we have\n\n$$-\\frac{3}{2}a=b\\Rightarrow\\frac{a}{b}=\\boxed{-\\frac{2}{3}}.$$\nFinal Answer: The final answer is $-\\frac{2}{3}$. I hope it is correct.", "few_shot": "1"}])json");
}

}  // namespace stoa::eval

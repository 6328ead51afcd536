#include "eval/builtin/math_answers.h"

#include <algorithm>
#include <optional>
#include <string>

#include "base/error.h"
#include "eval/builtin/document.h"

namespace stoa::eval {
namespace {

// What the harness's replacements raise on; the texts are then compared as they are.
struct NotNormal {};

// "\boxed{…}" or "\fbox{…}" with its braces, the last one.
std::optional<std::string> last_boxed(const std::string& text) {
  if (text.find("\\boxed ") != std::string::npos) {
    const std::string_view last = pieces_of(text, "\\boxed ").back();
    return "\\boxed " + std::string(pieces_of(last, "$").front());
  }
  std::size_t begin = text.rfind("\\boxed");
  if (begin == std::string::npos) begin = text.rfind("\\fbox");
  if (begin == std::string::npos) return std::nullopt;
  int open = 0;
  for (std::size_t i = begin; i < text.size(); ++i) {
    if (text[i] == '{') ++open;
    if (text[i] == '}' && --open == 0) return text.substr(begin, i + 1 - begin);
  }
  return std::nullopt;
}

// \frac1b and \frac12 with braces.
std::string braced_fractions(const std::string& text) {
  const auto pieces = pieces_of(text, "\\frac");
  std::string out(pieces[0]);
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    out += "\\frac";
    const std::string_view piece = pieces[i], first = first_character(piece);
    if (piece.empty()) throw NotNormal();
    if (first == "{") {
      out += piece;
      continue;
    }
    const std::string_view second = first_character(piece.substr(first.size()));
    if (second.empty()) return text;
    out += "{" + std::string(first) + "}";
    out += second == "{" ? "{" : "{" + std::string(second) + "}";
    out += piece.substr(first.size() + second.size());
  }
  return out;
}

std::string braced_roots(const std::string& text) {
  const auto pieces = pieces_of(text, "\\sqrt");
  std::string out(pieces[0]);
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    if (pieces[i].empty()) throw NotNormal();
    const std::string_view first = first_character(pieces[i]);
    out += first == "{" ? "\\sqrt" + std::string(pieces[i])
                        : "\\sqrt{" + std::string(first) + "}" + std::string(pieces[i].substr(first.size()));
  }
  return out;
}

// A text that int() reads; whether str() of the number is that text.
bool is_plain_integer(std::string_view text) {
  std::string_view digits = text;
  if (digits.starts_with('-') || digits.starts_with('+')) digits.remove_prefix(1);
  bool underscores = false;
  std::string bare;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (digits[i] == '_' && i > 0 && i + 1 < digits.size() && digits[i - 1] != '_')
      underscores = true;
    else
      bare += digits[i];
  }
  if (!is_digits(bare)) throw NotNormal();
  return !underscores && !text.starts_with('+') && text != "-0" && (bare.size() == 1 || bare[0] != '0');
}

std::string slash_as_fraction(const std::string& text) {
  const auto sides = pieces_of(text, "/");
  if (sides.size() != 2) return text;
  const bool plain = is_plain_integer(sides[0]);
  if (!is_plain_integer(sides[1]) || !plain) return text;
  return "\\frac{" + std::string(sides[0]) + "}{" + std::string(sides[1]) + "}";
}

std::string normal_form(std::string text) {
  for (const auto& [from, to] : {std::pair{"\n", ""},
                                 {"\\!", ""},
                                 {"\\\\", "\\"},
                                 {"tfrac", "frac"},
                                 {"dfrac", "frac"},
                                 {"\\left", ""},
                                 {"\\right", ""},
                                 {"^{\\circ}", ""},
                                 {"^\\circ", ""},
                                 {"\\$", ""}})
    text = replaced(text, from, to);
  const auto units = pieces_of(text, "\\text{ ");
  if (units.size() > 2) throw NotNormal();
  text = std::string(units[0]);
  text = replaced(replaced(replaced(text, "\\%", ""), " .", " 0."), "{.", "{0.");
  if (text.empty()) return text;
  if (text[0] == '.') text = "0" + text;
  if (const auto sides = pieces_of(text, "="); sides.size() == 2 && code_points(sides[0]) <= 2)
    text = std::string(sides[1]);
  text = braced_fractions(replaced(braced_roots(text), " ", ""));
  if (text == "0.5") text = "\\frac{1}{2}";
  return slash_as_fraction(text);
}

bool same_answer(const std::string& a, const std::string& b) {
  try {
    return normal_form(a) == normal_form(b);
  } catch (const NotNormal&) {
    return a == b;
  }
}

}  // namespace

std::string boxed_answer(const std::string& solution) {
  const auto boxed = last_boxed(solution);
  require<DataError>(boxed.has_value(), "the solution has no \\boxed answer");
  if (boxed->starts_with("\\boxed ")) return boxed->substr(7);
  require<DataError>(boxed->starts_with("\\boxed{") && boxed->ends_with("}"),
                     "the solution's answer '{}' is not of the form \\boxed{{…}}", *boxed);
  return boxed->substr(7, boxed->size() - 8);
}

Json math_document(const Json& doc) {
  Json out = doc;
  out["answer"] = boxed_answer(text_field(doc, "solution"));
  return out;
}

Json math_results(const Json& doc, const Json& answers) {
  std::string answer = answers.at(0);
  const std::size_t first = answer.find('$'), last = answer.rfind('$');
  if (first != last) answer = answer.substr(first + 1, last - first - 1);
  return {{"exact_match", same_answer(answer, boxed_answer(text_field(doc, "solution"))) ? 1 : 0}};
}

}  // namespace stoa::eval

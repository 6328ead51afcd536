#include "eval/builtin/reading.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "base/error.h"
#include "eval/builtin/document.h"
#include "eval/python/regex.h"

namespace stoa::eval {
namespace {

std::string squeezed(std::string_view text) {
  std::string out;
  for (const std::string_view word : words_of(text)) out += (out.empty() ? "" : " ") + std::string(word);
  return out;
}

std::string without_articles(std::string_view text) {
  static const PythonRegex kArticles(R"(\b(a|an|the)\b)");
  return kArticles.substitute(text, " ");
}

std::string without_ascii_punctuation(std::string_view text) {
  std::string out(text);
  std::erase_if(out, [](char c) { return kAsciiPunctuation.find(c) != std::string_view::npos; });
  return out;
}

// --- DROP
// Spans in normal form, each with the set of its words.
struct Bags {
  std::vector<std::string> spans;
  std::vector<std::set<std::string>> words;
};

std::string drop_normal_form(const std::string& answer) {
  std::string out;
  std::string text = lowered(answer);
  std::replace(text.begin(), text.end(), '-', ' ');
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    std::string word = text.substr(at, end - at);
    at = end + 1;
    if (!python_float(word)) word = without_ascii_punctuation(word);
    if (const auto number = python_float(word)) word = str_of(Json(*number));
    word = squeezed(without_articles(word));
    if (!word.empty()) out += (out.empty() ? "" : " ") + word;
  }
  return out;
}

Bags bags_of(const std::vector<std::string>& answers) {
  Bags out;
  for (const std::string& answer : answers) {
    out.spans.push_back(drop_normal_form(answer));
    auto& words = out.words.emplace_back();
    for (const std::string_view word : words_of(out.spans.back())) words.emplace(word);
  }
  return out;
}

std::size_t common_words(const std::set<std::string>& a, const std::set<std::string>& b) {
  return static_cast<std::size_t>(
      std::count_if(a.begin(), a.end(), [&](const std::string& word) { return b.contains(word); }));
}

double bag_f1(const std::set<std::string>& answer, const std::set<std::string>& gold) {
  const auto share = [common = common_words(answer, gold)](const std::set<std::string>& of) {
    return of.empty() ? 1.0 : static_cast<double>(common) / static_cast<double>(of.size());
  };
  const double precision = share(answer), recall = share(gold);
  return precision == 0 && recall == 0 ? 0.0 : 2 * precision * recall / (precision + recall);
}

// A gold answer with numbers needs one of them.
bool numbers_fit(const std::set<std::string>& gold, const std::set<std::string>& answer) {
  bool any = false;
  for (const std::string& word : gold)
    if (python_float(word)) {
      any = true;
      if (answer.contains(word)) return true;
    }
  return !any;
}

std::vector<std::string> drop_spans(const Json& answer) {
  if (const Json& number = answer.at("number"); number != "") return {str_of(number)};
  if (const Json& spans = answer.at("spans"); !spans.empty()) return spans.get<std::vector<std::string>>();
  const Json& date = answer.at("date");
  const std::string text = date.at("day").get<std::string>() + " " + date.at("month").get<std::string>() +
                           " " + date.at("year").get<std::string>();
  return {std::string(strip(text))};
}

// --- SQuAD
struct SquadScore {
  std::string answer;
  bool answerable = false;
  double exact = 0, f1 = 0, no_answer_probability = 0;
};

SquadScore squad_score(const Json& pair) {
  const Json &predicted = pair.at(0), &gold = pair.at(1).at("answers").at("text");
  SquadScore out{predicted.at("prediction_text"), !gold.empty(), 0, 0, predicted.at("no_answer_probability")};
  std::vector<std::string> golds;
  for (const Json& one : gold)
    if (!squad_normal_form(one).empty()) golds.push_back(one);
  if (golds.empty()) golds.emplace_back();
  for (const std::string& one : golds) {
    out.exact = std::max(out.exact, squad_normal_form(one) == squad_normal_form(out.answer) ? 1.0 : 0.0);
    out.f1 = std::max(out.f1, squad_f1(one, out.answer));
  }
  return out;
}

// Answers are given up in the order of the probability that there is none; the best sum on the way.
double best_squad_figure(std::vector<SquadScore> scores, double SquadScore::*score) {
  std::stable_sort(scores.begin(), scores.end(), [](const SquadScore& a, const SquadScore& b) {
    return a.no_answer_probability < b.no_answer_probability;
  });
  double sum = 0;
  for (const SquadScore& s : scores) sum += s.answerable ? 0 : 1;
  double best = sum;
  for (const SquadScore& s : scores) {
    sum += s.answerable ? s.*score : s.answer.empty() ? 0 : -1;
    best = std::max(best, sum);
  }
  return 100.0 * best / static_cast<double>(scores.size());
}

}  // namespace

std::string squad_normal_form(const std::string& text) {
  return squeezed(without_articles(without_ascii_punctuation(lowered(text))));
}

double squad_f1(const std::string& gold, const std::string& answer) {
  const std::string a = squad_normal_form(gold), b = squad_normal_form(answer);
  const auto theirs = words_of(a), mine = words_of(b);
  if (theirs.empty() || mine.empty()) return theirs == mine ? 1 : 0;
  std::map<std::string_view, int> left;
  for (const auto word : theirs) ++left[word];
  int same = 0;
  for (const auto word : mine)
    if (left[word] > 0) --left[word], ++same;
  if (same == 0) return 0;
  const double precision = static_cast<double>(same) / static_cast<double>(mine.size()),
               recall = static_cast<double>(same) / static_cast<double>(theirs.size());
  return (2 * precision * recall) / (precision + recall);
}

Json drop_document(const Json& doc) {
  Json out = doc;
  out["id"] = doc.at("query_id");
  Json answers = Json::array({drop_spans(doc.at("answer"))});
  const Json& validated = doc.at("validated_answers");
  for (std::size_t i = 0; i < validated.at("number").size(); ++i) {
    const Json spans = drop_spans(Json{{"number", validated["number"][i]},
                                       {"date", validated.at("date").at(i)},
                                       {"spans", validated.at("spans").at(i)}});
    if (std::find(answers.begin(), answers.end(), spans) == answers.end()) answers.push_back(spans);
  }
  out["answers"] = std::move(answers);
  return out;
}

Json drop_results(const Json& doc, const Json& answers) {
  const Bags mine = bags_of({answers.at(0).get<std::string>()});
  double best_exact = 0, best_f1 = 0;
  for (const Json& one : list_field(doc, "answers")) {
    const auto gold = one.get<std::vector<std::string>>();
    require<DataError>(!gold.empty(), "a gold answer without a span");
    if (strip(gold[0]).empty()) continue;
    const Bags theirs = bags_of(gold);
    // There is one answer, so it is aligned with the span that fits it best, and the others have nothing.
    double f1 = 0;
    for (const auto& words : theirs.words)
      if (numbers_fit(words, mine.words[0])) f1 = std::max(f1, bag_f1(mine.words[0], words));
    f1 /= static_cast<double>(theirs.words.size());
    best_exact = std::max(best_exact, theirs.spans == mine.spans ? 1.0 : 0.0);
    best_f1 = std::max(best_f1, std::nearbyint(f1 * 100) / 100);
  }
  return {{"em", best_exact}, {"f1", best_f1}};
}

Json squad_results(const Json& doc, const Json& answers) {
  const Json pair = Json::array({Json{{"id", doc.at("id")},
                                      {"prediction_text", answers.at(0)},
                                      {"no_answer_probability", std::exp(answers.at(1).at(0).get<double>())}},
                                 Json{{"id", doc.at("id")}, {"answers", doc.at("answers")}}});
  Json out = Json::object();
  for (const char* name : kSquadFigures) out[name] = pair;
  return out;
}

double squad_figure(std::string_view name, const std::vector<Json>& pairs) {
  std::vector<SquadScore> scores;
  std::map<std::string, std::size_t> places;  // of two questions with one id the second counts
  for (const Json& pair : pairs) {
    const auto [it, added] = places.try_emplace(dumped(pair.at(0).at("id")), scores.size());
    if (added)
      scores.push_back(squad_score(pair));
    else
      scores[it->second] = squad_score(pair);
  }
  double SquadScore::*const score = name.ends_with("f1") ? &SquadScore::f1 : &SquadScore::exact;
  if (name.starts_with("best_")) return best_squad_figure(scores, score);
  double sum = 0, count = 0;
  for (const SquadScore& s : scores)
    if (name.find('_') == std::string_view::npos || s.answerable == name.starts_with("HasAns_"))
      sum += s.*score, ++count;
  return count == 0 ? 0 : 100.0 * sum / count;
}

}  // namespace stoa::eval

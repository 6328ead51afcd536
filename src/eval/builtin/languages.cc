#include "eval/builtin/languages.h"

#include <iterator>
#include <utility>

#include "base/error.h"
#include "eval/builtin/document.h"
#include "eval/builtin/reading.h"
#include "eval/python/text.h"

namespace stoa::eval {
namespace {

// "because" and "therefore".
struct Connectors {
  const char *language, *cause, *effect;
};
constexpr Connectors kConnectors[] = {
    {"et", "sest", "seetõttu"}, {"ht", "poukisa", "donk sa"}, {"id", "karena", "maka"},
    {"it", "perché", "quindi"}, {"qu", "imataq", "chaymi"},   {"sw", "kwa sababu", "kwa hiyo"},
    {"ta", "காரணமாக", "எனவே"},  {"th", "เพราะ", "ดังนั้น"},      {"tr", "çünkü", "bu yüzden"},
    {"vi", "bởi vì", "vì vậy"}, {"zh", "因为", "所以"}};

std::string without_last_character(std::string_view text) {
  while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xC0) == 0x80) text.remove_suffix(1);
  if (!text.empty()) text.remove_suffix(1);
  return std::string(text);
}

template <std::size_t kLanguage>
Json xcopa_text(const Json& doc) {
  const std::string question = text_field(doc, "question"), premise = text_field(doc, "premise");
  require<DataError>(question == "cause" || question == "effect",
                     "the question '{}' is neither cause nor effect", question);
  const Connectors& c = kConnectors[kLanguage];
  return without_last_character(strip(premise)) + " " + (question == "cause" ? c.cause : c.effect);
}

Json xcopa_choice(const Json& doc) {
  Json out = Json::array();
  for (const char* name : {"choice1", "choice2"}) {
    const std::string choice = text_field(doc, name);
    const std::string_view first = first_character(choice);
    require<DataError>(!first.empty(), "the document's {} is empty", name);
    out.push_back(lowered(first) + choice.substr(first.size()));
  }
  return out;
}

template <std::size_t... kLanguages>
std::map<std::string, DocFunction> xcopa_table(std::index_sequence<kLanguages...>) {
  return {{"xcopa.doc_to_choice", xcopa_choice},
          {std::string("xcopa.doc_to_text_") + kConnectors[kLanguages].language, xcopa_text<kLanguages>}...};
}

}  // namespace

const std::map<std::string, DocFunction>& xcopa_functions() {
  static const auto table = xcopa_table(std::make_index_sequence<std::size(kConnectors)>());
  return table;
}

Json xquad_results(const Json& doc, const Json& answers) {
  const std::string gold = doc.at("answers").at("text").at(0), answer = answers.at(0);
  return {{"f1", squad_f1(gold, answer)},
          {"exact_match", squad_normal_form(gold) == squad_normal_form(answer) ? 1 : 0}};
}

}  // namespace stoa::eval

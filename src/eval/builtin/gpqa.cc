#include "eval/builtin/gpqa.h"

#include <algorithm>

#include "base/error.h"
#include "eval/python/random.h"

namespace stoa::eval {
namespace {

std::string cleaned_answer(const Json& doc, const char* name) {
  const auto it = doc.find(name);
  require<DataError>(it != doc.end() && (it->is_null() || it->is_string()), "the document has no text '{}'",
                     name);
  if (it->is_null()) return " ";
  return replaced(replaced(strip(it->get_ref<const std::string&>()), " [title]", ". "), "  ", " ");
}

void shuffle_answers(std::vector<Json>& docs, std::uint64_t seed, bool with_list) {
  PythonRandom random(seed);
  for (Json& doc : docs) {
    std::vector<std::string> choices;
    for (const char* name :
         {"Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3", "Correct Answer"})
      choices.push_back(cleaned_answer(doc, name));
    const std::string right = choices.back();
    random.shuffle(choices);
    for (std::size_t i = 0; i < choices.size(); ++i) doc["choice" + std::to_string(i + 1)] = choices[i];
    if (with_list) doc["choices"] = choices;
    const auto at = std::find(choices.begin(), choices.end(), right) - choices.begin();
    doc["answer"] = std::string("(") + static_cast<char>('A' + at) + ")";
  }
}

}  // namespace

void gpqa_documents(std::vector<Json>& docs, std::uint64_t python_seed) {
  shuffle_answers(docs, python_seed, false);
}

void gpqa_n_shot_documents(std::vector<Json>& docs, std::uint64_t) { shuffle_answers(docs, 42, false); }

void gpqa_generative_documents(std::vector<Json>& docs, std::uint64_t python_seed) {
  shuffle_answers(docs, python_seed, true);
}

}  // namespace stoa::eval

#include "eval/builtin/mmlu_pro.h"

#include <algorithm>

#include "eval/builtin/document.h"

namespace stoa::eval {

Json mmlu_pro_text(const Json& doc) {
  constexpr std::string_view kLetters = "ABCDEFGHIJ";
  const Json& options = list_field(doc, "options");
  std::string out = "Question:\n" + text_field(doc, "question") + "\nOptions:\n";
  for (std::size_t i = 0; i < std::min(options.size(), kLetters.size()); ++i) {
    out += kLetters[i];
    out += ". " + std::string(strip(options[i].get<std::string>())) + "\n";
  }
  return out + "Answer: Let's think step by step.";
}

Json mmlu_pro_shot_target(const Json& doc) {
  return replaced(text_field(doc, "cot_content"), "A: Let's think step by step. ", "");
}

}  // namespace stoa::eval

// MATH as Minerva was asked (Lewkowycz et al. 2022, appendix D): four worked problems, and final answers that
// are compared after a row of replacements. lm-evaluation-harness then asks a computer algebra system whether
// texts that differ mean the same; here they do not.
#pragma once

#include "eval/python/text.h"

namespace stoa::eval {

// An answer after all replacements.
std::string minerva_normal_answer(std::string text);
// What stands behind "Final Answer: The final answer is"; "[invalidanswer]": nothing does.
std::string minerva_final_answer(const std::string& text);

Json minerva_document(const Json& doc);
Json minerva_text(const Json& doc);
// {"exact_match_text": 0 or 1}.
Json minerva_results(const Json& doc, const Json& answers);
Json minerva_samples();

}  // namespace stoa::eval

// Summaries of news (CNN/DailyMail, XSum) by ROUGE.
#pragma once

#include "eval/python/text.h"

namespace stoa::eval {

// rouge1, rouge2 and rougeL of stemmed words, and the number of words: against the field `highlights`, and
// against `summary`.
Json highlights_results(const Json& doc, const Json& answers);
Json summary_results(const Json& doc, const Json& answers);

}  // namespace stoa::eval

// Filters that take an answer out of a text by a regular expression (lm_eval/filters/extraction.py and the
// classes of lm_eval/tasks/bbh). Arguments: regex_pattern, group_select (which match, from the end if
// negative), fallback (where nothing is found); of all but `regex` also ignore_case, ignore_punctuation,
// regexes_to_ignore. DataError: a pattern that cannot be read.
#pragma once

#include <memory>

#include "eval/metrics/filter_action.h"

namespace stoa::eval {

std::unique_ptr<const FilterAction> regex_filter(const Json& arguments);
// The letter of the choice that is named: by the pattern, else by the text of a choice, else by a letter
// behind a colon. The choices are the document's list 'choices', or stand behind (A), (B), … in its 'input'.
std::unique_ptr<const FilterAction> multi_choice_filter(const Json& arguments, bool of_input);
// The value of the first pattern of `regex_pattern_to_value` that fits what all of them find.
std::unique_ptr<const FilterAction> map_regex_filter(const Json& arguments);
// A number by the pattern, else one in English words.
std::unique_ptr<const FilterAction> number_filter(const Json& arguments);
// The words behind "List:" in the document's 'input', in the order of their last places in the answer.
std::unique_ptr<const FilterAction> word_sort_filter();

}  // namespace stoa::eval

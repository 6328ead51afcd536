// IFEval (Zhou et al. 2023): whether an answer follows instructions that can be checked.
#pragma once

#include <string>

#include "eval/python/text.h"

namespace stoa::eval {

// `id`: such as "punctuation:no_comma"; `arguments`: its fields of the document's `kwargs`, null where it has
// none. DataError: an instruction that is not known, an argument that it needs.
bool follows_instruction(const std::string& id, const Json& arguments, const std::string& answer);

// prompt_level_strict_acc, prompt_level_loose_acc: all instructions of the document are followed;
// inst_level_strict_acc, inst_level_loose_acc: each of them. Loosely: in one of eight forms of the answer,
// without its first line, its last line, asterisks.
Json ifeval_results(const Json& doc, const Json& answers);

}  // namespace stoa::eval

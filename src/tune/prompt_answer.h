// A prompt and its answer, of texts or of lists of messages; the answer alone is trained.
#pragma once

#include <string>

#include "tune/record_fields.h"

namespace stoa::tune {

// DataError: the answer is empty.
void require_answer(const std::string& answer, const Place& place, const char* key);

// In one of the two forms, turns of a chat (`roles`) or a text.
Answered pair_of(const std::string& prompt, const std::string& answer, bool roles);

// `prompt`, if there is one, followed by `answer`: two texts, or two lists of messages.
Answered answered(const RecordFields& fields, const Json* prompt, const Json& answer, const char* key,
                  const Place& place, bool roles);

// An instruction and its input as one question; without roles, up to the answer of Alpaca's template.
std::string instruction_of(const RecordFields& fields, bool roles);

// Messages before `first` are not trained.
void train_from(Conversation& conversation, std::size_t first);

// ShareGPT's conversations often begin with an answer: what comes before the first question is left out.
void drop_before_first_question(Conversation& chat);

// LLaMA-Factory's "history", pairs of a question and its answer, in front of the other turns; `trained`: its
// answers are trained, too. Whole texts have their own. DataError: a text without roles (`roles`) has no
// place for it.
void set_history(Answered& text, const RecordFields& fields, const Place& place, bool roles, bool trained);

// The system message of the record ("system", "system_prompt"), in front, unless the chat has one; else as
// set_history().
void set_system(Answered& text, const RecordFields& fields, const Place& place, bool roles);

}  // namespace stoa::tune

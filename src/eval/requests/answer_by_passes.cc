#include "eval/requests/answer_by_passes.h"

#include "eval/requests/generated_answers.h"
#include "eval/requests/shared_reading.h"

namespace stoa::eval {

void answer_by_passes(infer::PassModel& model, const token::Tokenizer& tokenizer,
                      const std::vector<std::int32_t>& end_ids, EncodedRequests& requests,
                      const AnswerTold& told) {
  AnswerCollector answers(requests, told);
  std::vector<LabelledText> labelled;
  std::vector<PromptToAnswer> prompts;
  std::vector<EncodedText*> scored, answered;
  for (EncodedText& text : requests.texts()) {
    if (text.generate) {
      prompts.push_back({text.tokens, &requests.generation(text), requests.seed_of(text)});
      answered.push_back(&text);
    } else {
      labelled.push_back({text.tokens, std::span(text.labels).last(text.scored)});
      scored.push_back(&text);
    }
  }
  score_texts(model, labelled, [&](std::size_t i, const TextScore& score) {
    EncodedText& text = *scored[i];
    text.log_likelihood = score.log_likelihood;
    answers.of(text).greedy = !text.rolling && score.greedy;
    answers.done(text);
  });
  generate_answers(model, tokenizer, end_ids, prompts, [&](std::size_t i, const std::string& text) {
    answers.of(*answered[i]).text = text;
    answers.done(*answered[i]);
  });
}

}  // namespace stoa::eval

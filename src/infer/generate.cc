#include "infer/generate.h"

#include <algorithm>

#include "base/error.h"

namespace stoa::infer {

void AnswerWriter::tell(const std::string& text) {
  const std::string certain = filter_.push(text, stopped_);
  if (!certain.empty() && !take_(certain)) stopped_ = refused_ = true;
}

EndReason AnswerWriter::finish(EndReason reason) {
  if (!stopped_) tell(stream_.finish());
  if (stopped_) return refused_ ? EndReason::kCaller : EndReason::kStopText;
  if (const std::string rest = filter_.finish(); !rest.empty()) take_(rest);
  return reason;
}

std::vector<std::int32_t> end_ids(const token::Tokenizer& tokenizer, const GenerateOptions& options) {
  std::vector<std::int32_t> out = options.end_tokens;
  for (const auto id : {tokenizer.eod_id(), tokenizer.eos_id()})
    if (id && std::find(out.begin(), out.end(), *id) == out.end()) out.push_back(*id);
  return out;
}

std::vector<std::int32_t> prompt_ids(const token::Tokenizer& tokenizer, std::string_view prompt) {
  std::vector<std::int32_t> ids = tokenizer.encode(prompt, {.plain = false, .add_special = true});
  if (!ids.empty()) return ids;
  const auto start = tokenizer.bos_id() ? tokenizer.bos_id() : tokenizer.eod_id();
  require<DataError>(start.has_value(), "an empty prompt, and the tokenizer has no beginning-of-text token");
  return {*start};
}

}  // namespace stoa::infer

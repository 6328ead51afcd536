#include "eval/requests/encode.h"

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "eval/python/text.h"

namespace stoa::eval {

RequestEncoder::RequestEncoder(const token::Tokenizer& tokenizer, std::optional<bool> add_bos)
    : encoder_(tokenizer),
      add_bos_(add_bos),
      prefix_(tokenizer.bos_id()   ? tokenizer.bos_id()
              : tokenizer.eos_id() ? tokenizer.eos_id()
                                   : tokenizer.eod_id()) {
  require<ConfigError>(add_bos != true || tokenizer.bos_id(),
                       "--add_bos_token true: the tokenizer has no beginning-of-text token");
  if (prefix_) prefix_text_ = tokenizer.id_to_token(*prefix_);
}

std::int32_t RequestEncoder::prefix() const {
  require<DataError>(
      prefix_.has_value(),
      "a text without context, and the tokenizer has neither a beginning-of-text nor an end-of-text "
      "token to stand for it");
  return *prefix_;
}

std::vector<std::int32_t> RequestEncoder::encoded(const std::string& text, bool special) {
  std::vector<std::int32_t> out;
  encoder_.encode(text, {.plain = false, .add_special = special}, out);
  return out;
}

std::vector<std::int32_t> RequestEncoder::text(const std::string& text) {
  const bool has_it = !prefix_text_.empty() && text.starts_with(prefix_text_);
  if (has_it || add_bos_ == false) return encoded(text, false);
  std::vector<std::int32_t> out = encoded(text, true);
  const auto bos = encoder_.tokenizer().bos_id();
  if (add_bos_ == true && (out.empty() || out.front() != *bos)) out.insert(out.begin(), *bos);
  return out;
}

EncodedPair RequestEncoder::pair(const std::string& context, const std::string& continuation) {
  EncodedPair out;
  if (context.empty()) {
    out.continuation = encoded(continuation, false);
    require<DataError>(!out.continuation.empty(), "a continuation without tokens");
    out.context = {prefix()};
    if (out.continuation.front() == prefix()) out.continuation.erase(out.continuation.begin());
  } else {
    const std::string kept(strip_right(context));
    const std::string moved = context.substr(kept.size()) + continuation;
    const std::vector<std::int32_t> whole = text(kept + moved);
    out.context = text(kept);
    const std::size_t n = std::min(out.context.size(), whole.size());
    out.continuation.assign(whole.begin() + static_cast<std::ptrdiff_t>(n), whole.end());
    require<DataError>(!out.context.empty(), "the context '{}' has no tokens", context);
  }
  require<DataError>(!out.continuation.empty(), "the continuation '{}' has no tokens of its own",
                     continuation);
  return out;
}

TokenCount token_count(const token::Tokenizer& tokenizer, std::optional<bool> add_bos) {
  return [encoder = std::make_shared<RequestEncoder>(tokenizer, add_bos)](const std::string& text) {
    return std::ssize(encoder->text(text));
  };
}

std::vector<EncodedPair> rolling_windows(const std::vector<std::int32_t>& tokens, std::int32_t prefix,
                                         std::int64_t window) {
  std::vector<EncodedPair> out;
  const auto n = static_cast<std::int64_t>(tokens.size());
  for (std::int64_t done = 0; done < n;) {
    const std::int64_t count = std::min(window, n - done), end = done + count;
    EncodedPair& pair = out.emplace_back();
    pair.continuation.assign(tokens.begin() + done, tokens.begin() + end);
    if (done == 0)
      pair.context = {prefix};
    else
      pair.context.assign(tokens.begin() + (end - window - 1), tokens.begin() + done);
    done = end;
  }
  return out;
}

}  // namespace stoa::eval

#include "infer/token_pair.h"

#include "base/error.h"
#include "infer/length_tables.h"

namespace stoa::infer {

std::vector<std::int32_t> ids_with_end(const token::Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::int32_t> ids = tokenizer.encode(text, {.plain = false, .add_special = true});
  const auto eos = tokenizer.eos_id();
  require<DataError>(eos.has_value(), "the tokenizer has no end-of-text token (</s>), which ends a source");
  if (ids.empty() || ids.back() != *eos) ids.push_back(*eos);
  return ids;
}

TokenPair pair_of(std::string_view line, std::int64_t number, const model::ModelConfig& config,
                  const std::function<std::vector<std::int32_t>(std::string_view)>& ids) {
  const auto tab = line.find('\t');
  require<DataError>(tab != std::string_view::npos && line.find('\t', tab + 1) == std::string_view::npos,
                     "line {}: an encoder-decoder needs a source, a tab and a target", number);
  TokenPair pair{ids(line.substr(0, tab)), ids(line.substr(tab + 1))};
  require<DataError>(!pair.source.empty() && !pair.target.empty(), "line {}: no ids on a side of the tab",
                     number);
  const auto check = [&](std::int64_t count, std::int64_t before) {
    const std::int64_t longest = longest_side(config, count + before) - before;
    require<DataError>(count <= longest, "line {}: a text of {} tokens, the model reads at most {}", number,
                       count, longest);
  };
  check(std::ssize(pair.source), config.peft.virtual_count());
  check(std::ssize(pair.target), 0);
  return pair;
}

}  // namespace stoa::infer

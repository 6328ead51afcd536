// What a tokenizer.json puts around a text, and how it trims offsets: the component "post_processor".
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "token/bpe.h"
#include "token/json_reader.h"
#include "token/pipeline/aligned_text.h"
#include "token/tokenizer_spec.h"

namespace stoa::token {

// A token of an encoded text.
struct EncodedToken {
  TokenId id;
  TextSpan offsets;       // characters of the text
  std::string_view text;  // as the model writes it
};

class PostProcessor {
 public:
  PostProcessor() = default;
  virtual ~PostProcessor() = default;
  PostProcessor(const PostProcessor&) = delete;
  PostProcessor& operator=(const PostProcessor&) = delete;
  // `add_special`: the tokens around the text too.
  virtual void apply(std::vector<EncodedToken>& tokens, bool add_special) const = 0;
  // What it puts around two texts; none where it puts nothing, or in another order.
  virtual std::optional<PairSurroundings> pair() const { return {}; }
};

// DataError names a component that does not exist, and a field that it does not have. `entries`: tokens of
// the vocabulary, which bounds ids.
std::unique_ptr<const PostProcessor> read_post_processor(json::object o, std::size_t entries);

}  // namespace stoa::token

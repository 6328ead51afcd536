// How a tokenizer.json makes text of tokens again: the component "decoder".
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "token/json_reader.h"

namespace stoa::token {

class Decoder {
 public:
  Decoder() = default;
  virtual ~Decoder() = default;
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  // Changes the tokens of a text; in the end they are put together.
  virtual void apply(std::vector<std::string>& tokens) const = 0;
};

// DataError names a component that does not exist, and a field that it does not have.
std::unique_ptr<const Decoder> read_decoder(json::object o);

}  // namespace stoa::token

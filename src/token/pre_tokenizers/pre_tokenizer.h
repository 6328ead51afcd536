// How a tokenizer.json cuts a normalized text into the pieces that its model encodes: the component
// "pre_tokenizer".
#pragma once

#include <memory>

#include "token/json_reader.h"
#include "token/pipeline/character_tables.h"
#include "token/pipeline/pieces.h"

namespace stoa::token {

class PreTokenizer {
 public:
  PreTokenizer() = default;
  virtual ~PreTokenizer() = default;
  PreTokenizer(const PreTokenizer&) = delete;
  PreTokenizer& operator=(const PreTokenizer&) = delete;
  virtual void apply(Pieces& pieces, PieceScratch& scratch) const = 0;
};

using Tables = std::shared_ptr<const CharacterTables>;
// DataError names a component that does not exist, and a field that it does not have.
std::unique_ptr<const PreTokenizer> read_pre_tokenizer(json::object o, const Tables& tables);

}  // namespace stoa::token

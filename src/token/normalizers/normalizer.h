// What a tokenizer.json does to a text before it is cut: the component "normalizer".
#pragma once

#include <memory>

#include "token/json_reader.h"
#include "token/pipeline/aligned_text.h"
#include "token/pipeline/character_tables.h"
#include "token/pipeline/regex.h"

namespace stoa::token {

class Normalizer {
 public:
  Normalizer() = default;
  virtual ~Normalizer() = default;
  Normalizer(const Normalizer&) = delete;
  Normalizer& operator=(const Normalizer&) = delete;
  virtual void apply(AlignedText& text, RegexScratch& scratch) const = 0;
};

using Tables = std::shared_ptr<const CharacterTables>;
// DataError names a component that does not exist, and a field that it does not have.
std::unique_ptr<const Normalizer> read_normalizer(json::object o, const Tables& tables);

}  // namespace stoa::token

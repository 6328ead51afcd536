// The component "model" of a tokenizer.json: turns a piece of text into tokens.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "token/bpe.h"
#include "token/json_reader.h"

namespace stoa::token {

// A token of a piece of text.
struct ModelToken {
  TokenId id;
  std::uint32_t begin, end;  // bytes of the piece
  std::string_view text;     // in the model's spelling; valid as long as model and piece
};

// Working memory of a model; one per thread.
struct ModelScratch {
  MergeScratch merge;
  std::vector<TokenId> ids;
  std::vector<std::uint32_t> ends, places;
  std::string text;
  struct Best {
    double score;
    std::uint32_t begin;
    TokenId id;
  };
  std::vector<Best> best;
};

struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view s) const { return std::hash<std::string_view>{}(s); }
};
using TokenIds = std::unordered_map<std::string, TokenId, StringHash, std::equal_to<>>;

// A vocabulary in both directions. If a token appears twice, the later id counts.
struct Vocabulary {
  std::vector<std::string> tokens;  // by id; "" where an id has no token
  TokenIds ids;

  static Vocabulary read(json::object vocab, std::string_view where);
  TokenId find(std::string_view token) const {  // -1: none
    const auto found = ids.find(token);
    return found == ids.end() ? -1 : found->second;
  }
};

class Model {
 public:
  Model() = default;
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  // Appends the tokens of a piece, which must not be empty. DataError for text without a token, if the model
  // has no unknown token.
  virtual void encode(std::string_view piece, ModelScratch& scratch, std::vector<ModelToken>& out) const = 0;
  virtual const Vocabulary& vocabulary() const = 0;
  virtual std::string_view unknown_token() const = 0;  // "" where there is none
};

// DataError names an unknown model, or a field that the model does not have.
std::unique_ptr<const Model> read_model(json::object o);
// "BPE", "WordPiece", "WordLevel" or "Unigram"; old files do not name it.
std::string model_type(json::object o);

}  // namespace stoa::token

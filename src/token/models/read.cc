// Models from their JSON.
#include "token/models/bpe_model.h"
#include "token/models/model.h"
#include "token/models/unigram.h"
#include "token/models/words.h"

namespace stoa::token {

Vocabulary Vocabulary::read(json::object vocab, std::string_view where) {
  std::size_t entries = 0;
  for ([[maybe_unused]] const auto field : vocab) ++entries;
  require<DataError>(entries > 0, "{} is empty", where);
  Vocabulary out;
  out.ids.reserve(entries);
  for (const auto field : vocab) {
    const TokenId id = token_id(field.value, entries, where);
    const auto index = static_cast<std::size_t>(id);
    if (index >= out.tokens.size()) out.tokens.resize(index + 1);
    require<DataError>(!field.key.empty(), "{} has an empty token (id {})", where, id);
    require<DataError>(out.tokens[index].empty(), "{} gives id {} to '{}' and to '{}'", where, id,
                       out.tokens[index], field.key);
    require<DataError>(out.ids.emplace(field.key, id).second, "{} has token '{}' twice", where, field.key);
    out.tokens[index] = field.key;
  }
  return out;
}

std::string model_type(json::object o) {
  if (member(o, "type")) return type_of(o, "model");
  if (member(o, "merges")) return "BPE";
  json::array list;
  const auto vocab = member(o, "vocab");
  if (vocab && !vocab->get(list)) return "Unigram";
  return member(o, "max_input_chars_per_word") ? "WordPiece" : "WordLevel";
}

std::unique_ptr<const Model> read_model(json::object o) {
  const std::string type = model_type(o);
  if (type == "BPE") return BpeModel::read(o);
  if (type == "WordPiece") return WordPieceModel::read(o);
  if (type == "WordLevel") return WordLevel::read(o);
  if (type == "Unigram") return Unigram::read(o);
  fail<DataError>("the tokenizer model is {}, expected BPE, Unigram, WordLevel or WordPiece", type);
}

}  // namespace stoa::token

#include "train/generation_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "model/huggingface/generation_config.h"

namespace stoa::train {
namespace {

namespace fs = std::filesystem;
namespace hf = model::huggingface;

bool same_ids(const fs::path& start, const token::Tokenizer* tokenizer) {
  if (!tokenizer) return true;
  try {
    return token::Tokenizer::load(start).fingerprint() == tokenizer->fingerprint();
  } catch (const Error&) {  // it has none
    return false;
  }
}

// The file with these tokens among those that end a text.
std::string with_ends(std::string text, const std::set<token::TokenId>& turn_ends) {
  std::vector<std::int64_t> ends = hf::read_generation_config(text).special.eos;
  const std::size_t before = ends.size();
  for (const token::TokenId id : turn_ends)
    if (std::find(ends.begin(), ends.end(), id) == ends.end()) ends.push_back(id);
  if (ends.size() == before) return text;
  auto json = nlohmann::ordered_json::parse(text);
  json["eos_token_id"] = ends;
  return json.dump(2) + "\n";
}

}  // namespace

std::string generation_file(const std::optional<fs::path>& start, const token::Tokenizer* tokenizer,
                            const hf::SpecialTokens& special, const std::set<token::TokenId>& turn_ends) {
  if (start && fs::exists(*start / hf::GenerationConfig::kFile) && same_ids(*start, tokenizer))
    return with_ends(read_text(*start / hf::GenerationConfig::kFile), turn_ends);
  return hf::write_generation_config(special);
}

}  // namespace stoa::train

#include "train/generation_file.h"

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

}  // namespace

std::string generation_file(const std::optional<fs::path>& start, const token::Tokenizer* tokenizer,
                            const hf::SpecialTokens& special) {
  if (start && fs::exists(*start / hf::GenerationConfig::kFile) && same_ids(*start, tokenizer))
    return read_text(*start / hf::GenerationConfig::kFile);
  return hf::write_generation_config(special);
}

}  // namespace stoa::train

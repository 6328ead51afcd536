// Finds and writes the files of a tokenizer.
#include <memory>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "token/tokenizer_texts.h"

namespace stoa::token {
namespace {

struct Pair {
  const char *vocab, *merges;
};
constexpr Pair kPairs[] = {{"vocab.json", "merges.txt"}, {"encoder.json", "vocab.bpe"}};

TokenizerSpec read_pair(const fs::path& vocab, const fs::path& merges) {
  require<IoError>(fs::exists(merges), "{} needs its merges beside it: {} does not exist", vocab.string(),
                   merges.string());
  return parse_vocab_merges(read_text(vocab), read_text(merges));
}

// The merges that belong to a vocabulary file, "" when its name is not that of one. Prefixes as in
// "gpt2-encoder.json" + "gpt2-vocab.bpe" are kept.
fs::path merges_beside(const fs::path& vocab) {
  const std::string file = vocab.filename().string();
  for (const Pair& pair : kPairs) {
    const std::string_view suffix = pair.vocab;
    if (file.ends_with(suffix)) {
      return vocab.parent_path() / (file.substr(0, file.size() - suffix.size()) + pair.merges);
    }
  }
  return {};
}

void read_beside(const fs::path& directory, TokenizerSpec& spec) {
  for (const char* file : {"special_tokens_map.json", "tokenizer_config.json"}) {  // the second wins
    const fs::path path = directory / file;
    if (!fs::exists(path)) continue;
    try {
      apply_tokenizer_config(read_text(path), spec);
    } catch (const DataError& e) {
      fail<DataError>("{}: {}", path.string(), e.what());
    }
  }
  if (const fs::path path = directory / "chat_template.jinja"; fs::exists(path))
    spec.chat_template = read_text(path);
}

TokenizerSpec read_spec(const fs::path& path) {
  require<IoError>(fs::exists(path), "no tokenizer at {}: it does not exist", path.string());
  if (fs::is_directory(path)) {
    if (fs::exists(path / "tokenizer.json")) return parse_tokenizer_json(read_text(path / "tokenizer.json"));
    if (fs::exists(path / "vocab.txt")) return parse_vocab_txt(read_text(path / "vocab.txt"));
    for (const Pair& pair : kPairs) {
      if (fs::exists(path / pair.vocab)) return read_pair(path / pair.vocab, path / pair.merges);
    }
    fail<IoError>("no tokenizer in {}: expected tokenizer.json, vocab.txt, or vocab.json and merges.txt",
                  path.string());
  }
  if (path.filename().string().ends_with("vocab.txt")) return parse_vocab_txt(read_text(path));
  if (const fs::path merges = merges_beside(path); !merges.empty()) return read_pair(path, merges);
  return parse_tokenizer_json(read_text(path));
}

}  // namespace

Tokenizer Tokenizer::load(const fs::path& path) {
  try {
    TokenizerSpec spec = read_spec(path);
    read_beside(fs::is_directory(path) ? path : path.parent_path(), spec);
    // A post-processor says what surrounds a text; only where there is none does add_bos_token.
    if (spec.add_bos == true && !spec.bos.empty() && spec.before.empty() && spec.after.empty()) {
      Tokenizer plain(spec);
      spec.before.push_back(plain.bos_id().value());
    }
    return Tokenizer(std::move(spec));
  } catch (const DataError& e) {
    fail<DataError>("{}: {}", path.string(), e.what());
  }
}

std::vector<TokenizerText> tokenizer_texts(const Tokenizer& tokenizer) {
  const TokenizerSpec& spec = tokenizer.spec();
  std::vector<TokenizerText> out;
  if (spec.form == SymbolForm::kWordPiece) out.push_back({"vocab.txt", vocab_txt(spec)});
  if (spec.form == SymbolForm::kByteLevel) {  // the pair of files cannot say that it is of the other form
    out.push_back({"vocab.json", vocab_json(spec)});
    out.push_back({"merges.txt", merges_txt(spec)});
  }
  out.push_back({"special_tokens_map.json", special_tokens_map_json(spec)});
  out.push_back({"tokenizer_config.json", tokenizer_config_json(spec)});
  out.push_back({"tokenizer.json", tokenizer_json(spec)});
  return out;
}

void Tokenizer::save(const fs::path& directory) const {
  std::error_code error;
  fs::create_directories(directory, error);
  require<IoError>(!error, "cannot create {}: {}", directory.string(), error.message());
  // All are written before the first takes its place: a full disk leaves a tokenizer that was there as it
  // was.
  std::vector<std::unique_ptr<AtomicFile>> written;
  for (const auto& file : tokenizer_texts(*this)) {
    written.push_back(std::make_unique<AtomicFile>(directory / file.name));
    written.back()->write(file.text);
  }
  for (const auto& file : written) file->commit();
}

}  // namespace stoa::token

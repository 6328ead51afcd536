// Finds and writes the files of a tokenizer.
#include <simdjson.h>

#include <algorithm>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "formats/gguf/gguf_file.h"
#include "token/gguf/gguf_tokenizer.h"
#include "token/sentencepiece.h"
#include "token/tokenizer.h"
#include "token/tokenizer_texts.h"

namespace stoa::token {
namespace {

struct Pair {
  const char *vocab, *merges;
};
constexpr Pair kPairs[] = {{"vocab.json", "merges.txt"}, {"encoder.json", "vocab.bpe"}};

TokenizerClass class_beside(const fs::path& file) {
  const fs::path config = file.parent_path() / "tokenizer_config.json";
  return fs::exists(config) ? read_tokenizer_class(read_text(config)) : TokenizerClass{};
}

TokenizerSpec read_pair(const fs::path& vocab, const fs::path& merges) {
  require<IoError>(fs::exists(merges), "{} needs its merges in the same directory: {} does not exist",
                   vocab.string(), merges.string());
  return parse_vocab_merges(read_text(vocab), read_text(merges), class_beside(vocab));
}

TokenizerSpec read_tiktoken(const fs::path& path) {
  return parse_tiktoken(read_text(path), path.filename().string(), class_beside(path).pattern);
}

// The only .tiktoken of a folder; "" where there is none or more than one.
fs::path tiktoken_in(const fs::path& folder) {
  fs::path found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".tiktoken") continue;
    if (!found.empty()) return {};
    found = entry.path();
  }
  return found;
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

std::string text_if_there(const fs::path& file) { return fs::exists(file) ? read_text(file) : ""; }

void read_beside(const fs::path& directory, TokenizerSpec& spec) {
  // A file that has all tokens needs no more.
  if (spec.original.name.empty() && !spec.rank_by_result) {
    try {
      apply_legacy_tokens({.added_tokens = text_if_there(directory / "added_tokens.json"),
                           .special_tokens_map = text_if_there(directory / "special_tokens_map.json"),
                           .tokenizer_config = text_if_there(directory / "tokenizer_config.json")},
                          spec);
    } catch (const DataError& e) {
      fail<DataError>("{}: {}", directory.string(), e.what());
    }
  }
  for (const char* file : {"special_tokens_map.json", "tokenizer_config.json"}) {  // the second wins
    const fs::path path = directory / file;
    if (!fs::exists(path)) continue;
    try {
      apply_tokenizer_config(read_text(path), spec);
    } catch (const DataError& e) {
      fail<DataError>("{}: {}", path.string(), e.what());
    }
  }
  const auto read_template = [](const fs::path& path) {
    std::string text = read_text(path);
    require<DataError>(simdjson::validate_utf8(text), "{} is not UTF-8 text", path.string());
    return text;
  };
  const fs::path single = directory / "chat_template.jinja", more = directory / "additional_chat_templates";
  std::map<std::string, std::string> templates;
  if (fs::is_directory(more))
    for (const auto& entry : fs::directory_iterator(more))
      if (entry.path().extension() == ".jinja")
        templates[entry.path().stem().string()] = read_template(entry.path());
  if (!fs::exists(single) && templates.empty()) return;
  // They are in place of those in tokenizer_config.json, as in transformers.
  spec.chat_template = fs::exists(single) ? read_template(single) : "";
  spec.more_templates = std::move(templates);
}

TokenizerSpec read_sentencepiece_file(const fs::path& path) {
  return sentencepiece_spec(std::make_shared<const SentencePiece>(read_text(path)));
}

// A .model, whoever wrote it.
TokenizerSpec read_model_file(const fs::path& path) {
  const std::string text = read_text(path);
  return holds_ranks(text) ? read_tiktoken(path) : read_sentencepiece_file(path);
}

// Classes of transformers that use a SentencePiece model in a way of their own: other tokens around a text,
// other ids, or a text that is changed first. A tokenizer.json says how; the model by itself does not.
bool needs_more_than_pieces(std::string_view name) {
  static constexpr std::string_view kNames[] = {
      "Albert",  "Barthez",     "BertGeneration", "BigBird", "Camembert",     "CpmTokenizer", "DebertaV2",
      "FNet",    "M2M100",      "MBart",          "Marian",  "Nllb",          "PLBart",       "Pegasus",
      "RemBert", "SeamlessM4T", "Speech2Text",    "XGLM",    "XLMProphetNet", "XLMRoberta",   "XLNet"};
  return std::any_of(std::begin(kNames), std::end(kNames),
                     [&](std::string_view start) { return name.starts_with(start); });
}

TokenizerSpec read_spec(const fs::path& path) {
  require<IoError>(fs::exists(path), "no tokenizer at {}: it does not exist", path.string());
  if (fs::is_directory(path)) {
    // T5's tokenizer.json says less than the model next to it; Llama-2's says all that its tokenizer.model
    // does.
    const std::string name = class_beside(path / "spiece.model").name;
    const bool has_json = fs::exists(path / "tokenizer.json"), more = needs_more_than_pieces(name);
    if (fs::exists(path / "spiece.model") && !(more && has_json)) {
      require<DataError>(
          !more,
          "tokenizer_class is {}: how it uses spiece.model is unknown, and a wrong guess would "
          "silently give wrong ids; a tokenizer.json in the same directory would be read",
          name);
      return read_sentencepiece_file(path / "spiece.model");
    }
    if (has_json) return parse_tokenizer_json(read_text(path / "tokenizer.json"));
    if (fs::exists(path / "tekken.json")) return parse_tekken(read_text(path / "tekken.json"));
    if (fs::exists(path / "tokenizer.model")) return read_model_file(path / "tokenizer.model");
    if (fs::exists(path / "vocab.txt")) return parse_vocab_txt(read_text(path / "vocab.txt"));
    for (const Pair& pair : kPairs) {
      if (fs::exists(path / pair.vocab)) return read_pair(path / pair.vocab, path / pair.merges);
    }
    if (const fs::path ranks = tiktoken_in(path); !ranks.empty()) return read_tiktoken(ranks);
    fail<IoError>(
        "no tokenizer in {}: expected tokenizer.json, spiece.model, tekken.json, vocab.txt, a .tiktoken, or "
        "vocab.json "
        "and merges.txt",
        path.string());
  }
  if (gguf::is_gguf(path)) return parse_gguf(gguf::File(path));
  if (path.extension() == ".tiktoken") return read_tiktoken(path);
  if (path.filename().string().starts_with("tekken")) return parse_tekken(read_text(path));
  if (path.filename().string().ends_with("vocab.txt")) return parse_vocab_txt(read_text(path));
  if (path.extension() == ".model") return read_model_file(path);
  if (const fs::path merges = merges_beside(path); !merges.empty()) return read_pair(path, merges);
  return parse_tokenizer_json(read_text(path));
}

bool has_sentinels(const TokenizerSpec& spec) {
  const auto is_first = [](const std::string& token) { return token == "<extra_id_0>"; };
  return std::any_of(spec.vocabulary.begin(), spec.vocabulary.end(), is_first) ||
         std::any_of(spec.added.begin(), spec.added.end(),
                     [&](const AddedToken& token) { return is_first(token.content); });
}

}  // namespace

Tokenizer Tokenizer::load(const fs::path& path) {
  try {
    TokenizerSpec spec = read_spec(path);
    if (!gguf::is_gguf(path)) read_beside(fs::is_directory(path) ? path : path.parent_path(), spec);
    if (spec.sentinels && spec.form == SymbolForm::kModel && !has_sentinels(spec))
      add_sentinels(*spec.sentinels, spec);
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

Tokenizer load_vocab_merges(const fs::path& vocab, const fs::path& merges) {
  for (const fs::path& file : {vocab, merges})
    require<IoError>(fs::is_regular_file(file), "no tokenizer file at {}: no such file", file.string());
  try {
    TokenizerSpec spec = read_pair(vocab, merges);
    read_beside(vocab.parent_path(), spec);
    return Tokenizer(std::move(spec));
  } catch (const DataError& e) {
    fail<DataError>("{} and {}: {}", vocab.string(), merges.string(), e.what());
  }
}

Tokenizer Tokenizer::load_sentencepiece(const fs::path& model, std::int64_t sentinels) {
  require<IoError>(fs::is_regular_file(model), "no SentencePiece model at {}: no such file", model.string());
  try {
    TokenizerSpec spec = read_sentencepiece_file(model);
    require<DataError>(sentinels == 0 || !has_sentinels(spec),
                       "the model already has sentinels: num_sentinel_tokens is {}, expected 0", sentinels);
    if (sentinels > 0) add_sentinels(sentinels, spec);
    return Tokenizer(std::move(spec));
  } catch (const DataError& e) {
    fail<DataError>("{}: {}", model.string(), e.what());
  }
}

std::vector<TokenizerText> tokenizer_texts(const Tokenizer& tokenizer) {
  const TokenizerSpec& spec = tokenizer.spec();
  std::vector<TokenizerText> out;
  const bool ranks = spec.rank_by_result;
  if (ranks || spec.form == SymbolForm::kComponents) {
    out.push_back({"special_tokens_map.json", special_tokens_map_json(spec)});
    out.push_back({"tokenizer_config.json", tokenizer_config_json(spec)});
    require<InternalError>(!spec.original.name.empty(), "a tokenizer of components without its file");
    out.push_back({spec.original.name, spec.original.text});
    return out;
  }
  if (spec.form == SymbolForm::kWordPiece) out.push_back({"vocab.txt", vocab_txt(spec)});
  if (spec.form == SymbolForm::kModel) {
    out.push_back({"spiece.model", spec.model->model()});
    out.push_back({"special_tokens_map.json", special_tokens_map_json(spec)});
    out.push_back({"tokenizer_config.json", tokenizer_config_json(spec)});
    return out;
  }
  // The pair of files says no more than this; read alone, others would be taken for GPT-2's.
  if (spec.form == SymbolForm::kByteLevel && spec.split == SplitPattern::kGpt2 && !spec.nfc &&
      !spec.ignore_merges) {
    out.push_back({"vocab.json", vocab_json(spec)});
    out.push_back({"merges.txt", merges_txt(spec)});
  }
  out.push_back({"special_tokens_map.json", special_tokens_map_json(spec)});
  out.push_back({"tokenizer_config.json", tokenizer_config_json(spec)});
  out.push_back({"tokenizer.json", spec.original.name.empty() ? tokenizer_json(spec) : spec.original.text});
  return out;
}

void Tokenizer::save(const fs::path& directory) const {
  std::error_code error;
  fs::create_directories(directory, error);
  require<IoError>(!error, "cannot create {}: {}", directory.string(), error.message());
  // All are written before the first replaces its target: a full disk leaves an existing tokenizer
  // unchanged.
  std::vector<std::unique_ptr<AtomicFile>> written;
  for (const auto& file : tokenizer_texts(*this)) {
    written.push_back(std::make_unique<AtomicFile>(directory / file.name));
    written.back()->write(file.text);
  }
  for (const auto& file : written) file->commit();
}

}  // namespace stoa::token

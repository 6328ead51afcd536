#include "token/encoder.h"

#include <bit>
#include <cstring>
#include <optional>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/checksum.h"
#include "token/sentencepiece.h"
#include "token/stream_decoder.h"
#include "token/tokenizer_data.h"

namespace stoa::token {
namespace {

// A word of up to 15 bytes as a number: its bytes, zeros, and its length in the last byte. Equal keys mean
// equal words.
struct WordKey {
  std::uint64_t low, high;
  bool operator==(const WordKey&) const = default;
};
constexpr std::size_t kShortWord = 15;
constexpr std::size_t kLongWord = 256;  // longer ones are not worth keeping
constexpr std::size_t kInline = 3;      // ids kept in an entry

struct KeyMasks {
  std::uint64_t low[16], high[16];
  constexpr KeyMasks() : low(), high() {
    for (unsigned n = 0; n < 16; ++n) {
      low[n] = n >= 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << 8 * n) - 1;
      high[n] = n <= 8 ? 0 : (std::uint64_t{1} << 8 * (n - 8)) - 1;
    }
  }
};
constexpr KeyMasks kMasks;

WordKey key_of_16(const char* p, std::size_t n) {  // 16 bytes may be read at p
  std::uint64_t words[2];
  std::memcpy(words, p, 16);
  return {words[0] & kMasks.low[n], (words[1] & kMasks.high[n]) | std::uint64_t{n} << 56};
}

WordKey key_of(const char* p, std::size_t n) {
  char bytes[16] = {};
  std::memcpy(bytes, p, n);
  return key_of_16(bytes, n);
}

// Bit i is set when p[i] is an ASCII letter, for 16 bytes.
inline std::uint32_t letters_of_16(const char* p) {
#if defined(__SSE2__)
  const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  const __m128i lower = _mm_or_si128(v, _mm_set1_epi8(0x20));
  // Signed comparison after a shift to the bottom of the range: 'a'..'z' -> -128..-103.
  const __m128i shifted = _mm_sub_epi8(lower, _mm_set1_epi8(static_cast<char>('a' + 128)));
  return static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_cmplt_epi8(shifted, _mm_set1_epi8(-128 + 26))));
#else
  std::uint32_t mask = 0;
  for (unsigned i = 0; i < 16; ++i) {
    const unsigned lower = static_cast<unsigned char>(p[i]) | 0x20u;
    mask |= static_cast<std::uint32_t>(lower - 'a' < 26u) << i;
  }
  return mask;
#endif
}

}  // namespace

struct Encoder::WordCache {
  // 32 bytes; two share a cache line. `count` 0 marks an empty entry; above kInline the ids are in `pool`,
  // from index ids[0] on.
  struct Entry {
    WordKey key{0, 0};
    TokenId ids[kInline] = {0, 0, 0};
    std::uint32_t count = 0;
  };
  struct alignas(64) Pair {
    Entry entry[2];
  };
  struct LongEntry {
    std::uint64_t hash = 0;
    std::uint32_t text = 0, length = 0, first = 0, count = 0;
  };
  static constexpr std::size_t kPairs = std::size_t{1} << 15;
  static constexpr std::size_t kLongEntries = std::size_t{1} << 13;
  static constexpr std::size_t kPoolLimit = std::size_t{1} << 19;

  std::vector<Pair> pairs = std::vector<Pair>(kPairs);
  std::vector<LongEntry> longs = std::vector<LongEntry>(kLongEntries);
  std::vector<TokenId> pool;
  std::string texts;

  static std::size_t home(WordKey k) {
    std::uint64_t h = (k.low ^ std::rotl(k.high * 0x9E3779B97F4A7C15u, 29)) * 0xD6E8FEB86659FD93u;
    h ^= h >> 32;
    return static_cast<std::size_t>((h * 0x9E3779B97F4A7C15u) >> (64 - 15));
  }
  // The pool only grows; when it is full the whole cache is cleared.
  void make_room() {
    if (pool.size() < kPoolLimit && texts.size() < 4 * kPoolLimit) return;
    pool.clear();
    texts.clear();
    pairs.assign(kPairs, Pair{});
    longs.assign(kLongEntries, LongEntry{});
  }
};

struct Encoder::Components {
  Pieces pieces;
  PieceScratch scratch;
  std::optional<PipelineText> text;  // of form kComponents
  ModelScratch model;
  std::vector<ModelToken> tokens;
};

Encoder::Encoder(Tokenizer tokenizer, Cache cache) : tokenizer_(std::move(tokenizer)) {
  if (cache == Cache::kWords) cache_ = std::make_unique<WordCache>();
  const Tokenizer::Data& data = *tokenizer_.data_;
  if (data.spec.pipeline || data.spec.cutter) components_ = std::make_unique<Components>();
  if (data.spec.pipeline)
    components_->text.emplace(*data.spec.pipeline, data.raw_finder, data.normalized_finder);
}
Encoder::~Encoder() = default;
Encoder::Encoder(Encoder&&) noexcept = default;

void Encoder::encode(std::string_view text, EncodeOptions options, std::vector<TokenId>& out) {
  const Tokenizer::Data& data = *tokenizer_.data_;
  if (options.add_special) out.insert(out.end(), data.spec.before.begin(), data.spec.before.end());
  if (data.spec.pipeline) {
    encode_components(valid_utf8(text, valid_), options, out);
  } else {
    encode_ordinary(data.lacks_bytes ? valid_utf8(text, valid_) : text, options, out);
  }
  if (options.add_special) out.insert(out.end(), data.spec.after.begin(), data.spec.after.end());
}

void Encoder::encode_components(std::string_view text, EncodeOptions options, std::vector<TokenId>& out) {
  const Pieces& pieces = components_->text->cut(text, options.plain);
  for (const Piece& piece : pieces.list) {
    if (piece.token >= 0)
      out.push_back(piece.token);
    else
      encode_word(pieces.of(piece), out);
  }
}

void Encoder::encode_cut(std::string_view text, std::vector<TokenId>& out) {
  Pieces& pieces = components_->pieces;
  pieces.text.assign(text);
  pieces.list.assign(1, {0, static_cast<std::uint32_t>(text.size()), 0, -1});
  tokenizer_.data_->spec.cutter->apply(pieces, components_->scratch);
  for (const Piece& piece : pieces.list) encode_word(text.substr(piece.begin, piece.end - piece.begin), out);
}

void Encoder::encode_ordinary(std::string_view text, EncodeOptions options, std::vector<TokenId>& out) {
  const Tokenizer::Data& data = *tokenizer_.data_;
  pieces_.clear();
  if (data.raw_finder.empty()) {
    if (!text.empty()) pieces_.push_back({text, -1});
  } else {
    data.raw_finder.cut(text, options.plain, data.splitter.classes(), pieces_);
  }
  for (const auto& piece : pieces_) {
    if (piece.id >= 0) {
      out.push_back(piece.id);
      continue;
    }
    std::string_view ordinary = piece.text;
    ordinary = data.normalized(ordinary, normalized_);
    if (data.normalized_finder.empty()) {
      encode_piece(ordinary, out);
      continue;
    }
    inner_.clear();
    data.normalized_finder.cut(ordinary, options.plain, data.splitter.classes(), inner_);
    for (const auto& part : inner_) {
      if (part.id >= 0) {
        out.push_back(part.id);
      } else {
        encode_piece(part.text, out);
      }
    }
  }
}

void Encoder::encode_piece(std::string_view text, std::vector<TokenId>& out) {
  const TokenizerSpec& spec = tokenizer_.data_->spec;
  if (spec.form == SymbolForm::kModel) return spec.model->encode(text, out);
  if (spec.form == SymbolForm::kSentencePiece) return encode_characters(text, out);
  if (spec.form == SymbolForm::kWordPiece) return encode_pieces(text, out);
  if (spec.add_prefix_space && !text.starts_with(' ')) {
    prefixed_.assign(1, ' ').append(text);
    text = prefixed_;
  }
  const char *p = text.data(), *end = p + text.size();
  switch (spec.split) {
    case SplitPattern::kGpt2:
      return encode_words<SplitPattern::kGpt2>(p, end, out);
    case SplitPattern::kLlama3:
      return encode_words<SplitPattern::kLlama3>(p, end, out);
    case SplitPattern::kQwen2:
      return encode_words<SplitPattern::kQwen2>(p, end, out);
    case SplitPattern::kBloom:
      return encode_words<SplitPattern::kBloom>(p, end, out);
    case SplitPattern::kCl100k:
      return encode_words<SplitPattern::kCl100k>(p, end, out);
    case SplitPattern::kNone:
      return encode_words<SplitPattern::kNone>(p, end, out);
    case SplitPattern::kOther:
      return encode_cut(text, out);
  }
}

void Encoder::encode_characters(std::string_view text, std::vector<TokenId>& out) {
  const Tokenizer::Data& data = *tokenizer_.data_;
  symbols_.clear();
  const auto add = [&](std::string_view character) {
    if (const auto found = data.ids.find(character); found != data.ids.end()) {
      symbols_.push_back(found->second);
    } else {
      for (const char b : character) symbols_.push_back(data.byte_ids[static_cast<std::uint8_t>(b)]);
    }
  };
  add(kSpaceSymbol);
  for (const char *p = text.data(), *end = p + text.size(); p < end;) {
    const CodePoint c = read_utf8(p, end);
    if (!c.valid) {
      symbols_.push_back(data.byte_ids[static_cast<std::uint8_t>(*p)]);
    } else {
      add(*p == ' ' ? kSpaceSymbol : std::string_view(p, c.length));
    }
    p += c.length;
  }
  data.bpe->encode_symbols(symbols_, scratch_, out);
}

void Encoder::encode_pieces(std::string_view text, std::vector<TokenId>& out) {
  const WordPiece& pieces = *tokenizer_.data_->wordpiece;
  for (const char *p = text.data(), *end = p + text.size(); p < end;) {
    std::size_t skip = 0;
    const std::size_t n = pieces.next_word(p, end, skip);
    p += skip;
    if (n > 0) encode_word({p, n}, out);
    p += n;
  }
}

template <SplitPattern pattern>
void Encoder::encode_words(const char* p, const char* end, std::vector<TokenId>& out) {
  const Splitter& splitter = tokenizer_.data_->splitter;
  if (cache_ == nullptr || pattern == SplitPattern::kNone) {
    while (p < end) {
      const std::size_t n = splitter.next(p, end);
      encode_word({p, n}, out);
      p += n;
    }
    return;
  }
  // A buffer for ids: a vector would check its capacity and zero memory for every word.
  constexpr std::size_t kBuffer = 4096;
  TokenId buffer[kBuffer + 8];
  std::size_t filled = 0;
  const auto flush = [&] {
    out.insert(out.end(), buffer, buffer + filled);
    filled = 0;
  };
  while (p < end) {
    std::size_t n = 0;
    const bool room = end - p >= 17;
    if (room) {
      // The most frequent kind of word: a space and ASCII letters, within 16 bytes. The next character must
      // not be a non-ASCII letter.
      const std::uint32_t letters = letters_of_16(p);
      const unsigned lead = *p == ' ' ? 1 : 0;
      const auto run = static_cast<std::size_t>(std::countr_one(letters >> lead));
      n = run + lead;
      if (run == 0 || n > kShortWord || static_cast<signed char>(p[n]) < 0) n = 0;
      // BLOOM's words continue with digits, apostrophes and the like.
      if (pattern == SplitPattern::kBloom && n > 0 &&
          std::string_view(" ,.\n").find(p[n]) == std::string_view::npos)
        n = 0;
    }
    if (n == 0) n = splitter.next(p, end);
    if (n > kShortWord) {
      flush();
      encode_word({p, n}, out);
      p += n;
      continue;
    }
    const WordKey key = room ? key_of_16(p, n) : key_of(p, n);
    WordCache::Pair& pair = cache_->pairs[WordCache::home(key)];
    const WordCache::Entry* hit = &pair.entry[0];
    if (hit->key != key) hit = &pair.entry[1];
    if (hit->key == key && hit->count <= kInline) [[likely]] {
      if (filled > kBuffer - kInline - 1) flush();
      std::memcpy(buffer + filled, hit->ids, sizeof hit->ids);
      filled += hit->count;
    } else {
      flush();
      encode_word({p, n}, out);
    }
    p += n;
  }
  flush();
}

void Encoder::encode_word(std::string_view word, std::vector<TokenId>& out) {
  const Tokenizer::Data& data = *tokenizer_.data_;
  WordCache* cache = word.size() <= kLongWord ? cache_.get() : nullptr;
  const bool is_short = word.size() <= kShortWord;
  WordKey key{0, 0};
  std::uint64_t hash = 0;
  if (cache != nullptr) {
    if (is_short) {
      key = key_of(word.data(), word.size());
      for (const auto& e : cache->pairs[WordCache::home(key)].entry) {
        if (e.key != key) continue;
        const TokenId* ids = e.count <= kInline ? e.ids : cache->pool.data() + e.ids[0];
        out.insert(out.end(), ids, ids + e.count);
        return;
      }
    } else {
      hash = checksum(word);
      const auto& e = cache->longs[hash & (WordCache::kLongEntries - 1)];
      if (e.hash == hash && e.length == word.size() &&
          std::memcmp(cache->texts.data() + e.text, word.data(), word.size()) == 0) {
        out.insert(out.end(), cache->pool.data() + e.first, cache->pool.data() + e.first + e.count);
        return;
      }
    }
  }
  const std::size_t before = out.size();
  const auto whole = !data.whole_words.empty() ? data.whole_words.find(word) : data.whole_words.end();
  if (whole != data.whole_words.end()) {
    out.push_back(whole->second);
  } else if (data.spec.pipeline) {
    components_->tokens.clear();
    data.spec.pipeline->model().encode(word, components_->model, components_->tokens);
    for (const ModelToken& token : components_->tokens) out.push_back(token.id);
  } else if (data.wordpiece) {
    data.wordpiece->encode_word(word, out);
  } else {
    data.bpe->encode(word, scratch_, out);
  }
  if (cache == nullptr) return;
  cache->make_room();
  const std::span<const TokenId> ids(out.data() + before, out.size() - before);
  const auto first = static_cast<std::uint32_t>(cache->pool.size());
  if (!is_short || ids.size() > kInline) cache->pool.insert(cache->pool.end(), ids.begin(), ids.end());
  if (is_short) {
    auto& pair = cache->pairs[WordCache::home(key)];
    pair.entry[1] = pair.entry[0];
    WordCache::Entry& e = pair.entry[0];
    e.key = key;
    e.count = static_cast<std::uint32_t>(ids.size());
    if (ids.size() <= kInline) {
      std::copy(ids.begin(), ids.end(), e.ids);
    } else {
      e.ids[0] = static_cast<TokenId>(first);
    }
  } else {
    cache->longs[hash & (WordCache::kLongEntries - 1)] = {
        hash, static_cast<std::uint32_t>(cache->texts.size()), static_cast<std::uint32_t>(word.size()), first,
        static_cast<std::uint32_t>(ids.size())};
    cache->texts.append(word);
  }
}

}  // namespace stoa::token

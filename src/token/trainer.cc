#include "token/trainer.h"

#include <algorithm>
#include <memory>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "token/byte_alphabet.h"
#include "token/merger.h"
#include "token/word_counts.h"

namespace stoa::token {
namespace {

constexpr std::size_t kBatchBytes = std::size_t{8} << 20;  // texts held at once while counting
constexpr std::size_t kTaskBytes = std::size_t{256} << 10;

// `cut(text, storage, word)` calls `word` for every word of a text.
template <class Cut>
WordCounts count_words(const TextSource& source, const Cut& cut, WorkerPool& pool,
                       const std::function<void(const TrainProgress&)>& progress, TrainSummary& summary) {
  std::vector<WordCounts> partial(static_cast<std::size_t>(pool.size()));
  std::vector<std::int64_t> words(partial.size(), 0);
  std::string batch, text;
  std::vector<std::size_t> ends;        // of the texts in the batch
  std::vector<std::size_t> task_first;  // first text of each task
  bool more = true;
  while (more) {
    batch.clear(), ends.clear(), task_first.clear();
    std::size_t task_begin = 0;
    while (batch.size() < kBatchBytes) {
      text.clear();
      more = source(text);
      if (!more) break;
      if (task_first.empty() || batch.size() - task_begin >= kTaskBytes) {
        task_first.push_back(ends.size());
        task_begin = batch.size();
      }
      batch += text;
      ends.push_back(batch.size());
    }
    pool.run(static_cast<std::int64_t>(task_first.size()), [&](std::int64_t task, int worker) {
      const auto t = static_cast<std::size_t>(task), w = static_cast<std::size_t>(worker);
      const std::size_t last = t + 1 < task_first.size() ? task_first[t + 1] : ends.size();
      WordCounts& counts = partial[w];
      std::int64_t seen = 0;
      std::string storage;
      for (std::size_t i = task_first[t]; i < last; ++i) {
        const std::size_t begin = i == 0 ? 0 : ends[i - 1];
        cut(std::string_view(batch).substr(begin, ends[i] - begin), storage, [&](std::string_view word) {
          counts.add(word, WordCounts::hash_of(word), 1);
          ++seen;
        });
      }
      words[w] += seen;
    });
    summary.texts += static_cast<std::int64_t>(ends.size());
    summary.bytes += static_cast<std::int64_t>(batch.size());
    if (progress) progress({TrainProgress::Stage::kCounting, summary.bytes, 0});
  }
  WordCounts all = std::move(partial[0]);
  for (std::size_t w = 1; w < partial.size(); ++w) {
    for (std::size_t i = 0; i < partial[w].size(); ++i) {
      all.add(partial[w].word(i), partial[w].hash(i), partial[w].count(i));
    }
  }
  for (const std::int64_t n : words) summary.words += n;
  summary.distinct_words = static_cast<std::int64_t>(all.size());
  return all;
}

// Ids of tokens as they are made.
class TokenNumbers {
 public:
  explicit TokenNumbers(TokenizerSpec& spec) : spec_(&spec) {}

  TokenId add(const std::string& token) {
    const auto [it, fresh] = ids_.emplace(token, static_cast<TokenId>(spec_->vocabulary.size()));
    if (fresh) spec_->vocabulary.push_back(token);
    return it->second;
  }
  void add_special(const std::vector<std::string>& tokens) {
    for (const std::string& token : tokens) {
      require<ConfigError>(!token.empty(), "a special token is empty");
      const auto before = spec_->vocabulary.size();
      const TokenId id = add(token);
      require<ConfigError>(spec_->vocabulary.size() > before, "special token '{}' is given twice", token);
      spec_->added.push_back({.id = id, .content = token});
    }
  }
  std::optional<TokenId> find(const std::string& token) const {
    const auto found = ids_.find(token);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  TokenizerSpec* spec_;
  std::unordered_map<std::string, TokenId> ids_;
};

void check_size(const TrainOptions& options, std::size_t base, std::string_view alphabet) {
  require<ConfigError>(options.vocab_size >= static_cast<std::int64_t>(base),
                       "a vocabulary of {} is too small: {} special tokens and {} need at least {}",
                       options.vocab_size, options.special_tokens.size(), alphabet, base);
  require<ConfigError>(options.vocab_size < (std::int64_t{1} << 28), "a vocabulary of {} is too large",
                       options.vocab_size);
}

void require_words(const TrainSummary& counted) {
  require<DataError>(counted.words > 0, "there is no text to train on ({} texts, {} bytes)", counted.texts,
                     counted.bytes);
}

// Merges until the vocabulary is full or no pair is left; `join` names the token that two make.
template <class Join>
std::vector<Merge> merge_all(Merger& merger, const TrainOptions& options, TokenizerSpec& spec,
                             TokenNumbers& vocabulary, const Join& join,
                             const std::function<void(const TrainProgress&)>& progress) {
  Merger::Pair pair;
  std::unordered_map<std::uint64_t, std::size_t> rank_of;  // a pair merged again takes its later place
  std::vector<Merge> merges;
  while (static_cast<std::int64_t>(spec.vocabulary.size()) < options.vocab_size &&
         merger.next(options.min_frequency, pair)) {
    const TokenId result = vocabulary.add(join(spec.vocabulary[static_cast<std::size_t>(pair.left)],
                                               spec.vocabulary[static_cast<std::size_t>(pair.right)]));
    const std::uint64_t key =
        static_cast<std::uint64_t>(pair.left) << 32 | static_cast<std::uint32_t>(pair.right);
    const auto [it, fresh] = rank_of.emplace(key, merges.size());
    if (!fresh) {
      merges[it->second].left = -1;
      it->second = merges.size();
    }
    merges.push_back({pair.left, pair.right, result});
    merger.merge(result);
    if (progress && merges.size() % 256 == 0) {
      progress({TrainProgress::Stage::kMerging, static_cast<std::int64_t>(spec.vocabulary.size()),
                options.vocab_size});
    }
  }
  std::erase_if(merges, [](const Merge& m) { return m.left < 0; });
  return merges;
}

}  // namespace

TokenizerSpec train_bpe(const TextSource& source, const TrainOptions& options, WorkerPool& pool,
                        const std::function<void(const TrainProgress&)>& progress, TrainSummary* summary) {
  TokenizerSpec spec;
  spec.split = options.split;
  TokenNumbers vocabulary(spec);
  vocabulary.add_special(options.special_tokens);
  if (!options.special_tokens.empty()) spec.eos = options.special_tokens.front();
  const ByteAlphabet alphabet;
  std::vector<std::pair<char32_t, int>> order;  // ids follow the code points of the symbols
  for (int b = 0; b < 256; ++b) order.emplace_back(alphabet.symbol(static_cast<std::uint8_t>(b)), b);
  std::sort(order.begin(), order.end());
  std::vector<TokenId> byte_ids(256);
  for (const auto& [symbol, byte] : order) {
    std::string token;
    append_utf8(symbol, token);
    byte_ids[static_cast<std::size_t>(byte)] = vocabulary.add(token);
  }
  check_size(options, spec.vocabulary.size(), "256 bytes");

  TrainSummary counted;
  const Splitter splitter(options.split);
  const auto cut = [&](std::string_view text, std::string&, const auto& word) {
    for (const char *p = text.data(), *end = p + text.size(); p < end;) {
      const std::size_t n = splitter.next(p, end);
      word(std::string_view(p, n));
      p += n;
    }
  };
  const WordCounts counts = count_words(source, cut, pool, progress, counted);
  require_words(counted);
  Merger merger(counts, [&](std::string_view word, std::vector<TokenId>& symbols) {
    for (const char c : word) symbols.push_back(byte_ids[static_cast<std::uint8_t>(c)]);
  });
  const auto join = [](const std::string& left, const std::string& right) { return left + right; };
  spec.merges = merge_all(merger, options, spec, vocabulary, join, progress);
  if (summary != nullptr) *summary = counted;
  return spec;
}

TokenizerSpec train_wordpiece(const TextSource& source, const TrainOptions& options, WorkerPool& pool,
                              const std::function<void(const TrainProgress&)>& progress,
                              TrainSummary* summary) {
  TokenizerSpec spec;
  spec.form = SymbolForm::kWordPiece;
  spec.split = SplitPattern::kNone;
  spec.wordpiece = options.wordpiece;
  TokenNumbers vocabulary(spec);
  vocabulary.add_special(options.special_tokens);
  for (const auto& [token, role] :
       {std::pair{"[UNK]", &spec.unk}, std::pair{"[PAD]", &spec.pad}, std::pair{"[CLS]", &spec.cls},
        std::pair{"[SEP]", &spec.sep}, std::pair{"[MASK]", &spec.mask}}) {
    require<ConfigError>(vocabulary.find(token).has_value(),
                         "WordPiece needs the special token {}: give [PAD], [UNK], [CLS], [SEP] and [MASK]",
                         token);
    *role = token;
  }
  spec.before = {*vocabulary.find(spec.cls)}, spec.after = {*vocabulary.find(spec.sep)};
  spec.pair = {spec.before, spec.after, spec.after};

  TrainSummary counted;
  const WordPiece::Ids none;
  const WordPiece words(options.wordpiece, none, 0);  // normalizes and cuts
  const auto cut = [&](std::string_view text, std::string& storage, const auto& word) {
    words.normalize(text, storage);
    for (const char *p = storage.data(), *end = p + storage.size(); p < end;) {
      std::size_t skip = 0;
      const std::size_t n = words.next_word(p, end, skip);
      p += skip;
      if (n > 0) word(std::string_view(p, n));
      p += n;
    }
  };
  const WordCounts counts = count_words(source, cut, pool, progress, counted);
  require_words(counted);
  // The alphabet: characters as they begin a word and as they continue one, each by code point.
  const auto each_character = [](std::string_view word, const auto& f) {
    for (const char *p = word.data(), *end = p + word.size(); p < end;) {
      const CodePoint c = read_utf8(p, end);
      f(std::string(p, c.length), p == word.data());
      p += c.length;
    }
  };
  std::set<std::string> all, continued;  // UTF-8 sorts as code points do
  for (std::size_t w = 0; w < counts.size(); ++w)
    each_character(counts.word(w), [&](const std::string& c, bool first) {
      all.insert(c);
      if (!first) continued.insert(c);
    });
  for (const auto& c : all) vocabulary.add(c);
  for (const auto& c : continued) vocabulary.add(spec.wordpiece.prefix + c);
  check_size(options, spec.vocabulary.size(),
             fmt::format("the {} characters of the text", all.size() + continued.size()));
  Merger merger(counts, [&](std::string_view word, std::vector<TokenId>& symbols) {
    each_character(word, [&](const std::string& c, bool first) {
      symbols.push_back(*vocabulary.find(first ? c : spec.wordpiece.prefix + c));
    });
  });
  const auto join = [&](const std::string& left, const std::string& right) {
    return left + right.substr(spec.wordpiece.prefix.size());
  };
  merge_all(merger, options, spec, vocabulary, join, progress);  // longest pieces need no merges
  if (summary != nullptr) *summary = counted;
  return spec;
}

}  // namespace stoa::token

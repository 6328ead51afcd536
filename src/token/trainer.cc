#include "token/trainer.h"

#include <algorithm>
#include <memory>
#include <unordered_map>

#include "base/error.h"
#include "token/byte_alphabet.h"
#include "token/word_counts.h"

namespace stoa::token {
namespace {

constexpr std::size_t kBatchBytes = std::size_t{8} << 20;  // texts held at once while counting
constexpr std::size_t kTaskBytes = std::size_t{256} << 10;

WordCounts count_words(const TextSource& source, SplitPattern pattern, WorkerPool& pool,
                       const std::function<void(const TrainProgress&)>& progress, TrainSummary& summary) {
  const Splitter splitter(pattern);
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
      for (std::size_t i = task_first[t]; i < last; ++i) {
        const char *p = batch.data() + (i == 0 ? 0 : ends[i - 1]), *end = batch.data() + ends[i];
        while (p < end) {
          const std::size_t n = splitter.next(p, end);
          const std::string_view word(p, n);
          counts.add(word, WordCounts::hash_of(word), 1);
          p += n;
          ++seen;
        }
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

// Counts of adjacent pairs with lazy updates, and the words where each was made. It repeats Hugging Face's
// bookkeeping to the letter, including what looks odd: a merged pair keeps its count, and a pair made again
// (two ways to spell one token) is a second queue entry with its own words.
class Merger {
 public:
  Merger(const WordCounts& counts, std::span<const TokenId> byte_ids) {
    std::size_t symbols = 0;
    for (std::size_t w = 0; w < counts.size(); ++w) symbols += counts.word(w).size();
    symbols_.reserve(symbols);
    words_.reserve(counts.size());
    for (std::size_t w = 0; w < counts.size(); ++w) {
      const std::string_view word = counts.word(w);
      words_.push_back({symbols_.size(), static_cast<std::uint32_t>(word.size()), counts.count(w)});
      for (const char c : word) symbols_.push_back(byte_ids[static_cast<std::uint8_t>(c)]);
    }
    for (std::uint32_t w = 0; w < words_.size(); ++w) {
      const TokenId* s = symbols_.data() + words_[w].begin;
      for (std::uint32_t i = 0; i + 1 < words_[w].length; ++i) {
        change({s[i], s[i + 1]}, words_[w].count, w);
      }
    }
    queue_touched();
  }

  struct Pair {
    TokenId left, right;
    bool operator==(const Pair&) const = default;
    bool operator<(const Pair& o) const { return left != o.left ? left < o.left : right < o.right; }
  };

  // The most frequent pair, or false when none occurs at least `min_frequency` (and once).
  bool next(std::int64_t min_frequency, Pair& pair) {
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end());
      top_ = heap_.back();
      heap_.pop_back();
      const std::int64_t count = infos_[top_.info].count;
      if (top_.count != count) {
        top_.count = count;
        heap_.push_back(top_);
        std::push_heap(heap_.begin(), heap_.end());
        continue;
      }
      if (count < 1 || count < min_frequency) return false;
      pair = top_.pair;
      return true;
    }
    return false;
  }

  // Replaces the pair that next() gave by `result` in all words of its entry.
  void merge(TokenId result) {
    ++step_;
    const Pair pair = top_.pair;
    const std::vector<std::uint32_t> where = std::move(places_[top_.places]);
    places_[top_.places] = {};
    free_places_.push_back(top_.places);
    for (const std::uint32_t w : where) merge_in(w, pair, result);
    queue_touched();
  }

 private:
  struct Word {
    std::size_t begin;
    std::uint32_t length;
    std::int64_t count;
  };
  struct Info {
    std::int64_t count = 0;
    std::uint32_t step = 0, places = 0;  // places: of the entry being made in `step`
    Pair pair{};
  };
  struct Entry {
    std::int64_t count;
    Pair pair;
    std::uint32_t info, places;
    bool operator<(const Entry& o) const { return count != o.count ? count < o.count : o.pair < pair; }
  };
  struct PairHash {
    std::size_t operator()(const Pair& p) const {
      const std::uint64_t k = static_cast<std::uint64_t>(static_cast<std::uint32_t>(p.left)) << 32 |
                              static_cast<std::uint32_t>(p.right);
      return static_cast<std::size_t>((k * 0x9E3779B97F4A7C15u) >> 20);
    }
  };

  std::uint32_t info_of(Pair pair) {
    if (infos_.size() * 2 >= slots_.size()) rehash();
    const std::size_t mask = slots_.size() - 1;
    std::size_t i = PairHash{}(pair)&mask;
    for (; slots_[i] != 0; i = (i + 1) & mask) {
      if (infos_[slots_[i] - 1].pair == pair) return slots_[i] - 1;
    }
    infos_.push_back({.pair = pair});
    slots_[i] = static_cast<std::uint32_t>(infos_.size());
    return slots_[i] - 1;
  }
  void rehash() {
    slots_.assign(std::max<std::size_t>(1 << 16, slots_.size() * 2), 0);
    const std::size_t mask = slots_.size() - 1;
    for (std::uint32_t n = 0; n < infos_.size(); ++n) {
      std::size_t i = PairHash{}(infos_[n].pair) & mask;
      while (slots_[i] != 0) i = (i + 1) & mask;
      slots_[i] = n + 1;
    }
  }

  void change(Pair pair, std::int64_t by, std::uint32_t word) {
    const std::uint32_t n = info_of(pair);
    Info& info = infos_[n];
    info.count += by;
    if (by <= 0) return;
    if (info.step != step_) {
      info.step = step_;
      if (free_places_.empty()) {
        info.places = static_cast<std::uint32_t>(places_.size());
        places_.emplace_back();
      } else {
        info.places = free_places_.back();
        free_places_.pop_back();
      }
      touched_.push_back(n);
    }
    auto& where = places_[info.places];
    if (where.empty() || where.back() != word) where.push_back(word);
  }

  void queue_touched() {
    for (const std::uint32_t n : touched_) {
      const Info& info = infos_[n];
      if (info.count > 0) {
        heap_.push_back({info.count, info.pair, n, info.places});
        std::push_heap(heap_.begin(), heap_.end());
      } else {
        places_[info.places] = {};
        free_places_.push_back(info.places);
      }
    }
    touched_.clear();
  }

  void merge_in(std::uint32_t w, Pair pair, TokenId result) {
    Word& word = words_[w];
    TokenId* s = symbols_.data() + word.begin;
    const std::uint32_t n = word.length;
    std::uint32_t out = 0;
    for (std::uint32_t i = 0; i < n;) {
      if (s[i] != pair.left || i + 1 >= n || s[i + 1] != pair.right) {
        s[out++] = s[i++];
        continue;
      }
      if (out > 0) {
        change({s[out - 1], pair.left}, -word.count, w);
        change({s[out - 1], result}, word.count, w);
      }
      s[out++] = result;
      i += 2;
      if (i < n) {
        change({pair.right, s[i]}, -word.count, w);
        change({result, s[i]}, word.count, w);
      }
    }
    word.length = out;
  }

  std::vector<TokenId> symbols_;
  std::vector<Word> words_;
  std::vector<Info> infos_;
  std::vector<std::uint32_t> slots_;
  std::vector<std::vector<std::uint32_t>> places_;
  std::vector<std::uint32_t> free_places_, touched_;
  std::vector<Entry> heap_;
  Entry top_{};
  std::uint32_t step_ = 1;
};

}  // namespace

TokenizerSpec train_bpe(const TextSource& source, const TrainOptions& options, WorkerPool& pool,
                        const std::function<void(const TrainProgress&)>& progress, TrainSummary* summary) {
  TokenizerSpec spec;
  spec.split = options.split;
  std::unordered_map<std::string, TokenId> ids;
  const auto add = [&](const std::string& token) {
    const auto [it, fresh] = ids.emplace(token, static_cast<TokenId>(spec.vocabulary.size()));
    if (fresh) spec.vocabulary.push_back(token);
    return it->second;
  };
  for (const std::string& token : options.special_tokens) {
    require<ConfigError>(!token.empty(), "a special token is empty");
    const auto before = spec.vocabulary.size();
    const TokenId id = add(token);
    require<ConfigError>(spec.vocabulary.size() > before, "special token '{}' is given twice", token);
    spec.added.push_back({.id = id, .content = token});
  }
  if (!options.special_tokens.empty()) spec.eos = options.special_tokens.front();
  const ByteAlphabet alphabet;
  std::vector<std::pair<char32_t, int>> order;  // ids follow the code points of the symbols
  for (int b = 0; b < 256; ++b) order.emplace_back(alphabet.symbol(static_cast<std::uint8_t>(b)), b);
  std::sort(order.begin(), order.end());
  std::vector<TokenId> byte_ids(256);
  for (const auto& [symbol, byte] : order) {
    std::string token;
    append_utf8(symbol, token);
    byte_ids[static_cast<std::size_t>(byte)] = add(token);
  }
  const auto base = static_cast<std::int64_t>(spec.vocabulary.size());
  require<ConfigError>(options.vocab_size >= base,
                       "a vocabulary of {} is too small: {} special tokens and 256 bytes need at least {}",
                       options.vocab_size, options.special_tokens.size(), base);
  require<ConfigError>(options.vocab_size < (std::int64_t{1} << 28), "a vocabulary of {} is too large",
                       options.vocab_size);

  TrainSummary counted;
  const WordCounts counts = count_words(source, options.split, pool, progress, counted);
  require<DataError>(counted.words > 0, "there is no text to train on ({} texts, {} bytes)", counted.texts,
                     counted.bytes);
  Merger merger(counts, byte_ids);
  Merger::Pair pair;
  std::unordered_map<std::uint64_t, std::size_t> rank_of;  // a pair merged again takes its later place
  std::vector<Merge> merges;
  while (static_cast<std::int64_t>(spec.vocabulary.size()) < options.vocab_size &&
         merger.next(options.min_frequency, pair)) {
    const TokenId result = add(spec.vocabulary[static_cast<std::size_t>(pair.left)] +
                               spec.vocabulary[static_cast<std::size_t>(pair.right)]);
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
  for (const Merge& m : merges) {
    if (m.left >= 0) spec.merges.push_back(m);
  }
  if (summary != nullptr) *summary = counted;
  return spec;
}

}  // namespace stoa::token

#include <xxhash.h>

#include <cmath>
#include <numbers>

#include "base/console.h"
#include "base/error.h"
#include "curate/dedup/cutter.h"
#include "curate/text/character.h"
#include "curate/text/space_words.h"
#include "curate/text/word_break.h"

namespace stoa::curate {
namespace {

// A set of hashes that forgets none and takes some others for its own.
class BloomFilter {
 public:
  // For `entries` of them with at most that rate of errors. ConfigError: it does not fit into `memory` bytes.
  BloomFilter(std::uint64_t entries, double rate, std::size_t memory) {
    const double n = static_cast<double>(std::max<std::uint64_t>(entries, 1));
    const double bits = std::ceil(-n * std::log(rate) / (std::numbers::ln2 * std::numbers::ln2));
    require<ConfigError>(
        bits / 8 <= static_cast<double>(memory),
        "a Bloom filter of {} entries with a false_positive_rate of {} needs {}; give at least --memory "
        "{:.2f}",
        entries, rate, format_bytes(bits / 8), 2e-9 * bits / 8 + 0.01);
    words_.resize(static_cast<std::size_t>(bits / 64) + 1);
    hashes_ = std::max(1, static_cast<int>(std::lround(bits / n * std::numbers::ln2)));
  }
  bool contains(std::uint64_t key) const {
    bool all = true;
    each_bit(key, [&](std::size_t bit) { all = all && (words_[bit / 64] >> (bit % 64) & 1) != 0; });
    return all;
  }
  void insert(std::uint64_t key) {
    each_bit(key, [&](std::size_t bit) { words_[bit / 64] |= std::uint64_t{1} << (bit % 64); });
  }

 private:
  template <class F>
  void each_bit(std::uint64_t key, F&& visit) const {
    const std::uint64_t step = XXH3_64bits(&key, sizeof(key)) | 1, bits = words_.size() * 64;
    for (int i = 0; i < hashes_; ++i) visit((key + static_cast<std::uint64_t>(i) * step) % bits);
  }

  std::vector<std::uint64_t> words_;
  int hashes_ = 1;
};

class BloomCutter final : public Cutter {
 public:
  BloomCutter(const BloomCut& options, const CutterPlace& place) : o_(options), memory_(place.memory / 2) {}

  int passes() const override { return 1; }
  void see(int, std::string_view text) override {
    each_paragraph(text, [&](std::string_view paragraph, std::size_t) {
      hashes_of(paragraph);
      entries_ += hashes_.size();
    });
  }
  void end_pass(int) override {
    filter_ = std::make_unique<BloomFilter>(entries_, o_.false_positive_rate, memory_);
  }

  bool cut(std::string& text) override {
    std::string kept;
    std::size_t all = 0, known = 0;
    each_paragraph(text, [&](std::string_view paragraph, std::size_t with_end) {
      hashes_of(paragraph);
      std::size_t own = 0;
      for (const std::uint64_t hash : hashes_) own += filter_->contains(hash);
      all += hashes_.size();
      known += own;
      if (is_beyond(own, hashes_.size())) return;
      for (const std::uint64_t hash : hashes_) filter_->insert(hash);
      kept.append(paragraph.data(), with_end);
    });
    text = std::move(kept);
    if (o_.rule == BloomRule::kBff && is_beyond(known, all)) return false;
    return !strip(text).empty();
  }

 private:
  bool is_beyond(std::size_t known, std::size_t all) const {
    if (o_.rule == BloomRule::kDolma) return known > 0;
    return all > 0 && static_cast<double>(known) / static_cast<double>(all) > o_.filtering_threshold;
  }

  // Paragraphs are lines. BFF's begin with the line end before them, dolma's end with their own.
  template <class F>
  void each_paragraph(std::string_view text, F&& visit) const {
    while (!text.empty()) {
      const bool bff = o_.rule == BloomRule::kBff;
      std::size_t end = text.find('\n', bff && text.front() == '\n' ? 1 : 0);
      std::size_t with_end = end;
      if (end == text.npos)
        end = with_end = text.size();
      else if (!bff)
        ++with_end;
      visit(text.substr(0, end), with_end);
      text.remove_prefix(with_end);
    }
  }

  // Fills hashes_ with those of the n-grams of a paragraph, or of itself.
  void hashes_of(std::string_view paragraph) {
    hashes_.clear();
    if (o_.rule == BloomRule::kDolma) {
      if (o_.skip_empty && strip(paragraph).empty()) return;
      if (static_cast<std::int64_t>(count_characters(paragraph)) < o_.min_length ||
          (o_.min_words > 0 && std::ssize(split_at_white_space(paragraph)) < o_.min_words))
        return;
      hashes_.push_back(XXH3_64bits(paragraph.data(), paragraph.size()));
      return;
    }
    pieces_.clear();
    split_at_word_breaks(paragraph, pieces_);
    words_.clear();
    for (const std::string_view piece : pieces_)
      if (!strip(piece).empty()) words_.push_back(space_word(piece));
    const auto longest = static_cast<std::size_t>(o_.max_ngram_size);
    for (std::size_t i = 0; i + longest <= words_.size(); ++i)
      hashes_.push_back(ngram_key(words_, i, longest));
    if (hashes_.empty() && !words_.empty() && std::ssize(words_) >= o_.min_ngram_size)
      hashes_.push_back(ngram_key(words_, 0, words_.size()));
  }

  const BloomCut o_;
  const std::size_t memory_;
  std::uint64_t entries_ = 0;
  std::unique_ptr<BloomFilter> filter_;
  std::vector<std::uint64_t> hashes_;
  std::vector<std::string_view> pieces_;
  std::vector<SpaceWord> words_;
};

}  // namespace

std::unique_ptr<Cutter> make_bloom_cutter(const BloomCut& options, const CutterPlace& place) {
  require<ConfigError>(options.min_ngram_size <= options.max_ngram_size,
                       "min_ngram_size {} is larger than max_ngram_size {}", options.min_ngram_size,
                       options.max_ngram_size);
  return std::make_unique<BloomCutter>(options, place);
}

}  // namespace stoa::curate

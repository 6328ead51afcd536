#include "data/sentence_index.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/error.h"

namespace stoa::data {
namespace {

constexpr std::int64_t kDocumentsPerLook = 1 << 14;  // between two looks at the stop token

// Most tokens of the next sample: `longest`, or sometimes fewer.
class Targets {
 public:
  explicit Targets(const SentenceIndexInput& in)
      : generator_(in.seed),
        ratio_(in.short_probability > 0 ? std::lround(1 / in.short_probability) : 0),
        longest_(in.longest) {}

  std::int64_t next() {
    if (ratio_ == 0) return longest_;
    const auto drawn = static_cast<std::int64_t>(generator_());
    return drawn % ratio_ == 0 ? 2 + drawn % (longest_ - 1) : longest_;
  }

 private:
  std::mt19937 generator_;
  const std::int64_t ratio_, longest_;
};

template <class Row>
void one_epoch(const SentenceIndexInput& in, Targets& targets, const Row& row) {
  for (std::int64_t d = in.first; d < in.last; ++d) {
    if ((d - in.first) % kDocumentsPerLook == 0)
      require<Interrupted>(!in.stop.stop_requested(), "interrupted while the data was indexed");
    const std::int64_t begin = in.data->document_start(d), end = in.data->document_start(d + 1);
    std::int64_t left = end - begin;
    if (left < std::max<std::int64_t>(1, in.least_sentences)) continue;
    bool too_long = false;
    for (std::int64_t s = begin; left > 1 && s < end && !too_long; ++s)
      too_long = in.data->length(s) > kLongestSentence;
    if (too_long) continue;
    std::int64_t target = targets.next(), from = begin, tokens = 0, sentences = 0;
    for (std::int64_t s = begin; s < end; ++s) {
      tokens += in.data->length(s);
      ++sentences;
      --left;
      const bool full = tokens >= target && left > 1 && sentences >= in.least_sentences;
      if (!full && left > 0) continue;
      row(from, s + 1, target);
      from = s + 1;
      tokens = sentences = 0;
      target = targets.next();
    }
  }
}

template <class T>
NpyArray build(const SentenceIndexInput& in) {
  Targets targets(in);
  std::vector<T> rows;
  const auto count = [&] { return static_cast<std::int64_t>(rows.size() / 3); };
  do {
    const std::int64_t before = count();
    one_epoch(in, targets, [&](std::int64_t from, std::int64_t to, std::int64_t target) {
      for (const std::int64_t value : {from, to, target}) rows.push_back(static_cast<T>(value));
    });
    require<DataError>(count() > before,
                       "'{}': none of {} documents has {} sentences or more, none longer than {} tokens; "
                       "prepare the text with "
                       "--split-sentences",
                       in.data->prefix().string(), in.last - in.first, in.least_sentences, kLongestSentence);
  } while (in.samples && count() < *in.samples);
  std::mt19937_64 generator(std::uint64_t{in.seed} + 1);
  for (std::int64_t i = count() - 1; i > 0; --i) {
    const auto j = static_cast<std::int64_t>(generator() % static_cast<std::uint64_t>(i + 1));
    for (int c = 0; c < 3; ++c)
      std::swap(rows[static_cast<std::size_t>(3 * i + c)], rows[static_cast<std::size_t>(3 * j + c)]);
  }
  return NpyArray::from(std::move(rows));
}

}  // namespace

NpyArray build_sentence_index(const SentenceIndexInput& in) {
  require<ConfigError>(in.longest >= 2,
                       "samples of {} tokens in addition to the special ones; expected 2 or more",
                       in.longest);
  return in.data->sequences() > std::numeric_limits<std::uint32_t>::max() ? build<std::int64_t>(in)
                                                                          : build<std::uint32_t>(in);
}

}  // namespace stoa::data

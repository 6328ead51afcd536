#include "curate/language_model/kneser_ney.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace stoa::curate {
namespace {

enum SpecialWord : std::uint32_t { kUnknownWord = 0, kSentenceBegin = 1, kSentenceEndWord = 2 };
constexpr std::uint64_t kLeastGrams = 1 << 16;

void append_logarithm(double value, std::string& out) {
  const auto log10 = static_cast<float>(std::log10(value));
  fmt::format_to(std::back_inserter(out), "{}", log10 == 0 ? 0.0F : log10);  // no -0
}

}  // namespace

KneserNeyTrainer::KneserNeyTrainer(int order, std::uint64_t memory)
    : order_(static_cast<std::size_t>(order)),
      most_grams_(std::max(kLeastGrams, memory / (4 * sizeof(Gram)))),
      merge_at_(kLeastGrams),
      grams_(order_) {
  require<ConfigError>(order >= 2 && order <= kHighestOrder, "an order of {}; expected 2 to {}", order,
                       kHighestOrder);
  for (const char* word : {"<unk>", "<s>", "</s>"}) id_of(word);
}

std::uint32_t KneserNeyTrainer::id_of(std::string_view word) {
  const auto [found, fresh] = ids_.emplace(word, static_cast<std::uint32_t>(names_.size()));
  if (fresh) names_.emplace_back(word);
  return found->second;
}

void KneserNeyTrainer::count_raw(std::size_t order, const std::uint32_t* words) {
  Gram gram;
  std::copy_n(words, order, gram.words.begin());
  gram.count = 1;
  grams_[order - 1].push_back(gram);
  ++grams_held_;
}

// All n-grams of the highest order, and those of lower ones that begin the sentence.
void KneserNeyTrainer::add(const std::vector<std::string_view>& sentence) {
  std::vector<std::uint32_t> words{kSentenceBegin};
  // The names of marks are no words (lmplz refuses such texts, or skips them when told).
  for (const std::string_view word : sentence)
    words.push_back(word == "<s>" || word == "</s>" ? std::uint32_t{kUnknownWord} : id_of(word));
  words.push_back(kSentenceEndWord);
  words_ += std::ssize(sentence);
  for (std::size_t at = 0; at + order_ <= words.size(); ++at) count_raw(order_, words.data() + at);
  for (std::size_t n = 2; n < order_ && n <= words.size(); ++n) count_raw(n, words.data());
  if (grams_held_ < merge_at_) return;
  for (auto& grams : grams_) merge_equal(grams);
  grams_held_ = 0;
  for (const auto& grams : grams_) grams_held_ += grams.size();
  // Lower orders, which come later, have at most as many n-grams each.
  require<ConfigError>(grams_held_ <= most_grams_,
                       "the text has more different {}-grams than fit into memory: more than {}; give more "
                       "--memory, a lower --order or less text",
                       order_, most_grams_);
  merge_at_ = std::max(kLeastGrams, std::min(2 * grams_held_, most_grams_ + kLeastGrams));
}

void KneserNeyTrainer::merge_equal(std::vector<Gram>& grams) {
  std::sort(grams.begin(), grams.end(), [](const Gram& a, const Gram& b) { return a.words < b.words; });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < grams.size(); ++i) {
    if (kept > 0 && grams[kept - 1].words == grams[i].words)
      grams[kept - 1].count += grams[i].count;
    else
      grams[kept++] = grams[i];
  }
  grams.resize(kept);
}

void KneserNeyTrainer::count_lower_orders() {
  for (std::size_t n = order_; n >= 1; --n) {
    merge_equal(grams_[n - 1]);
    if (n == 1) break;
    for (const Gram& gram : grams_[n - 1]) {
      Gram suffix;
      std::copy_n(gram.words.begin() + 1, n - 1, suffix.words.begin());
      suffix.count = 1;
      grams_[n - 2].push_back(suffix);
    }
  }
  // In no text, or before the first word: without a count, but in the model.
  for (const std::uint32_t word : {kUnknownWord, kSentenceBegin}) {
    Gram gram;
    gram.words[0] = word;
    grams_.front().push_back(gram);
  }
  merge_equal(grams_.front());
}

KneserNeyTrainer::Discounts KneserNeyTrainer::estimate_discounts(std::size_t order) const {
  std::array<double, 5> with{};  // n-grams that were counted once, twice, …
  for (const Gram& gram : grams_[order - 1])
    if (gram.count >= 1 && gram.count <= 4) ++with[gram.count];
  Discounts out;
  const double y = with[1] / (with[1] + 2 * with[2]);
  for (std::size_t i = 1; i <= 3; ++i) {
    const auto count = static_cast<double>(i);
    out.of[i - 1] = count - (count + 1) * y * with[i + 1] / with[i];
    if (!(out.of[i - 1] >= 0 && out.of[i - 1] <= count)) out.fallback = true;  // NaN, too
  }
  if (out.fallback) out.of = {0.5, 1, 1.5};
  return out;
}

KneserNeyTrainer::Gram& KneserNeyTrainer::find(std::size_t order, const std::uint32_t* words) {
  Words wanted{};
  std::copy_n(words, order, wanted.begin());
  auto& grams = grams_[order - 1];
  const auto at = std::lower_bound(grams.begin(), grams.end(), wanted,
                                   [](const Gram& gram, const Words& key) { return gram.words < key; });
  require<InternalError>(at != grams.end() && at->words == wanted, "an n-gram without its parts");
  return *at;
}

// Probabilities of one order, of which all contexts stand together; those of lower orders are known.
void KneserNeyTrainer::estimate(std::size_t order, const Discounts& discounts) {
  auto& grams = grams_[order - 1];
  const std::size_t context = order - 1;
  const double uniform = 1 / static_cast<double>(grams_.front().size() - 1);  // <s> is never drawn
  for (std::size_t begin = 0, end = 0; begin < grams.size(); begin = end) {
    const auto same_context = [&](const Gram& gram) {
      return std::equal(gram.words.begin(), gram.words.begin() + static_cast<std::ptrdiff_t>(context),
                        grams[begin].words.begin());
    };
    double total = 0, taken = 0;
    for (end = begin; end < grams.size() && same_context(grams[end]); ++end) {
      const std::uint64_t count = grams[end].count;
      total += static_cast<double>(count);
      if (count > 0) taken += discounts.of[std::min<std::uint64_t>(count, 3) - 1];
    }
    const double back_off = taken / total;
    if (context > 0) find(context, grams[begin].words.data()).back_off = back_off;
    for (std::size_t i = begin; i < end; ++i) {
      Gram& gram = grams[i];
      const double discount = gram.count > 0 ? discounts.of[std::min<std::uint64_t>(gram.count, 3) - 1] : 0;
      const double lower = order == 1 ? uniform : find(order - 1, gram.words.data() + 1).probability;
      gram.probability = (static_cast<double>(gram.count) - discount) / total + back_off * lower;
    }
  }
  if (order == 1) grams[kSentenceBegin].probability = 1;  // words are sorted by their ids
}

KneserNeyTrainer::Summary KneserNeyTrainer::write(const fs::path& path) {
  require<DataError>(!grams_[order_ - 1].empty() || !grams_[1].empty(), "there is no sentence to learn from");
  count_lower_orders();
  Summary out;
  for (std::size_t n = 1; n <= order_; ++n) {
    out.ngrams.push_back(grams_[n - 1].size());
    out.discounts.push_back(estimate_discounts(n));
    estimate(n, out.discounts.back());
  }
  AtomicFile file(path);
  std::string text = "\\data\\\n";
  for (std::size_t n = 1; n <= order_; ++n) text += fmt::format("ngram {}={}\n", n, out.ngrams[n - 1]);
  for (std::size_t n = 1; n <= order_; ++n) {
    text += fmt::format("\n\\{}-grams:\n", n);
    for (const Gram& gram : grams_[n - 1]) {
      append_logarithm(gram.probability, text);
      for (std::size_t i = 0; i < n; ++i) {
        text += i == 0 ? '\t' : ' ';
        text += names_[gram.words[i]];
      }
      if (n < order_) {
        text += '\t';
        append_logarithm(gram.back_off, text);
      }
      text += '\n';
      if (text.size() < (1 << 16)) continue;
      file.write(text);
      text.clear();
    }
  }
  text += "\n\\end\\\n";
  file.write(text);
  file.commit();
  return out;
}

}  // namespace stoa::curate

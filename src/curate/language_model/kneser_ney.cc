#include "curate/language_model/kneser_ney.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace stoa::curate {
namespace {

enum SpecialWord : std::uint32_t { kUnknownWord = 0, kSentenceBegin = 1, kSentenceEndWord = 2 };
// What a word of the vocabulary takes besides long names: a node, its place in the table, an entry of names_.
constexpr std::uint64_t kBytesPerWord = 104, kShortName = 15;
// Parts of the memory: three eighths for the vocabulary, two quarters for the two sorters that are in use at
// a time, the rest for files that are held as long as they are small.
constexpr std::uint64_t kVocabularyShare = 3, kShares = 8, kSorters = 4, kSmallSorters = 16, kFiles = 128;

double discount_of(const KneserNeyTrainer::Discounts& discounts, std::uint64_t count) {
  return count > 0 ? discounts.of[std::min<std::uint64_t>(count, 3) - 1] : 0;
}

// `with`: how many n-grams were counted once, twice, … (from place 1 on).
KneserNeyTrainer::Discounts estimate_discounts(const std::array<double, 5>& with) {
  KneserNeyTrainer::Discounts out;
  const double y = with[1] / (with[1] + 2 * with[2]);
  for (std::size_t i = 1; i <= 3; ++i) {
    const auto count = static_cast<double>(i);
    out.of[i - 1] = count - (count + 1) * y * with[i + 1] / with[i];
    if (!(out.of[i - 1] >= 0 && out.of[i - 1] <= count)) out.fallback = true;  // NaN, too
  }
  if (out.fallback) out.of = {0.5, 1, 1.5};
  return out;
}

// Of n-grams with the same context, which stand together: the sum of their counts, and what discounts take.
struct ContextTotals {
  double total = 0, taken = 0;
  void add(const Gram& gram, const KneserNeyTrainer::Discounts& discounts) {
    total += static_cast<double>(gram.count);
    taken += discount_of(discounts, gram.count);
  }
};

bool same_context(const Gram& a, const Gram& b, std::size_t words) {
  return std::equal(a.words.begin(), a.words.begin() + static_cast<std::ptrdiff_t>(words), b.words.begin());
}

void append_logarithm(double value, std::string& out) {
  const auto log10 = static_cast<float>(std::log10(value));
  fmt::format_to(std::back_inserter(out), "{}", log10 == 0 ? 0.0F : log10);  // no -0
}

}  // namespace

// The file, section by section.
class KneserNeyTrainer::Arpa {
 public:
  Arpa(const fs::path& path, const KneserNeyTrainer& trainer) : trainer_(trainer), file_(path) {
    text_ = "\\data\\\n";
    for (std::size_t n = 1; n <= trainer.order_; ++n)
      text_ += fmt::format("ngram {}={}\n", n, trainer.orders_[n - 1].grams->size());
  }
  void begin(std::size_t order) {
    order_ = order;
    text_ += fmt::format("\n\\{}-grams:\n", order);
  }
  void add(const Gram& gram) {
    append_logarithm(gram.probability, text_);
    for (std::size_t i = 0; i < order_; ++i) {
      text_ += i == 0 ? '\t' : ' ';
      text_ += *trainer_.names_[gram.words[i]];
    }
    if (order_ < trainer_.order_) {
      text_ += '\t';
      append_logarithm(gram.back_off, text_);
    }
    text_ += '\n';
    if (text_.size() < (1 << 16)) return;
    file_.write(text_);
    text_.clear();
  }
  void commit() {
    text_ += "\n\\end\\\n";
    file_.write(text_);
    file_.commit();
  }

 private:
  const KneserNeyTrainer& trainer_;
  AtomicFile file_;
  std::size_t order_ = 0;
  std::string text_;
};

KneserNeyTrainer::KneserNeyTrainer(int order, std::uint64_t memory, fs::path folder)
    : order_(static_cast<std::size_t>(order)), memory_(memory), folder_(std::move(folder)), orders_(order_) {
  require<ConfigError>(order >= 2 && order <= kHighestOrder, "an order of {}; expected 2 to {}", order,
                       kHighestOrder);
  std::error_code error;
  fs::remove_all(folder_, error);  // of a run that was killed
  fs::create_directories(folder_, error);
  require<IoError>(!error, "cannot make the directory '{}': {}", folder_.string(), error.message());
  for (std::size_t n = 1; n <= order_; ++n)  // all at once, while the text is read
    orders_[n - 1].counted = std::make_unique<GramSorter>(
        file_named("counts", n), memory_ / (n == order_ ? kSorters : kSmallSorters), true);
  for (const char* word : {"<unk>", "<s>", "</s>"}) id_of(word);
}

KneserNeyTrainer::~KneserNeyTrainer() {
  orders_.clear();
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

fs::path KneserNeyTrainer::file_named(std::string_view name, std::size_t order) const {
  return folder_ / fmt::format("{}-{}", name, order);
}

std::unique_ptr<GramFile> KneserNeyTrainer::new_file(std::string_view name, std::size_t order) const {
  return std::make_unique<GramFile>(file_named(name, order), memory_ / kFiles);
}

std::uint32_t KneserNeyTrainer::id_of(std::string_view word) {
  const auto [found, fresh] = ids_.emplace(word, static_cast<std::uint32_t>(names_.size()));
  if (!fresh) return found->second;
  names_.push_back(&found->first);
  vocabulary_bytes_ += kBytesPerWord + (word.size() > kShortName ? word.size() + 1 : 0);
  require<ConfigError>(vocabulary_bytes_ <= memory_ * kVocabularyShare / kShares,
                       "the text has more different words than fit into memory: more than {}; give more "
                       "--memory, a --tokenizer or less text",
                       names_.size() - 1);
  return found->second;
}

void KneserNeyTrainer::count(std::size_t order, const std::uint32_t* words) {
  Gram gram;
  std::copy_n(words, order, gram.words.begin());
  gram.count = 1;
  orders_[order - 1].counted->add(gram);
}

// All n-grams of the highest order, and those of lower ones that begin the sentence.
void KneserNeyTrainer::add(const std::vector<std::string_view>& sentence) {
  std::vector<std::uint32_t> words{kSentenceBegin};
  // The names of marks are no words (lmplz refuses such texts, or skips them when told).
  for (const std::string_view word : sentence)
    words.push_back(word == "<s>" || word == "</s>" ? std::uint32_t{kUnknownWord} : id_of(word));
  words.push_back(kSentenceEndWord);
  words_ += std::ssize(sentence);
  for (std::size_t at = 0; at + order_ <= words.size(); ++at) count(order_, words.data() + at);
  for (std::size_t n = 2; n < order_ && n <= words.size(); ++n) count(n, words.data());
}

// Brings the n-grams of an order into their file, counts them for the order below, and finds its discounts.
void KneserNeyTrainer::merge_counts(std::size_t order) {
  Order& own = orders_[order - 1];
  own.grams = new_file("grams", order);
  if (order == 1)  // in no text, or before the first word: without a count, but in the model
    for (const std::uint32_t word : {kUnknownWord, kSentenceBegin}) {
      Gram gram;
      gram.words[0] = word;
      own.counted->add(gram);
    }
  std::array<double, 5> with{};  // n-grams that were counted once, twice, …
  own.counted->each([&](const Gram& gram) {
    own.grams->add(gram);
    if (gram.count >= 1 && gram.count <= 4) ++with[gram.count];
    if (order == 1) return;
    Gram suffix;
    std::copy_n(gram.words.begin() + 1, order - 1, suffix.words.begin());
    suffix.count = 1;
    orders_[order - 2].counted->add(suffix);
  });
  runs_ += own.counted->runs_written();
  own.counted.reset();
  own.discounts = estimate_discounts(with);
}

void KneserNeyTrainer::estimate_unigrams() {
  Order& own = orders_.front();
  const double uniform = 1 / static_cast<double>(own.grams->size() - 1);  // <s> is never drawn
  ContextTotals all;
  Gram gram;
  for (GramFile::Cursor cursor(*own.grams); cursor.next(gram);) all.add(gram, own.discounts);
  auto estimated = new_file("estimated", 1);
  for (GramFile::Cursor cursor(*own.grams); cursor.next(gram);) {
    gram.probability =
        (static_cast<double>(gram.count) - discount_of(own.discounts, gram.count)) / all.total +
        all.taken / all.total * uniform;
    if (gram.words[0] == kSentenceBegin) gram.probability = 1;
    estimated->add(gram);
  }
  own.grams = std::move(estimated);
}

// Probabilities of an order, given those of the order below, which gets its back-off weights and is written.
void KneserNeyTrainer::estimate(std::size_t order, Arpa& arpa) {
  Order &own = orders_[order - 1], &below = orders_[order - 2];
  const std::size_t context = order - 1;
  // By context: the discounted part of the probability, and the weight of the order below in `back_off`.
  GramSorter by_ending(file_named("endings", order), memory_ / kSorters, false, order);
  {
    arpa.begin(context);
    GramFile::Cursor ahead(*own.grams), cursor(*own.grams), contexts(*below.grams);
    Gram next, gram, shorter;
    for (bool more = ahead.next(next); more;) {
      const Gram first = next;
      ContextTotals totals;
      std::uint64_t members = 0;
      for (; more && same_context(next, first, context); more = ahead.next(next), ++members)
        totals.add(next, own.discounts);
      const double back_off = totals.taken / totals.total;
      for (;;) {  // those that are no context keep a back-off of 1
        require<InternalError>(contexts.next(shorter), "an n-gram without its context");
        const bool found = same_context(shorter, first, context);
        if (found) shorter.back_off = back_off;
        arpa.add(shorter);
        if (found) break;
      }
      for (; members > 0; --members) {
        cursor.next(gram);
        gram.probability =
            (static_cast<double>(gram.count) - discount_of(own.discounts, gram.count)) / totals.total;
        gram.back_off = back_off;
        by_ending.add(gram);
      }
    }
    while (contexts.next(shorter)) arpa.add(shorter);
  }
  own.grams.reset();
  GramSorter by_words(file_named("words", order), memory_ / kSorters, false);
  {
    GramFile::Cursor endings(*below.grams);
    Gram shorter;
    bool read = false;
    by_ending.each([&](const Gram& part) {
      const auto is_ending = [&] {
        return std::equal(shorter.words.begin(), shorter.words.begin() + static_cast<std::ptrdiff_t>(context),
                          part.words.begin() + 1);
      };
      while (!read || !is_ending()) {
        require<InternalError>(endings.next(shorter), "an n-gram without its ending");
        read = true;
      }
      Gram gram = part;
      gram.probability = part.probability + part.back_off * shorter.probability;
      gram.back_off = 1;
      by_words.add(gram);
    });
  }
  below.grams.reset();
  own.grams = new_file("estimated", order);
  by_words.each([&](const Gram& gram) { own.grams->add(gram); });
  runs_ += by_ending.runs_written() + by_words.runs_written();
}

KneserNeyTrainer::Summary KneserNeyTrainer::write(const fs::path& path) {
  require<DataError>(words_ > 0, "there is no sentence to learn from");
  Summary out;
  for (std::size_t n = order_; n >= 1; --n) merge_counts(n);
  for (const Order& order : orders_) {
    out.ngrams.push_back(order.grams->size());
    out.discounts.push_back(order.discounts);
  }
  Arpa arpa(path, *this);
  estimate_unigrams();
  for (std::size_t n = 2; n <= order_; ++n) estimate(n, arpa);
  arpa.begin(order_);
  Gram gram;
  for (GramFile::Cursor cursor(*orders_.back().grams); cursor.next(gram);) arpa.add(gram);
  arpa.commit();
  out.runs = runs_;
  return out;
}

}  // namespace stoa::curate

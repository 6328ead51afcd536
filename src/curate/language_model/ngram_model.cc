#include "curate/language_model/ngram_model.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

#include "base/checksum.h"
#include "base/error.h"

namespace stoa::curate {
namespace {

constexpr std::size_t kLongestArpaLine = 1 << 20;

// Lines of a source, without their ends.
class ArpaLines {
 public:
  explicit ArpaLines(data::ByteSource& source) : source_(source) {}

  // False at the end. The view lives until the next call.
  bool next(std::string_view& line) {
    ++number_;
    for (;;) {
      const std::size_t end = buffer_.find('\n', begin_);
      if (end != std::string::npos) {
        line = std::string_view(buffer_).substr(begin_, end - begin_);
        begin_ = end + 1;
        break;
      }
      require<DataError>(buffer_.size() - begin_ <= kLongestArpaLine, "a line of more than {} bytes",
                         kLongestArpaLine);
      buffer_.erase(0, begin_);
      begin_ = 0;
      const std::size_t size = buffer_.size();
      constexpr std::size_t kPiece = 1 << 18;
      buffer_.resize(size + kPiece);
      buffer_.resize(size + source_.read(buffer_.data() + size, kPiece));
      if (buffer_.size() > size) continue;
      if (buffer_.empty()) return false;
      line = buffer_;
      begin_ = buffer_.size();
      break;
    }
    if (line.ends_with('\r')) line.remove_suffix(1);
    return true;
  }
  std::int64_t number() const { return number_; }

 private:
  data::ByteSource& source_;
  std::string buffer_;
  std::size_t begin_ = 0;
  std::int64_t number_ = 0;
};

// The next piece of a line between blanks or tabs; empty at its end.
std::string_view take_piece(std::string_view& line) {
  const std::size_t begin = std::min(line.find_first_not_of(" \t"), line.size());
  line.remove_prefix(begin);
  const std::size_t end = std::min(line.find_first_of(" \t"), line.size());
  const std::string_view piece = line.substr(0, end);
  line.remove_prefix(end);
  return piece;
}

template <class Number>
Number number_of(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require<DataError>(error == std::errc{} && end == text.data() + text.size(),
                     "'{}' where a number is expected", text);
  return value;
}

float logarithm_of(std::string_view text, bool is_probability) {
  const auto value = number_of<double>(text);
  require<DataError>(!std::isnan(value) && (!is_probability || value <= 0),
                     "'{}' is no logarithm of a probability", text);
  return static_cast<float>(value);
}

std::uint64_t word_key(std::string_view word) { return std::max<std::uint64_t>(1, checksum(word)); }

}  // namespace

template <class Value>
const Value* NgramModel::Table<Value>::find(std::uint64_t key) const {
  if (places_.empty()) return nullptr;
  const std::size_t mask = places_.size() - 1;
  for (std::size_t at = key & mask;; at = (at + 1) & mask) {
    if (places_[at].key == key) return &places_[at].value;
    if (places_[at].key == 0) return nullptr;
  }
}

template <class Value>
bool NgramModel::Table<Value>::insert(std::uint64_t key, const Value& value) {
  if (2 * (used_ + 1) > places_.size()) grow();
  const std::size_t mask = places_.size() - 1;
  std::size_t at = key & mask;
  for (; places_[at].key != 0; at = (at + 1) & mask)
    if (places_[at].key == key) return false;
  places_[at] = {key, value};
  ++used_;
  return true;
}

// To what the file announces, but never far beyond what it has held so far: it may announce anything.
template <class Value>
void NgramModel::Table<Value>::grow() {
  constexpr std::uint64_t kFirst = 64, kMostGrowth = 8;
  const std::uint64_t entries = std::clamp<std::uint64_t>(expected_, used_ + 1, kMostGrowth * used_ + kFirst);
  std::vector<Place> old(std::bit_ceil(2 * entries));
  old.swap(places_);
  const std::size_t mask = places_.size() - 1;
  for (const Place& place : old) {
    if (place.key == 0) continue;
    std::size_t at = place.key & mask;
    while (places_[at].key != 0) at = (at + 1) & mask;
    places_[at] = place;
  }
}

// MurmurHash3's finalizer over the key so far and the next word to the left.
std::uint64_t NgramModel::extend(std::uint64_t key, std::uint32_t word) {
  std::uint64_t h = (key ^ (word + std::uint64_t{1}) * 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu;
  h = (h ^ (h >> 33)) * 0xc4ceb9fe1a85ec53u;
  h ^= h >> 33;
  return h == 0 ? 1 : h;
}

NgramModel::NgramModel(const fs::path& path) { read(*data::open_bytes(path), path.string()); }

NgramModel::NgramModel(data::ByteSource& source, const std::string& name) { read(source, name); }

void NgramModel::read(data::ByteSource& source, const std::string& name) {
  ArpaLines lines(source);
  std::string_view line;
  std::int64_t number = 0;  // of the line that an error is about
  const auto next = [&] {
    number = lines.number() + 1;
    if (!lines.next(line)) return false;
    while (!line.empty() && (line.back() == ' ' || line.back() == '\t')) line.remove_suffix(1);
    return true;
  };
  try {
    while (next() && line != "\\data\\")
      require<DataError>(lines.number() < 1000, "no ARPA file: \\data\\ is not where it should be");
    require<DataError>(line == "\\data\\", "no ARPA file: it has no \\data\\");
    std::vector<std::uint64_t> counts;
    while (next() && (line.empty() || line.starts_with("ngram "))) {
      if (line.empty()) continue;
      line.remove_prefix(6);
      const std::size_t equals = line.find('=');
      require<DataError>(equals != line.npos, "'{}' where ORDER=COUNT is expected", line);
      std::string_view order = line.substr(0, equals), count = line.substr(equals + 1);
      require<DataError>(
          number_of<std::uint64_t>(take_piece(order)) == counts.size() + 1 && counts.size() < kHighestOrder,
          "orders must be 1, 2, … up to {}", kHighestOrder);
      counts.push_back(number_of<std::uint64_t>(take_piece(count)));
    }
    require<DataError>(!counts.empty(), "it announces no n-grams");
    longer_.resize(counts.size() - 1);
    for (std::size_t n = 1; n <= counts.size(); ++n) {
      require<DataError>(line == fmt::format("\\{}-grams:", n), "'{}' where \\{}-grams: is expected", line,
                         n);
      read_ngrams(n, counts[n - 1], next, line, number);
      while (line.empty() && next()) {
      }
    }
    require<DataError>(line == "\\end\\", "'{}' where \\end\\ is expected", line);
    const auto id_of = [&](std::string_view word) {
      const std::uint32_t* found = ids_.find(word_key(word));
      require<DataError>(found != nullptr, "it has no unigram {}", word);
      return *found;
    };
    begin_ = id_of("<s>");
    end_ = id_of("</s>");
    // Models without it were trained on closed vocabularies; KenLM gives such words 10^-100, too.
    if (ids_.insert(word_key("<unk>"), static_cast<std::uint32_t>(unigrams_.size())))
      unigrams_.push_back({-100, 0});
    unknown_ = id_of("<unk>");
  } catch (const DataError& error) {
    fail<DataError>("{}:{}: {}", name, number, error.what());
  }
}

// The lines of one order. Those that were read last are put into the table later, when the memory that they
// go to has come.
template <class Next>
void NgramModel::read_ngrams(std::size_t order, std::uint64_t count, const Next& next, std::string_view& line,
                             std::int64_t& number) {
  struct Waiting {
    std::uint64_t key = 0;
    Values values;
    std::int64_t line = 0;
  };
  constexpr std::size_t kWaiting = 16;
  std::array<Waiting, kWaiting> waiting;
  std::size_t read = 0, stored = 0;
  const auto store = [&] {
    const Waiting& oldest = waiting[stored++ % kWaiting];
    if (longer_[order - 2].insert(oldest.key, oldest.values)) return;
    number = oldest.line;
    fail<DataError>("this n-gram appears twice");
  };
  if (order == 1)
    ids_.expect(count);
  else
    longer_[order - 2].expect(count);
  std::array<std::uint32_t, kHighestOrder> ids{};
  while (next() && !line.empty() && line.front() != '\\') {
    std::string_view rest = line;
    Values values;
    values.log10 = logarithm_of(take_piece(rest), true);
    for (std::size_t i = 0; i < order; ++i) {
      const std::string_view word = take_piece(rest);
      require<DataError>(!word.empty(), "{} words where {} are expected", i, order);
      if (order == 1) {
        require<DataError>(ids_.insert(word_key(word), static_cast<std::uint32_t>(unigrams_.size())),
                           "'{}' appears twice", word);
      } else {
        const std::uint32_t* found = ids_.find(word_key(word));
        require<DataError>(found != nullptr, "'{}' is no unigram", word);
        ids[i] = *found;
      }
    }
    if (const std::string_view back_off = take_piece(rest); !back_off.empty())
      values.back_off = logarithm_of(back_off, false);
    require<DataError>(rest.empty(), "something follows the n-gram: '{}'", rest);
    if (order == 1) {
      unigrams_.push_back(values);
      continue;
    }
    if (read - stored == kWaiting) store();
    Waiting& added = waiting[read++ % kWaiting];
    added = {0, values, number};
    for (std::size_t i = order; i-- > 0;) added.key = extend(added.key, ids[i]);
    longer_[order - 2].prefetch(added.key);
  }
  const std::int64_t end = number;
  while (stored < read) store();
  number = end;
  require<DataError>(size(static_cast<int>(order)) == count, "{} {}-grams where {} are announced",
                     size(static_cast<int>(order)), order, count);
}

// The logarithm of a word is that of the longest n-gram of the model that ends with it, plus the back-offs of
// the longer contexts that the model has. Where those n-grams would lie depends on the words alone, so that
// their memory is fetched some words ahead.
template <class Visit>
void NgramModel::each_word(const std::vector<std::string_view>& words, Visit&& visit) const {
  constexpr std::size_t kAhead = 8;
  std::vector<std::uint64_t> hashes;
  hashes.reserve(words.size());
  for (const std::string_view word : words) {
    hashes.push_back(word_key(word));
    ids_.prefetch(hashes.back());
  }
  std::vector<std::uint32_t> ids{begin_};
  ids.reserve(words.size() + 2);
  for (const std::uint64_t hash : hashes) {
    const std::uint32_t* found = ids_.find(hash);
    ids.push_back(found == nullptr ? unknown_ : *found);
  }
  ids.push_back(end_);
  std::array<std::array<std::uint64_t, kHighestOrder>, kAhead> ahead{};  // keys of the n-grams of a word
  const auto prepare = [&](std::size_t at) {
    __builtin_prefetch(&unigrams_[ids[at]]);
    std::uint64_t key = extend(0, ids[at]);
    for (std::size_t i = 0; i < std::min(at, longer_.size()); ++i) {
      key = extend(key, ids[at - 1 - i]);
      ahead[at % kAhead][i] = key;
      longer_[i].prefetch(key);
    }
  };
  for (std::size_t at = 1; at < std::min(kAhead + 1, ids.size()); ++at) prepare(at);
  // Values of the n-grams that end with the word before, as many as the model has.
  std::array<float, kHighestOrder> back_offs{unigrams_[begin_].back_off};
  std::size_t known = std::min<std::size_t>(1, longer_.size());
  for (std::size_t at = 1; at < ids.size(); ++at) {
    const Values* values = &unigrams_[ids[at]];
    std::array<float, kHighestOrder> next{values->back_off};
    double log10 = values->log10;
    std::size_t length = 1;
    for (; length <= known; ++length) {
      values = longer_[length - 1].find(ahead[at % kAhead][length - 1]);
      if (values == nullptr) break;
      log10 = values->log10;
      next[length] = values->back_off;
    }
    for (std::size_t i = length - 1; i < known; ++i) log10 += back_offs[i];
    known = std::min(length, longer_.size());
    back_offs = next;
    visit(ids[at], log10);
    if (at + kAhead < ids.size()) prepare(at + kAhead);
  }
}

NgramModel::Score NgramModel::score(const std::vector<std::string_view>& words) const {
  Score out;
  each_word(words, [&](std::uint32_t id, double log10) {
    ++out.words;
    out.unknown += id == unknown_;
    out.log10 += log10;
  });
  return out;
}

std::vector<double> NgramModel::logarithms(const std::vector<std::string_view>& words) const {
  std::vector<double> out;
  each_word(words, [&](std::uint32_t, double log10) { out.push_back(log10); });
  return out;
}

}  // namespace stoa::curate

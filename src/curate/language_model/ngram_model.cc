#include "curate/language_model/ngram_model.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

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
      constexpr std::size_t kPiece = 1 << 16;
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

}  // namespace

const NgramModel::Entry* NgramModel::Table::find(std::uint64_t key) const {
  const std::size_t mask = entries.size() - 1;
  for (std::size_t at = key & mask;; at = (at + 1) & mask) {
    if (entries[at].key == key) return &entries[at];
    if (entries[at].key == 0) return nullptr;
  }
}

bool NgramModel::Table::insert(const Entry& entry) {
  if (2 * (used + 1) > entries.size()) {
    std::vector<Entry> old(std::max<std::size_t>(16, 2 * entries.size()));
    old.swap(entries);
    used = 0;
    for (const Entry& e : old)
      if (e.key != 0) insert(e);
  }
  const std::size_t mask = entries.size() - 1;
  std::size_t at = entry.key & mask;
  for (; entries[at].key != 0; at = (at + 1) & mask)
    if (entries[at].key == entry.key) return false;
  entries[at] = entry;
  ++used;
  return true;
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
  const auto next = [&] {
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
    orders_.resize(counts.size());
    std::vector<std::uint32_t> words;
    for (std::size_t n = 1; n <= counts.size(); ++n) {
      require<DataError>(line == fmt::format("\\{}-grams:", n), "'{}' where \\{}-grams: is expected", line,
                         n);
      Table& table = orders_[n - 1];
      while (next() && !line.empty() && line.front() != '\\') {
        std::string_view rest = line;
        Entry entry;
        entry.log10 = logarithm_of(take_piece(rest), true);
        words.clear();
        for (std::size_t i = 0; i < n; ++i) {
          const std::string_view word = take_piece(rest);
          require<DataError>(!word.empty(), "{} words where {} are expected", i, n);
          if (n == 1) {
            const auto id = static_cast<std::uint32_t>(ids_.size());
            require<DataError>(ids_.emplace(word, id).second, "'{}' appears twice", word);
            words.push_back(id);
          } else {
            const auto found = ids_.find(std::string(word));
            require<DataError>(found != ids_.end(), "'{}' is no unigram", word);
            words.push_back(found->second);
          }
        }
        if (const std::string_view back_off = take_piece(rest); !back_off.empty())
          entry.back_off = logarithm_of(back_off, false);
        require<DataError>(rest.empty(), "something follows the n-gram: '{}'", rest);
        for (auto word = words.rbegin(); word != words.rend(); ++word) entry.key = extend(entry.key, *word);
        require<DataError>(table.insert(entry), "this n-gram appears twice");
      }
      require<DataError>(table.used == counts[n - 1], "{} {}-grams where {} are announced", table.used, n,
                         counts[n - 1]);
      while (line.empty() && next()) {
      }
    }
    require<DataError>(line == "\\end\\", "'{}' where \\end\\ is expected", line);
    const auto id_of = [&](std::string_view word) {
      const auto found = ids_.find(std::string(word));
      require<DataError>(found != ids_.end(), "it has no unigram {}", word);
      return found->second;
    };
    begin_ = id_of("<s>");
    end_ = id_of("</s>");
    // Models without it were trained on closed vocabularies; KenLM gives such words 10^-100, too.
    if (!ids_.contains("<unk>")) {
      const auto id = static_cast<std::uint32_t>(ids_.size());
      ids_.emplace("<unk>", id);
      orders_.front().insert({extend(0, id), -100, 0});
    }
    unknown_ = id_of("<unk>");
  } catch (const DataError& error) {
    fail<DataError>("{}:{}: {}", name, lines.number(), error.what());
  }
}

// The longest n-gram that ends with the word, and the back-offs of the longer contexts that it lacks.
double NgramModel::advance(std::uint32_t word, State& state) const {
  State next;
  std::uint64_t key = extend(0, word);
  const Entry* entry = orders_.front().find(key);
  double log10 = entry->log10;
  next.back_offs[0] = entry->back_off;
  int length = 1;
  for (; length <= state.words && length < order(); ++length) {
    key = extend(key, state.ids[static_cast<std::size_t>(length - 1)]);
    entry = orders_[static_cast<std::size_t>(length)].find(key);
    if (entry == nullptr) break;
    log10 = entry->log10;
    next.back_offs[static_cast<std::size_t>(length)] = entry->back_off;
  }
  for (int i = length - 1; i < state.words; ++i) log10 += state.back_offs[static_cast<std::size_t>(i)];
  next.words = std::min(length, order() - 1);
  next.ids[0] = word;
  std::copy_n(state.ids.begin(), std::max(0, next.words - 1), next.ids.begin() + 1);
  state = next;
  return log10;
}

template <class Visit>
void NgramModel::each_word(const std::vector<std::string_view>& words, Visit&& visit) const {
  State state;
  advance(begin_, state);
  std::string key;
  for (const std::string_view word : words) {
    key = word;
    const auto found = ids_.find(key);
    const std::uint32_t id = found == ids_.end() ? unknown_ : found->second;
    visit(id, advance(id, state));
  }
  visit(end_, advance(end_, state));
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

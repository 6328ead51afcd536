#include "curate/language_model/ngram_model.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/checksum.h"
#include "base/error.h"
#include "curate/language_model/ngram_scorer.h"

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
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  const char *begin = line.data(), *const end = begin + line.size();
  while (begin < end && is_blank(*begin)) ++begin;
  const char* p = begin;
  while (p < end && !is_blank(*p)) ++p;
  line = {p, end};
  return {begin, p};
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

std::uint64_t NgramModel::word_key(std::string_view word) {
  return std::max<std::uint64_t>(1, checksum(word));
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
    while (next() && line != "\\data\\") {
      require<DataError>(!line.starts_with("mmap lm http://kheafield.com/code"),
                         "a binary of KenLM; give the ARPA file that it was built from");
      require<DataError>(lines.number() < 1000, "no ARPA file: \\data\\ is not where it should be");
    }
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
  std::array<std::string_view, kHighestOrder> words;
  std::array<std::uint64_t, kHighestOrder> keys{};
  std::array<std::uint32_t, kHighestOrder> ids{};
  while (next() && !line.empty() && line.front() != '\\') {
    std::string_view rest = line;
    Values values;
    values.log10 = logarithm_of(take_piece(rest), true);
    for (std::size_t i = 0; i < order; ++i) {
      words[i] = take_piece(rest);
      require<DataError>(!words[i].empty(), "{} words where {} are expected", i, order);
      if (words[i] == "<UNK>") words[i] = "<unk>";  // as IRSTLM and CMU's toolkit write it
      keys[i] = word_key(words[i]);
      ids_.prefetch(keys[i]);
    }
    if (const std::string_view back_off = take_piece(rest); !back_off.empty())
      values.back_off = logarithm_of(back_off, false);
    require<DataError>(rest.empty(), "something follows the n-gram: '{}'", rest);
    if (order == 1) {
      require<DataError>(ids_.insert(keys[0], static_cast<std::uint32_t>(unigrams_.size())),
                         "'{}' appears twice", words[0]);
      unigrams_.push_back(values);
      continue;
    }
    for (std::size_t i = 0; i < order; ++i) {
      const std::uint32_t* found = ids_.find(keys[i]);
      require<DataError>(found != nullptr, "'{}' is no unigram", words[i]);
      ids[i] = *found;
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

NgramModel::Score NgramModel::score(std::span<const std::string_view> words) const {
  SentenceScores scores(*this);
  scores.add(words);
  return scores.sum();
}

std::vector<double> NgramModel::logarithms(std::span<const std::string_view> words) const {
  std::vector<double> out;
  NgramLookups lookups(*this);
  const auto visit = [&](double log10, bool) { out.push_back(log10); };
  lookups.add_sentence(words, visit);
  lookups.finish(visit);
  return out;
}

}  // namespace stoa::curate

// Exact substrings in bounded memory. Every run of `min_bytes` bytes (a window) that occurs more than once
// stays whole at its first place, and what else belongs to such windows goes.
//
// Pass 0 selects in every window the smallest hash of a short gram (winnowing): equal windows select equal
// grams, so that only windows around a gram that was selected more than once can be equal. Pass 1 hashes
// those windows. Both sort externally; disk holds 16 bytes per selected gram, then per candidate window.
#include <algorithm>
#include <array>
#include <deque>

#include "base/error.h"
#include "curate/dedup/cutter.h"
#include "curate/dedup/position_file.h"
#include "curate/dedup/record_sorter.h"
#include "curate/text/character.h"

namespace stoa::curate {
namespace {

constexpr std::size_t kGramBytes = 32, kLongestWordSearch = 64;
constexpr std::uint64_t kRollPrime = (std::uint64_t{1} << 61) - 1,
                        kRollBase = 0x1c2a7d5b3e9f4861 % kRollPrime;

std::uint64_t multiply(std::uint64_t a, std::uint64_t b) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  const std::uint64_t sum =
      (static_cast<std::uint64_t>(product) & kRollPrime) + static_cast<std::uint64_t>(product >> 61);
  return sum >= kRollPrime ? sum - kRollPrime : sum;
}

// Hashes of all runs of `length` bytes of a text, from left to right.
class RollingHash {
 public:
  explicit RollingHash(std::size_t length) : length_(length) {
    for (std::size_t i = 1; i < length; ++i) power_ = multiply(power_, kRollBase);
  }
  // Calls visit(begin, hash) for every run that begins in [from, to].
  template <class F>
  void each(std::string_view text, std::size_t from, std::size_t to, F&& visit) const {
    std::uint64_t hash = 0;
    for (std::size_t i = from; i < from + length_; ++i) hash = push(hash, text[i]);
    for (std::size_t begin = from;; ++begin) {
      visit(begin, hash * 0x9fb21c651e98df25);
      if (begin == to) return;
      const std::uint64_t gone = multiply(byte(text[begin]), power_);
      hash = push(hash >= gone ? hash - gone : hash + kRollPrime - gone, text[begin + length_]);
    }
  }

 private:
  static std::uint64_t byte(char c) { return static_cast<unsigned char>(c) + std::uint64_t{1}; }
  static std::uint64_t push(std::uint64_t hash, char c) {
    const std::uint64_t sum = multiply(hash, kRollBase) + byte(c);
    return sum >= kRollPrime ? sum - kRollPrime : sum;
  }
  const std::size_t length_;
  std::uint64_t power_ = 1;
};

struct Range {
  std::size_t begin = 0, end = 0;
};

void append_range(std::vector<Range>& ranges, std::size_t begin, std::size_t end) {
  if (!ranges.empty() && begin <= ranges.back().end)
    ranges.back().end = std::max(ranges.back().end, end);
  else
    ranges.push_back({begin, end});
}

class SubstringCutter final : public Cutter {
 public:
  SubstringCutter(const SubstringCut& options, const CutterPlace& place)
      : length_(static_cast<std::size_t>(options.min_bytes)),
        place_(place),
        gram_(std::min(kGramBytes, length_)),
        window_(length_),
        anchors_(place.folder / "anchors"),
        windows_(place.folder / "windows") {
    begin_sort();
  }

  int passes() const override { return 2; }

  void see(int pass, std::string_view text) override {
    if (text.size() >= length_) {
      if (pass == 0)
        select_grams(text);
      else
        hash_windows(text);
    }
    position_ += text.size();
  }

  void end_pass(int pass) override {
    fs::create_directories(place_.folder / "order");
    RecordSorter order(place_.folder / "order", place_.memory / 2);
    KeyRecord first;
    std::int64_t seen = 0;
    sorter_->each([&](const KeyRecord& record) {
      const bool again = seen > 0 && record.key == first.key;
      if (!again) first = record;
      seen = again ? seen + 1 : 1;
      if (seen == 2) order.add({first.document, 1});
      if (seen >= 2) order.add({record.document, 0});
    });
    sorter_.reset();
    PositionFile& file = pass == 0 ? anchors_ : windows_;
    // A window also says whether it is the first of its kind.
    order.each([&](const KeyRecord& record) {
      file.add(pass == 0 ? record.key : record.key << 1 | record.document);
    });
    file.finish();
    position_ = 0;
    if (pass == 0) begin_sort();
  }

  bool cut(std::string& text) override {
    std::vector<Range> copies, kept;
    windows_.take_below((position_ + text.size()) << 1, [&](std::uint64_t entry) {
      const std::size_t begin = (entry >> 1) - position_;
      append_range((entry & 1) != 0 ? kept : copies, begin, begin + length_);
    });
    position_ += text.size();
    if (copies.empty()) return true;
    std::string out;
    std::size_t from = 0;
    const auto remove = [&](std::size_t begin, std::size_t end) {
      snap(text, begin, end);
      if (begin >= end) return;
      out.append(text, from, begin - from);
      from = end;
    };
    auto keep = kept.begin();
    for (const Range& copy : copies) {
      std::size_t begin = copy.begin;
      while (keep != kept.end() && keep->end <= begin) ++keep;
      for (auto k = keep; k != kept.end() && k->begin < copy.end; ++k) {
        if (k->begin > begin) remove(begin, k->begin);
        begin = std::max(begin, k->end);
      }
      if (begin < copy.end) remove(begin, copy.end);
    }
    out.append(text, from);
    text = std::move(out);
    return !strip(text).empty();
  }

 private:
  void begin_sort() {
    fs::create_directories(place_.folder / "sort");
    sorter_ = std::make_unique<RecordSorter>(place_.folder / "sort", place_.memory / 2);
  }

  void select_grams(std::string_view text) {
    const std::size_t grams = length_ - gram_bytes() + 1;     // of a window
    std::deque<std::pair<std::uint64_t, std::size_t>> least;  // hashes ascending, of the last `grams`
    std::size_t selected = text.size();
    gram_.each(text, 0, text.size() - gram_bytes(), [&](std::size_t begin, std::uint64_t hash) {
      while (!least.empty() && least.back().first >= hash) least.pop_back();
      least.emplace_back(hash, begin);
      if (least.front().second + grams <= begin) least.pop_front();
      if (begin + 1 < grams || least.front().second == selected) return;
      selected = least.front().second;
      sorter_->add({least.front().first, position_ + selected});
    });
  }

  void hash_windows(std::string_view text) {
    std::vector<Range> begins;  // of windows
    anchors_.take_below(position_ + text.size(), [&](std::uint64_t anchor) {
      const std::size_t at = anchor - position_, reach = length_ - gram_bytes();
      const std::size_t begin = at > reach ? at - reach : 0, end = std::min(at, text.size() - length_) + 1;
      if (begin < end) append_range(begins, begin, end);
    });
    for (const Range& range : begins)
      window_.each(text, range.begin, range.end - 1, [&](std::size_t begin, std::uint64_t hash) {
        sorter_->add({hash, position_ + begin});
      });
  }

  std::size_t gram_bytes() const { return std::min(kGramBytes, length_); }

  // Makes [begin, end) smaller, so that it has whole words; whole characters where there is no white space
  // near.
  static void snap(std::string_view text, std::size_t& begin, std::size_t& end) {
    const auto blank = [&](std::size_t at) {
      return text[at] == ' ' || text[at] == '\n' || text[at] == '\t' || text[at] == '\r';
    };
    const auto inside = [&](std::size_t at) { return (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80; };
    if (begin > 0) {
      std::size_t at = begin;
      const std::size_t last = std::min(end, begin + kLongestWordSearch);
      while (at < last && !blank(at - 1)) ++at;
      if (at < last) begin = at;
      while (begin < end && inside(begin)) ++begin;
    }
    if (end < text.size()) {
      std::size_t at = end;
      const std::size_t last = std::max(begin, end > kLongestWordSearch ? end - kLongestWordSearch : 0);
      while (at > last && !blank(at) && !blank(at - 1)) --at;
      if (at > last) end = at;
      while (end > begin && inside(end)) --end;
    }
  }

  const std::size_t length_;
  const CutterPlace place_;
  const RollingHash gram_, window_;
  std::unique_ptr<RecordSorter> sorter_;
  PositionFile anchors_, windows_;
  std::uint64_t position_ = 0;  // of the next text in the corpus, in bytes
};

}  // namespace

std::unique_ptr<Cutter> make_substring_cutter(const SubstringCut& options, const CutterPlace& place) {
  return std::make_unique<SubstringCutter>(options, place);
}

}  // namespace stoa::curate

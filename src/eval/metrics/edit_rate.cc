#include "eval/metrics/edit_rate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>

#include "eval/python/text.h"

namespace stoa::eval {
namespace {

// Limits of sacrebleu and Tercom; they decide which shifts are found in long texts.
constexpr std::int64_t kMostShifted = 10, kFarthestShift = 50, kBeam = 25, kMostCandidates = 1000;

using Ids = std::vector<std::int64_t>;  // words by number

enum class Edit : char { kInsert, kDelete, kNone, kReplace, kUnknown };

struct Edits {
  std::int64_t cost = 0;
  std::vector<Edit> trace;  // from answer to reference
};

std::int64_t size_of(const Ids& words) { return static_cast<std::int64_t>(words.size()); }

// Levenshtein's distance from answer to reference within a beam around the diagonal.
Edits edits_between(const Ids& answer, const Ids& reference) {
  const std::int64_t n = size_of(answer), m = size_of(reference);
  constexpr std::int64_t kFar = 10'000'000'000'000'000;
  struct Cell {
    std::int64_t cost = kFar;
    Edit edit = Edit::kUnknown;
  };
  std::vector<Cell> cells(static_cast<std::size_t>((n + 1) * (m + 1)));
  const auto cell = [&](std::int64_t i, std::int64_t j) -> Cell& {
    return cells[static_cast<std::size_t>(i * (m + 1) + j)];
  };
  for (std::int64_t j = 0; j <= m; ++j) cell(0, j) = {j, Edit::kInsert};
  const double ratio = n > 0 ? static_cast<double>(m) / static_cast<double>(n) : 1.0;
  const std::int64_t beam = static_cast<double>(kBeam) < ratio / 2
                                ? static_cast<std::int64_t>(std::ceil(ratio / 2 + static_cast<double>(kBeam)))
                                : kBeam;
  for (std::int64_t i = 1; i <= n; ++i) {
    const auto diagonal = static_cast<std::int64_t>(std::floor(static_cast<double>(i) * ratio));
    const std::int64_t end = i == n ? m + 1 : std::min(m + 1, diagonal + beam);
    for (std::int64_t j = std::max<std::int64_t>(0, diagonal - beam); j < end; ++j) {
      Cell& here = cell(i, j);
      if (j == 0) {
        here = {cell(i - 1, 0).cost + 1, Edit::kDelete};
        continue;
      }
      const bool same = answer[static_cast<std::size_t>(i - 1)] == reference[static_cast<std::size_t>(j - 1)];
      const std::array<Cell, 3> ways{
          Cell{cell(i - 1, j - 1).cost + (same ? 0 : 1), same ? Edit::kNone : Edit::kReplace},
          Cell{cell(i - 1, j).cost + 1, Edit::kDelete}, Cell{cell(i, j - 1).cost + 1, Edit::kInsert}};
      for (const Cell& way : ways)
        if (here.cost > way.cost) here = way;
    }
  }
  Edits out{cell(n, m).cost, {}};
  for (std::int64_t i = n, j = m; i > 0 || j > 0;) {
    const Edit edit = cell(i, j).edit;
    out.trace.push_back(edit);
    if (edit != Edit::kInsert) --i;
    if (edit != Edit::kDelete) --j;
  }
  std::reverse(out.trace.begin(), out.trace.end());
  return out;
}

// Which word of the answer stands for each of the reference, and which words are wrong.
struct Alignment {
  Ids answer_of;
  std::vector<bool> wrong_in_reference, wrong_in_answer;
};

Alignment aligned(const std::vector<Edit>& trace) {
  Alignment out;
  std::int64_t at = -1;
  for (const Edit edit : trace) {
    const bool wrong = edit != Edit::kNone;
    if (edit != Edit::kInsert) {
      ++at;
      out.wrong_in_answer.push_back(wrong);
    }
    if (edit != Edit::kDelete) {
      out.answer_of.push_back(at);
      out.wrong_in_reference.push_back(wrong);
    }
  }
  return out;
}

Ids shifted(const Ids& words, std::int64_t start, std::int64_t length, std::int64_t target) {
  Ids rest(words.begin(), words.begin() + start);
  rest.insert(rest.end(), words.begin() + start + length, words.end());
  const std::int64_t at = target < start            ? target
                          : target > start + length ? target - length
                                                    : std::min(target, size_of(rest));
  rest.insert(rest.begin() + at, words.begin() + start, words.begin() + start + length);
  return rest;
}

struct Shift {
  // Gain, length, earliest place, earliest target: the largest is taken.
  std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t> rank;
  Ids words;
};

class Shifter {
 public:
  explicit Shifter(const Ids& reference) : reference_(reference) {}

  // Makes the shift of words that lowers the distance most; false: none does, or enough have been tried.
  bool improve(Ids& answer) {
    const Edits before = edits_between(answer, reference_);
    const Alignment a = aligned(before.trace);
    Shift best{{0, 0, 0, 0}, {}};
    for_common_runs(answer, [&](std::int64_t start, std::int64_t target, std::int64_t length) {
      const auto any = [&](const std::vector<bool>& wrong, std::int64_t from) {
        const auto begin = wrong.begin() + from;
        return std::find(begin, begin + length, true) != begin + length;
      };
      if (!any(a.wrong_in_answer, start) || !any(a.wrong_in_reference, target)) return true;
      const std::int64_t stands = a.answer_of[static_cast<std::size_t>(target)];
      if (start <= stands && stands < start + length) return true;
      std::int64_t last = -1;
      for (std::int64_t offset = -1; offset < length; ++offset) {
        if (target + offset >= size_of(a.answer_of)) break;
        const std::int64_t to =
            target + offset == -1 ? 0 : a.answer_of[static_cast<std::size_t>(target + offset)] + 1;
        if (to == last) continue;
        last = to;
        Ids moved = shifted(answer, start, length, to);
        const std::int64_t gain = before.cost - edits_between(moved, reference_).cost;
        ++candidates_;
        const std::tuple rank{gain, length, -start, -to};
        if (best.words.empty() || rank > best.rank) best = {rank, std::move(moved)};
      }
      return candidates_ < kMostCandidates;
    });
    if (candidates_ >= kMostCandidates || best.words.empty() || std::get<0>(best.rank) <= 0) return false;
    answer = std::move(best.words);
    return true;
  }

 private:
  // Runs of the same words at different places; ends when `visit` says false.
  template <class Visit>
  void for_common_runs(const Ids& answer, const Visit& visit) const {
    const std::int64_t n = size_of(answer), m = size_of(reference_);
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = std::max<std::int64_t>(0, i - kFarthestShift);
           j <= std::min(m - 1, i + kFarthestShift); ++j)
        for (std::int64_t length = 0;
             length < kMostShifted && i + length < n && j + length < m &&
             answer[static_cast<std::size_t>(i + length)] == reference_[static_cast<std::size_t>(j + length)];
             ++length)
          if (!visit(i, j, length + 1)) return;
  }

  const Ids& reference_;
  std::int64_t candidates_ = 0;
};

std::int64_t edits_with_shifts(Ids answer, const Ids& reference) {
  if (reference.empty()) return size_of(answer);
  Shifter shifter(reference);
  std::int64_t shifts = 0;
  while (shifter.improve(answer)) ++shifts;
  return shifts + edits_between(answer, reference).cost;
}

}  // namespace

EditRateCounts::EditRateCounts(const std::vector<TextPair>& pairs) {
  for (const TextPair& pair : pairs) {
    std::vector<std::string> known;
    const auto ids = [&](const std::string& text) {
      Ids out;
      const std::string lower = lowered(text);
      for (const std::string_view word : words_of(lower)) {
        const auto it = std::find(known.begin(), known.end(), word);
        out.push_back(it - known.begin());
        if (it == known.end()) known.emplace_back(word);
      }
      return out;
    };
    const Ids reference = ids(pair.reference), answer = ids(pair.answer);
    counts_.push_back({edits_with_shifts(answer, reference), size_of(reference)});
  }
}

double EditRateCounts::score(const std::vector<std::size_t>& drawn) const {
  Counts sum;
  for (const std::size_t d : drawn) {
    sum.edits += counts_[d].edits;
    sum.reference_words += counts_[d].reference_words;
  }
  if (sum.reference_words == 0) return sum.edits > 0 ? 100.0 : 0.0;
  return 100.0 * (static_cast<double>(sum.edits) / static_cast<double>(sum.reference_words));
}

}  // namespace stoa::eval

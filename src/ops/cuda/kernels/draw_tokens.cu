// A block of threads draws a token. What it looks for, each time, is the first token in the order of
// ops/token_draw.h up to which a sum (of tokens, or of weights) exceeds a number: the last of top_k, the last
// of top_p, and the token that is drawn. The sums of bins, which are digits of the place of a token in the
// order, show in which bin it is; when few tokens are left, they are compared with each other.
#include "ops/cuda/kernels/draw_tokens.h"
#include "ops/cuda/kernels/launch.h"
#include "ops/cuda/kernels/most_likely_row.h"

namespace stoa::ops::cuda {
namespace {

constexpr int kDrawThreads = 1024;
constexpr int kDigitBits = 10, kDrawBins = 1 << kDigitBits;  // a bin for each thread
constexpr int kDigits = 4;                                   // of a word: 10, 10, 10 and 2 bits
constexpr int kFewTokens = 512;
static_assert(kDrawBins == kDrawThreads);

// The place of a token in the order: what comes first is smaller, the words one after the other.
struct Rank {
  std::uint32_t distance, logit, id;
  STOA_DEVICE bool before(const Rank& other) const {
    if (distance != other.distance) return distance < other.distance;
    return logit != other.logit ? logit < other.logit : id < other.id;
  }
};

// A number of tokens, and their weights.
struct Mass {
  std::uint64_t cut, drawn, tokens;
};
STOA_DEVICE Mass operator+(const Mass& a, const Mass& b) {
  return {a.cut + b.cut, a.drawn + b.drawn, a.tokens + b.tokens};
}

enum class Measure { kTokens, kCut, kDrawn };
STOA_DEVICE std::uint64_t measured(const Mass& mass, Measure by) {
  return by == Measure::kTokens ? mass.tokens : by == Measure::kCut ? mass.cut : mass.drawn;
}

// The first digits of a rank.
struct RankDigits {
  Rank value, mask;
  int digits;
  STOA_DEVICE bool match(const Rank& rank) const {
    return ((rank.distance & mask.distance) ^ value.distance) == 0 &&
           ((rank.logit & mask.logit) ^ value.logit) == 0 && ((rank.id & mask.id) ^ value.id) == 0;
  }
  STOA_DEVICE static int shift(int digit) {
    return digit % kDigits == kDigits - 1 ? 0 : 22 - digit % kDigits * 10;
  }
  STOA_DEVICE static std::uint32_t bits(int digit) {
    return digit % kDigits == kDigits - 1 ? 3u : kDrawBins - 1u;
  }
  // The digit behind them.
  STOA_DEVICE int next(const Rank& rank) const {
    const std::uint32_t word = digits < kDigits ? rank.distance : digits < 2 * kDigits ? rank.logit : rank.id;
    return static_cast<int>(word >> shift(digits) & bits(digits));
  }
  STOA_DEVICE void append(int digit) {
    const std::uint32_t more = static_cast<std::uint32_t>(digit) << shift(digits), all = bits(digits)
                                                                                         << shift(digits);
    if (digits < kDigits)
      value.distance |= more, mask.distance |= all;
    else if (digits < 2 * kDigits)
      value.logit |= more, mask.logit |= all;
    else
      value.id |= more, mask.id |= all;
    ++digits;
  }
};

// Sums of bins. Of 64 bits in two words, since shared memory adds words.
struct Bins {
  std::uint32_t tokens[kDrawBins], cut[2][kDrawBins], drawn[2][kDrawBins];

  STOA_DEVICE static void add(const Thread& t, std::uint32_t (&sums)[2][kDrawBins], int bin,
                              std::uint64_t by) {
    const auto low = static_cast<std::uint32_t>(by);
    const std::uint32_t before = t.add(sums[0][bin], low);
    const std::uint32_t high = static_cast<std::uint32_t>(by >> 32) + (before + low < before ? 1u : 0u);
    if (high != 0) t.add(sums[1][bin], high);
  }
  STOA_DEVICE Mass of(int bin, bool same) const {
    const auto sum = [&](const std::uint32_t(&sums)[2][kDrawBins]) {
      return std::uint64_t{sums[1][bin]} << 32 | sums[0][bin];
    };
    return {sum(cut), same ? sum(cut) : sum(drawn), tokens[bin]};
  }
};

struct FewTokens {
  Rank rank[kFewTokens];
  std::uint64_t cut[kFewTokens], drawn[kFewTokens];
};

struct DrawMemory {
  Bins first;  // of the distances' first digits
  union {
    Bins bins;
    FewTokens few;
  };
  HighestLogit highest[kDrawThreads / 32];
  std::uint64_t slots[kDrawThreads / 32];
  // What one thread tells the others.
  Mass before, reached;
  std::uint32_t bin, count, id;
};

class TokenFinder {
 public:
  STOA_DEVICE TokenFinder(const Thread& t, const DrawTokensArgs& args, const TokenDraw& draw, float highest)
      : t_(t),
        m_(*t.shared<DrawMemory>()),
        row_(args.logits + draw.row * args.stride),
        columns_(args.columns),
        draw_(draw),
        highest_(highest),
        bits_(weight_bits(args.columns)),
        same_(draw.cut_scale == draw.draw_scale) {}

  // All tokens. `near`: how much of the weight to draw by is of those that are not too far.
  STOA_DEVICE Mass count(std::uint64_t& near) {
    std::uint64_t own_near = 0;
    fill(m_.first, {}, [&](const Rank& rank, const Mass& mass) {
      if (rank.distance <= draw_.farthest) own_near += mass.drawn;
    });
    near = block_reduce<Add>(t_, own_near, m_.slots);
    const Mass own = m_.first.of(t_.index(), same_);
    return {block_reduce<Add>(t_, own.cut, m_.slots), block_reduce<Add>(t_, own.drawn, m_.slots),
            block_reduce<Add>(t_, own.tokens, m_.slots)};
  }

  // Up to the first token up to which the sum exceeds `passed`; its id.
  STOA_DEVICE Mass find(Measure by, std::uint64_t passed, std::int32_t& id) {
    RankDigits digits{};
    Mass before{};
    std::uint32_t count = 0;
    for (const Bins* bins = &m_.first;; bins = &m_.bins) {
      count = choose(*bins, by, passed, before, digits);
      if (count <= kFewTokens) break;
      fill(m_.bins, digits, [](const Rank&, const Mass&) {});
    }
    gather(digits);
    for (auto i = static_cast<std::uint32_t>(t_.index()); i < count;
         i += static_cast<std::uint32_t>(t_.count())) {
      const Rank own = m_.few.rank[i];
      Mass mass{m_.few.cut[i], m_.few.drawn[i], 1};
      const std::uint64_t alone = measured(mass, by);
      mass = mass + before;
      for (std::uint32_t j = 0; j < count; ++j)
        if (m_.few.rank[j].before(own)) mass = mass + Mass{m_.few.cut[j], m_.few.drawn[j], 1};
      const std::uint64_t reached = measured(mass, by);
      if (reached > passed && reached - alone <= passed) {
        m_.reached = mass;
        m_.id = own.id;
      }
    }
    t_.sync();
    const Mass reached = m_.reached;
    id = static_cast<std::int32_t>(m_.id);
    t_.sync();
    return reached;
  }

 private:
  // Calls body(rank, mass) for this thread's tokens that begin with the digits.
  template <class Body>
  STOA_DEVICE void for_tokens(const RankDigits& digits, const Body& body) const {
    const std::uint32_t most = draw_.near_first != 0 ? draw_.farthest : kNoToken - 1;
    for (std::int64_t i = t_.index(); i < columns_; i += t_.count()) {
      const float logit = row_[i];
      const std::uint32_t distance = token_distance(highest_, logit, draw_.cut_scale);
      if (distance > most) continue;
      // Larger logits come first; 0 and -0 are equal.
      std::uint32_t place = logit == 0 ? 0u : bits_of(logit);
      place = place >> 31 != 0 ? place : ~place & 0x7fffffffu;
      const Rank rank{distance, place, static_cast<std::uint32_t>(i)};
      if (!digits.match(rank)) continue;
      const std::uint64_t cut = token_weight(distance, bits_);
      const std::uint64_t drawn =
          same_ ? cut : token_weight(token_distance(highest_, logit, draw_.draw_scale), bits_);
      body(rank, Mass{cut, drawn, 1});
    }
  }

  // Bins of tokens that begin with the digits, by the next one.
  template <class Body>
  STOA_DEVICE void fill(Bins& bins, const RankDigits& digits, const Body& body) {
    const int own = t_.index();
    bins.tokens[own] = bins.cut[0][own] = bins.cut[1][own] = bins.drawn[0][own] = bins.drawn[1][own] = 0;
    t_.sync();
    for_tokens(digits, [&](const Rank& rank, const Mass& mass) {
      const int bin = digits.next(rank);
      t_.add(bins.tokens[bin], 1);
      if (mass.cut != 0) Bins::add(t_, bins.cut, bin, mass.cut);
      if (!same_ && mass.drawn != 0) Bins::add(t_, bins.drawn, bin, mass.drawn);
      body(rank, mass);
    });
    t_.sync();
  }

  // Appends the bin of the token that is looked for; `before`: what comes before the bin. Returns how many
  // tokens are in it.
  STOA_DEVICE std::uint32_t choose(const Bins& bins, Measure by, std::uint64_t passed, Mass& before,
                                   RankDigits& digits) {
    const Mass own = bins.of(t_.index(), same_);
    const Mass until = before + Mass{block_prefix(t_, own.cut, m_.slots).before,
                                     block_prefix(t_, own.drawn, m_.slots).before,
                                     block_prefix(t_, own.tokens, m_.slots).before};
    if (measured(until, by) <= passed && measured(until + own, by) > passed) {
      m_.before = until;
      m_.bin = static_cast<std::uint32_t>(t_.index());
      m_.count = static_cast<std::uint32_t>(own.tokens);
    }
    t_.sync();
    before = m_.before;
    digits.append(static_cast<int>(m_.bin));
    const std::uint32_t count = m_.count;
    t_.sync();
    return count;
  }

  // The tokens that begin with the digits, in any order.
  STOA_DEVICE void gather(const RankDigits& digits) {
    if (t_.index() == 0) m_.count = 0;
    t_.sync();
    for_tokens(digits, [&](const Rank& rank, const Mass& mass) {
      const std::uint32_t i = t_.add(m_.count, 1);
      m_.few.rank[i] = rank, m_.few.cut[i] = mass.cut, m_.few.drawn[i] = mass.drawn;
    });
    t_.sync();
  }

  const Thread& t_;
  DrawMemory& m_;
  const float* const row_;
  const std::int64_t columns_;
  const TokenDraw draw_;
  const float highest_;
  const int bits_;
  const bool same_;  // weights to cut by are those to draw by
};

struct DrawTokensKernel {
  using Args = DrawTokensArgs;
  static constexpr const char* kName = "drawn tokens";
  static constexpr int kThreads = kDrawThreads;

  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const TokenDraw draw = a.draws[t.block_x()];
    const float* const row = a.logits + draw.row * a.stride;
    FoundLogit found = most_likely_of_row(t, row, a.columns, t.shared<DrawMemory>()->highest);
    if (found.logit - found.logit == 0) {  // neither infinite nor NaN
      TokenFinder finder(t, a, draw, found.logit);
      std::uint64_t near = 0;
      Mass all = finder.count(near);
      // The last of top_k, the last of top_p, and the token that is drawn: in a loop, since this is much
      // code.
      for (const Measure by : {Measure::kTokens, Measure::kCut, Measure::kDrawn}) {
        std::uint64_t passed = 0;
        if (by == Measure::kTokens) {
          if (draw.top_k <= 0 || static_cast<std::uint64_t>(draw.top_k) >= all.tokens) continue;
          passed = static_cast<std::uint64_t>(draw.top_k) - 1;
        } else if (by == Measure::kCut) {
          if (draw.top_p == 0) continue;
          passed = least_of_sum(all.cut, draw.top_p) - 1;
        } else {
          passed = part_of_sum(near < all.drawn ? near : all.drawn, draw.word);
        }
        all = finder.find(by, passed, found.id);
      }
      found.logit = row[found.id];
    }
    if (t.index() != 0) return;
    a.found[2 * t.block_x()] = found.id;
    a.found[2 * t.block_x() + 1] = static_cast<std::int32_t>(bits_of(found.logit));
  }
};

}  // namespace

void launch_draw_tokens(const DrawTokensArgs& a, void* stream) {
  launch<DrawTokensKernel>({.x = a.count, .threads = kDrawThreads, .shared = sizeof(DrawMemory)}, stream, a);
}

}  // namespace stoa::ops::cuda

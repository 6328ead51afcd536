#include "ops/host_draw.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include "ops/most_likely.h"

namespace stoa::ops {
namespace {

// Bins of distances: 32 of an octave, so that one holds a few tokens of most vocabularies.
constexpr int kBinShift = kOctaveBits - 5;
constexpr std::size_t kBins = std::size_t{1} << (32 - kBinShift);

float scale_of(double temperature) {
  constexpr double kLog2E = 1.4426950408889634;
  const double scale = static_cast<double>(kOctave) * kLog2E / temperature;
  if (scale > static_cast<double>(std::numeric_limits<float>::max()))
    return std::numeric_limits<float>::max();
  return scale < static_cast<double>(std::numeric_limits<float>::min()) ? 0 : static_cast<float>(scale);
}

// The largest distance whose weight is `share` of the most likely token's, or more.
std::uint32_t farthest_of(double share) {
  std::uint32_t low = 0, high = kNoToken;  // the first is near enough, the last is not
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    const double weight = std::ldexp(octave_weight(middle & ((1U << kOctaveBits) - 1)),
                                     -31 - static_cast<int>(middle >> kOctaveBits));
    (weight >= share ? low : high) = middle;
  }
  return low;
}

}  // namespace

TokenDraw token_draw(const DrawOptions& o) {
  TokenDraw draw;
  const bool cuts = o.top_p < 1 || o.min_p > 0;
  draw.draw_scale = scale_of(o.temperature);
  draw.cut_scale = cuts && !o.cuts_at_temperature ? scale_of(1) : draw.draw_scale;
  draw.top_k =
      static_cast<std::int32_t>(std::min<std::int64_t>(o.top_k, std::numeric_limits<std::int32_t>::max()));
  // A sum that misses top_p by what rounding of the logits may take from it reaches it.
  constexpr double kReached = 1 - 0x1p-21;
  if (o.top_p < 1)
    draw.top_p =
        static_cast<std::uint32_t>(std::clamp(std::round(o.top_p * kReached * 0x1p32), 1.0, 0x1p32 - 1));
  if (o.min_p > 0) draw.farthest = farthest_of(o.min_p);
  draw.near_first = o.min_p_first && o.min_p > 0 ? 1 : 0;
  return draw;
}

std::int32_t likeliest(std::span<const float> logits) {
  // Blocks whose lanes a compiler turns into vectors; then the first of the best in the first best block.
  constexpr std::size_t kLanes = 16, kBlock = kMostLikelyBlock;
  const auto largest = [](std::span<const float> block) {
    std::array<float, kLanes> lanes;
    lanes.fill(block[0]);
    std::size_t i = 0;
    for (; i + kLanes <= block.size(); i += kLanes)
      for (std::size_t l = 0; l < kLanes; ++l) lanes[l] = block[i + l] > lanes[l] ? block[i + l] : lanes[l];
    for (; i < block.size(); ++i) lanes[0] = std::max(lanes[0], block[i]);
    return *std::max_element(lanes.begin(), lanes.end());
  };
  std::size_t best = 0;
  float highest = -std::numeric_limits<float>::infinity();
  for (std::size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const float here = largest(logits.subspan(begin, std::min(kBlock, logits.size() - begin)));
    if (here > highest) highest = here, best = begin;
  }
  while (best < logits.size() && logits[best] < highest) ++best;
  return static_cast<std::int32_t>(best);
}

HostDraw::Mass HostDraw::mass_of(float logit, std::uint32_t distance) const {
  const std::uint64_t cut = token_weight(distance, bits_);
  if (draw_.cut_scale == draw_.draw_scale) return {cut, cut, 1};
  return {cut, token_weight(token_distance(highest_, logit, draw_.draw_scale), bits_), 1};
}

// Finds the distances of tokens, and what bins hold.
void HostDraw::count(std::span<const float> logits) {
  distances_.resize(logits.size());
  bins_.assign(kBins, {});
  const std::uint32_t most = draw_.near_first != 0 ? draw_.farthest : kNoToken - 1;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const std::uint32_t distance = token_distance(highest_, logits[i], draw_.cut_scale);
    distances_[i] = distance <= most ? distance : kNoToken;
  }
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (distances_[i] == kNoToken) continue;
    Mass& bin = bins_[distances_[i] >> kBinShift];
    const Mass own = mass_of(logits[i], distances_[i]);
    bin.cut += own.cut, bin.drawn += own.drawn, bin.tokens += 1;
  }
}

std::uint64_t HostDraw::drawn_of(const Mass& mass) { return mass.drawn; }

template <class Measure>
HostDraw::Place HostDraw::find(std::span<const float> logits, std::uint64_t passed, const Measure& measure) {
  Place place;
  const auto add = [&](const Mass& m) {
    place.reached = {place.reached.cut + m.cut, place.reached.drawn + m.drawn,
                     place.reached.tokens + m.tokens};
  };
  std::uint32_t bin = 0;
  for (; measure(place.reached) + measure(bins_[bin]) <= passed; ++bin) add(bins_[bin]);
  ids_.clear();
  for (std::size_t i = 0; i < logits.size(); ++i)
    if (distances_[i] >> kBinShift == bin && distances_[i] != kNoToken)
      ids_.push_back(static_cast<std::int32_t>(i));
  std::sort(ids_.begin(), ids_.end(), [&](std::int32_t a, std::int32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  for (auto id = ids_.begin(); measure(place.reached) <= passed; ++id) {
    add(mass_of(logits[*id], distances_[*id]));
    place.id = *id;
  }
  return place;
}

HostDraw::Mass HostDraw::cut(std::span<const float> logits, const TokenDraw& draw) {
  draw_ = draw;
  highest_ = logits[likeliest(logits)];
  bits_ = weight_bits(std::ssize(logits));
  if (!std::isfinite(highest_)) return {};
  count(logits);
  const auto by_count = [](const Mass& m) { return static_cast<std::uint64_t>(m.tokens); };
  const auto by_cut = [](const Mass& m) { return m.cut; };
  Mass all;
  for (const Mass& bin : bins_) all = {all.cut + bin.cut, all.drawn + bin.drawn, all.tokens + bin.tokens};
  if (draw.top_k > 0 && draw.top_k < all.tokens)
    all = find(logits, static_cast<std::uint64_t>(draw.top_k - 1), by_count).reached;
  if (draw.top_p > 0) all = find(logits, least_of_sum(all.cut, draw.top_p) - 1, by_cut).reached;
  if (draw.near_first == 0 && draw.farthest != kNoToken) {
    // The near tokens are the first: those that are left by both are the fewer.
    const std::uint32_t last = draw.farthest >> kBinShift;
    std::uint64_t near = 0;
    for (std::uint32_t bin = 0; bin < last; ++bin) near += bins_[bin].drawn;
    for (std::size_t i = 0; i < logits.size(); ++i)
      if (distances_[i] >> kBinShift == last && distances_[i] <= draw.farthest)
        near += mass_of(logits[i], distances_[i]).drawn;
    all.drawn = std::min(all.drawn, near);
  }
  return all;
}

// Copies of a sampler need not have them.
void HostDraw::forget() { distances_.clear(), bins_.clear(), ids_.clear(); }

std::int32_t HostDraw::draw(std::span<const float> logits, const TokenDraw& draw) {
  const Mass all = cut(logits, draw);
  if (all.tokens == 0) return likeliest(logits);
  const std::int32_t id = find(logits, part_of_sum(all.drawn, draw.word), &drawn_of).id;
  forget();
  return id;
}

void HostDraw::keep(std::span<const float> logits, const TokenDraw& draw, std::vector<bool>& kept) {
  const Mass all = cut(logits, draw);
  kept.assign(logits.size(), all.tokens == 0);
  if (all.tokens == 0) return;
  const std::int32_t last = find(logits, all.drawn - 1, &drawn_of).id;
  for (std::size_t i = 0; i < logits.size(); ++i)
    kept[i] =
        distances_[i] != kNoToken &&
        (logits[i] > logits[last] || (logits[i] == logits[last] && static_cast<std::int32_t>(i) <= last));
  forget();
}

}  // namespace stoa::ops

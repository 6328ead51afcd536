#include "constraint/machine.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

namespace stoa::constraint {
namespace {

// Bounds of what a machine keeps: when one is passed, it starts again before the next token.
constexpr std::size_t kMostEntries = 2'000'000, kMostRows = 4'000'000;
constexpr std::int64_t kMostMasks = 512;
// Bounds of one state, and of what one token may add beyond the former.
constexpr std::size_t kMostPlaces = 5000, kSlack = 4;
// Places that are looked at for one byte of a text, and for one mask: a millisecond, a tenth of a second.
constexpr std::int64_t kMostWorkOfByte = 10'000, kMostWorkOfMask = 1'000'000;

constexpr const char kTooAmbiguous[] = "the constraint is too ambiguous for this text";

template <class Entry>
std::uint64_t hash_of(std::span<const Entry> entries, std::uint64_t seed) {
  std::uint64_t h = seed + entries.size();
  for (const Entry& e : entries) {
    h ^= static_cast<std::uint64_t>(static_cast<std::uint32_t>(e.state)) << 32 |
         static_cast<std::uint32_t>(e.frame);
    h *= 0x9E3779B97F4A7C15u;
    h ^= h >> 29;
  }
  return h;
}

template <class T>
void sort_unique(std::vector<T>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

}  // namespace

Machine::Machine(std::shared_ptr<const Pushdown> pushdown, std::shared_ptr<const TokenTrie> tokens,
                 std::int64_t depth)
    : pushdown_(std::move(pushdown)),
      tokens_(std::move(tokens)),
      depth_(depth),
      width_(static_cast<std::size_t>(pushdown_->classes())),
      calls_(static_cast<std::size_t>(pushdown_->rules())),
      path_(tokens_->longest() + 1) {
  clear();
}

bool Machine::full() const { return entries_.size() > kMostEntries || rows_.size() > kMostRows; }

void Machine::clear() {
  entries_.clear();
  frames_.assign(1, {});  // the whole text's: its end accepts
  states_.clear();
  rows_.clear();
  known_frames_.clear();
  known_states_.clear();
  masks_ = 0;
  start_ = kUnknown;
}

void Machine::spend(std::int64_t places) {
  byte_work_ += places;
  mask_work_ += places;
  require<ConstraintError>(byte_work_ <= kMostWorkOfByte && mask_work_ <= kMostWorkOfMask, kTooAmbiguous);
}

Machine::List Machine::keep(std::span<const Entry> list) {
  require<ConstraintError>(entries_.size() + list.size() < kSlack * kMostEntries, kTooAmbiguous);
  const List out{static_cast<std::int32_t>(entries_.size()), static_cast<std::int32_t>(list.size())};
  entries_.insert(entries_.end(), list.begin(), list.end());
  return out;
}

std::int32_t Machine::frame_of(std::vector<Entry>& returns) {
  sort_unique(returns);
  const std::uint64_t hash = hash_of<Entry>(returns, 1);
  for (auto [it, end] = known_frames_.equal_range(hash); it != end; ++it)
    if (std::ranges::equal(entries(frames_[static_cast<std::size_t>(it->second)].returns), returns))
      return it->second;
  // Of several callers the least nested counts: the others are ways to read the same text.
  std::int32_t depth = std::numeric_limits<std::int32_t>::max();
  for (const Entry& e : returns)
    depth = std::min(depth, frames_[static_cast<std::size_t>(e.frame)].depth + 1);
  if (depth > depth_) return -1;
  const auto number = static_cast<std::int32_t>(frames_.size());
  frames_.push_back({keep(returns), depth});
  known_frames_.emplace(hash, number);
  return number;
}

// Notes what a state of a rule calls. A call that the rule ends with returns to the rule's own callers.
void Machine::call(std::int32_t state, std::int32_t frame) {
  for (const CallEdge& edge : pushdown_->calls(state)) {
    auto& returns = calls_[static_cast<std::size_t>(edge.rule)];
    if (returns.empty()) {
      called_.push_back(edge.rule);
      std::push_heap(called_.begin(), called_.end(), std::greater<>());
    }
    if (frame != 0 && pushdown_->ends(edge.to)) {
      const auto own = entries(frames_[static_cast<std::size_t>(frame)].returns);
      spend(std::ssize(own));
      returns.insert(returns.end(), own.begin(), own.end());
    } else {
      returns.push_back({edge.to, frame});
    }
    if (returns.size() > kMostPlaces) {
      sort_unique(returns);
      require<ConstraintError>(returns.size() <= kMostPlaces, kTooAmbiguous);
    }
  }
}

// Adds the places that rules return to which end at a place.
void Machine::return_from_rules() {
  std::vector<Entry> last = places_, next;
  while (!last.empty()) {
    next.clear();
    for (const Entry& at : last) {
      if (!pushdown_->final(at.state)) continue;
      if (at.frame == 0) {
        accepts_ = true;
        continue;
      }
      const auto back = entries(frames_[static_cast<std::size_t>(at.frame)].returns);
      next.insert(next.end(), back.begin(), back.end());
    }
    spend(std::ssize(next));
    sort_unique(next);
    last.clear();
    std::set_difference(next.begin(), next.end(), places_.begin(), places_.end(), std::back_inserter(last));
    const auto middle = places_.insert(places_.end(), last.begin(), last.end());
    std::inplace_merge(places_.begin(), middle, places_.end());
    require<ConstraintError>(places_.size() <= kMostPlaces, kTooAmbiguous);
  }
}

// The state of `places_`, and of all that rules return to and call from there.
Machine::StateId Machine::close() {
  if (std::exchange(unfinished_, true)) {
    for (auto& returns : calls_) returns.clear();
    called_.clear();
  }
  accepts_ = false;
  sort_unique(places_);
  return_from_rules();
  for (const Entry& at : places_) call(at.state, at.frame);
  while (!called_.empty()) {
    std::pop_heap(called_.begin(), called_.end(), std::greater<>());
    const std::int32_t rule = called_.back();
    called_.pop_back();
    auto& returns = calls_[static_cast<std::size_t>(rule)];
    const std::int32_t frame = frame_of(returns);
    returns.clear();
    if (frame < 0) continue;  // too deep
    places_.push_back({pushdown_->start_of(rule), frame});
    call(places_.back().state, frame);
  }
  spend(std::ssize(places_));
  unfinished_ = false;
  std::erase_if(places_, [&](const Entry& e) { return pushdown_->bytes(e.state).empty(); });
  if (places_.empty() && !accepts_) return kDead;
  sort_unique(places_);
  const std::uint64_t hash = hash_of<Entry>(places_, accepts_ ? 3 : 2);
  for (auto [it, end] = known_states_.equal_range(hash); it != end; ++it) {
    const State& state = states_[static_cast<std::size_t>(it->second)];
    if (state.accepts == accepts_ && std::ranges::equal(entries(state.places), places_)) return it->second;
  }
  require<ConstraintError>(rows_.size() < kSlack * kMostRows, kTooAmbiguous);
  const auto number = static_cast<StateId>(states_.size());
  states_.push_back({keep(places_), accepts_});
  rows_.resize(rows_.size() + width_, kUnknown);
  known_states_.emplace(hash, number);
  return number;
}

Machine::StateId Machine::start() {
  if (start_ != kUnknown) return start_;
  places_.assign(1, {pushdown_->start_of(pushdown_->root()), 0});
  byte_work_ = mask_work_ = 0;
  start_ = close();
  if (!pushdown_->accepts_empty()) return start_;
  // The first state accepts only here: it is no other's equal.
  if (start_ == kDead) {
    start_ = static_cast<StateId>(states_.size());
    states_.push_back({});
    rows_.resize(rows_.size() + width_, kDead);
  }
  states_[static_cast<std::size_t>(start_)].accepts = true;
  return start_;
}

Machine::StateId Machine::compute(StateId state, int byte_class) {
  const std::uint8_t byte = pushdown_->byte_of(byte_class);
  places_.clear();
  byte_work_ = 0;
  for (const Entry& at : entries(states_[static_cast<std::size_t>(state)].places))
    if (const std::int32_t to = pushdown_->next(at.state, byte); to >= 0) places_.push_back({to, at.frame});
  const StateId next = places_.empty() ? kDead : close();
  rows_[static_cast<std::size_t>(state) * width_ + static_cast<std::size_t>(byte_class)] = next;
  return next;
}

Machine::StateId Machine::next(StateId state, std::string_view bytes) {
  for (const char c : bytes) {
    if (state == kDead) break;
    mask_work_ = 0;
    state = next(state, static_cast<std::uint8_t>(c));
  }
  return state;
}

bool Machine::complete(StateId state) const {
  const State& s = states_[static_cast<std::size_t>(state)];
  return s.accepts && s.places.count == 0;
}

// How many ordinary characters, whichever they are, a place takes for certain; `enough` at most. Looks at
// `steps` places of callers: fewer is right, too.
int Machine::run(const Entry& place, int enough, int& steps) const {
  const int own = pushdown_->run(place.state), to_end = pushdown_->run_to_end(place.state);
  if (own >= enough || to_end < 0 || place.frame == 0 || --steps < 0) return std::min(own, enough);
  int behind = 0;
  for (const Entry& back : entries(frames_[static_cast<std::size_t>(place.frame)].returns)) {
    if (behind >= enough - to_end) break;
    behind = std::max(behind, run(back, enough - to_end, steps));
  }
  return std::min(enough, std::max(own, to_end + behind));
}

void Machine::walk(const TokenTrie::Tree& tree, StateId from, int known_run, TokenBits& bits) {
  path_[0] = from;
  const auto end = static_cast<std::int32_t>(tree.size());
  for (std::int32_t i = 0; i < end;) {
    const TokenTrie::Node& node = tree.nodes[static_cast<std::size_t>(i)];
    if (node.most_characters != 0 && node.most_characters <= known_run) {
      i = node.end;
      continue;
    }
    const StateId state = next(path_[node.depth], node.byte);
    if (state == kDead) {
      i = node.end;
      continue;
    }
    path_[node.depth + std::size_t{1}] = state;
    for (std::int32_t t = node.first_token; t < tree.nodes[static_cast<std::size_t>(i) + 1].first_token;
         ++t) {
      const auto id = static_cast<std::size_t>(tree.tokens[static_cast<std::size_t>(t)]);
      bits[id / 64] |= std::uint64_t{1} << (id % 64);
    }
    ++i;
  }
}

std::shared_ptr<const TokenBits> Machine::mask(StateId state) {
  if (states_[static_cast<std::size_t>(state)].mask) return states_[static_cast<std::size_t>(state)].mask;
  mask_work_ = 0;
  int known = 0, steps = 500;
  for (const Entry& place : entries(states_[static_cast<std::size_t>(state)].places))
    known = std::max(known, run(place, Pushdown::kMostRun, steps));
  const auto words = static_cast<std::size_t>((tokens_->vocabulary() + 63) / 64);
  auto bits = std::make_shared<TokenBits>(known > 0 ? tokens_->up_to(known) : TokenBits(words));
  walk(tokens_->ordinary(), state, known, *bits);
  walk(tokens_->other(), state, 0, *bits);
  if (masks_ >= kMostMasks) {
    for (State& s : states_) s.mask.reset();
    masks_ = 0;
  }
  ++masks_;
  return states_[static_cast<std::size_t>(state)].mask = std::move(bits);
}

}  // namespace stoa::constraint

#include "infer/engine/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace stoa::infer {

struct Scheduler::Sequence {
  SequenceId id = 0;
  std::vector<std::int32_t> tokens;
  std::string salt, tenant, group;
  int priority = 0, adapter = 0;
  std::int64_t most = 0;      // tokens to which it may grow
  std::int64_t computed = 0;  // tokens whose keys and values are in the blocks
  std::int64_t scored = 0;    // tokens whose logits were given or are not asked for
  std::int64_t cached = 0;
  std::int64_t guesses = 0;  // how many of the last tokens are guesses
  std::vector<BlockId> blocks;
  std::vector<BlockPool::Content> contents;  // of its full blocks that were computed
  // An encoder-decoder's; the target's keys and values depend on it: it is part of the salt.
  std::vector<std::int32_t> source;
  std::vector<BlockId> source_blocks;  // while it runs
  bool source_read = false;            // its keys and values are there
  bool runs = false, gave_up = false, planned = false;

  std::int64_t certain() const { return std::ssize(tokens) - guesses; }
  std::int64_t left() const { return std::ssize(tokens) - computed; }
  // Tokens of the source that are still to be read.
  std::int64_t unread() const { return source_read ? 0 : std::ssize(source); }
  // For the source's own blocks. Its tokens see each other in both directions: only whole sources are equal.
  std::string source_salt() const { return "source of " + salt; }
};

namespace {

// The tokens of block `i`, of which the last may have fewer.
std::span<const std::int32_t> tokens_of_block(std::span<const std::int32_t> tokens, std::size_t i,
                                              std::int64_t size) {
  const std::size_t begin = i * static_cast<std::size_t>(size);
  return tokens.subspan(begin, std::min(static_cast<std::size_t>(size), tokens.size() - begin));
}

// One sequence more of `mine` among `all`: who was away has saved nothing up.
template <class All, class Mine>
void join(const All& all, Mine& mine) {
  if (mine.sequences++ > 0 || all.size() == 1) return;
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [name, other] : all)
    if (&other != &mine) least = std::min(least, other.served);
  mine.served = least;
}

}  // namespace

Scheduler::Scheduler(const PassLimits& limits)
    : limits_(limits), pool_(limits.blocks, limits.block_tokens, limits.shares) {
  require<InternalError>(limits.pass_tokens >= 1 && limits.sequences >= 1 && limits.scored >= 1,
                         "passes of {} tokens of {} sequences with {} logits", limits.pass_tokens,
                         limits.sequences, limits.scored);
}
Scheduler::~Scheduler() = default;

Scheduler::Sequence& Scheduler::get(SequenceId id) const {
  const auto it = sequences_.find(id);
  require<InternalError>(it != sequences_.end(), "no sequence {}", id);
  return *it->second;
}

std::span<const std::int32_t> Scheduler::tokens(SequenceId id) const {
  const Sequence& s = get(id);
  return std::span(s.tokens).first(static_cast<std::size_t>(s.certain()));
}
std::int64_t Scheduler::guesses(SequenceId id) const { return get(id).guesses; }
std::int64_t Scheduler::computed(SequenceId id) const { return get(id).computed; }
std::int64_t Scheduler::cached(SequenceId id) const { return get(id).cached; }

Scheduler::Sequence& Scheduler::insert(std::unique_ptr<Sequence> sequence) {
  Sequence& s = *sequence;
  s.id = next_id_++;
  Tenant& tenant = tenants_[s.tenant];
  Group& group = tenant.groups[s.group];
  join(tenants_, tenant);
  join(tenant.groups, group);
  group.waiting.insert(&s);
  sequences_.emplace(s.id, std::move(sequence));
  return s;
}

SequenceId Scheduler::add(NewSequence sequence) {
  require<InternalError>(limits_.reads_sources() != sequence.source.empty() &&
                             std::ssize(sequence.source) <= limits_.source_tokens,
                         "a source of {} tokens, the model reads {}", sequence.source.size(),
                         limits_.source_tokens);
  const std::int64_t longest = limits_.longest(std::ssize(sequence.source));
  require<InternalError>(!sequence.tokens.empty() && std::ssize(sequence.tokens) <= longest,
                         "a sequence of {} tokens, the pool holds {}", sequence.tokens.size(), longest);
  auto s = std::make_unique<Sequence>();
  s->tokens = std::move(sequence.tokens);
  s->source = std::move(sequence.source);
  s->salt = std::move(sequence.salt);
  if (!s->source.empty()) {
    s->salt += fmt::format(":{}:", s->source.size());
    s->salt.append(reinterpret_cast<const char*>(s->source.data()), s->source.size() * sizeof(std::int32_t));
  }
  s->tenant = std::move(sequence.tenant);
  s->group = std::move(sequence.group);
  s->priority = sequence.priority;
  s->adapter = sequence.adapter;
  s->most = sequence.most == 0 ? longest : std::min(sequence.most, longest);
  s->scored = std::max<std::int64_t>(0, std::ssize(s->tokens) - sequence.scored);
  return insert(std::move(s)).id;
}

SequenceId Scheduler::fork(SequenceId of) {
  const Sequence& from = get(of);
  require<InternalError>(from.left() == 0 || !from.runs, "sequence {} is forked with {} tokens to compute",
                         of, from.left());
  auto copy = std::make_unique<Sequence>(from);
  copy->runs = copy->planned = false;
  const bool runs = from.runs && running() < limits_.sequences && limits_.shares;
  if (!runs) {
    copy->computed = 0;
    copy->blocks.clear();
    copy->contents.clear();
    copy->source_blocks.clear();
    copy->source_read = false;
    copy->gave_up = true;
  }
  for (const BlockId block : copy->blocks) pool_.share(block);
  for (const BlockId block : copy->source_blocks) pool_.share(block);
  Sequence& s = insert(std::move(copy));
  if (runs) start(s);
  return s.id;
}

bool Scheduler::append(SequenceId id, std::int32_t token) {
  Sequence& s = get(id);
  if (s.guesses > 0 && s.tokens[static_cast<std::size_t>(s.certain())] == token) {
    --s.guesses;
    return true;
  }
  append(id, std::span(&token, 1), 1);
  return false;
}

void Scheduler::append(SequenceId id, std::span<const std::int32_t> tokens, std::int64_t scored) {
  Sequence& s = get(id);
  cut(s, s.certain());
  const std::int64_t longest = limits_.longest(std::ssize(s.source));
  require<InternalError>(std::ssize(s.tokens) + std::ssize(tokens) <= longest,
                         "sequence {} grows beyond {} tokens", id, longest);
  s.tokens.insert(s.tokens.end(), tokens.begin(), tokens.end());
  s.scored = std::max(s.scored, std::ssize(s.tokens) - scored);
}

void Scheduler::guess(SequenceId id, std::span<const std::int32_t> tokens) {
  Sequence& s = get(id);
  require<InternalError>(s.guesses == 0 && std::ssize(s.tokens) + std::ssize(tokens) <= limits_.longest(),
                         "{} guesses for sequence {} of {} tokens", tokens.size(), id, s.tokens.size());
  if (!s.runs || s.left() != 1) return;
  s.tokens.insert(s.tokens.end(), tokens.begin(), tokens.end());
  s.guesses = std::ssize(tokens);
}

void Scheduler::shorten(SequenceId id, std::int64_t keep) {
  Sequence& s = get(id);
  require<InternalError>(keep >= 1 && keep <= std::ssize(s.tokens), "{} tokens of sequence {} of {}", keep,
                         id, s.tokens.size());
  cut(s, keep);
}

// Blocks of which nothing is left are free again; so is one that is known to others and would be written
// over.
void Scheduler::cut(Sequence& s, std::int64_t keep) {
  if (keep == std::ssize(s.tokens)) return;
  s.tokens.resize(static_cast<std::size_t>(keep));
  s.guesses = 0;
  s.computed = std::min(s.computed, keep);
  s.scored = std::min(s.scored, keep);
  const auto full = static_cast<std::size_t>(s.computed / limits_.block_tokens);
  if (limits_.shares && s.contents.size() > full)
    s.computed = static_cast<std::int64_t>(full) * limits_.block_tokens;
  s.contents.resize(std::min(s.contents.size(), full));
  for (const auto held = static_cast<std::size_t>(limits_.blocks_of(s.computed)); s.blocks.size() > held;
       s.blocks.pop_back())
    pool_.release(s.blocks.back());
}

void Scheduler::free_blocks(Sequence& s) {
  if (limits_.left_behind != LeftBehind::kNothing && !s.blocks.empty()) {
    left_salt_ = s.salt;
    // A pass that was planned and did not end may have changed a state.
    left_.assign(s.tokens.begin(), s.tokens.begin() + (s.planned ? 0 : s.computed));
  }
  // The last first: the beginnings of texts are used again the most.
  for (std::vector<BlockId>* blocks : {&s.blocks, &s.source_blocks}) {
    for (auto block = blocks->rbegin(); block != blocks->rend(); ++block) pool_.release(*block);
    blocks->clear();
  }
  s.contents.clear();
  s.source_read = false;
  s.computed = 0;
  if (s.runs) std::erase(running_, &s);
  s.runs = false;
}

void Scheduler::remove(SequenceId id) {
  const auto it = sequences_.find(id);
  if (it == sequences_.end()) return;
  free_blocks(*it->second);
  std::erase_if(plan_.segments, [&](const PassSegment& segment) { return segment.sequence == id; });
  const auto tenant = tenants_.find(it->second->tenant);
  const auto group = tenant->second.groups.find(it->second->group);
  group->second.waiting.erase(it->second.get());
  if (--group->second.sequences == 0) tenant->second.groups.erase(group);
  if (--tenant->second.sequences == 0) tenants_.erase(tenant);
  sequences_.erase(it);
}

bool Scheduler::ranks_before(const Sequence& a, const Sequence& b) {
  return a.priority != b.priority ? a.priority > b.priority : a.id < b.id;
}

bool Scheduler::WaitsBefore::operator()(const Sequence* a, const Sequence* b) const {
  if (a->priority != b->priority) return a->priority > b->priority;
  return a->gave_up != b->gave_up ? a->gave_up : a->id < b->id;
}

Scheduler::Group& Scheduler::group_of(const Sequence& s) { return tenants_.at(s.tenant).groups.at(s.group); }

Scheduler::Sequence* Scheduler::first_waiting() const {
  struct Next {
    Sequence* sequence;
    double served;  // for whom it waits
  };
  const auto take = [](Next& first, const Next& other) {
    if (!first.sequence) {
      first = other;
      return;
    }
    const Sequence &a = *other.sequence, &b = *first.sequence;
    const bool by_turns = a.priority == b.priority && !a.gave_up && !b.gave_up;
    if (by_turns && other.served != first.served ? other.served < first.served : WaitsBefore{}(&a, &b))
      first = other;
  };
  Next first{};
  for (const auto& [name, tenant] : tenants_) {
    Next of_tenant{};
    for (const auto& [group_name, group] : tenant.groups)
      if (!group.waiting.empty()) take(of_tenant, {*group.waiting.begin(), group.served});
    if (of_tenant.sequence) take(first, {of_tenant.sequence, tenant.served});
  }
  return first.sequence;
}

void Scheduler::start(Sequence& s) {
  group_of(s).waiting.erase(&s);
  s.runs = true;
  s.gave_up = false;
  const auto place = std::find_if(running_.begin(), running_.end(),
                                  [&](const Sequence* other) { return ranks_before(s, *other); });
  running_.insert(place, &s);
}

void Scheduler::give_up(Sequence& s) {
  cut(s, s.certain());
  free_blocks(s);
  s.gave_up = true;
  group_of(s).waiting.insert(&s);
  ++preemptions_;
}

// Blocks for the next `count` tokens, and the first of them for this sequence alone. False: the pool is
// empty; what was taken stays.
bool Scheduler::reserve(Sequence& s, std::int64_t count) {
  const std::int64_t size = limits_.block_tokens;
  const auto first = static_cast<std::size_t>(s.computed / size);
  if (first < s.blocks.size() && s.computed % size != 0 && pool_.is_shared(s.blocks[first])) {
    const auto block = pool_.take();
    if (!block) return false;
    plan_.copies.emplace_back(s.blocks[first], *block);
    pool_.release(s.blocks[first]);
    s.blocks[first] = *block;
  }
  while (std::ssize(s.blocks) * size < s.computed + count) {
    const auto block = pool_.take();
    if (!block) return false;
    s.blocks.push_back(*block);
  }
  return true;
}

// Lets those of the lowest rank give up until the blocks suffice; false: `s` itself had to.
bool Scheduler::make_room(Sequence& s, std::int64_t count) {
  while (!reserve(s, count)) {
    const auto last = std::find_if(running_.rbegin(), running_.rend(),
                                   [](const Sequence* other) { return !other->planned; });
    Sequence& loser = **last;
    give_up(loser);
    if (&loser == &s) return false;
  }
  return true;
}

std::int64_t Scheduler::share_of_pass(const Sequence& s) const {
  std::int64_t room = limits_.pass_tokens - plan_.tokens - s.unread();
  // PassLimits::most_tokens()
  if (s.unread() > 0 && room < 1 && plan_.tokens == std::ssize(plan_.segments)) room = 1;
  std::int64_t count = std::min(s.left(), room);
  // Tokens before s.scored need no logits.
  const std::int64_t silent = std::max<std::int64_t>(0, s.scored - s.computed);
  return std::min(count, silent + limits_.scored - plan_.scored);
}

void Scheduler::plan(Sequence& s, std::int64_t count) {
  PassSegment segment;
  segment.sequence = s.id;
  segment.adapter = s.adapter;
  segment.begin = s.computed;
  segment.length = std::ssize(s.tokens);
  segment.tokens =
      std::span(s.tokens).subspan(static_cast<std::size_t>(s.computed), static_cast<std::size_t>(count));
  const std::int64_t end = s.computed + count, size = limits_.block_tokens;
  segment.blocks = std::span(s.blocks).first(static_cast<std::size_t>((end + size - 1) / size));
  if (s.unread() > 0) segment.source = s.source;
  segment.source_length = std::ssize(s.source);
  segment.source_blocks = s.source_blocks;
  segment.scored = std::clamp<std::int64_t>(end - s.scored, 0, count);
  segment.last = end == std::ssize(s.tokens);
  const std::int64_t read = count + s.unread();
  const bool answers = segment.last && read == 1 + s.guesses;
  plan_.tokens += read;
  plan_.sources += s.unread();
  plan_.scored += segment.scored;
  plan_.segments.push_back(segment);
  s.planned = true;
  const auto served = static_cast<double>(answers ? 2 : read);
  tenants_.at(s.tenant).served += served;
  group_of(s).served += served;
}

// How many tokens of a sequence are in memory because the last one began with them.
std::int64_t Scheduler::left_for(const Sequence& s) const {
  if (left_.empty() || left_salt_ != s.salt) return 0;
  const std::int64_t most = std::min(s.scored, std::ssize(s.tokens) - 1);
  const std::int64_t same = std::ranges::mismatch(left_, s.tokens).in1 - left_.begin();
  if (limits_.left_behind == LeftBehind::kWhole && (same < std::ssize(left_) || same > most)) return 0;
  return std::min(same, most);
}

// Whether a sequence that runs may need a block of the pool.
bool Scheduler::may_grow(const Sequence& s) const {
  const bool written_by_one = s.blocks.empty() || !pool_.is_shared(s.blocks.back());
  return std::ssize(s.blocks) < limits_.blocks_of(s.most) || !written_by_one;
}

// The blocks that hold its whole source; none: some do not.
std::vector<BlockPool::Found> Scheduler::find_source(const Sequence& s) const {
  std::vector<BlockPool::Found> found;
  const std::int64_t count = limits_.blocks_of(std::ssize(s.source));
  while (std::ssize(found) < count) {
    const auto next = pool_.find(found.empty() ? BlockPool::kStart : found.back().content, s.source_salt(),
                                 tokens_of_block(s.source, found.size(), limits_.block_tokens));
    if (!next) return {};
    found.push_back(*next);
  }
  return found;
}

// Gives a waiting sequence blocks for all its tokens: those known to hold its beginning, and others.
bool Scheduler::admit(Sequence& s) {
  const std::int64_t size = limits_.block_tokens, length = std::ssize(s.tokens);
  const std::int64_t source_blocks = limits_.blocks_of(std::ssize(s.source));
  const std::vector<BlockPool::Found> source = find_source(s);
  // Some token must be computed for its logits.
  const std::int64_t most = std::min(s.scored, length - 1) / size;
  std::vector<BlockPool::Found> found;
  std::int64_t unowned = 0;
  for (const BlockPool::Found& f : source) unowned += pool_.is_free(f.block);
  while (std::ssize(found) < most) {
    const auto next = pool_.find(found.empty() ? BlockPool::kStart : found.back().content, s.salt,
                                 std::span(s.tokens).subspan(found.size() * static_cast<std::size_t>(size),
                                                             static_cast<std::size_t>(size)));
    if (!next) break;
    unowned += pool_.is_free(next->block);
    found.push_back(*next);
  }
  const std::int64_t needed =
      (length + size - 1) / size - std::ssize(found) + source_blocks - std::ssize(source) + unowned;
  // One more for everyone that runs and may grow: who is admitted must not make others give up at once.
  const auto growing =
      std::ranges::count_if(running_, [&](const Sequence* other) { return may_grow(*other); });
  if (needed + growing > pool_.free() && !(running_.empty() && needed <= pool_.free())) return false;
  for (const BlockPool::Found& f : found) {
    pool_.share(f.block);
    s.blocks.push_back(f.block);
    s.contents.push_back(f.content);
  }
  for (const BlockPool::Found& f : source) {
    pool_.share(f.block);
    s.source_blocks.push_back(f.block);
  }
  s.source_read = !source.empty();
  s.computed = std::ssize(found) * size + left_for(s);
  s.cached = std::max(s.cached, s.gave_up ? 0 : s.computed + std::ssize(s.source) - s.unread());
  while (std::ssize(s.source_blocks) < source_blocks) s.source_blocks.push_back(pool_.take().value());
  start(s);
  require<InternalError>(reserve(s, length - s.computed), "{} free blocks, needed {}", pool_.free(), needed);
  return true;
}

const PassPlan& Scheduler::next() {
  plan_ = {};
  for (const bool answers : {true, false}) {
    const std::vector<Sequence*> order = running_;
    for (Sequence* s : order) {
      if (!s->runs || s->planned || (s->left() == 1 + s->guesses) != answers) continue;
      std::int64_t count = share_of_pass(*s);
      if (s->guesses > 0 && count > 0) {
        // Nobody gives up for a guess.
        if (!reserve(*s, count)) count = 1;
        cut(*s, s->computed + count);
      }
      if (count > 0 && make_room(*s, count)) plan(*s, count);
    }
  }
  while (running() < limits_.sequences && plan_.tokens < limits_.pass_tokens) {
    Sequence* s = first_waiting();
    if (!s || share_of_pass(*s) < 1 || !admit(*s)) break;
    plan(*s, share_of_pass(*s));
  }
  std::ranges::stable_sort(plan_.segments, {}, &PassSegment::adapter);
  return plan_;
}

void Scheduler::complete() {
  const std::int64_t size = limits_.block_tokens;
  for (const PassSegment& segment : plan_.segments) {
    Sequence& s = get(segment.sequence);
    s.planned = false;
    s.computed = segment.begin + std::ssize(segment.tokens);
    s.scored = std::max(s.scored, s.computed);
    if (s.unread() > 0) {
      BlockPool::Content before = BlockPool::kStart;
      for (std::size_t i = 0; i < s.source_blocks.size(); ++i)
        before =
            pool_.remember(s.source_blocks[i], before, s.source_salt(), tokens_of_block(s.source, i, size));
      s.source_read = true;
    }
    while ((std::ssize(s.contents) + 1) * size <= std::min(s.computed, s.certain())) {
      const std::size_t i = s.contents.size();
      s.contents.push_back(pool_.remember(
          s.blocks[i], i == 0 ? BlockPool::kStart : s.contents.back(), s.salt,
          std::span(s.tokens).subspan(i * static_cast<std::size_t>(size), static_cast<std::size_t>(size))));
    }
  }
}

}  // namespace stoa::infer

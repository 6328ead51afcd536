#include "infer/engine/find_targets.h"

#include <algorithm>
#include <cmath>
#include <list>
#include <map>

#include "base/error.h"
#include "infer/engine/scheduler.h"
#include "infer/engine/virtual_tokens.h"
#include "infer/loaded_chunk.h"

namespace stoa::infer {
namespace {

// Searches under way, whose targets are sequences of a scheduler.
class SearchWalker {
 public:
  explicit SearchWalker(PassModel& model) : model_(model), scheduler_(model.limits()) {}

  // Begins a search if all targets that it may have find room next to those of the others: none of them ever
  // gives up its blocks, for which its search would wait.
  bool begin(SourceSearch& search) {
    const PassLimits& l = model_.limits();
    const std::int64_t beams = search.search.beams();
    std::vector<std::int32_t> source = with_virtual_tokens(l, search.source);
    const auto length = std::ssize(source);
    require<DataError>(length <= l.source_tokens, "a source of {} tokens is too long: {} are read",
                       search.source.size(), l.source_tokens - l.virtual_tokens);
    const std::int64_t tokens = std::min(l.context, search.search.limits().max_tokens),
                       of_source = l.blocks_of(length), of_target = l.blocks_of(tokens);
    // Where nothing is shared, every copy is read again, and admitted only with a block left for each that
    // runs.
    const std::int64_t blocks =
        l.shares ? of_source + beams * of_target : beams * (of_source + of_target + 1);
    require<ConfigError>(
        beams <= l.sequences && blocks <= l.blocks,
        "{} beams of {} tokens next to a source of {} need {} blocks of keys and values, and "
        "there are {}, for {} sequences",
        beams, tokens, length, blocks, l.blocks, l.sequences);
    if (blocks_ + blocks > l.blocks || sequences_ + beams > l.sequences) return false;
    blocks_ += blocks;
    sequences_ += beams;
    Walk& walk = walks_.emplace_back(Walk{.search = &search.search, .blocks = blocks});
    const SequenceId root = scheduler_.add({.tokens = {l.start}, .source = std::move(source)});
    walk.targets.push_back(root);
    walk_of_[root] = &walk;
    return true;
  }
  bool idle() const { return walks_.empty(); }
  // Searches under way, by the share of their longest length that is left.
  double left() const {
    double out = 0;
    for (const Walk& walk : walks_)
      out += 1 - static_cast<double>(walk.search->length()) /
                     static_cast<double>(walk.search->limits().max_tokens);
    return out;
  }

  void pass() {
    const auto vocabulary = static_cast<std::size_t>(model_.limits().vocabulary);
    const PassPlan& plan = scheduler_.next();
    require<InternalError>(!plan.segments.empty(), "targets of a search wait for each other");
    const std::span<const float> logits = model_.run(plan);
    std::size_t row = 0;
    for (const PassSegment& segment : plan.segments) {
      row += static_cast<std::size_t>(segment.scored);
      if (!segment.last) continue;
      const auto scores = logits.subspan((row - 1) * vocabulary, vocabulary);
      require<NumericsError>(std::ranges::all_of(scores, [](float x) { return std::isfinite(x); }),
                             "the model's logits are not numbers: {}", kBeyondRange);
      Walk& walk = *walk_of_.at(segment.sequence);
      walk.scores[segment.sequence].assign(scores.begin(), scores.end());
    }
    scheduler_.complete();
    for (auto walk = walks_.begin(); walk != walks_.end();)
      walk = walk->scores.size() == walk->targets.size() && !advance(*walk) ? walks_.erase(walk)
                                                                            : std::next(walk);
  }

 private:
  struct Walk {
    BeamSearch* search;
    std::int64_t blocks;                   // that it may need
    std::vector<SequenceId> targets = {};  // that run, in the order of the search
    std::map<SequenceId, std::vector<float>> scores = {};
  };

  // Returns whether the search continues.
  bool advance(Walk& walk) {
    std::vector<float> scores;
    for (const SequenceId target : walk.targets) {
      const std::vector<float>& own = walk.scores.at(target);
      scores.insert(scores.end(), own.begin(), own.end());
    }
    walk.scores.clear();
    const bool on = walk.search->advance(scores);
    const std::span<const std::int32_t> parents = walk.search->parents();
    const auto goes_on = [&](std::size_t target) {
      return on && std::ranges::find(parents, static_cast<std::int32_t>(target)) != parents.end();
    };
    for (std::size_t i = 0; i < walk.targets.size(); ++i)
      if (!goes_on(i)) end(walk.targets[i]);
    if (!on) {
      blocks_ -= walk.blocks;
      sequences_ -= walk.search->beams();
      return false;
    }
    // The first child of a target is the target itself; the others begin as copies of it.
    std::vector<SequenceId> next;
    std::vector<bool> used(walk.targets.size());
    for (const std::int32_t parent : parents) {
      const auto place = static_cast<std::size_t>(parent);
      const bool first = !used[place];
      used[place] = true;
      next.push_back(first ? walk.targets[place] : scheduler_.fork(walk.targets[place]));
      walk_of_[next.back()] = &walk;
    }
    for (std::size_t i = 0; i < next.size(); ++i) scheduler_.append(next[i], walk.search->tokens()[i]);
    walk.targets = std::move(next);
    return true;
  }
  void end(SequenceId target) {
    scheduler_.remove(target);
    walk_of_.erase(target);
  }

  PassModel& model_;
  Scheduler scheduler_;
  std::list<Walk> walks_;
  std::map<SequenceId, Walk*> walk_of_;
  std::int64_t blocks_ = 0, sequences_ = 0;  // that the walks may need
};

}  // namespace

void find_targets(PassModel& model, std::span<SourceSearch> searches,
                  const std::function<void(double searched)>& at) {
  SearchWalker walker(model);
  for (auto next = searches.begin(); next != searches.end() || !walker.idle();) {
    while (next != searches.end() && walker.begin(*next)) ++next;
    walker.pass();
    if (at) at(static_cast<double>(next - searches.begin()) - walker.left());
  }
}

}  // namespace stoa::infer

// Decides which tokens of which sequences share the next pass, and who owns which blocks. Knows no model: a
// simulation can drive it.
//
// Sequences that answer come first, one token each; then prompts, in pieces that fit what is left of the
// pass; then those that wait, once the pool holds all their tokens. When blocks run out, the sequence of the
// lowest rank gives up its blocks and waits, before all others of its priority, to be recomputed. Rank:
// priority, then arrival; so the first never gives up, and everyone ends.
//
// A sequence of an encoder-decoder has a source, too. It is read in one pass, together with the first tokens
// of its target, and its keys and values have blocks of their own, which equal sources share.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "infer/engine/block_pool.h"

namespace stoa::infer {

struct NewSequence {
  std::vector<std::int32_t> tokens;       // at least one, at most PassLimits::longest()
  std::vector<std::int32_t> source = {};  // of an encoder-decoder; `tokens` begin its target
  std::int64_t scored = 1;                // how many of the last tokens need logits, at least 1
  // Whose turn it is follows from the tokens that were read and written for its tenant, and within a tenant
  // for its group.
  std::string salt = {}, tenant = {}, group = {};
  int priority = 0;
  int adapter = 0;        // the segments of a pass are ordered by it
  std::int64_t most = 0;  // tokens to which it may grow; 0: PassLimits::longest()
};

class Scheduler {
 public:
  explicit Scheduler(const PassLimits& limits);
  ~Scheduler();

  SequenceId add(NewSequence sequence);
  // Another sequence of the same tokens, whose logits were given, that shares the blocks of `of` as long as
  // both are equal. It runs if there is room for it.
  SequenceId fork(SequenceId of);
  // The next token of a sequence whose tokens were all computed. Where it was guessed, the guess has come
  // true and its logits were given: true. Otherwise all guesses are taken back.
  bool append(SequenceId id, std::int32_t token);
  // The next tokens of such a sequence, of which the last `scored` need logits.
  void append(SequenceId id, std::span<const std::int32_t> tokens, std::int64_t scored);
  // Tokens that may follow, to be computed in one pass with the last token, each with logits. They are left
  // out where the pass or the pool has no room for them.
  void guess(SequenceId id, std::span<const std::int32_t> tokens);
  std::int64_t guesses(SequenceId id) const;
  // How many tokens of the sequence are computed, guesses among them; 0: it waits.
  std::int64_t computed(SequenceId id) const;
  // Drops all but the first `keep` tokens, at least 1, with their keys and values.
  void shorten(SequenceId id, std::int64_t keep);
  // Gives its blocks back. Unknown ids are ignored.
  void remove(SequenceId id);

  // The next pass: empty if no sequence is left. complete() must follow before anything else but remove().
  const PassPlan& next();
  void complete();

  // Without guesses.
  std::span<const std::int32_t> tokens(SequenceId id) const;
  std::int64_t length(SequenceId id) const { return std::ssize(tokens(id)); }
  bool idle() const { return sequences_.empty(); }
  std::int64_t running() const { return std::ssize(running_); }
  std::int64_t waiting() const { return std::ssize(sequences_) - running(); }
  std::int64_t preemptions() const { return preemptions_; }
  // Tokens that the sequence found computed when it began to run, those of its source among them.
  std::int64_t cached(SequenceId id) const;
  const BlockPool& pool() const { return pool_; }

 private:
  struct Sequence;
  // Among those of one group.
  struct WaitsBefore {
    bool operator()(const Sequence* a, const Sequence* b) const;
  };
  struct Turns {
    std::int64_t sequences = 0;
    double served = 0;  // tokens read, and twice those written (Sheng et al. 2024, virtual token counter)
  };
  struct Group : Turns {
    std::set<Sequence*, WaitsBefore> waiting = {};
  };
  struct Tenant : Turns {
    std::map<std::string, Group> groups = {};
  };

  Sequence& get(SequenceId id) const;
  Sequence& insert(std::unique_ptr<Sequence> sequence);
  // Whether `a` ranks before `b` among those that run.
  static bool ranks_before(const Sequence& a, const Sequence& b);
  Group& group_of(const Sequence& sequence);
  Sequence* first_waiting() const;
  void start(Sequence& sequence);
  void give_up(Sequence& sequence);
  void free_blocks(Sequence& sequence);
  void cut(Sequence& sequence, std::int64_t keep);
  bool reserve(Sequence& sequence, std::int64_t count);
  bool make_room(Sequence& sequence, std::int64_t count);
  std::vector<BlockPool::Found> find_source(const Sequence& sequence) const;
  bool admit(Sequence& sequence);
  bool may_grow(const Sequence& sequence) const;
  std::int64_t left_for(const Sequence& sequence) const;
  void plan(Sequence& sequence, std::int64_t count);
  std::int64_t share_of_pass(const Sequence& sequence) const;

  const PassLimits limits_;
  BlockPool pool_;
  std::map<SequenceId, std::unique_ptr<Sequence>> sequences_;
  std::vector<Sequence*> running_;  // by rank
  std::map<std::string, Tenant> tenants_;
  PassPlan plan_;
  // What PassLimits::left_behind allows: the tokens in the only block, and their salt.
  std::vector<std::int32_t> left_;
  std::string left_salt_;
  SequenceId next_id_ = 1;
  std::int64_t preemptions_ = 0;
};

}  // namespace stoa::infer

// Runs a pushdown automaton over bytes and finds the tokens that may come next.
//
// A machine state is every place in the grammar where the text so far may stand: pairs of an automaton state
// and a frame, which says where rules return to. All callers of a rule at one place of the text share a
// frame, so that an ambiguous grammar takes no more frames than rules at each byte. States and frames are
// numbered by their content; what a byte makes of a state, and which tokens may follow it, is computed once.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>

#include "constraint/pushdown.h"
#include "constraint/token_trie.h"

namespace stoa::constraint {

// Used by one thread at a time.
class Machine {
 public:
  using StateId = std::int32_t;
  static constexpr StateId kDead = -1;

  // `depth`: of nested rules; deeper, a text cannot continue that way.
  Machine(std::shared_ptr<const Pushdown> pushdown, std::shared_ptr<const TokenTrie> tokens,
          std::int64_t depth);

  StateId start();
  // ConstraintError: the text is too ambiguous to be followed.
  StateId next(StateId state, std::uint8_t byte) {
    const std::int32_t known = rows_[static_cast<std::size_t>(state) * width_ + pushdown_->class_of(byte)];
    return known != kUnknown ? known : compute(state, pushdown_->class_of(byte));
  }
  StateId next(StateId state, std::string_view bytes);
  // Whether the text may end here, and whether it must.
  bool accepts(StateId state) const { return states_[static_cast<std::size_t>(state)].accepts; }
  bool complete(StateId state) const;
  // Tokens that may follow. ConstraintError: finding them takes too much work.
  std::shared_ptr<const TokenBits> mask(StateId state);

  // Whether what is kept has outgrown its bounds. Then clear() forgets all states, and texts must be read
  // again from start().
  bool full() const;
  void clear();

 private:
  static constexpr std::int32_t kUnknown = -2;
  struct Entry {  // where a rule returns to
    std::int32_t state = 0, frame = 0;
    friend auto operator<=>(const Entry&, const Entry&) = default;
  };
  struct List {  // of entries, in entries_
    std::int32_t begin = 0, count = 0;
  };
  struct Frame {
    List returns;
    std::int32_t depth = 0;
  };
  struct State {
    List places;  // whose states read bytes
    bool accepts = false;
    std::shared_ptr<const TokenBits> mask = {};
  };

  std::span<const Entry> entries(List list) const {
    return std::span(entries_).subspan(static_cast<std::size_t>(list.begin),
                                       static_cast<std::size_t>(list.count));
  }
  void spend(std::int64_t places);
  List keep(std::span<const Entry> list);
  StateId compute(StateId state, int byte_class);
  StateId close();
  void return_from_rules();
  void call(std::int32_t state, std::int32_t frame);
  std::int32_t frame_of(std::vector<Entry>& returns);
  int run(const Entry& place, int enough, int& steps) const;
  void walk(const TokenTrie::Tree& tree, StateId from, int known_run, TokenBits& bits);

  const std::shared_ptr<const Pushdown> pushdown_;
  const std::shared_ptr<const TokenTrie> tokens_;
  const std::int64_t depth_;
  const std::size_t width_;

  std::vector<Entry> entries_;
  std::vector<Frame> frames_;
  std::vector<State> states_;
  std::vector<std::int32_t> rows_;  // [state, class]: the next state
  std::unordered_multimap<std::uint64_t, std::int32_t> known_frames_, known_states_;
  std::int64_t masks_ = 0;
  StateId start_ = kUnknown;

  // The state that is being made.
  std::vector<Entry> places_;
  std::vector<std::vector<Entry>> calls_;       // by rule: returns
  std::vector<std::int32_t> called_;            // a heap, the lowest rule first
  bool accepts_ = false, unfinished_ = false;   // unfinished: an error left it
  std::int64_t byte_work_ = 0, mask_work_ = 0;  // places looked at
  std::vector<StateId> path_;                   // of a walk, by depth
};

}  // namespace stoa::constraint

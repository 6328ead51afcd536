// Which of the offered models are loaded, and which leave: a pure function of what is known of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace stoa::serve {

struct LoadRules {
  double memory = std::numeric_limits<double>::infinity();        // bytes of all loaded models
  double unload_after = std::numeric_limits<double>::infinity();  // seconds without a request
};

// An offered model as the policy sees it. Times are seconds of one clock.
struct OfferedState {
  bool loaded = false;
  bool stays = false;        // never unloaded
  double bytes = 0;          // of its weights, cache and buffers, loaded or not
  std::int64_t in_use = 0;   // requests that it is answering
  std::int64_t waiting = 0;  // requests that wait for it
  double waiting_since = 0;  // the first of them
  double last_used = 0;      // begin or end of its last request, or its load
};

struct LoadDecision {
  std::vector<std::size_t> unload;  // now
  std::optional<std::size_t> load;  // after that
  // Loaded, and their room is needed: requests that arrive wait, and when those under way have ended they
  // are unloaded.
  std::vector<std::size_t> leaving;
  std::vector<std::size_t> too_large;                      // asked for, and will never fit
  double again = std::numeric_limits<double>::infinity();  // when to decide again even if nothing happens
};

// Models are loaded one at a time, in the order in which they were first asked for. Where room is missing,
// idle models leave, the one that was used least recently first. If that is not enough, busy ones leave once
// they have answered what they began: no model that is answering is ever unloaded, and no request waits
// forever.
LoadDecision decide_loads(std::span<const OfferedState> models, const LoadRules& rules, double now);

}  // namespace stoa::serve

// A schedule is data: for every pipeline rank a list of actions that one executor walks, the simulator times
// and the viewer draws.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stoa::schedule {

enum class ActionKind : std::uint8_t {
  kForward,
  kBackward,  // input and weight gradients together
  kBackwardInput,
  kBackwardWeight,
  kSendActivation,
  kReceiveActivation,
  kSendGradient,
  kReceiveGradient,
  kGatherWeights,  // of a chunk, where ZeRO shards parameters
  kReleaseWeights,
  kReduceGradients,  // of a chunk, over data-parallel ranks
  kStep              // optimizer
};
std::string_view name_of(
    ActionKind kind);  // "F", "B", "I", "W", "SA", "RA", "SG", "RG", "GW", "RW", "RD", "STEP"

struct Action {
  ActionKind kind = ActionKind::kForward;
  int chunk = -1;       // global chunk number; -1: none
  int microbatch = -1;  // -1: none
  bool overlaps_next =
      false;  // runs at the same time as the action after it (DualPipeV: a forward and a backward)
  bool operator==(const Action&) const = default;
};

// Which pipeline rank holds which chunk of consecutive layers; chunk 0 holds the embedding, the last one the
// head.
struct ChunkPlacement {
  std::vector<int> rank_of_chunk;
  int copies = 1;  // of the model, of as many chunks each, one behind the other; microbatches stay within one
  int trained_from = 0;  // chunks before it have nothing to train, nor has anything in front of them
  int ranks() const;
  int chunks() const { return static_cast<int>(rank_of_chunk.size()); }
  int chunks_on(int rank) const;
  int local_index(int chunk) const;  // how many earlier chunks the same rank holds
  bool begins(int chunk) const { return chunk % (chunks() / copies) == 0; }  // of its copy the first
  bool ends(int chunk) const { return begins(chunk + 1); }
  // Whether a chunk has a backward pass, and whether that continues in the chunk in front of it.
  bool runs_backward(int chunk) const { return chunk >= trained_from; }
  bool returns_gradient(int chunk) const { return !begins(chunk) && chunk > trained_from; }
  static ChunkPlacement one_chunk_per_rank(int stages);
  static ChunkPlacement interleaved(int ranks, int chunks_per_rank);  // chunk c on rank c mod ranks
  static ChunkPlacement v_shaped(int ranks);  // chunks r and 2 ranks - 1 - r on rank r
  static ChunkPlacement two_ways(int ranks);  // the same, but the first half is one copy, the second another
};

struct Schedule {
  std::string name;
  ChunkPlacement placement;
  int microbatches = 0;                    // of each copy
  std::vector<std::vector<Action>> ranks;  // in order of execution
};

bool is_compute(ActionKind kind);
bool is_backward(ActionKind kind);  // whole, or one of its halves
bool is_transfer(ActionKind kind);
// Rank at the other end of a transfer. A send names the chunk that made the tensor, a receive the chunk that
// needs it.
int peer_of(const Action& transfer, const ChunkPlacement& placement);
// The receive that matches a send: the same tensor, named by the chunk that needs it.
Action matching_receive(const Action& send);

// "F0.3" = forward of chunk 0, microbatch 3; ranks one line each; '|' instead of a space joins two overlapped
// actions. parse_actions() is its inverse; ConfigError names what is wrong.
std::string to_text(const Action& action);
std::string to_text(const Schedule& schedule);
std::vector<Action> parse_actions(std::string_view line);

}  // namespace stoa::schedule

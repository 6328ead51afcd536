// The operations of a communicator, as messages, counts and checks name them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace stoa::comm {

enum class OperationKind : std::uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kAllToAllV,
  kBroadcast,
  kSend,
  kReceive,
  kBarrier
};

inline constexpr std::array<std::string_view, 9> kOperationNames{
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "all_to_all_v",
    "broadcast",  "send",       "receive",        "barrier"};

constexpr std::string_view name_of(OperationKind kind) {
  return kOperationNames[static_cast<std::size_t>(kind)];
}

}  // namespace stoa::comm

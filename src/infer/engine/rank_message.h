// What rank 0 tells the ranks that run a model with it: numbers, lists and texts, as integers of 32 bits.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "infer/engine/pass_plan.h"

namespace stoa::infer {

class RankMessage {
 public:
  void put(std::int64_t number);
  void put(std::span<const std::int32_t> list);
  void put(const std::string& text);

  // In the order in which they were put. InternalError: nothing is left.
  std::int64_t number();
  std::span<const std::int32_t> list();  // in the message's memory
  std::string text();

  // One rank of the group sends, the others receive.
  void broadcast(comm::Communicator& group, Stream& stream, int sender = 0);

 private:
  std::span<const std::int32_t> take(std::size_t words);

  std::vector<std::int32_t> words_;
  std::size_t read_ = 0;
};

void put(RankMessage& message, const PassLimits& limits);
PassLimits limits_of(RankMessage& message);
void put(RankMessage& message, const PassPlan& plan);
// Its tokens and blocks are in the message's memory.
PassPlan plan_of(RankMessage& message);

}  // namespace stoa::infer

#include "comm/wait_chain.h"

#include <gtest/gtest.h>

namespace stoa::comm {
namespace {

std::string name(int rank) { return "rank " + std::to_string(rank); }

TEST(WaitChain, WhoIsSilentNeverArrived) {
  const std::vector<int> awaited{1, 2};
  WaitChain chain(0, awaited);
  EXPECT_EQ(chain.unanswered(), awaited);
  chain.answer(1, {false, "dp barrier", {0, 2}});
  EXPECT_EQ(chain.unanswered(), std::vector<int>{2});
  EXPECT_EQ(chain.verdict(name), "rank 2 never arrived (others wait too: rank 1: dp barrier)");
}

// The stages of a pipeline wait one for the other; only the last of them is at fault.
TEST(WaitChain, IsFollowedToItsEnd) {
  WaitChain chain(0, std::vector<int>{1});
  for (int rank = 1; rank < 4; ++rank) {
    EXPECT_EQ(chain.unanswered(), std::vector<int>{rank});
    chain.answer(rank, {false, "pp receive", {rank + 1}});
  }
  EXPECT_FALSE(chain.excused());
  EXPECT_EQ(chain.verdict(name), "rank 4 never arrived (others wait too: rank 3: pp receive)");
}

TEST(WaitChain, WhoWorksExcusesTheWait) {
  WaitChain chain(0, std::vector<int>{1, 2});
  chain.answer(1, {true, "indexes the data", {}});
  EXPECT_FALSE(chain.excused()) << "rank 2 may be gone";
  chain.answer(2, {false, "barrier", {1}});
  EXPECT_TRUE(chain.excused());
}

TEST(WaitChain, RanksMayWaitForEachOther) {
  WaitChain chain(0, std::vector<int>{1});
  chain.answer(1, {false, "tp barrier", {0}});
  EXPECT_TRUE(chain.unanswered().empty());
  EXPECT_EQ(chain.verdict(name), "the ranks wait for each other (rank 1: tp barrier)");
}

TEST(WaitChain, OnlyRanksThatWereAskedAnswerOnce) {
  WaitChain chain(0, std::vector<int>{1});
  chain.answer(3, {true, "indexes the data", {}});
  EXPECT_FALSE(chain.excused());
  chain.answer(1, {true, "saves", {}});
  chain.answer(1, {false, "barrier", {2}});
  EXPECT_TRUE(chain.excused());
}

TEST(WaitChain, AnswersHaveSeconds) {
  using namespace std::chrono_literals;
  EXPECT_EQ(answer_time(100ms), 5s);
  EXPECT_EQ(answer_time(30s), 7500ms);
  EXPECT_EQ(answer_time(10min), 10s);
}

TEST(WaitChain, ListsOfRanksAreShort) {
  EXPECT_EQ(rank_list(std::vector<int>{}), "");
  EXPECT_EQ(rank_list(std::vector<int>{4, 5}), "4, 5");
  EXPECT_EQ(rank_list(std::vector<int>{0, 1, 2, 3, 8, 9}), "0-3, 8, 9");
  std::vector<int> silent;
  for (int rank = 1; rank < 20; ++rank) silent.push_back(rank);
  EXPECT_EQ(WaitChain(0, silent).verdict(name),
            "rank 1, rank 2, rank 3, rank 4, rank 5, rank 6, rank 7, rank 8, 11 more never arrived");
}

}  // namespace
}  // namespace stoa::comm

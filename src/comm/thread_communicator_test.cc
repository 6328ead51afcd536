#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>

#include "comm/check/check_communicator.h"
#include "comm/communicator_suite.h"
#include "comm/meta/meta_communicator.h"
#include "comm/threads/thread_letter.h"
#include "comm/threads/thread_world.h"
#include "device/host/inline_stream.h"

namespace stoa::comm {
namespace {

using suite::collectives;
using suite::view;

using std::chrono::milliseconds;
using ::testing::Each;
using ::testing::HasSubstr;

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

template <class T>
class ThreadCommunicatorOf : public ::testing::Test {};
using Types = ::testing::Types<double, float, bf16, f16, std::int64_t, std::int32_t, std::uint8_t>;
TYPED_TEST_SUITE(ThreadCommunicatorOf, Types);

TYPED_TEST(ThreadCommunicatorOf, CollectivesEqualSerialComputation) {
  for (int size = 1; size <= 8; ++size) {
    ThreadWorld world(size);
    auto comms = world.create("tp", all_ranks(size));
    world.run([&](int rank) {
      for (const std::int64_t n : {1, 7, 1025}) collectives<TypeParam>(*comms[rank], n, false);
    });
  }
}

TEST(ThreadCommunicator, ManyChunksAndDelaysAreBitEqual) {
  ThreadWorld world(3);
  auto comms = world.create("tp", all_ranks(3));
  world.run([&](int rank) {
    for (int k = 0; k < 3; ++k) collectives<float>(*comms[rank], 70001, true);
    for (int k = 0; k < 20; ++k) collectives<bf16>(*comms[rank], 33, true);
  });
}

TEST(ThreadCommunicator, CheckedCollectivesEqualSerialComputation) {
  ThreadWorld world(3);
  auto data = world.create("tp", all_ranks(3)), control = world.create("tp", all_ranks(3));
  world.run([&](int rank) {
    CheckCommunicator comm(std::move(data[rank]), std::move(control[rank]));
    for (const bool delays : {false, true}) collectives<float>(comm, 77, delays);
  });
}

// Runs a body that must fail and returns the message.
TEST(ThreadCommunicator, CheckNamesTheFirstMismatch) {
  ThreadWorld world(3);
  auto data = world.create("tp", all_ranks(3)), control = world.create("tp", all_ranks(3));
  std::vector<std::vector<float>> buffers(3, std::vector<float>(6, 1.0f));
  const std::string message = suite::failure_of(world, [&](int rank) {
    InlineStream stream;
    CheckCommunicator comm(std::move(data[rank]), std::move(control[rank]));
    comm.barrier();
    TensorView x = view(buffers[rank]);
    comm.all_reduce(rank == 2 ? x.slice(0, 5) : x, ReduceOp::kSum, stream)->wait();
  });
  EXPECT_THAT(message, HasSubstr("tp group of rank"));
  EXPECT_THAT(message, HasSubstr("member 0 asks for all_reduce(sum) of 24 bytes fp32"));
  EXPECT_THAT(message, HasSubstr("member 2 for all_reduce(sum) of 20 bytes"));
  for (const auto& buffer : buffers)
    for (const float x : buffer) EXPECT_EQ(x, 1.0f);  // before any data moved
}

// What the receiver does before it looks may wait for the sender, who waits until its buffer is free.
TEST(ThreadCommunicator, CheckedReceivesAreThereFromTheirCall) {
  ThreadWorld world(2);
  auto data = world.create("pp", all_ranks(2)), control = world.create("pp", all_ranks(2));
  std::atomic<bool> asked = false, taken = false;
  const auto wait_for = [&](const std::atomic<bool>& what) {
    while (!what && !world.aborted()) std::this_thread::sleep_for(milliseconds(1));
  };
  world.run([&](int rank) {
    InlineStream stream;
    CheckCommunicator comm(std::move(data[rank]), std::move(control[rank]));
    std::vector<float> x(4, rank == 0 ? 3.0f : 0.0f);
    if (rank == 0) {
      wait_for(asked);
      comm.send(view(x), 1, stream)->wait();
      taken = true;
    } else {
      const auto arrival = comm.receive(view(x), 0, stream);
      asked = true;
      wait_for(taken);
      arrival->wait();
      EXPECT_THAT(x, Each(3.0f));
    }
  });
}

TEST(ThreadCommunicator, CheckNamesTransfersThatDiffer) {
  ThreadWorld world(2);
  auto data = world.create("pp", all_ranks(2)), control = world.create("pp", all_ranks(2));
  std::vector<float> sent(5, 1.0f), received(6, 2.0f);
  const std::string message = suite::failure_of(world, [&](int rank) {
    InlineStream stream;
    CheckCommunicator comm(std::move(data[rank]), std::move(control[rank]));
    if (rank == 0)
      comm.send(view(sent), 1, stream)->wait();
    else
      comm.receive(view(received), 0, stream)->wait();
  });
  // By the transfer itself, or by the requests where those are compared before the tensors meet.
  EXPECT_THAT(message,
              ::testing::AnyOf(
                  ::testing::AllOf(HasSubstr("send fp32[5]"), HasSubstr("receive fp32[6]")),
                  ::testing::AllOf(HasSubstr("member 0 sends 20 bytes"), HasSubstr("member 1 receives 24"))));
  EXPECT_THAT(received, Each(2.0f));
}

TEST(ThreadCommunicator, RefusesWhatDoesNotFitWithoutCheckToo) {
  ThreadWorld world(2);
  auto comms = world.create("dp", all_ranks(2));
  const std::string message = suite::failure_of(world, [&](int rank) {
    InlineStream stream;
    std::vector<float> x(4);
    if (rank == 0)
      comms[rank]->all_reduce(view(x), ReduceOp::kSum, stream)->wait();
    else
      comms[rank]->broadcast(view(x), 0, stream)->wait();
  });
  EXPECT_THAT(message, HasSubstr("rank 0 "));
  EXPECT_THAT(message, HasSubstr("rank 1 "));
  EXPECT_THAT(message, HasSubstr("all_reduce(sum) fp32[4]"));
  EXPECT_THAT(message, HasSubstr("broadcast fp32[4]"));
}

TEST(ThreadCommunicator, FailureTakesEveryWaitingRankDown) {
  ThreadWorld world(4);
  auto comms = world.create("dp", all_ranks(4));
  std::vector<std::string> seen(4);
  const std::string message = suite::failure_of(world, [&](int rank) {
    InlineStream stream;
    std::vector<float> x(100000);
    if (rank == 2) {
      std::this_thread::sleep_for(milliseconds(50));
      throw DataError("the file is torn");
    }
    try {
      comms[rank]->all_reduce(view(x), ReduceOp::kSum, stream)->wait();
    } catch (const CommError& error) {
      seen[rank] = error.what();
      throw;
    }
  });
  EXPECT_EQ(message, "the file is torn");
  for (const int rank : {0, 1, 3}) EXPECT_EQ(seen[rank], "rank 2 failed: the file is torn");
}

TEST(ThreadCommunicator, TimeOutNamesWhoIsMissing) {
  ThreadWorld world(4, milliseconds(200), milliseconds(200));
  auto comms = world.create("pp", std::vector<int>{0, 1, 3});
  const std::string message = suite::failure_of(world, [&](int rank) {
    InlineStream stream;
    std::vector<float> x(4);
    if (rank == 0) comms[0]->all_reduce(view(x), ReduceOp::kSum, stream)->wait();
  });
  EXPECT_THAT(message, ::testing::MatchesRegex("rank 0 waits [0-9.]+ s: pp group \\(ranks 0, 1, 3\\): "
                                               "all_reduce\\(sum\\) fp32\\[4\\] \\(16 bytes\\); "
                                               "rank 1, rank 3 never arrived"));
}

// Sizes on both sides of what goes by letters: rank 0 waits for 1, 1 for 2, and only 2 is at fault.
TEST(ThreadCommunicator, TimeOutNamesTheEndOfTheChain) {
  for (const std::size_t n : {std::size_t{4}, std::size_t{100000}}) {
    ThreadWorld world(3, milliseconds(200));
    auto front = world.create("pp", std::vector<int>{0, 1}),
         back = world.create("dp", std::vector<int>{1, 2});
    std::mutex mutex;
    std::condition_variable over;
    bool told = false;
    suite::failure_of(world, [&](int rank) {
      InlineStream stream;
      std::vector<float> x(n);
      const auto tell = [&] {
        const std::lock_guard lock(mutex);
        told = true;
        over.notify_all();
      };
      try {
        if (rank == 1) back[0]->all_reduce(view(x), ReduceOp::kSum, stream)->wait();
        if (rank < 2) front[rank]->all_reduce(view(x), ReduceOp::kSum, stream)->wait();
      } catch (const CommError&) {
        tell();
        throw;
      }
      if (rank < 2) return;
      std::unique_lock lock(mutex);
      over.wait(lock, [&] { return told; });
    });
    EXPECT_THAT(world.failure(), HasSubstr("rank 2 never arrived"));
    EXPECT_THAT(world.failure(), ::testing::Not(HasSubstr("rank 1 never")));
    EXPECT_THAT(world.failure(), ::testing::Not(HasSubstr("rank 0 never")));
  }
}

TEST(ThreadCommunicator, WhoWorksApartIsWaitedFor) {
  ThreadWorld world(2, milliseconds(50), milliseconds(50));
  auto comms = world.create("dp", all_ranks(2));
  world.run([&](int rank) {
    if (rank == 1)
      world.apart(1, "writes the checkpoint", [&] {
        while (world.inquiries() < 3) std::this_thread::sleep_for(milliseconds(1));
      });
    comms[rank]->barrier();
  });
}

// Sizes on both sides of what goes by letters.
TEST(ThreadCommunicator, TimeOutNamesWhatTheRankWasDoing) {
  for (const std::size_t n : {std::size_t{4}, std::size_t{100000}}) {
    ThreadWorld world(2, milliseconds(100), milliseconds(100));
    auto comms = world.create("tp", all_ranks(2));
    const Activity activity{"backward", 1, 3};
    const std::string message = suite::failure_of(world, [&](int rank) {
      InlineStream stream;
      std::vector<float> x(n);
      comms[rank]->follow(&activity);
      if (rank == 1) comms[1]->all_reduce(view(x), ReduceOp::kSum, stream)->wait();
    });
    EXPECT_THAT(message, HasSubstr("s: tp group (ranks 0, 1): all_reduce(sum) fp32["));
    EXPECT_THAT(message, HasSubstr("bytes) in backward, chunk 1, microbatch 3; rank 0 never arrived"));
  }
}

TEST(ThreadCommunicator, ALetterIsNotTakenForALargeTensor) {
  ThreadWorld world(2);
  auto comms = world.create("dp", all_ranks(2));
  const std::string message = suite::failure_of(world, [&](int rank) {
    InlineStream stream;
    std::vector<float> x(rank == 0 ? 4 : 100000);
    comms[rank]->barrier();
    comms[rank]->all_reduce(view(x), ReduceOp::kSum, stream)->wait();
  });
  EXPECT_THAT(message,
              HasSubstr("operation 1 does not match: rank 0 asks for all_reduce(sum) fp32[4] (16 bytes), "
                        "rank 1 for all_reduce(sum) fp32[100000] (400000 bytes)"));
}

TEST(ThreadCommunicator, AfterAMisfitNothingIsDoneAsIfItWereWell) {
  ThreadWorld world(2);
  auto comms = world.create("dp", all_ranks(2));
  suite::failure_of(world, [&](int rank) {
    InlineStream stream;
    std::vector<float> x(4, 1.0f), y(4, 1.0f);
    auto first = rank == 0 ? comms[0]->all_reduce(view(x), ReduceOp::kSum, stream)
                           : comms[1]->broadcast(view(x), 0, stream);
    auto second = comms[rank]->all_reduce(view(y), ReduceOp::kSum, stream);
    EXPECT_THROW(first->wait(), CommError);
    EXPECT_THROW(second->wait(), CommError);
    EXPECT_EQ(y[0], 1.0f);
  });
}

// Small and large ones mixed, a hundred at once, waited for from the last to the first.
TEST(ThreadCommunicator, ManyAtOnceInAnyOrder) {
  ThreadWorld world(3);
  auto comms = world.create("dp", all_ranks(3));
  world.run([&](int rank) {
    InlineStream stream;
    for (int round = 0; round < 3; ++round) {
      std::vector<std::vector<float>> tensors;
      std::vector<std::unique_ptr<Event>> events;
      for (int k = 0; k < 100; ++k)
        tensors.emplace_back(k % 10 == 3 ? 20000 : k + 1, static_cast<float>(rank + k));
      for (auto& x : tensors) events.push_back(comms[rank]->all_reduce(view(x), ReduceOp::kSum, stream));
      if (rank == 1) std::this_thread::sleep_for(milliseconds(1));
      for (int k = 99; k >= 0; --k) {
        events[k]->wait();
        for (const float x : tensors[k]) ASSERT_EQ(x, static_cast<float>(3 + 3 * k)) << k;
      }
    }
  });
}

TEST(ThreadCommunicator, WhatAnExceptionLeavesIsNotWritten) {
  ThreadWorld world(2);
  auto comms = world.create("dp", all_ranks(2));
  world.run([&](int rank) {
    InlineStream stream;
    std::vector<float> left(8, 1.0f), next(8, 2.0f);
    try {
      auto event = comms[rank]->all_reduce(view(left), ReduceOp::kSum, stream);
      if (rank == 0) throw DataError("torn");
    } catch (const DataError&) {
    }
    comms[rank]->all_reduce(view(next), ReduceOp::kSum, stream)->wait();
    EXPECT_EQ(left[0], rank == 0 ? 1.0f : 2.0f);
    EXPECT_EQ(next[0], 4.0f);
  });
}

// In steady use three letters go around: one that is read, one that is written, one that is blank.
TEST(Outbox, UsesLettersThatAllHaveReadAgain) {
  Outbox outbox;
  std::set<const Letter*> seen;
  const Letter* letter = &outbox.first();
  std::vector<float> x(10, 1.0f);
  for (std::uint64_t n = 0; n < 50; ++n, letter = letter->next) {
    EXPECT_FALSE(letter->sent(n));
    x[0] = static_cast<float>(n);
    outbox.send({OperationKind::kAllReduce, ReduceOp::kSum, DType::kF32, 0, 10}, view(x), {}, true, n,
                n > 0 ? n - 1 : 0);
    ASSERT_TRUE(letter->sent(n));
    EXPECT_EQ(std::memcmp(letter->data, x.data(), 40), 0);
    seen.insert(letter);
  }
  EXPECT_LE(seen.size(), 4u);
}

TEST(ThreadCommunicator, SixtyFourRanksStartAndMeet) {
  ThreadWorld world(64);
  auto comms = world.create("dp", all_ranks(64));
  world.run([&](int rank) {
    for (int k = 0; k < 3; ++k) comms[rank]->barrier();
  });
}

TEST(ThreadWorld, RefusesWrongGroups) {
  EXPECT_THROW(ThreadWorld(0), ConfigError);
  ThreadWorld world(2);
  EXPECT_THROW(world.create("tp", std::vector<int>{0, 2}), ConfigError);
  EXPECT_THROW(world.create("tp", std::vector<int>{1, 1}), ConfigError);
  EXPECT_THROW(world.create("tp", std::vector<int>{}), ConfigError);
}

TEST(MetaCommunicator, CountsAndTouchesNothing) {
  InlineStream stream;
  MetaCommunicator comm("tp group of rank 1", 4, 1);
  const TensorView x(reinterpret_cast<void*>(8), DType::kBF16, {3, 5}, DeviceKind::kMeta);
  comm.all_reduce(x, ReduceOp::kSum, stream)->wait();
  comm.all_reduce(x, ReduceOp::kSum, stream)->wait();
  comm.send(x, 0, stream)->wait();
  EXPECT_EQ(comm.count(OperationKind::kAllReduce).calls, 2);
  EXPECT_EQ(comm.count(OperationKind::kAllReduce).bytes, 60);
  EXPECT_EQ(comm.count(OperationKind::kSend).bytes, 30);
  EXPECT_EQ(comm.count(OperationKind::kAllGather).calls, 0);
}

}  // namespace
}  // namespace stoa::comm

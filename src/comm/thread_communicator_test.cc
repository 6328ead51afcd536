#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>

#include "comm/check/check_communicator.h"
#include "comm/meta/meta_communicator.h"
#include "comm/threads/thread_world.h"
#include "device/host/inline_stream.h"

namespace stoa::comm {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

template <class T>
struct Wide {
  using Type = std::conditional_t<std::is_same_v<T, bf16> || std::is_same_v<T, f16>, float, T>;
};

template <class T>
T value(int rank, std::int64_t i) {
  const int x = static_cast<int>((i * 37 + rank * 11 + 5) % 29);
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(x);
  else
    return static_cast<T>(static_cast<float>(x) * 0.37f - 3.1f);
}

template <class T>
TensorView view(std::vector<T>& values, std::int64_t rows = 0) {
  const auto n = static_cast<std::int64_t>(values.size());
  return rows == 0 ? TensorView(values.data(), dtype_of<T>(), {n})
                   : TensorView(values.data(), dtype_of<T>(), {rows, n / rows});
}

template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

// Serially: in rank order, in the wide type, rounded once.
template <class T>
T reduced(int size, std::int64_t i, ReduceOp op) {
  using W = typename Wide<T>::Type;
  W sum = static_cast<W>(value<T>(0, i));
  for (int r = 1; r < size; ++r) {
    const W x = static_cast<W>(value<T>(r, i));
    sum = op == ReduceOp::kSum ? static_cast<W>(sum + x) : std::max(sum, x);
  }
  return static_cast<T>(sum);
}

template <class T>
void collectives(Communicator& comm, std::int64_t n, bool delays) {
  InlineStream stream;
  const int size = comm.size(), me = comm.rank();
  const auto make = [](int rank, std::int64_t count) {
    std::vector<T> x(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) x[i] = value<T>(rank, i);
    return x;
  };
  const auto pause = [&](int k) {
    if (delays) std::this_thread::sleep_for(std::chrono::microseconds((me * 7 + k * 13) % 5 * 300));
  };
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax}) {
    pause(1);
    std::vector<T> x = make(me, n), expected;
    for (std::int64_t i = 0; i < n; ++i) expected.push_back(reduced<T>(size, i, op));
    comm.all_reduce(view(x), op, stream)->wait();
    EXPECT_TRUE(same(x, expected)) << "all_reduce " << size;
  }
  {
    pause(2);
    std::vector<T> in = make(me, n), out(static_cast<std::size_t>(n * size)), expected;
    for (int r = 0; r < size; ++r)
      for (const T x : make(r, n)) expected.push_back(x);
    comm.all_gather(view(in), view(out), stream)->wait();
    EXPECT_TRUE(same(out, expected)) << "all_gather " << size;
  }
  {
    pause(3);
    std::vector<T> in = make(me, n * size), out(static_cast<std::size_t>(n)), expected;
    for (std::int64_t i = 0; i < n; ++i) expected.push_back(reduced<T>(size, me * n + i, ReduceOp::kSum));
    // Two at once, waited for in the other order.
    std::vector<T> in_place = in;
    auto first = comm.reduce_scatter(view(in), view(out), stream);
    auto second = comm.reduce_scatter(view(in_place), view(in_place, size).slice(me, 1), stream);
    second->wait();
    first->wait();
    EXPECT_TRUE(first->ready());
    EXPECT_TRUE(same(out, expected)) << "reduce_scatter " << size;
    EXPECT_EQ(std::memcmp(in_place.data() + me * n, expected.data(), static_cast<std::size_t>(n) * sizeof(T)),
              0);
  }
  {
    pause(4);
    std::vector<T> in = make(me, n * size), out(static_cast<std::size_t>(n * size)), expected;
    for (int r = 0; r < size; ++r)
      for (std::int64_t i = 0; i < n; ++i) expected.push_back(value<T>(r, me * n + i));
    comm.all_to_all(view(in), view(out), stream)->wait();
    EXPECT_TRUE(same(out, expected)) << "all_to_all " << size;
  }
  {
    pause(5);  // rank s sends (s + 2 d) % 3 rows of 3 to rank d
    std::vector<std::int64_t> sends, receives;
    std::vector<T> expected;
    for (int r = 0; r < size; ++r) {
      sends.push_back((me + 2 * r) % 3);
      receives.push_back((r + 2 * me) % 3);
      std::int64_t before = 0;
      for (int d = 0; d < me; ++d) before += (r + 2 * d) % 3;
      for (std::int64_t i = 0; i < receives.back() * 3; ++i) expected.push_back(value<T>(r, before * 3 + i));
    }
    const std::int64_t rows_in = std::accumulate(sends.begin(), sends.end(), std::int64_t{0});
    std::vector<T> in = make(me, rows_in * 3), out(expected.size());
    comm.all_to_all_v(TensorView(in.data(), dtype_of<T>(), {rows_in, 3}), sends,
                      TensorView(out.data(), dtype_of<T>(), {static_cast<std::int64_t>(out.size()) / 3, 3}),
                      receives, stream)
        ->wait();
    EXPECT_TRUE(same(out, expected)) << "all_to_all_v " << size;
  }
  {
    pause(6);
    std::vector<T> x = make(me, n);
    comm.broadcast(view(x), size - 1, stream)->wait();
    EXPECT_TRUE(same(x, make(size - 1, n))) << "broadcast " << size;
  }
  if (size > 1) {
    pause(7);  // everybody sends first: a rendezvous that blocked in send would hang
    std::vector<T> out = make(me, n), in(static_cast<std::size_t>(n));
    auto sent = comm.send(view(out), (me + 1) % size, stream);
    auto received = comm.receive(view(in), (me + size - 1) % size, stream);
    received->wait();
    sent->wait();
    EXPECT_TRUE(same(in, make((me + size - 1) % size, n))) << "send " << size;
  }
  comm.barrier();
}

template <class T>
class ThreadCommunicatorOf : public testing::Test {};
using Types = testing::Types<double, float, bf16, f16, std::int64_t, std::int32_t, std::uint8_t>;
TYPED_TEST_SUITE(ThreadCommunicatorOf, Types);

TYPED_TEST(ThreadCommunicatorOf, CollectivesEqualSerialComputation) {
  for (int size = 1; size <= 8; ++size) {
    ThreadWorld world(size, std::chrono::seconds(60));
    auto comms = world.create("tp", all_ranks(size));
    world.run([&](int rank) {
      for (const std::int64_t n : {1, 7, 1025}) collectives<TypeParam>(*comms[rank], n, false);
    });
  }
}

TEST(ThreadCommunicator, ManyChunksAndDelaysAreBitEqual) {
  ThreadWorld world(3, std::chrono::seconds(60));
  auto comms = world.create("tp", all_ranks(3));
  world.run([&](int rank) {
    for (int k = 0; k < 3; ++k) collectives<float>(*comms[rank], 70001, true);
    for (int k = 0; k < 20; ++k) collectives<bf16>(*comms[rank], 33, true);
  });
}

TEST(ThreadCommunicator, CheckedCollectivesEqualSerialComputation) {
  ThreadWorld world(3, std::chrono::seconds(60));
  auto data = world.create("tp", all_ranks(3)), control = world.create("tp", all_ranks(3));
  world.run([&](int rank) {
    CheckCommunicator comm(std::move(data[rank]), std::move(control[rank]));
    for (const bool delays : {false, true}) collectives<float>(comm, 77, delays);
  });
}

// Runs a body that must fail and returns the message.
std::string failure_of(ThreadWorld& world, const std::function<void(int)>& body) {
  try {
    world.run(body);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no failure";
}

TEST(ThreadCommunicator, CheckNamesTheFirstMismatch) {
  ThreadWorld world(3, std::chrono::seconds(60));
  auto data = world.create("tp", all_ranks(3)), control = world.create("tp", all_ranks(3));
  std::vector<std::vector<float>> buffers(3, std::vector<float>(6, 1.0f));
  const std::string message = failure_of(world, [&](int rank) {
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

TEST(ThreadCommunicator, RefusesWhatDoesNotFitWithoutCheckToo) {
  ThreadWorld world(2, std::chrono::seconds(60));
  auto comms = world.create("dp", all_ranks(2));
  const std::string message = failure_of(world, [&](int rank) {
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
  ThreadWorld world(4, std::chrono::seconds(60));
  auto comms = world.create("dp", all_ranks(4));
  std::vector<std::string> seen(4);
  const auto start = std::chrono::steady_clock::now();
  const std::string message = failure_of(world, [&](int rank) {
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
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  for (const int rank : {0, 1, 3}) EXPECT_EQ(seen[rank], "rank 2 failed: the file is torn");
}

TEST(ThreadCommunicator, TimeOutNamesWhoIsMissing) {
  ThreadWorld world(4, milliseconds(200));
  auto comms = world.create("pp", std::vector<int>{0, 1, 3});
  const std::string message = failure_of(world, [&](int rank) {
    InlineStream stream;
    std::vector<float> x(4);
    if (rank == 0) comms[0]->all_reduce(view(x), ReduceOp::kSum, stream)->wait();
  });
  EXPECT_THAT(message, HasSubstr("pp group of rank 0 (ranks 0, 1, 3)"));
  EXPECT_THAT(message, HasSubstr("all_reduce(sum) fp32[4] (16 bytes) waited 0.2 s"));
  EXPECT_THAT(message, HasSubstr("never arrived: rank 1, 3"));
}

TEST(ThreadCommunicator, SixtyFourRanksStartAndMeet) {
  const auto start = std::chrono::steady_clock::now();
  ThreadWorld world(64, std::chrono::seconds(60));
  auto comms = world.create("dp", all_ranks(64));
  world.run([&](int rank) {
    for (int k = 0; k < 3; ++k) comms[rank]->barrier();
  });
#ifdef __SANITIZE_THREAD__
  const auto bound = std::chrono::seconds(20);  // the sanitizer starts threads slowly
#else
  const auto bound = std::chrono::seconds(2);
#endif
  EXPECT_LT(std::chrono::steady_clock::now() - start, bound);
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
  EXPECT_EQ(comm.count(Traffic::kAllReduce).calls, 2);
  EXPECT_EQ(comm.count(Traffic::kAllReduce).bytes, 60);
  EXPECT_EQ(comm.count(Traffic::kSend).bytes, 30);
  EXPECT_EQ(comm.count(Traffic::kAllGather).calls, 0);
}

}  // namespace
}  // namespace stoa::comm

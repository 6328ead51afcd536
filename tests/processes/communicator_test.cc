// The suite of communicators between processes: run by `mpirun -n N` or with RANK and WORLD_SIZE. Every rank
// runs every test; a failure on any rank fails the program. With an argument it shows one of the bad ends.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <numeric>
#include <string_view>
#include <thread>

#include "comm/check/check_communicator.h"
#include "comm/communicator_suite.h"
#include "comm/mpi/mpi_link.h"
#include "comm/processes/process_launch.h"
#include "comm/processes/process_world.h"
#include "comm/tcp/tcp_link.h"
#include "comm/threads/thread_world.h"

namespace stoa::comm {
namespace {

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::unique_ptr<ProcessLink> open_link() {
  const ProcessLaunch launch = process_launch();
  return launch.meeting ? open_tcp_link(*launch.meeting, "test") : open_mpi_link();
}

// Handed to the tests by main; the one world of this process.
ProcessWorld* the_world = nullptr;

template <class T>
class ProcessCommunicatorOf : public ::testing::Test {};
using Types = ::testing::Types<double, float, bf16, f16, std::int64_t, std::int32_t, std::uint8_t>;
TYPED_TEST_SUITE(ProcessCommunicatorOf, Types);

TYPED_TEST(ProcessCommunicatorOf, CollectivesEqualSerialComputation) {
  static std::unique_ptr<Communicator> comm = the_world->create(0, "tp", all_ranks(the_world->size()));
  for (const std::int64_t n : {1, 7, 1025}) suite::collectives<TypeParam>(*comm, n, false);
}

TEST(ProcessCommunicator, RoundsAndDelaysAreBitEqual) {
  const auto comm = the_world->create(1, "dp", all_ranks(the_world->size()));
  for (int k = 0; k < 3; ++k) suite::collectives<float>(*comm, 70001, true);
  suite::collectives<bf16>(*comm, 300007, true);
}

TEST(ProcessCommunicator, GroupsOfOneLabelDoNotMeet) {
  const int size = the_world->size(), me = the_world->rank();
  std::vector<int> members;
  for (int r = me % 2; r < size; r += 2) members.push_back(r);
  const auto comm = the_world->create(2, "odd and even", members);
  suite::collectives<float>(*comm, 101, false);
}

TEST(ProcessCommunicator, BitEqualToThreads) {
  const int size = the_world->size(), me = the_world->rank();
  const std::int64_t n = 50000;
  const auto comm = the_world->create(0, "tp", all_ranks(size));
  ThreadWorld threads(size);
  auto ends = threads.create("tp", all_ranks(size));
  std::vector<bf16> expected;
  threads.run([&](int rank) {
    InlineStream stream;
    std::vector<bf16> x;
    for (std::int64_t i = 0; i < n; ++i) x.push_back(suite::value<bf16>(rank, i * 7));
    ends[rank]->all_reduce(suite::view(x), ReduceOp::kSum, stream)->wait();
    if (rank == me) expected = x;
  });
  std::vector<bf16> x;
  for (std::int64_t i = 0; i < n; ++i) x.push_back(suite::value<bf16>(me, i * 7));
  InlineStream stream;
  comm->all_reduce(suite::view(x), ReduceOp::kSum, stream)->wait();
  EXPECT_TRUE(suite::same(x, expected));
}

TEST(ProcessCommunicator, CheckLetsGoodCallsPass) {
  const auto ranks = all_ranks(the_world->size());
  auto data = the_world->create(1, "dp", ranks), control = the_world->create(3, "dp control", ranks);
  CheckCommunicator comm(std::move(data), std::move(control));
  suite::collectives<float>(comm, 1025, true);
}

TEST(ProcessCommunicator, TransfersKeepTheirOrder) {
  const int size = the_world->size(), me = the_world->rank();
  const auto comm = the_world->create(4, "pp", all_ranks(size));
  InlineStream stream;
  constexpr int kCount = 20;
  std::vector<std::int64_t> out(kCount), in(kCount);
  std::vector<std::unique_ptr<Event>> events;
  for (int i = 0; i < kCount; ++i) {
    out[i] = me * 1000 + i;
    events.push_back(comm->send(TensorView(&out[i], DType::kI64, {1}), (me + 1) % size, stream));
  }
  for (int i = 0; i < kCount; ++i)
    events.push_back(comm->receive(TensorView(&in[i], DType::kI64, {1}), (me + size - 1) % size, stream));
  for (auto& event : events) event->wait();
  for (int i = 0; i < kCount; ++i) EXPECT_EQ(in[i], (me + size - 1) % size * 1000 + i);
}

// How a job may end badly: shown on standard error, judged by CTest.
int bad_end(std::string_view how) {
  ProcessWorld world(open_link());
  InlineStream stream;
  std::vector<float> x(100000);
  const Activity activity{"backward", 0, 3};
  try {
    const auto comm = world.create(1, "dp", all_ranks(world.size())),
               other = world.create(0, "tp", all_ranks(world.size()));
    comm->follow(&activity);
    other->barrier();
    // From here on rank 0 is the first to tire.
    if (world.rank() == 0 && (how == "timeout" || how == "stopped"))
      world.set_timeout(std::chrono::milliseconds(500));
    // Rank 0 waits for rank 1, and that for rank 2, which stops.
    if (how == "stopped" && world.rank() == 2) std::raise(SIGSTOP);
    if (how == "stopped" && world.rank() == 1) other->barrier();
    if (how == "exception" && world.rank() == 1) throw DataError("the file is torn");
    if (how == "killed" && world.rank() == 1) std::raise(SIGKILL);
    if (how == "size" && world.rank() == 1)
      comm->all_gather(TensorView(x.data(), DType::kF32, {10}), TensorView(x.data() + 50, DType::kF32, {20}),
                       stream)
          ->wait();
    if (how == "size")
      comm->all_gather(TensorView(x.data(), DType::kF32, {12}), TensorView(x.data() + 50, DType::kF32, {24}),
                       stream)
          ->wait();
    if (how != "timeout" || world.rank() == 0)
      comm->all_reduce(suite::view(x), ReduceOp::kSum, stream)->wait();
    if (how == "timeout" && world.rank() == 1) other->barrier();
  } catch (const std::exception& error) {
    if (how == "exception" && world.rank() == 0)
      std::fprintf(stderr, "then %s: %s\n", world.rank_name(world.rank()).c_str(), error.what());
    world.end_job(error);
  }
  world.finish();
  return 0;
}

// Rank 0 works for longer than the others wait.
TEST(ProcessCommunicator, WhoWorksApartIsWaitedFor) {
  const auto comm = the_world->create(1, "dp", all_ranks(the_world->size()));
  const bool first = the_world->rank() == 0;
  if (!first) the_world->set_timeout(std::chrono::milliseconds(50));
  if (first)
    the_world->apart("indexes the data", [] { std::this_thread::sleep_for(std::chrono::milliseconds(400)); });
  comm->barrier();
  the_world->set_timeout(std::chrono::minutes(10));
}

TEST(ProcessCommunicator, FailuresAndTextsOfAnyRankAreKnownToAll) {
  const int me = the_world->rank(), last = the_world->size() - 1;
  EXPECT_EQ(the_world->first_failed(0).rank, -1);
  const auto failed = the_world->first_failed(me == last ? 130 : 0);
  EXPECT_EQ(failed.rank, last);
  EXPECT_EQ(failed.code, 130);
  EXPECT_EQ(the_world->first_failed(me + 1).rank, 0);
  EXPECT_EQ(the_world->text_of(last, "text of " + std::to_string(me)), "text of " + std::to_string(last));
}

}  // namespace
}  // namespace stoa::comm

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc > 1) return stoa::comm::bad_end(argv[1]);
  stoa::comm::ProcessWorld world(stoa::comm::open_link());
  stoa::comm::the_world = &world;
  if (world.rank() != 0)
    delete ::testing::UnitTest::GetInstance()->listeners().Release(
        ::testing::UnitTest::GetInstance()->listeners().default_result_printer());
  std::int64_t failed = RUN_ALL_TESTS();
  if (failed) std::fprintf(stderr, "%s failed\n", world.rank_name(world.rank()).c_str());
  stoa::InlineStream stream;
  world.create(5, "verdict", stoa::comm::all_ranks(world.size()))
      ->all_reduce(stoa::TensorView(&failed, stoa::DType::kI64, {1}), stoa::comm::ReduceOp::kMax, stream)
      ->wait();
  world.finish();
  return failed ? 1 : 0;
}

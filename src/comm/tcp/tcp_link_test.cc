#include "comm/tcp/tcp_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "base/error.h"
#include "comm/communicator_suite.h"
#include "comm/processes/process_world.h"
#include "comm/tcp/meeting.h"

namespace stoa::comm {
namespace {

using ::testing::HasSubstr, ::testing::AllOf;

int free_port() { return listen_on(0).port(); }

MeetingPlace place_of(int rank, int size, int port) { return {rank, size, {}, "127.0.0.1", port, "job 1"}; }

// What went wrong on the rank; empty when nothing did.
std::future<std::string> come(const MeetingPlace& place, const std::string& program = "stoa 1",
                              const Patience& patience = {}) {
  return std::async(std::launch::async, [=]() -> std::string {
    try {
      meet(place, program, patience);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  });
}

TEST(Meeting, RanksComeInAnyOrder) {
  const int port = free_port();
  std::vector<std::future<std::string>> ranks;
  for (const int r : {3, 1, 4, 0, 2}) {
    ranks.push_back(come(place_of(r, 5, port)));
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  }
  for (auto& rank : ranks) EXPECT_EQ(rank.get(), "");
}

TEST(Meeting, StrangersAreTurnedAwayByNameAndTheJobGoesOn) {
  const int port = free_port();
  auto first = come(place_of(0, 2, port));
  EXPECT_THAT(come(place_of(1, 3, port)).get(),
              AllOf(HasSubstr("rejects rank 1"), HasSubstr("expects 2 ranks, this one has WORLD_SIZE=3")));
  EXPECT_THAT(come(place_of(1, 2, port), "stoa 2").get(), HasSubstr("it runs stoa 1, this one stoa 2"));
  MeetingPlace other_job = place_of(1, 2, port);
  other_job.job = "job 2";
  EXPECT_THAT(come(other_job).get(), HasSubstr("it belongs to job 'job 1', this one to 'job 2'"));
  // One that speaks another language, and one that says nothing.
  std::string problem;
  const Deadline soon = Deadline{}.from_now(std::chrono::minutes(10));
  const auto address = addresses_of("127.0.0.1", port, problem).at(0);
  const Socket loud = connect_to(address, soon, problem), silent = connect_to(address, soon, problem);
  ASSERT_TRUE(loud && silent) << problem;
  char answer = 0;
  EXPECT_TRUE(send_all(loud, "GET / HTTP/1.1\r\n\r\n", 18, soon));
  EXPECT_FALSE(receive_all(loud, &answer, 1, soon)) << "the connection is closed";
  EXPECT_EQ(come(place_of(1, 2, port)).get(), "");
  EXPECT_EQ(first.get(), "");
}

TEST(Meeting, ARankComesOnce) {
  const int port = free_port();
  std::promise<void> there;
  Patience patience;
  patience.arrived = [&](int ranks) {
    if (ranks == 2) there.set_value();
  };
  auto first = come(place_of(0, 3, port), "stoa 1", patience), second = come(place_of(1, 3, port));
  there.get_future().wait();
  EXPECT_THAT(come(place_of(1, 3, port)).get(), HasSubstr("rank 1 has already connected, from host '"));
  EXPECT_EQ(come(place_of(2, 3, port)).get(), "");
  EXPECT_EQ(first.get() + second.get(), "");
}

// By clocks of the test: that of rank 0 continues when rank 1 is there.
TEST(Meeting, TellsWhoIsMissing) {
  const int port = free_port();
  const auto begin = Deadline::Clock::now();
  std::atomic<int> hours = 0;
  Patience patience;
  patience.now = [&] { return begin + std::chrono::hours(hours.load()); };
  patience.arrived = [&](int ranks) { hours = ranks == 2 ? 1 : 0; };
  auto first = come(place_of(0, 4, port), "stoa 1", patience), second = come(place_of(1, 4, port));
  const std::string missing =
      "of 4 ranks, 2, 3 did not connect to 127.0.0.1:" + std::to_string(port) + " within 600.0 s";
  EXPECT_EQ(first.get(), missing);
  EXPECT_THAT(second.get(), HasSubstr(missing));
  // A minute at every look.
  std::atomic<int> minutes = 0;
  Patience quick;
  quick.now = [&] { return begin + std::chrono::minutes(++minutes); };
  EXPECT_THAT(come(place_of(1, 2, port), "stoa 1", quick).get(),
              AllOf(HasSubstr("rank 1 found no rank 0 at 127.0.0.1:"), HasSubstr("Connection refused")));
  MeetingPlace nowhere = place_of(1, 2, port);
  nowhere.address = "no-such-host.invalid";
  EXPECT_THAT(come(nowhere, "stoa 1", quick).get(),
              HasSubstr("rank 1 found no rank 0 at no-such-host.invalid:"));
}

TEST(Meeting, AStopEndsIt) {
  const int port = free_port();
  std::stop_source stop;
  std::promise<void> there;
  Patience patience;
  patience.stop = stop.get_token();
  patience.arrived = [&](int ranks) {
    if (ranks == 2) there.set_value();
  };
  auto first = come(place_of(0, 3, port), "stoa 1", patience),
       second = come(place_of(1, 3, port), "stoa 1", patience);
  there.get_future().wait();
  stop.request_stop();
  EXPECT_EQ(first.get(), "rank 0 was interrupted while the ranks were connecting");
  EXPECT_THAT(second.get(), HasSubstr("interrupted"));
}

// Rank 1 comes and goes before all are there: another may take its place.
TEST(Meeting, APlaceThatIsLeftIsFree) {
  const int port = free_port();
  std::stop_source gone;
  Patience patience;
  patience.stop = gone.get_token();
  std::promise<void> there;
  std::atomic<bool> said = false;
  Patience first_patience;
  first_patience.arrived = [&](int ranks) {
    if (ranks == 3 && !said.exchange(true)) there.set_value();
  };
  auto first = come(place_of(0, 4, port), "stoa 1", first_patience);
  auto second = come(place_of(1, 4, port), "stoa 1", patience), third = come(place_of(2, 4, port));
  there.get_future().wait();
  gone.request_stop();
  EXPECT_THAT(second.get(), HasSubstr("interrupted"));
  // Its place is free again, as rank 0 is still waiting for rank 3.
  auto again = come(place_of(1, 4, port)), fourth = come(place_of(3, 4, port));
  for (auto* rank : {&first, &again, &third, &fourth}) EXPECT_EQ(rank->get(), "");
}

TEST(Meeting, ATakenPortIsRefused) {
  const Socket other = listen_on(0);
  EXPECT_THAT(
      come(place_of(0, 2, other.port())).get(),
      AllOf(HasSubstr("cannot listen on port " + std::to_string(other.port())), HasSubstr("MASTER_PORT")));
}

// Each rank is a thread with a world of its own.
void run_ranks(int size, const std::function<void(ProcessWorld&)>& body) {
  const int port = free_port();
  std::vector<std::thread> ranks;
  for (int r = 0; r < size; ++r)
    ranks.emplace_back([&, r] {
      ProcessWorld world(open_tcp_link(place_of(r, size, port), "stoa 1"));
      body(world);
      world.finish();
    });
  for (std::thread& rank : ranks) rank.join();
}

std::vector<int> all_of(const ProcessWorld& world) {
  std::vector<int> ranks;
  for (int r = 0; r < world.size(); ++r) ranks.push_back(r);
  return ranks;
}

template <class T>
class TcpCommunicatorOf : public ::testing::Test {};
using TcpTypes = ::testing::Types<double, float, bf16, f16, std::int64_t, std::int32_t, std::uint8_t>;
TYPED_TEST_SUITE(TcpCommunicatorOf, TcpTypes);

TYPED_TEST(TcpCommunicatorOf, CollectivesEqualSerialComputation) {
  for (const int size : {2, 5})
    run_ranks(size, [](ProcessWorld& world) {
      const auto comm = world.create(0, "tp", all_of(world));
      for (const std::int64_t n : {1, 7, 1025}) suite::collectives<TypeParam>(*comm, n, false);
    });
}

// Above what is sent unasked, with ranks that come early and late.
TEST(TcpCommunicator, LargeMessagesAndDelaysAreBitEqual) {
  run_ranks(3, [](ProcessWorld& world) {
    const auto comm = world.create(1, "dp", all_of(world));
    for (const bool delays : {false, true}) suite::collectives<float>(*comm, 300007, delays);
  });
}

TEST(TcpLink, MessagesOfOneTagKeepTheirOrderAndOthersOvertake) {
  const int port = free_port();
  constexpr std::size_t kLarge = 1 << 20;
  const auto link_of = [&](int rank) { return open_tcp_link(place_of(rank, 2, port), "stoa 1"); };
  const auto finish = [](ProcessLink& link, ProcessLink::Handle handle) {
    for (;;)
      if (const auto done = link.test(handle)) return *done;
  };
  std::thread other([&] {
    const auto link = link_of(1);
    std::vector<char> large(kLarge, 'l');
    std::vector<ProcessLink::Handle> handles{link->send(large.data(), kLarge, 0, 7),
                                             link->send("ab", 2, 0, 7), link->send("cde", 3, 0, 8)};
    for (auto* const handle : handles) finish(*link, handle);
  });
  auto link = link_of(0);
  std::vector<char> late(3), large(kLarge), small(2);
  EXPECT_EQ(finish(*link, link->receive(late.data(), 3, 1, 8)).bytes, 3u);
  auto* const first = link->receive(large.data(), kLarge, 1, 7);
  EXPECT_EQ(finish(*link, link->receive(small.data(), 2, 1, 7)).bytes, 2u);
  EXPECT_EQ(finish(*link, first).bytes, kLarge);
  EXPECT_EQ(std::string(late.begin(), late.end()) + std::string(small.begin(), small.end()), "cdeab");
  EXPECT_EQ(std::count(large.begin(), large.end(), 'l'), static_cast<std::ptrdiff_t>(kLarge));
  link.reset();
  other.join();
}

}  // namespace
}  // namespace stoa::comm

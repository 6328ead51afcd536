#include "comm/tcp/meeting.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <random>
#include <thread>

#include "base/error.h"
#include "comm/wait_chain.h"

namespace stoa::comm {
namespace {

// Also reveals the byte order.
constexpr std::uint64_t kMagic = 0x5374'6f61'4d65'6574;
constexpr std::uint32_t kVersion = 2;
constexpr std::size_t kText = 64;
constexpr auto kPause = std::chrono::milliseconds(50);  // between two attempts to reach rank 0
constexpr auto kAnswer = std::chrono::seconds(10);      // of a rank whose own time is over
constexpr std::size_t kLongest = 65536;                 // of a text

// What a rank says first on every connection.
struct Hello {
  std::uint64_t magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t rank = 0, size = 0;
  std::uint32_t port = 0;   // where it listens
  std::uint64_t token = 0;  // of this rendezvous; 0 until rank 0 has assigned it
  char job[kText] = {}, program[kText] = {}, host[kText] = {};
};

// What rank 0 answers: `refusal` bytes of a text, or `members` of Member.
struct Answer {
  std::uint64_t magic = kMagic;
  std::uint64_t token = 0;
  std::uint32_t refusal = 0, members = 0;
};
struct Member {
  SocketAddress address;
  char host[kText] = {};
};

void put_text(char (&field)[kText], std::string_view text) {
  std::memcpy(field, text.data(), std::min(text.size(), kText - 1));
}

std::string get_text(const char (&field)[kText]) { return {field, ::strnlen(field, kText)}; }

Hello hello_of(const MeetingPlace& place, std::string_view program) {
  Hello hello;
  hello.rank = static_cast<std::uint32_t>(place.rank);
  hello.size = static_cast<std::uint32_t>(place.size);
  put_text(hello.job, place.job);
  put_text(hello.program, program);
  ::gethostname(hello.host, kText - 1);
  return hello;
}

// An incoming connection that has not sent its whole introduction yet.
struct Visitor {
  Socket socket;
  Hello hello;
  std::size_t heard = 0;

  enum class State { kSpeaking, kDone, kGone };
  State listen() {
    const ssize_t n = ::recv(socket.fd(), reinterpret_cast<char*>(&hello) + heard, sizeof hello - heard, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return State::kSpeaking;
    if (n <= 0) return State::kGone;
    heard += static_cast<std::size_t>(n);
    if (heard >= sizeof hello.magic && hello.magic != kMagic) return State::kGone;
    return heard == sizeof hello ? State::kDone : State::kSpeaking;
  }
};

// Lets people in until all ranks of `expected` are there.
class Door {
 public:
  Door(Socket door, Hello own, Deadline deadline, std::function<void(int ranks)> arrived)
      : door_(std::move(door)),
        own_(own),
        deadline_(std::move(deadline)),
        arrived_(std::move(arrived)),
        sockets_(own.size),
        hellos_(own.size) {}

  // Ranks from `first` on. False when the time is over.
  bool wait_for_ranks(int first) {
    first_ = first;
    while (!missing().empty()) {
      if (deadline_.over()) return false;
      look();
    }
    return true;
  }
  std::vector<int> missing() const {
    std::vector<int> ranks;
    for (int r = first_; r < static_cast<int>(own_.size); ++r)
      if (!sockets_[r]) ranks.push_back(r);
    return ranks;
  }
  const std::vector<Hello>& hellos() const { return hellos_; }
  std::vector<Socket>& sockets() { return sockets_; }

 private:
  void look() {
    std::vector<pollfd> entries{{door_.fd(), POLLIN, 0}};
    for (const Visitor& visitor : visitors_) entries.push_back({visitor.socket.fd(), POLLIN, 0});
    // A rank that has introduced itself waits for the answer: input before that means that it is gone, and
    // another process may take its place.
    std::vector<int> waiting;
    for (int r = first_; r < static_cast<int>(own_.size) && own_.token == 0; ++r)
      if (sockets_[r]) {
        waiting.push_back(r);
        entries.push_back({sockets_[r].fd(), POLLIN, 0});
      }
    if (::poll(entries.data(), entries.size(), patience(deadline_)) <= 0) return;
    const std::size_t before = visitors_.size();
    for (std::size_t i = 0; i < waiting.size(); ++i)
      if (entries[1 + before + i].revents != 0) sockets_[waiting[i]].close();
    for (std::size_t i = 0; i < before; ++i) {
      if (entries[1 + i].revents == 0) continue;
      const auto state = visitors_[i].listen();
      if (state == Visitor::State::kSpeaking) continue;
      if (state == Visitor::State::kDone) judge(visitors_[i]);
      visitors_[i].socket.close();
    }
    std::erase_if(visitors_, [](const Visitor& visitor) { return !visitor.socket; });
    if (entries[0].revents != 0)
      if (Socket socket = accept_from(door_)) visitors_.push_back({std::move(socket), {}, 0});
  }

  // Takes the connection of a rank that belongs here, or says why not.
  void judge(Visitor& visitor) {
    const Hello& hello = visitor.hello;
    const int rank = static_cast<int>(hello.rank);
    std::string refusal;
    if (hello.version != kVersion)
      refusal =
          fmt::format("it uses version {} of the rendezvous protocol, this one {}", kVersion, hello.version);
    else if (get_text(hello.job) != get_text(own_.job))
      refusal =
          fmt::format("it belongs to job '{}', this one to '{}'", get_text(own_.job), get_text(hello.job));
    else if (get_text(hello.program) != get_text(own_.program))
      refusal = fmt::format("it runs {}, this one {}", get_text(own_.program), get_text(hello.program));
    else if (hello.size != own_.size)
      refusal = fmt::format("it expects {} ranks, this one has WORLD_SIZE={}", own_.size, hello.size);
    else if (rank < first_ || rank >= static_cast<int>(own_.size))
      refusal = fmt::format("rank {} is not expected", rank);
    else if (sockets_[rank])
      refusal =
          fmt::format("rank {} has already connected, from host '{}'", rank, get_text(hellos_[rank].host));
    else if (hello.token != own_.token)
      refusal = "it was not sent by rank 0";
    if (refusal.empty()) {
      hellos_[rank] = hello;
      sockets_[rank] = std::move(visitor.socket);
      arrived_(static_cast<int>(own_.size) - static_cast<int>(missing().size()));
      return;
    }
    Answer answer;
    answer.refusal = static_cast<std::uint32_t>(refusal.size());
    const Deadline soon = Deadline{}.from_now(std::chrono::seconds(1));
    if (send_all(visitor.socket, &answer, sizeof answer, soon))
      send_all(visitor.socket, refusal.data(), refusal.size(), soon);
  }

  Socket door_;
  const Hello own_;
  const Deadline deadline_;
  const std::function<void(int ranks)> arrived_;
  int first_ = 1;
  std::vector<Visitor> visitors_;
  std::vector<Socket> sockets_;
  std::vector<Hello> hellos_;
};

std::uint64_t new_token() {
  std::random_device device;
  return (std::uint64_t{device()} << 32 | device()) | 1;
}

// Room for a connection to every rank in addition to the files of a run.
void allow_connections(int ranks) {
  rlimit limit{};
  const rlim_t wanted = static_cast<rlim_t>(ranks) * 2 + 256;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  require<ConfigError>(
      limit.rlim_max >= wanted,
      "{} ranks that connect without MPI need {} open files in each, the limit here is {}: raise "
      "it (ulimit -n) or start the ranks with MPI",
      ranks, wanted, limit.rlim_max);
  limit.rlim_cur = wanted;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// Ends a wait that was in vain.
template <class... Args>
[[noreturn]] void give_up(const MeetingPlace& place, const Deadline& deadline,
                          fmt::format_string<Args...> format, Args&&... args) {
  if (deadline.stop.stop_requested())
    fail<Interrupted>("rank {} was interrupted while the ranks were connecting", place.rank);
  fail<CommError>(format, std::forward<Args>(args)...);
}

double seconds_of(const Patience& patience) {
  return std::chrono::duration<double>(patience.timeout).count();
}

Deadline deadline_of(const Patience& patience) {
  return Deadline{{}, patience.stop, patience.now}.from_now(patience.timeout);
}

// What rank 0 says after a length of its own: "" when all is well.
bool send_text(const Socket& socket, const std::string& text, const Deadline& deadline) {
  const auto length = static_cast<std::uint32_t>(std::min<std::size_t>(text.size(), kLongest));
  return send_all(socket, &length, sizeof length, deadline) &&
         send_all(socket, text.data(), length, deadline);
}

bool receive_text(const Socket& socket, std::string& text, const Deadline& deadline) {
  std::uint32_t length = 0;
  if (!receive_all(socket, &length, sizeof length, deadline)) return false;
  text.resize(std::min<std::size_t>(length, kLongest));
  return receive_all(socket, text.data(), text.size(), deadline);
}

// Waits until every rank has connected to every other; a rank that has not is reported to all.
void part_together(const MeetingPlace& place, const Meeting& meeting, const Patience& patience) {
  // The other ranks time out first, and report what they wait for.
  const Deadline deadline = deadline_of(patience).from_now(patience.timeout + kAnswer);
  std::vector<int> silent;
  std::vector<std::string> problems;
  for (int r = 1; r < place.size; ++r) {
    std::string problem;
    if (!receive_text(meeting.sockets[r], problem, deadline)) {
      if (deadline.stop.stop_requested()) give_up(place, deadline, "");
      silent.push_back(r);
    } else if (!problem.empty()) {
      problems.push_back(problem);
    }
  }
  std::string verdict;
  if (!silent.empty())
    verdict = fmt::format("rank {} came to {}:{} and was not heard from again", rank_list(silent),
                          place.address, place.port);
  else if (!problems.empty())
    verdict = fmt::format("{}", fmt::join(problems, "; "));
  for (int r = 1; r < place.size; ++r)
    send_text(meeting.sockets[r], verdict, Deadline{}.from_now(std::chrono::seconds(1)));
  require<CommError>(verdict.empty(), "{}", verdict);
}

Meeting host(const MeetingPlace& place, const Hello& own, const Patience& patience) {
  const Deadline deadline = deadline_of(patience);
  Door door(listen_on(place.port), own, deadline, patience.arrived);
  Answer answer;
  if (!door.wait_for_ranks(1)) {
    const std::string problem =
        patience.stop.stop_requested()
            ? "it was interrupted"
            : fmt::format("of {} ranks, {} did not connect to {}:{} within {:.1f} s", place.size,
                          rank_list(door.missing()), place.address, place.port, seconds_of(patience));
    answer.refusal = static_cast<std::uint32_t>(problem.size());
    const Deadline soon = Deadline{}.from_now(std::chrono::seconds(1));
    for (const Socket& socket : door.sockets())
      if (socket && send_all(socket, &answer, sizeof answer, soon))
        send_all(socket, problem.data(), problem.size(), soon);
    give_up(place, deadline, "{}", problem);
  }
  answer.token = new_token();
  answer.members = own.size;
  std::vector<Member> members(own.size);
  Meeting meeting;
  meeting.sockets = std::move(door.sockets());
  for (int r = 0; r < place.size; ++r) {
    const Hello& hello = r == 0 ? own : door.hellos()[r];
    std::memcpy(members[r].host, hello.host, kText);
    if (r > 0) {
      members[r].address = meeting.sockets[r].peer();
      members[r].address.set_port(static_cast<int>(hello.port));
    }
    meeting.hosts.push_back(get_text(hello.host));
  }
  for (int r = 1; r < place.size; ++r)
    if (!send_all(meeting.sockets[r], &answer, sizeof answer, deadline) ||
        !send_all(meeting.sockets[r], members.data(), members.size() * sizeof(Member), deadline))
      give_up(place, deadline, "rank {} (host '{}') was lost while the ranks were connecting", r,
              meeting.hosts[r]);
  part_together(place, meeting, patience);
  return meeting;
}

// To rank 0, once it is there.
Socket reach_first(const MeetingPlace& place, const Deadline& deadline, const Patience& patience) {
  std::string problem;
  do {
    for (const SocketAddress& address : addresses_of(place.address, place.port, problem))
      if (Socket socket = connect_to(address, deadline.at_most(std::chrono::seconds(10)), problem))
        return socket;
    std::this_thread::sleep_for(kPause);
  } while (!deadline.over());
  give_up(place, deadline,
          "rank {} found no rank 0 at {}:{} within {:.1f} s ({}): rank 0 must run on MASTER_ADDR, and its "
          "MASTER_PORT must be open to the others",
          place.rank, place.address, place.port, seconds_of(patience), problem);
}

// Connects this rank to the ranks between rank 0 and itself, and accepts those after it. Returns a problem,
// if any.
std::string reach_others(const MeetingPlace& place, const Hello& own, const std::vector<Member>& members,
                         Socket door, const Deadline& deadline, Meeting& meeting) {
  std::vector<Socket> lower(static_cast<std::size_t>(place.rank));
  for (int r = 1; r < place.rank; ++r) {
    SocketAddress address = members[r].address;
    if (address.loopback()) {  // on the host of rank 0, which this rank may see by another address
      const int port = address.port();
      address = meeting.sockets.front().peer();
      address.set_port(port);
    }
    std::string problem;
    lower[r] = connect_to(address, deadline, problem);
    if (!lower[r] || !send_all(lower[r], &own, sizeof own, deadline))
      return fmt::format(
          "rank {} cannot reach rank {} (host '{}') at {}: {}. Ranks without MPI need open ports between all "
          "hosts",
          place.rank, r, get_text(members[r].host), address.text(), problem);
  }
  Door other_door(std::move(door), own, deadline, [](int) {});
  if (!other_door.wait_for_ranks(place.rank + 1))
    return fmt::format(
        "rank {} cannot be reached by rank {}: ranks without MPI need open ports between all hosts",
        place.rank, rank_list(other_door.missing()));
  Socket first = std::move(meeting.sockets.front());
  meeting.sockets = std::move(other_door.sockets());
  std::move(lower.begin(), lower.end(), meeting.sockets.begin());
  meeting.sockets.front() = std::move(first);
  return {};
}

Meeting visit(const MeetingPlace& place, Hello own, const Patience& patience) {
  const Deadline deadline = deadline_of(patience);
  // Rank 0's timeout may have started later than this rank's.
  const Deadline later = deadline.from_now(2 * patience.timeout + kAnswer);
  Socket door = listen_on(0);
  own.port = static_cast<std::uint32_t>(door.port());
  Answer answer;
  Socket first;
  for (;;) {
    first = reach_first(place, deadline, patience);
    answer.magic = 0;
    if (send_all(first, &own, sizeof own, later) && receive_all(first, &answer, sizeof answer, later)) break;
    if (deadline.over())
      give_up(place, deadline,
              "what listens at {}:{} does not answer rank {}: is rank 0 of this job there, and does no "
              "other program use MASTER_PORT?",
              place.address, place.port, place.rank);
    std::this_thread::sleep_for(kPause);
  }
  require<ConfigError>(answer.magic == kMagic,
                       "what listens at {}:{} is not rank 0 of a Stoa job: MASTER_PORT "
                       "must be a port that no other program uses",
                       place.address, place.port);
  const auto lost = [&] {
    give_up(place, deadline, "rank 0 at {}:{} was lost while the ranks were connecting", place.address,
            place.port);
  };
  if (answer.refusal > 0) {
    std::string refusal(std::min<std::size_t>(answer.refusal, kLongest), ' ');
    if (!receive_all(first, refusal.data(), refusal.size(), later)) lost();
    fail<ConfigError>("rank 0 at {}:{} rejects rank {}: {}", place.address, place.port, place.rank, refusal);
  }
  std::vector<Member> members(own.size);
  if (answer.members != own.size ||
      !receive_all(first, members.data(), members.size() * sizeof(Member), later))
    lost();
  own.token = answer.token;
  Meeting meeting;
  meeting.sockets.resize(static_cast<std::size_t>(own.size));
  meeting.sockets.front() = std::move(first);
  for (const Member& member : members) meeting.hosts.push_back(get_text(member.host));
  const Deadline reach = deadline_of(patience);
  const std::string problem = reach_others(place, own, members, std::move(door), reach, meeting);
  if (!problem.empty() && patience.stop.stop_requested()) give_up(place, reach, "");
  const Deadline last = deadline_of(patience).from_now(2 * patience.timeout + 2 * kAnswer);
  std::string verdict;
  if (!send_text(meeting.sockets.front(), problem, last) ||
      !receive_text(meeting.sockets.front(), verdict, last))
    lost();
  require<CommError>(verdict.empty(), "{}", verdict);
  return meeting;
}

}  // namespace

Meeting meet(const MeetingPlace& place, std::string_view program, const Patience& patience) {
  allow_connections(place.size);
  const Hello own = hello_of(place, program);
  return place.rank == 0 ? host(place, own, patience) : visit(place, own, patience);
}

}  // namespace stoa::comm

// How the processes of a job find each other without MPI: all come to rank 0's address, say who they are and
// learn where the others listen; then each pair is joined by a connection.
#pragma once

#include <chrono>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "comm/processes/process_launch.h"
#include "comm/tcp/socket.h"

namespace stoa::comm {

// Of a meeting.
struct Patience {
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  std::stop_token stop = {};
  std::function<void(int ranks)> arrived = [](int) {};  // on rank 0: so many are here
  std::function<Deadline::Clock::time_point()> now = Deadline::Clock::now;
};

struct Meeting {
  std::vector<Socket> sockets;     // to each rank; this one's is empty
  std::vector<std::string> hosts;  // of each rank
};

// `program`: what all ranks must run, version and commit; at most 63 characters count. Who is no rank of this
// job (another program, job, version, number of ranks; a rank twice) is turned away by rank 0 with the
// reason, and the meeting goes on. ConfigError on who is turned away; CommError when ranks are missing after
// the timeout, with their numbers, told by rank 0 to all; Interrupted after a stop.
Meeting meet(const MeetingPlace& place, std::string_view program, const Patience& patience = {});

}  // namespace stoa::comm

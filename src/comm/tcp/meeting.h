// How the processes of a job find each other without MPI: each connects to rank 0's address, identifies
// itself and learns the addresses of the others; then each pair of ranks connects.
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

// How long a rendezvous waits, and what interrupts it.
struct Patience {
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  std::stop_token stop = {};
  std::function<void(int ranks)> arrived = [](int) {};  // on rank 0: ranks connected so far
  std::function<Deadline::Clock::time_point()> now = Deadline::Clock::now;
};

struct Meeting {
  std::vector<Socket> sockets;     // to each rank; this one's is empty
  std::vector<std::string> hosts;  // of each rank
};

// `program` must be the same on all ranks: version and commit; only its first 63 characters are compared.
// Rank 0 rejects a process that is not a rank of this job (different program, job, version, number of ranks;
// a rank already taken), tells it why, and waits for the others. ConfigError on a rejected process; CommError
// on all ranks after the timeout, with the ranks that are missing; Interrupted after a stop.
Meeting meet(const MeetingPlace& place, std::string_view program, const Patience& patience = {});

}  // namespace stoa::comm

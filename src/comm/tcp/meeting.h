// How the processes of a job find each other without MPI: all come to rank 0's address, say who they are and
// learn where the others listen; then each pair is joined by a connection.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "comm/processes/process_launch.h"
#include "comm/tcp/socket.h"

namespace stoa::comm {

struct Meeting {
  std::vector<Socket> sockets;     // to each rank; this one's is empty
  std::vector<std::string> hosts;  // of each rank
};

// `program`: what all ranks must run, version and commit; at most 63 characters count. Who is no rank of this
// job (another program, job, version, number of ranks; a rank twice) is turned away by rank 0 with the
// reason, and the meeting goes on. ConfigError on who is turned away; CommError when ranks are missing after
// `timeout`, with their numbers.
Meeting meet(const MeetingPlace& place, std::string_view program, std::chrono::milliseconds timeout);

}  // namespace stoa::comm

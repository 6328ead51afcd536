// Ranks that meet at an address and communicate over TCP, with a connection between each pair.
#pragma once

#include <memory>
#include <string_view>

#include "comm/processes/process_launch.h"
#include "comm/processes/process_link.h"
#include "comm/tcp/meeting.h"

namespace stoa::comm {

// Collective over all ranks, as meet(). If a rank dies without notice (killed, its host down), a rank that
// waits for it or sends to it gets "the connection to rank 3@n02 was lost".
std::unique_ptr<ProcessLink> open_tcp_link(const MeetingPlace& place, std::string_view program,
                                           const Patience& patience = {});

}  // namespace stoa::comm

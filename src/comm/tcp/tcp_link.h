// Ranks that meet at an address and speak over TCP, each with each.
#pragma once

#include <memory>
#include <string_view>

#include "comm/processes/process_launch.h"
#include "comm/processes/process_link.h"
#include "comm/tcp/meeting.h"

namespace stoa::comm {

// All ranks together, as meet(). A rank that ends without a word (killed, its host gone) is named to whoever
// waits or sends: "the connection to rank 3@n02 was lost".
std::unique_ptr<ProcessLink> open_tcp_link(const MeetingPlace& place, std::string_view program,
                                           const Patience& patience = {});

}  // namespace stoa::comm

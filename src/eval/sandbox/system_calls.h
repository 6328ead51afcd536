// What a program in the sandbox may ask of the kernel.
#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <vector>

namespace stoa::eval {

// Stands in a filter for the number of the process itself, which replaces it before the filter takes effect.
inline constexpr std::uint32_t kOwnProcess = 0x7FFFFFFF;

// A seccomp filter. The process may compute, read files, write to descriptors that it has, start
// threads and end itself. It has no sockets, starts no process, opens no file for writing, changes no folder,
// sends no signals to others and raises no limit of its own; such calls fail with EPERM or ENOSYS. It may
// execute the path at the address `program`, and no other.
std::vector<sock_filter> sandbox_filter(const char* program);

}  // namespace stoa::eval

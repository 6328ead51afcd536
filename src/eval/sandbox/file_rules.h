// What a program in the sandbox may read: Landlock, where the kernel has it.
#pragma once

#include <vector>

namespace stoa::eval {

// Whether the kernel has Landlock.
bool has_file_rules();
// From now on the calling process has rules: nothing but what lies below `folders` (descriptors of O_PATH,
// also of single files) may be read or executed, and nothing written. Makes only calls that are safe after
// fork().
// False: the kernel refuses.
bool restrict_files(const std::vector<int>& folders);

}  // namespace stoa::eval

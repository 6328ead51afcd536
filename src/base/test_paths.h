// Where tests find the files of the source tree and the program: known to one file, so that the objects of all other tests
// do not depend on the folder of a checkout.
#pragma once

#include <filesystem>

namespace stoa::test {

// The root of the source tree.
std::filesystem::path source_dir();
// The program `stoa` of this build.
std::filesystem::path program();

}  // namespace stoa::test

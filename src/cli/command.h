// What every command of the program receives.
#pragma once

#include "base/console.h"

namespace stoa::cli {

struct Context {
  Console& console;  // progress and warnings, on standard error; results go to standard output
};

}  // namespace stoa::cli

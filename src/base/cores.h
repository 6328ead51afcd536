#pragma once

namespace stoa {

// Cores that this process may run on (its affinity, which containers and schedulers narrow), at least 1.
int available_cores();

// The calling thread, and those that it starts from now on, run on the part-th of `parts` shares of the cores
// that it may run on: neighbours, none in two shares. ConfigError when there are fewer cores than parts.
void stay_on_share(int part, int parts);

}  // namespace stoa

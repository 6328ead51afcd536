#pragma once

namespace stoa {

// Cores that this process may run on (its affinity, which containers and schedulers narrow), at least 1.
int available_cores();

}  // namespace stoa

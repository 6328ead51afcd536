#include <fmt/format.h>

#include "cli/app.h"

namespace stoa::cli {

std::string_view version() { return STOA_VERSION; }
std::string_view commit() { return STOA_COMMIT; }
std::string build_name() { return fmt::format("stoa {} ({})", version(), commit()); }

}  // namespace stoa::cli

#include "cli/version.h"

namespace stoa::cli {

std::string_view version() { return STOA_VERSION; }
std::string_view commit() { return STOA_COMMIT; }

}  // namespace stoa::cli

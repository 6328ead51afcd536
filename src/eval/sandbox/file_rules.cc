#include "eval/sandbox/file_rules.h"

#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace stoa::eval {

bool has_file_rules() {
  return ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION) >= 1;
}

bool restrict_files(const std::vector<int>& folders) {
  constexpr std::uint64_t kRead =
      LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
  landlock_ruleset_attr rules{};
  rules.handled_access_fs = kRead | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
                            LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
                            LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
                            LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |
                            LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM;
  const auto set = static_cast<int>(::syscall(SYS_landlock_create_ruleset, &rules, sizeof rules, 0));
  if (set < 0) return false;
  for (const int folder : folders) {
    landlock_path_beneath_attr beneath{};
    struct stat facts {};
    const bool is_folder = ::fstat(folder, &facts) == 0 && S_ISDIR(facts.st_mode);
    beneath.allowed_access = is_folder ? kRead : kRead & ~std::uint64_t{LANDLOCK_ACCESS_FS_READ_DIR};
    beneath.parent_fd = folder;
    if (::syscall(SYS_landlock_add_rule, set, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0) != 0) return false;
  }
  const bool done = ::syscall(SYS_landlock_restrict_self, set, 0) == 0;
  ::close(set);
  return done;
}

}  // namespace stoa::eval

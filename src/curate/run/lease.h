// Work that several processes share over a file system: whoever has the lease of a piece works on it. A lease
// is a file that is made by one process alone, and kept young by it; one that has grown old belonged to a
// process that has ended, and is taken over. No lock, no server, and no clock but that of the file system.
// Work must be safe to do twice: a process that was stopped for long may come back.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "base/file.h"

namespace stoa::curate {

class Lease {
 public:
  static constexpr std::chrono::seconds kLifetime{60};  // without a sign of its holder

  // Empty: another process has it. `folder` exists. IoError.
  static std::unique_ptr<Lease> take(const fs::path& folder, const std::string& name,
                                     std::chrono::milliseconds lifetime = kLifetime);
  ~Lease();  // gives it back
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

 private:
  Lease(fs::path path, std::chrono::milliseconds lifetime);

  const fs::path path_;
  std::jthread keeper_;  // touches the file
};

}  // namespace stoa::curate

#include "launched.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <random>

namespace stoa::e2e {

// Below the ports that the system gives to connections: nobody's connection takes it before the rank listens
// there.
std::string free_port() {
  std::random_device random;
  for (;;) {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    const auto port = static_cast<std::uint16_t>(20000 + random() % 12000);
    address.sin_port = htons(port);
    const bool free = ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    ::close(fd);
    if (free) return std::to_string(port);
  }
}

Arguments variables_of(int rank, int size, const std::string& port) {
  return {"RANK=" + std::to_string(rank), "WORLD_SIZE=" + std::to_string(size), "MASTER_ADDR=127.0.0.1",
          "MASTER_PORT=" + port};
}

}  // namespace stoa::e2e

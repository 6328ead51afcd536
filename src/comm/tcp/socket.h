// TCP connections between hosts, IPv4 and IPv6.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace stoa::comm {

using Deadline = std::chrono::steady_clock::time_point;

// Milliseconds that poll() may wait: none when the deadline is over, `most` at most.
int patience(Deadline deadline, int most = 1000);

// Where somebody listens.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  bool loopback() const;
  int port() const;
  void set_port(int port);
  std::string text() const;  // "10.0.0.7:29500"
};

// An open socket that does not block, closed at the end.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(other.release()) {}
  Socket& operator=(Socket&& other) noexcept;
  ~Socket() { close(); }

  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void close();
  int release();
  SocketAddress peer() const;  // of a connection
  int port() const;            // of its own end

 private:
  int fd_ = -1;
};

// On every address of this host; port 0: any that is free. ConfigError when the port is taken.
Socket listen_on(int port);
// Nothing there yet: an empty one.
Socket accept_from(const Socket& door);

// The addresses of a host that has a name. Empty with the reason when it has none.
std::vector<SocketAddress> addresses_of(const std::string& host, int port, std::string& problem);
// Empty with the reason when nobody answers until then.
Socket connect_to(const SocketAddress& address, Deadline deadline, std::string& problem);

// All the bytes. False when the connection ends before, or the time.
bool send_all(const Socket& socket, const void* data, std::size_t bytes, Deadline deadline);
bool receive_all(const Socket& socket, void* data, std::size_t bytes, Deadline deadline);

}  // namespace stoa::comm

// TCP connections between hosts, IPv4 and IPv6.
#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

namespace stoa::comm {

// How long a wait may last.
struct Deadline {
  using Clock = std::chrono::steady_clock;
  Clock::time_point end;
  std::stop_token stop = {};                            // ends it at once
  std::function<Clock::time_point()> now = Clock::now;  // a test's own clock

  bool over() const { return stop.stop_requested() || now() >= end; }
  Deadline at_most(Clock::duration from_now) const { return {std::min(end, now() + from_now), stop, now}; }
  Deadline from_now(Clock::duration time) const { return {now() + time, stop, now}; }
};

// Milliseconds that poll() may wait before the next look at the deadline.
int patience(const Deadline& deadline);

// The address of a listening socket.
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
// Empty, with the reason, if no peer answers before the deadline.
Socket connect_to(const SocketAddress& address, const Deadline& deadline, std::string& problem);

// All the bytes. False when the connection ends before, or the time.
bool send_all(const Socket& socket, const void* data, std::size_t bytes, const Deadline& deadline);
bool receive_all(const Socket& socket, void* data, std::size_t bytes, const Deadline& deadline);

}  // namespace stoa::comm

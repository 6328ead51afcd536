#include "comm/tcp/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace stoa::comm {
namespace {

constexpr int kBacklog = 4096;

// Small messages leave at once; a peer whose host is gone is missed within a minute.
void prepare(int fd) {
  const auto set = [fd](int level, int name, int value) {
    ::setsockopt(fd, level, name, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 15);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 6);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 45000);
}

// IPv4 addresses as such, if they arrived on a socket for both protocols.
SocketAddress plain(const SocketAddress& address) {
  const auto* six = reinterpret_cast<const sockaddr_in6*>(&address.storage);
  if (address.storage.ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) return address;
  SocketAddress out;
  auto* four = reinterpret_cast<sockaddr_in*>(&out.storage);
  four->sin_family = AF_INET;
  four->sin_port = six->sin6_port;
  std::memcpy(&four->sin_addr, six->sin6_addr.s6_addr + 12, 4);
  out.length = sizeof(sockaddr_in);
  return out;
}

// Waits for `events`. False when the time is over.
bool wait_for(int fd, short events, const Deadline& deadline) {
  for (;;) {
    pollfd entry{fd, events, 0};
    const int ready = ::poll(&entry, 1, patience(deadline));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
    if (deadline.over()) return false;
  }
}

Socket open_door(int family, int port, std::string& problem) {
  Socket door(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  SocketAddress address;
  const int yes = 1, no = 0;
  ::setsockopt(door.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (family == AF_INET6) {
    ::setsockopt(door.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    reinterpret_cast<sockaddr_in6*>(&address.storage)->sin6_addr = in6addr_any;
    address.length = sizeof(sockaddr_in6);
  } else {
    address.length = sizeof(sockaddr_in);
  }
  address.storage.ss_family = static_cast<sa_family_t>(family);
  address.set_port(port);
  if (door && ::bind(door.fd(), reinterpret_cast<const sockaddr*>(&address.storage), address.length) == 0 &&
      ::listen(door.fd(), kBacklog) == 0)
    return door;
  problem = std::strerror(errno);
  return {};
}

}  // namespace

int patience(const Deadline& deadline) {
  constexpr std::int64_t kMost = 100;  // a stop is seen by looking for it
  if (deadline.over()) return 0;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.end - deadline.now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, kMost));
}

bool SocketAddress::loopback() const {
  if (storage.ss_family == AF_INET6)
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr);
  return (ntohl(reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr.s_addr) >> 24) == 127;
}

int SocketAddress::port() const {
  // At the same place in both kinds.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

void SocketAddress::set_port(int port) {
  reinterpret_cast<sockaddr_in*>(&storage)->sin_port = htons(static_cast<std::uint16_t>(port));
}

std::string SocketAddress::text() const {
  char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";
  ::getnameinfo(reinterpret_cast<const sockaddr*>(&storage), length, host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
  const bool six = storage.ss_family == AF_INET6;
  return fmt::format("{}{}{}:{}", six ? "[" : "", host, six ? "]" : "", port);
}

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = other.release();
  }
  return *this;
}

void Socket::close() {
  if (fd_ >= 0) ::close(release());
}

int Socket::release() { return std::exchange(fd_, -1); }

SocketAddress Socket::peer() const {
  SocketAddress address;
  address.length = sizeof address.storage;
  ::getpeername(fd_, reinterpret_cast<sockaddr*>(&address.storage), &address.length);
  return plain(address);
}

int Socket::port() const {
  SocketAddress address;
  address.length = sizeof address.storage;
  ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address.storage), &address.length);
  return address.port();
}

Socket listen_on(int port) {
  std::string problem;
  for (const int family : {AF_INET6, AF_INET})
    if (Socket door = open_door(family, port, problem)) return door;
  fail<ConfigError>("cannot listen on port {}: {}. MASTER_PORT must be a free port of the host of rank 0",
                    port, problem);
}

Socket accept_from(const Socket& door) {
  Socket socket(::accept4(door.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket) prepare(socket.fd());
  return socket;
}

std::vector<SocketAddress> addresses_of(const std::string& host, int port, std::string& problem) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  std::vector<SocketAddress> addresses;
  if (const int code = ::getaddrinfo(host.c_str(), nullptr, &hints, &list); code != 0) {
    problem = ::gai_strerror(code);
    return addresses;
  }
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    SocketAddress address;
    address.length = entry->ai_addrlen;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.set_port(port);
    addresses.push_back(address);
  }
  ::freeaddrinfo(list);
  return addresses;
}

Socket connect_to(const SocketAddress& address, const Deadline& deadline, std::string& problem) {
  Socket socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  int code = 0;
  if (!socket ||
      ::connect(socket.fd(), reinterpret_cast<const sockaddr*>(&address.storage), address.length) != 0)
    code = errno;
  if (code == EINPROGRESS) {
    socklen_t length = sizeof code;
    code = ETIMEDOUT;
    if (wait_for(socket.fd(), POLLOUT, deadline))
      ::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &code, &length);
  }
  if (code != 0) {
    problem = std::strerror(code);
    return {};
  }
  prepare(socket.fd());
  return socket;
}

bool send_all(const Socket& socket, const void* data, std::size_t bytes, const Deadline& deadline) {
  const auto* p = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::send(socket.fd(), p, bytes, MSG_NOSIGNAL);
    if (n > 0) {
      p += n;
      bytes -= static_cast<std::size_t>(n);
    } else if (errno == EAGAIN) {
      if (!wait_for(socket.fd(), POLLOUT, deadline)) return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

bool receive_all(const Socket& socket, void* data, std::size_t bytes, const Deadline& deadline) {
  auto* p = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::recv(socket.fd(), p, bytes, 0);
    if (n > 0) {
      p += n;
      bytes -= static_cast<std::size_t>(n);
    } else if (n == 0) {
      return false;
    } else if (errno == EAGAIN) {
      if (!wait_for(socket.fd(), POLLIN, deadline)) return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace stoa::comm

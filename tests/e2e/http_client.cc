#include "http_client.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>

#include "base/error.h"

namespace stoa::e2e {

std::vector<nlohmann::json> HttpAnswer::events() const {
  std::vector<nlohmann::json> out;
  for (std::size_t at = 0; (at = body.find("data: ", at)) != std::string::npos;) {
    at += 6;
    const std::string line = body.substr(at, body.find('\n', at) - at);
    if (line != "[DONE]") out.push_back(nlohmann::json::parse(line, nullptr, false));
  }
  return out;
}

HttpConnection::HttpConnection(std::uint16_t port)
    : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(port);
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const timeval patience{.tv_sec = 300, .tv_usec = 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  require<IoError>(::connect(socket_, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0,
                   "cannot connect to port {}", port);
}

HttpConnection::~HttpConnection() { ::close(socket_); }

bool HttpConnection::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

void HttpConnection::shut_down() { ::shutdown(socket_, SHUT_WR); }

void HttpConnection::reset() {
  const linger now{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  ::close(socket_);
  socket_ = -1;
}

bool HttpConnection::fill() {
  char bytes[16384];
  const ssize_t got = ::recv(socket_, bytes, sizeof bytes, 0);
  if (got <= 0) return false;
  buffer_.append(bytes, static_cast<std::size_t>(got));
  return true;
}

std::string HttpConnection::read_until(std::string_view text) {
  while (buffer_.find(text) == std::string::npos && fill()) {
  }
  return buffer_;
}

HttpAnswer HttpConnection::read(bool without_body) {
  HttpAnswer out;
  for (;;) {
    read_until("\r\n\r\n");
    const std::size_t end = buffer_.find("\r\n\r\n");
    if (end == std::string::npos) return out;
    const std::string head = buffer_.substr(0, end + 2);
    buffer_.erase(0, end + 4);
    out.status = std::stoi(head.substr(9, 3));
    if (out.status == 100) continue;
    for (std::size_t at = head.find("\r\n") + 2; at < head.size();) {
      const std::size_t next = head.find("\r\n", at), colon = head.find(':', at);
      std::string name = head.substr(at, colon - at);
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
      out.headers[name] = head.substr(colon + 2, next - colon - 2);
      at = next + 2;
    }
    break;
  }
  if (without_body || out.status == 204) return out;
  if (out.headers.contains("content-length")) {
    const std::size_t length = std::stoull(out.headers["content-length"]);
    while (buffer_.size() < length && fill()) {
    }
    out.body = buffer_.substr(0, length);
    buffer_.erase(0, length);
    return out;
  }
  if (out.headers["transfer-encoding"] != "chunked") {
    while (fill()) {
    }
    out.body = std::exchange(buffer_, {});
    return out;
  }
  for (;;) {
    while (buffer_.find("\r\n") == std::string::npos)
      if (!fill()) return out;
    const std::size_t line = buffer_.find("\r\n");
    const std::size_t length = std::stoull(buffer_.substr(0, line), nullptr, 16);
    while (buffer_.size() < line + length + 4)
      if (!fill()) return out;
    out.body += buffer_.substr(line + 2, length);
    buffer_.erase(0, line + length + 4);
    if (length == 0) return out;
  }
}

std::string http_request(const std::string& method, const std::string& path, const std::string& body,
                         const std::string& headers) {
  std::string out = fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\n{}", method, path, headers);
  if (method != "GET" && method != "HEAD")
    out += fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n", body.size());
  return out + "\r\n" + body;
}

}  // namespace stoa::e2e

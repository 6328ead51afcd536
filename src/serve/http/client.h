// A client of HTTP/1.1, also encrypted (TLS), that waits for its answers. One connection, kept open between
// requests; not for several threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "serve/http/message.h"

namespace stoa::serve::http {

// "https://host:port/v1": where a server is.
struct Address {
  std::string host, port, path;  // path: without a slash at the end; "" or "/v1"
  bool encrypted = false;
};
// ConfigError: no URL that begins with http:// or https://.
Address parse_address(const std::string& url);

class Client {
 public:
  // `timeout`: of an answer, from its request.
  explicit Client(Address address, std::chrono::milliseconds timeout = std::chrono::minutes(10));
  ~Client();

  // To the address's path with `path` behind it. IoError: no connection, or none until the end of the answer,
  // or to a server whose certificate no authority of this machine vouches for.
  Reply get(const std::string& path, const Headers& headers = {});
  Reply post(const std::string& path, const std::string& json, const Headers& headers = {});

 private:
  struct Connection;
  Reply ask(const std::string& method, const std::string& path, const std::string& body,
            const Headers& headers);
  Reply exchange(const std::string& method, const std::string& path, const std::string& body,
                 const Headers& headers);

  const Address address_;
  const std::chrono::milliseconds timeout_;
  std::unique_ptr<Connection> connection_;
};

}  // namespace stoa::serve::http

// A client of HTTP/1.1, also encrypted (TLS), that waits for its answers. One connection, kept open between
// requests; not for several threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

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
  // Its pieces as they come, if the status is 200; the reply has no body then. What `piece` throws ends the
  // connection.
  using Piece = std::function<void(std::string_view)>;
  Reply stream(const std::string& path, const std::string& json, const Headers& headers, const Piece& piece);

 private:
  struct Connection;
  struct Question {
    const char* method;
    const std::string &path, &body;
    const Headers& headers;
    const Piece* piece = nullptr;  // none: the reply has the body
  };
  Reply ask(const Question& question);
  Reply exchange(const Question& question, bool& begun);  // begun: some of the answer has come

  const Address address_;
  const std::chrono::milliseconds timeout_;
  std::unique_ptr<Connection> connection_;
};

}  // namespace stoa::serve::http

// A client of HTTP/1.1 for tests: plain sockets, so that it can also send what no client should.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stoa::e2e {

struct HttpAnswer {
  int status = 0;                              // 0: the server closed the connection
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // chunks joined

  nlohmann::json json() const { return nlohmann::json::parse(body, nullptr, false); }
  // The objects of a stream, without [DONE].
  std::vector<nlohmann::json> events() const;
};

class HttpConnection {
 public:
  explicit HttpConnection(std::uint16_t port);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  // False if the server closed the connection.
  bool send(std::string_view bytes);
  void shut_down();  // sends no more
  void reset();      // closes with RST
  // `without_body`: of HEAD.
  HttpAnswer read(bool without_body = false);
  // Bytes until `text` has come, or the end.
  std::string read_until(std::string_view text);

 private:
  bool fill();
  int socket_ = -1;
  std::string buffer_;
};

std::string http_request(const std::string& method, const std::string& path, const std::string& body = {},
                         const std::string& headers = {});

}  // namespace stoa::e2e

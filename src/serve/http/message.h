// A request of HTTP/1.1 as handlers see it, and where its answer goes. Nothing here names the library below.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stoa::serve::http {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct Request {
  std::string method;  // "GET"; HEAD arrives as GET, and its answer is sent without the body
  std::string path;    // without the query, percent-decoded
  Headers headers;     // names in lower case
  std::string body;
  std::string client;  // address
  std::string id;      // the client's X-Request-Id if it is a plain word, else one of the server's

  // The first header of that name (lower case); "" without one.
  std::string_view header(std::string_view name) const;
};

struct Reply {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  Headers headers = {};
};

// The answer of one request: either send() once, or begin_stream(), any write() and end(). Any thread may
// call. One that is dropped unfinished ends with status 500, or as a broken stream.
class Answer {
 public:
  virtual ~Answer() = default;
  virtual void send(Reply reply) = 0;
  // Status 200, text/event-stream; the pieces are sent as they come.
  virtual void begin_stream() = 0;
  virtual void write(std::string piece) = 0;
  virtual void end() = 0;
  // Called once, from any thread, if the client leaves before the end, does not read, or the server gives
  // up. At once if that has happened.
  virtual void on_gone(std::function<void()> gone) = 0;
  // Runs `work` on one of the handler's threads; at once where the server has stopped.
  virtual void elsewhere(std::function<void()> work) = 0;
  // A header for every answer of this request, before it begins.
  virtual void add_header(std::string name, std::string value) = 0;
};

using Handler = std::function<void(const Request&, std::shared_ptr<Answer>)>;

// "Not Found" of 404; "" for a status that is not used here.
std::string_view reason_phrase(int status);

}  // namespace stoa::serve::http

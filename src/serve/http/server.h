// A server of HTTP/1.1 with bounds on everything a client can make long: header, body, time, unread answers,
// connections.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "serve/http/message.h"

namespace stoa::serve::http {

struct ServerOptions {
  std::string host = "127.0.0.1";  // an address or a name
  std::uint16_t port = 8000;       // 0: a free one
  std::string certificate, key;    // PEM files; empty: connections are not encrypted
  std::size_t header_bytes = 32 << 10;
  std::size_t body_bytes = 32 << 20;
  std::size_t unread_bytes = 4 << 20;  // of an answer, before its client counts as gone
  std::size_t connections = 1024;
  std::chrono::seconds header_time{30};  // from the connection to the end of the header
  std::chrono::seconds idle_time{75};    // from an answer to the next request's header
  std::chrono::seconds body_time{60};
  std::chrono::seconds write_time{60};  // for a piece of an answer
};

// What the access log says of a request.
struct Served {
  const Request& request;
  int status;
  std::size_t bytes;  // of the answer's body
  double seconds;
};

class Server {
 public:
  // Listens; nothing is answered before run(). `handler` is called from a few threads and may block for a
  // moment. IoError: the address is not to be had; errors of tls_context.
  Server(const ServerOptions& options, Handler handler, std::function<void(const Served&)> served = {});
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::uint16_t port() const;
  void start();  // threads begin to answer
  // Runs `work` on one of the handler's threads; not after stop().
  void post(std::function<void()> work);
  // No new connections; idle ones are closed; answers under way continue.
  void drain();
  // Waits until no request is under way; false when `patience` was over before.
  bool wait_idle(std::chrono::duration<double> patience);
  // Closes everything and ends the threads.
  void stop();
  std::size_t connections() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace stoa::serve::http

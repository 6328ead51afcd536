// One connection of http::Server (the only header that names Boost.Beast).
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <deque>
#include <mutex>
#include <optional>
#include <random>
#include <set>

#include "serve/http/server.h"
#include "serve/http/transport.h"

namespace stoa::serve::http {

class Session;

constexpr int kIoThreads = 2, kHandlerThreads = 4;

// What the sessions of a server share, and answers that outlive it.
struct SessionContext {
  ServerOptions options;
  Handler handler;
  std::function<void(const Served&)> served;
  boost::asio::io_context io{kIoThreads};
  boost::asio::thread_pool workers{kHandlerThreads};  // run the handler
  std::mutex work_mutex;
  bool stopped = false;                               // the workers, which are joined then
  std::optional<boost::asio::ssl::context> tls = {};  // none: connections are not encrypted
  std::atomic<bool> draining{false};
  std::atomic<std::size_t> busy{0};                  // requests under way
  const std::uint32_t run = std::random_device()();  // makes ids of requests differ between servers
  std::atomic<std::uint64_t> requests{0};

  std::mutex mutex;
  std::set<Session*> sessions;
};

class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(boost::asio::ip::tcp::socket socket, std::shared_ptr<SessionContext> context);
  ~Session();

  void start();
  // From any thread: closes it, at once or when the answer under way is finished.
  void close_when_idle();
  void close_now();

 private:
  friend class SessionAnswer;
  using Error = boost::beast::error_code;
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  void read_header(std::chrono::seconds patience);
  void header_read(Error error);
  // One before a request, which some clients send behind a body (RFC 9112, 2.2).
  bool skip_empty_line();
  void read_body();
  void body_read(Error error);
  void refuse(int status, const std::string& message);  // a request that cannot be read; then closes
  void handle();
  void watch();  // reads on while an answer is made: notices that the client leaves

  // The answer under way; called on the strand.
  void send(Reply reply, const Headers& more);
  void begin_stream(const Headers& more);
  void write(const std::string& piece);
  void end();
  void abandon();  // the client is gone

  std::string head(int status, std::string_view content_type, const Headers& headers) const;
  void push(std::string bytes);
  void write_next();
  void answered();  // everything was written
  void next_request();
  void shut();
  void close();
  void discard();  // what a refused client still sends

  const std::shared_ptr<SessionContext> context_;
  Transport stream_;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  Request request_;
  std::chrono::steady_clock::time_point begun_;

  enum class Phase : std::uint8_t { kReading, kHandling, kStreaming, kEnding, kClosed };
  Phase phase_ = Phase::kReading;
  bool first_ = true, keep_alive_ = false, is_head_ = false, chunked_ = false;
  bool watching_ = false, writing_ = false, gone_ = false, refused_ = false, empty_line_skipped_ = false;
  std::deque<std::string> out_;
  std::size_t unread_ = 0, sent_ = 0;
  int status_ = 0;
  std::weak_ptr<class SessionAnswer> answer_;
};

}  // namespace stoa::serve::http

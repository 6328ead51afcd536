#include "serve/http/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/stream_base.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>
#include <cctype>

#include "base/timing.h"
#include "serve/error.h"

namespace stoa::serve::http {

namespace asio = boost::asio;
namespace beast = boost::beast;

// The answer of a session's request. It may outlive the session.
class SessionAnswer : public Answer {
 public:
  SessionAnswer(std::weak_ptr<Session> session, Transport::executor_type executor,
                std::shared_ptr<SessionContext> context)
      : session_(std::move(session)), context_(std::move(context)), executor_(std::move(executor)) {}

  ~SessionAnswer() override {
    if (ended_) return;
    if (begun_)
      on_session([](Session& s) { s.abandon(); });
    else
      send(ApiError(500, "the request was dropped").reply());
  }

  void send(Reply reply) override {
    if (std::exchange(begun_, true)) return;
    ended_ = true;
    on_session(
        [reply = std::move(reply), more = headers_](Session& s) mutable { s.send(std::move(reply), more); });
  }
  void begin_stream() override {
    if (std::exchange(begun_, true)) return;
    on_session([more = headers_](Session& s) { s.begin_stream(more); });
  }
  void write(std::string piece) override {
    on_session([piece = std::move(piece)](Session& s) { s.write(piece); });
  }
  void end() override {
    if (std::exchange(ended_, true)) return;
    on_session([](Session& s) { s.end(); });
  }
  void on_gone(std::function<void()> gone) override {
    {
      const std::lock_guard lock(mutex_);
      if (!is_gone_) {
        gone_ = std::move(gone);
        return;
      }
    }
    gone();
  }
  void elsewhere(std::function<void()> work) override {
    {
      // Work that is posted while the workers are joined would never be done.
      const std::lock_guard lock(context_->work_mutex);
      if (!context_->stopped) return asio::post(context_->workers, std::move(work));
    }
    work();
  }
  void add_header(std::string name, std::string value) override {
    headers_.emplace_back(std::move(name), std::move(value));
  }

  void tell_gone() {
    std::function<void()> gone;
    {
      const std::lock_guard lock(mutex_);
      is_gone_ = true;
      gone = std::move(gone_);
    }
    if (gone) gone();
  }

 private:
  template <class Body>
  void on_session(Body body) {
    asio::post(executor_, [weak = session_, body = std::move(body)]() mutable {
      if (const auto session = weak.lock()) body(*session);
    });
  }

  const std::weak_ptr<Session> session_;
  const std::shared_ptr<SessionContext> context_;
  const Transport::executor_type executor_;  // of the context
  bool begun_ = false, ended_ = false;
  Headers headers_;
  std::mutex mutex_;
  std::function<void()> gone_;
  bool is_gone_ = false;
};

namespace {

constexpr std::size_t kReadAhead = 64 << 10;  // of pipelined requests
// How long the rest of a refused request is read: closed before, the connection would be reset, and a client
// that is still sending would not see the answer.
constexpr std::chrono::seconds kLinger{5};

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The path of a request's target, percent-decoded; false where it is not a path.
bool read_target(std::string_view target, std::string& out) {
  if (target.starts_with("http://") || target.starts_with("https://")) {
    const std::size_t slash = target.find('/', target.find("//") + 2);
    target = slash == std::string_view::npos ? "/" : target.substr(slash);
  }
  if (!target.starts_with('/')) return target == "*" && (out = "*", true);
  target = target.substr(0, target.find_first_of("?#"));
  out.clear();
  for (std::size_t i = 0; i < target.size(); ++i) {
    if (target[i] != '%') {
      out += target[i];
      continue;
    }
    if (i + 2 >= target.size()) return false;
    const int high = hex_digit(target[i + 1]), low = hex_digit(target[i + 2]);
    if (high < 0 || low < 0 || high + low == 0) return false;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return true;
}

bool is_plain_word(std::string_view text) {
  return !text.empty() && text.size() <= 128 && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == ':';
  });
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::string view(beast::string_view text) { return {text.data(), text.size()}; }

}  // namespace

Session::Session(asio::ip::tcp::socket socket, std::shared_ptr<SessionContext> context)
    : context_(std::move(context)),
      stream_(std::move(socket), context_->tls ? &*context_->tls : nullptr),
      buffer_(context_->options.header_bytes + kReadAhead) {
  const std::lock_guard lock(context_->mutex);
  context_->sessions.insert(this);
}

Session::~Session() {
  const std::lock_guard lock(context_->mutex);
  context_->sessions.erase(this);
}

void Session::start() {
  asio::post(stream_.get_executor(), [self = shared_from_this()] {
    Error ignored;
    asio::ip::tcp::socket& socket = self->stream_.tcp().socket();
    socket.set_option(asio::ip::tcp::no_delay(true), ignored);
    const auto peer = socket.remote_endpoint(ignored);
    if (!ignored) self->request_.client = peer.address().to_string();
    if (!self->stream_.encrypted()) return self->read_header(self->context_->options.header_time);
    self->stream_.tcp().expires_after(self->context_->options.header_time);
    self->stream_.async_handshake(boost::asio::ssl::stream_base::server, [self](Error error) {
      if (self->phase_ == Phase::kClosed) return;
      self->gone_ = static_cast<bool>(error);  // it said nothing that could be answered
      if (error) return self->shut();
      self->read_header(self->context_->options.header_time);
    });
  });
}

void Session::close_when_idle() {
  asio::post(stream_.get_executor(), [self = shared_from_this()] {
    if (self->phase_ == Phase::kReading) self->shut();
  });
}

void Session::close_now() {
  asio::post(stream_.get_executor(), [self = shared_from_this()] {
    if (self->phase_ == Phase::kClosed) return self->stream_.tcp().close();
    self->abandon();
  });
}

void Session::read_header(std::chrono::seconds patience) {
  phase_ = Phase::kReading;
  if (context_->draining) return shut();
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(context_->options.header_bytes));
  parser_->body_limit(context_->options.body_bytes);
  stream_.tcp().expires_after(patience);
  beast::http::async_read_header(
      stream_, buffer_, *parser_,
      [self = shared_from_this()](Error error, std::size_t) { self->header_read(error); });
}

bool Session::skip_empty_line() {
  const auto bytes = buffer_.cdata();
  const std::string_view text(static_cast<const char*>(bytes.data()), bytes.size());
  if (empty_line_skipped_ || !text.starts_with("\r\n")) return false;
  buffer_.consume(2);
  return empty_line_skipped_ = true;
}

void Session::header_read(Error error) {
  if (phase_ == Phase::kClosed) return;
  begun_ = std::chrono::steady_clock::now();
  if (error == beast::http::error::end_of_stream) return shut();
  if (error == beast::error::timeout)
    return parser_->got_some() ? refuse(408, "the header of the request did not end in time") : shut();
  if (error == beast::http::error::header_limit || error == beast::http::error::buffer_overflow)
    return refuse(431,
                  fmt::format("the header of the request exceeds {} bytes", context_->options.header_bytes));
  if (error == beast::http::error::body_limit)
    return refuse(413, fmt::format("the body of the request exceeds {} bytes", context_->options.body_bytes));
  if (error == beast::http::error::bad_method && skip_empty_line())
    return read_header(context_->options.header_time);
  if (error.category() == beast::http::make_error_code(beast::http::error::bad_method).category())
    return refuse(400, "not a request of HTTP/1.1: " + error.message());
  if (error) return shut();
  empty_line_skipped_ = false;
  const auto& message = parser_->get();
  if (message.count(beast::http::field::transfer_encoding) > 0 &&
      message.count(beast::http::field::content_length) > 0)
    return refuse(400, "a request has either Content-Length or Transfer-Encoding");
  if (const auto coding = message[beast::http::field::transfer_encoding];
      !coding.empty() && lower(view(coding)) != "chunked")
    return refuse(400, "of transfer encodings, chunked is read");
  if (message.version() >= 11 && message.count(beast::http::field::host) != 1)
    return refuse(400, "a request of HTTP/1.1 has one Host header");
  if (message.version() >= 11 && lower(view(message[beast::http::field::expect])) == "100-continue") {
    asio::async_write(stream_, asio::buffer("HTTP/1.1 100 Continue\r\n\r\n", 25),
                      [self = shared_from_this()](Error failed, std::size_t) {
                        if (failed) return self->shut();
                        self->read_body();
                      });
    return;
  }
  read_body();
}

void Session::read_body() {
  stream_.tcp().expires_after(context_->options.body_time);
  beast::http::async_read(stream_, buffer_, *parser_,
                          [self = shared_from_this()](Error error, std::size_t) { self->body_read(error); });
}

void Session::body_read(Error error) {
  if (phase_ == Phase::kClosed) return;
  if (error == beast::error::timeout) return refuse(408, "the body of the request did not come in time");
  if (error == beast::http::error::body_limit)
    return refuse(413, fmt::format("the body of the request exceeds {} bytes", context_->options.body_bytes));
  if (error == beast::http::error::partial_message || error == beast::http::error::end_of_stream)
    return shut();
  if (error.category() == beast::http::make_error_code(beast::http::error::bad_method).category())
    return refuse(400, "the body of the request is broken: " + error.message());
  if (error) return shut();
  handle();
}

void Session::refuse(int status, const std::string& message) {
  keep_alive_ = false;
  is_head_ = false;
  refused_ = true;
  phase_ = Phase::kHandling;
  ++context_->busy;
  request_.method = "?";
  request_.path.clear();
  send(ApiError(status, message).reply(), {});
}

void Session::handle() {
  auto message = parser_->release();
  keep_alive_ = message.keep_alive();
  chunked_ = message.version() >= 11;
  request_.method = view(message.method_string());
  is_head_ = request_.method == "HEAD";
  if (is_head_) request_.method = "GET";
  request_.headers.clear();
  for (const auto& field : message)
    request_.headers.emplace_back(lower(view(field.name_string())), view(field.value()));
  request_.body = std::move(message.body());
  const std::uint64_t number = ++context_->requests;
  const std::string_view id = request_.header("x-request-id");
  request_.id = is_plain_word(id) ? std::string(id) : fmt::format("{:08x}{:x}", context_->run, number);
  phase_ = Phase::kHandling;
  ++context_->busy;
  if (!read_target(view(message.target()), request_.path))
    return send(ApiError(400, "the target of the request is not a path").reply(), {});
  auto answer = std::make_shared<SessionAnswer>(weak_from_this(), stream_.get_executor(), context_);
  answer_ = answer;
  // The request is the session's, and stays as it is until the answer has been sent.
  asio::post(context_->workers, [self = shared_from_this(), answer = std::move(answer)]() mutable {
    try {
      self->context_->handler(self->request_, answer);
    } catch (const ApiError& error) {
      answer->send(error.reply());
    } catch (const std::exception& error) {
      answer->send(ApiError(500, error.what()).reply());
    }
  });
  watch();
}

void Session::watch() {
  if (watching_ || gone_ || buffer_.size() >= kReadAhead) return;
  watching_ = true;
  stream_.tcp().expires_never();
  stream_.async_read_some(buffer_.prepare(4096), [self = shared_from_this()](Error error, std::size_t bytes) {
    self->watching_ = false;
    self->buffer_.commit(bytes);
    if (self->phase_ == Phase::kClosed) return;
    if (self->phase_ == Phase::kEnding) {
      // The end of what the client says comes once: a later read would wait for it until its time is over.
      if (error && error != asio::error::operation_aborted) self->keep_alive_ = false;
      return self->answered();
    }
    if (error) return self->abandon();
    self->watch();
  });
}

void Session::abandon() {
  if (phase_ == Phase::kClosed) return;
  gone_ = true;
  if (const auto answer = answer_.lock()) answer->tell_gone();
  if (status_ == 0) status_ = 499;  // nginx's number of a client that left
  shut();
}

std::string Session::head(int status, std::string_view content_type, const Headers& headers) const {
  std::string out = fmt::format("HTTP/1.1 {} {}\r\n", status, reason_phrase(status));
  if (!content_type.empty()) out += fmt::format("Content-Type: {}\r\n", content_type);
  for (const auto& [name, value] : headers) out += fmt::format("{}: {}\r\n", name, value);
  if (!request_.id.empty()) out += fmt::format("X-Request-Id: {}\r\n", request_.id);
  out += "X-Content-Type-Options: nosniff\r\n";
  if (!keep_alive_)
    out += "Connection: close\r\n";
  else if (!chunked_)
    out += "Connection: keep-alive\r\n";  // HTTP/1.0
  return out;
}

void Session::send(Reply reply, const Headers& more) {
  if (phase_ != Phase::kHandling) return;
  keep_alive_ = keep_alive_ && !context_->draining;
  status_ = reply.status;
  reply.headers.insert(reply.headers.end(), more.begin(), more.end());
  std::string out = head(reply.status, reply.status == 204 ? "" : reply.content_type, reply.headers);
  if (reply.status != 204) out += fmt::format("Content-Length: {}\r\n", reply.body.size());
  out += "\r\n";
  phase_ = Phase::kEnding;
  sent_ = reply.body.size();
  if (!is_head_) out += reply.body;
  push(std::move(out));
}

void Session::begin_stream(const Headers& more) {
  if (phase_ != Phase::kHandling) return;
  keep_alive_ = keep_alive_ && chunked_ && !context_->draining;
  status_ = 200;
  Headers headers = more;
  headers.emplace_back("Cache-Control", "no-cache");
  headers.emplace_back("X-Accel-Buffering", "no");
  if (chunked_) headers.emplace_back("Transfer-Encoding", "chunked");
  phase_ = Phase::kStreaming;
  push(head(200, "text/event-stream; charset=utf-8", headers) + "\r\n");
}

void Session::write(const std::string& piece) {
  if (phase_ != Phase::kStreaming || piece.empty()) return;
  sent_ += piece.size();
  push(chunked_ ? fmt::format("{:x}\r\n{}\r\n", piece.size(), piece) : piece);
}

void Session::end() {
  if (phase_ != Phase::kStreaming) return;
  phase_ = Phase::kEnding;
  if (chunked_) return push("0\r\n\r\n");
  if (!writing_) answered();
}

void Session::push(std::string bytes) {
  unread_ += bytes.size();
  // A whole answer is one piece, of any size.
  if (unread_ > context_->options.unread_bytes && !out_.empty()) return abandon();
  out_.push_back(std::move(bytes));
  if (!writing_) write_next();
}

void Session::write_next() {
  writing_ = true;
  stream_.tcp().expires_after(context_->options.write_time);
  asio::async_write(stream_, asio::buffer(out_.front()),
                    [self = shared_from_this()](Error error, std::size_t) {
                      self->writing_ = false;
                      if (self->phase_ == Phase::kClosed) return;
                      if (error) return self->abandon();
                      self->unread_ -= self->out_.front().size();
                      self->out_.pop_front();
                      if (!self->out_.empty()) return self->write_next();
                      if (self->phase_ == Phase::kEnding) self->answered();
                    });
}

void Session::answered() {
  if (writing_ || !out_.empty()) return;
  // The read of watch() ends first; then this is called again.
  if (watching_) return stream_.tcp().cancel();
  if (keep_alive_) return next_request();
  shut();
}

void Session::next_request() {
  if (context_->served) context_->served({request_, status_, sent_, seconds_since(begun_)});
  --context_->busy;
  first_ = false;
  status_ = 0;
  sent_ = 0;
  request_.body = {};
  answer_.reset();
  read_header(context_->options.idle_time);
}

void Session::shut() {
  if (phase_ == Phase::kClosed) return;
  if (phase_ != Phase::kReading) {
    if (context_->served) context_->served({request_, status_, sent_, seconds_since(begun_)});
    --context_->busy;
  }
  phase_ = Phase::kClosed;
  if (!stream_.encrypted() || gone_ || writing_ || watching_) return close();
  // Without this last message a client could not tell the end of an answer from a connection that was cut.
  stream_.tcp().expires_after(std::chrono::seconds(2));
  stream_.async_shutdown([self = shared_from_this()](Error) { self->close(); });
}

void Session::close() {
  Error ignored;
  stream_.tcp().socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  if (!refused_ || gone_ || context_->draining) return stream_.tcp().close();
  stream_.tcp().expires_after(kLinger);
  discard();
}

void Session::discard() {
  buffer_.consume(buffer_.size());
  stream_.tcp().async_read_some(buffer_.prepare(4096), [self = shared_from_this()](Error error, std::size_t) {
    if (error) return self->stream_.tcp().close();
    self->discard();
  });
}

}  // namespace stoa::serve::http

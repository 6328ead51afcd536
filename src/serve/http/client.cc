#include "serve/http/client.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream_base.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <optional>

#include "base/error.h"
#include "serve/http/transport.h"

namespace stoa::serve::http {

namespace asio = boost::asio;
namespace beast = boost::beast;

namespace {

// Another attempt would end alike: this is no failure of the network.
void require_trust(const Address& address, const boost::system::error_code& handshake) {
  require<ConfigError>(
      handshake.category() != asio::error::get_ssl_category() ||
          ERR_GET_REASON(static_cast<unsigned long>(handshake.value())) != SSL_R_CERTIFICATE_VERIFY_FAILED,
      "the certificate of https://{}:{} is not trusted ({}): SSL_CERT_FILE may name a file with "
      "the certificate of its issuer",
      address.host, address.port, handshake.message());
}

}  // namespace

// The socket, and the loop that its operations run in until they end or their time is up.
struct Client::Connection {
  explicit Connection(bool encrypted) {
    if (encrypted) tls.emplace(client_tls_context());
    stream.emplace(asio::ip::tcp::socket(loop), tls ? &*tls : nullptr);
  }

  asio::io_context loop;
  std::optional<asio::ssl::context> tls;
  std::optional<Transport> stream;
  beast::flat_buffer buffer;

  // Starts an operation and waits for its end.
  template <class Start>
  boost::system::error_code wait(std::chrono::steady_clock::time_point deadline, Start&& start) {
    boost::system::error_code result = asio::error::operation_aborted;
    stream->tcp().expires_at(deadline);
    start([&result](boost::system::error_code error, auto&&...) { result = error; });
    loop.restart();
    loop.run();
    return result;
  }
};

Address parse_address(const std::string& url) {
  constexpr std::string_view kPlain = "http://", kEncrypted = "https://";
  constexpr const char* kExpected = "'{}' is no address: expected http://HOST:PORT/v1 or https://HOST/v1";
  Address out;
  out.encrypted = url.starts_with(kEncrypted);
  require<ConfigError>(out.encrypted || url.starts_with(kPlain), kExpected, url);
  const std::string rest = url.substr((out.encrypted ? kEncrypted : kPlain).size());
  const std::string authority = rest.substr(0, rest.find('/'));
  out.path = authority.size() == rest.size() ? "" : rest.substr(authority.size());
  while (out.path.ends_with('/')) out.path.pop_back();
  const std::size_t bracket = authority.rfind(']'), colon = authority.rfind(':');
  const bool port = colon != std::string::npos && (bracket == std::string::npos || colon > bracket);
  out.host = authority.substr(0, port ? colon : std::string::npos);
  out.port = port ? authority.substr(colon + 1) : out.encrypted ? "443" : "80";
  if (out.host.starts_with('[') && out.host.ends_with(']'))
    out.host = out.host.substr(1, out.host.size() - 2);
  const bool digits = !out.port.empty() && out.port.size() <= 5 &&
                      out.port.find_first_not_of("0123456789") == std::string::npos;
  require<ConfigError>(!out.host.empty() && digits && std::stoi(out.port) <= 65535, kExpected, url);
  return out;
}

Client::Client(Address address, std::chrono::milliseconds timeout)
    : address_(std::move(address)), timeout_(timeout) {}
Client::~Client() = default;

Reply Client::get(const std::string& path, const Headers& headers) { return ask({"GET", path, {}, headers}); }
Reply Client::post(const std::string& path, const std::string& json, const Headers& headers) {
  return ask({"POST", path, json, headers});
}
Reply Client::stream(const std::string& path, const std::string& json, const Headers& headers,
                     const Piece& piece) {
  try {
    return ask({"POST", path, json, headers, &piece});
  } catch (...) {
    connection_.reset();
    throw;
  }
}

Reply Client::ask(const Question& question) {
  const bool kept = connection_ != nullptr;
  bool begun = false;
  try {
    return exchange(question, begun);
  } catch (const IoError&) {
    connection_.reset();
    if (!kept || begun) throw;
  }
  return exchange(question, begun);  // the server had closed the connection that was kept
}

Reply Client::exchange(const Question& question, bool& begun) {
  const auto& [method, path, body, headers, piece] = question;
  const auto deadline = std::chrono::steady_clock::now() + timeout_;
  const auto check = [&](const boost::system::error_code& error) {
    if (!error) return;
    connection_.reset();
    fail<IoError>("{}://{}:{}{}{}: {}", address_.encrypted ? "https" : "http", address_.host, address_.port,
                  address_.path, question.path, error.message());
  };
  if (!connection_) {
    connection_ = std::make_unique<Connection>(address_.encrypted);
    boost::system::error_code error;
    asio::ip::tcp::resolver resolver(connection_->loop);
    const auto places = resolver.resolve(address_.host, address_.port, error);
    check(error);
    Transport& stream = *connection_->stream;
    check(
        connection_->wait(deadline, [&](auto done) { stream.tcp().async_connect(places, std::move(done)); }));
    stream.tcp().socket().set_option(asio::ip::tcp::no_delay(true), error);
    if (address_.encrypted) {
      if (!stream.expect_host(address_.host)) check(asio::error::invalid_argument);
      error = connection_->wait(deadline, [&](auto done) {
        stream.async_handshake(asio::ssl::stream_base::client, std::move(done));
      });
      require_trust(address_, error);
      check(error);
    }
  }
  namespace message = beast::http;
  message::request<message::string_body> request(message::string_to_verb(method), address_.path + path, 11);
  request.set(message::field::host, address_.host + ":" + address_.port);
  for (const auto& [name, value] : headers) request.set(name, value);
  if (!body.empty()) request.set(message::field::content_type, "application/json");
  request.body() = body;
  request.prepare_payload();
  check(connection_->wait(
      deadline, [&](auto done) { message::async_write(*connection_->stream, request, std::move(done)); }));
  message::response_parser<message::string_body> parser;
  parser.body_limit(std::uint64_t{1} << 30);
  const auto read = [&](auto start) {
    check(connection_->wait(deadline, [&](auto done) {
      start(*connection_->stream, connection_->buffer, parser, std::move(done));
    }));
  };
  read([](auto&&... parts) { message::async_read_header(std::forward<decltype(parts)>(parts)...); });
  begun = true;
  const bool in_pieces = piece != nullptr && parser.get().result_int() == 200;
  while (in_pieces && !parser.is_done()) {
    read([](auto&&... parts) { message::async_read_some(std::forward<decltype(parts)>(parts)...); });
    (*piece)(parser.get().body());
    parser.get().body().clear();
  }
  if (!in_pieces) read([](auto&&... parts) { message::async_read(std::forward<decltype(parts)>(parts)...); });
  const auto& answer = parser.get();
  Reply out;
  out.status = static_cast<int>(answer.result_int());
  out.body = answer.body();
  for (const auto& field : answer)
    out.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  if (!answer.keep_alive()) connection_.reset();
  return out;
}

}  // namespace stoa::serve::http

// The bytes of a connection, as they are or encrypted (TLS): a stream as Asio and Beast expect one, with
// Beast's deadlines.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/ssl/stream_base.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <optional>
#include <string>
#include <utility>

namespace stoa::serve::http {

// What TLS of a client needs: the authorities that this machine trusts (SSL_CERT_FILE names others).
boost::asio::ssl::context client_tls_context();
// What TLS of a server needs: PEM files of its certificate, with those of its issuers behind it, and of its
// key. IoError: they cannot be read; ConfigError: they are none, or do not belong together.
boost::asio::ssl::context tls_context(const std::string& certificate, const std::string& key);

class Transport {
 public:
  using executor_type = boost::beast::tcp_stream::executor_type;

  // `tls`: none, or of an encrypted connection; it outlives this.
  Transport(boost::asio::ip::tcp::socket socket, boost::asio::ssl::context* tls) : tcp_(std::move(socket)) {
    if (tls != nullptr) tls_.emplace(tcp_, *tls);
  }

  executor_type get_executor() { return tcp_.get_executor(); }
  boost::beast::tcp_stream& tcp() { return tcp_; }
  bool encrypted() const { return tls_.has_value(); }

  template <class Buffers, class Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
    if (tls_)
      tls_->async_read_some(buffers, std::forward<Handler>(handler));
    else
      tcp_.async_read_some(buffers, std::forward<Handler>(handler));
  }
  template <class Buffers, class Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
    if (tls_)
      tls_->async_write_some(buffers, std::forward<Handler>(handler));
    else
      tcp_.async_write_some(buffers, std::forward<Handler>(handler));
  }
  // A client wants the certificate of `host`, a name or an address. False: no such name can be asked for.
  bool expect_host(const std::string& host);
  // The first and the last messages of an encrypted connection.
  template <class Handler>
  void async_handshake(boost::asio::ssl::stream_base::handshake_type side, Handler&& handler) {
    tls_->async_handshake(side, std::forward<Handler>(handler));
  }
  template <class Handler>
  void async_shutdown(Handler&& handler) {
    tls_->async_shutdown(std::forward<Handler>(handler));
  }

 private:
  boost::beast::tcp_stream tcp_;
  std::optional<boost::asio::ssl::stream<boost::beast::tcp_stream&>> tls_;
};

}  // namespace stoa::serve::http

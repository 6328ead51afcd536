#include "serve/http/transport.h"

#include <openssl/ssl.h>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <cstddef>
#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace stoa::serve::http {

namespace ssl = boost::asio::ssl;

namespace {

constexpr auto kOptions = ssl::context::default_workarounds | ssl::context::no_sslv2 |
                          ssl::context::no_sslv3 | ssl::context::no_tlsv1 | ssl::context::no_tlsv1_1;

}  // namespace

ssl::context client_tls_context() {
  ssl::context out(ssl::context::tls_client);
  out.set_options(kOptions);
  out.set_default_verify_paths();
  out.set_verify_mode(ssl::verify_peer);
  return out;
}

bool Transport::expect_host(const std::string& host) {
  boost::system::error_code error;
  boost::asio::ip::make_address(host, error);
  const bool name = static_cast<bool>(error);
  tls_->set_verify_callback(ssl::host_name_verification(host), error);
  return !error && (!name || SSL_set_tlsext_host_name(tls_->native_handle(), host.c_str()) == 1);
}

ssl::context tls_context(const std::string& certificate, const std::string& key) {
  for (const auto& [option, path] :
       {std::pair{"--ssl-certfile", certificate}, std::pair{"--ssl-keyfile", key}}) {
    std::error_code ignored;
    require<IoError>(std::filesystem::is_regular_file(path, ignored) && std::ifstream(path).good(),
                     "{}: cannot read '{}'", option, path);
  }
  ssl::context out(ssl::context::tls_server);
  out.set_options(kOptions);
  boost::system::error_code error;
  // A key that is encrypted is not asked for at the terminal.
  out.set_password_callback([](std::size_t, ssl::context::password_purpose) { return std::string(); }, error);
  out.use_certificate_chain_file(certificate, error);
  require<ConfigError>(!error, "--ssl-certfile '{}': no certificate in PEM form ({})", certificate,
                       error.message());
  out.use_private_key_file(key, ssl::context::pem, error);
  require<ConfigError>(
      !error, "--ssl-keyfile '{}': no unencrypted key in PEM form that belongs to the certificate ({})", key,
      error.message());
  require<ConfigError>(SSL_CTX_check_private_key(out.native_handle()) == 1,
                       "--ssl-keyfile '{}': the key does not belong to the certificate", key);
  return out;
}

}  // namespace stoa::serve::http

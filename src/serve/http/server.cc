#include "serve/http/server.h"

#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <thread>

#include "base/error.h"
#include "base/timing.h"
#include "serve/http/session.h"

namespace stoa::serve::http {

namespace asio = boost::asio;
using asio::ip::tcp;

struct Server::State : std::enable_shared_from_this<Server::State> {
  State(const ServerOptions& options, Handler handler, std::function<void(const Served&)> served)
      : context(std::make_shared<SessionContext>(options, std::move(handler), std::move(served))),
        acceptor(asio::make_strand(io)),
        pause(acceptor.get_executor()) {
    if (!options.certificate.empty()) context->tls.emplace(tls_context(options.certificate, options.key));
  }

  void listen() {
    const ServerOptions& o = context->options;
    boost::system::error_code error;
    tcp::resolver resolver(io);
    const auto found = resolver.resolve(o.host, std::to_string(o.port),
                                        tcp::resolver::passive | tcp::resolver::numeric_service, error);
    require<IoError>(!error && !found.empty(), "--host {}: no address of this machine ({})", o.host,
                     error.message());
    const tcp::endpoint where = found.begin()->endpoint();
    acceptor.open(where.protocol(), error);
    if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor.bind(where, error);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
    require<IoError>(!error, "cannot listen on {} port {}: {}", o.host, o.port, error.message());
  }

  void accept() {
    acceptor.async_accept(asio::make_strand(io), [this](boost::system::error_code error, tcp::socket socket) {
      if (error == asio::error::operation_aborted || context->draining) return;
      if (error) {  // no descriptors left: later
        pause.expires_after(std::chrono::milliseconds(50));
        pause.async_wait([this](boost::system::error_code stopped) {
          if (!stopped) accept();
        });
        return;
      }
      bool room = false;
      {
        const std::lock_guard lock(context->mutex);
        room = context->sessions.size() < context->options.connections;
      }
      if (room) std::make_shared<Session>(std::move(socket), context)->start();
      accept();
    });
  }

  template <class Body>
  void each_session(Body body) {
    std::vector<std::shared_ptr<Session>> all;
    {
      const std::lock_guard lock(context->mutex);
      for (Session* session : context->sessions)
        if (auto held = session->weak_from_this().lock()) all.push_back(std::move(held));
    }
    for (const auto& session : all) body(*session);
  }

  const std::shared_ptr<SessionContext> context;
  asio::io_context& io = context->io;
  // On a strand: it is closed while connections come, maybe twice.
  tcp::acceptor acceptor;
  asio::steady_timer pause;
  std::vector<std::thread> threads;
};

Server::Server(const ServerOptions& options, Handler handler, std::function<void(const Served&)> served)
    : state_(std::make_shared<State>(options, std::move(handler), std::move(served))) {
  state_->listen();
}

Server::~Server() { stop(); }

std::uint16_t Server::port() const { return state_->acceptor.local_endpoint().port(); }

void Server::start() {
  state_->accept();
  for (int i = 0; i < kIoThreads; ++i) state_->threads.emplace_back([state = state_] { state->io.run(); });
}

void Server::post(std::function<void()> work) { asio::post(state_->context->workers, std::move(work)); }

void Server::drain() {
  state_->context->draining = true;
  asio::post(state_->acceptor.get_executor(), [state = state_] {
    boost::system::error_code ignored;
    state->acceptor.close(ignored);
    state->pause.cancel();
  });
  state_->each_session([](Session& session) { session.close_when_idle(); });
}

bool Server::wait_idle(std::chrono::duration<double> patience) {
  const auto begin = std::chrono::steady_clock::now();
  while (state_->context->busy > 0) {
    if (seconds_since(begin) > patience.count()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

void Server::stop() {
  if (state_->threads.empty()) return;
  drain();
  {
    const std::lock_guard lock(state_->context->work_mutex);
    state_->context->stopped = true;
  }
  state_->context->workers.join();
  state_->each_session([](Session& session) { session.close_now(); });
  for (auto& thread : state_->threads) thread.join();
  state_->threads.clear();
}

std::size_t Server::connections() const {
  const std::lock_guard lock(state_->context->mutex);
  return state_->context->sessions.size();
}

}  // namespace stoa::serve::http

#include "comm/tcp/tcp_link.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cstdlib>
#include <list>
#include <memory>
#include <vector>

#include "base/error.h"
#include "comm/tcp/connection.h"

namespace stoa::comm {
namespace {

constexpr int kLargestTag = (1 << 30) - 1;
constexpr auto kFarewell = std::chrono::seconds(10);  // of the good end, for the slowest

class TcpLink final : public ProcessLink {
 public:
  TcpLink(const MeetingPlace& place, Meeting meeting) : rank_(place.rank), hosts_(std::move(meeting.hosts)) {
    for (int r = 0; r < size(); ++r)
      connections_.push_back(
          r == rank_ ? nullptr : std::make_unique<Connection>(std::move(meeting.sockets[r]), r, anyone_));
    const std::string& host = hosts_[rank_];
    on_this_host_ = static_cast<int>(std::count(hosts_.begin(), hosts_.end(), host));
    const auto lower = std::count(hosts_.begin(), hosts_.begin() + rank_, host);
    local_rank_ = place.local_rank.value_or(static_cast<int>(lower));
  }
  ~TcpLink() override { part(kFarewell); }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(hosts_.size()); }
  int ranks_on_this_host() const override { return on_this_host_; }
  int rank_on_this_host() const override { return local_rank_; }
  int largest_tag() const override { return kLargestTag; }

  Handle send(const void* data, std::size_t bytes, int peer, int tag) override {
    auto transfer = std::make_unique<Transfer>(
        Transfer{static_cast<std::byte*>(const_cast<void*>(data)), bytes, tag, peer});
    connection(peer).send(*transfer);
    return transfer.release();
  }

  Handle receive(void* data, std::size_t bytes, int peer, int tag) override {
    auto transfer = std::make_unique<Transfer>(Transfer{static_cast<std::byte*>(data), bytes, tag, peer});
    if (peer >= 0)
      connection(peer).receive(*transfer);
    else if (std::none_of(connections_.begin(), connections_.end(),
                          [&](const auto& c) { return c && c->take(*transfer); }))
      anyone_.push_back(transfer.get());
    return transfer.release();
  }

  std::optional<Done> test(Handle handle) override {
    auto* const transfer = static_cast<Transfer*>(handle);
    if (!transfer->done) progress();
    if (!transfer->done) transfer->problem = trouble(*transfer);
    if (!transfer->done && transfer->problem.empty()) return std::nullopt;
    const Transfer end = *transfer;
    cancel(handle);
    require<CommError>(end.problem.empty(), "{}", end.problem);
    return Done{end.received, end.peer};
  }

  void cancel(Handle handle) noexcept override {
    const std::unique_ptr<Transfer> transfer(static_cast<Transfer*>(handle));
    if (transfer->done) return;
    anyone_.remove(transfer.get());
    for (const auto& c : connections_)
      if (c) c->withdraw(*transfer);
  }

  [[noreturn]] void end_job(int status, std::chrono::milliseconds grace) noexcept override {
    part(grace);
    std::_Exit(status);
  }

 private:
  Connection& connection(int peer) {
    require<InternalError>(peer >= 0 && peer < size() && peer != rank_,
                           "rank {} has no connection to rank {}", rank_, peer);
    return *connections_[peer];
  }

  // Moves all messages on as far as they go.
  void progress(int milliseconds = 0) {
    entries_.clear();
    for (const auto& c : connections_)
      entries_.push_back({c && c->lost().empty() ? c->fd() : -1,
                          static_cast<short>(c && c->wants_to_write() ? POLLIN | POLLOUT : POLLIN), 0});
    if (::poll(entries_.data(), entries_.size(), milliseconds) <= 0) return;
    for (std::size_t r = 0; r < entries_.size(); ++r) {
      if (entries_[r].revents & POLLOUT) connections_[r]->write();
      if (entries_[r].revents & ~POLLOUT) connections_[r]->read();
    }
  }

  // Why this message will not come, or go.
  std::string trouble(const Transfer& transfer) const {
    for (int r = 0; r < size(); ++r) {
      if (!connections_[r] || (transfer.peer >= 0 && transfer.peer != r)) continue;
      const Connection& c = *connections_[r];
      const std::string name = fmt::format("rank {}@{}", r, hosts_[r].substr(0, hosts_[r].find('.')));
      if (c.ended() && transfer.peer >= 0) return fmt::format("{} has ended its run", name);
      if (!c.ended() && !c.lost().empty())
        return fmt::format("the connection to {} was lost: {}", name, c.lost());
    }
    return {};
  }

  // Says that nothing follows and waits until all have said so, or `patience` is over.
  void part(std::chrono::milliseconds patience) noexcept {
    for (const auto& c : connections_)
      if (c && c->lost().empty()) c->say_end();
    const auto deadline = std::chrono::steady_clock::now() + patience;
    const auto open = [](const auto& c) {
      return c && c->lost().empty() && (c->wants_to_write() || !c->ended());
    };
    while (std::any_of(connections_.begin(), connections_.end(), open) &&
           std::chrono::steady_clock::now() < deadline)
      progress(10);
  }

  const int rank_;
  const std::vector<std::string> hosts_;
  int on_this_host_ = 1, local_rank_ = 0;
  std::list<Transfer*> anyone_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<pollfd> entries_;
};

}  // namespace

std::unique_ptr<ProcessLink> open_tcp_link(const MeetingPlace& place, std::string_view program,
                                           const Patience& patience) {
  return std::make_unique<TcpLink>(place, meet(place, program, patience));
}

}  // namespace stoa::comm

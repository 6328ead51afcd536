#include "comm/processes/notices.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace stoa::comm {
namespace {

constexpr int kTag = 0;
constexpr std::size_t kMostNamed = 256, kMostText = 2048;

struct Head {
  std::uint32_t kind = 0, number = 0, working = 0;
  std::int32_t code = 0;
  std::uint32_t ranks = 0, text = 0;  // that follow: int32 each, bytes
};
constexpr std::size_t kMostBytes = sizeof(Head) + kMostNamed * sizeof(std::int32_t) + kMostText;

std::string bytes_of(const Notice& notice) {
  Head head;
  head.kind = static_cast<std::uint32_t>(notice.kind);
  head.number = notice.number;
  head.working = notice.state.working ? 1 : 0;
  head.code = notice.code;
  head.ranks = static_cast<std::uint32_t>(std::min(notice.state.awaited.size(), kMostNamed));
  head.text = static_cast<std::uint32_t>(std::min(notice.state.text.size(), kMostText));
  std::string bytes(reinterpret_cast<const char*>(&head), sizeof head);
  bytes.append(reinterpret_cast<const char*>(notice.state.awaited.data()), head.ranks * sizeof(std::int32_t));
  bytes.append(notice.state.text, 0, head.text);
  return bytes;
}

Notice notice_in(const char* bytes, std::size_t count, int from) {
  Head head;
  require<CommError>(count >= sizeof head, "a notice of rank {} has {} bytes", from, count);
  std::memcpy(&head, bytes, sizeof head);
  require<CommError>(head.ranks <= kMostNamed && head.text <= kMostText &&
                         count == sizeof head + head.ranks * sizeof(std::int32_t) + head.text,
                     "a notice of rank {} has {} bytes", from, count);
  Notice notice{static_cast<Notice::Kind>(head.kind), from, head.code, head.number};
  notice.state.working = head.working != 0;
  notice.state.awaited.resize(head.ranks);
  const char* at = bytes + sizeof head;
  if (head.ranks > 0) std::memcpy(notice.state.awaited.data(), at, head.ranks * sizeof(std::int32_t));
  notice.state.text.assign(at + head.ranks * sizeof(std::int32_t), head.text);
  return notice;
}

}  // namespace

Notices::Notices(ProcessLink& link) : link_(link), incoming_(kMostBytes) { listen(); }

Notices::~Notices() {
  if (handle_) link_.cancel(handle_);
  for (const Outgoing& out : outgoing_) link_.cancel(out.handle);
}

void Notices::listen() { handle_ = link_.receive(incoming_.data(), incoming_.size(), -1, kTag); }

void Notices::send(int peer, const Notice& notice) {
  all_sent();
  Outgoing& out = outgoing_.emplace_back(Outgoing{bytes_of(notice), nullptr});
  out.handle = link_.send(out.bytes.data(), out.bytes.size(), peer, kTag);
}

std::optional<Notice> Notices::take() {
  if (!handle_) return std::nullopt;
  std::optional<ProcessLink::Done> done;
  try {
    done = link_.test(handle_);
  } catch (const CommError&) {
    handle_ = nullptr;
    throw;
  }
  if (!done) return std::nullopt;
  handle_ = nullptr;
  Notice notice = notice_in(incoming_.data(), done->bytes, done->peer);
  listen();
  return notice;
}

bool Notices::all_sent() {
  std::erase_if(outgoing_, [&](const Outgoing& out) {
    try {
      return link_.test(out.handle).has_value();
    } catch (const CommError&) {
      return true;
    }
  });
  return outgoing_.empty();
}

}  // namespace stoa::comm

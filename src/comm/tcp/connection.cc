#include "comm/tcp/connection.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace stoa::comm {
namespace {

constexpr std::uint32_t kNobody = UINT32_MAX;  // a tag that no receive uses: the message is dropped

}  // namespace

bool Connection::fits(Transfer& transfer, std::size_t bytes) {
  transfer.done = bytes > transfer.bytes;
  if (transfer.done)
    transfer.problem = fmt::format("a message of {} bytes from rank {} does not fit where {} were expected",
                                   bytes, transfer.peer, transfer.bytes);
  return !transfer.done;
}

void Connection::send(Transfer& transfer) {
  Frame frame{Kind::kMessage, static_cast<std::uint32_t>(transfer.tag), transfer.bytes, 0};
  if (transfer.bytes > kLargest) {
    frame.kind = Kind::kOffer;
    frame.id = ++ids_;
    offered_[frame.id] = &transfer;
    push(frame);
  } else {
    push(frame, &transfer);
  }
}

void Connection::push(Frame frame, Transfer* transfer) {
  const bool content = frame.kind == Kind::kMessage || frame.kind == Kind::kContent;
  outgoing_.push_back(
      {frame, content ? transfer->data : nullptr, content ? transfer->bytes : 0, 0, transfer});
  if (outgoing_.size() == 1) write();
}

void Connection::say_end() { push({Kind::kEnd, 0, 0, 0}); }

void Connection::receive(Transfer& transfer) {
  if (!take(transfer)) awaited_.push_back(&transfer);
}

bool Connection::take(Transfer& transfer) {
  const auto early = std::find_if(early_.begin(), early_.end(), [&](const Early& e) {
    return e.taken_by == nullptr && e.frame.tag == static_cast<std::uint32_t>(transfer.tag);
  });
  if (early == early_.end()) return false;
  transfer.peer = peer_;
  if (early->frame.kind == Kind::kOffer) {
    accept(transfer, early->frame);
    early_.erase(early);
  } else if (!early->complete) {
    early->taken_by = &transfer;
  } else {
    if (fits(transfer, early->frame.bytes)) {
      if (early->frame.bytes > 0) std::memcpy(transfer.data, early->content.get(), early->frame.bytes);
      transfer.received = early->frame.bytes;
      transfer.done = true;
    }
    early_.erase(early);
  }
  return true;
}

void Connection::accept(Transfer& transfer, const Frame& offer) {
  if (!fits(transfer, offer.bytes)) return;
  accepted_[offer.id] = &transfer;
  push({Kind::kAccept, offer.tag, offer.bytes, offer.id});
}

void Connection::withdraw(Transfer& transfer) noexcept {
  awaited_.remove(&transfer);
  std::erase_if(offered_, [&](const auto& entry) { return entry.second == &transfer; });
  for (auto& [id, accepted] : accepted_)
    if (accepted == &transfer) accepted = nullptr;
  for (Early& early : early_)
    if (early.taken_by == &transfer) {
      early.taken_by = nullptr;
      early.frame.tag = kNobody;
    }
  if (filling_ == &transfer) {
    filling_ = nullptr;
    place_ = nullptr;
  }
  for (auto it = outgoing_.begin(); it != outgoing_.end();) {
    if (it->transfer != &transfer) {
      ++it;
    } else if (it->sent == 0) {
      it = outgoing_.erase(it);
    } else {  // a frame partly sent must be completed, from a copy of its data
      it->copy = std::make_unique_for_overwrite<std::byte[]>(it->bytes);
      if (it->bytes > 0) std::memcpy(it->copy.get(), it->data, it->bytes);
      it->data = it->copy.get();
      it->transfer = nullptr;
      ++it;
    }
  }
}

void Connection::lose(std::string why) {
  lost_ = std::move(why);
  outgoing_.clear();
  left_ = 0;
}

void Connection::write() {
  while (!outgoing_.empty() && lost_.empty()) {
    Outgoing& out = outgoing_.front();
    iovec parts[2];
    int count = 0;
    std::size_t done = out.sent;
    if (done < sizeof(Frame)) {
      parts[count++] = {reinterpret_cast<std::byte*>(&out.frame) + done, sizeof(Frame) - done};
      done = 0;
    } else {
      done -= sizeof(Frame);
    }
    if (done < out.bytes) parts[count++] = {const_cast<std::byte*>(out.data) + done, out.bytes - done};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = static_cast<std::size_t>(count);
    const ssize_t n = ::sendmsg(socket_.fd(), &message, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0) {
      // The peer's last messages may still be readable, and read() then says why the peer is gone.
      if (errno != EPIPE && errno != ECONNRESET) lose(std::strerror(errno));
      return;
    }
    out.sent += static_cast<std::size_t>(n);
    if (out.sent < sizeof(Frame) + out.bytes) continue;
    if (out.transfer != nullptr) out.transfer->done = true;
    outgoing_.pop_front();
  }
}

void Connection::read() {
  for (std::size_t total = 0; total < kAtOnce && lost_.empty();) {
    const bool straight = held_ == 0 && place_ != nullptr && left_ >= kBuffer;
    std::byte* const to = straight ? place_ : buffer_.data() + held_;
    const ssize_t n = ::recv(socket_.fd(), to, straight ? left_ : kBuffer - held_, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) return lose(n == 0 || errno == ECONNRESET ? "its process is gone" : std::strerror(errno));
    total += static_cast<std::size_t>(n);
    if (straight) {
      place_ += n;
      left_ -= static_cast<std::size_t>(n);
      if (left_ == 0) end_content();
      continue;
    }
    held_ += static_cast<std::size_t>(n);
    std::size_t used = 0;
    while (lost_.empty())
      if (const std::size_t more = parse(buffer_.data() + used, held_ - used))
        used += more;
      else
        break;
    held_ -= used;
    if (held_ > 0 && used > 0) std::memmove(buffer_.data(), buffer_.data() + used, held_);
  }
}

// Bytes that were used; 0 when more are needed.
std::size_t Connection::parse(const std::byte* data, std::size_t bytes) {
  if (left_ > 0) {
    const std::size_t part = std::min(left_, bytes);
    if (place_ != nullptr) {
      std::memcpy(place_, data, part);
      place_ += part;
    }
    left_ -= part;
    if (part > 0 && left_ == 0) end_content();
    return part;
  }
  if (bytes < sizeof(Frame)) return 0;
  Frame frame;
  std::memcpy(&frame, data, sizeof frame);
  hear(frame);
  return sizeof frame;
}

Transfer* Connection::awaited(int tag) {
  for (std::list<Transfer*>* const list : {&awaited_, &anyone_}) {
    const auto it =
        std::find_if(list->begin(), list->end(), [&](const Transfer* t) { return t->tag == tag; });
    if (it == list->end()) continue;
    Transfer* const transfer = *it;
    list->erase(it);
    transfer->peer = peer_;
    return transfer;
  }
  return nullptr;
}

void Connection::hear(const Frame& frame) {
  switch (frame.kind) {
    case Kind::kMessage: {
      Transfer* const transfer = awaited(static_cast<int>(frame.tag));
      if (transfer != nullptr) return begin_content(frame, fits(*transfer, frame.bytes) ? transfer : nullptr);
      Early& early = early_.emplace_back(Early{frame});
      early.content = std::make_unique_for_overwrite<std::byte[]>(frame.bytes);
      storing_ = &early;
      left_ = frame.bytes;
      place_ = early.content.get();
      if (left_ == 0) end_content();
      return;
    }
    case Kind::kOffer:
      if (Transfer* const transfer = awaited(static_cast<int>(frame.tag)))
        accept(*transfer, frame);
      else
        early_.push_back({frame});
      return;
    case Kind::kAccept:
      // An offer that was withdrawn is no longer in the map.
      if (const auto node = offered_.extract(frame.id))
        push({Kind::kContent, frame.tag, frame.bytes, frame.id}, node.mapped());
      return;
    case Kind::kContent: {
      const auto node = accepted_.extract(frame.id);
      return begin_content(frame, node ? node.mapped() : nullptr);
    }
    case Kind::kEnd:
      ended_ = true;
      return;
  }
  lose("it sent something that is not a message");
}

void Connection::begin_content(const Frame& frame, Transfer* transfer) {
  filling_ = transfer;
  left_ = frame.bytes;
  place_ = transfer != nullptr ? transfer->data : nullptr;
  if (transfer != nullptr) transfer->received = frame.bytes;
  if (left_ == 0) end_content();
}

void Connection::end_content() {
  if (filling_ != nullptr) filling_->done = true;
  if (storing_ != nullptr) {
    Early& early = *storing_;
    early.complete = true;
    if (Transfer* const transfer = std::exchange(early.taken_by, nullptr)) take(*transfer);
  }
  filling_ = nullptr;
  storing_ = nullptr;
  place_ = nullptr;
}

}  // namespace stoa::comm

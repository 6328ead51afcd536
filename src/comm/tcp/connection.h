// One end of a connection between two ranks: messages by tag, in both directions, without waiting.
//
// A message is a frame of 24 bytes and its content. A large one is only offered first; its content is sent
// once the receiver has posted a buffer, so that large messages are never held in memory unrequested.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "comm/tcp/socket.h"

namespace stoa::comm {

// A message that a rank sends or waits for.
struct Transfer {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  int tag = 0;
  int peer = -1;  // -1: from anyone
  bool done = false;
  std::size_t received = 0;
  std::string problem = {};
};

class Connection {
 public:
  // `anyone`: receives from any rank, in the order in which they were posted; shared by all connections.
  Connection(Socket socket, int peer, std::list<Transfer*>& anyone)
      : socket_(std::move(socket)), peer_(peer), anyone_(anyone), buffer_(kBuffer) {}

  int fd() const { return socket_.fd(); }
  bool wants_to_write() const { return !outgoing_.empty(); }
  // Why the connection was lost; empty while it works.
  const std::string& lost() const { return lost_; }
  bool ended() const { return ended_; }  // the peer announced the end of its messages

  void send(Transfer& transfer);
  void receive(Transfer& transfer);
  // Completes `transfer` from a message that arrived before it was posted. False if there is none.
  bool take(Transfer& transfer);
  void withdraw(Transfer& transfer) noexcept;
  // Announces that no message follows.
  void say_end();

  // Read and write as much as is possible without blocking.
  void read();
  void write();

 private:
  enum class Kind : std::uint32_t { kMessage = 1, kOffer, kAccept, kContent, kEnd };
  struct Frame {
    Kind kind;
    std::uint32_t tag;
    std::uint64_t bytes;  // of the message
    std::uint64_t id;     // of an offer
  };
  struct Outgoing {
    Frame frame;
    const std::byte* data = nullptr;
    std::size_t bytes = 0;  // of content
    std::size_t sent = 0;   // with the frame
    Transfer* transfer = nullptr;
    std::unique_ptr<std::byte[]> copy = {};  // of data whose sender has withdrawn
  };
  // A message that arrived before a receive was posted.
  struct Early {
    Frame frame;
    std::unique_ptr<std::byte[]> content = {};
    bool complete = false;
    Transfer* taken_by = nullptr;
  };
  static constexpr std::size_t kBuffer = 64 * 1024;
  static constexpr std::size_t kLargest = 256 * 1024;      // sent without an offer
  static constexpr std::size_t kAtOnce = 8 * 1024 * 1024;  // read before other connections are served

  void push(Frame frame, Transfer* transfer = nullptr);
  void lose(std::string why);
  void hear(const Frame& frame);
  void begin_content(const Frame& frame, Transfer* transfer);
  void end_content();
  std::size_t parse(const std::byte* data, std::size_t bytes);
  Transfer* awaited(int tag);
  void accept(Transfer& transfer, const Frame& offer);
  static bool fits(Transfer& transfer, std::size_t bytes);

  Socket socket_;
  const int peer_;
  std::list<Transfer*>& anyone_;
  std::list<Transfer*> awaited_;
  std::deque<Outgoing> outgoing_;
  std::unordered_map<std::uint64_t, Transfer*> offered_;   // by our ids
  std::unordered_map<std::uint64_t, Transfer*> accepted_;  // by theirs
  std::list<Early> early_;
  std::uint64_t ids_ = 0;

  std::vector<std::byte> buffer_;
  std::size_t held_ = 0;  // bytes in it
  // The content that is being received.
  std::size_t left_ = 0;
  std::byte* place_ = nullptr;  // nullptr: the content is discarded
  Transfer* filling_ = nullptr;
  Early* storing_ = nullptr;

  std::string lost_;
  bool ended_ = false;
};

}  // namespace stoa::comm

#include "comm/processes/process_world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/processes/notices.h"
#include "comm/processes/process_link.h"
#include "device/host/inline_stream.h"

namespace stoa::comm {
namespace {

// Rank 0 of two. Rank 1 sends back each message that it gets, until it fails: its notice of that and its end
// then arrive together, while rank 0 looks at one of its own messages.
class EchoLink final : public ProcessLink {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  int ranks_on_this_host() const override { return 2; }
  int rank_on_this_host() const override { return 0; }
  int largest_tag() const override { return 1 << 20; }

  Handle send(const void* data, std::size_t bytes, int, int tag) override {
    messages_.push_back({tag, std::string(static_cast<const char*>(data), bytes)});
    return &transfers_.emplace_back();
  }
  Handle receive(void* data, std::size_t, int, int tag) override {
    return &transfers_.emplace_back(Transfer{tag, static_cast<char*>(data)});
  }
  std::optional<Done> test(Handle handle) override {
    const Transfer transfer = *static_cast<Transfer*>(handle);
    if (transfer.tag < 0) return done(handle, 0);
    if (peer_fails_ && transfer.tag != kNotices) {
      end();
      cancel(handle);
      throw CommError("rank 1 has ended its run");
    }
    const auto message = std::find_if(messages_.begin(), messages_.end(),
                                      [&](const Message& m) { return m.tag == transfer.tag; });
    if (message == messages_.end()) return std::nullopt;
    const std::string text = message->text;
    messages_.erase(message);
    std::memcpy(transfer.data, text.data(), text.size());
    return done(handle, text.size());
  }
  void cancel(Handle handle) noexcept override {
    transfers_.remove_if([&](const Transfer& t) { return &t == handle; });
  }
  [[noreturn]] void end_job(int status, std::chrono::milliseconds) noexcept override { std::_Exit(status); }

  void fail_peer() { peer_fails_ = true; }

 private:
  static constexpr int kNotices = 0;
  struct Transfer {
    int tag = -1;  // of a message that is sent
    char* data = nullptr;
  };
  struct Message {
    int tag;
    std::string text;
  };

  Done done(Handle handle, std::size_t bytes) {
    cancel(handle);
    return {bytes, 1};
  }
  void end() {
    if (ended_) return;
    ended_ = true;
    EchoLink of_peer;
    Notices notices(of_peer);
    Notice failure{Notice::Kind::kFailure, -1, 3};
    failure.state.text = "rank 1 failed: the file is torn";
    notices.send(0, failure);
    messages_.splice(messages_.end(), of_peer.messages_);
  }

  bool peer_fails_ = false, ended_ = false;
  std::list<Transfer> transfers_;
  std::list<Message> messages_;
};

// The ranks that are left say why the first one ended, not only that it did.
TEST(ProcessWorldDeathTest, ANoticeThatComesWithTheEndIsHeard) {
  const auto run = [] {
    auto link = std::make_unique<EchoLink>();
    EchoLink& peer = *link;
    ProcessWorld world(std::move(link));
    const auto comm = world.create(0, "dp", std::vector<int>{0, 1});
    std::vector<float> x(8, 1.0f);
    InlineStream stream;
    peer.fail_peer();
    try {
      comm->all_reduce(TensorView(x.data(), DType::kF32, {8}), ReduceOp::kSum, stream)->wait();
    } catch (const CommError& error) {
      std::fprintf(stderr, "heard: %s\n", error.what());
      world.end_job(error);
    }
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(3), "heard: rank 1 failed: the file is torn");
}

}  // namespace
}  // namespace stoa::comm

// Wraps a communicator: members compare their requests, and the first difference is reported: of a collective
// before any data moves, of a transfer before the receiver continues with the received data.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <vector>

#include "comm/communicator.h"

namespace stoa::comm {

class CheckCommunicator final : public Communicator {
 public:
  // `data` moves the tensors, `control` (another communicator of the same group) the requests, so that their
  // orders never mix. The device of `control` is the host. `at_once`: a collective returns when all members
  // have asked for it, for a `data` whose operations must not change places with those of other groups.
  CheckCommunicator(std::unique_ptr<Communicator> data, std::unique_ptr<Communicator> control,
                    bool at_once = false);
  ~CheckCommunicator() override;

  int size() const override { return data_->size(); }
  int rank() const override { return data_->rank(); }
  std::unique_ptr<Event> all_reduce(TensorView data, ReduceOp op, Stream& stream) override;
  std::unique_ptr<Event> all_gather(TensorView in, TensorView out, Stream& stream) override;
  std::unique_ptr<Event> reduce_scatter(TensorView in, TensorView out, Stream& stream) override;
  std::unique_ptr<Event> all_to_all(TensorView in, TensorView out, Stream& stream) override;
  // Bytes of a row are compared, not the numbers of rows, which may differ.
  std::unique_ptr<Event> all_to_all_v(TensorView in, std::span<const std::int64_t> send_rows, TensorView out,
                                      std::span<const std::int64_t> receive_rows, Stream& stream) override;
  std::unique_ptr<Event> broadcast(TensorView data, int root, Stream& stream) override;
  std::unique_ptr<Event> send(TensorView data, int peer, Stream& stream) override;
  std::unique_ptr<Event> receive(TensorView data, int peer, Stream& stream) override;
  void barrier() override;
  void follow(const Activity* activity) override {
    data_->follow(activity);
    control_->follow(activity);
  }

  // What a member asks for, as it travels: operation, bytes, dtype, reduction or root, number in the
  // sequence.
  static constexpr int kFields = 5;
  using Record = std::array<std::int64_t, kFields>;
  struct Pending;

 private:
  friend class CheckCollective;
  friend class CheckTransfer;
  using Post = std::function<std::unique_ptr<Event>()>;

  std::unique_ptr<Event> collective(Record record, Stream& stream, Post post);
  void settle(Pending& pending);  // waits for the requests of all up to `pending`, and posts them
  bool try_settle(Pending& pending);
  // Blocks until the event of a transfer is ready. Meanwhile it posts collectives whose requests arrive: a
  // peer may need one of them before it reaches the operation for which this rank waits.
  void wait_for_transfer(Event& event);
  void post_front();  // the front's requests are here
  void compare(const Pending& receive) const;

  std::unique_ptr<Communicator> data_;
  std::unique_ptr<Communicator> control_;
  const bool at_once_;
  // Collectives requested but not yet posted, in order. A transfer is posted at once: the next operation of
  // its receiver may wait, in another group, until the sender has sent.
  std::deque<std::shared_ptr<Pending>> waiting_;
  std::int64_t collectives_ = 0;
  std::vector<std::int64_t> sent_, received_;
};

}  // namespace stoa::comm

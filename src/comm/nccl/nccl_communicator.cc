#include <map>

#include "base/error.h"
#include "comm/arguments.h"
#include "comm/nccl/nccl_rank.h"
#include "device/host/inline_stream.h"
#include "device/native_stream.h"

namespace stoa::comm {
namespace {

NcclType nccl_type_of(DType type) {
  switch (type) {
    case DType::kF64:
      return NcclType::kF64;
    case DType::kF32:
      return NcclType::kF32;
    case DType::kBF16:
      return NcclType::kBF16;
    case DType::kF16:
      return NcclType::kF16;
    case DType::kI64:
      return NcclType::kI64;
    case DType::kI32:
      return NcclType::kI32;
    case DType::kU8:
      return NcclType::kU8;
    case DType::kE4M3:
    case DType::kE5M2:  // live within a product
      break;
  }
  fail<InternalError>("elements of type {} are not sent between GPUs", name_of(type));
}

NcclReduce nccl_reduce_of(ReduceOp op) { return op == ReduceOp::kSum ? NcclReduce::kSum : NcclReduce::kMax; }

// wait() makes the stream that asked wait for the operation; the host does not block. Destruction has the
// same effect. An operation that was recorded into a graph has no event that the host could wait for.
class NcclEvent final : public Event {
 public:
  NcclEvent(std::shared_ptr<NcclRank> rank, std::shared_ptr<NcclRank::Operation> operation)
      : rank_(std::move(rank)), operation_(std::move(operation)) {}
  ~NcclEvent() override {
    try {
      operation_->order();
    } catch (const Error&) {
      // The device is down: the rank's next call says why.
    }
  }
  bool ready() const override {
    rank_->throw_if_failed();
    return operation_->recorded || operation_->done->ready();
  }
  void wait() override {
    rank_->throw_if_failed();
    operation_->order();
  }

 private:
  std::shared_ptr<NcclRank> rank_;
  std::shared_ptr<NcclRank::Operation> operation_;
};

// NCCL's end of a group.
class NcclLink {
 public:
  NcclLink(NcclRank& rank, const std::string& label) : rank_(rank), label_(label) {}
  ~NcclLink() {
    if (handle_ != nullptr) rank_.close(handle_);
  }
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;

  // The handle is valid once the enclosing group of NCCL calls has ended.
  void init(const NcclId& id, int size, int member) {
    rank_.check(rank_.api().init(&handle_, size, id, member), label_ + ": start");
  }
  void opened() { rank_.open(label_, handle_); }
  NcclHandle handle() const { return handle_; }

 private:
  NcclRank& rank_;
  const std::string& label_;
  NcclHandle handle_ = nullptr;
};

// To or from one peer, on a stream of its own.
struct NcclLane {
  NcclLane(NcclRank& rank, const std::string& label) : link(rank, label), stream(rank.make_stream()) {}
  NcclLink link;
  std::unique_ptr<Stream> stream;
};

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(std::shared_ptr<NcclRank> rank, std::unique_ptr<Communicator> host,
                   std::span<const Route> routes)
      : Communicator(host->label()), rank_(std::move(rank)), host_(std::move(host)), all_(*rank_, label()) {
    std::vector<NcclId> ids(1 + routes.size());
    if (host_->rank() == 0)
      for (NcclId& id : ids) check(api().unique_id(&id), "start");
    InlineStream stream;
    host_
        ->broadcast(
            TensorView(ids.data(), DType::kU8, {static_cast<std::int64_t>(ids.size() * sizeof(NcclId))}), 0,
            stream)
        ->wait();
    check(api().group_start(), "start");
    all_.init(ids[0], size(), this->rank());
    for (std::size_t r = 0; r < routes.size(); ++r) {
      const auto [from, to] = routes[r];
      if (from == this->rank()) open_lane(out_, to, ids[1 + r], kSender);
      if (to == this->rank()) open_lane(in_, from, ids[1 + r], kReceiver);
    }
    check(api().group_end(), "start");
    all_.opened();
    for (auto* const lanes : {&out_, &in_})
      for (auto& [peer, lane] : *lanes) lane->link.opened();
  }

  int size() const override { return host_->size(); }
  int rank() const override { return host_->rank(); }
  void follow(const Activity* activity) override {
    Communicator::follow(activity);
    host_->follow(activity);
  }
  void barrier() override { host_->barrier(); }

  std::unique_ptr<Event> all_reduce(TensorView data, ReduceOp op, Stream& stream) override {
    if (by_host(data)) return host_->all_reduce(data, op, stream);
    check_view(caller(), data, "all_reduce");
    return collective(op == ReduceOp::kSum ? "all_reduce(sum)" : "all_reduce(max)", data, stream,
                      [&](void* s) {
                        return api().all_reduce(data.data, data.data, count(data), nccl_type_of(data.dtype),
                                                nccl_reduce_of(op), all_.handle(), s);
                      });
  }
  std::unique_ptr<Event> all_gather(TensorView in, TensorView out, Stream& stream) override {
    if (by_host(in)) return host_->all_gather(in, out, stream);
    check_all_gather(caller(), in, out);
    return collective("all_gather", in, stream, [&](void* s) {
      return api().all_gather(in.data, out.data, count(in), nccl_type_of(in.dtype), all_.handle(), s);
    });
  }
  std::unique_ptr<Event> reduce_scatter(TensorView in, TensorView out, Stream& stream) override {
    if (by_host(in)) return host_->reduce_scatter(in, out, stream);
    check_reduce_scatter(caller(), in, out);
    return collective("reduce_scatter", in, stream, [&](void* s) {
      return api().reduce_scatter(in.data, out.data, count(out), nccl_type_of(in.dtype), NcclReduce::kSum,
                                  all_.handle(), s);
    });
  }
  std::unique_ptr<Event> all_to_all(TensorView in, TensorView out, Stream& stream) override {
    if (by_host(in)) return host_->all_to_all(in, out, stream);
    check_all_to_all(caller(), in, out);
    const std::vector<std::int64_t> each(static_cast<std::size_t>(size()), in.elements() / size());
    return exchange("all_to_all", in, each, out, each, stream);
  }
  std::unique_ptr<Event> all_to_all_v(TensorView in, std::span<const std::int64_t> send_rows, TensorView out,
                                      std::span<const std::int64_t> receive_rows, Stream& stream) override {
    if (by_host(in)) return host_->all_to_all_v(in, send_rows, out, receive_rows, stream);
    check_all_to_all_v(caller(), in, send_rows, out, receive_rows);
    const auto elements = [&](std::span<const std::int64_t> rows) {
      std::vector<std::int64_t> counts(rows.begin(), rows.end());
      for (std::int64_t& n : counts) n *= in.shape.inner();
      return counts;
    };
    return exchange("all_to_all_v", in, elements(send_rows), out, elements(receive_rows), stream);
  }
  std::unique_ptr<Event> broadcast(TensorView data, int root, Stream& stream) override {
    if (by_host(data)) return host_->broadcast(data, root, stream);
    check_broadcast(caller(), data, root);
    return collective("broadcast", data, stream, [&](void* s) {
      return api().broadcast(data.data, data.data, count(data), nccl_type_of(data.dtype), root, all_.handle(),
                             s);
    });
  }
  std::unique_ptr<Event> send(TensorView data, int peer, Stream& stream) override {
    if (by_host(data)) return host_->send(data, peer, stream);
    check_view(caller(), data, "send");
    check_peer(caller(), peer, "send");
    NcclLane& lane = lane_to(out_, peer, "send");
    return submit("send", data, stream, *lane.stream, [&](void* s) {
      return api().send(data.data, count(data), nccl_type_of(data.dtype), kReceiver, lane.link.handle(), s);
    });
  }
  std::unique_ptr<Event> receive(TensorView data, int peer, Stream& stream) override {
    if (by_host(data)) return host_->receive(data, peer, stream);
    check_view(caller(), data, "receive");
    check_peer(caller(), peer, "receive");
    NcclLane& lane = lane_to(in_, peer, "receive");
    return submit("receive", data, stream, *lane.stream, [&](void* s) {
      return api().receive(data.data, count(data), nccl_type_of(data.dtype), kSender, lane.link.handle(), s);
    });
  }

 private:
  using Lanes = std::map<int, std::unique_ptr<NcclLane>>;  // by peer
  static constexpr int kSender = 0, kReceiver = 1;         // of a route's two members

  const NcclApi& api() const { return rank_->api(); }
  Caller caller() const { return {label(), size(), rank(), rank_->memory()}; }
  bool by_host(const TensorView& view) const { return view.device == DeviceKind::kHost; }
  static std::size_t count(const TensorView& view) { return static_cast<std::size_t>(view.elements()); }
  void check(int status, const char* name) const {
    rank_->check(status, fmt::format("{}: {}", label(), name));
  }
  void open_lane(Lanes& lanes, int peer, const NcclId& id, int member) {
    (lanes[peer] = std::make_unique<NcclLane>(*rank_, label()))->link.init(id, 2, member);
  }
  NcclLane& lane_to(const Lanes& lanes, int peer, const char* name) const {
    const auto lane = lanes.find(peer);
    require<InternalError>(lane != lanes.end(), "{}: {}: no route was opened between members {} and {}",
                           label(), name, rank(), peer);
    return *lane->second;
  }

  // On `lane`, behind what `asker` has submitted.
  template <class Call>
  std::unique_ptr<Event> submit(const char* name, const TensorView& view, Stream& asker, Stream& lane,
                                const Call& call) {
    rank_->throw_if_failed();
    std::string text =
        fmt::format("{}: {} {} ({} bytes){}", label(), name, view.text(), view.bytes(), activity().text());
    lane.wait(*asker.record());
    rank_->check(call(native_stream(lane)), text);
    return std::make_unique<NcclEvent>(rank_, rank_->submitted(std::move(text), lane.record(), asker));
  }
  template <class Call>
  std::unique_ptr<Event> collective(const char* name, const TensorView& view, Stream& asker,
                                    const Call& call) {
    return submit(name, view, asker, rank_->collectives(), call);
  }

  // Elements per peer.
  std::unique_ptr<Event> exchange(const char* name, const TensorView& in, std::span<const std::int64_t> sends,
                                  const TensorView& out, std::span<const std::int64_t> receives,
                                  Stream& stream) {
    const auto from = offsets_of(sends), to = offsets_of(receives);
    const NcclType type = nccl_type_of(in.dtype);
    return collective(name, in, stream, [&](void* s) {
      int status = api().group_start();
      for (int m = 0; m < size() && status == kNcclSuccess; ++m) {
        if (sends[m] > 0)
          status =
              api().send(byte_at(in, from[m]), static_cast<std::size_t>(sends[m]), type, m, all_.handle(), s);
        if (receives[m] > 0 && status == kNcclSuccess)
          status = api().receive(byte_at(out, to[m]), static_cast<std::size_t>(receives[m]), type, m,
                                 all_.handle(), s);
      }
      const int end = api().group_end();
      return status == kNcclSuccess ? end : status;
    });
  }

  const std::shared_ptr<NcclRank> rank_;
  const std::unique_ptr<Communicator> host_;
  NcclLink all_;
  Lanes out_, in_;
};

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(std::shared_ptr<NcclRank> rank,
                                                     std::unique_ptr<Communicator> host,
                                                     std::span<const Route> routes) {
  return std::make_unique<NcclCommunicator>(std::move(rank), std::move(host), routes);
}

}  // namespace stoa::comm

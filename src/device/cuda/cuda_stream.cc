#include "device/cuda/cuda_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "device/cuda/cuda_error.h"

namespace stoa::cuda {

CudaEvent::CudaEvent() {
  check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "creation of an event");
}
CudaEvent::~CudaEvent() { (void)cudaEventDestroy(event_); }

bool CudaEvent::ready() const {
  const cudaError_t status = cudaEventQuery(event_);
  if (status == cudaErrorNotReady) {
    (void)cudaGetLastError();
    return false;
  }
  check(status, "querying an event (an earlier operation failed)");
  return true;
}

void CudaEvent::wait() {
  check(cudaEventSynchronize(event_), "waiting for an event (an earlier operation failed)");
}

CudaStream::CudaStream(int device, bool graphs, bool urgent) : graphs_(graphs) {
  check_call(cudaSetDevice(device), "use of device {}", device);
  int least = 0, greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "querying stream priorities");
  check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, urgent ? greatest : least),
        "creation of a stream");
}

CudaStream::~CudaStream() {
  (void)cudaStreamSynchronize(stream_);
  submissions_.clear();
  drop_recording();
  if (pinned_) (void)cudaFreeHost(pinned_);
  (void)cudaStreamDestroy(stream_);
}

std::unique_ptr<Event> CudaStream::record() {
  auto event = std::make_unique<CudaEvent>();
  check(cudaEventRecord(event->handle(), stream_), "recording an event");
  return event;
}

void CudaStream::wait(const Event& event) {
  check(cudaStreamWaitEvent(stream_, static_cast<const CudaEvent&>(event).handle(), 0),
        "a stream's wait for an event");
}

void CudaStream::synchronize() {
  check(cudaStreamSynchronize(stream_), "waiting for the stream (an earlier operation failed)");
}

void CudaStream::upload(void* device, const void* host, std::size_t bytes) {
  if (bytes == 0) return;
  uploaded_ = true;
  if (!pinned_) check_call(cudaMallocHost(&pinned_, kRing), "allocation of {} bytes of pinned memory", kRing);
  const auto* from = static_cast<const std::byte*>(host);
  auto* to = static_cast<std::byte*>(device);
  while (bytes > 0) {
    const std::size_t now = std::min(bytes, kRing / 4);
    const std::size_t offset = ring_.take(now, [this](std::size_t ticket) {
      while (!submissions_.empty() && submissions_.front().ticket <= ticket) {
        submissions_.front().event->wait();
        submissions_.pop_front();
      }
    });
    std::byte* staged = static_cast<std::byte*>(pinned_) + offset;
    std::memcpy(staged, from, now);
    check_call(cudaMemcpyAsync(to, staged, now, cudaMemcpyHostToDevice, stream_),
               "copy of {} bytes to the device", now);
    if (!capture_) submitted();
    from += now, to += now, bytes -= now;
  }
}

void CudaStream::submitted() {
  while (!submissions_.empty() && submissions_.front().event->ready()) submissions_.pop_front();
  Submission next{++tickets_, std::make_unique<CudaEvent>()};
  check(cudaEventRecord(next.event->handle(), stream_), "recording an event");
  ring_.in_flight(next.ticket);
  submissions_.push_back(std::move(next));
}

void CudaStream::begin_recording() {
  require<InternalError>(!capture_, "a stream's recording begins within another");
  if (!graphs_ || recordings_++ == 0) return;
  for (RecordingCompanion* companion : companions_) companion->join(*this);
  capture_.emplace(stream_);
}

void CudaStream::repeat(std::span<const std::int64_t> shape, const std::function<void()>& body) {
  require<InternalError>(!capture_, "work that is repeated begins within a recording");
  std::vector<std::int64_t> key(shape.begin(), shape.end());
  if (repeated_.size() >= kMostRepeated && !repeated_.contains(key)) forget_repeated();
  Repeated& work = repeated_[std::move(key)];
  if (work.graph) return start(work.graph);
  if (!work.fixed || work.times++ == 0) return body();
  uploaded_ = false;
  capture_.emplace(stream_);
  try {
    body();
  } catch (...) {
    capture_.reset();
    throw;
  }
  work.fixed = !uploaded_;
  check(cudaGraphInstantiate(&work.graph, capture_->finish(), 0), "instantiation of a graph");
  capture_.reset();
  start(work.graph);
  if (work.fixed) return;
  synchronize();
  check(cudaGraphExecDestroy(std::exchange(work.graph, nullptr)), "destruction of a graph");
}

void CudaStream::start(cudaGraphExec_t graph) {
  check(cudaGraphLaunch(graph, stream_), "launch of a graph");
  submitted();
}

void CudaStream::forget_repeated() {
  (void)cudaStreamSynchronize(stream_);
  for (auto& [shape, work] : repeated_)
    if (work.graph) (void)cudaGraphExecDestroy(work.graph);
  repeated_.clear();
}

void CudaStream::end_recording() {
  if (!capture_) return;
  for (RecordingCompanion* companion : companions_) companion->join(*this);
  cudaGraph_t const graph = capture_->finish();
  if (graph_) {
    cudaGraphExecUpdateResultInfo info{};
    if (cudaGraphExecUpdate(graph_, graph, &info) != cudaSuccess) {
      (void)cudaGetLastError();
      check(cudaGraphExecDestroy(graph_), "destruction of an old graph");
      graph_ = nullptr;
    }
  }
  if (!graph_) check(cudaGraphInstantiate(&graph_, graph, 0), "instantiation of a graph");
  capture_.reset();
  start(graph_);
  for (RecordingCompanion* companion : companions_) companion->started(*this);
}

void CudaStream::drop_recording() {
  capture_.reset();
  if (graph_) (void)cudaGraphExecDestroy(graph_);
  graph_ = nullptr;
  forget_repeated();
}

}  // namespace stoa::cuda

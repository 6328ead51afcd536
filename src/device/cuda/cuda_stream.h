// A stream of a GPU, its pinned staging memory, and its recorded graph.
#pragma once

#include <cuda_runtime_api.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "device/cuda/graph_capture.h"
#include "device/cuda/staging.h"
#include "device/native_stream.h"

namespace stoa::cuda {

class CudaEvent final : public Event {
 public:
  CudaEvent();
  ~CudaEvent() override;
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  bool ready() const override;
  void wait() override;
  cudaEvent_t handle() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

class CudaStream final : public NativeStream {
 public:
  // `graphs`: steps are recorded, from the second on (the first creates the plans of the libraries).
  // `urgent`: the stream has high priority.
  CudaStream(int device, bool graphs, bool urgent = false);
  ~CudaStream() override;
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  std::unique_ptr<Event> record() override;
  void wait(const Event& event) override;
  void synchronize() override;
  void* native() override { return stream_; }
  // Every step is recorded and the result updates the same executable graph, so that what the host decides
  // (pointers, seeds, lengths) is up to date; only a change of the graph's topology instantiates a new one.
  void begin_recording() override;
  void end_recording() override;
  bool records() const override { return graphs_; }
  bool recording() const override { return capture_.has_value(); }
  void drop_recording() override;
  // Work that reads new host memory every time is never started from a recording.
  void repeat(std::span<const std::int64_t> shape, const std::function<void()>& body) override;
  void forget_repeated() override;
  void accompany(RecordingCompanion& companion) override { companions_.push_back(&companion); }
  void leave(RecordingCompanion& companion) override { std::erase(companions_, &companion); }

  cudaStream_t handle() const { return stream_; }
  // Copies through pinned memory: `host` may be reused at once.
  void upload(void* device, const void* host, std::size_t bytes);

 private:
  static constexpr std::size_t kRing = std::size_t{64} << 20;

  static constexpr std::size_t kMostRepeated = 256;  // shapes whose recordings are kept
  // The work of one shape.
  struct Repeated {
    int times = 0;
    bool fixed = true;
    cudaGraphExec_t graph = nullptr;
  };

  void start(cudaGraphExec_t graph);
  void submitted();  // staging taken so far is in flight from here on

  cudaStream_t stream_ = nullptr;
  cudaGraphExec_t graph_ = nullptr;
  std::map<std::vector<std::int64_t>, Repeated> repeated_;
  const bool graphs_;
  int recordings_ = 0;
  std::optional<GraphCapture> capture_;  // the recording under way
  bool uploaded_ = false;                // since it began
  std::vector<RecordingCompanion*> companions_;
  void* pinned_ = nullptr;  // allocated with the first upload
  StagingRing ring_{kRing};
  struct Submission {
    std::size_t ticket;
    std::unique_ptr<CudaEvent> event;
  };
  std::deque<Submission> submissions_;
  std::size_t tickets_ = 0;
};

}  // namespace stoa::cuda

// What is submitted to a stream between the construction of this and finish(), as a graph. An unfinished
// capture is ended and discarded.
#pragma once

#include <cuda_runtime_api.h>

#include "device/cuda/cuda_error.h"

namespace stoa::cuda {

class GraphCapture {
 public:
  explicit GraphCapture(cudaStream_t stream) : stream_(stream) {
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), "begin of a capture");
  }
  GraphCapture(const GraphCapture&) = delete;
  GraphCapture& operator=(const GraphCapture&) = delete;
  ~GraphCapture() {
    if (!graph_) (void)cudaStreamEndCapture(stream_, &graph_);
    if (graph_) (void)cudaGraphDestroy(graph_);
  }

  // Once. The graph lives as long as this.
  cudaGraph_t finish() {
    check(cudaStreamEndCapture(stream_, &graph_), "end of a capture");
    return graph_;
  }

 private:
  const cudaStream_t stream_;
  cudaGraph_t graph_ = nullptr;
};

}  // namespace stoa::cuda

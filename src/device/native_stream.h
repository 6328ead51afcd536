// A stream that the device's own libraries know, and whose work can be recorded.
#pragma once

#include "device/device.h"

namespace stoa {

class NativeStream : public Stream {
 public:
  virtual void* native() = 0;  // cudaStream_t
  // Work submitted between the two calls may be recorded and then started as one (a CUDA graph). The host
  // must not wait for any of it in between.
  virtual void begin_recording() = 0;
  virtual void end_recording() = 0;
};

// Null for streams that have no such thing: those of the host.
inline void* native_stream(Stream& stream) {
  auto* native = dynamic_cast<NativeStream*>(&stream);
  return native ? native->native() : nullptr;
}

// Records what is submitted while it lives, where the stream can. After an exception the recording is dropped
// with the stream, which is of no further use.
class Recording {
 public:
  Recording(Stream& stream, bool wanted) : stream_(wanted ? dynamic_cast<NativeStream*>(&stream) : nullptr) {
    if (stream_) stream_->begin_recording();
  }
  void end() {
    if (stream_) stream_->end_recording();
    stream_ = nullptr;
  }

 private:
  NativeStream* stream_;
};

}  // namespace stoa

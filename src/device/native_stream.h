// A stream that the device's own libraries know, and whose work can be recorded.
#pragma once

#include "device/device.h"

namespace stoa {

// Has streams of its own, on which work for a recording stream goes on.
class RecordingCompanion {
 public:
  virtual ~RecordingCompanion() = default;
  // Later work of `recorder` comes after all that was submitted for it on other streams. Called before a
  // recording begins and before it ends: neither holds events of the other.
  virtual void join(Stream& recorder) = 0;
  // What was recorded was started.
  virtual void started(Stream& recorder) = 0;
};

class NativeStream : public Stream {
 public:
  virtual void* native() = 0;  // cudaStream_t
  // Whether recordings are made of its work.
  virtual bool records() const = 0;
  // Work submitted between the two calls may be recorded and then started as one (a CUDA graph). The host
  // must not wait for any of it in between.
  virtual void begin_recording() = 0;
  virtual void end_recording() = 0;
  virtual bool recording() const = 0;
  // What was recorded is no longer kept, nor a recording that is under way: libraries keep what it uses until
  // then. What was started goes on.
  virtual void drop_recording() = 0;
  // From now on until it leaves.
  virtual void accompany(RecordingCompanion& companion) = 0;
  virtual void leave(RecordingCompanion& companion) = 0;
};

// Null for streams that have no such thing: those of the host.
inline void* native_stream(Stream& stream) {
  auto* native = dynamic_cast<NativeStream*>(&stream);
  return native ? native->native() : nullptr;
}

inline bool records(Stream& stream) {
  const auto* native = dynamic_cast<NativeStream*>(&stream);
  return native && native->records();
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

// A stream with a handle for the device's own libraries, whose work can be recorded.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "device/device.h"

namespace stoa {

// Owns further streams that do part of the work of a recording stream.
class RecordingCompanion {
 public:
  virtual ~RecordingCompanion() = default;
  // Makes later work of `recorder` wait for all that was submitted for it on other streams. Called before a
  // recording begins and before it ends, so that no event crosses the boundary of a recording.
  virtual void join(Stream& recorder) = 0;
  // The recorded work was launched.
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
  // Discards all recorded graphs and an unfinished recording; until then the libraries keep whatever it uses.
  // Work that was already launched completes.
  virtual void drop_recording() = 0;
  // Submits what `body` submits. Work of one `shape` is the same every time, to the addresses and numbers in
  // its calls: it is recorded the second time, and started without `body` from the third on. For streams of
  // which recordings are made; not within a recording.
  virtual void repeat(std::span<const std::int64_t> shape, const std::function<void()>& body) = 0;
  virtual void forget_repeated() = 0;
  // Registers a companion until leave().
  virtual void accompany(RecordingCompanion& companion) = 0;
  virtual void leave(RecordingCompanion& companion) = 0;
};

// Null for streams without a native handle: those of the host.
inline void* native_stream(Stream& stream) {
  auto* native = dynamic_cast<NativeStream*>(&stream);
  return native ? native->native() : nullptr;
}

inline bool records(Stream& stream) {
  const auto* native = dynamic_cast<NativeStream*>(&stream);
  return native && native->records();
}

// NativeStream::repeat() where the stream records; elsewhere body().
inline void repeat_on(Stream& stream, std::span<const std::int64_t> shape,
                      const std::function<void()>& body) {
  auto* native = dynamic_cast<NativeStream*>(&stream);
  if (native && native->records())
    native->repeat(shape, body);
  else
    body();
}

// Discards what repeat() has recorded.
inline void forget_repeated(Stream& stream) {
  if (auto* native = dynamic_cast<NativeStream*>(&stream)) native->forget_repeated();
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

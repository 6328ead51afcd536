// A stream that records, for tests: its work and that of streams that join it is done at once, by the rules
// that a recording sets (CUDA programming guide, stream capture). Whatever breaks one is an InternalError.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "device/native_stream.h"

namespace stoa::comm::suite {

class RecordingStream : public NativeStream {
 public:
  // `records`: from its second step on. Others take part when they wait for an event of a recording.
  RecordingStream(std::unique_ptr<Stream> inner, bool records)
      : inner_(std::move(inner)), records_(records) {}
  ~RecordingStream() override { drop_recording(); }

  std::unique_ptr<Event> record() override {
    return std::make_unique<Mark>(inner_->record(), taking_part(), this, works_);
  }
  void wait(const Event& event) override {
    const auto* const mark = dynamic_cast<const Mark*>(&event);
    if (!mark) return inner_->wait(event);
    if (const auto& other = mark->recording) {
      require<InternalError>(other->open, "an event of a recording that has ended is waited for");
      require<InternalError>(!taking_part() || recording_ == other, "two recordings meet");
      if (!recording_) other->members.push_back(this);
      recording_ = other;
      if (other->recorder == this) other->joined[mark->stream] = mark->works;
    } else {
      require<InternalError>(!taking_part(), "a recording waits for work that is not recorded");
    }
    inner_->wait(*mark->inner);
  }
  void synchronize() override {
    require<InternalError>(!taking_part(), "the host waits for a recording");
    inner_->synchronize();
  }
  void* native() override { return this; }

  bool records() const override { return records_; }
  bool recording() const override { return taking_part() && recording_->recorder == this; }
  void begin_recording() override {
    if (!records_ || steps_++ == 0) return;
    for (RecordingCompanion* const companion : companions_) companion->join(*this);
    recording_ = std::make_shared<Record>();
    recording_->recorder = this;
    recording_->members.push_back(this);
  }
  void end_recording() override {
    if (!recording()) return;
    for (RecordingCompanion* const companion : companions_) companion->join(*this);
    for (const RecordingStream* const member : recording_->members)
      require<InternalError>(member == this || recording_->joined[member] == member->works_,
                             "a stream that takes part in a recording is not waited for at its end");
    graph_ = std::move(recording_->graph);  // in the place of the last one
    close();
    ++started;
    for (RecordingCompanion* const companion : companions_) companion->started(*this);
  }
  void drop_recording() override {
    if (recording()) {
      recording_->graph.reset();
      close();
    }
    graph_.reset();
  }
  void repeat(std::span<const std::int64_t>, const std::function<void()>& body) override { body(); }
  void forget_repeated() override {}
  void accompany(RecordingCompanion& companion) override { companions_.push_back(&companion); }
  void leave(RecordingCompanion& companion) override { std::erase(companions_, &companion); }

  // What lives as long as the graph that is being recorded; none without one.
  std::shared_ptr<void> graph() const { return taking_part() ? recording_->graph : nullptr; }

  int started = 0;  // recordings

 protected:
  Stream& inner() { return *inner_; }
  void add_work() { ++works_; }

 private:
  struct Record {
    const RecordingStream* recorder = nullptr;
    bool open = true;
    std::vector<RecordingStream*> members;
    std::map<const RecordingStream*, std::int64_t> joined;  // works that the recorder has waited for
    std::shared_ptr<void> graph = std::make_shared<int>();
  };
  class Mark final : public Event {
   public:
    Mark(std::unique_ptr<Event> event, bool recorded, const RecordingStream* from, std::int64_t count)
        : inner(std::move(event)),
          recording(recorded ? from->recording_ : nullptr),
          stream(from),
          works(count) {}
    bool ready() const override { return asked().ready(); }
    void wait() override { asked().wait(); }

    const std::unique_ptr<Event> inner;
    const std::shared_ptr<Record> recording;
    const RecordingStream* const stream;
    const std::int64_t works;

   private:
    Event& asked() const {
      require<InternalError>(!recording, "the host asks an event of a recording");
      return *inner;
    }
  };

  bool taking_part() const { return recording_ && recording_->open; }
  void close() {
    recording_->open = false;
    for (RecordingStream* const member : recording_->members)
      if (member != this) member->recording_.reset();
    recording_.reset();
  }

  const std::unique_ptr<Stream> inner_;
  const bool records_;
  int steps_ = 0;
  std::int64_t works_ = 0;
  std::shared_ptr<Record> recording_;
  std::shared_ptr<void> graph_;
  std::vector<RecordingCompanion*> companions_;
};

}  // namespace stoa::comm::suite

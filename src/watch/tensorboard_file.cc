#include "watch/tensorboard_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "watch/append.h"
#include "watch/crc32c.h"

namespace stoa::watch {
namespace {

constexpr std::uint64_t kStringType = 7;    // types.proto, DT_STRING
constexpr std::uint64_t kTensorClass = 2;   // summary.proto, DATA_CLASS_TENSOR
constexpr std::uint64_t kSessionStart = 1;  // event.proto, SessionLog.START

// One protobuf message under construction.
class Message {
 public:
  Message& integer(int field, std::uint64_t value) {
    tag(field, 0);
    varint(value);
    return *this;
  }
  Message& float64(int field, double value) {
    tag(field, 1);
    little_endian(std::bit_cast<std::uint64_t>(value), 8);
    return *this;
  }
  Message& float32(int field, float value) {
    tag(field, 5);
    little_endian(std::bit_cast<std::uint32_t>(value), 4);
    return *this;
  }
  Message& bytes(int field, std::string_view value) {  // also strings and nested messages
    tag(field, 2);
    varint(value.size());
    out_ += value;
    return *this;
  }
  Message& message(int field, const Message& value) { return bytes(field, value.out_); }
  const std::string& text() const { return out_; }

 private:
  void tag(int field, unsigned wire) { varint(static_cast<std::uint64_t>(field) << 3 | wire); }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) out_ += static_cast<char>((value & 0x7f) | 0x80);
    out_ += static_cast<char>(value);
  }
  void little_endian(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out_ += static_cast<char>((value >> (8 * i)) & 0xff);
  }

  std::string out_;
};

Message event_at(double wall_time, std::int64_t step) {
  Message event;
  event.float64(1, wall_time);
  if (step != 0) event.integer(2, static_cast<std::uint64_t>(step));
  return event;
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  char name[256] = "";
  if (::gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "localhost";
  std::string text = name;
  for (char& c : text) {
    if (c == '/') c = '_';
  }
  return text;
}

void append_little_endian(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>((value >> (8 * i)) & 0xff);
}

}  // namespace

std::string version_event(double wall_time) {
  return event_at(wall_time, 0).bytes(3, "brain.Event:2").text();
}

std::string restart_event(double wall_time, std::int64_t step) {
  return event_at(wall_time, step).message(7, Message().integer(1, kSessionStart)).text();
}

std::string scalar_event(double wall_time, std::int64_t step, const std::vector<Scalar>& scalars) {
  Message summary;
  for (const auto& [tag, value] : scalars) {
    summary.message(1, Message().bytes(1, tag).float32(2, static_cast<float>(value)));
  }
  return event_at(wall_time, step).message(5, summary).text();
}

std::string text_event(double wall_time, std::int64_t step, std::string_view tag, std::string_view text) {
  Message shape, tensor, metadata, value;
  shape.message(2, Message().integer(1, 1));  // one dimension of one element
  tensor.integer(1, kStringType).message(2, shape).bytes(8, text);
  metadata.message(1, Message().bytes(1, "text")).integer(4, kTensorClass);
  value.bytes(1, tag).message(8, tensor).message(9, metadata);
  return event_at(wall_time, step).message(5, Message().message(1, value)).text();
}

std::string frame_record(std::string_view data) {
  std::string length;
  append_little_endian(length, data.size(), 8);
  std::string out = length;
  append_little_endian(out, mask_crc(crc32c(length)), 4);
  out += data;
  append_little_endian(out, mask_crc(crc32c(data)), 4);
  return out;
}

TensorboardFile::~TensorboardFile() {
  if (fd_ >= 0) ::close(fd_);
}

void TensorboardFile::open() {
  if (fd_ >= 0) ::close(fd_);
  const std::string name =
      fmt::format("events.out.tfevents.{:010}.{}", static_cast<std::int64_t>(wall_seconds()), host_name());
  for (int attempt = 0;; ++attempt) {  // two processes within one second
    path_ = directory_ / (attempt == 0 ? name : fmt::format("{}.{}", name, attempt));
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
    if (fd_ >= 0) return;
    require<IoError>(errno == EEXIST && attempt < 1000, "cannot write '{}': {}", path_.string(),
                     std::strerror(errno));
  }
}

void TensorboardFile::on_start(const RunStart& start) {
  open();
  append(version_event(wall_seconds()));
  if (!start.resumed_from.empty()) append(restart_event(wall_seconds(), start.first_step + 1));
}

void TensorboardFile::on_step(const StepReport& s) {
  if (!s.logged) return;
  std::vector<Scalar> scalars;
  const auto add = [&](std::string_view tag, double value) {
    if (std::isfinite(value)) scalars.emplace_back(tag, value);
  };
  add("loss", s.loss);
  add("lr", s.learning_rate);
  add("grad_norm", s.gradient_norm);
  add("loss_scale", s.loss_scale);
  add("step_seconds", s.step_seconds);
  add("tokens_per_second", s.tokens_per_second);
  add("model_tflops", s.model_tflops);
  add("mfu", s.mfu);
  add("peak_memory_bytes", static_cast<double>(s.peak_memory_bytes));
  add("samples", static_cast<double>(s.samples));
  add("tokens", static_cast<double>(s.tokens));
  for (const auto& [name, value] : s.scores) add(name, value);
  append(scalar_event(wall_seconds(), s.step, scalars));
}

void TensorboardFile::on_validation(const ValidationReport& v) {
  if (std::isfinite(v.loss)) append(scalar_event(wall_seconds(), v.step, {{"val_loss", v.loss}}));
  for (const auto& [name, value] : v.scores)
    append(scalar_event(wall_seconds(), v.step, {{"val_" + name, value}}));
}

void TensorboardFile::on_tasks(const TaskReport& t) {
  std::vector<Scalar> scalars;
  for (const TaskFigure& f : t.figures) {
    if (std::isfinite(f.value)) scalars.emplace_back(f.name, f.value);
    if (f.standard_error) scalars.emplace_back(f.name + "_stderr", *f.standard_error);
  }
  if (!scalars.empty()) append(scalar_event(wall_seconds(), t.step, scalars));
}

void TensorboardFile::on_sample(const SampleReport& sample) {
  append(text_event(wall_seconds(), sample.step, "sample", sample.prompt + sample.text));
}

void TensorboardFile::append(std::string_view event) {
  require<InternalError>(fd_ >= 0, "an event for '{}' before the run started", directory_.string());
  append_whole(fd_, frame_record(event), path_);
}

}  // namespace stoa::watch

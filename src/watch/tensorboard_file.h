// events.out.tfevents.<seconds>.<host>: the curve of a run for TensorBoard. TFRecord frames around protobuf
// Event messages (tensorflow/core/util/event.proto, summary.proto), encoded by hand: a dozen fields do not
// need a library.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "watch/run_observer.h"

namespace stoa::watch {

class TensorboardFile final : public RunObserver {
 public:
  explicit TensorboardFile(std::filesystem::path run_directory) : directory_(std::move(run_directory)) {}
  ~TensorboardFile() override;
  TensorboardFile(const TensorboardFile&) = delete;
  TensorboardFile& operator=(const TensorboardFile&) = delete;

  // Every process writes a file of its own. A resumed one begins by telling TensorBoard to forget later
  // steps. IoError where the directory cannot be written.
  void on_start(const RunStart& start) override;
  void on_step(const StepReport& step) override;  // logged steps; not finite values are left out
  void on_validation(const ValidationReport& validation) override;
  void on_tasks(const TaskReport& tasks) override;
  void on_sample(const SampleReport& sample) override;  // for the text dashboard

  const std::filesystem::path& path() const { return path_; }  // "" before on_start

 private:
  void open();
  void append(std::string_view event);

  const std::filesystem::path directory_;
  std::filesystem::path path_;
  int fd_ = -1;
};

using Scalar = std::pair<std::string_view, double>;  // tag, value

// Serialised Event messages.
std::string version_event(double wall_time);
std::string restart_event(double wall_time, std::int64_t step);  // forget steps from `step` on
std::string scalar_event(double wall_time, std::int64_t step, const std::vector<Scalar>& scalars);
std::string text_event(double wall_time, std::int64_t step, std::string_view tag, std::string_view text);

// The frame around one record: length, masked checksum of the length, data, masked checksum of the data.
std::string frame_record(std::string_view data);

}  // namespace stoa::watch

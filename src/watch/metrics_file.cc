#include "watch/metrics_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "watch/append.h"

namespace stoa::watch {
namespace {

double float_field(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return 0;
  return found->is_number() ? found->get<double>() : std::numeric_limits<double>::quiet_NaN();
}

std::int64_t integer_field(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

std::optional<MetricsPoint> parse_line(std::string_view line) {
  const auto object = nlohmann::json::parse(line, nullptr, false);
  if (!object.is_object() || !object.contains("step") || !object["step"].is_number_integer())
    return std::nullopt;
  MetricsPoint point;
  point.step = integer_field(object, "step");
  point.samples = integer_field(object, "samples");
  point.tokens = integer_field(object, "tokens");
  point.peak_memory_bytes = integer_field(object, "peak_memory_bytes");
  point.loss = float_field(object, "loss");
  point.learning_rate = float_field(object, "lr");
  point.gradient_norm = float_field(object, "grad_norm");
  point.loss_scale = float_field(object, "loss_scale");
  point.step_seconds = float_field(object, "step_seconds");
  point.tokens_per_second = float_field(object, "tokens_per_second");
  point.model_tflops = float_field(object, "model_tflops");
  point.mfu = float_field(object, "mfu");
  point.is_validation = object.contains("val_loss");
  point.is_curve = point.is_validation || object.contains("loss");
  point.validation_loss = float_field(object, "val_loss");
  point.bits_per_byte = float_field(object, "val_bits_per_byte");
  const auto score = [&](const std::string& name, double& out) {
    const std::string key = (point.is_validation ? "val_" : "") + name;
    if (object.contains(key)) out = float_field(object, key.c_str());
  };
  score("accuracy", point.accuracy);
  score("margin", point.margin);
  for (const char* divergence : {"kl", "jsd"}) score(divergence, point.divergence);
  return point;
}

// Calls each(line, point) for the whole lines up to `last_step`.
template <class Each>
void for_each_line(std::string_view text, std::int64_t last_step, Each&& each) {
  while (!text.empty()) {
    const auto end = text.find('\n');
    if (end == std::string_view::npos) return;  // torn
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    const auto point = parse_line(line);
    if (point && point->step <= last_step) each(line, *point);
  }
}

}  // namespace

// What is not finite becomes null.
std::string metrics_line(const StepReport& s) {
  nlohmann::ordered_json line{{"step", s.step},
                              {"samples", s.samples},
                              {"tokens", s.tokens},
                              {"loss", s.loss},
                              {"lr", s.learning_rate},
                              {"grad_norm", s.gradient_norm},
                              {"loss_scale", s.loss_scale},
                              {"step_seconds", s.step_seconds},
                              {"tokens_per_second", s.tokens_per_second},
                              {"model_tflops", s.model_tflops},
                              {"mfu", s.mfu},
                              {"peak_memory_bytes", s.peak_memory_bytes}};
  for (const auto& [name, value] : s.scores) line[name] = value;
  return line.dump();
}

std::string metrics_line(const ValidationReport& v) {
  nlohmann::ordered_json line{{"step", v.step}, {"val_loss", v.loss}};
  if (v.bits_per_byte > 0) line["val_bits_per_byte"] = v.bits_per_byte;
  for (const auto& [name, value] : v.scores) line["val_" + name] = value;
  return line.dump();
}

std::string metrics_line(const TaskReport& t) {
  nlohmann::ordered_json line{{"step", t.step}};
  for (const TaskFigure& f : t.figures) {
    line[f.name] = f.value;
    if (f.standard_error) line[f.name + "_stderr"] = *f.standard_error;
  }
  return line.dump();
}

void parse_metrics(std::string_view text, std::int64_t last_step,
                   const std::function<void(const MetricsPoint&)>& each) {
  for_each_line(text, last_step, [&](std::string_view, const MetricsPoint& point) {
    if (point.is_curve) each(point);
  });
}

std::string keep_metrics(std::string_view text, std::int64_t last_step) {
  std::string kept;
  for_each_line(text, last_step, [&](std::string_view line, const MetricsPoint&) {
    kept += line;
    kept += '\n';
  });
  return kept;
}

MetricsFile::~MetricsFile() {
  if (fd_ >= 0) ::close(fd_);
}

void MetricsFile::on_start(const RunStart& start) {
  std::error_code unreadable;  // then opening says why
  if (fs::exists(path_, unreadable)) {
    const std::string text = read_text(path_);
    const std::string kept = start.resumed_from.empty() ? "" : keep_metrics(text, start.first_step);
    if (kept != text) write_text(path_, kept);
  }
  if (fd_ >= 0) ::close(fd_);
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  require<IoError>(fd_ >= 0, "cannot write '{}': {}", path_.string(), std::strerror(errno));
}

void MetricsFile::on_step(const StepReport& step) {
  if (step.logged) append(metrics_line(step));
}

void MetricsFile::on_validation(const ValidationReport& validation) { append(metrics_line(validation)); }

void MetricsFile::on_tasks(const TaskReport& tasks) { append(metrics_line(tasks)); }

void MetricsFile::append(std::string line) {
  require<InternalError>(fd_ >= 0, "metrics for '{}' before the run started", path_.string());
  line += '\n';
  append_whole(fd_, line, path_);
}

}  // namespace stoa::watch

#include "run/trace.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace stoa::run {

std::int64_t TraceRecorder::now() const {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - origin_)
      .count();
}

void TraceRecorder::before(const char* op, double matrix_flops) {
  open_.push_back(events_.size());
  events_.push_back({op, now(), 0, matrix_flops, static_cast<int>(open_.size())});
}

void TraceRecorder::after(const char*) {
  if (stream_) stream_->synchronize();
  end();
}

void TraceRecorder::begin(std::string name) {
  open_.push_back(events_.size());
  events_.push_back({std::move(name), now(), 0, 0, static_cast<int>(open_.size())});
}

void TraceRecorder::end() {
  Event& event = events_[open_.back()];
  event.duration_ns = now() - event.begin_ns;
  open_.pop_back();
}

std::string TraceRecorder::json(int rank, const std::string& name) const {
  nlohmann::json out;
  auto& list = out["traceEvents"] = nlohmann::json::array();
  if (!name.empty())
    list.push_back({{"name", "process_name"}, {"ph", "M"}, {"pid", rank}, {"args", {{"name", name}}}});
  for (const auto& event : events_) {
    nlohmann::json e{{"name", event.name},
                     {"ph", "X"},
                     {"pid", rank},
                     {"tid", 0},
                     {"ts", static_cast<double>(event.begin_ns) * 1e-3},
                     {"dur", static_cast<double>(event.duration_ns) * 1e-3}};
    if (event.flops > 0 && event.duration_ns > 0)
      e["args"] = {{"tflops", event.flops / static_cast<double>(event.duration_ns) * 1e-3}};
    list.push_back(std::move(e));
  }
  out["displayTimeUnit"] = "ms";
  return out.dump();
}

std::string TraceRecorder::join(const std::vector<std::string>& documents) {
  nlohmann::json out;
  auto& list = out["traceEvents"] = nlohmann::json::array();
  for (const auto& document : documents) {
    nlohmann::json parsed = nlohmann::json::parse(document);
    for (auto& event : parsed["traceEvents"]) list.push_back(std::move(event));
  }
  out["displayTimeUnit"] = "ms";
  return out.dump();
}

}  // namespace stoa::run

#include "watch/run_story.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "watch/html_text.h"

namespace stoa::watch {
namespace {

using nlohmann::json;

constexpr std::size_t kSamplesKept = 400;  // beyond that every second one is dropped

const char* word_of(StopReason reason) {
  switch (reason) {
    case StopReason::kDone:
      return "done";
    case StopReason::kTime:
      return "time";
    case StopReason::kSignal:
      return "signal";
    case StopReason::kError:
      return "error";
  }
  return "";
}

json to_json(const Session& s) {
  return {{"began", s.began},
          {"first_step", s.first_step},
          {"last_step", s.last_step},
          {"measured_steps", s.measured_steps},
          {"seconds", s.seconds},
          {"step_seconds", s.step_seconds},
          {"compute_seconds", s.compute_seconds},
          {"data_seconds", s.data_seconds},
          {"save_seconds", s.save_seconds},
          {"validation_seconds", s.validation_seconds},
          {"snapshot_seconds", s.snapshot_seconds},
          {"lost_steps", s.lost_steps},
          {"ended", s.ended}};
}

Session session_of(const json& j) {
  Session s;
  s.began = j.value("began", 0.0);
  s.first_step = j.value("first_step", std::int64_t{0});
  s.last_step = j.value("last_step", std::int64_t{0});
  s.measured_steps = j.value("measured_steps", std::int64_t{0});
  s.seconds = j.value("seconds", 0.0);
  s.step_seconds = j.value("step_seconds", 0.0);
  s.compute_seconds = j.value("compute_seconds", 0.0);
  s.data_seconds = j.value("data_seconds", 0.0);
  s.save_seconds = j.value("save_seconds", 0.0);
  s.validation_seconds = j.value("validation_seconds", 0.0);
  s.snapshot_seconds = j.value("snapshot_seconds", 0.0);
  s.lost_steps = j.value("lost_steps", std::int64_t{0});
  s.ended = j.value("ended", std::string());
  return s;
}

json to_json(const TaskReport& t) {
  json figures = json::array();
  for (const TaskFigure& f : t.figures)
    figures.push_back(
        {f.name, f.value, f.standard_error ? json(*f.standard_error) : json(), f.higher_is_better});
  return {{"step", t.step}, {"figures", figures}};
}

TaskReport task_report_of(const json& j) {
  TaskReport t;
  t.step = j.at("step");
  for (const json& f : j.at("figures")) {
    // What is not finite was written as null.
    TaskFigure figure{f.at(0).get<std::string>(),
                      f.at(1).is_number() ? f.at(1).get<double>() : std::numeric_limits<double>::quiet_NaN()};
    if (f.at(2).is_number()) figure.standard_error = f.at(2).get<double>();
    figure.higher_is_better = f.at(3);
    t.figures.push_back(std::move(figure));
  }
  return t;
}

}  // namespace

void RunStory::read_facts(std::string_view report) {
  const auto open = report.find(kFactsOpen);
  if (open == std::string_view::npos) return;
  report.remove_prefix(open + kFactsOpen.size());
  const json facts = json::parse(report.substr(0, report.find(kFactsClose)), nullptr, false);
  if (!facts.is_object()) return;
  try {
    std::vector<Session> sessions;
    for (const json& s : facts.at("sessions")) sessions.push_back(session_of(s));
    std::vector<SampleReport> samples;
    for (const json& s : facts.at("samples")) {
      samples.push_back({s.at("step"), s.at("prompt").get<std::string>(), s.at("text").get<std::string>()});
    }
    std::vector<TaskReport> tasks;
    for (const json& t : facts.value("tasks", json::array())) tasks.push_back(task_report_of(t));
    sessions_ = std::move(sessions);
    tasks_ = std::move(tasks);
    samples_ = std::move(samples);
  } catch (const json::exception&) {  // a page of another version: the curve remains
  }
}

// The previous process did not record its end. metrics.jsonl shows how far it came after its last report, and
// when it wrote last.
void RunStory::close_killed_session(const Left& left) {
  Session& last = sessions_.back();
  if (!last.ended.empty()) return;
  last.ended = "killed";
  parse_metrics(left.metrics, std::numeric_limits<std::int64_t>::max(), [&](const MetricsPoint& point) {
    if (point.is_validation || point.step <= last.last_step) return;
    const auto steps = point.step - last.last_step;
    const double seconds = static_cast<double>(steps) * point.step_seconds;
    if (!std::isfinite(seconds)) return;
    last.seconds += seconds;
    last.step_seconds += seconds;
    last.compute_seconds += seconds;
    last.measured_steps += steps;
    last.last_step = point.step;
  });
  if (last.began > 0 && left.last_sign > last.began) last.seconds = left.last_sign - last.began;
}

void RunStory::begin(const RunStart& start, const Left& left, double now) {
  const double began = start.began > 0 ? std::min(start.began, now) : now;
  *this = RunStory();
  start_ = start;
  if (!start.resumed_from.empty()) {
    read_facts(left.report);
    if (!sessions_.empty()) {
      close_killed_session(left);
      // A process that began behind the checkpoint taken up now is lost as a whole.
      for (Session& s : sessions_) {
        s.lost_steps = std::clamp(s.last_step - start.first_step, s.lost_steps,
                                  std::max(s.lost_steps, s.last_step - s.first_step));
      }
    }
    parse_metrics(left.metrics, start.first_step, [&](const MetricsPoint& point) {
      keep(point);
      tokens_ = std::max(tokens_, point.tokens);
      peak_memory_bytes_ = std::max(peak_memory_bytes_, point.peak_memory_bytes);
    });
    std::erase_if(samples_, [&](const SampleReport& s) { return s.step > start.first_step; });
    std::erase_if(tasks_, [&](const TaskReport& t) { return t.step > start.first_step; });
  }
  Session session;
  session.began = began;
  session.first_step = session.last_step = start.first_step;
  sessions_.push_back(session);
}

void RunStory::keep(const MetricsPoint& point) {
  if (!point.is_validation) {
    training_.add(point);
    newest_training_ = point;
    return;
  }
  validation_.add(point);
  if (!std::isfinite(point.validation_loss)) return;
  newest_validation_ = point;
  if (!best_validation_ || point.validation_loss < best_validation_->validation_loss)
    best_validation_ = point;
}

namespace {

void take_scores(const Scores& scores, MetricsPoint& point) {
  for (const auto& [name, value] : scores) {
    if (name == "accuracy") point.accuracy = value;
    if (name == "margin") point.margin = value;
    if (is_divergence(name)) point.divergence = value;
  }
}

}  // namespace

void RunStory::add(const StepReport& s) {
  Session& session = sessions_.back();
  session.last_step = s.step;
  tokens_ = s.tokens;
  skipped_steps_ = s.skipped_steps;
  peak_memory_bytes_ = std::max(peak_memory_bytes_, s.peak_memory_bytes);
  if (!s.logged) return;
  // The seconds of a report are means over the steps since the last logged one.
  const std::int64_t steps = s.step - session.first_step - session.measured_steps;
  const auto n = static_cast<double>(steps);
  session.measured_steps += steps;
  session.step_seconds += n * s.step_seconds;
  session.compute_seconds += n * s.compute_seconds;
  session.data_seconds += n * s.data_seconds;
  session.save_seconds += n * s.save_seconds;
  MetricsPoint point;
  point.step = s.step;
  point.samples = s.samples;
  point.tokens = s.tokens;
  point.peak_memory_bytes = s.peak_memory_bytes;
  point.loss = s.loss;
  point.learning_rate = s.learning_rate;
  point.gradient_norm = s.gradient_norm;
  point.loss_scale = s.loss_scale;
  point.step_seconds = s.step_seconds;
  point.tokens_per_second = s.tokens_per_second;
  point.model_tflops = s.model_tflops;
  point.mfu = s.mfu;
  take_scores(s.scores, point);
  keep(point);
}

void RunStory::add(const ValidationReport& v) {
  sessions_.back().validation_seconds += v.seconds;
  MetricsPoint point;
  point.step = v.step;
  point.is_validation = true;
  point.validation_loss = v.loss;
  point.bits_per_byte = v.bits_per_byte;
  take_scores(v.scores, point);
  keep(point);
}

void RunStory::add(const TaskReport& t) {
  sessions_.back().validation_seconds += t.seconds;
  tasks_.push_back(t);
}

void RunStory::add(const SampleReport& s) {
  samples_.push_back(s);
  if (samples_.size() <= kSamplesKept) return;
  std::size_t index = 0;
  const std::size_t last = samples_.size() - 1;
  std::erase_if(samples_, [&](const SampleReport&) {
    const std::size_t i = index++;
    return i % 2 == 1 && i != last;
  });
}

void RunStory::add(const CheckpointReport& c) {
  sessions_.back().snapshot_seconds += c.snapshot_seconds;
  newest_checkpoint_ = c.path;
}

void RunStory::end(const RunFinish& finish) {
  finish_ = finish;
  if (sessions_.empty()) return;  // failed before it began
  Session& session = sessions_.back();
  session.ended = word_of(finish.reason);
  session.seconds = std::max(session.seconds, finish.seconds);
  tokens_ = std::max(tokens_, finish.tokens);
  skipped_steps_ = std::max(skipped_steps_, finish.skipped_steps);
  peak_memory_bytes_ = std::max(peak_memory_bytes_, finish.peak_memory_bytes);
}

void RunStory::tick(double now) {
  if (sessions_.empty()) return;
  Session& session = sessions_.back();
  session.seconds = std::max(session.seconds, now - session.began);
}

double RunStory::waiting_seconds() const {
  double seconds = 0;
  for (std::size_t i = 1; i < sessions_.size(); ++i) {
    const Session& before = sessions_[i - 1];
    if (before.began > 0) seconds += std::max(0.0, sessions_[i].began - before.began - before.seconds);
  }
  return seconds;
}

double RunStory::total_seconds() const {
  double seconds = waiting_seconds();
  for (const Session& s : sessions_) seconds += s.seconds;
  return seconds;
}

double RunStory::goodput() const {
  double good = 0;
  for (const Session& s : sessions_) {
    const auto done = static_cast<double>(s.last_step - s.first_step);
    if (s.measured_steps <= 0 || done <= 0) continue;
    const double per_step = s.compute_seconds / static_cast<double>(s.measured_steps);
    good += per_step * std::max(0.0, done - static_cast<double>(s.lost_steps));
  }
  const double total = total_seconds();
  return total > 0 ? std::min(1.0, good / total) : 0;
}

std::string RunStory::facts() const {
  json facts{{"sessions", json::array()}, {"samples", json::array()}, {"tasks", json::array()}};
  for (const Session& s : sessions_) facts["sessions"].push_back(to_json(s));
  for (const TaskReport& t : tasks_) facts["tasks"].push_back(to_json(t));
  for (const SampleReport& s : samples_) {
    facts["samples"].push_back(
        {{"step", s.step}, {"prompt", printable_utf8(s.prompt)}, {"text", printable_utf8(s.text)}});
  }
  const std::string text = facts.dump(-1, ' ', false, json::error_handler_t::replace);
  std::string safe;
  for (const char c : text) {
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  }
  return safe;
}

}  // namespace stoa::watch

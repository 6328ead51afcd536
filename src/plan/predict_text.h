// A prediction for people and programs.
#pragma once

#include <string>

#include "plan/predict.h"
#include "schedule/simulate.h"

namespace stoa::plan {

// `title`: what is trained on what.
std::string to_text(const Prediction& prediction, const Workload& w, const Cluster& c,
                    const std::string& title);
// `accounting`: with what another program's formulas say of memory.
std::string to_json(const Prediction& prediction, const Workload& w, const Cluster& c,
                    const PaperActivations* accounting = nullptr);
// "2205.05198 counts 66.8 GiB of activations on the first stage, ...".
std::string to_text(const PaperActivations& accounting);

// The step as a schedule with the predicted times of every chunk.
struct StepTimeline {
  schedule::Schedule schedule;
  schedule::Durations durations;  // seconds
};
StepTimeline timeline_of(const Prediction& prediction, const Workload& w);
// {"traceEvents": […]}: a process per pipeline rank, times in microseconds; the form of trace.json of a run.
std::string to_chrome_trace(const StepTimeline& timeline);

}  // namespace stoa::plan

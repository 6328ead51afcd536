// report.html: the whole story of a run on one page that needs nothing outside itself.
#pragma once

#include <string>

#include "watch/run_story.h"

namespace stoa::watch {

// Sections in this order: verdict, curves, tasks, samples, time, memory, layout, how to reproduce the run.
std::string render_report(const RunStory& story);

// The sections, each with its heading; "" where a run has nothing to say.
std::string verdict_section(const RunStory& story);
std::string curves_section(const RunStory& story);
std::string tasks_section(const RunStory& story);
std::string samples_section(const RunStory& story);
std::string time_section(const RunStory& story);
std::string memory_section(const RunStory& story);
std::string layout_section(const RunStory& story);
std::string repeat_section(const RunStory& story);

}  // namespace stoa::watch

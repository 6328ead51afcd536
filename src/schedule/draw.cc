#include "schedule/draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>

#include "schedule/generators.h"

namespace stoa::schedule {
namespace {

template <class... Args>
void add(std::string& out, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(out), format, std::forward<Args>(args)...);
}

// Forward blue, input gradient green, weight gradient amber, both gradients teal; later chunks of a rank
// lighter.
constexpr std::array<std::array<const char*, 2>, 4> kColours{
    {{"#3b6fb6", "#8db4e2"}, {"#2a8a80", "#83c9c0"}, {"#3f9450", "#9ad0a0"}, {"#d08a1d", "#f0c67a"}}};
constexpr std::array<const char*, 4> kMeanings{"forward", "backward, both gradients", "input gradient",
                                               "weight gradient"};

constexpr double kLeft = 76, kTop = 64, kRow = 34, kGap = 6;

void add_bar(std::string& out, const Schedule& schedule, const TimedAction& t, int rank, double scale) {
  const double x = kLeft + t.start * scale, y = kTop + rank * (kRow + kGap), w = (t.end - t.start) * scale;
  const int kind = static_cast<int>(t.action.kind);
  const bool later = schedule.placement.local_index(t.action.chunk) > 0;
  add(out,
      "<rect x='{:.2f}' y='{:.2f}' width='{:.2f}' height='{}' rx='2' fill='{}' stroke='#fff' "
      "stroke-width='0.8'><title>{} rank "
      "{}: {:g} to {:g}</title></rect>\n",
      x, y, w, kRow, kColours[kind][later], to_text(t.action), rank, t.start, t.end);
  if (w >= 9)
    add(out, "<text x='{:.2f}' y='{:.2f}' text-anchor='middle' fill='{}'>{}</text>\n", x + w / 2,
        y + kRow / 2 + 4, later ? "#1d2733" : "#fff", t.action.microbatch);
}

std::string title_of(const Schedule& s) {
  return fmt::format("{}: {} ranks, {} chunk{} per rank, {} microbatches{}", s.name, s.placement.ranks(),
                     s.placement.chunks_on(0), s.placement.chunks_on(0) == 1 ? "" : "s", s.microbatches,
                     s.placement.copies == 1 ? "" : " of each of two copies of the model");
}

std::string summary_of(const Timeline& t) {
  return fmt::format("makespan {:g}, bubble {:.4f}; span {:g}, bubble {:.4f}; computation {:g}", t.makespan,
                     t.bubble(), t.span, t.span_bubble(), t.busy);
}

}  // namespace

std::string to_report(const Schedule& schedule, const Durations& durations) {
  const Timeline timeline = simulate(schedule, durations);
  std::string out = title_of(schedule) + "\n" + summary_of(timeline) + "\n\nrank  chunks  in flight  idle\n";
  for (int r = 0; r < schedule.placement.ranks(); ++r) {
    double busy = 0;
    for (const auto& t : timeline.ranks[r]) busy += durations.of(t.action);
    add(out, "{:4}  {:6}  {:9}  {:g}\n", r, schedule.placement.chunks_on(r),
        activations_in_flight(schedule, r), timeline.makespan - busy);
  }
  out +=
      "\nin flight: activations of one microbatch in one chunk, at most at once\n\nactions of each rank, one "
      "line each:\n";
  return out + to_text(lower(schedule, durations));
}

std::string to_json(const Schedule& schedule, const Durations& durations) {
  using Json = nlohmann::ordered_json;
  const Timeline timeline = simulate(schedule, durations);
  const Schedule lowered = lower(schedule, durations);
  Json ranks = Json::array();
  for (int r = 0; r < schedule.placement.ranks(); ++r) {
    Json computations = Json::array(), actions = Json::array();
    for (const auto& t : timeline.ranks[r])
      computations.push_back({{"action", to_text(t.action)}, {"start", t.start}, {"end", t.end}});
    for (const auto& action : lowered.ranks[r]) actions.push_back(to_text(action));
    ranks.push_back({{"in_flight", activations_in_flight(schedule, r)},
                     {"computations", std::move(computations)},
                     {"actions", std::move(actions)}});
  }
  return Json{{"name", schedule.name},
              {"microbatches", schedule.microbatches},
              {"rank_of_chunk", schedule.placement.rank_of_chunk},
              {"makespan", timeline.makespan},
              {"span", timeline.span},
              {"computation", timeline.busy},
              {"bubble", timeline.bubble()},
              {"span_bubble", timeline.span_bubble()},
              {"ranks", std::move(ranks)}}
             .dump() +
         "\n";
}

std::string to_svg(const Schedule& schedule, const Durations& durations) {
  const Timeline timeline = simulate(schedule, durations);
  const int ranks = schedule.placement.ranks();
  std::size_t longest = 1;
  std::array<bool, 4> used{};
  for (const auto& rank : timeline.ranks) {
    longest = std::max(longest, rank.size());
    for (const auto& t : rank) used[static_cast<int>(t.action.kind)] = true;
  }
  const double drawn = std::max(900.0, 22.0 * static_cast<double>(longest)),
               scale = drawn / timeline.makespan;
  const double width = kLeft + drawn + 20, bottom = kTop + ranks * (kRow + kGap), height = bottom + 44;
  std::string out;
  add(out,
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {:.0f} {:.0f}' width='{:.0f}' height='{:.0f}' "
      "font-family='system-ui, sans-serif' font-size='11'>\n<rect width='100%' height='100%' fill='#fff'/>\n",
      width, height, width, height);
  add(out, "<text x='16' y='24' font-size='15' font-weight='600' fill='#1d2733'>{}</text>\n",
      title_of(schedule));
  add(out, "<text x='16' y='44' font-size='12' fill='#55606e'>{}</text>\n", summary_of(timeline));
  for (int r = 0; r < ranks; ++r) {
    const double y = kTop + r * (kRow + kGap);
    add(out, "<text x='16' y='{:.2f}' font-size='12' fill='#1d2733'>rank {}</text>\n", y + kRow / 2 + 4, r);
    add(out, "<rect x='{}' y='{:.2f}' width='{:.2f}' height='{}' fill='#eef1f4'/>\n", kLeft, y, drawn, kRow);
    for (const auto& t : timeline.ranks[r]) add_bar(out, schedule, t, r, scale);
  }
  double x = kLeft;
  for (int k = 0; k < 4; ++k) {
    if (!used[k]) continue;
    add(out, "<rect x='{:.0f}' y='{:.0f}' width='14' height='14' rx='2' fill='{}'/>", x, bottom + 12,
        kColours[k][0]);
    add(out, "<text x='{:.0f}' y='{:.0f}' font-size='12' fill='#1d2733'>{}</text>\n", x + 20, bottom + 23,
        kMeanings[k]);
    x += 190;
  }
  if (schedule.placement.chunks_on(0) > 1)
    add(out, "<text x='{:.0f}' y='{:.0f}' font-size='12' fill='#55606e'>light: later chunks</text>\n", x,
        bottom + 23);
  return out + "</svg>\n";
}

std::string to_html(const Schedule& schedule, const Durations& durations) {
  return "<!doctype html>\n<html lang='en'><meta charset='utf-8'><title>" + title_of(schedule) +
         "</"
         "title>\n<style>body{font-family:system-ui,sans-serif;margin:24px;color:#1d2733}div{overflow-x:auto}"
         "pre{background:#f5f7f9;padding:12px;overflow-x:auto}</style>\n<div>" +
         to_svg(schedule, durations) + "</div>\n<pre>" + to_report(schedule, durations) + "</pre></html>\n";
}

}  // namespace stoa::schedule

// The sections of report.html with tables and drawings: time, memory, layout, how to reproduce the run.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <ctime>

#include "base/console.h"
#include "watch/html_text.h"
#include "watch/report_page.h"

namespace stoa::watch {
namespace {

constexpr std::size_t kActionsShown = 160;  // of one rank
constexpr std::size_t kLayersShown = 512;

struct Part {
  const char* name;
  const char* style;
  double seconds;
};

std::string duration(double seconds) {
  if (seconds < 1) return fmt::format("{:.1f} ms", 1000 * seconds);
  if (seconds < 60) return fmt::format("{:.2f} s", seconds);
  return format_duration(seconds);
}

// Bytes in device memory.
double sum_of(const MemoryTable& table) { return static_cast<double>(device_bytes(table)); }

bool one_rank(const RunStart& start) { return start.layout.rfind("1 rank", 0) == 0; }

// Layers per stage from "… layers 12+12 …"; empty where the layout does not say.
std::vector<int> layers_of(std::string_view layout) {
  std::vector<int> stages;
  const auto at = layout.find("layers ");
  if (at == std::string_view::npos) return stages;
  const char* p = layout.data() + at + 7;
  const char* end = layout.data() + layout.size();
  while (p < end) {
    int count = 0;
    const auto [next, error] = std::from_chars(p, end, count);
    if (error != std::errc{} || count < 0) break;
    stages.push_back(count);
    if (next == end || *next != '+') break;
    p = next + 1;
  }
  return stages;
}

struct ActionLook {
  std::string_view letters;
  const char* style;
  bool big;
  const char* meaning;
};
constexpr std::array kLooks = {
    ActionLook{"F", "c1", false, "forward"},
    ActionLook{"B", "c2", true, "backward"},
    ActionLook{"I", "c2", false, "backward, input gradients"},
    ActionLook{"W", "c3", false, "backward, weight gradients"},
    ActionLook{"RD", "c4", false, "reduce gradients"},
    ActionLook{"STEP", "c5", true, "optimizer step"},
    ActionLook{"SA", "c4", false, "send activation"},
    ActionLook{"RA", "c4", false, "receive activation"},
    ActionLook{"SG", "c4", false, "send gradient"},
    ActionLook{"RG", "c4", false, "receive gradient"},
    ActionLook{"GW", "c4", false, "gather weights"},
    ActionLook{"RW", "c4", false, "release weights"},
};

const ActionLook* look_of(std::string_view action) {
  std::size_t letters = 0;
  while (letters < action.size() && std::isupper(static_cast<unsigned char>(action[letters])) != 0) ++letters;
  const auto found = std::find_if(kLooks.begin(), kLooks.end(), [&](const ActionLook& l) {
    return l.letters == action.substr(0, letters);
  });
  return found == kLooks.end() ? nullptr : &*found;
}

std::string actions_drawing(std::string_view line) {
  std::string out = "<div class=\"actions\">";
  std::size_t count = 0;
  while (!line.empty()) {
    const auto end = std::min(line.find(' '), line.size());
    const std::string_view action = line.substr(0, end);
    line.remove_prefix(std::min(end + 1, line.size()));
    if (action.empty() || ++count > kActionsShown) continue;
    const ActionLook* look = look_of(action);
    out += fmt::format("<i class=\"{}{}\" title=\"{}\">{}</i>", look ? look->style : "c5",
                       look && look->big ? " big" : "", look ? look->meaning : "", escape_html(action));
  }
  if (count > kActionsShown)
    out += fmt::format("<span class=\"quiet\">… and {} more</span>", count - kActionsShown);
  return out + "</div>";
}

std::string row(std::string_view name, const std::string& value) {
  return value.empty() ? "" : fmt::format("<tr><th class=\"label\">{}</th><td>{}</td></tr>", name, value);
}

// Quoted for a shell.
std::string quoted(const std::string& argument) {
  const bool plain = !argument.empty() && argument.find_first_not_of(
                                              "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                              "_-./=:,+@%") == std::string::npos;
  if (plain) return argument;
  std::string out = "'";
  for (const char c : argument) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string changes_table(const RunStart& start) {
  const std::string against =
      start.preset.empty() ? "the defaults" : fmt::format("the preset {}", escape_html(start.preset));
  if (start.changes.empty()) return fmt::format("<p class=\"quiet\">The configuration is {}.</p>", against);
  std::string out = fmt::format(
      "<h3>Changes against {}</h3><div class=\"card\"><table><tr><th>key</th><th>{}</th><th>this "
      "run</th></tr>",
      against, start.preset.empty() ? "default" : "preset");
  for (const ConfigChange& change : start.changes)
    out += fmt::format("<tr><td class=\"label\"><code>{}</code></td><td>{}</td><td>{}</td></tr>",
                       escape_html(change.key), escape_html(change.preset), escape_html(change.value));
  return out + "</table></div>";
}

// "2026-11-23 08:27"; "" where it is not known.
std::string moment_text(double seconds) {
  if (!(seconds > 0) || seconds > 4e11) return "";
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts{};
  if (!::gmtime_r(&time, &parts)) return "";
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     parts.tm_hour, parts.tm_min);
}

// A comparison of planned and used memory, as text.
std::string planned_and_used(const MemoryTable& planned, const MemoryTable& used) {
  if (planned == used) return "The run used exactly what was planned.";
  const double total = sum_of(planned);
  std::string more;
  double off = 0;
  for (std::size_t i = 0; i < planned.size(); ++i) {
    const double extra = static_cast<double>(used[i]) - static_cast<double>(planned[i]);
    off += std::abs(extra);
    if (extra > 0)
      more += fmt::format("{}{} of {}", more.empty() ? "" : ", ", format_bytes(extra),
                          name_of(static_cast<MemoryCategory>(i)));
  }
  if (!more.empty()) return fmt::format("The run used more than was planned: {}.", more);
  // Batch and scratch memory that no step used.
  return fmt::format("The run used what was planned; {}{} of it {} never used.",
                     off < 0.001 * total ? "only " : "", format_bytes(off), off == 1 ? "was" : "were");
}

}  // namespace

std::string time_section(const RunStory& story) {
  double steps = 0;
  Session sum;
  for (const Session& s : story.sessions()) {
    steps += static_cast<double>(s.measured_steps);
    sum.seconds += s.seconds;
    sum.step_seconds += s.step_seconds;
    sum.compute_seconds += s.compute_seconds;
    sum.data_seconds += s.data_seconds;
    sum.save_seconds += s.save_seconds;
    sum.validation_seconds += s.validation_seconds;
    sum.snapshot_seconds += s.snapshot_seconds;
  }
  if (steps == 0) return "";
  const PlannedTimes& plan = story.start().planned_times;
  const bool planned = plan.compute > 0;
  const double parts_of_step = sum.compute_seconds + sum.data_seconds + sum.save_seconds;
  const std::array parts = {
      Part{"compute", "c1", sum.compute_seconds},
      Part{"waiting for data", "c2", sum.data_seconds},
      Part{"waiting for checkpoints", "c3", sum.save_seconds},
      Part{"other work within steps", "c4", std::max(0.0, sum.step_seconds - parts_of_step)},
      Part{"validation", "c4", sum.validation_seconds},
      Part{"checkpoint snapshots", "c3", sum.snapshot_seconds},
      Part{"start, samples, ends", "c5",
           std::max(0.0, sum.seconds - std::max(sum.step_seconds, parts_of_step) - sum.validation_seconds -
                             sum.snapshot_seconds)},
  };
  const double waiting = story.waiting_seconds();
  double all = 0;
  for (const Part& p : parts) all += p.seconds;
  if (all <= 0) return "";
  std::string bar = "<div class=\"stack\">", rows;
  for (const Part& p : parts) {
    if (p.seconds < 0.0005 * all) continue;
    bar += fmt::format("<i class=\"{}\" style=\"flex:{:.5f} 0 0\" title=\"{}: {:.1f} %\"></i>", p.style,
                       p.seconds / all, p.name, 100 * p.seconds / all);
    // The plan has no time for waiting, validation and saving.
    const double expected = &p == &parts.front() ? plan.compute : 0;
    rows += fmt::format(
        "<tr><td class=\"label key {}\"><i></i>{}</td>{}<td class=\"n\">{}</td><td class=\"n\">{:.1f} "
        "%</td><td "
        "class=\"n\">{}</td></tr>",
        p.style, p.name,
        planned ? fmt::format("<td class=\"n\">{}</td>", expected > 0 ? duration(expected) : "") : "",
        duration(p.seconds / steps), 100 * p.seconds / all,
        p.seconds < 60 ? fmt::format("{:.1f} s", p.seconds) : format_duration(p.seconds));
  }
  std::string out = "<section><h2>Time per step</h2><div class=\"card\">" + bar +
                    "</div><table><tr><th>part</th>" + (planned ? "<th class=\"n\">planned</th>" : "") +
                    "<th class=\"n\">per step</th>"
                    "<th class=\"n\">share</th><th class=\"n\">in all</th></tr>" +
                    rows + "</table>";
  if (planned)
    out +=
        "<p class=\"quiet\">Planned: the GEMMs of a step at the machine's measured GEMM rate, an upper "
        "bound.</p>";
  if (plan.communication > 0 || plan.bubble > 0)
    out += fmt::format("<p class=\"quiet\">Planned exposed communication {}, bubble {} per step.</p>",
                       duration(plan.communication), duration(plan.bubble));
  if (one_rank(story.start()))
    out += "<p class=\"quiet\">Exposed communication and bubble: none, one rank.</p>";
  std::int64_t lost = 0;
  for (const Session& s : story.sessions()) lost += s.lost_steps;
  if (waiting > 0.5)
    out += fmt::format("<p class=\"quiet\">Between its processes (in a queue, or not yet restarted): {}.</p>",
                       duration(waiting));
  if (lost > 0) out += fmt::format("<p class=\"quiet\">{} steps were repeated after a resume.</p>", lost);
  out += "</div></section>";
  return out;
}

std::string memory_section(const RunStory& story) {
  const MemoryTable& planned = story.start().planned;
  const double total = sum_of(planned);
  if (total <= 0) return "";
  const bool measured = story.finish() && sum_of(story.finish()->used) > 0;
  const MemoryTable used = measured ? story.finish()->used : MemoryTable{};
  double widest = 1;
  for (std::size_t i = 0; i < planned.size(); ++i)
    widest = std::max(widest, static_cast<double>(std::max(planned[i], used[i])));
  const auto line = [&](std::string_view name, double plan, double touched, bool bar) {
    std::string out = fmt::format(
        "<tr><td class=\"label\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"bar c1\">",
        name, format_bytes(plan), measured ? format_bytes(touched) : "");
    if (bar) {
      out += fmt::format("<i style=\"width:{:.2f}%\"></i>", 100 * plan / widest);
      if (measured) out += fmt::format("<i style=\"width:{:.2f}%\"></i>", 100 * touched / widest);
    }
    return out + "</td></tr>";
  };
  std::string out =
      "<section><h2>Memory per category</h2><div class=\"card\"><table><tr><th>category</th><th "
      "class=\"n\">planned</th>"
      "<th class=\"n\">";
  out += measured ? "measured" : "";
  out += measured ? "</th><th>planned, below it measured</th></tr>" : "</th><th></th></tr>";
  for (std::size_t i = 0; i < planned.size(); ++i) {
    if (planned[i] == 0 && used[i] == 0) continue;
    out += line(name_of(static_cast<MemoryCategory>(i)), static_cast<double>(planned[i]),
                static_cast<double>(used[i]), true);
  }
  out += line("<b>total on the device</b>", total, sum_of(used), false) + "</table>";
  if (measured) {
    out += fmt::format("<p class=\"quiet\">{}</p>", planned_and_used(planned, used));
  } else {
    out += "<p class=\"quiet\">Measured values are added when the run ends.</p>";
  }
  if (story.peak_memory_bytes() > 0) {
    out += fmt::format(
        "<p class=\"quiet\">Peak resident memory of the process: {}, with the program, its libraries, the "
        "data and the "
        "tokenizer.</p>",
        format_bytes(static_cast<double>(story.peak_memory_bytes())));
  }
  return out + "</div></section>";
}

std::string layout_section(const RunStory& story) {
  const RunStart& start = story.start();
  if (start.layout.empty() && start.schedule.empty()) return "";
  std::string out =
      fmt::format("<section><h2>Layout</h2><div class=\"card\"><p>{}</p>", escape_html(start.layout));
  const auto stages = layers_of(start.layout);
  std::size_t layer = 0;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    out += fmt::format("<div class=\"stage\"><span>stage {}</span><div class=\"layers c{}\">", stage,
                       stage % 5 + 1);
    if (stage == 0) out += "<i title=\"embedding\">E</i>";
    for (int i = 0; i < stages[stage] && layer < kLayersShown; ++i, ++layer)
      out += fmt::format("<i title=\"layer {}\">{}</i>", layer, layer);
    if (stage + 1 == stages.size()) out += "<i title=\"final norm and head\">H</i>";
    out += "</div></div>";
  }
  if (!start.schedule.empty()) {
    out += "<h3>Schedule of one step</h3>";
    std::string_view rest = start.schedule;
    while (!rest.empty()) {
      const auto end = std::min(rest.find('\n'), rest.size());
      const std::string_view line = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      if (line.find_first_not_of(' ') != std::string_view::npos) out += actions_drawing(line);
    }
    out +=
        "<p class=\"quiet\">In order of execution, chunk and microbatch after the letter: F forward, B "
        "backward, I and W its two halves, "
        "RD reduction of gradients, STEP optimizer. Widths are not times.</p>";
  }
  return out + "</div></section>";
}

std::string repeat_section(const RunStory& story) {
  const RunStart& start = story.start();
  std::string command, data;
  for (const std::string& argument : start.command)
    command += (command.empty() ? "" : " ") + quoted(argument);
  for (const std::string& part : start.data) data += (data.empty() ? "" : "<br>") + escape_html(part);
  std::string out = "<section><h2>How to repeat it</h2><div class=\"card\"><table>";
  if (!command.empty()) out += row("command", "<code>" + escape_html(command) + "</code>");
  out += row("Stoa",
             escape_html(start.version) +
                 (start.commit.empty() ? "" : ", commit <code>" + escape_html(start.commit) + "</code>"));
  out += row("machine", escape_html(start.machine));
  if (start.gemm_tflops > 0) {
    out += row("its GEMM rate", fmt::format("{:.2f} TFLOP/s in {} at the start: 100 % of “peak”",
                                            start.gemm_tflops, escape_html(start.precision)));
  }
  out += row("model", escape_html(start.model));
  out += row("precision", escape_html(start.precision));
  out += row("data", data);
  if (!start.tokenizer_fingerprint.empty())
    out += row("tokenizer", "<code>" + escape_html(start.tokenizer_fingerprint) + "</code>");
  if (!story.newest_checkpoint().empty())
    out += row("newest checkpoint", "<code>" + escape_html(story.newest_checkpoint()) + "</code>");
  out += "</table></div>";
  if (!start.config_yaml.empty()) out += changes_table(start);
  if (story.sessions().size() > 1) {
    out +=
        "<h3>Processes of this run</h3><div class=\"card\"><table><tr><th>process</th><th>began "
        "(UTC)</th><th class=\"n\">from step</th><th class=\"n\">to step</th>"
        "<th class=\"n\">time</th><th>ended by</th></tr>";
    for (std::size_t i = 0; i < story.sessions().size(); ++i) {
      const Session& s = story.sessions()[i];
      out += fmt::format(
          "<tr><td>{}</td><td class=\"label\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td "
          "class=\"n\">{}</td><td>{}</td></tr>",
          i + 1, moment_text(s.began), s.first_step, s.last_step, format_duration(s.seconds),
          s.ended.empty() ? "running" : escape_html(s.ended));
    }
    out += "</table></div>";
  }
  if (!start.config_yaml.empty()) {
    out += "<details class=\"card\"><summary>config.yaml, resolved</summary><pre>" +
           escape_html(start.config_yaml) + "</pre></details>";
  }
  return out + "</section>";
}

}  // namespace stoa::watch

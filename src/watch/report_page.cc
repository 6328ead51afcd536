#include "watch/report_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/console.h"
#include "watch/chart.h"
#include "watch/html_text.h"
#include "watch/report_assets.h"

namespace stoa::watch {
namespace {

constexpr std::size_t kChartPoints = 600;  // of one line
constexpr std::size_t kSamplesShown = 12;  // of one prompt; the others are folded away

struct State {
  const char* style;
  std::string word;
};

State state_of(const RunStory& story) {
  if (!story.finish()) return {"running", "running"};
  switch (story.finish()->reason) {
    case StopReason::kDone:
      return {"done", "done"};
    case StopReason::kTime:
      return {"stopped", "stopped: time is up"};
    case StopReason::kSignal:
      return {"stopped", "stopped by a signal"};
    case StopReason::kError:
      return {"failed", "failed"};
  }
  return {"failed", "failed"};
}

std::string tile(std::string_view label, const std::string& value, const std::string& note = "") {
  return fmt::format("<div class=\"tile\"><span>{}</span><b>{}</b>{}</div>", label, escape_html(value),
                     note.empty() ? "" : fmt::format("<small>{}</small>", escape_html(note)));
}

using Member = double MetricsPoint::*;

std::vector<ChartPoint> column(const RunStory& story, Member member, bool validation) {
  std::vector<ChartPoint> out;
  for (const MetricsPoint& p : story.points()) {
    if (p.is_validation == validation) out.push_back({static_cast<double>(p.step), p.*member});
  }
  return out;
}

std::vector<double> restarts_of(const RunStory& story) {
  std::vector<double> out;
  for (const Session& s : story.sessions()) {
    if (s.first_step > 0) out.push_back(static_cast<double>(s.first_step));
  }
  return out;
}

bool spans_decades(const std::vector<ChartPoint>& points) {
  double low = INFINITY, high = 0;
  for (const ChartPoint& p : points) {
    if (!std::isfinite(p.y)) continue;
    if (p.y <= 0) return false;
    low = std::min(low, p.y);
    high = std::max(high, p.y);
  }
  return high > 20 * low;
}

std::string small_chart(const RunStory& story, const char* title, const char* unit, Member member,
                        const char* style, bool from_zero = false) {
  const auto points = column(story, member, false);
  Chart chart;
  chart.title = title;
  chart.unit = unit;
  chart.restarts = restarts_of(story);
  chart.from_zero = from_zero;
  chart.series.push_back({title, style, thin_out(points, kChartPoints), false});
  return draw_chart(chart);
}

std::string sample_row(const SampleReport& s) {
  return fmt::format("<div class=\"sample\"><b>step {}</b><div class=\"text\"><u>{}</u>{}</div></div>",
                     s.step, escape_html(s.prompt), escape_html(s.text));
}

}  // namespace

std::string verdict_section(const RunStory& story) {
  const RunStart& start = story.start();
  const State state = state_of(story);
  std::string out = fmt::format("<header><h1>{}<span class=\"badge {}\">{}</span></h1>",
                                escape_html(start.name), state.style, state.word);
  out += fmt::format("<p class=\"quiet\">{}{}{}</p>", escape_html(start.model),
                     start.layout.empty() ? "" : " · ", escape_html(start.layout));
  if (story.finish() && !story.finish()->detail.empty()) {
    out += fmt::format("<div class=\"detail {}\">{}</div>", state.style, escape_html(story.finish()->detail));
  }
  out += "<div class=\"tiles\">";
  const MetricsPoint* last = nullptr;
  const MetricsPoint* best = nullptr;
  const MetricsPoint* newest = nullptr;
  for (const MetricsPoint& p : story.points()) {
    if (!p.is_validation) last = &p;
    if (!p.is_validation || !std::isfinite(p.validation_loss)) continue;
    newest = &p;
    if (!best || p.validation_loss < best->validation_loss) best = &p;
  }
  out += tile("steps", fmt::format("{}", story.step()),
              start.last_step > 0 ? fmt::format("of {}", start.last_step) : "");
  out += tile("tokens", format_count(static_cast<double>(story.tokens())));
  out += tile("time", format_duration(story.total_seconds()),
              story.sessions().size() > 1 ? "of all processes" : "wall clock");
  if (newest) {
    out += tile("validation loss", fmt::format("{:.4f}", newest->validation_loss),
                best == newest ? fmt::format("step {}, the best", newest->step)
                               : fmt::format("step {}; best {:.4f} at {}", newest->step,
                                             best->validation_loss, best->step));
  }
  if (last)
    out += tile("training loss", std::isfinite(last->loss) ? fmt::format("{:.4f}", last->loss) : "none",
                fmt::format("step {}", last->step));
  if (!story.bits_per_byte().empty()) {
    const BitsPerByte& b = story.bits_per_byte().back();
    out += tile("bits per byte", fmt::format("{:.3f}", b.value),
                fmt::format("validation text, step {}", b.step));
  }
  if (last) {
    out += tile("speed", format_count(last->tokens_per_second) + " tok/s",
                last->mfu > 0 ? fmt::format("{:.0f} % of the machine's peak", 100 * last->mfu) : "");
  }
  out += tile("goodput", fmt::format("{:.0f} %", 100 * story.goodput()),
              "of the time computed steps that count");
  out += tile("peak memory", format_bytes(static_cast<double>(story.peak_memory_bytes())), "resident");
  out += tile("resumes", fmt::format("{}", story.sessions().empty() ? 0 : story.sessions().size() - 1));
  out += tile("skipped steps", fmt::format("{}", story.skipped_steps()), "gradients not finite");
  return out + "</div></header>";
}

std::string curves_section(const RunStory& story) {
  const auto train = column(story, &MetricsPoint::loss, false);
  const auto validation = column(story, &MetricsPoint::validation_loss, true);
  Chart loss;
  loss.title = "Loss";
  loss.unit = "nats per token, over steps";
  loss.width = 1120;
  loss.height = 340;
  loss.restarts = restarts_of(story);
  if (train.size() > 40) {
    loss.series.push_back({"", "c1 faint", thin_out(train, 2 * kChartPoints), false});
    loss.series.push_back({"training (smoothed)", "c1",
                           thin_out(smooth(train, std::max<std::size_t>(2, train.size() / 80)), kChartPoints),
                           false});
  } else {
    loss.series.push_back({"training", "c1", train, false});
  }
  const auto shown = thin_out(validation, kChartPoints);
  loss.series.push_back({"validation", "c2", shown, shown.size() <= 80});
  const auto norm = column(story, &MetricsPoint::gradient_norm, false);
  Chart norms;
  norms.title = "Gradient norm";
  norms.unit = "before clipping";
  norms.restarts = loss.restarts;
  norms.logarithmic = spans_decades(norm);
  norms.series.push_back({"gradient norm", "c3", thin_out(norm, kChartPoints), false});
  std::string out =
      "<section><h2>Curves</h2><div class=\"charts\"><div class=\"wide\">" + draw_chart(loss) + "</div>";
  out += draw_chart(norms);
  out += small_chart(story, "Learning rate", "", &MetricsPoint::learning_rate, "c4");
  out += small_chart(story, "Speed", "tokens per second", &MetricsPoint::tokens_per_second, "c5", true);
  if (story.bits_per_byte().size() > 1) {
    Chart bits;
    bits.title = "Bits per byte";
    bits.unit = "of the validation text";
    bits.restarts = loss.restarts;
    ChartSeries series{"bits per byte", "c2", {}, true};
    for (const BitsPerByte& b : story.bits_per_byte())
      series.points.push_back({static_cast<double>(b.step), b.value});
    bits.series.push_back(std::move(series));
    out += draw_chart(bits);
  } else {
    const auto scale = column(story, &MetricsPoint::loss_scale, false);
    const bool moved = std::any_of(scale.begin(), scale.end(), [](const ChartPoint& p) { return p.y != 1; });
    out += moved ? small_chart(story, "Loss scale", "", &MetricsPoint::loss_scale, "c2")
                 : small_chart(story, "Step time", "seconds", &MetricsPoint::step_seconds, "c2", true);
  }
  out += "</div>";
  if (!loss.restarts.empty())
    out += "<p class=\"quiet\">Dashed: the run was resumed there from a checkpoint.</p>";
  return out + "</section>";
}

std::string samples_section(const RunStory& story) {
  std::vector<std::string> prompts;
  for (const SampleReport& s : story.samples()) {
    if (std::find(prompts.begin(), prompts.end(), s.prompt) == prompts.end()) prompts.push_back(s.prompt);
  }
  if (prompts.empty()) return "";
  std::string out = "<section><h2>Samples of the same prompt over time</h2>";
  for (const std::string& prompt : prompts) {
    std::vector<const SampleReport*> of_prompt;
    for (const SampleReport& s : story.samples()) {
      if (s.prompt == prompt) of_prompt.push_back(&s);
    }
    const std::size_t n = of_prompt.size(), shown = std::min(n, kSamplesShown);
    std::string visible, folded;
    std::size_t next = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t wanted =
          shown > 1 ? next * (n - 1) / (shown - 1) : 0;  // evenly, first and last among them
      if (i == wanted && next < shown) {
        visible += sample_row(*of_prompt[i]);
        ++next;
      } else {
        folded += sample_row(*of_prompt[i]);
      }
    }
    out += "<div class=\"card\">" + visible;
    if (!folded.empty())
      out += fmt::format("<details><summary>{} more</summary>{}</details>", n - shown, folded);
    out += "</div>";
  }
  return out + "</section>";
}

std::string render_report(const RunStory& story) {
  std::string out = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">";
  out += "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">";
  if (!story.finish()) out += "<meta http-equiv=\"refresh\" content=\"60\">";
  out += fmt::format("<title>{} · {}</title><style>{}</style></head><body><main>\n",
                     escape_html(story.start().name), state_of(story).word, kReportStyle);
  for (const auto section : {verdict_section, curves_section, samples_section, time_section, memory_section,
                             layout_section, repeat_section}) {
    const std::string text = section(story);
    if (!text.empty()) out += text + "\n";
  }
  out +=
      fmt::format("<footer>Written by Stoa {}. This page refers to nothing outside itself.</footer></main>\n",
                  escape_html(story.start().version));
  out += fmt::format("{}{}{}\n<script>{}</script></body></html>\n", kFactsOpen, story.facts(), kFactsClose,
                     kReportScript);
  return out;
}

}  // namespace stoa::watch

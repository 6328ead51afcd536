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

std::vector<ChartPoint> column(const MetricsCurve& curve, Member member) {
  std::vector<ChartPoint> out;
  for (const MetricsPoint& p : curve.points()) out.push_back({static_cast<double>(p.step), p.*member});
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
  const auto points = column(story.training(), member);
  Chart chart;
  chart.title = title;
  chart.unit = unit;
  chart.restarts = restarts_of(story);
  chart.from_zero = from_zero;
  chart.series.push_back({title, style, thin_out(points, kChartPoints), false});
  return draw_chart(chart);
}

// A score of training and of validation; nothing where there is none.
std::string score_chart(const RunStory& story, const char* title, const char* unit, Member member) {
  Chart chart;
  chart.title = title;
  chart.unit = unit;
  chart.restarts = restarts_of(story);
  const auto add = [&](const MetricsCurve& curve, const char* name, const char* style) {
    auto points = column(curve, member);
    std::erase_if(points, [](const ChartPoint& p) { return !std::isfinite(p.y); });
    if (points.size() > 1)
      chart.series.push_back({name, style, thin_out(points, kChartPoints), points.size() <= 80});
  };
  add(story.training(), "training", "c1");
  add(story.validation(), "validation", "c2");
  return chart.series.empty() ? "" : draw_chart(chart);
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
  const auto& last = story.newest_training();
  const auto& newest = story.newest_validation();
  const auto& best = story.best_validation();
  out += tile("steps", fmt::format("{}", story.step()),
              start.last_step > 0 ? fmt::format("of {}", start.last_step) : "");
  out += tile("tokens", format_count(static_cast<double>(story.tokens())));
  out += tile("time", format_duration(story.total_seconds()),
              story.sessions().size() > 1 ? "since the first start, waiting included" : "wall clock");
  if (newest) {
    out += tile("validation loss", fmt::format("{:.4f}", newest->validation_loss),
                best->step == newest->step ? fmt::format("step {}, the best", newest->step)
                                           : fmt::format("step {}; best {:.4f} at {}", newest->step,
                                                         best->validation_loss, best->step));
  }
  if (last)
    out += tile("training loss", std::isfinite(last->loss) ? fmt::format("{:.4f}", last->loss) : "none",
                fmt::format("step {}", last->step));
  if (newest && newest->bits_per_byte > 0) {
    out += tile("bits per byte", fmt::format("{:.3f}", newest->bits_per_byte),
                fmt::format("validation text, step {}", newest->step));
  }
  if (last) {
    out += tile("speed", format_count(last->tokens_per_second) + " tok/s",
                last->mfu > 0 ? fmt::format("{:.0f} % of the machine's peak", 100 * last->mfu) : "");
  }
  out += tile("goodput", fmt::format("{:.0f} %", 100 * story.goodput()), "of all time since the first start");
  out += tile("peak memory", format_bytes(static_cast<double>(story.peak_memory_bytes())), "resident");
  out += tile("resumes", fmt::format("{}", story.sessions().empty() ? 0 : story.sessions().size() - 1));
  out += tile("skipped steps", fmt::format("{}", story.skipped_steps()), "gradients not finite");
  return out + "</div></header>";
}

namespace {

// The loss chart without its dimensions.
Chart loss_chart(const RunStory& story, bool logarithmic) {
  const auto train = column(story.training(), &MetricsPoint::loss);
  Chart loss;
  loss.title = "Loss";
  loss.unit = "nats per token, over steps";
  loss.restarts = restarts_of(story);
  loss.logarithmic = logarithmic;
  loss.robust = true;
  if (train.size() > 40) {
    loss.series.push_back({"", "c1 faint", thin_out(train, 2 * kChartPoints), false});
    loss.series.push_back({"training (smoothed)", "c1",
                           thin_out(smooth(train, std::max<std::size_t>(2, train.size() / 80)), kChartPoints),
                           false});
  } else {
    loss.series.push_back({"training", "c1", train, false});
  }
  const auto shown = thin_out(column(story.validation(), &MetricsPoint::validation_loss), kChartPoints);
  loss.series.push_back({"validation", "c2", shown, shown.size() <= 80});
  return loss;
}

// Linear, and logarithmic on click; each in proportions for a wide window and for a phone.
std::string loss_views(const RunStory& story) {
  std::string out =
      "<div class=\"wide views\"><input type=\"radio\" name=\"loss\" id=\"loss-linear\" checked>"
      "<input type=\"radio\" name=\"loss\" id=\"loss-log\"><div class=\"choice\"><label "
      "for=\"loss-linear\">linear</label><label for=\"loss-log\">log</label></div>";
  for (const bool logarithmic : {false, true}) {
    Chart chart = loss_chart(story, logarithmic);
    out += logarithmic ? "<div class=\"log\">" : "<div class=\"linear\">";
    chart.width = 1120;
    chart.height = 340;
    out += "<div class=\"desk\">" + draw_chart(chart) + "</div>";
    chart.width = 560;
    chart.height = 380;
    out += "<div class=\"phone\">" + draw_chart(chart) + "</div></div>";
  }
  return out + "</div>";
}

}  // namespace

std::string curves_section(const RunStory& story) {
  const std::vector<double> restarts = restarts_of(story);
  const auto norm = column(story.training(), &MetricsPoint::gradient_norm);
  Chart norms;
  norms.title = "Gradient norm";
  norms.unit = "before clipping";
  norms.restarts = restarts;
  norms.logarithmic = spans_decades(norm);
  norms.robust = true;
  norms.series.push_back({"gradient norm", "c3", thin_out(norm, kChartPoints), false});
  std::string out = "<section><h2>Curves</h2><div class=\"charts\">" + loss_views(story);
  out += draw_chart(norms);
  out += small_chart(story, "Learning rate", "", &MetricsPoint::learning_rate, "c4");
  out += small_chart(story, "Speed", "tokens per second", &MetricsPoint::tokens_per_second, "c5", true);
  std::vector<ChartPoint> bits_of_steps;
  for (const ChartPoint& p : column(story.validation(), &MetricsPoint::bits_per_byte))
    if (p.y > 0) bits_of_steps.push_back(p);
  if (bits_of_steps.size() > 1) {
    Chart bits;
    bits.title = "Bits per byte";
    bits.unit = "of the validation text";
    bits.restarts = restarts;
    bits.robust = true;
    const bool few = bits_of_steps.size() <= 80;
    bits.series.push_back({"bits per byte", "c2", thin_out(bits_of_steps, kChartPoints), few});
    out += draw_chart(bits);
  } else {
    const auto scale = column(story.training(), &MetricsPoint::loss_scale);
    const bool moved = std::any_of(scale.begin(), scale.end(), [](const ChartPoint& p) { return p.y != 1; });
    out += moved ? small_chart(story, "Loss scale", "", &MetricsPoint::loss_scale, "c2")
                 : small_chart(story, "Step time", "seconds", &MetricsPoint::step_seconds, "c2", true);
  }
  out += score_chart(story, "Accuracy", "share of answers", &MetricsPoint::accuracy);
  out += score_chart(story, "Margin", "between chosen and rejected answers", &MetricsPoint::margin);
  out +=
      score_chart(story, "Divergence", "nats, from the teacher or the reference", &MetricsPoint::divergence);
  out += "</div>";
  if (!restarts.empty()) out += "<p class=\"quiet\">Dashed: the run was resumed there from a checkpoint.</p>";
  return out + "</section>";
}

namespace {

// One figure over the steps.
struct TaskCurve {
  std::vector<ChartPoint> points;
  TaskFigure newest, best;
  std::int64_t newest_step = 0, best_step = 0;
};

std::vector<std::pair<std::string, TaskCurve>> task_curves(const RunStory& story) {
  std::vector<std::pair<std::string, TaskCurve>> out;
  for (const TaskReport& report : story.tasks())
    for (const TaskFigure& f : report.figures) {
      auto at = std::find_if(out.begin(), out.end(), [&](const auto& c) { return c.first == f.name; });
      const bool first = at == out.end();
      if (first) at = out.insert(out.end(), {f.name, {}});
      TaskCurve& curve = at->second;
      curve.points.push_back({static_cast<double>(report.step), f.value});
      const double gain = (f.value - curve.best.value) * (f.higher_is_better ? 1 : -1);
      if (first || gain > 0) {
        curve.best = f;
        curve.best_step = report.step;
      }
      curve.newest = f;
      curve.newest_step = report.step;
    }
  return out;
}

std::string with_error(const TaskFigure& f) {
  return fmt::format("{:.4f}{}", f.value,
                     f.standard_error ? fmt::format(" ± {:.4f}", *f.standard_error) : "");
}

}  // namespace

std::string tasks_section(const RunStory& story) {
  const auto curves = task_curves(story);
  if (curves.empty()) return "";
  std::string rows, charts;
  for (const auto& [name, curve] : curves) {
    rows += fmt::format(
        "<tr><td class=\"label\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td "
        "class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
        escape_html(name), with_error(curve.newest), curve.newest_step, with_error(curve.best),
        curve.best_step);
    if (curve.points.size() < 2) continue;
    Chart chart;
    chart.title = name;
    chart.restarts = restarts_of(story);
    chart.series.push_back({name, "c2", thin_out(curve.points, kChartPoints), curve.points.size() <= 80});
    charts += draw_chart(chart);
  }
  return "<section><h2>Tasks</h2><div class=\"card\"><table><tr><th>figure</th><th class=\"n\">newest ± "
         "standard error</th><th class=\"n\">step</th><th class=\"n\">best</th><th "
         "class=\"n\">step</th></tr>" +
         rows + "</table></div>" + (charts.empty() ? "" : "<div class=\"charts\">" + charts + "</div>") +
         "</section>";
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
  for (const auto section : {verdict_section, curves_section, tasks_section, samples_section, time_section,
                             memory_section, layout_section, repeat_section}) {
    const std::string text = section(story);
    if (!text.empty()) out += text + "\n";
  }
  out += fmt::format("<footer>Written by Stoa {}. This page needs no other files.</footer></main>\n",
                     escape_html(story.start().version));
  out += fmt::format("{}{}{}\n<script>{}</script></body></html>\n", kFactsOpen, story.facts(), kFactsClose,
                     kReportScript);
  return out;
}

}  // namespace stoa::watch

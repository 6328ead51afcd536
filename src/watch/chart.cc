#include "watch/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "watch/html_text.h"

namespace stoa::watch {
namespace {

constexpr double kLeft = 52, kRight = 14, kTop = 12,
                 kBottom = 28,  // margins of the plot, in units of the drawing
    kAxisWords = 16;

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();
  void include(double v) {
    low = std::min(low, v);
    high = std::max(high, v);
  }
  bool empty() const { return !(low <= high); }
};

// From values to places in the drawing.
struct Frame {
  Range x, y;
  bool logarithmic = false;
  std::optional<double> beyond;  // the highest value, where the axis ends below it
  double left = 0, top = 0, right = 0, bottom = 0;

  double place_x(double v) const { return left + (v - x.low) / (x.high - x.low) * (right - left); }
  double place_y(double v) const {
    const double share =
        logarithmic ? std::log(v / y.low) / std::log(y.high / y.low) : (v - y.low) / (y.high - y.low);
    return bottom - share * (bottom - top);
  }
};

// Where an axis ends that neither the first steps of a run nor single peaks squeeze: nothing where the
// highest value is not far above.
std::optional<double> robust_top(const Chart& chart, const Frame& f) {
  constexpr double kFirstShare = 0.05, kRank = 0.98;
  constexpr std::size_t kFewest = 6;
  const double begin = f.x.low + kFirstShare * (f.x.high - f.x.low);
  std::vector<double> values;
  for (const ChartSeries& s : chart.series)
    for (const ChartPoint& p : s.points)
      if (std::isfinite(p.y) && p.x >= begin) values.push_back(p.y);
  if (values.size() < kFewest) return std::nullopt;
  const auto rank = static_cast<std::size_t>(kRank * static_cast<double>(values.size() - 1));
  std::sort(values.begin(), values.end());
  const double spread = values[rank] - values.front();
  const double top = std::min(values.back(), values[rank] + spread);
  if (!(spread > 0) || f.y.high - top < 0.3 * (top - values.front())) return std::nullopt;
  return top;
}

Frame frame_of(const Chart& chart) {
  Frame f;
  for (const ChartSeries& s : chart.series) {
    for (const ChartPoint& p : s.points) {
      if (!std::isfinite(p.y)) continue;
      f.x.include(p.x);
      f.y.include(p.y);
    }
  }
  if (f.x.empty()) return f;
  f.logarithmic = chart.logarithmic && f.y.low > 0;
  if (chart.robust && !f.logarithmic)
    if (const auto top = robust_top(chart, f)) f.beyond = std::exchange(f.y.high, *top);
  f.x.include(0);  // a run begins at step 0
  if (f.x.low == f.x.high) f.x = {f.x.low - 1, f.x.high + 1};
  if (f.logarithmic) {
    f.y = f.y.low == f.y.high ? Range{f.y.low / 2, f.y.high * 2} : Range{f.y.low / 1.15, f.y.high * 1.15};
  } else {
    const double pad =
        f.y.low == f.y.high ? std::max(std::abs(f.y.low) * 0.1, 1e-12) : 0.06 * (f.y.high - f.y.low);
    // Close to zero the axis may as well begin there.
    const bool touches_zero = f.y.low >= 0 && (chart.from_zero || f.y.low - pad < 0.1 * f.y.high);
    f.y = {touches_zero ? 0 : f.y.low - pad, f.y.high + pad};
  }
  f.left = kLeft;
  f.top = kTop;
  f.right = chart.width - kRight;
  f.bottom = chart.height - kBottom - (chart.x_axis.empty() ? 0 : kAxisWords);
  return f;
}

std::string path_of(const ChartSeries& series, const Frame& f) {
  std::string d;
  bool pen_down = false;
  for (const ChartPoint& p : series.points) {
    if (!std::isfinite(p.y)) {
      pen_down = false;
      continue;
    }
    d += fmt::format("{}{:.1f} {:.1f}", pen_down ? 'L' : 'M', f.place_x(p.x), f.place_y(p.y));
    pen_down = true;
  }
  return d;
}

// With this many digits: more would make the page longer without being visible.
nlohmann::ordered_json rounded(double value, int digits) {
  const double near = std::stod(fmt::format("{:.{}g}", value, digits));
  constexpr double kWhole = 1e15;  // 10, not 10.0
  if (std::abs(near) < kWhole && near == std::floor(near)) return static_cast<std::int64_t>(near);
  return near;
}

// What the page's script needs to find the nearest values: quoted for an attribute.
std::string script_data(const Chart& chart, const Frame& f) {
  using Json = nlohmann::ordered_json;
  Json series = Json::array();
  for (const ChartSeries& s : chart.series) {
    if (s.name.empty()) continue;
    Json points = Json::array();
    for (const ChartPoint& p : s.points)
      if (std::isfinite(p.y)) points.push_back({rounded(p.x, 9), rounded(p.y, 5)});
    series.push_back({{"n", s.name}, {"c", s.style}, {"p", std::move(points)}});
  }
  const Json data{{"b", {rounded(f.left, 4), rounded(f.top, 4), rounded(f.right, 4), rounded(f.bottom, 4)}},
                  {"x", {rounded(f.x.low, 6), rounded(f.x.high, 6)}},
                  {"y", {rounded(f.y.low, 6), rounded(f.y.high, 6)}},
                  {"log", f.logarithmic ? 1 : 0},
                  {"s", std::move(series)}};
  return escape_html(data.dump());
}

std::string grid(const Chart& chart, const Frame& f) {
  std::string out;
  for (const double v :
       f.logarithmic ? logarithmic_ticks(f.y.low, f.y.high) : linear_ticks(f.y.low, f.y.high, 5)) {
    const double y = f.place_y(v);
    out += fmt::format(R"(<line class="grid" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/>)", f.left,
                       f.right, y, y);
    out += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="end">{}</text>)", f.left - 7, y + 4,
                       tick_text(v));
  }
  for (const double v : linear_ticks(f.x.low, f.x.high, 6)) {
    if (v != std::floor(v)) continue;  // no half steps
    out += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)", f.place_x(v),
                       f.bottom + 18, tick_text(v));
  }
  if (!chart.x_axis.empty())
    out += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)",
                       0.5 * (f.left + f.right), f.bottom + 36, escape_html(chart.x_axis));
  for (const double v : chart.restarts) {
    if (v < f.x.low || v > f.x.high) continue;
    const double x = f.place_x(v);
    out += fmt::format(
        R"(<line class="restart" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"><title>resumed from step {:.0f}</title></line>)",
        x, x, f.top, f.bottom, v);
  }
  return out;
}

}  // namespace

std::vector<ChartPoint> thin_out(const std::vector<ChartPoint>& points, std::size_t limit) {
  if (points.size() <= limit || limit == 0) return points;
  std::vector<ChartPoint> out;
  for (std::size_t i = 0; i < limit; ++i) {
    const std::size_t begin = i * points.size() / limit, end = (i + 1) * points.size() / limit;
    double sum = 0;
    int count = 0;
    for (std::size_t j = begin; j < end; ++j) {
      if (std::isfinite(points[j].y)) sum += points[j].y, ++count;
    }
    out.push_back({points[end - 1].x, count > 0 ? sum / count : std::numeric_limits<double>::quiet_NaN()});
  }
  return out;
}

std::vector<ChartPoint> smooth(const std::vector<ChartPoint>& points, std::size_t half) {
  std::vector<ChartPoint> finite;
  std::vector<double> sums{0};  // of all before
  for (const ChartPoint& p : points) {
    if (!std::isfinite(p.y)) continue;
    finite.push_back(p);
    sums.push_back(sums.back() + p.y);
  }
  for (std::size_t i = 0; i < finite.size(); ++i) {
    const std::size_t reach = std::min({half, i, finite.size() - 1 - i});
    finite[i].y = (sums[i + reach + 1] - sums[i - reach]) / static_cast<double>(2 * reach + 1);
  }
  return finite;
}

std::vector<double> linear_ticks(double low, double high, int count) {
  std::vector<double> ticks;
  if (!(low < high) || count < 1) return ticks;
  const double raw = (high - low) / count;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  const double step = power * (raw / power > 5 ? 10 : raw / power > 2 ? 5 : raw / power > 1 ? 2 : 1);
  for (double k = std::ceil(low / step); k * step <= high && ticks.size() < 100; ++k)
    ticks.push_back(k * step);
  return ticks;
}

std::vector<double> logarithmic_ticks(double low, double high) {
  std::vector<double> ticks;
  if (!(low > 0) || !(low < high)) return ticks;
  const double decades = std::log10(high / low);
  for (double power = std::floor(std::log10(low)); power <= std::log10(high); ++power) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (factor != 1 && decades > 2) continue;
      const double v = factor * std::pow(10.0, power);
      if (v >= low && v <= high) ticks.push_back(v);
    }
  }
  if (ticks.size() < 2) return linear_ticks(low, high, 4);
  return ticks;
}

std::string tick_text(double value) {
  const double size = std::abs(value);
  if (size < 1e-300) return "0";
  if (size >= 1e9) return fmt::format("{:.4g}G", value / 1e9);
  if (size >= 1e6) return fmt::format("{:.4g}M", value / 1e6);
  if (size >= 1e4) return fmt::format("{:.4g}k", value / 1e3);
  if (size >= 0.01) return fmt::format("{:.4g}", value);
  const int exponent = static_cast<int>(std::floor(std::log10(size) + 1e-9));
  return fmt::format("{:.3g}e{}", value / std::pow(10.0, exponent), exponent);
}

std::string draw_chart(const Chart& chart) {
  const Frame f = frame_of(chart);
  std::string out = fmt::format("<figure><figcaption><b>{}</b> <span class=\"unit\">{}</span>",
                                escape_html(chart.title), escape_html(chart.unit));
  if (f.beyond)
    out +=
        fmt::format(" <span class=\"unit\">(values up to {} are off the scale)</span>", tick_text(*f.beyond));
  for (const ChartSeries& s : chart.series) {
    if (!s.name.empty() && chart.series.size() > 1 && !s.points.empty()) {
      out += fmt::format("<span class=\"key {}\"><i></i>{}</span>", s.style, escape_html(s.name));
    }
  }
  out += "</figcaption>";
  if (f.x.empty()) return out + "<p class=\"quiet\">no values yet</p></figure>";
  out += fmt::format(
      R"(<svg class="chart" viewBox="0 0 {:.0f} {:.0f}" role="img" aria-label="{} over {}" data-chart="{}">)",
      chart.width, chart.height, escape_html(chart.title),
      chart.x_axis.empty() ? "steps" : escape_html(chart.x_axis), script_data(chart, f));
  out += grid(chart, f);
  if (f.beyond) {
    // Unique on a page: no chart is drawn twice in one size.
    std::string id = fmt::format("inside-{:.0f}-", chart.width);
    for (const char c : chart.title) id += c == ' ' ? '-' : c;
    id = escape_html(id);
    out += fmt::format(
        R"svg(<clipPath id="{}"><rect x="0" y="{:.1f}" width="{:.0f}" height="{:.0f}"/></clipPath><g clip-path="url(#{})">)svg",
        id, f.top, chart.width, chart.height, id);
  }
  for (const ChartSeries& s : chart.series) {
    out += fmt::format(R"(<path class="line {}" d="{}"/>)", s.style, path_of(s, f));
    if (!s.dots) continue;
    for (const ChartPoint& p : s.points) {
      if (std::isfinite(p.y)) {
        out += fmt::format(R"(<circle class="dot {}" cx="{:.1f}" cy="{:.1f}" r="3.2"/>)", s.style,
                           f.place_x(p.x), f.place_y(p.y));
      }
    }
  }
  if (f.beyond) out += "</g>";
  return out + "</svg></figure>";
}

}  // namespace stoa::watch

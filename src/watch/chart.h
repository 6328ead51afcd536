// Line charts as inline SVG, readable without scripts; the page's script adds values under the pointer.
#pragma once

#include <string>
#include <vector>

namespace stoa::watch {

struct ChartPoint {
  double x = 0, y = 0;  // y not finite: a gap
};

struct ChartSeries {
  std::string name;                // shown in legend and tooltip; "" for one that accompanies another
  std::string style;               // CSS class that sets the colour: "c1" … "c5"; "faint" may follow
  std::vector<ChartPoint> points;  // x ascending
  bool dots = false;               // few points: mark each
};

struct Chart {
  std::string title, unit;  // unit: of y
  std::string x_axis;       // what x is, below the axis; "": steps, which every page with curves says above
  std::vector<ChartSeries> series;
  std::vector<double> restarts;  // x of dashed marks
  bool logarithmic = false;      // y; only where all values are positive
  bool from_zero = false;        // the y axis begins at 0 whatever the values
  bool robust = false;           // the axis need not include first values and peaks far above the rest
  double width = 560, height = 250;
};

// A <figure> with title, legend and drawing. A chart without any finite value says so instead.
std::string draw_chart(const Chart& chart);

// At most `limit` points: means over equal runs of points. Gaps stay where a whole run has no finite value.
std::vector<ChartPoint> thin_out(const std::vector<ChartPoint>& points, std::size_t limit);

// Means over up to `half` finite points on either side, fewer but still as many on both near the ends, so
// that a slope stays where it is; gaps do not count.
std::vector<ChartPoint> smooth(const std::vector<ChartPoint>& points, std::size_t half);

// Round numbers within [low, high], about `count` of them.
std::vector<double> linear_ticks(double low, double high, int count);
std::vector<double> logarithmic_ticks(double low, double high);

// "1.2k", "0.5", "6e-4": for ticks.
std::string tick_text(double value);

}  // namespace stoa::watch

#include "schedule/draw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "schedule/generators.h"

namespace stoa::schedule {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(Draw, ReportGivesBubbleMemoryAndLists) {
  const std::string report = to_report(one_forward_one_backward(2, 3), {});
  // 3 microbatches of 3 units and a bubble of (stages - 1) of them.
  EXPECT_THAT(report, HasSubstr("makespan 12, bubble 0.2500; span 12, bubble 0.2500; computation 9"));
  EXPECT_THAT(report, HasSubstr("   0       1          2  3"));
  EXPECT_THAT(report, HasSubstr("   1       1          1  3"));
  EXPECT_THAT(report, HasSubstr("F0.0 SA0.0 F0.1"));
}

TEST(Draw, UnevenChunksTakeTheirTimes) {
  Durations durations;
  durations.chunk_weight = {1, 2};
  EXPECT_THAT(to_report(one_forward_one_backward(2, 3), durations), HasSubstr("computation 18"));
  durations.chunk_weight = {1};
  EXPECT_THROW(to_report(one_forward_one_backward(2, 3), durations), ConfigError);
}

TEST(Simulate, MeasuredTimesOfChunks) {
  Durations durations;
  durations.chunks = {{1, 2, 0, 0}, {3, 4, 0, 0}};
  // F0 F1 B1 B0 one after the other.
  EXPECT_EQ(simulate(one_forward_one_backward(2, 1), durations).makespan, 1 + 3 + 4 + 2);
  EXPECT_THROW(simulate(one_forward_one_backward(3, 1), durations), ConfigError);
}

TEST(Draw, SvgHasABarForEveryComputation) {
  const Schedule schedule = zero_bubble_v(2, 4);
  const std::string svg = to_svg(schedule, {});
  EXPECT_EQ(count(svg, "<title>"), 4 * 4 * 3);  // chunks x microbatches x (forward, input, weight)
  EXPECT_EQ(count(svg, ">rank "), 2);
  EXPECT_THAT(svg, HasSubstr("<title>W3.2 rank 0"));
  EXPECT_THAT(svg, HasSubstr("light: later chunks"));
  EXPECT_EQ(count(svg, "<rect"), count(svg, "/>") + count(svg, "</rect>"));
  EXPECT_THAT(to_svg(gpipe(2, 4), {}), Not(HasSubstr("light: later chunks")));
}

TEST(Draw, HtmlHoldsDrawingAndReport) {
  const std::string html = to_html(gpipe(2, 4), {});
  EXPECT_THAT(html, HasSubstr("<svg "));
  EXPECT_THAT(html, HasSubstr("actions of each rank"));
  EXPECT_THAT(html, HasSubstr("</html>"));
}

}  // namespace
}  // namespace stoa::schedule

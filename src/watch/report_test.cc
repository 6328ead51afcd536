#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "base/file.h"
#include "base/test_folder.h"
#include "watch/chart.h"
#include "watch/html_text.h"
#include "watch/observers.h"
#include "watch/report_file.h"
#include "watch/report_page.h"
#include "watch/test_run.h"

namespace stoa::watch {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using Observers = std::vector<std::unique_ptr<RunObserver>>;

// Steps first+1 .. last of the imaginary run, with a validation, a sample and a checkpoint every 100.
void walk(const Observers& observers, std::int64_t first, std::int64_t last) {
  static constexpr const char* kTexts[] = {
      "eeeeee th aann e, sssoo eert", "the and of the the to, and the king of the",
      "the king is come to me, and I will not be a man",
      "the king himself is gone: let us to horse,\nAnd meet him by the river ere the night."};
  for (std::int64_t step = first + 1; step <= last; ++step) {
    for (const auto& o : observers) o->on_step(test::step_report(step));
    if (step % 100 != 0) continue;
    ValidationReport validation;
    validation.step = step;
    validation.loss = 2.15 + 5.8 * std::exp(-static_cast<double>(step) / 90);
    validation.valid_tokens = 163'840;
    validation.seconds = 2.5;
    validation.bits_per_byte = validation.loss / 2.9;
    const SampleReport sample{step, "My lord, ", kTexts[std::min<std::int64_t>(step / 200, 3)]};
    const CheckpointReport checkpoint{step, fmt::format("checkpoints/step-{:07}", step), 0.12};
    for (const auto& o : observers) o->on_validation(validation);
    for (const auto& o : observers) o->on_sample(sample);
    for (const auto& o : observers) o->on_checkpoint(checkpoint);
  }
}

RunFinish finish_at(std::int64_t step) {
  RunFinish finish;
  finish.detail = fmt::format("{} steps done", step);
  finish.step = step;
  finish.tokens = 8192 * step;
  finish.seconds = 0.25 * static_cast<double>(step);
  finish.used = test::small_start().planned;
  finish.peak_memory_bytes = 612'000'000;
  return finish;
}

std::size_t count_of(std::string_view text, std::string_view what) {
  std::size_t count = 0;
  for (auto at = text.find(what); at != std::string_view::npos; at = text.find(what, at + what.size()))
    ++count;
  return count;
}

struct QuietConsole {
  std::FILE* file = std::tmpfile();
  Console console{Console::Level::kQuiet, file};
  ~QuietConsole() { std::fclose(file); }
};

TEST(HtmlText, NothingGetsOut) {
  EXPECT_EQ(escape_html("<script>\"a\" & 'b'"), "&lt;script&gt;&quot;a&quot; &amp; &#39;b&#39;");
  EXPECT_EQ(printable_utf8("a\x1b[0m\x7f\n"), "a\u241b[0m\u2421\n");
  EXPECT_EQ(printable_utf8("\xff\xc0\xaf\xed\xa0\x80\xf5x\xe2\x82"),
            "\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffdx\ufffd\ufffd");
  EXPECT_EQ(printable_utf8("Grüße, 世界 🙂"), "Grüße, 世界 🙂");
}

TEST(Chart, TicksAndThinning) {
  EXPECT_THAT(linear_ticks(0, 10, 5), ::testing::ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(logarithmic_ticks(0.5, 200), ::testing::ElementsAre(1, 10, 100));
  EXPECT_EQ(tick_text(6e-4), "6e-4");
  EXPECT_EQ(tick_text(0), "0");
  EXPECT_EQ(tick_text(41200), "41.2k");
  std::vector<ChartPoint> points;
  for (int i = 0; i < 1000; ++i) points.push_back({static_cast<double>(i), i < 100 ? NAN : 2.0});
  const auto thin = thin_out(points, 10);
  ASSERT_EQ(thin.size(), 10U);
  EXPECT_TRUE(std::isnan(thin[0].y));
  EXPECT_EQ(thin[1].y, 2.0);
  EXPECT_EQ(thin[9].x, 999);
  const auto line = smooth({{0, 5}, {1, 4}, {2, NAN}, {3, 3}, {4, 2}, {5, 100}}, 1);
  ASSERT_EQ(line.size(), 5U);
  EXPECT_EQ(line[0].y, 5);  // a slope is not moved, ends stay
  EXPECT_EQ(line[1].y, 4);
  EXPECT_EQ(line[3].y, 35);
  EXPECT_EQ(line[4].y, 100);
  EXPECT_THAT(draw_chart({"empty", "", "", {{"a", "c1", {{1, NAN}}, false}}, {}}),
              HasSubstr("no values yet"));
}

TEST(Report, SectionsInTheOrderOfTheContract) {
  TestFolder directory;
  QuietConsole quiet;
  const auto observers = make_observers(directory.path(), quiet.console);
  for (const auto& o : observers) o->on_start(test::small_start());
  walk(observers, 0, 1000);
  for (const auto& o : observers) o->on_finish(finish_at(1000));
  const std::string page = read_text(directory.path() / "report.html");
  const char* sections[] = {
      "<header><h1>shakespeare", "<h2>Curves", "<h2>Samples of the same prompt", "<h2>Time per step",
      "<h2>Memory per category", "<h2>Layout", "<h2>How to repeat it",           "config.yaml, resolved"};
  std::size_t at = 0;
  for (const char* section : sections) {
    const auto found = page.find(section, at);
    ASSERT_NE(found, std::string::npos) << section;
    at = found;
  }
  EXPECT_THAT(page, HasSubstr("class=\"badge done\">done"));
  EXPECT_THAT(page, HasSubstr("The run used exactly what was planned."));
  EXPECT_THAT(page, HasSubstr("stoa train shakespeare.yaml"));
  EXPECT_THAT(page, HasSubstr("<h3>Changes against the preset tiny</h3>"));
  EXPECT_THAT(page, HasSubstr("<code>model.hidden_size</code></td><td>256</td><td>384</td>"));
  EXPECT_THAT(page, HasSubstr("compute</td><td class=\"n\">88.0 ms</td>"));
  EXPECT_THAT(page, HasSubstr("00ff00ff00ff00ff"));
  // The loss linear and logarithmic, each for windows and for phones, and four small ones.
  EXPECT_EQ(count_of(page, "<svg class=\"chart\""), 8U);
  EXPECT_EQ(count_of(page, "class=\"sample\""), 10U);
  EXPECT_EQ(count_of(page, "class=\"restart\""), 0U);
  // Self-contained: no address, nothing loaded.
  for (const char* outside : {"src=", "href=", "@import"}) EXPECT_THAT(page, Not(HasSubstr(outside)));
  EXPECT_EQ(count_of(page, "url("), count_of(page, "url(#"));
  EXPECT_EQ(count_of(page, "http"),
            count_of(page, "http://www.w3.org/2000/svg"));  // finished: no refresh either
}

TEST(Report, ResumedRunShowsTheWholeStory) {
  TestFolder temporary;
  const char* keep =
      std::getenv("STOA_WATCH_RUN");  // for tests/oracle/check_tensorboard.py, and to look at the page
  const fs::path directory = keep ? fs::path(keep) : temporary.path();
  QuietConsole quiet;
  {
    const auto observers = make_observers(directory, quiet.console);
    for (const auto& o : observers) o->on_start(test::small_start());
    walk(observers, 0, 470);  // killed: no word at the end
  }
  EXPECT_THAT(read_text(directory / "report.html"), HasSubstr("class=\"badge running\">running"));
  {
    const auto observers = make_observers(directory, quiet.console);
    RunStart start = test::resumed_start(400);
    start.last_step = 1000;
    for (const auto& o : observers) o->on_start(start);
    walk(observers, 400, 1000);
    for (const auto& o : observers) o->on_finish(finish_at(1000));
  }
  const std::string page = read_text(directory / "report.html");
  EXPECT_EQ(count_of(page, "class=\"sample\""), 10U)
      << "those before the resume are kept, those done again are there once";
  EXPECT_GE(count_of(page, "class=\"restart\""), 4U);
  EXPECT_THAT(page, HasSubstr("70 steps were repeated"));
  EXPECT_THAT(page, HasSubstr("<td>killed</td>"));
  EXPECT_THAT(page, HasSubstr("<span>resumes</span><b>1</b>"));
  EXPECT_THAT(page, HasSubstr("[10,"));  // the first logged step is still in the curve
  const std::string metrics = read_text(directory / "metrics.jsonl");
  EXPECT_EQ(count_of(metrics, "\n"), 110U);
}

TEST(Report, WrittenOnceForAValidationAndItsSamples) {
  TestFolder directory;
  const fs::path path = directory.path() / "report.html";
  QuietConsole quiet;
  ReportFile report(directory.path(), quiet.console);
  report.on_start(test::small_start());
  report.on_sample({0, "Once", " there was"});
  report.on_step(test::step_report(1));
  EXPECT_THAT(read_text(path), HasSubstr(" there was"));
  fs::remove(path);
  report.on_step(test::step_report(2));
  EXPECT_FALSE(fs::exists(path)) << "nothing new to show";
  ValidationReport validation;
  validation.step = 2;
  validation.loss = 4.125;
  report.on_validation(validation);
  EXPECT_FALSE(fs::exists(path));
  report.on_checkpoint({2, "checkpoints/step-0000002", 0.1});
  EXPECT_THAT(read_text(path), HasSubstr("<b>4.1250</b>"));
}

TEST(Report, LostWorkLowersGoodput) {
  StepReport step = test::step_report(10);
  step.compute_seconds = step.step_seconds = 1;
  RunStory story;
  story.begin(test::small_start(), {}, 1000);
  story.add(step);
  story.tick(1010);
  EXPECT_NEAR(story.goodput(), 1.0, 1e-12);
  const std::string page = std::string(kFactsOpen) + story.facts() + std::string(kFactsClose);
  const std::string metrics = metrics_line(step) + "\n";
  RunStory again;
  again.begin(test::resumed_start(5), {page, metrics, 1010}, 1010);
  EXPECT_TRUE(again.training().points().empty());
  EXPECT_NEAR(again.goodput(), 0.5, 1e-12);  // five of ten seconds count
}

TEST(Report, WaitingAndKilledProcessesCountInGoodput) {
  StepReport step = test::step_report(10);
  step.compute_seconds = step.step_seconds = 1;
  RunStart start = test::small_start();
  start.began = 1000;  // and ten seconds later the data was indexed
  RunStory story;
  story.begin(start, {}, 1010);
  story.add(step);
  story.tick(1020);
  const std::string page = std::string(kFactsOpen) + story.facts() + std::string(kFactsClose);
  const std::string metrics = metrics_line(step) + "\n";
  RunStart resumed = test::resumed_start(10);
  resumed.began = 1060;
  RunStory again;
  again.begin(resumed, {page, metrics, 1040}, 1062);  // it lived until 1040, then a queue
  again.tick(1100);
  ASSERT_EQ(again.sessions().size(), 2U);
  EXPECT_EQ(again.sessions()[0].ended, "killed");
  EXPECT_NEAR(again.sessions()[0].seconds, 40, 1e-9);
  EXPECT_NEAR(again.waiting_seconds(), 20, 1e-9);
  EXPECT_NEAR(again.total_seconds(), 100, 1e-9);
  EXPECT_NEAR(again.goodput(), 0.1, 1e-12);
}

TEST(Report, CurvesOfLongRunsStaySmall) {
  MetricsCurve curve(8);
  double sum = 0;
  for (int i = 1; i <= 1000; ++i) {
    MetricsPoint point;
    point.step = i;
    point.loss = i;
    sum += i;
    curve.add(point);
    ASSERT_LE(curve.points().size(), 8U);
    EXPECT_EQ(curve.points().back().step, i);
  }
  ASSERT_EQ(curve.stride(), 128U);
  EXPECT_EQ(curve.points()[0].step, 128);
  EXPECT_DOUBLE_EQ(curve.points()[0].loss, 64.5);  // the mean of 1 to 128
  RunStory story;
  story.begin(test::small_start(), {}, 0);
  for (int i = 1; i <= 20000; ++i) {
    StepReport step = test::step_report(i);
    step.logged = true;
    story.add(step);
  }
  EXPECT_LE(story.training().points().size(), 4096U);
  EXPECT_EQ(story.newest_training()->step, 20000);
}

TEST(Report, MemoryThatNoStepTouchedIsNoDeviation) {
  RunStory story;
  story.begin(test::small_start(), {}, 0);
  RunFinish finish = finish_at(10);
  finish.used[static_cast<int>(MemoryCategory::kActivations)] -= 1600;
  story.end(finish);
  EXPECT_THAT(render_report(story),
              HasSubstr("The run used what was planned; only 1.60 KB of it were never used."));
  finish.used[static_cast<int>(MemoryCategory::kWeights)] += 5'000'000;
  story.end(finish);
  EXPECT_THAT(render_report(story), HasSubstr("The run used more than was planned: 5.00 MB of weights."));
}

TEST(Chart, FirstValuesDoNotSqueezeTheCurve) {
  Chart chart{"Loss", "", "", {{"training", "c1", {}, false}}, {}};
  for (int i = 1; i <= 1000; ++i)
    chart.series[0].points.push_back({static_cast<double>(i), 3 + 8 * std::exp(-i / 10.0)});
  EXPECT_THAT(draw_chart(chart), Not(HasSubstr("off the scale")));
  chart.robust = true;
  const std::string drawn = draw_chart(chart);
  EXPECT_THAT(drawn, HasSubstr("(values up to 10.24 are off the scale)"));
  EXPECT_THAT(drawn, HasSubstr("clip-path=\"url(#inside-560-Loss)\""));
  chart.logarithmic = true;
  EXPECT_THAT(draw_chart(chart), Not(HasSubstr("off the scale")));
}

TEST(Report, WhatAModelWritesStaysText) {
  RunStart start = test::small_start();
  start.name = "<b>run</b>";
  start.command = {"stoa", "train", "it's.yaml", "name=<i>"};
  start.config_yaml = "name: \"</pre><script>alert(1)</script>\"";
  RunStory story;
  story.begin(start, {}, 0);
  story.add(SampleReport{1, "<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>\xff\x1b"});
  const std::string page = render_report(story);
  EXPECT_EQ(count_of(page, "<script"), 2U);  // the facts and the page's own
  EXPECT_EQ(count_of(page, "</script"), 2U);
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, Not(HasSubstr("<b>run")));
  EXPECT_THAT(page, HasSubstr("&lt;img src=x onerror=alert(1)&gt;"));
  EXPECT_THAT(page, Not(HasSubstr("\xff")));
  // What went through the page comes back as it was shown.
  RunStory again;
  again.begin(test::resumed_start(5), {page, "", 0}, 0);
  ASSERT_EQ(again.samples().size(), 1U);
  EXPECT_EQ(again.samples()[0].text, printable_utf8("</script><script>alert(2)</script>\xff\x1b"));
}

TEST(Report, TasksAreATableWithTheBestAndSurviveAResume) {
  RunStory story;
  RunStart start;
  story.begin(start, {}, 10);
  story.add(TaskReport{10, {{"a<b/acc", 0.75, 0.125}, {"lines/perplexity", 9, {}, false}}, 1});
  story.add(TaskReport{20, {{"a<b/acc", 0.5, 0.125}, {"lines/perplexity", 8, {}, false}}, 1});
  const std::string section = tasks_section(story);
  EXPECT_THAT(section, HasSubstr("a&lt;b/acc</td><td class=\"n\">0.5000 ± 0.1250</td><td class=\"n\">20</td>"
                                 "<td class=\"n\">0.7500 ± 0.1250</td><td class=\"n\">10</td>"));
  EXPECT_THAT(section, HasSubstr("<td class=\"n\">8.0000</td><td class=\"n\">20</td><td class=\"n\">8.0000"));
  RunStory again;
  start.resumed_from = "step-0000010";
  start.first_step = 10;
  again.begin(start, {render_report(story), "", 0}, 20);
  ASSERT_EQ(again.tasks().size(), 1U);  // the second came after the checkpoint
  EXPECT_EQ(again.tasks()[0].figures[0].standard_error, 0.125);
  EXPECT_FALSE(again.tasks()[0].figures[1].higher_is_better);
}

TEST(Report, DamagedPageIsNoObstacle) {
  for (const std::string& page :
       {std::string(kFactsOpen), std::string(kFactsOpen) + "{\"sessions\":3}</script>",
        std::string(kFactsOpen) + "{\"sessions\":[{\"seconds\":\"x\"}]}</script>", std::string("<html>")}) {
    RunStory story;
    story.begin(test::resumed_start(5), {page, "garbage\n", 0}, 0);
    EXPECT_EQ(story.sessions().size(), 1U);
  }
}

TEST(Report, ErrorsAreShownAndNotReplaced) {
  TestFolder directory;
  QuietConsole quiet;
  const auto observers =
      make_observers(directory.path(), quiet.console, {.tensorboard = false, .report = true});
  RunFinish finish = finish_at(20);
  finish.reason = StopReason::kError;
  finish.detail = "the loss has not been finite for 10 steps";
  for (const auto& o : observers) o->on_finish(finish);  // failed before it began
  EXPECT_FALSE(fs::exists(directory.path() / "report.html"));
  for (const auto& o : observers) o->on_start(test::small_start());
  walk(observers, 0, 20);
  for (const auto& o : observers) o->on_finish(finish);
  EXPECT_THAT(read_text(directory.path() / "report.html"),
              HasSubstr("the loss has not been finite for 10 steps"));
  fs::permissions(directory.path(), fs::perms::owner_read | fs::perms::owner_exec);
  const test::NotRoot plain_user;
  EXPECT_NO_THROW({
    for (const auto& o : observers) o->on_finish(finish);
  });
}

TEST(Report, ThatCannotBeWrittenEndsNoRun) {
  TestFolder directory;
  std::FILE* file = std::tmpfile();
  Console console(Console::Level::kNormal, file);
  ReportFile report(directory.path(), console);
  report.on_start(test::small_start());
  fs::permissions(directory.path(), fs::perms::owner_read | fs::perms::owner_exec);
  {
    const test::NotRoot plain_user;
    report.on_checkpoint({1, "checkpoints/step-0000001", 0.1});
    report.on_checkpoint({2, "checkpoints/step-0000002", 0.1});
    report.on_finish(finish_at(2));
  }
  std::rewind(file);
  std::string told(4096, '\0');
  told.resize(std::fread(told.data(), 1, told.size(), file));
  std::fclose(file);
  EXPECT_EQ(count_of(told, "WARNING the report is not written: cannot write"), 1U) << told;
  EXPECT_THAT(told, Not(HasSubstr("report: ")));
}

TEST(Observers, ReadOnlyRunDirectoryIsAClearError) {
  TestFolder directory;
  fs::permissions(directory.path(), fs::perms::owner_read | fs::perms::owner_exec);
  QuietConsole quiet;
  const auto observers = make_observers(directory.path(), quiet.console);
  EXPECT_EQ(observers.size(), 4U);
  const test::NotRoot plain_user;
  std::size_t refused = 0;
  for (const auto& o : observers) {
    try {
      o->on_start(test::small_start());
    } catch (const IoError& error) {
      EXPECT_THAT(error.what(), HasSubstr("cannot write"));
      EXPECT_THAT(error.what(), HasSubstr("Permission denied"));
      ++refused;
    }
  }
  EXPECT_EQ(refused, 2U);  // a missing report is only said
}

}  // namespace
}  // namespace stoa::watch

#include "watch/metrics_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/test_folder.h"
#include "watch/test_run.h"

namespace stoa::watch {
namespace {

std::vector<MetricsPoint> points_of(std::string_view text, std::int64_t last_step) {
  std::vector<MetricsPoint> points;
  parse_metrics(text, last_step, [&](const MetricsPoint& point) { points.push_back(point); });
  return points;
}

ValidationReport validation_at(std::int64_t step) {
  ValidationReport v;
  v.step = step;
  v.loss = 3.0 + 1.0 / static_cast<double>(step);
  return v;
}

// Steps first+1 .. last as a trainer reports them: the step, then its validation.
void walk(MetricsFile& file, std::int64_t first, std::int64_t last) {
  for (std::int64_t step = first + 1; step <= last; ++step) {
    file.on_step(test::step_report(step));
    if (step % 50 == 0) file.on_validation(validation_at(step));
  }
}

TEST(MetricsFile, ExactlyTheFieldsOfTheContract) {
  const auto object = nlohmann::ordered_json::parse(metrics_line(test::step_report(10)));
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  EXPECT_THAT(keys, ::testing::ElementsAre("step", "samples", "tokens", "loss", "lr", "grad_norm",
                                           "loss_scale", "step_seconds", "tokens_per_second", "model_tflops",
                                           "mfu", "peak_memory_bytes"));
  EXPECT_EQ(metrics_line(validation_at(100)), R"({"step":100,"val_loss":3.01})");
}

TEST(MetricsFile, FiguresOfTasksAreLinesThatAreKeptAndNoPointsOfACurve) {
  const TaskReport tasks{20, {{"piqa/acc", 0.5, 0.25}, {"wikitext/bits_per_byte", 1.5, {}, false}}, 3};
  const std::string line = metrics_line(tasks);
  EXPECT_EQ(line, R"({"step":20,"piqa/acc":0.5,"piqa/acc_stderr":0.25,"wikitext/bits_per_byte":1.5})");
  const std::string text = metrics_line(test::step_report(20)) + "\n" + line + "\n";
  EXPECT_EQ(points_of(text, 20).size(), 1U);
  EXPECT_EQ(keep_metrics(text, 20), text);
  EXPECT_EQ(keep_metrics(text, 19), "");
}

TEST(MetricsFile, FloatsRoundTripAndOthersAreNull) {
  StepReport step = test::step_report(7);
  const double hard[] = {0.1, 1.0 / 3, 6e-4 * 0.7, 5e-324, 1.7976931348623157e308, -0.0, 12345678.901234567};
  for (const double value : hard) {
    step.loss = value;
    const auto points = points_of(metrics_line(step) + "\n", 100);
    ASSERT_EQ(points.size(), 1U);
    EXPECT_EQ(points[0].loss, value);
    EXPECT_EQ(std::signbit(points[0].loss), std::signbit(value));
  }
  step.loss = std::numeric_limits<double>::quiet_NaN();
  step.gradient_norm = std::numeric_limits<double>::infinity();
  const auto object = nlohmann::json::parse(metrics_line(step));
  EXPECT_TRUE(object["loss"].is_null());
  EXPECT_TRUE(object["grad_norm"].is_null());
  EXPECT_TRUE(std::isnan(points_of(metrics_line(step) + "\n", 100)[0].loss));
}

TEST(MetricsFile, EveryLineIsThereAtOnce) {
  TestFolder directory;
  MetricsFile file(directory.path() / "metrics.jsonl");
  file.on_start(test::small_start());
  file.on_step(test::step_report(9));
  EXPECT_EQ(read_text(directory.path() / "metrics.jsonl"), "");
  file.on_step(test::step_report(10));
  EXPECT_EQ(read_text(directory.path() / "metrics.jsonl"), metrics_line(test::step_report(10)) + "\n");
}

TEST(MetricsFile, KilledAndResumedEqualsUndisturbed) {
  TestFolder directory;
  const fs::path whole = directory.path() / "whole.jsonl", cut = directory.path() / "cut.jsonl";
  {
    MetricsFile file(whole);
    file.on_start(test::small_start());
    walk(file, 0, 600);
  }
  {
    MetricsFile file(cut);
    file.on_start(test::small_start());
    walk(file, 0, 457);
  }
  write_text(cut, read_text(cut) + R"({"step":460,"samp)");  // killed in the middle of a line
  {
    MetricsFile file(cut);
    file.on_start(test::resumed_start(400));
    walk(file, 400, 600);
  }
  EXPECT_EQ(read_text(cut), read_text(whole));
}

TEST(MetricsFile, FreshRunBeginsAnew) {
  TestFolder directory;
  const fs::path path = directory.path() / "metrics.jsonl";
  write_text(path, metrics_line(test::step_report(10)) + "\n");
  MetricsFile file(path);
  file.on_start(test::small_start());
  EXPECT_EQ(read_text(path), "");
}

TEST(MetricsFile, ForeignLinesDoNotDisturb) {
  const std::string text = "\n[1]\nnull\n{\"step\":\"x\"}\n{\"step\":3,\"val_loss\":null}\n{\"step\":4}";
  const auto points = points_of(text, 100);
  ASSERT_EQ(points.size(), 1U);
  EXPECT_TRUE(points[0].is_validation);
  EXPECT_TRUE(std::isnan(points[0].validation_loss));
}

TEST(MetricsFile, UnwritablePlaceIsNamed) {
  TestFolder directory;
  const fs::path missing = directory.path() / "gone" / "metrics.jsonl";
  MetricsFile file(missing);
  try {
    file.on_start(test::small_start());
    FAIL() << "no error";
  } catch (const IoError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr(missing.string()));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("No such file"));
  }
}

TEST(MetricsFile, ReadOnlyDirectoryIsAClearError) {
  TestFolder directory;
  fs::permissions(directory.path(), fs::perms::owner_read | fs::perms::owner_exec);
  MetricsFile file(directory.path() / "metrics.jsonl");
  const test::NotRoot plain_user;
  try {
    file.on_start(test::small_start());
    FAIL() << "no error";
  } catch (const IoError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("metrics.jsonl': Permission denied"));
  }
}

// While it lives, files of this process end at `bytes`: writing fails in the middle of a record, as on a full
// disk.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) : handler_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) std::abort();
  }
  ~FileLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST(MetricsFile, AFullDiskTearsNoLine) {
  TestFolder directory;
  const fs::path path = directory.path() / "metrics.jsonl";
  MetricsFile file(path);
  file.on_start(test::small_start());
  file.on_step(test::step_report(10));
  const std::string first = read_text(path);
  {
    const FileLimit limit(first.size() + 20);
    EXPECT_THROW(file.on_step(test::step_report(20)), IoError);
  }
  EXPECT_EQ(read_text(path), first);
  file.on_step(test::step_report(30));  // there is room again
  EXPECT_EQ(read_text(path), first + metrics_line(test::step_report(30)) + "\n");
}

}  // namespace
}  // namespace stoa::watch

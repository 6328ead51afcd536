// `stoa plan calibrate --rows ROWS.csv`.
#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.h"
#include "cli/command.h"
#include "cli/plan_predict_command.h"
#include "cli/print.h"
#include "plan/accuracy.h"
#include "plan/error_band.h"
#include "plan/rows.h"

namespace stoa::cli {
namespace {

struct CalibrateArguments {
  std::string rows, output, report, onto, grades = "AB";
};

void calibrate(const CalibrateArguments& arguments) {
  const plan::CsvTable table = plan::read_csv(arguments.rows);
  const auto clusters = plan::load_clusters(clusters_directory());
  const auto rows = plan::read_rows(table, clusters, plan::SoftwareProfiles::load(software_profiles()));
  plan::RowList used;
  for (const plan::Row& row : rows)
    if (row.problem.empty() && row.seconds && row.independent &&
        (row.grade.empty() || arguments.grades.find(row.grade) != std::string::npos))
      used.push_back(&row);
  require<DataError>(
      !used.empty(),
      "{}: none of its {} rows can be fitted: they need seconds_per_step, a complete layout, and a "
      "grade of {}",
      arguments.rows, rows.size(), arguments.grades);
  plan::Calibration calibration;
  if (arguments.onto.empty()) {
    calibration = plan::calibrate(used);
    calibration.unlike = plan::measure_unlike(used);
  } else {
    calibration = plan::calibrate_programs(used, plan::load_calibration(arguments.onto));
  }
  if (!arguments.output.empty()) write_text(arguments.output, plan::write_calibration(calibration));
  print(fmt::format("{} of {} rows, {} device types, {} releases\n", used.size(), rows.size(),
                    calibration.families.size(), calibration.releases.size()));
  if (arguments.report.empty()) return;
  const std::string report = plan::to_markdown(plan::measure_accuracy(used));
  write_text(arguments.report, report);
  print(report);
}

}  // namespace

void add_plan_calibrate_command(CLI::App& plan, Context& context) {
  (void)context;
  auto arguments = std::make_shared<CalibrateArguments>();
  CLI::App* command =
      plan.add_subcommand("calibrate", "Fit the constants of the time model to measured steps");
  command->add_option("--rows", arguments->rows, "CSV file of measurements")->required();
  command->add_option("--output", arguments->output, "Calibration file to write");
  command->add_option(
      "--onto", arguments->onto,
      "Keep what this calibration file holds, and fit the programs of these rows to it: your own "
      "program in addition to published ones");
  command->add_option("--report", arguments->report,
                      "Markdown file: accuracy, also with whole sources excluded (takes a minute)");
  command->add_option("--grades", arguments->grades, "Grades of rows to fit (default AB)");
  command->callback([arguments] { calibrate(*arguments); });
}

}  // namespace stoa::cli

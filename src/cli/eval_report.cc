// `stoa eval report FOLDER…`: evaluations of a model or of its checkpoints, on a page.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>
#include <set>

#include "base/console.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/eval_task_options.h"
#include "cli/print.h"
#include "eval/samples/report_samples.h"
#include "plan/page.h"
#include "watch/chart.h"
#include "watch/html_text.h"

namespace stoa::cli {
namespace {

struct EvalReportArguments {
  std::vector<std::string> folders;
  std::string page;
  bool json = false;
};

std::string figure_table(const eval::SampleReport& report) {
  std::vector<std::string> head{"task", "figure"};
  for (const std::string& name : report.names) head.push_back(watch::escape_html(name));
  std::vector<std::vector<std::string>> rows;
  for (const eval::ReportedFigure& f : report.figures) {
    rows.push_back({watch::escape_html(f.task), watch::escape_html(f.name)});
    for (std::size_t i = 0; i < f.values.size(); ++i)
      rows.back().push_back(!f.values[i]  ? "-"
                            : f.errors[i] ? fmt::format("{:.4f} &plusmn; {:.4f}", *f.values[i], *f.errors[i])
                                          : fmt::format("{:.4f}", *f.values[i]));
  }
  return plan::table(head, rows);
}

std::string calibration_table(const eval::SampleReport& report) {
  std::vector<std::vector<std::string>> rows;
  for (const eval::ReportedCalibration& c : report.calibrations)
    for (std::size_t i = 0; i < c.values.size(); ++i)
      if (const auto& value = c.values[i])
        rows.push_back({watch::escape_html(c.task), watch::escape_html(report.names[i]),
                        fmt::format("{}", value->documents), fmt::format("{:.4f}", value->confidence),
                        fmt::format("{:.4f}", value->right), fmt::format("{:.4f}", value->error)});
  return plan::table({"task", "evaluation", "n", "confidence", "right", "ECE"}, rows);
}

std::string curves(const eval::SampleReport& report) {
  std::string out;
  std::set<std::string> tasks;
  for (const eval::ReportedFigure& f : report.figures) {
    if (!tasks.insert(f.task).second) continue;  // the first figure of each task
    watch::Chart chart;
    chart.title = watch::escape_html(f.task + ": " + f.name);
    chart.x_axis = "evaluation";
    watch::ChartSeries series{"", "c1", {}, true};
    for (std::size_t i = 0; i < f.values.size(); ++i)
      series.points.push_back({report.places[i], f.values[i].value_or(NAN)});
    chart.series.push_back(std::move(series));
    out += watch::draw_chart(chart);
  }
  return out;
}

std::string wrong_answers(const eval::SampleReport& report) {
  const auto shown = [](const std::string& text) { return watch::escape_html(text); };
  std::string out;
  for (const eval::WrongAnswer& w : report.wrong)
    out += fmt::format(
        "<details><summary>{} {}</summary><pre style=\"white-space:pre-wrap\">{}</pre><p>gold: {}<br>"
        "answer: {}</p></details>",
        shown(w.task), w.document.id, shown(w.document.prompt), shown(w.document.target),
        shown(w.document.answer));
  return out.empty() ? "<p>none</p>" : out;
}

plan::Page page_of(const eval::SampleReport& report, const EvalReportArguments& a) {
  plan::Page page;
  page.title = "Evaluations";
  page.tiles = {{"evaluations", fmt::format("{}", report.names.size())},
                {"figures", fmt::format("{}", report.figures.size())},
                {"wrong answers", fmt::format("{}", report.wrong.size())}};
  page.sections.emplace_back("Figures", figure_table(report));
  if (report.names.size() > 1) page.sections.emplace_back("Curves", curves(report));
  if (!report.calibrations.empty()) page.sections.emplace_back("Calibration", calibration_table(report));
  page.sections.emplace_back("Wrong answers of " + watch::escape_html(report.names.back()),
                             wrong_answers(report));
  page.assumptions = {
      "Standard errors are those of the results; groups pool those of their tasks.",
      "ECE: documents in ten bins by the probability of the most likely choice among the choices; the bins' "
      "differences between confidence and share of right answers, weighted by documents."};
  page.command = "stoa eval report";
  for (const std::string& folder : a.folders) page.command += " " + folder;
  page.command += " --page " + a.page;
  return page;
}

void report_evaluations(const EvalReportArguments& a, Context& context) {
  const eval::SampleReport report = eval::report_samples({a.folders.begin(), a.folders.end()});
  if (!a.page.empty()) {
    write_text(a.page, plan::to_html(page_of(report, a)));
    context.console.line("written: " + a.page);
  }
  print(a.json ? eval::to_json(report) + "\n" : eval::to_text(report));
}

}  // namespace

void add_eval_report(CLI::App& eval, Context& context) {
  auto a = std::make_shared<EvalReportArguments>();
  CLI::App* c = eval.add_subcommand(
      "report",
      "Evaluations of a model, or of its checkpoints in their order: figures with standard errors, curves, "
      "calibration, and every wrong answer of the last one. Example: stoa eval report results/step=100 "
      "results/step=200 --page report.html");
  c->add_option(
       "FOLDER", a->folders,
       "Folders of results; with samples_*.jsonl (eval run --log_samples) for calibration and answers")
      ->required();
  c->add_option("--page", a->page, "Write a page (HTML)");
  c->add_flag("--json", a->json, "Print the answer as JSON");
  c->callback([a, &context] { report_evaluations(*a, context); });
}

}  // namespace stoa::cli

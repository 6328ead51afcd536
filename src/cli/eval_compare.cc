// `stoa eval compare A B`: two evaluations of the same documents, with a page.
#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <memory>

#include "base/console.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/eval_task_options.h"
#include "cli/print.h"
#include "eval/samples/compare_samples.h"
#include "plan/page.h"
#include "watch/html_text.h"

namespace stoa::cli {
namespace {

struct EvalCompareArguments {
  std::string a, b, page;
  bool json = false;
};

std::vector<std::vector<std::string>> metric_rows(const eval::SampleComparison& comparison, bool groups) {
  std::vector<std::vector<std::string>> rows;
  for (const eval::PairedMetric& m : comparison.metrics) {
    if (m.group != groups) continue;
    rows.push_back({m.task, m.filter == "none" ? m.metric : m.metric + "," + m.filter,
                    fmt::format("{}", m.documents), fmt::format("{:.4f}", m.a), fmt::format("{:.4f}", m.b),
                    fmt::format("{:+.4f}", m.difference), fmt::format("{:+.4f} to {:+.4f}", m.low, m.high)});
    for (const std::string& cell : m.right_or_wrong
                                       ? std::vector{fmt::format("{}", m.only_a), fmt::format("{}", m.only_b),
                                                     fmt::format("{:.3g}", m.p)}
                                       : std::vector<std::string>(3))
      rows.back().push_back(cell);
  }
  return rows;
}

std::string changed_html(const eval::SampleComparison& comparison, bool a_right) {
  const auto shown = [](const std::string& text) { return watch::escape_html(text); };
  std::string out;
  for (const eval::ChangedDocument& c : comparison.changed)
    if (c.a_right == a_right)
      out += fmt::format(
          "<details><summary>{} {}</summary><pre style=\"white-space:pre-wrap\">{}</pre><p>gold: {}<br>A: "
          "{}<br>"
          "B: {}</p></details>",
          shown(c.task), c.a.id, shown(c.a.prompt), shown(c.a.target), shown(c.a.answer), shown(c.b.answer));
  return out.empty() ? "<p>none</p>" : out;
}

plan::Page page_of(const eval::SampleComparison& comparison, const EvalCompareArguments& a) {
  const std::vector<std::string> head{"task",  "metric",        "n",      "A",      "B",
                                      "B - A", "95 % interval", "only A", "only B", "McNemar"};
  plan::Page page;
  page.title = "Two evaluations of the same questions";
  page.tiles = {{"A", a.a}, {"B", a.b}, {"changed questions", fmt::format("{}", comparison.changed.size())}};
  if (const auto groups = metric_rows(comparison, true); !groups.empty())
    page.sections.emplace_back("Groups", plan::table(head, groups));
  page.sections.emplace_back("Tasks", plan::table(head, metric_rows(comparison, false)));
  page.sections.emplace_back("Right in B, wrong in A", changed_html(comparison, false));
  page.sections.emplace_back("Right in A, wrong in B", changed_html(comparison, true));
  page.assumptions = {
      "The interval is 1.96 standard errors of the mean difference of a document on both sides.",
      "McNemar: the chance that equally good models differ as much on the documents that only one has right; "
      "exact, two-sided. Among many tasks, some are below 0.05 by chance."};
  for (const std::string& note : comparison.notes) page.assumptions.push_back(note);
  page.command = fmt::format("stoa eval compare {} {} --page {}", a.a, a.b, a.page);
  return page;
}

void compare_evaluations(const EvalCompareArguments& a, Context& context) {
  const eval::SampleComparison comparison =
      eval::compare_samples(eval::read_samples(a.a), eval::read_samples(a.b));
  if (!a.page.empty()) {
    write_text(a.page, plan::to_html(page_of(comparison, a)));
    context.console.line("written: " + a.page);
  }
  print(a.json ? eval::to_json(comparison) + "\n" : eval::to_text(comparison));
}

}  // namespace

void add_eval_compare(CLI::App& eval, Context& context) {
  auto a = std::make_shared<EvalCompareArguments>();
  CLI::App* c = eval.add_subcommand(
      "compare",
      "Two evaluations of the same documents: differences with their intervals, McNemar's test, and the "
      "questions that changed. Example: stoa eval compare results/small results/large --page compare.html");
  c->add_option("A", a->a, "Folder of results with samples_*.jsonl (eval run --log_samples)")->required();
  c->add_option("B", a->b, "Another")->required();
  c->add_option("--page", a->page, "Write a page (HTML) with the tables and every question that changed");
  c->add_flag("--json", a->json, "Print the answer as JSON");
  c->callback([a, &context] { compare_evaluations(*a, context); });
}

}  // namespace stoa::cli

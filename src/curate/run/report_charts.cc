#include "curate/run/report_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/console.h"
#include "base/escape.h"

namespace stoa::curate {
namespace {

constexpr std::size_t kMostSources = 20, kMostOverlaps = 16, kBars = 32;
constexpr double kChartWidth = 320, kChartHeight = 90;

struct Failures {
  std::int64_t first = 0, any = 0, alone = 0;
};

std::set<std::string> failing_rules(const MeasuredDocument& document) {
  std::set<std::string> rules;
  for (const Verdict::Value& value : document.values)
    if (value.fails) rules.insert(value.rule);
  return rules;
}

std::string percent(std::int64_t part, std::size_t all) {
  return fmt::format("{:.1f} %", all > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(all) : 0);
}

std::string origins_html(const std::string& title, const std::vector<MeasuredDocument>& sample,
                         std::string MeasuredDocument::*name) {
  struct Row {
    std::int64_t documents = 0, bytes = 0, kept = 0;
  };
  std::map<std::string, Row> rows;
  for (const MeasuredDocument& document : sample) {
    Row& row = rows[document.*name];
    ++row.documents;
    row.bytes += document.bytes;
    row.kept += document.first_failure() == nullptr;
  }
  if (rows.empty() || (rows.size() == 1 && rows.begin()->first.empty())) return {};
  std::vector<std::pair<std::string, Row>> order(rows.begin(), rows.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second.documents > b.second.documents; });
  std::string html = fmt::format(
      "<h3>By {}</h3>\n<div class=\"wide\"><table><tr><th>{}</th><th>documents</th><th>text</th><th>no rule "
      "fails</th></tr>\n",
      title, title);
  for (std::size_t i = 0; i < std::min(order.size(), kMostSources); ++i) {
    const auto& [own, row] = order[i];
    html += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                        own.empty() ? "not known" : escape_html_characters(own), row.documents,
                        format_bytes(static_cast<double>(row.bytes)),
                        percent(row.kept, static_cast<std::size_t>(row.documents)));
  }
  html += "</table></div>\n";
  if (order.size() > kMostSources) html += fmt::format("<p>And {} more.</p>\n", order.size() - kMostSources);
  return html;
}

std::string failures_html(const std::vector<MeasuredDocument>& sample) {
  std::map<std::string, Failures> rules;
  std::map<std::pair<std::string, std::string>, std::int64_t> both;
  for (const MeasuredDocument& document : sample) {
    const std::set<std::string> failing = failing_rules(document);
    for (const std::string& rule : failing) {
      Failures& own = rules[rule];
      ++own.any;
      own.alone += failing.size() == 1;
      for (const std::string& other : failing) ++both[{rule, other}];
    }
    if (const Verdict::Value* first = document.first_failure()) ++rules[first->rule].first;
  }
  if (rules.empty()) return "<p>No rule fails a document of the sample.</p>\n";
  std::vector<std::pair<std::string, Failures>> order(rules.begin(), rules.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second.any > b.second.any; });
  std::string html =
      "<h3>By rule</h3>\n<div class=\"wide\"><table><tr><th>rule</th><th>fails "
      "first</th><th>fails</th><th>fails "
      "alone</th></tr>\n";
  for (const auto& [rule, own] : order)
    html += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                        escape_html_characters(rule), percent(own.first, sample.size()),
                        percent(own.any, sample.size()), percent(own.alone, sample.size()));
  html +=
      "</table></div>\n<h3>Rules that fail the same documents</h3>\n<div class=\"wide\"><table "
      "class=\"overlap\"><tr><th></th>";
  order.resize(std::min(order.size(), kMostOverlaps));
  for (std::size_t i = 0; i < order.size(); ++i) html += fmt::format("<th>{}</th>", i + 1);
  html += "</tr>\n";
  for (std::size_t i = 0; i < order.size(); ++i) {
    html += fmt::format("<tr><td>{} {}</td>", i + 1, escape_html_characters(order[i].first));
    for (const auto& [other, unused] : order) {
      const auto found = both.find({order[i].first, other});
      const double share =
          found == both.end() ? 0
                              : static_cast<double>(found->second) / static_cast<double>(order[i].second.any);
      html += fmt::format(
          "<td style=\"background:color-mix(in srgb,var(--accent) {:.0f}%,transparent)\">{:.0f}</td>",
          60 * share, 100 * share);
    }
    html += "</tr>\n";
  }
  return html +
         "</table></div>\n<p>Of the documents that the rule of the row fails, the percentage that the rule "
         "of the column fails, too.</p>\n";
}

// Bars of how many values lie where, and a line of the share of documents that a limit there would keep.
std::string chart(const std::string& title, std::vector<double> values, Verdict::Sense sense, double limit) {
  std::sort(values.begin(), values.end());
  const std::size_t cut = values.size() / 200;  // what is far out on both sides is not drawn
  double low = values[cut], high = values[values.size() - 1 - cut];
  if (limit != 0) {
    low = std::min(low, limit);
    high = std::max(high, limit);
  }
  if (low == high) high = low + std::max(1.0, std::abs(low));
  const auto x_of = [&](double value) { return kChartWidth * (value - low) / (high - low); };
  std::vector<std::size_t> bars(kBars);
  for (const double value : values)
    if (value >= low && value <= high)
      ++bars[std::min(kBars - 1, static_cast<std::size_t>((value - low) / (high - low) * double{kBars}))];
  const double most = static_cast<double>(*std::max_element(bars.begin(), bars.end()));
  std::string svg =
      fmt::format("<figure><figcaption>{}</figcaption><svg viewBox=\"0 0 {} {}\" width=\"{}\" height=\"{}\">",
                  escape_html_characters(title), kChartWidth, kChartHeight, kChartWidth, kChartHeight);
  constexpr double kBarWidth = kChartWidth / kBars;
  for (std::size_t i = 0; i < kBars; ++i) {
    const double height = most > 0 ? kChartHeight * static_cast<double>(bars[i]) / most : 0;
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>",
                       kBarWidth * static_cast<double>(i), kChartHeight - height, kBarWidth - 1, height);
  }
  std::string note;
  if (sense != Verdict::Sense::kNever) {
    const auto kept = [&](double at) {
      const auto below = static_cast<double>((sense == Verdict::Sense::kAtMost
                                                  ? std::upper_bound(values.begin(), values.end(), at)
                                                  : std::lower_bound(values.begin(), values.end(), at)) -
                                             values.begin());
      const double share = below / static_cast<double>(values.size());
      return sense == Verdict::Sense::kAtMost ? share : 1 - share;
    };
    svg += "<polyline points=\"";
    for (std::size_t i = 0; i <= kBars; ++i) {
      const double at = low + (high - low) * static_cast<double>(i) / double{kBars};
      svg += fmt::format("{:.1f},{:.1f} ", x_of(at), kChartHeight * (1 - kept(at)));
    }
    svg += "\"/>";
    if (limit != 0) {
      svg +=
          fmt::format("<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"0\" y2=\"{1}\"/>", x_of(limit), kChartHeight);
      note = fmt::format(": the limit {:.6g} keeps {:.1f} %", limit, 100 * kept(limit));
    }
  }
  return svg + fmt::format("</svg><p>{:.6g} to {:.6g}{}</p></figure>\n", low, high, note);
}

std::string charts_html(const std::vector<MeasuredDocument>& sample) {
  std::vector<double> lengths;
  struct Rule {
    std::size_t order = 0;
    double limit = 0;
    std::vector<double> values;
  };
  std::map<std::pair<std::string, Verdict::Sense>, Rule> rules;
  for (const MeasuredDocument& document : sample) {
    lengths.push_back(std::log10(static_cast<double>(std::max<std::int64_t>(document.bytes, 1))));
    for (const Verdict::Value& value : document.values) {
      if (value.sense == Verdict::Sense::kNever) continue;
      Rule& rule =
          rules.try_emplace({value.rule, value.sense}, Rule{rules.size(), value.limit, {}}).first->second;
      rule.values.push_back(value.value);
    }
  }
  if (lengths.empty()) return {};
  std::vector<const std::pair<const std::pair<std::string, Verdict::Sense>, Rule>*> order;
  for (const auto& rule : rules) order.push_back(&rule);
  std::sort(order.begin(), order.end(),
            [](const auto* a, const auto* b) { return a->second.order < b->second.order; });
  std::string html =
      "<h3>Lengths and what the rules measure</h3>\n<p>Bars: how many documents lie where; line: the share "
      "of documents that a limit there would keep; vertical line: the limit.</p>\n<div class=\"charts\">\n" +
      chart("length: log10 of bytes", lengths, Verdict::Sense::kNever, 0);
  for (const auto* rule : order)
    html += chart(rule->first.first + (rule->first.second == Verdict::Sense::kAtMost ? " ≤" : " ≥"),
                  rule->second.values, rule->first.second, rule->second.limit);
  return html + "</div>\n";
}

}  // namespace

std::string measures_html(const std::vector<MeasuredDocument>& sample) {
  if (sample.empty()) return {};
  return fmt::format(
             "<h2>What the rules measure</h2>\n<p>Of a sample of {} documents, chosen by their ids; "
             "every rule was asked, whatever failed before.</p>\n",
             sample.size()) +
         origins_html("source", sample, &MeasuredDocument::source) +
         origins_html("language", sample, &MeasuredDocument::language) + failures_html(sample) +
         charts_html(sample);
}

}  // namespace stoa::curate

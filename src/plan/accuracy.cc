#include "plan/accuracy.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/philox.h"
#include "plan/nearest_rows.h"
#include "plan/predict.h"

namespace stoa::plan {
namespace {

const std::string& family(const Row& row) { return row.cluster.device.family; }
const std::string& release(const Row& row) { return row.workload.software.release; }

using Key = std::pair<std::string, std::string>;
Key group_key(const Row& row) { return {row.group, family(row)}; }

void append(std::vector<double>& to, const RowList& rows, const Constants& k) {
  for (const Row* row : rows) to.push_back(error_of(*row, k));
}

double nearest_percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double at = share * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

double model_rate(const Row& row) {  // model FLOP/s per device
  return model_flops(row.workload) / *row.seconds / static_cast<double>(row.workload.devices());
}

// Constant share of peak per family and precision: what a rule of thumb gives. Fitted to all rows.
std::vector<double> constant_share(const RowList& rows) {
  std::map<std::pair<std::string, int>, std::vector<double>> shares;
  const auto key = [](const Row& row) {
    return std::pair{family(row), static_cast<int>(row.workload.format)};
  };
  const auto share = [](const Row& row) { return model_rate(row) / row.cluster.peak(row.workload.format); };
  for (const Row* row : rows) shares[key(*row)].push_back(share(*row));
  std::vector<double> errors;
  for (const Row* row : rows) errors.push_back(share(*row) / nearest_percentile(shares[key(*row)], 0.5) - 1);
  return errors;
}

// The rate of the nearest other row of the same family outside its group.
std::vector<double> nearest_row(const RowList& rows, bool same_group) {
  std::vector<double> errors;
  for (const Row* row : rows) {
    const Row* best = nullptr;
    double least = 1e300;
    for (const Row* other : rows) {
      if (other == row || family(*other) != family(*row) || (!same_group && other->group == row->group))
        continue;
      const double distance = distance_of(row->workload, other->workload);
      if (distance < least) {
        least = distance;
        best = other;
      }
    }
    if (best) errors.push_back(model_rate(*row) / model_rate(*best) - 1);
  }
  return errors;
}

// Rows that differ in layout only.
std::map<std::string, RowList> layout_groups(const RowList& rows) {
  std::map<std::string, RowList> groups;
  for (const Row* row : rows) {
    const Workload& w = row->workload;
    const ModelShape& m = w.model;
    groups[fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", row->source, m.layers, m.hidden, m.heads, m.ffn,
                       m.sequence, m.experts, w.devices(), w.global_batch, static_cast<int>(w.format))]
        .push_back(row);
  }
  std::erase_if(groups, [](const auto& group) { return group.second.size() < 3; });
  return groups;
}

RankingSummary rank(const std::map<std::string, RowList>& groups,
                    const std::map<const Row*, double>& predicted) {
  RankingSummary out;
  std::vector<double> regrets;
  double kendall = 0;
  int with_pairs = 0;
  for (const auto& [name, rows] : groups) {
    double agree = 0, pairs = 0, best = 1e300, chosen = 0, least = 1e300;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double measured = *rows[i]->seconds, guess = predicted.at(rows[i]);
      best = std::min(best, measured);
      if (guess < least) {
        least = guess;
        chosen = measured;
      }
      for (std::size_t j = 0; j < i; ++j) {
        const double other = *rows[j]->seconds;
        if (std::abs(measured / other - 1) <= 0.03) continue;
        if (std::abs(guess / predicted.at(rows[j]) - 1) < 1e-9) continue;  // one layout, run twice
        ++pairs;
        agree += (measured < other) == (guess < predicted.at(rows[j])) ? 1 : -1;
      }
    }
    regrets.push_back(100 * (chosen / best - 1));
    if (pairs > 0) {
      kendall += agree / pairs;
      ++with_pairs;
    }
  }
  out.groups = static_cast<int>(groups.size());
  if (with_pairs) out.kendall = kendall / with_pairs;
  for (const double regret : regrets) out.regret_mean += regret / static_cast<double>(regrets.size());
  out.regret_p90 = nearest_percentile(regrets, 0.9);
  return out;
}

}  // namespace

ErrorSummary summarize(std::vector<double> errors) {
  ErrorSummary out;
  out.rows = static_cast<int>(errors.size());
  if (errors.empty()) return out;
  for (double& error : errors) error = 100 * std::abs(error);
  for (const double error : errors) out.mean += error / static_cast<double>(errors.size());
  out.median = nearest_percentile(errors, 0.5);
  out.p90 = nearest_percentile(errors, 0.9);
  return out;
}

AccuracyReport measure_accuracy(const RowList& rows) {
  AccuracyReport report;
  const Constants prior;
  const Calibration all = as_written(calibrate(rows));  // what predictions are made with
  std::vector<double> none, device, both, left_out, with_five, memory;
  std::map<const Row*, double> fitted, unseen;
  std::map<Key, RowList> groups;
  std::map<Key, std::vector<double>> by_group;
  for (const Row* row : rows) {
    none.push_back(error_of(*row, prior));
    device.push_back(error_of(*row, all.families.at(family(*row)).constants));
    both.push_back(error_of(*row, all.find(family(*row), release(*row)).constants));
    fitted[row] = *row->seconds * (1 + both.back());
    by_group[group_key(*row)].push_back(both.back());
    groups[group_key(*row)].push_back(row);
    report.worst.push_back({row->source, row->model, *row->seconds, both.back()});
    if (row->memory_gb) {
      memory.push_back(estimate_memory(row->workload).sum() / 1e9 / *row->memory_gb - 1);
      report.memory_underestimates += memory.back() < -0.05;
    }
  }
  for (const auto& [key, own] : groups) {
    RowList others;
    for (const Row* row : rows)
      if (family(*row) == key.second && row->group != key.first) others.push_back(row);
    const Population population = fit_population(others, prior);
    append(left_out, own, population.mean);
    for (const Row* row : own) unseen[row] = *row->seconds * (1 + error_of(*row, population.mean));
    if (own.size() <= 6) continue;
    for (std::uint64_t draw = 0; draw < 20; ++draw) {
      // Five rows by a random order of this draw.
      std::vector<std::pair<std::uint64_t, const Row*>> order;
      for (std::size_t i = 0; i < own.size(); ++i)
        order.emplace_back(philox_word(philox_key(draw, RandomPurpose::kSampling, "rows"), i), own[i]);
      std::sort(order.begin(), order.end());
      RowList few, rest;
      for (std::size_t i = 0; i < order.size(); ++i) (i < 5 ? few : rest).push_back(order[i].second);
      append(with_five, rest, fit_member(few, population));
    }
  }
  const auto line = [](std::string name, std::vector<double> errors, std::string bar) {
    return AccuracyReport::Line{std::move(name), summarize(std::move(errors)), std::move(bar)};
  };
  report.lines = {line("one calibration per device type and software release", both, "2.5 / 4 / 8"),
                  line("one calibration per device type", device, "4 / 6 / 13"),
                  line("datasheet only, 12 efficiencies the same for all", none, "9 / 11 / 22"),
                  line("calibrated, the whole source left out", left_out, "10 / 13 / 25"),
                  line("the same with 5 of its rows", with_five, "4.5 / 6 / 12"),
                  line("constant share of peak per device and precision", constant_share(rows), ""),
                  line("rate of the nearest other row", nearest_row(rows, true), ""),
                  line("rate of the nearest row of another source", nearest_row(rows, false), "")};
  for (const auto& [key, errors] : by_group)
    report.sources.push_back(line(fmt::format("{}, {}", key.first, key.second), errors, ""));
  report.memory = summarize(memory);
  const auto layouts = layout_groups(rows);
  report.ranking = rank(layouts, fitted);
  report.ranking_left_out = rank(layouts, unseen);
  std::sort(report.worst.begin(), report.worst.end(),
            [](const auto& a, const auto& b) { return std::abs(a.error) > std::abs(b.error); });
  if (report.worst.size() > 15) report.worst.resize(15);
  return report;
}

std::string to_markdown(const AccuracyReport& report) {
  std::string out =
      "| measure | rows | median % | mean % | 90th percentile % | bar |\n|---|---|---|---|---|---|\n";
  const auto put = [&](const AccuracyReport::Line& line) {
    out += fmt::format("| {} | {} | {:.1f} | {:.1f} | {:.1f} | {} |\n", line.measure, line.errors.rows,
                       line.errors.median, line.errors.mean, line.errors.p90, line.bar);
  };
  for (const auto& line : report.lines) put(line);
  const auto ranking = [&](const char* name, const RankingSummary& r) {
    out += fmt::format("| {} | {} | {:.2f} | {:.1f} | {:.1f} |\n", name, r.groups, r.kendall, r.regret_mean,
                       r.regret_p90);
  };
  out +=
      "\n| ranking of layouts | groups | Kendall | first choice over best, mean % | 90th percentile % "
      "|\n|---|---|---|---|---|\n";
  ranking("calibrated", report.ranking);
  ranking("source left out", report.ranking_left_out);
  if (report.memory.rows > 0)
    out += fmt::format(
        "\n| memory | rows | mean % | underestimated by more than 5 % |\n|---|---|---|---|\n| figures of the "
        "programs' allocators | {} | {:.1f} | {:.0f} % of rows |\n",
        report.memory.rows, report.memory.mean, 100.0 * report.memory_underestimates / report.memory.rows);
  out +=
      "\n| source, device | rows | median % | mean % | 90th percentile % | bar "
      "|\n|---|---|---|---|---|---|\n";
  for (const auto& line : report.sources) put(line);
  out += "\nThe worst rows:\n\n| source | model | measured s | error % |\n|---|---|---|---|\n";
  for (const auto& row : report.worst)
    out +=
        fmt::format("| {} | {} | {:.4g} | {:+.1f} |\n", row.source, row.model, row.measured, 100 * row.error);
  return out;
}

}  // namespace stoa::plan

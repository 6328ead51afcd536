#include "eval/samples/compare_samples.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "eval/json_number.h"

namespace stoa::eval {
namespace {

constexpr double kHalfInterval = 1.959964;  // standard errors, 95 %

struct PairedValues {
  std::vector<double> a, b;
};
// By filter and metric.
using PairedTask = std::map<std::pair<std::string, std::string>, PairedValues>;

bool is_right_or_wrong(const PairedValues& values) {
  const auto whole = [](double x) { return x == 0 || x == 1; };
  return std::all_of(values.a.begin(), values.a.end(), whole) &&
         std::all_of(values.b.begin(), values.b.end(), whole);
}

PairedMetric judge(const std::string& task, const std::string& filter, const std::string& metric,
                   const PairedValues& values) {
  PairedMetric out;
  out.task = task;
  out.filter = filter;
  out.metric = metric;
  out.documents = std::ssize(values.a);
  const auto n = static_cast<double>(out.documents);
  out.right_or_wrong = is_right_or_wrong(values);
  for (std::size_t i = 0; i < values.a.size(); ++i) {
    out.a += values.a[i] / n;
    out.b += values.b[i] / n;
    out.only_a += out.right_or_wrong && values.a[i] > values.b[i];
    out.only_b += out.right_or_wrong && values.b[i] > values.a[i];
  }
  out.difference = out.b - out.a;
  double squares = 0;
  for (std::size_t i = 0; i < values.a.size(); ++i) {
    const double from_mean = values.b[i] - values.a[i] - out.difference;
    squares += from_mean * from_mean;
  }
  out.standard_error = n > 1 ? std::sqrt(squares / (n - 1) / n) : 0;
  out.low = out.difference - kHalfInterval * out.standard_error;
  out.high = out.difference + kHalfInterval * out.standard_error;
  if (out.right_or_wrong) out.p = mcnemar(out.only_a, out.only_b);
  return out;
}

class SampleComparer {
 public:
  SampleComparer(const SampledRun& a, const SampledRun& b) : a_(a), b_(b) {}

  SampleComparison run() {
    for (const auto& [task, in_a] : a_.tasks) {
      const auto in_b = b_.tasks.find(task);
      if (in_b == b_.tasks.end())
        out_.notes.push_back(fmt::format("{}: only in A", task));
      else
        compare_task(task, in_a, in_b->second);
    }
    for (const auto& [task, unused] : b_.tasks)
      if (!a_.tasks.contains(task)) out_.notes.push_back(fmt::format("{}: only in B", task));
    require<DataError>(!values_.empty(), "the two evaluations have no task in common");
    for (const auto& [group, tasks] : a_.groups) compare_group(group, tasks);
    return std::move(out_);
  }

 private:
  void compare_task(const std::string& task, const SampledTask& a, const SampledTask& b) {
    PairedTask& values = values_[task];
    for (const auto& [filter, documents] : a) {
      const auto others = b.find(filter);
      if (others == b.end()) {
        out_.notes.push_back(fmt::format("{}: the filter '{}' is only in A", task, filter));
        continue;
      }
      std::int64_t alone = 0, without_number = 0;
      for (const auto& [id, document] : documents) {
        const auto other = others->second.find(id);
        if (other == others->second.end()) {
          ++alone;
          continue;
        }
        require<DataError>(document.hash == other->second.hash,
                           "{}: document {} is not the same in both evaluations", task, id);
        without_number += document.metrics.empty();
        for (const auto& [metric, value] : document.metrics)
          if (const auto of_b = other->second.metrics.find(metric); of_b != other->second.metrics.end()) {
            values[{filter, metric}].a.push_back(value);
            values[{filter, metric}].b.push_back(of_b->second);
          }
      }
      const auto common = std::ssize(documents) - alone;
      if (alone > 0 || std::ssize(others->second) > common)
        out_.notes.push_back(fmt::format("{}: {} documents in both, {} only in A, {} only in B", task, common,
                                         alone, std::ssize(others->second) - common));
      if (without_number > 0)
        out_.notes.push_back(
            fmt::format("{}: metrics without a number for each document are not compared", task));
      list_changed(task, filter, documents, others->second, values);
    }
    for (const auto& [key, of_metric] : values)
      if (!of_metric.a.empty()) out_.metrics.push_back(judge(task, key.first, key.second, of_metric));
  }

  void list_changed(const std::string& task, const std::string& filter,
                    const std::map<std::int64_t, SampledDocument>& a,
                    const std::map<std::int64_t, SampledDocument>& b, const PairedTask& values) {
    const auto judged = std::find_if(values.begin(), values.end(), [&](const auto& entry) {
      return entry.first.first == filter && is_right_or_wrong(entry.second);
    });
    if (judged == values.end()) return;
    const std::string& metric = judged->first.second;
    for (const auto& [id, document] : a) {
      const auto other = b.find(id);
      if (other == b.end() || !document.metrics.contains(metric)) continue;
      const double x = document.metrics.at(metric), y = other->second.metrics.at(metric);
      if (x != y) out_.changed.push_back({task, filter, metric, x > y, document, other->second});
    }
  }

  void compare_group(const std::string& group, const std::vector<std::string>& tasks) {
    PairedTask all;
    for (const std::string& task : tasks)
      if (const auto of_task = values_.find(task); of_task != values_.end())
        for (const auto& [key, values] : of_task->second) {
          PairedValues& together = all[key];
          together.a.insert(together.a.end(), values.a.begin(), values.a.end());
          together.b.insert(together.b.end(), values.b.begin(), values.b.end());
        }
    for (const auto& [key, values] : all) {
      PairedMetric metric = judge(group, key.first, key.second, values);
      metric.group = true;
      out_.metrics.push_back(metric);
    }
  }

  const SampledRun& a_;
  const SampledRun& b_;
  std::map<std::string, PairedTask> values_;
  SampleComparison out_;
};

}  // namespace

double mcnemar(std::int64_t only_a, std::int64_t only_b) {
  const std::int64_t n = only_a + only_b, rarer = std::min(only_a, only_b);
  const auto log_factorial = [](std::int64_t k) { return std::lgamma(static_cast<double>(k) + 1); };
  double sum = 0;
  for (std::int64_t k = 0; k <= rarer; ++k)
    sum += std::exp(log_factorial(n) - log_factorial(k) - log_factorial(n - k) -
                    static_cast<double>(n) * std::log(2.0));
  return std::min(1.0, 2 * sum);
}

SampleComparison compare_samples(const SampledRun& a, const SampledRun& b) {
  return SampleComparer(a, b).run();
}

std::string to_text(const SampleComparison& comparison) {
  std::size_t widest = 5, metric_width = 6;
  for (const PairedMetric& m : comparison.metrics) {
    widest = std::max(widest, m.task.size());
    metric_width = std::max(metric_width, m.metric.size() + (m.filter == "none" ? 0 : m.filter.size() + 1));
  }
  std::string out = fmt::format("{:{}}  {:{}}  {:>6}  {:>9}  {:>9}  {:>9}  {:^21}  {:>6}  {:>6}  {:>8}\n",
                                "task", widest, "metric", metric_width, "n", "A", "B", "B - A",
                                "95 % interval", "only A", "only B", "McNemar");
  for (const PairedMetric& m : comparison.metrics) {
    out += fmt::format("{:{}}  {:{}}  {:>6}  {:>9.4f}  {:>9.4f}  {:>+9.4f}  [{:>+9.4f},{:>+9.4f}]", m.task,
                       widest, m.filter == "none" ? m.metric : m.metric + "," + m.filter, metric_width,
                       m.documents, m.a, m.b, m.difference, m.low, m.high);
    if (m.right_or_wrong) out += fmt::format("  {:>6}  {:>6}  {:>8.3g}", m.only_a, m.only_b, m.p);
    out += '\n';
  }
  out += fmt::format("{} question{} changed between right and wrong\n", comparison.changed.size(),
                     comparison.changed.size() == 1 ? "" : "s");
  for (const std::string& note : comparison.notes) out += note + '\n';
  return out;
}

std::string to_json(const SampleComparison& comparison) {
  Json metrics = Json::array(), changed = Json::array();
  for (const PairedMetric& m : comparison.metrics) {
    Json one{{"task", m.task},
             {"group", m.group},
             {"filter", m.filter},
             {"metric", m.metric},
             {"documents", m.documents},
             {"a", json_number(m.a)},
             {"b", json_number(m.b)},
             {"difference", json_number(m.difference)},
             {"standard_error", json_number(m.standard_error)},
             {"interval", {json_number(m.low), json_number(m.high)}}};
    if (m.right_or_wrong) {
      one["only_a"] = m.only_a;
      one["only_b"] = m.only_b;
      one["p"] = m.p;
    }
    metrics.push_back(std::move(one));
  }
  for (const ChangedDocument& c : comparison.changed)
    changed.push_back({{"task", c.task},
                       {"filter", c.filter},
                       {"metric", c.metric},
                       {"doc_id", c.a.id},
                       {"right", c.a_right ? "A" : "B"},
                       {"target", c.a.target},
                       {"answer_a", c.a.answer},
                       {"answer_b", c.b.answer}});
  return dumped(Json{{"metrics", metrics}, {"changed", changed}, {"notes", comparison.notes}});
}

}  // namespace stoa::eval

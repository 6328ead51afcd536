#include "train/task_evaluation.h"

#include <algorithm>
#include <chrono>

#include "base/nearest.h"
#include "base/timing.h"
#include "eval/requests/answer_by_passes.h"
#include "run/over_ranks.h"

namespace stoa::train {
namespace {

// Thrown where a rank is asked to stop: what it has answered is no measure.
struct StoppedAsking {};

eval::Division division_of(const TrainerParts& parts, run::TrainingRank& rank) {
  const run::Layout& layout = parts.plan().options.layout;
  // Ranks of a context group answer together; those of the first group speak for all.
  return {layout.data_rank(parts.seat.rank), layout.data_ranks(), [&rank](std::string own) {
            return run::gather_texts(rank.parallel().along(parallel::Group::kData), std::move(own),
                                     *rank.machine().stream);
          }};
}

void add_figures(const std::string& task, const std::vector<eval::MetricResult>& metrics,
                 const eval::TaskConfig* config, std::vector<watch::TaskFigure>& out) {
  for (const eval::MetricResult& m : metrics) {
    const eval::MetricSpec* spec = config ? config->metric(m.name) : nullptr;
    out.push_back({figure_name(task, m), m.result.value, m.result.standard_error,
                   spec ? spec->higher_is_better : true});
  }
}

}  // namespace

std::string figure_name(const std::string& task, const eval::MetricResult& metric) {
  return fmt::format("{}/{}{}", task, metric.name, metric.filter == "none" ? "" : "," + metric.filter);
}

bool rises(const eval::PreparedEvaluation& tasks, const std::string& figure) {
  if (figure == kValidationLoss) return false;
  std::vector<std::string> known{kValidationLoss};
  for (const eval::PreparedTask& p : tasks.tasks()) {
    const eval::TaskConfig& config = p.task.config();
    for (const eval::FilterSpec& filter : config.filters)
      for (const eval::MetricSpec& metric : config.metrics) {
        known.push_back(figure_name(config.name, {metric.name, filter.name, {}}));
        if (known.back() == figure) return metric.higher_is_better;
      }
  }
  for (const auto& group : tasks.groups())
    for (const eval::MetricOfGroup& metric : group.metrics)
      for (const std::string& leaf : group.leaves)
        for (const eval::PreparedTask& p : tasks.tasks()) {
          const eval::MetricSpec* spec =
              p.task.config().name == leaf ? p.task.config().metric(metric.name) : nullptr;
          if (!spec) continue;
          for (const eval::FilterSpec& filter : p.task.config().filters) {
            known.push_back(figure_name(group.name, {metric.name, filter.name, {}}));
            if (known.back() == figure) return spec->higher_is_better;
          }
        }
  fail<ConfigError>(
      "exp_manager.checkpoint_callback_params.monitor: '{}' is neither {} nor a figure of "
      "trainer.eval_tasks{}",
      figure, kValidationLoss, did_you_mean(figure, known));
}

TaskEvaluation::TaskEvaluation(const TrainerParts& parts, run::TrainingRank& rank)
    : parts_(parts),
      rank_(rank),
      tasks_(*parts.tasks),
      division_(division_of(parts, rank)),
      own_(eval::requests_of_rank(tasks_.requests(), division_)) {
  infer::GenerateOptions ends;
  ends.end_tokens.assign(parts.inputs->data.turn_ends.begin(), parts.inputs->data.turn_ends.end());
  ends_ = infer::end_ids(*parts.tokenizer(), ends);
}

std::optional<watch::TaskReport> TaskEvaluation::run(const Progress& progress) {
  const auto begin = std::chrono::steady_clock::now();
  const bool alone = parts_.plan().options.layout.grid.degree(grid::Axis::kContext) == 1;
  eval::AnsweredPart part;
  part.requests = own_;
  part.answers.resize(own_.size());
  if (!encoded_) {
    std::vector<eval::Request> asked;
    std::vector<const infer::GenerateOptions*> generation;
    for (const std::size_t i : own_) {
      asked.push_back(tasks_.requests()[i]);
      generation.push_back(tasks_.generation()[i]);
    }
    encoded_.emplace(*parts_.tokenizer(), std::move(asked), std::move(generation),
                     rank_.passes()->limits().context - rank_.passes()->limits().virtual_tokens,
                     tasks_.options().scoring.add_bos);
  }
  part.truncated = encoded_->truncated();
  try {
    eval::answer_by_passes(*rank_.passes(), *parts_.tokenizer(), ends_, *encoded_,
                           [&](std::size_t i, const eval::Answer& answer, double) {
                             eval::require_number(answer);
                             part.answers[i] = answer;
                             if (alone && parts_.stop.stop_requested()) throw StoppedAsking();
                           });
  } catch (const StoppedAsking&) {
    part = {};
  }
  part = eval::gather_parts(std::move(part), division_);
  if (!parts_.seat.first() || part.requests.size() < tasks_.requests().size()) return std::nullopt;
  eval::Evaluation evaluation;
  parts_.seat.apart("scores the tasks", [&] { tasks_.score(part, evaluation); });
  watch::TaskReport report;
  report.step = step_ = progress.step;
  for (const eval::TaskResult& task : evaluation.tasks)
    add_figures(task.config.name, task.metrics, &task.config, report.figures);
  for (const eval::GroupResult& group : evaluation.groups) {
    const auto leaf =
        std::find_if(evaluation.tasks.begin(), evaluation.tasks.end(), [&](const eval::TaskResult& t) {
          return !group.group.leaves.empty() && t.config.name == group.group.leaves.front();
        });
    add_figures(group.group.name, group.metrics, leaf == evaluation.tasks.end() ? nullptr : &leaf->config,
                report.figures);
  }
  report.seconds = seconds_since(begin);
  figures_ = report.figures;
  return report;
}

std::vector<watch::TaskFigure> TaskEvaluation::figures_of(std::int64_t step) const {
  return step == step_ ? figures_ : std::vector<watch::TaskFigure>();
}

}  // namespace stoa::train

#include "train/objective_pass.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/file.h"
#include "run/over_ranks.h"
#include "train/training_data.h"

namespace stoa::train {
namespace {

namespace fs = std::filesystem;
using parallel::Group;

constexpr const char* kFile = "reference_logprobs.json";
constexpr std::array<const char*, 2> kSplits{"training", "validation"};

}  // namespace

ObjectivePass::ObjectivePass(run::TrainingRank& rank, const tune::ObjectiveConfig& objective, Data data)
    : rank_(rank),
      objective_(objective),
      data_{data.training, data.validation},
      sources_(std::move(data.sources)) {}

std::vector<ObjectivePass::Answer> ObjectivePass::answers_of(const data::Batch& batch,
                                                             const tune::ChatDataset& data) {
  const auto length = static_cast<std::size_t>(batch.sequence_length);
  losses_.assign(static_cast<std::size_t>(batch.rows) * length, 0.0);
  const auto& options = rank_.options();
  const parallel::ContextPlace place = options.layout.context_place(rank_.parallel().rank());
  const std::vector<std::int32_t> kept =
      place.split() ? parallel::local_tokens(place, options.micro_batch, options.length)
                    : std::vector<std::int32_t>();
  rank_.evaluate(batch, 0, {}, [&](std::int64_t row, TensorView found) {
    has_head_ = true;
    const std::size_t begin = static_cast<std::size_t>(row) * length;
    const auto put = [&](const auto* values) {
      for (std::size_t i = 0; i < static_cast<std::size_t>(found.rows()); ++i)
        losses_[begin + (kept.empty() ? i : static_cast<std::size_t>(kept[i]))] =
            static_cast<double>(values[i]);
    };
    if (found.dtype == DType::kF64)
      put(found.as<double>());
    else
      put(found.as<float>());
  });
  std::vector<Answer> answers;
  std::vector<double> sums;
  for (std::size_t r = 0; r < static_cast<std::size_t>(batch.rows); ++r)
    for (const tune::RowText& text : data.texts(batch.samples[r])) {
      Answer answer{r, text, {}};
      for (auto i = r * length + static_cast<std::size_t>(text.begin);
           i < r * length + static_cast<std::size_t>(text.end); ++i) {
        if (batch.loss_mask[i] == 0) continue;
        answer.score.log_probability -= losses_[i];
        ++answer.score.tokens;
      }
      sums.push_back(answer.score.log_probability);
      answers.push_back(answer);
    }
  if (place.split()) {  // each rank of the group has seen a part of every text
    run::add_over_ranks(rank_, sums, Group::kContext);
    for (std::size_t i = 0; i < answers.size(); ++i) answers[i].score.log_probability = sums[i];
  }
  return answers;
}

std::vector<ObjectivePass::Pair> ObjectivePass::compute_reference(const tune::ChatDataset& given,
                                                                  const std::function<bool()>& stop) {
  const tune::ChatDataset data = given.one_epoch();
  std::vector<Pair> found(data.files().samples.size());
  const run::Layout& layout = rank_.options().layout;
  const std::int64_t micro = rank_.options().micro_batch, ranks = layout.data_ranks(), rows = data.size();
  const std::int64_t at_once =
      micro * ranks * (layout.pipeline_ranks() == 1 ? 1 : 4 * layout.pipeline_ranks());
  data::Batch batch;
  for (std::int64_t first = 0; first < rows; first += at_once) {
    if (stop()) return {};
    std::vector<std::int64_t> samples(static_cast<std::size_t>(at_once)), numbers(samples.size());
    std::iota(numbers.begin(), numbers.end(), first);
    numbers =
        rows_of_rank(numbers, micro, static_cast<int>(ranks), layout.data_rank(rank_.parallel().rank()));
    samples.clear();
    for (const std::int64_t n : numbers) samples.push_back(n % rows);  // the last batch is filled up
    data::fill_batch(data, samples, batch);
    for (const Answer& answer : answers_of(batch, data))
      if (numbers[answer.row] < rows)
        found[answer.place.sample][answer.place.rejected ? 1 : 0] = answer.score.log_probability;
  }
  const std::span<double> values(found.front().data(), 2 * found.size());
  for (const auto group : {Group::kPipeline, Group::kData}) run::add_over_ranks(rank_, values, group);
  return found;
}

bool ObjectivePass::refer(const fs::path& directory, bool resumed,
                          const std::function<bool()>& asked_to_stop) {
  if (!objective_.refers()) return true;
  const fs::path path = directory / kFile;
  if (resumed) {
    require<DataError>(fs::exists(path),
                       "{} is missing: it holds what the run's reference model says of its data",
                       path.string());
    const auto file = nlohmann::json::parse(read_text(path), nullptr, false);
    for (const std::size_t split : {kTraining, kValidation}) {
      if (!data_[split]) continue;
      const bool right = file.is_object() && file.value("data", nlohmann::json()) == sources_ &&
                         file.contains(kSplits[split]) &&
                         file[kSplits[split]].size() == data_[split]->files().samples.size();
      require<DataError>(right, "{} is of other data: a run that compares with a reference keeps its data",
                         path.string());
      reference_[split] = file[kSplits[split]].get<std::vector<Pair>>();
    }
    return true;
  }
  nlohmann::json file{{"data", sources_}};
  for (const std::size_t split : {kTraining, kValidation}) {
    if (!data_[split]) continue;
    reference_[split] = compute_reference(*data_[split], asked_to_stop);
    if (reference_[split].empty()) return false;
    file[kSplits[split]] = reference_[split];
  }
  if (rank_.parallel().rank() == 0) write_text(path, file.dump());
  return true;
}

const ObjectivePass::Pair& ObjectivePass::reference(const Answer& answer, Split split) const {
  static constexpr Pair kNone{0, 0};
  return objective_.refers() ? reference_[split][answer.place.sample] : kNone;
}

bool ObjectivePass::desirable(const Answer& answer, Split split) const {
  return *data_[split]->files().samples[answer.place.sample].desirable;
}

// Mean over the answers to other questions of the whole batch, not below 0. Ranks with the head get it.
double ObjectivePass::drift_of(const std::vector<Answer>& answers, Split split) {
  std::array<double, 2> sums{};
  for (const Answer& answer : answers)
    if (answer.place.rejected) {
      sums[0] += answer.score.log_probability - reference(answer, split)[1];
      sums[1] += 1;
    }
  run::add_over_ranks(rank_, sums, Group::kData);
  return sums[1] > 0 ? std::max(0.0, sums[0] / sums[1]) : 0;
}

void ObjectivePass::judge_pairs(const std::vector<Answer>& answers, Split split,
                                const std::function<void(const Answer&, double)>& set, Sums& sums) const {
  for (std::size_t i = 0; i + 1 < answers.size(); i += 2) {  // a pair lies together
    const Answer &chosen = answers[i], &rejected = answers[i + 1];
    const Pair& ref = reference(chosen, split);
    const double margin = data_[split]->files().samples[chosen.place.sample].margin;
    const tune::PairLoss loss =
        tune::pair_loss(objective_, chosen.score, rejected.score, ref[0], ref[1], margin);
    set(chosen, loss.by_chosen);
    set(rejected, loss.by_rejected);
    sums.loss += loss.loss;
    sums.units += 1;
    sums.right += loss.reward_chosen > loss.reward_rejected ? 1 : 0;
    sums.reward_first += loss.reward_chosen;
    sums.reward_second += loss.reward_rejected;
    sums.log_first += chosen.score.log_probability;
    sums.log_second += rejected.score.log_probability;
    sums.drift += chosen.score.log_probability - ref[0];
  }
  sums.first = sums.second = sums.units;
}

void ObjectivePass::judge_scores(const std::vector<Answer>& answers, Split split,
                                 const std::function<void(const Answer&, double)>& set, Sums& sums) const {
  for (const Answer& answer : answers) {
    const double s = answer.score.log_probability,
                 t = *data_[split]->files().samples[answer.place.sample].score;
    const tune::ScoreError error = tune::squared_error(s, t);
    set(answer, error.by_score);
    sums.loss += error.loss;
    sums.units += 1;
    sums.numbers.add(s, t);
  }
}

ObjectivePass::Sums ObjectivePass::judge(const std::vector<Answer>& answers, Split split,
                                         const std::function<void(const Answer&, double)>& set) {
  Sums sums;
  if (objective_.pairs()) {
    judge_pairs(answers, split, set, sums);
    return sums;
  }
  if (objective_.scores()) {
    judge_scores(answers, split, set, sums);
    return sums;
  }
  const double drift = drift_of(answers, split);
  for (const Answer& answer : answers) {
    if (answer.place.rejected) {
      set(answer, 0);
      continue;
    }
    const bool good = desirable(answer, split);
    const tune::JudgedLoss loss =
        tune::judged_loss(objective_, good, answer.score, reference(answer, split)[0], drift);
    set(answer, loss.by_answer);
    sums.loss += loss.loss;
    sums.units += 1;
    sums.right += (loss.reward > 0) == good ? 1 : 0;
    (good ? sums.first : sums.second) += 1;
    (good ? sums.reward_first : sums.reward_second) += loss.reward;
    (good ? sums.log_first : sums.log_second) += answer.score.log_probability;
    sums.drift += drift;
  }
  return sums;
}

// Ranks without the head have judged nothing.
ObjectivePass::Measure ObjectivePass::measure_of(Sums sums) {
  for (const auto group : {Group::kPipeline, Group::kData}) run::add_over_ranks(rank_, sums.all(), group);
  const auto mean = [](double sum, double count) { return count > 0 ? sum / count : 0; };
  Measure out;
  out.loss = mean(sums.loss, sums.units);
  if (objective_.scores() && !objective_.pairs()) {
    out.scores = sums.numbers.scores();
    return out;
  }
  const bool pairs = objective_.pairs();
  const double first = mean(sums.reward_first, sums.first), second = mean(sums.reward_second, sums.second);
  out.scores = {{"accuracy", mean(sums.right, sums.units)},
                {"margin", first - second},
                {pairs ? "reward_chosen" : "reward_desirable", first},
                {pairs ? "reward_rejected" : "reward_undesirable", second}};
  if (!objective_.scores()) {
    out.scores.emplace_back(pairs ? "logp_chosen" : "logp_desirable", mean(sums.log_first, sums.first));
    out.scores.emplace_back(pairs ? "logp_rejected" : "logp_undesirable", mean(sums.log_second, sums.second));
  }
  // How far the model has moved from its reference: on the chosen answers, or, of answers that are judged one
  // by one, as their loss estimates it.
  if (!pairs || objective_.refers()) out.scores.emplace_back("kl", mean(sums.drift, sums.units));
  return out;
}

ObjectivePass::Measure ObjectivePass::weigh(data::Batch& batch) {
  const std::vector<Answer> answers = answers_of(batch, *data_[kTraining]);
  const auto length = static_cast<std::size_t>(batch.sequence_length);
  double units = 0;
  for (const Answer& answer : answers) units += answer.place.rejected ? 0 : 1;
  Sums sums = judge(answers, kTraining, [&](const Answer& answer, double derivative) {
    for (auto i = answer.row * length + static_cast<std::size_t>(answer.place.begin);
         i < answer.row * length + static_cast<std::size_t>(answer.place.end); ++i)
      if (batch.loss_mask[i] != 0) batch.loss_mask[i] = static_cast<float>(-derivative);
  });
  if (!has_head_) sums = {};
  run::add_over_ranks(rank_, std::span(&units, 1), Group::kData);
  batch.valid_tokens = static_cast<std::int64_t>(units);
  return measure_of(sums);
}

void ObjectivePass::add(const data::Batch& batch) {
  Sums sums = judge(answers_of(batch, *data_[kValidation]), kValidation, [](const Answer&, double) {});
  if (!has_head_) sums = {};
  const auto to = validation_.all(), from = sums.all();
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
}

ObjectivePass::Measure ObjectivePass::take() { return measure_of(std::exchange(validation_, {})); }

}  // namespace stoa::train

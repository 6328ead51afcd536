#include "train/validation.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <numbers>
#include <numeric>

#include "base/timing.h"
#include "infer/chat_session.h"
#include "run/over_ranks.h"
#include "train/answer_score.h"
#include "train/distill_scores.h"

namespace stoa::train {

Validation::Validation(const TrainerParts& parts, run::TrainingRank& rank, std::optional<double> best,
                       LossPass* objective, const KeptLogits* kept)
    : parts_(parts),
      rank_(rank),
      objective_(objective),
      kept_(kept),
      data_(parts.inputs->data.datasets.validation.get()),
      losses_{{}, best} {}

// This rank's part of `rows` samples.
void Validation::fill(std::int64_t first_row, std::int64_t rows) {
  const TrainingPlan& plan = parts_.plan();
  const run::Layout& layout = plan.options.layout;
  std::vector<std::int64_t> samples(static_cast<std::size_t>(rows));
  std::iota(samples.begin(), samples.end(), first_row);
  data::fill_batch(*data_,
                   rows_of_rank(samples, plan.options.micro_batch, layout.data_ranks(),
                                layout.data_rank(parts_.seat.rank)),
                   batch_);
  if (kept_) kept_->fill(batch_);
}

std::optional<watch::ValidationReport> Validation::run(const Progress& progress,
                                                       const std::function<bool()>& asked_to_stop) {
  if (!data_) return std::nullopt;
  const auto begin = std::chrono::steady_clock::now();
  const TrainingPlan& plan = parts_.plan();
  const run::Layout& layout = plan.options.layout;
  const std::int64_t micro = plan.options.micro_batch, granule = micro * layout.data_ranks();
  const std::int64_t available =
      std::min(data_->size(), parts_.config.trainer.limit_val_batches * plan.batch.largest());
  // So many microbatches at once that stages work side by side.
  const std::int64_t at_once = granule * (layout.pipeline_ranks() == 1 ? 1 : 4 * layout.pipeline_ranks());
  const std::int64_t rows = available / granule * granule;
  const auto rows_from = [&](std::int64_t row) { return std::min(at_once, rows - row); };
  const model::TaskConfig& task = parts_.config.model.task;
  // A sentence (of a masked model) weighs as much as the tokens of a sample do on average over all that is
  // read here, whatever part of it a rank sees at once.
  const bool sentences = parts_.config.model.judges_sentences();
  if (sentences && !tokens_per_sample_) {
    double tokens = 0;
    for (std::int64_t row = 0; row < rows; row += at_once) {
      fill(row, rows_from(row));
      tokens += static_cast<double>(batch_.valid_tokens);
    }
    run::add_over_ranks(rank_, std::span(&tokens, 1), parallel::Group::kData);
    tokens_per_sample_ = tokens / static_cast<double>(std::max<std::int64_t>(rows, 1));
  }
  AnswerScore answers(task);
  run::TrainingRank::AnswerSink sink;
  const bool answers_rows =
      !objective_ && model::traits(parts_.config.model).samples == model::Samples::kLabelled;
  if (answers_rows)
    sink = [&](std::int64_t row, TensorView logits) { answers.add(batch_, row, micro, logits); };
  const token::Tokenizer* tokenizer = task.labelled() ? nullptr : parts_.tokenizer();  // labels are tokens
  double loss = 0, divergence = 0;
  std::array<double, 2> counts{};  // valid tokens, bytes of text
  for (std::int64_t row = 0; row < rows; row += at_once) {
    if (asked_to_stop()) return std::nullopt;  // a part of it would be no measure
    fill(row, rows_from(row));
    if (objective_) {
      objective_->add(batch_);
      counts[0] += static_cast<double>(batch_.valid_tokens);
      continue;
    }
    const auto sum = rank_.evaluate(batch_, tokens_per_sample_.value_or(0), sink);
    loss += sum.loss;
    divergence += sum.divergence;
    counts[0] += static_cast<double>(batch_.valid_tokens);
    if (!tokenizer) continue;
    for (std::size_t i = 0; i < batch_.labels.size(); ++i)
      if (batch_.loss_mask[i] > 0 && !tokenizer->is_special(batch_.labels[i]))  // those are no text
        counts[1] += static_cast<double>(tokenizer->token_bytes(batch_.labels[i]).size());
  }
  run::add_over_ranks(rank_, counts, parallel::Group::kData);
  // Stages without the head have seen no answers.
  for (const auto group : {parallel::Group::kPipeline, parallel::Group::kData})
    if (answers_rows) run::add_over_ranks(rank_, answers.counts(), group);
  const auto [tokens, bytes] = counts;
  if (tokens == 0) return std::nullopt;
  watch::ValidationReport report;
  report.step = progress.step;
  report.samples = progress.samples;
  report.tokens = progress.tokens;
  report.loss = loss / tokens;
  report.valid_tokens = static_cast<std::int64_t>(tokens);
  report.of_texts = task.one_label_per_row();
  if (objective_) {
    const LossPass::Measure measure = objective_->take();
    report.loss = measure.loss;
    report.scores = measure.scores;
  }
  if (bytes > 0) report.bits_per_byte = loss / std::numbers::ln2 / bytes;
  if (answers_rows) report.scores = answers.scores();
  if (parts_.config.distill.active())
    report.scores = divergence_scores(parts_.config.distill, divergence, tokens);
  report.seconds = seconds_since(begin);
  report.best = !losses_.best || report.loss < *losses_.best;
  if (report.best) losses_.best = report.loss;
  losses_.last = report.loss;
  return report;
}

void Validation::draw_samples(std::int64_t step) {
  if (!parts_.tokenizer() || !rank_.passes()) return;
  // Ranks of a context group draw together. All others would draw the same: the one that shows it does.
  const bool alone = parts_.plan().options.layout.grid.degree(grid::Axis::kContext) == 1;
  if (alone && !parts_.seat.first()) return;
  for (const auto& prompt : parts_.config.trainer.sample_prompts) {
    infer::Engine engine(*rank_.passes());  // nothing is left of other weights
    infer::GenerateOptions options;
    options.max_tokens = parts_.config.trainer.sample_max_tokens;
    options.sampling.temperature = 0.8;
    options.sampling.top_p = 0.95;
    options.sampling.seed = 1;  // the same draws at every step: what changes is the model
    std::string shown = prompt, text;
    const auto take = [&](std::string_view piece) {
      text += piece;
      return !alone || !parts_.stop.stop_requested();
    };
    const std::string& jinja = parts_.tokenizer()->chat_template();
    if (parts_.config.chats.chat && !jinja.empty()) {
      const auto& ends = parts_.inputs->data.turn_ends;
      shown += '\n';
      options.end_tokens.assign(ends.begin(), ends.end());
      infer::ChatOptions chat;
      chat.generate = options;
      infer::ChatSession session(engine, *parts_.tokenizer(), chat::ChatTemplate(jinja), std::move(chat));
      try {
        session.say(prompt, take);
      } catch (const DataError& error) {  // too long, or refused by the template
        text = error.what();
      }
    } else {
      infer::write_text(engine, *parts_.tokenizer(), prompt, options, take);
    }
    for (auto* observer : parts_.observers) observer->on_sample({step, shown, text});
  }
}

}  // namespace stoa::train

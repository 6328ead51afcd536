#include "train/run_checkpoints.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "base/checksum.h"
#include "base/timing.h"
#include "infer/sentence_files.h"
#include "model/huggingface/generation_config.h"
#include "run/over_ranks.h"
#include "run/replicas.h"
#include "train/generation_file.h"
#include "train/layout_plan.h"
#include "train/task_evaluation.h"
#include "train/tokenizer_choice.h"

namespace stoa::train {
namespace {

model::huggingface::SpecialTokens special_tokens(const token::Tokenizer* tokenizer, model::Samples samples,
                                                 const std::set<token::TokenId>& turn_ends) {
  model::huggingface::SpecialTokens special;
  if (!tokenizer) return special;
  special.bos = tokenizer->bos_id();
  special.pad = tokenizer->pad_id();
  if (const auto eod = tokenizer->eod_id()) special.eos = {*eod};
  for (const token::TokenId end : turn_ends)
    if (std::find(special.eos.begin(), special.eos.end(), end) == special.eos.end())
      special.eos.push_back(end);
  if (samples == model::Samples::kPairs) special.decoder_start = special.pad.value_or(0);
  return special;
}

}  // namespace

RunCheckpoints::RunCheckpoints(const TrainerParts& parts, run::TrainingRank& rank, const fs::path& directory,
                               const std::optional<fs::path>& start_model)
    : parts_(parts),
      rank_(rank),
      directory_(directory / "checkpoints"),
      special_(special_tokens(parts.tokenizer(), model::traits(parts.config.model).samples,
                              parts.inputs->data.turn_ends)) {
  const auto& manager = parts.config.exp_manager;
  if (!parts.seat.first() || !manager.create_checkpoint_callback) return;
  const auto& kept = manager.checkpoint;
  ckpt::WriterOptions options;
  options.retention.keep_last = kept.save_top_k < 0 ? 0 : static_cast<int>(kept.keep_last);
  options.retention.keep_best = kept.save_top_k < 0 ? 0 : static_cast<int>(kept.save_top_k);
  options.retention.metric = kept.best_by();
  if (parts.tasks) options.retention.lower_is_better = !rises(*parts.tasks, kept.best_by());
  writer_ = std::make_unique<ckpt::CheckpointWriter>(directory_, options);
  if (parts.tokenizer()) texts_.files = tokenizer_files(*parts.tokenizer());
  const model::ModelConfig& config = parts.config.model;
  if (config.task.embeds())
    for (auto& [name, text] :
         infer::sentence_files(config.pooling(), config.hidden_size, config.sample_length()))
      texts_.files.push_back({name, text});
  if (rank.options().model.adapters) {
    const fs::path base = fs::absolute(*start_model).lexically_normal();
    parts.seat.apart("computes the checksum of the model", [&] {
      texts_.base = {base, ckpt::tensors_checksum(base), parts.config.model.task.labels,
                     std::string(model::name_of(parts.config.model.peft.quantize_base))};
    });
  }
  const model::Traits traits = model::traits(parts.config.model);
  if (traits.continues_text || traits.samples == model::Samples::kPairs)
    texts_.files.push_back(
        {model::huggingface::GenerationConfig::kFile,
         generation_file(start_model, parts.tokenizer(), special_, parts.inputs->data.turn_ends)});
}

watch::CheckpointReport RunCheckpoints::save(const Progress& progress, const ValidationLosses& losses,
                                             const std::vector<watch::TaskFigure>& figures, bool wait) {
  const auto begin = std::chrono::steady_clock::now();
  const RunConfig& config = parts_.config;
  const run::Layout& layout = parts_.plan().options.layout;
  ckpt::TrainingState state;
  state.step = progress.step;
  state.samples = state.data_cursor = progress.samples;
  state.tokens = progress.tokens;
  state.config_hash = checksum_text(checksum(parts_.config_yaml));
  state.tokenizer_fingerprint = parts_.tokenizer() ? parts_.tokenizer()->fingerprint() : "";
  state.layout = layout_text(layout);
  state.data_parts = parts_.inputs->data.parts;
  state.settings = data_settings(config, parts_.inputs->data);
  const optim::OptimConfig& optim = config.optim;
  state.adam = {optim.betas.front(), optim.betas.back(), optim.eps};
  if (const auto base = config.model.mup.mup_base_hidden_size) state.counters[kMupBase] = *base;
  if (losses.last) state.metrics[kValidationLoss] = *losses.last;
  if (losses.best) state.metrics["best_val_loss"] = *losses.best;
  for (const watch::TaskFigure& figure : figures) state.metrics[figure.name] = figure.value;
  finish();  // the snapshot before this one is written: at most one is in memory
  run::compare_replicas(rank_, progress.step);
  if (layout.grid.size() > 1) {
    run::save_scalars(rank_, state);
    begin_part(state);
  } else {
    auto snapshot = run::take_snapshot(rank_, texts_, special_, state);
    writer_->save(state, std::move(snapshot));
  }
  if (wait) finish();
  watch::CheckpointReport report;
  report.step = progress.step;
  report.path = (directory_ / ckpt::checkpoint_name(progress.step)).string();
  report.snapshot_seconds = seconds_since(begin);
  return report;
}

void RunCheckpoints::begin_part(const ckpt::TrainingState& state) {
  const std::vector<TensorSpec> all = run::state_tensors(rank_);
  // Rank 0 makes the directory; its name travels as bytes.
  std::array<std::uint8_t, 256> name{};
  if (parts_.seat.first()) {
    std::uint64_t bytes = 0;
    for (const TensorSpec& spec : all) bytes += spec.bytes();
    // In addition to the state the model: at most as wide as the masters.
    bytes += bytes / static_cast<std::uint64_t>(1 + rank_.optimizer().moment_names().size());
    const std::string made = writer_->open_joint(state.step, bytes).filename().string();
    require<InternalError>(made.size() < name.size(), "'{}' is long", made);
    std::copy(made.begin(), made.end(), name.begin());
  }
  rank_.parallel()
      .along(parallel::Group::kWorld)
      .broadcast(TensorView(name.data(), DType::kU8, {static_cast<std::int64_t>(name.size())}), 0,
                 *rank_.machine().stream)
      ->wait();
  part_directory_ = directory_ / reinterpret_cast<const char*>(name.data());
  part_state_ = state;
  part_ = std::make_unique<ckpt::JointPart>(part_directory_, ckpt::entries_of(all), run::take_part(rank_),
                                            parts_.seat.first());
}

void RunCheckpoints::commit_parts() {
  part_->wait();
  const std::vector<std::string> sums =
      run::gather_texts(rank_.parallel().along(parallel::Group::kWorld), ckpt::sums_text(part_->sums()),
                        *rank_.machine().stream);
  part_.reset();
  if (!parts_.seat.first()) return;
  writer_->commit_joint(part_state_, part_directory_,
                        run::model_of_state(rank_, texts_, special_, part_directory_), ckpt::join_sums(sums));
}

void RunCheckpoints::finish() {
  if (part_) {
    parts_.seat.apart("writes its part of the checkpoint", [&] { part_->wait(); });
    rank_.parallel().along(parallel::Group::kWorld).barrier();
    commit_parts();
  }
  if (writer_) parts_.seat.apart("completes the checkpoint", [&] { writer_->wait(); });
}

}  // namespace stoa::train

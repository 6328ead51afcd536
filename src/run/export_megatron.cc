#include "run/export_megatron.h"

#include <filesystem>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ckpt/tensor_directory.h"
#include "ckpt/viewed_source.h"
#include "foreign/checkpoint/foreign_checkpoint.h"
#include "foreign/checkpoint/rearranged_source.h"
#include "infer/model_files.h"
#include "ops/step_state.h"

namespace stoa::run {
namespace {

namespace hf = model::huggingface;
using ckpt::TensorEntry, ckpt::TensorSource;

// The tensors whose names begin with `prefix`, without it; null: there are none.
std::shared_ptr<const TensorSource> below(const std::shared_ptr<const TensorSource>& all,
                                          std::string_view prefix) {
  std::vector<ckpt::ViewedTensor> out;
  for (const TensorEntry* entry : all->entries())
    if (entry->name.starts_with(prefix)) {
      ckpt::ViewedTensor view{*entry, {{all.get(), entry, 1, entry->elements(), 0, 0, 0, 0}}};
      view.entry.name = entry->name.substr(prefix.size());
      out.push_back(std::move(view));
    }
  if (out.empty()) return nullptr;
  return std::make_shared<ckpt::ViewedSource>(all->directory(), std::move(out),
                                              std::vector<std::shared_ptr<const TensorSource>>{all});
}

foreign::CanonicalState of_checkpoint(const ckpt::FoundCheckpoint& from) {
  const std::shared_ptr<const TensorSource> all =
      std::make_shared<ckpt::TensorDirectory>(*from.state, ckpt::kStateStem);
  const ckpt::TrainingState& training = from.manifest->training;
  foreign::CanonicalState out;
  out.weights = out.master = below(all, "master/");
  out.exp_avg = below(all, "adam.m/");
  out.exp_avg_sq = below(all, "adam.v/");
  require<ConfigError>(
      out.exp_avg && out.exp_avg_sq && !below(all, "muon.momentum/"),
      "'{}' was not trained with Adam alone, and Megatron's checkpoints are written with its "
      "moments: export the weights (checkpoint/model)",
      from.root.string());
  const auto slot = [&](ops::StepSlot which) {
    const auto index = static_cast<std::size_t>(which);
    return index < training.loss_scale.size() ? training.loss_scale[index] : 0;
  };
  out.counters = {training.step, static_cast<std::int64_t>(slot(ops::StepSlot::kUpdates)), training.samples};
  // Megatron takes them from the checkpoint, not from its command.
  require<ConfigError>(
      training.adam.has_value(),
      "'{}' does not say with which betas and epsilon of Adam it was trained (an older version "
      "wrote it, or it was imported from a checkpoint without them): export the weights "
      "(checkpoint/model), or continue the run for a step first",
      from.root.string());
  out.adam = {slot(ops::StepSlot::kLearningRate), slot(ops::StepSlot::kWeightDecay), training.adam->beta1,
              training.adam->beta2, training.adam->epsilon};
  return out;
}

// `whose`: who reads what is exported, for messages.
foreign::CanonicalState canonical_state(const ckpt::FoundCheckpoint& from, const infer::ModelFiles& files,
                                        std::string_view whose) {
  if (from.state) return of_checkpoint(from);
  foreign::CanonicalState state;
  state.weights =
      foreign::rearranged(files.tensors(), files.model(), *files.description().family, hf::stoa_family());
  require<ConfigError>(state.weights != nullptr,
                       "'{}': files of family {} hold norms minus 1, and no model of {} is read from "
                       "such files: export it with --family auto first",
                       from.model.string(), files.description().family->type, whose);
  return state;
}

// The directory with the tokenizer's files; a GGUF file has none.
std::filesystem::path tokenizer_files(const ckpt::FoundCheckpoint& from) {
  return std::filesystem::is_directory(from.model) ? foreign::tokenizer_directory(from.model)
                                                   : std::filesystem::path();
}

}  // namespace

foreign::MegatronExport export_megatron(const ckpt::FoundCheckpoint& from, const foreign::MegatronForm& form,
                                        const std::filesystem::path& output,
                                        const ckpt::ExportProgress& progress) {
  const infer::ModelFiles files(from.model);
  return foreign::write_megatron(files.model(), canonical_state(from, files, "Megatron's"), form, output,
                                 progress);
}

foreign::MegatronExport export_nemo2(const ckpt::FoundCheckpoint& from, const foreign::MegatronForm& form,
                                     const std::filesystem::path& output,
                                     const ckpt::ExportProgress& progress) {
  const infer::ModelFiles files(from.model);
  return foreign::write_nemo2(files.model(), canonical_state(from, files, "NeMo's"), form,
                              tokenizer_files(from), output, progress);
}

foreign::NemoArchive export_nemo1(const ckpt::FoundCheckpoint& from, const foreign::MegatronForm& form,
                                  const std::filesystem::path& output, const ckpt::ExportProgress& progress) {
  const infer::ModelFiles files(from.model);
  foreign::CanonicalState state;
  if (from.state) {
    state.weights = below(std::make_shared<ckpt::TensorDirectory>(*from.state, ckpt::kStateStem), "master/");
  } else {
    state = canonical_state(from, files, "NeMo's");
  }
  return foreign::write_nemo1(files.model(), state, form, tokenizer_files(from), output, progress);
}

}  // namespace stoa::run

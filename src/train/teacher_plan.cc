#include "train/teacher_plan.h"

#include <filesystem>
#include <set>

#include "base/checksum.h"
#include "ckpt/find_checkpoint.h"
#include "infer/model_files.h"
#include "model/architecture.h"
#include "run/rank_checkpoint.h"
#include "train/tokenizer_choice.h"
#include "tune/chat_dataset.h"
#include "tune/objective.h"

namespace stoa::train {
namespace {

constexpr const char *kKey = "model.distill.teacher", *kKeptKey = "model.distill.kept_logits";

ckpt::FoundCheckpoint found_teacher(const tune::DistillConfig& config) {
  ckpt::FoundCheckpoint found = ckpt::find_checkpoint(*config.teacher, ckpt::Verify::kSizes);
  require<ConfigError>(!found.adapter, "{} '{}' is an adapter: merge it first (stoa checkpoint merge)", kKey,
                       *config.teacher);
  return found;
}

// What a teacher next to the model and one that was kept both require.
void check_student(const RunConfig& config, const char* key) {
  require<ConfigError>(model::traits(config.model).continues_text,
                       "{} teaches decoders that continue text: not models of kind bert or t5, nor labelled "
                       "tasks",
                       key);
  require<ConfigError>(!config.objective.two_passes(),
                       "{} with objective {}: the teacher's predictions take the place of the answers "
                       "(objective sft)",
                       key, tune::name_of(config.objective.name));
  require<ConfigError>(!config.model.peft.has_virtual_tokens(),
                       "{} with virtual tokens, which a teacher does not see: take low-rank adapters or all "
                       "weights",
                       key);
}

}  // namespace

std::optional<run::TrainingOptions::Kept> plan_kept(const RunConfig& config,
                                                    const model::ModelSpec& student) {
  if (!config.distill.kept_logits) return std::nullopt;
  check_student(config, kKeptKey);
  const KeptHeader header = KeptLogits::read_header(*config.distill.kept_logits);
  require<ConfigError>(
      header.vocabulary == student.vocabulary,
      "{} '{}' is of a vocabulary of {} tokens, the model has one of {}: predictions are compared token by "
      "token, so both must have the same vocabulary",
      kKeptKey, *config.distill.kept_logits, header.vocabulary, student.vocabulary);
  return run::TrainingOptions::Kept{header.top, config.distill.compared_by()};
}

std::optional<run::TeacherOptions> plan_teacher(const RunConfig& config, const model::ModelSpec& student) {
  if (!config.distill.teacher || config.distill.kept_logits) return std::nullopt;
  check_student(config, kKey);
  const infer::ModelFiles files(found_teacher(config.distill).model);
  run::TeacherOptions out{files.model(), config.distill.compared_by()};
  model::ModelConfig& teacher = out.model.config;
  require<ConfigError>(model::traits(teacher).continues_text, "{} '{}' does not continue text", kKey,
                       *config.distill.teacher);
  require<ConfigError>(
      out.model.vocabulary == student.vocabulary,
      "{} '{}' has a vocabulary of {} tokens, the model one of {}: predictions are compared token by token, "
      "so both must have the same vocabulary",
      kKey, *config.distill.teacher, out.model.vocabulary, student.vocabulary);
  const bool counted = teacher.position_embedding_type == model::PositionEmbedding::kLearnedAbsolute;
  require<ConfigError>(!counted || teacher.max_positions() >= config.model.sample_length(),
                       "{} '{}' has {} positions, rows have {} tokens: give shorter rows "
                       "(model.encoder_seq_length)",
                       kKey, *config.distill.teacher, teacher.max_positions(), config.model.sample_length());
  out.model.padded_vocabulary = student.padded_vocabulary;  // the ranks' columns are the same ids
  teacher.freeze = {"*"};
  teacher.recompute = {};
  teacher.fp8 = {};
  return out;
}

void load_teacher(const TrainerParts& parts, run::TrainingRank& rank) {
  const ckpt::FoundCheckpoint found = found_teacher(parts.config.distill);
  const infer::ModelFiles files(found.model);
  if (rank.teacher())
    rank.load_teacher(files);
  else
    run::load_weights(rank, files);
  if (!parts.seat.first()) return;
  parts.console.line(fmt::format("taught by {}", found.root.string()));
  const token::Tokenizer* const own = parts.tokenizer();
  if (!own || !std::filesystem::exists(found.model / "tokenizer.json")) return;
  data::TokenizerConfig config;
  config.type = found.model.string();
  const auto other = load_tokenizer(config);
  if (other && other->fingerprint() != own->fingerprint())
    parts.console.warn(fmt::format(
        "the tokenizer of {} is not the same as the run's: its predictions mean the model's tokens only if "
        "both give the same ids to the same texts",
        found.root.string()));
}

std::string teacher_checksum(const tune::DistillConfig& config) {
  std::set<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(found_teacher(config).model)) {
    const std::filesystem::path end = entry.path().extension();
    if (entry.path().filename() == "config.json" || end == ".safetensors" || end == ".bin" || end == ".gguf")
      files.insert(entry.path());
  }
  std::string sums;
  for (const auto& file : files)
    sums += fmt::format("{} {}\n", file.filename().string(), checksum_text(checksum_file(file)));
  return checksum_text(checksum(sums));
}

KeptLogits open_kept_logits(const TrainerParts& parts) {
  const RunConfig& config = parts.config;
  const std::string& directory = *config.distill.kept_logits;
  KeptLogits kept(directory);
  const KeptHeader& header = kept.header();
  const token::Tokenizer* const tokenizer = parts.tokenizer();
  require<ConfigError>(!tokenizer || header.tokenizer.empty() || tokenizer->fingerprint() == header.tokenizer,
                       "{} '{}' was kept with tokenizer {}, the run has {}", kKeptKey, directory,
                       header.tokenizer, tokenizer ? tokenizer->fingerprint() : "none");
  if (!parts.seat.first()) return kept;
  parts.seat.apart("checks what was kept of the teacher", [&] {
    require<ConfigError>(!config.distill.teacher || teacher_checksum(config.distill) == header.checksum,
                         "{} '{}' was kept of {}, whose files are not those of {} '{}'", kKeptKey, directory,
                         header.teacher, kKey, config.distill.teacher.value_or(""));
    const TrainingPlan& plan = parts.plan();
    const data::DatasetTriple& data = parts.inputs->data.datasets;
    const auto* chats = dynamic_cast<const tune::ChatDataset*>(data.train.get());
    if (chats)
      kept.require_rows(chats->one_epoch(), chats->rows_per_epoch(), "training");
    else
      kept.require_rows(*data.train, plan.batch.samples_after(plan.steps), "training");
    if (data.validation && config.trainer.val_check_interval > 0)
      kept.require_rows(*data.validation, config.trainer.limit_val_batches * plan.batch.largest(),
                        "validation");
  });
  parts.console.line(fmt::format("taught by what was kept of {}: {} tokens of {}", header.teacher, header.top,
                                 header.vocabulary));
  return kept;
}

}  // namespace stoa::train

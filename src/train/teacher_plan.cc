#include "train/teacher_plan.h"

#include "ckpt/find_checkpoint.h"
#include "infer/model_files.h"
#include "model/architecture.h"
#include "train/tokenizer_choice.h"
#include "tune/objective.h"

namespace stoa::train {
namespace {

constexpr const char* kKey = "model.distill.teacher";

ckpt::FoundCheckpoint found_teacher(const tune::DistillConfig& config) {
  ckpt::FoundCheckpoint found = ckpt::find_checkpoint(*config.teacher, ckpt::Verify::kSizes);
  require<ConfigError>(!found.adapter, "{} '{}' is an adapter: merge it first (stoa checkpoint merge)", kKey,
                       *config.teacher);
  return found;
}

}  // namespace

std::optional<run::TeacherOptions> plan_teacher(const RunConfig& config, const model::ModelSpec& student) {
  if (!config.distill.active()) return std::nullopt;
  require<ConfigError>(model::traits(config.model).continues_text,
                       "{} teaches decoders that continue text: not models of kind bert or t5, nor labelled "
                       "tasks",
                       kKey);
  require<ConfigError>(!config.objective.two_passes(),
                       "{} with objective {}: the teacher's predictions take the place of the answers "
                       "(objective sft)",
                       kKey, tune::name_of(config.objective.name));
  require<ConfigError>(!config.model.peft.has_virtual_tokens(),
                       "{} with virtual tokens, which a teacher does not see: take low-rank adapters or all "
                       "weights",
                       kKey);
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
  rank.load_teacher(infer::ModelFiles(found.model));
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

}  // namespace stoa::train

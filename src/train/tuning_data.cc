#include "train/tuning_data.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/cores.h"
#include "ckpt/find_checkpoint.h"
#include "data/splits.h"
#include "infer/model_files.h"
#include "train/tuning_sources.h"

namespace stoa::train {
namespace {

using tune::TuningFiles;

// ConfigError: records of a form that the objective cannot use, with one that can.
void require_forms(const TuningFiles& files, const tune::ObjectiveConfig& objective) {
  for (std::size_t f = 0; f < files.files().size(); ++f) {
    const tune::RecordForm form = files.form(f);
    const bool pairs = form == tune::RecordForm::kPreference, judged = form == tune::RecordForm::kJudged,
               compared = form == tune::RecordForm::kCompared;
    const bool may_be_judged = objective.name == tune::ObjectiveKind::kRegression,
               must_be_judged = objective.name == tune::ObjectiveKind::kKto;
    require<ConfigError>(
        !compared && pairs == objective.pairs() && (may_be_judged || judged == must_be_judged),
        "{}: {} are for objective {}, the objective is {}", files.files()[f].name(), tune::name_of(form),
        compared ? "contrastive"
        : pairs  ? "dpo or reward"
        : judged ? "kto"
                 : "sft",
        tune::name_of(objective.name));
  }
}

// The padding token that the model's files will name, by which transformers finds the last token of a text:
// an adapter leaves the model's files as they are, others name the tokenizer's.
std::optional<std::int32_t> named_padding(const RunConfig& config, const token::Tokenizer& tokenizer) {
  if (!config.model.peft.active() || !config.restore_from_path) return tokenizer.pad_id();
  const ckpt::FoundCheckpoint found = ckpt::find_checkpoint(*config.restore_from_path, ckpt::Verify::kSizes);
  const auto pad = infer::ModelFiles(found.model).description().special.pad;
  return pad ? std::optional(static_cast<std::int32_t>(*pad)) : std::nullopt;
}

int threads_of(const RunConfig& config) {
  return static_cast<int>(config.trainer.num_threads.value_or(available_cores()));
}

}  // namespace

TuningData::TuningData(const RunConfig& config, const token::Tokenizer* tokenizer, const data::Notice& notice,
                       const std::stop_token& stop) {
  require<ConfigError>(tokenizer != nullptr, "chats need a tokenizer: give model.tokenizer");
  const model::ModelConfig& m = config.model;
  require<ConfigError>(
      model::traits(m).samples == model::Samples::kNextToken,
      "model.data.chat trains decoders (kind gpt, task language_model, or sequence_classification with one "
      "label); an encoder learns vectors from texts that belong together: give model.task=embedding "
      "model.objective.name=contrastive");
  require<ConfigError>(
      config.objective.scores() == m.task.regression(), "objective {} {}",
      tune::name_of(config.objective.name),
      config.objective.scores()
          ? "trains a head that gives a text one score: give model.task=sequence_classification and "
            "model.labels with one name"
          : "is for models that continue a text; one with a score is trained by objective reward or "
            "regression");
  require<ConfigError>(!config.objective.two_passes() ||
                           (m.hidden_dropout == 0 && m.attention_dropout == 0 && m.embedding_dropout == 0),
                       "objective {} compares what the model says with and without a step: it needs "
                       "model.hidden_dropout=0 model.attention_dropout=0 model.embedding_dropout=0",
                       tune::name_of(config.objective.name));
  const TuningSources files = tuning_sources(config);
  const tune::ObjectiveConfig& objective = config.objective;
  pad_ = tokenizer->pad_id().value_or(0);
  if (objective.scores()) unscored_ = named_padding(config, *tokenizer);
  const tune::ChatText text = tune::chat_text(*tokenizer);
  // Virtual tokens stand in front of every text, of both of a pair.
  const std::int64_t count = m.peft.virtual_count() *
                             (objective.pairs() || objective.name == tune::ObjectiveKind::kKto ? 2 : 1),
                     longest = m.sample_length() - count;
  require<ConfigError>(longest > 1, "rows of {} tokens have no room for texts after {} virtual tokens",
                       m.sample_length(), count);
  const auto say = [&](const std::string& line) {
    if (notice) notice(line);
  };
  tune::EncodingCounts counts;
  std::vector<std::string> skipped;
  const auto encode = [&](const TuningFiles& source, std::int64_t begin, std::int64_t end) {
    TuningFiles::Encoded encoded = source.encode(begin, end,
                                                 {*tokenizer, text, longest, threads_of(config), stop,
                                                  objective.name == tune::ObjectiveKind::kRegression});
    counts += encoded.counts;
    skipped.insert(skipped.end(), encoded.skipped.begin(), encoded.skipped.end());
    if (objective.name == tune::ObjectiveKind::kKto) tune::add_mismatched(encoded.files.samples, longest);
    turn_ends_.insert(encoded.turn_ends.begin(), encoded.turn_ends.end());
    return std::make_shared<const tune::EncodedFiles>(std::move(encoded.files));
  };
  const auto bad = config.chats.skip_bad_records ? TuningFiles::Bad::kSkipped : TuningFiles::Bad::kRefused;
  const TuningFiles train(files.train, bad, stop);
  for (const auto& line : train.descriptions()) say(line);
  require_forms(train, objective);
  for (const auto& file : train.files()) sources_.push_back(source_text(file));
  std::int64_t end = train.records();
  const bool validates = config.trainer.val_check_interval > 0;
  if (files.divided) {
    const auto ranges = data::split_ranges(data::parse_splits(config.data.splits_string), end);
    if (validates && ranges[1].first < ranges[1].second)
      validation_ = encode(train, ranges[1].first, ranges[1].second);
    end = ranges[0].second;
  } else if (validates && !files.validation.empty()) {
    const TuningFiles held_back(files.validation, bad, stop);
    for (const auto& line : held_back.descriptions()) say(line);
    require_forms(held_back, objective);
    validation_ = encode(held_back, 0, held_back.records());
  }
  require<DataError>(end > 0, "splits_string {} leaves no record for training", config.data.splits_string);
  training_ = encode(train, 0, end);
  if (!skipped.empty())
    say(fmt::format("{} records are left out, they cannot be used:\n{}", skipped.size(),
                    tune::list_faults(skipped)));
  for (const auto& line : tune::describe(counts, longest)) say(line);
  std::int64_t trained = 0;
  for (const auto& sample : training_->samples) trained += sample.text.trained_tokens();
  require<DataError>(trained > 0,
                     "nothing is trained: no sample has a trained token that fits into {} tokens", longest);
}

data::DatasetTriple TuningData::build(const RunConfig& config, const TrainingPlan& plan,
                                      std::optional<std::int64_t> rows) const {
  tune::ChatDataset::Options options;
  options.sequence_length = plan.options.length;
  options.packed = config.chats.packed_sequence;
  options.pad = pad_;
  options.seed = static_cast<std::uint32_t>(config.model.seed);
  options.virtual_tokens = static_cast<std::int32_t>(config.model.peft.virtual_count());
  options.first_virtual = static_cast<std::int32_t>(plan.options.model.vocabulary);
  options.scored = config.objective.scores();
  options.unscored = unscored_;
  data::DatasetTriple out;
  out.train = std::make_shared<tune::ChatDataset>(training_, rows, options);
  out.sources = sources_;
  if (!validation_ || validation_->samples.empty()) return out;
  options.shuffled = false;
  // As many whole passes as fill the microbatches of all data ranks once.
  const std::int64_t together = config.batch.micro_batch_size * plan.options.layout.data_ranks();
  auto held_back = std::make_shared<tune::ChatDataset>(validation_, std::nullopt, options);
  if (held_back->size() % together != 0)
    held_back = std::make_shared<tune::ChatDataset>(
        validation_, (held_back->size() + together - 1) / together * together, options);
  out.validation = std::move(held_back);
  return out;
}

}  // namespace stoa::train

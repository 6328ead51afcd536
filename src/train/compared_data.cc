#include "train/compared_data.h"

#include "data/splits.h"
#include "infer/labelled_rows.h"
#include "train/tuning_sources.h"
#include "tune/tuning_files.h"

namespace stoa::train {
namespace {

using data::LabelledRow;
using tune::TuningFiles;

void check_model(const RunConfig& config) {
  const model::ModelConfig& m = config.model;
  require<ConfigError>(m.kind != model::ModelKind::kT5,
                       "task embedding is for encoders and decoders: kind t5 has no vector of a text");
  require<ConfigError>(m.kind != model::ModelKind::kGpt || m.pooling() != model::Pooling::kFirstToken,
                       "model.pooling cls: the first token of a decoder sees no other; give last or mean");
  require<ConfigError>(m.hidden_dropout == 0 && m.attention_dropout == 0 && m.embedding_dropout == 0,
                       "objective contrastive compares what the model says before a step: it needs "
                       "model.hidden_dropout=0 model.attention_dropout=0 model.embedding_dropout=0");
  require<ConfigError>(config.layout.context_parallel_size == 1,
                       "context_parallel_size {} with task embedding: rows have different lengths; give 1",
                       config.layout.context_parallel_size);
}

void require_compared(const TuningFiles& files) {
  for (std::size_t f = 0; f < files.files().size(); ++f)
    require<ConfigError>(files.form(f) == tune::RecordForm::kCompared,
                         "{}: {}; objective contrastive needs texts that belong together: query and positive "
                         "(or anchor and positive), with or without negative",
                         files.files()[f].name(), tune::name_of(files.form(f)));
}

}  // namespace

ComparedData::ComparedData(const RunConfig& config, const token::Tokenizer* tokenizer,
                           const data::Notice& notice, const std::stop_token& stop) {
  require<ConfigError>(tokenizer != nullptr, "texts need a tokenizer: give model.tokenizer");
  check_model(config);
  pad_ = tokenizer->pad_id().value_or(0);
  const std::int64_t longest = config.model.sample_length();
  const infer::RowEncoder encoder(*tokenizer, config.model, longest);
  const bool last = config.model.pooling() == model::Pooling::kLastToken;
  std::vector<std::string> skipped;
  std::int64_t full = 0;
  const auto say = [&](const std::string& line) {
    if (notice) notice(line);
  };
  const auto encode = [&](const TuningFiles& files, std::int64_t begin, std::int64_t end) {
    std::vector<LabelledRow> rows;
    for (const TuningFiles::Compared& record : files.compared(begin, end, skipped, stop)) {
      const auto texts = static_cast<std::int64_t>(record.texts.size());
      require<DataError>(rows_.texts == 1 || rows_.texts == texts,
                         "{}: {} texts, other records have {}: every record needs as many negatives",
                         record.place.text(), texts, rows_.texts);
      rows_.texts = texts;
      for (const std::string& text : record.texts) {
        LabelledRow row = encoder.text({text, {}, {}}, {record.place.file, record.place.number});
        const auto tokens = static_cast<std::int32_t>(row.tokens.size());
        row.labels = {{last ? tokens - 1 : 0, 0}};
        full += tokens == longest ? 1 : 0;
        rows.push_back(std::move(row));
      }
    }
    return rows;
  };
  const TuningSources files = tuning_sources(config);
  const auto bad = config.chats.skip_bad_records ? TuningFiles::Bad::kSkipped : TuningFiles::Bad::kRefused;
  const TuningFiles train(files.train, bad, stop, tune::Question::kCompared);
  for (const auto& line : train.descriptions()) say(line);
  require_compared(train);
  for (const auto& file : train.files()) sources_.push_back(source_text(file));
  std::int64_t end = train.records();
  const bool validates = config.trainer.val_check_interval > 0;
  if (files.divided) {
    const auto ranges = data::split_ranges(data::parse_splits(config.data.splits_string), end);
    if (validates) validation_ = encode(train, ranges[1].first, ranges[1].second);
    end = ranges[0].second;
  } else if (validates && !files.validation.empty()) {
    const TuningFiles held_back(files.validation, bad, stop, tune::Question::kCompared);
    for (const auto& line : held_back.descriptions()) say(line);
    require_compared(held_back);
    validation_ = encode(held_back, 0, held_back.records());
  }
  training_ = encode(train, 0, end);
  if (rows_.texts == 2 && std::ssize(validation_) == rows_.texts) {
    say("one record is held back, which has nothing to be compared with: there is no validation");
    validation_.clear();
  }
  rows_.held_back = static_cast<std::int64_t>(validation_.size());
  if (!skipped.empty())
    say(fmt::format("{} records are left out, they cannot be used:\n{}", skipped.size(),
                    tune::list_faults(skipped)));
  if (full > 0) say(fmt::format("{} texts fill {} tokens: what is beyond is cut", full, longest));
  require<DataError>(!training_.empty(), "no record is left for training (splits_string {})",
                     config.data.splits_string);
}

data::DatasetTriple ComparedData::build(const RunConfig& config, const TrainingPlan& plan,
                                        std::optional<std::int64_t> rows) const {
  const std::int64_t texts = rows_.texts;
  const char* const kinds = texts == 2 ? "query and positive" : "query, positive and negatives";
  for (const auto& [step, samples] : plan.batch.sizes()) {
    require<ConfigError>(samples % texts == 0,
                         "a global batch of {} texts: records have {} ({}), which stay together: give a "
                         "model.global_batch_size that {} divides, as {}",
                         samples, texts, kinds, texts, (samples + texts - 1) / texts * texts);
    require<ConfigError>(
        samples / texts > 1 || texts > 2,
        "a global batch of {} texts is one pair: its query has nothing to be compared with but "
        "its positive; give a model.global_batch_size of {} or more",
        samples, 2 * texts);
  }
  data::LabelledDataset::Options options;
  options.sequence_length = plan.options.length;
  options.pad = pad_;
  options.seed = static_cast<std::uint32_t>(config.model.seed);
  options.together = texts;
  data::DatasetTriple out;
  out.sources = sources_;
  out.train = std::make_shared<data::LabelledDataset>(training_, rows, options);
  if (validation_.empty()) return out;
  options.shuffled = false;
  const std::int64_t granule = config.batch.micro_batch_size * plan.options.layout.data_ranks();
  out.validation = std::make_shared<data::LabelledDataset>(
      validation_, (rows_.held_back + granule - 1) / granule * granule, options);
  return out;
}

}  // namespace stoa::train

#include "train/training_data.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "data/chained_dataset.h"
#include "data/sampler.h"
#include "data/virtual_sources.h"
#include "train/labelled_data.h"
#include "train/tokenizer_choice.h"
#include "train/tuning_data.h"

namespace stoa::train {
namespace {

// The builder's list form: weight, prefix, weight, prefix … One prefix alone is no blend and takes no weight.
std::vector<std::string> list_form(const std::vector<data::WeightedPrefix>& blend) {
  if (blend.size() == 1) return {blend.front().prefix};
  std::vector<std::string> list;
  for (const auto& part : blend) {
    list.push_back(fmt::format("{}", part.weight));
    list.push_back(part.prefix);
  }
  return list;
}

// By id: continues the word of the token before.
std::vector<std::uint8_t> continuing_tokens(const token::Tokenizer& tokenizer) {
  std::vector<std::uint8_t> out;
  for (std::int64_t id = 0; id < tokenizer.vocab_size(); ++id)
    out.push_back(tokenizer.continues_word(static_cast<token::TokenId>(id)));
  return out;
}

data::BertOptions bert_options(const RunConfig& config, const TrainingPlan& plan,
                               const token::Tokenizer* tokenizer) {
  require<ConfigError>(tokenizer != nullptr,
                       "samples of kind bert need the tokenizer's [CLS], [SEP] and [MASK]: give "
                       "model.tokenizer");
  data::BertOptions out;
  out.sequence_length = plan.options.length;
  out.seed = static_cast<std::uint32_t>(config.model.seed);
  out.sentence_pairs = config.model.bert.binary_head;
  out.short_probability = config.data.short_seq_prob;
  out.masking.probability = config.data.masked_lm_prob;
  if (config.data.max_ngram_size) out.masking.longest = static_cast<int>(*config.data.max_ngram_size);
  out.tokens.cls = tokenizer->cls_id().value_or(-1);
  out.tokens.sep = tokenizer->sep_id().value_or(-1);
  out.tokens.mask = tokenizer->mask_id().value_or(-1);
  out.tokens.pad = tokenizer->pad_id().value_or(0);
  out.tokens.vocabulary = tokenizer->vocab_size();
  out.tokens.continues = continuing_tokens(*tokenizer);
  return out;
}

// What both kinds of spans need of the configuration and the tokenizer.
template <class Options>
Options pair_options(const RunConfig& config, const token::Tokenizer& tokenizer) {
  Options out;
  // Virtual tokens stand in front of every source.
  const std::int64_t count = config.model.peft.virtual_count();
  out.source_length = config.model.encoder_seq_length - count;
  require<ConfigError>(out.source_length > 1 || count == 0,
                       "sources of {} tokens (encoder_seq_length) have no room for texts behind {} virtual "
                       "tokens (p_tuning.virtual_tokens)",
                       config.model.encoder_seq_length, count);
  out.target_length = config.model.t5.seq_length_dec;
  out.seed = static_cast<std::uint32_t>(config.model.seed);
  out.sentinels = tokenizer.sentinel_ids();
  out.eos_id = tokenizer.eos_id().value_or(-1);
  out.start_id = tokenizer.pad_id().value_or(0);
  return out;
}

data::SpanOptions span_options(const RunConfig& config, const token::Tokenizer& tokenizer) {
  auto out = pair_options<data::SpanOptions>(config, tokenizer);
  out.density = config.data.masked_lm_prob;
  if (config.data.mean_ngram_size) out.mean_length = *config.data.mean_ngram_size;
  return out;
}

data::SentenceSpanOptions sentence_span_options(const RunConfig& config, const token::Tokenizer& tokenizer) {
  auto out = pair_options<data::SentenceSpanOptions>(config, tokenizer);
  out.short_probability = config.data.short_seq_prob;
  out.ngrams.probability = config.data.masked_lm_prob;
  if (config.data.mean_ngram_size) out.ngrams.mean = config.data.mean_ngram_size;
  if (config.data.max_ngram_size) out.ngrams.longest = static_cast<int>(*config.data.max_ngram_size);
  out.continues = continuing_tokens(tokenizer);
  return out;
}

// ConfigError: a key that other samples have.
void check_keys(const RunConfig& config) {
  const data::DataConfig& d = config.data;
  const model::Samples kind = model::traits(config.model).samples;
  const bool masked = kind == model::Samples::kMaskedText, pairs = kind == model::Samples::kPairs,
             sentences = d.dataset_type == data::DatasetType::kT5Sentences;
  require<ConfigError>(pairs || !sentences, "dataset_type t5_sentences is used only with kind t5");
  require<ConfigError>(pairs || !d.mean_ngram_size, "mean_ngram_size is used only with kind t5");
  require<ConfigError>(masked || sentences || !d.max_ngram_size,
                       "max_ngram_size is used only with kind bert or dataset_type t5_sentences");
}

// What is to be built of the training data.
struct TrainingPart {
  std::optional<std::int64_t> samples;  // none: one epoch
  std::size_t number = 0;               // among the parts of the run: the first has the run's own seed
};

void add_virtual_sources(const RunConfig& config, const TrainingPlan& plan, data::DatasetTriple& datasets) {
  const std::int64_t count = config.model.peft.virtual_count();
  const data::VirtualSources::Tokens tokens{count, static_cast<std::int32_t>(plan.options.model.vocabulary)};
  for (auto* pairs : {&datasets.train, &datasets.validation, &datasets.test})
    if (*pairs)
      *pairs = std::make_shared<data::VirtualSources>(std::move(*pairs),
                                                      config.model.encoder_seq_length - count, tokens);
}

// Data sets of the files of model.data.chat.
using BuildTuning = std::function<data::DatasetTriple(const RunConfig&, const TrainingPlan&,
                                                      std::optional<std::int64_t> rows)>;

// ConfigError when the configuration names no data. `tuned`: none without model.data.chat.
data::DatasetTriple build_training_data(const RunConfig& given, const TrainingPlan& plan,
                                        const token::Tokenizer* tokenizer, const data::Notice& notice,
                                        const std::stop_token& stop, TrainingPart part,
                                        const BuildTuning& tuned) {
  RunConfig config = given;
  config.model.seed += static_cast<std::int64_t>(part.number);
  const data::DataConfig& d = config.data;
  check_keys(config);
  if (tuned) return tuned(config, plan, part.samples);
  require<ConfigError>(!d.data_prefix.empty(),
                       "no training data: give model.data (a prefix made by 'stoa data prepare'; for a "
                       "labelled task, files of JSON lines)");
  const model::Samples kind = model::traits(config.model).samples;
  if (kind == model::Samples::kLabelled)
    return build_labelled_data(config, plan, tokenizer, part.samples, notice, stop);
  data::BuildOptions options;
  options.data_prefix = list_form(d.data_prefix.blend);
  options.splits_string = d.splits_string;
  options.split_prefix = {list_form(d.data_prefix.train), list_form(d.data_prefix.validation),
                          list_form(d.data_prefix.test)};
  const TrainerConfig& t = config.trainer;
  options.stop = stop;
  options.samples[0] = part.samples;
  // Validation always reads the same first samples, so it needs one validation's worth.
  options.samples[1] =
      t.val_check_interval > 0 && part.number == 0 ? t.limit_val_batches * plan.batch.largest() : 0;
  options.samples[2] = 0;
  if (d.index_mapping_dir) options.cache_folder = *d.index_mapping_dir;
  if (tokenizer) options.tokenizer_fingerprint = tokenizer->fingerprint();
  options.gpt.sequence_length = plan.options.length;
  options.gpt.seed = static_cast<std::uint32_t>(config.model.seed);
  options.gpt.eod_mask_loss = d.eod_mask_loss;
  options.gpt.reset_position_ids = d.reset_position_ids;
  options.gpt.reset_attention_mask = d.reset_attention_mask;
  options.gpt.eod_id = tokenizer ? tokenizer->eod_id().value_or(-1) : -1;
  options.gpt.vocabulary = plan.options.model.vocabulary;
  if (kind == model::Samples::kMaskedText) options.bert = bert_options(config, plan, tokenizer);
  if (kind == model::Samples::kPairs) {
    require<ConfigError>(tokenizer != nullptr,
                         "kind t5 needs a tokenizer with sentinels: give model.tokenizer");
    if (d.dataset_type == data::DatasetType::kT5Sentences)
      options.sentence_spans = sentence_span_options(config, *tokenizer);
    else
      options.spans = span_options(config, *tokenizer);
  }
  data::DatasetTriple out = data::build_datasets(options, notice);
  if (config.model.peft.has_virtual_tokens()) add_virtual_sources(config, plan, out);
  return out;
}

}  // namespace

PlannedData plan_with_data(const RunConfig& config, const token::Tokenizer* tokenizer,
                           const data::Notice& notice, const std::stop_token& stop,
                           const ckpt::TrainingState* done) {
  const std::int64_t vocabulary = tokenizer ? tokenizer->vocab_size() : 0;
  const DoneSteps before = done ? DoneSteps{done->step, done->samples} : DoneSteps{};
  std::int64_t epoch_samples = 0;
  std::optional<TuningData> chats;
  std::optional<ComparedData> compared;
  BuildTuning tuned;
  require<ConfigError>(
      config.chats.chat || !config.model.peft.has_virtual_tokens() ||
          model::traits(config.model).samples == model::Samples::kPairs ||
          model::traits(config.model).samples == model::Samples::kLabelled,
      "peft_scheme prompt, ptuning and prefix put virtual tokens in front of every text: give "
      "texts or chats one by one (model.data.chat=true), not as prepared data");
  require<ConfigError>(
      config.chats.chat || !config.model.task.regression() || config.model.kind == model::ModelKind::kBert,
      "model.labels names one class, which gives texts a score: train it on preference pairs or scored texts "
      "(model.data.chat=true model.objective.name=reward or regression), or give two classes or more");
  require<ConfigError>(
      config.model.task.embeds() == (config.chats.chat && config.objective.embeds()),
      "model.task embedding is trained by objective contrastive, on texts that belong together: give "
      "model.task=embedding model.objective.name=contrastive model.data.chat=true");
  if (config.objective.embeds()) {
    compared.emplace(config, tokenizer, notice, stop);
    tuned = std::bind_front(&ComparedData::build, &*compared);
  } else if (config.chats.chat) {
    chats.emplace(config, tokenizer, notice, stop);
    tuned = std::bind_front(&TuningData::build, &*chats);
  }
  if (config.trainer.max_epochs) {
    // An epoch is counted with a plan that no schedule finds too short.
    constexpr std::int64_t kManySteps = std::int64_t{1} << 31;
    const TrainingPlan many = plan_training(config, vocabulary, kManySteps);
    epoch_samples = build_training_data(config, many, tokenizer, notice, stop, {}, tuned).train->size();
  }
  TrainingPlan plan = plan_training(config, vocabulary, std::nullopt, epoch_samples, before);
  const std::int64_t needed = plan.batch.samples_after(plan.steps);
  std::vector<std::int64_t> parts{needed};
  // Labelled rows and chats have an order of every epoch, however many there will be.
  const bool endless = config.model.task.labelled() || tuned;
  if (done && !done->data_parts.empty() && !endless) parts = done->data_parts;
  data::DatasetTriple datasets;
  std::vector<std::shared_ptr<const data::Dataset>> chain;
  std::int64_t found = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    data::DatasetTriple part =
        build_training_data(config, plan, tokenizer, notice, stop, {parts[i], i}, tuned);
    if (part.train) {
      chain.push_back(part.train);
      found += part.train->size();
    }
    if (i == 0) datasets = std::move(part);
    if (i + 1 == parts.size() && found < needed) parts.push_back(needed - found);
  }
  if (chain.size() > 1) datasets.train = std::make_shared<data::ChainedDataset>(std::move(chain));
  return {std::move(plan), std::move(datasets), std::move(parts),
          chats ? chats->turn_ends() : std::set<token::TokenId>(),
          compared ? compared->rows() : ComparedRows{}};
}

std::shared_ptr<const RunInputs> read_inputs(const RunConfig& config, StartingPoint start,
                                             const data::Notice& notice, const std::stop_token& stop) {
  auto [tokenizer, added] = load_run_tokenizer(config);
  RunConfig with_rows = config;
  train_added_rows(with_rows.model.peft, added);
  PlannedData planned = plan_with_data(with_rows, tokenizer ? &*tokenizer : nullptr, notice, stop,
                                       start.resume ? &start.resume->manifest->training : nullptr);
  return std::make_shared<const RunInputs>(
      RunInputs{std::move(tokenizer), added, std::move(planned), std::move(start)});
}

std::map<std::string, std::string> data_settings(const RunConfig& config, const PlannedData& data) {
  std::map<std::string, std::string> settings{
      {"model.seed", std::to_string(config.model.seed)},
      {"model.global_batch_size", std::to_string(data.plan.batch.largest())},
      {"sequence length", std::to_string(data.plan.options.length)}};
  if (!data.datasets.sources.empty())
    settings["model.data"] = fmt::format("{}", fmt::join(data.datasets.sources, ", "));
  if (!config.data.data_prefix.blend.empty())
    settings["model.data.splits_string"] = config.data.splits_string;
  return settings;
}

std::vector<std::int64_t> rows_of_rank(const std::vector<std::int64_t>& global, std::int64_t micro_batch,
                                       int data_ranks, int data_rank) {
  std::vector<std::int64_t> rows;
  rows.reserve(global.size() / static_cast<std::size_t>(data_ranks));
  for (auto from = data_rank * micro_batch; from < static_cast<std::int64_t>(global.size());
       from += micro_batch * data_ranks)
    rows.insert(rows.end(), global.begin() + from, global.begin() + from + micro_batch);
  return rows;
}

std::vector<std::int64_t> samples_of_step(const TrainingPlan& plan, const data::Dataset& train,
                                          std::int64_t consumed) {
  const data::Sampler sampler(train.size(), data::SampleOrder::kSequential, 0);
  std::vector<std::int64_t> rows;
  sampler.global_batch(consumed, plan.batch.batch_at(consumed), rows);
  return rows;
}

}  // namespace stoa::train

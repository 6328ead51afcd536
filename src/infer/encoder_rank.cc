#include "infer/encoder_rank.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "model/huggingface/task_keys.h"

namespace stoa::infer {

EncoderRank::EncoderRank(Machine& machine, const EncoderOptions& options,
                         std::optional<std::size_t> scratch_bytes)
    : options_(options),
      chunk_(machine, options_.model, options_.precision, options_.pass_tokens, options_.longest) {
  const model::ModelConfig& config = options_.model.config;
  require<ConfigError>(options_.masks == 0 || config.bert.lm_head,
                       "the model has no head that predicts tokens (it is {}): it can only embed{}",
                       config.task.labelled() ? "of a labelled task" : "a bare encoder",
                       config.task.labelled() ? ", or answer ('stoa predict')" : "");
  require<ConfigError>(options_.answers == 0 || (config.task.labelled() && !config.task.embeds()),
                       "the model has no head of a labelled task (its architecture is neither "
                       "ForSequenceClassification nor ForTokenClassification nor ForQuestionAnswering): "
                       "train one with model.task");
  require<ConfigError>(options_.pairs == 0 || config.judges_sentences(),
                       "the model has no head that judges whether a sentence follows another "
                       "(model.bert.binary_head; BertForPreTraining)");
  const auto declare = [&](const char* name, DType type, Shape shape) {
    return chunk_.arena().declare(MemoryCategory::kBatch, {std::string("encoder.") + name, type, shape});
  };
  const std::int64_t n = options_.pass_tokens;
  tokens_ = declare("tokens", DType::kI32, {n});
  positions_ = declare("positions", DType::kI32, {n});
  types_ = declare("types", DType::kI32, {n});
  q_begin_ = declare("q_begin", DType::kI32, {n + 1});
  k_begin_ = declare("k_begin", DType::kI32, {n});
  k_count_ = declare("k_count", DType::kI32, {n});
  states_ = declare("states", options_.precision.residual, {n, config.hidden_size});
  if (options_.masks > 0)
    logits_ =
        declare("logits", options_.precision.vectors(), {options_.masks, options_.model.padded_vocabulary});
  if (options_.answers > 0)
    logits_ = declare("logits", options_.precision.vectors(), {options_.answers, config.task.classes()});
  if (options_.pairs > 0) follows_ = declare("follows", options_.precision.vectors(), {options_.pairs, 2});
  chunk_.commit(scratch_bytes);
}

void EncoderRank::dry_run() {
  const std::vector<std::int32_t> tokens(static_cast<std::size_t>(options_.pass_tokens), 0);
  std::vector<std::int64_t> lengths;
  for (std::int64_t left = options_.pass_tokens; left > 0; left -= lengths.back())
    lengths.push_back(std::min(left, options_.longest));
  std::vector<std::int32_t> rows(static_cast<std::size_t>(std::max(options_.masks, options_.answers)));
  std::iota(rows.begin(), rows.end(), 0);
  pass(tokens, {}, lengths, rows, options_.pairs > 0);
}

void EncoderRank::pass(std::span<const std::int32_t> tokens, std::span<const std::int32_t> types,
                       std::span<const std::int64_t> lengths, std::span<const std::int32_t> rows,
                       bool pairs) {
  std::vector<std::int32_t> positions, q_begin{0}, k_begin, k_count;
  for (const std::int64_t length : lengths) {
    require<InternalError>(length >= 1 && length <= options_.longest, "a text of {} tokens, declared for {}",
                           length, options_.longest);
    k_begin.push_back(q_begin.back());
    k_count.push_back(static_cast<std::int32_t>(length));
    q_begin.push_back(q_begin.back() + static_cast<std::int32_t>(length));
    for (std::int32_t i = 0; i < length; ++i) positions.push_back(i);
  }
  require<InternalError>(
      positions.size() == tokens.size() && static_cast<std::int64_t>(tokens.size()) <= options_.pass_tokens,
      "{} tokens in texts of {} in all, declared for {}", tokens.size(), positions.size(),
      options_.pass_tokens);
  const auto count = static_cast<std::int64_t>(tokens.size());
  nn::BatchView view;
  view.rows = static_cast<std::int64_t>(lengths.size());
  view.length = options_.longest;
  view.tokens = chunk_.put(tokens_, tokens);
  view.positions = chunk_.put(positions_, positions);
  const std::vector<std::int32_t> zeros(types.empty() ? tokens.size() : 0, 0);
  view.token_types = chunk_.put(types_, types.empty() ? std::span<const std::int32_t>(zeros) : types);
  view.segments.q_begin = chunk_.put(q_begin_, q_begin);
  view.segments.k_begin = chunk_.put(k_begin_, k_begin);
  view.segments.k_count = chunk_.put(k_count_, k_count);
  view.segments.count = view.rows;
  view.segments.longest_q = view.segments.longest_k = *std::max_element(lengths.begin(), lengths.end());
  chunk_.machine().stream->synchronize();  // the host's copies end here
  Scratch::Frame frame(chunk_.ops().scratch);
  nn::Pass pass = chunk_.pass(view);
  model::Chunk::Outputs outputs;
  outputs.stream = chunk_.arena().view(states_).slice(0, count);
  if (!rows.empty()) {
    outputs.rows = rows;
    outputs.logits = chunk_.arena().view(logits_).slice(0, static_cast<std::int64_t>(rows.size()));
  }
  if (pairs) {
    outputs.pairs =
        std::span(q_begin).first(std::min(lengths.size(), static_cast<std::size_t>(options_.pairs)));
    outputs.follows = chunk_.arena().view(follows_).slice(0, static_cast<std::int64_t>(outputs.pairs.size()));
  }
  chunk_.chunk().infer(pass, {}, outputs);
}

std::span<const float> EncoderRank::states(std::span<const std::int32_t> tokens,
                                           std::span<const std::int64_t> lengths) {
  pass(tokens, {}, lengths, {});
  return chunk_.read(chunk_.arena().view(states_).slice(0, static_cast<std::int64_t>(tokens.size())),
                     options_.model.config.hidden_size);
}

std::span<const float> EncoderRank::predict(std::span<const std::int32_t> tokens,
                                            std::span<const std::int64_t> lengths,
                                            std::span<const std::int32_t> rows) {
  require<InternalError>(static_cast<std::int64_t>(rows.size()) <= options_.masks,
                         "{} masks, declared for {}", rows.size(), options_.masks);
  pass(tokens, {}, lengths, rows);
  return chunk_.read(chunk_.arena().view(logits_).slice(0, static_cast<std::int64_t>(rows.size())),
                     options_.model.vocabulary);
}

std::span<const float> EncoderRank::answers(std::span<const std::int32_t> tokens,
                                            std::span<const std::int32_t> types,
                                            std::span<const std::int64_t> lengths,
                                            std::span<const std::int32_t> rows) {
  require<InternalError>(static_cast<std::int64_t>(rows.size()) <= options_.answers && !rows.empty(),
                         "{} tokens to answer for, declared for {}", rows.size(), options_.answers);
  pass(tokens, types, lengths, rows);
  return chunk_.read(chunk_.arena().view(logits_).slice(0, static_cast<std::int64_t>(rows.size())),
                     options_.model.config.task.classes());
}

std::span<const float> EncoderRank::follows(std::span<const std::int32_t> tokens,
                                            std::span<const std::int32_t> types,
                                            std::span<const std::int64_t> lengths) {
  require<InternalError>(static_cast<std::int64_t>(lengths.size()) <= options_.pairs,
                         "{} pairs, declared for {}", lengths.size(), options_.pairs);
  pass(tokens, types, lengths, {}, true);
  return chunk_.read(chunk_.arena().view(follows_).slice(0, static_cast<std::int64_t>(lengths.size())), 2);
}

EncoderOptions encoder_options(const OpenModel& model, const EncoderUse& use) {
  // The head of a decoder that classifies is used like an encoder's; its states are not: they see only
  // earlier tokens.
  const model::TaskConfig& task = model.model().config.task;
  const bool decoder = model.kind() == model::ModelKind::kGpt,
             states = use.states && decoder && (task.embeds() || !task.labelled());
  if (!(use.answers && task.labelled() && !task.embeds()) && !states)
    model.require_kind(model::ModelKind::kBert);
  require<ConfigError>(use.answers || model.model().config.peft.virtual_count() == 0,
                       "the adapter's virtual tokens were trained for a classification ('stoa predict'): use "
                       "the model without --adapter");
  EncoderOptions options;
  options.model = model.model();
  if (states) {  // without the head of a language model
    model::TaskConfig vectors;
    vectors.type = model::Task::kEmbedding;
    model::huggingface::set_task(options.model.config, vectors);
  }
  options.precision = model.precision();
  options.longest = options.model.config.max_positions();
  options.pass_tokens = std::max<std::int64_t>(options.longest, 4096);
  options.masks = use.masks;
  options.pairs = use.pairs;
  options.answers = use.answers ? options.pass_tokens : 0;
  return options;
}

std::unique_ptr<EncoderRank> load_encoder(OpenModel& model, const EncoderUse& use) {
  const EncoderOptions options = encoder_options(model, use);
  model.tokenizer();
  return model.load<EncoderRank>(options);
}

token::TokenId mask_id(OpenModel& model) {
  const auto mask = model.tokenizer().mask_id();
  require<ConfigError>(
      mask.has_value(),
      "{}: the tokenizer has no mask token; name one in its tokenizer_config.json (mask_token)",
      model.directory().string());
  return *mask;
}

}  // namespace stoa::infer

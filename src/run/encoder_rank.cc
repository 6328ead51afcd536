#include "run/encoder_rank.h"

#include <algorithm>

#include "run/constants.h"
#include "run/host_window.h"

namespace stoa::run {

EncoderRank::EncoderRank(Machine& machine, const EncoderOptions& options,
                         std::optional<std::size_t> scratch_bytes)
    : machine_(machine),
      options_(options),
      parallel_(parallel::ParallelContext::single(*machine.device)),
      arena_(*machine.device) {
  const model::ModelConfig& config = options_.model.config;
  require<ConfigError>(options_.masks == 0 || config.bert.lm_head,
                       "the model has no head that predicts tokens (it is a bare encoder): it can but embed");
  model::ChunkOptions chunk;
  chunk.layers = config.num_layers;
  chunk.precision = options_.precision;
  chunk.tokens = options_.pass_tokens;
  chunk.positions = options_.longest;
  chunk_ = std::make_unique<model::Chunk>(options_.model, chunk);
  parameters_ = std::make_unique<optim::ParameterStore>(arena_, chunk_->params().specs(), options_.precision);
  ChunkConstants constants(arena_, *chunk_);
  const auto declare = [&](const char* name, DType type, Shape shape) {
    return arena_.declare(MemoryCategory::kBatch, {std::string("encoder.") + name, type, shape});
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
  Arena::Id scratch_memory;
  if (scratch_bytes)
    scratch_memory = arena_.declare(
        MemoryCategory::kScratch, {"scratch", DType::kU8, Shape{static_cast<std::int64_t>(*scratch_bytes)}});
  arena_.commit();
  scratch_ =
      scratch_bytes ? std::make_unique<Scratch>(arena_.view(scratch_memory)) : std::make_unique<Scratch>();
  ops_ = std::make_unique<ops::OpContext>(ops::OpContext{*machine.backend, *machine.stream, *scratch_});
  constants.fill(machine_, arena_, *chunk_, options_.longest);
}

std::size_t EncoderRank::measure_scratch(Machine& meta, const EncoderOptions& options) {
  require<InternalError>(meta.device->kind() == DeviceKind::kMeta, "a dry run needs a meta machine");
  EncoderRank rank(meta, options, std::nullopt);
  const std::vector<std::int32_t> tokens(static_cast<std::size_t>(options.pass_tokens), 0);
  std::vector<std::int64_t> lengths;
  for (std::int64_t left = options.pass_tokens; left > 0; left -= lengths.back())
    lengths.push_back(std::min(left, options.longest));
  std::vector<std::int32_t> rows(static_cast<std::size_t>(options.masks));
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int32_t>(i);
  rank.pass(tokens, lengths, rows);
  return rank.scratch_->high_water();
}

void EncoderRank::pass(std::span<const std::int32_t> tokens, std::span<const std::int64_t> lengths,
                       std::span<const std::int32_t> rows) {
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
  const auto put = [&](Arena::Id id, std::span<const std::int32_t> values) {
    const TensorView to = arena_.view(id).slice(0, static_cast<std::int64_t>(values.size()));
    machine_.device->copy_from_host(to.data, values.data(), values.size_bytes(), *machine_.stream);
    return to;
  };
  const auto count = static_cast<std::int64_t>(tokens.size());
  nn::BatchView view;
  view.rows = static_cast<std::int64_t>(lengths.size());
  view.length = options_.longest;
  view.tokens = put(tokens_, tokens);
  view.positions = put(positions_, positions);
  view.token_types = put(types_, std::vector<std::int32_t>(tokens.size(), 0));
  view.segments.q_begin = put(q_begin_, q_begin);
  view.segments.k_begin = put(k_begin_, k_begin);
  view.segments.k_count = put(k_count_, k_count);
  view.segments.count = view.rows;
  view.segments.longest_q = view.segments.longest_k = *std::max_element(lengths.begin(), lengths.end());
  machine_.stream->synchronize();  // the host's copies end here
  Scratch::Frame frame(ops_->scratch);
  nn::Pass pass{*ops_, parallel_, *parameters_, nullptr, view, {}, 0, false, nullptr, {}};
  model::Chunk::Outputs outputs;
  outputs.stream = arena_.view(states_).slice(0, count);
  if (!rows.empty()) {
    outputs.rows = rows;
    outputs.logits = arena_.view(logits_).slice(0, static_cast<std::int64_t>(rows.size()));
  }
  chunk_->infer(pass, {}, outputs);
}

std::span<const float> EncoderRank::read(TensorView view, std::int64_t columns) {
  host_.clear();
  read_tensor(machine_, view, [&](TensorView host) {
    dispatch_float(host.dtype, [&]<class T>() {
      for (std::int64_t r = 0; r < host.rows(); ++r)
        for (std::int64_t i = 0; i < columns; ++i) host_.push_back(static_cast<float>(host.row<T>(r)[i]));
    });
  });
  return host_;
}

std::span<const float> EncoderRank::states(std::span<const std::int32_t> tokens,
                                           std::span<const std::int64_t> lengths) {
  pass(tokens, lengths, {});
  return read(arena_.view(states_).slice(0, static_cast<std::int64_t>(tokens.size())),
              options_.model.config.hidden_size);
}

std::span<const float> EncoderRank::predict(std::span<const std::int32_t> tokens,
                                            std::span<const std::int32_t> rows) {
  require<InternalError>(static_cast<std::int64_t>(rows.size()) <= options_.masks,
                         "{} masks, declared for {}", rows.size(), options_.masks);
  const auto length = static_cast<std::int64_t>(tokens.size());
  pass(tokens, std::span(&length, 1), rows);
  return read(arena_.view(logits_).slice(0, static_cast<std::int64_t>(rows.size())),
              options_.model.vocabulary);
}

}  // namespace stoa::run

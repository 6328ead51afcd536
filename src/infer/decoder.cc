#include "infer/decoder.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "infer/host_window.h"

namespace stoa::infer {

Decoder::Decoder(Arena& arena, const model::ModelSpec& model, nn::Precision precision, const Options& options)
    : arena_(&arena), options_(options), vocabulary_(model.vocabulary), tables_(model.config) {
  const auto declare = [&](const char* name, DType type, Shape shape) {
    return arena.declare(MemoryCategory::kBatch, {std::string("decoder.") + name, type, shape});
  };
  virtual_.resize(static_cast<std::size_t>(model.config.peft.virtual_count()));
  std::iota(virtual_.begin(), virtual_.end(), static_cast<std::int32_t>(model.vocabulary));
  const std::int64_t n = pass_rows();
  tokens_ = declare("tokens", DType::kI32, {n});
  positions_ = declare("positions", DType::kI32, {n});
  labels_ = declare("labels", DType::kI32, {n});
  mask_ = declare("loss_mask", DType::kF32, {n});
  q_begin_ = declare("q_begin", DType::kI32, {n + 1});
  k_begin_ = declare("k_begin", DType::kI32, {n});
  k_count_ = declare("k_count", DType::kI32, {n});
  losses_ = declare("losses", precision.vectors(), {n});
  if (options.context == 0) return;
  logits_ = declare("logits", precision.vectors(), {options.logit_rows, model.padded_vocabulary});
  const model::CacheSizes sizes = model::cache_sizes(model.config);
  const auto declare_cache = [&](const char* name, std::int64_t l) {
    return arena.declare(
        MemoryCategory::kKvCache,
        {fmt::format("{}.{}", name, l), precision.compute, {cache_rows(), sizes.heads, sizes.width}});
  };
  const model::StateSizes states = model::state_sizes(model.config);
  const auto declare_state = [&](const char* name, std::int64_t l, const Shape& shape) {
    return arena.declare(MemoryCategory::kKvCache,
                         {fmt::format("{}.{}", name, l), precision.vectors(), shape});
  };
  for (std::int64_t l = 0; l < model.config.num_layers; ++l) {
    linear_.push_back(model.config.linear.is_linear(l));
    if (linear_.back()) {
      const Arena::Id convolved = declare_state("convolved", l, states.convolved);
      cache_ids_.emplace_back(convolved, declare_state("state", l, states.state));
      continue;
    }
    const Arena::Id keys = declare_cache(sizes.shared ? "latents" : "keys", l);
    cache_ids_.emplace_back(keys, sizes.shared ? keys : declare_cache("values", l));
  }
}

std::int64_t Decoder::rewind(std::int64_t keep) {
  const bool states = std::find(linear_.begin(), linear_.end(), true) != linear_.end();
  if (states && keep < fed()) keep = 0;
  cached_ = keep > 0 ? std::min(cached_, keep + virtual_tokens()) : 0;
  return fed();
}

void Decoder::open_cache(const Parts& parts) {
  if (cache_.layers.empty())
    for (std::size_t l = 0; l < cache_ids_.size(); ++l) {
      const TensorView first = arena_->view(cache_ids_[l].first), second = arena_->view(cache_ids_[l].second);
      nn::KvLayer& layer = cache_.layers.emplace_back();
      (linear_[l] ? layer.convolved : layer.keys) = first;
      (linear_[l] ? layer.state : layer.values) = second;
    }
  if (cached_ > 0) return;
  for (const nn::KvLayer& layer : cache_.layers)
    for (const TensorView& state : {layer.convolved, layer.state})
      if (state) ops::run(parts.ops, ops::FillZero{state});
}

nn::BatchView Decoder::stage(const Parts& parts, std::span<const std::int32_t> tokens,
                             std::span<const std::int32_t> positions) {
  const auto n = static_cast<std::int64_t>(tokens.size());
  require<InternalError>(n >= 1 && n <= pass_rows(), "a pass of {} tokens, declared for {}", n, pass_rows());
  Device& device = *parts.machine.device;
  nn::BatchView view;
  view.rows = 1;
  view.length = n;
  view.tokens = arena_->view(tokens_).slice(0, n);
  view.positions = arena_->view(positions_).slice(0, n);
  device.copy_from_host(view.tokens.data, tokens.data(), tokens.size_bytes(), *parts.machine.stream);
  device.copy_from_host(view.positions.data, positions.data(), positions.size_bytes(), *parts.machine.stream);
  return view;
}

void Decoder::stage_segments(const Parts& parts, nn::BatchView& view, std::span<const std::int32_t> q_begin,
                             std::span<const std::int32_t> k_begin, std::span<const std::int32_t> k_count) {
  const auto copy = [&](Arena::Id id, std::span<const std::int32_t> values) {
    const TensorView to = arena_->view(id).slice(0, static_cast<std::int64_t>(values.size()));
    parts.machine.device->copy_from_host(to.data, values.data(), values.size_bytes(), *parts.machine.stream);
    return to;
  };
  auto& s = view.segments;
  s.q_begin = copy(q_begin_, q_begin);
  s.k_begin = copy(k_begin_, k_begin);
  s.k_count = copy(k_count_, k_count);
  s.count = static_cast<std::int64_t>(k_begin.size());
  s.longest_k = *std::max_element(k_count.begin(), k_count.end());
  s.longest_q = 0;
  for (std::size_t i = 0; i + 1 < q_begin.size(); ++i)
    s.longest_q = std::max<std::int64_t>(s.longest_q, q_begin[i + 1] - q_begin[i]);
}

std::span<const float> Decoder::feed(const Parts& parts, std::span<const std::int32_t> tokens) {
  feed_text(parts, tokens, pass_rows(), nullptr);
  return host_logits_;
}

void Decoder::feed_scored(const Parts& parts, std::span<const std::int32_t> tokens, const Scored& scored) {
  feed_text(parts, tokens, std::min(options_.logit_rows, options_.pass_tokens), &scored);
}

void Decoder::feed_text(const Parts& parts, std::span<const std::int32_t> tokens, std::int64_t pass_tokens,
                        const Scored* scored) {
  require<InternalError>(!cache_ids_.empty(), "a decoder without cache cannot take more tokens");
  require<DataError>(fed() + static_cast<std::int64_t>(tokens.size()) <= options_.context,
                     "{} tokens and {} more exceed the context of {}", fed(), tokens.size(),
                     options_.context);
  require<DataError>(!tokens.empty(), "an empty prompt: give at least one token");
  std::vector<std::int32_t> all;
  if (cached_ == 0 && !virtual_.empty()) {
    all = virtual_;
    all.insert(all.end(), tokens.begin(), tokens.end());
    tokens = all;
  }
  feed_passes(parts, tokens, pass_tokens, scored);
}

void Decoder::feed_passes(const Parts& parts, std::span<const std::int32_t> tokens, std::int64_t pass_tokens,
                          const Scored* scored) {
  open_cache(parts);
  const bool follows = tables_.any() && parts.constants != nullptr;
  const std::int64_t length = cached_ + static_cast<std::int64_t>(tokens.size());
  if (follows) {
    history_.resize(static_cast<std::size_t>(cached_));
    history_.insert(history_.end(), tokens.begin(), tokens.end());
    if (cached_ > 0 && tables_.remakes_keys(reached_, length)) {
      cached_ = 0;
      tokens = history_;
    }
    reached_ = cached_ == 0 ? length : std::max(reached_, length);
  }
  std::vector<std::int32_t> positions;
  while (!tokens.empty()) {
    const auto now = tokens.first(std::min(tokens.size(), static_cast<std::size_t>(pass_tokens)));
    tokens = tokens.subspan(now.size());
    const auto count = static_cast<std::int32_t>(now.size());
    const auto before = static_cast<std::int32_t>(cached_);
    positions.resize(now.size());
    std::iota(positions.begin(), positions.end(), before);
    nn::BatchView view = stage(parts, now, positions);
    stage_segments(parts, view, std::array{0, count}, std::array{0}, std::array{before + count});
    cache_.slots = positions;
    if (follows) tables_.write(parts.machine, *arena_, *parts.constants, before, count, length);
    Scratch::Frame frame(parts.ops.scratch);
    nn::Pass pass{.ops = parts.ops,
                  .parallel = parts.parallel,
                  .params = parts.parameters,
                  .batch = view,
                  .cache = &cache_};
    std::vector<std::int32_t> rows;  // whose logits are needed
    if (scored)
      for (std::int32_t row = 0; row < count; ++row) {
        if (now[static_cast<std::size_t>(row)] < vocabulary_) rows.push_back(row);
      }
    else if (tokens.empty())
      rows.push_back(count - 1);
    model::Chunk::Outputs outputs;
    if (!rows.empty()) {
      outputs.rows = rows;
      outputs.logits = arena_->view(logits_).slice(0, std::ssize(rows));
    }
    parts.chunk.infer(pass, {}, outputs);
    cached_ += count;
    if (rows.empty()) continue;
    host_logits_.resize(rows.size() * static_cast<std::size_t>(vocabulary_));
    read_floats(parts.machine, outputs.logits, vocabulary_, host_logits_);
    if (scored)
      for (std::size_t row = 0; row < rows.size(); ++row)
        (*scored)(
            std::span(host_logits_)
                .subspan(row * static_cast<std::size_t>(vocabulary_), static_cast<std::size_t>(vocabulary_)));
  }
}

void Decoder::losses(const Parts& parts, std::span<const std::int32_t> tokens,
                     std::span<const std::int32_t> labels, std::span<const std::int64_t> lengths,
                     std::span<float> losses) {
  if (virtual_.empty()) return losses_of_all(parts, tokens, labels, lengths, losses);
  std::vector<std::int32_t> all, all_labels;
  std::vector<std::int64_t> all_lengths;
  std::vector<float> found;
  for (std::size_t text = 0, done = 0, begin = 0; text < lengths.size(); done = begin) {
    all.clear(), all_labels.clear(), all_lengths.clear();
    // As many texts as fit into a pass with their virtual tokens; one always does.
    for (; text < lengths.size() && std::ssize(all) + virtual_tokens() + lengths[text] <= pass_rows();
         ++text) {
      const auto count = static_cast<std::size_t>(lengths[text]);
      if (count == 0) continue;
      all.insert(all.end(), virtual_.begin(), virtual_.end());
      all_labels.resize(all.size(), 0);
      const auto own = tokens.subspan(begin, count), own_labels = labels.subspan(begin, count);
      all.insert(all.end(), own.begin(), own.end());
      all_labels.insert(all_labels.end(), own_labels.begin(), own_labels.end());
      all_lengths.push_back(virtual_tokens() + lengths[text]);
      begin += count;
    }
    require<InternalError>(!all.empty() || text == lengths.size(), "a text of {} tokens, declared for {}",
                           lengths[std::min(text, lengths.size() - 1)], options_.longest_text());
    found.resize(all.size());
    losses_of_all(parts, all, all_labels, all_lengths, found);
    auto from = found.begin();
    for (const std::int64_t length : all_lengths) {
      std::copy(from + virtual_tokens(), from + length, losses.begin() + static_cast<std::ptrdiff_t>(done));
      done += static_cast<std::size_t>(length - virtual_tokens());
      from += length;
    }
  }
}

void Decoder::losses_of_all(const Parts& parts, std::span<const std::int32_t> tokens,
                            std::span<const std::int32_t> labels, std::span<const std::int64_t> lengths,
                            std::span<float> losses) {
  std::vector<std::int32_t> positions, q_begin{0}, k_begin, k_count;
  for (const std::int64_t length : lengths) {
    if (length == 0) continue;
    const std::int64_t longest_text = options_.longest_text() + virtual_tokens();
    require<InternalError>(length <= longest_text, "a text of {} tokens, declared for {}", length,
                           longest_text);
    k_begin.push_back(q_begin.back());
    k_count.push_back(static_cast<std::int32_t>(length));
    q_begin.push_back(q_begin.back() + static_cast<std::int32_t>(length));
    for (std::int32_t i = 0; i < length; ++i) positions.push_back(i);
  }
  require<InternalError>(
      positions.size() == tokens.size() && labels.size() == tokens.size() && losses.size() == tokens.size(),
      "lengths of texts do not add up to {} tokens", tokens.size());
  if (tokens.empty()) return;
  if (tables_.any() && parts.constants) {
    if (losses_by_length(parts, tokens, labels, lengths, losses)) return;
    const std::int64_t longest = *std::max_element(lengths.begin(), lengths.end());
    tables_.write(parts.machine, *arena_, *parts.constants, 0, longest, longest);
  }
  nn::BatchView view = stage(parts, tokens, positions);
  stage_segments(parts, view, q_begin, k_begin, k_count);
  const auto n = static_cast<std::int64_t>(tokens.size());
  view.labels = arena_->view(labels_).slice(0, n);
  view.loss_mask = arena_->view(mask_).slice(0, n);
  const std::vector<float> ones(tokens.size(), 1.0f);
  parts.machine.device->copy_from_host(view.labels.data, labels.data(), labels.size_bytes(),
                                       *parts.machine.stream);
  parts.machine.device->copy_from_host(view.loss_mask.data, ones.data(), ones.size() * sizeof(float),
                                       *parts.machine.stream);
  Scratch::Frame frame(parts.ops.scratch);
  nn::Pass pass{.ops = parts.ops, .parallel = parts.parallel, .params = parts.parameters, .batch = view};
  const TensorView out = arena_->view(losses_).slice(0, n);
  model::Chunk::Outputs outputs;
  outputs.losses = out;
  parts.chunk.infer(pass, {}, outputs);
  read_floats(parts.machine, out.reshape({1, n}), n, losses);
}

bool Decoder::losses_by_length(const Parts& parts, std::span<const std::int32_t> tokens,
                               std::span<const std::int32_t> labels, std::span<const std::int64_t> lengths,
                               std::span<float> losses) {
  const auto other = std::find_if(lengths.begin(), lengths.end(), [&](std::int64_t length) {
    return length > 0 && !tables_.same(length, lengths.front());
  });
  if (other == lengths.end()) return false;
  const auto first = static_cast<std::size_t>(other - lengths.begin());
  const auto cut = static_cast<std::size_t>(std::accumulate(lengths.begin(), other, std::int64_t{0}));
  losses_of_all(parts, tokens.first(cut), labels.first(cut), lengths.first(first), losses.first(cut));
  losses_of_all(parts, tokens.subspan(cut), labels.subspan(cut), lengths.subspan(first), losses.subspan(cut));
  return true;
}

void Decoder::dry_run(const Parts& parts) {
  const std::vector<std::int32_t> zeros(static_cast<std::size_t>(pass_rows()), 0);
  std::vector<float> out(zeros.size());
  std::vector<std::int64_t> lengths;
  for (std::int64_t left = pass_rows(); left > 0; left -= lengths.back())
    lengths.push_back(std::min(left, options_.longest_text() + virtual_tokens()));
  losses_of_all(parts, zeros, zeros, lengths, out);
  if (options_.context == 0) return;
  // Workspaces may depend on both counts, so the ends of both are walked: the longest pass at the end of the
  // context, and single tokens there.
  reached_ = cache_rows();  // nothing is recomputed: that takes passes like these
  cached_ = std::max<std::int64_t>(0, cache_rows() - pass_rows());
  feed_passes(parts, std::span(zeros).first(static_cast<std::size_t>(cache_rows() - cached_)), pass_rows(),
              nullptr);
  cached_ = cache_rows() - 1;
  feed_passes(parts, std::span(zeros).first(1), pass_rows(), nullptr);
  if (options_.logit_rows > 1) {
    const Scored nothing = [](auto) {};
    cached_ = std::max<std::int64_t>(0, cache_rows() - options_.logit_rows);
    feed_passes(parts, std::span(zeros).first(static_cast<std::size_t>(cache_rows() - cached_)),
                std::min(options_.logit_rows, options_.pass_tokens), &nothing);
  }
  rewind();
}

}  // namespace stoa::infer

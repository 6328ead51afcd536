#include "run/device_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace stoa::run {

DeviceBatch::DeviceBatch(Arena& arena, std::int64_t rows, std::int64_t length, bool packed,
                         const parallel::ContextPlace& context, const MaskedOptions& masked,
                         std::int64_t source, std::int64_t kept)
    : arena_(&arena),
      rows_(rows),
      length_(length),
      source_(source),
      context_(context),
      blocks_(parallel::context_blocks(context, length)),
      masked_(masked),
      top_(kept) {
  const std::int64_t all = rows * length;
  const auto declare = [&](const std::string& name, DType type, std::int64_t count) {
    return arena.declare(MemoryCategory::kBatch, {"batch." + name, type, Shape{count}});
  };
  if (context.split()) kept_ = parallel::local_tokens(context, rows, length);
  const std::int64_t tokens = rows * length / context.size;
  tokens_ = declare("tokens", DType::kI32, tokens);
  const std::int64_t predicted = masked.one_per_row ? rows : tokens;
  labels_ = declare("labels", DType::kI32, predicted);
  mask_ = declare("loss_mask", DType::kF32, predicted);
  positions_ = declare("positions", DType::kI32, tokens);
  if (kept > 0) {
    kept_ids_ = arena.declare(MemoryCategory::kBatch, {"batch.kept ids", DType::kI32, Shape{tokens, kept}});
    kept_log_probabilities_ = arena.declare(
        MemoryCategory::kBatch, {"batch.kept log-probabilities", DType::kF32, Shape{tokens, kept + 1}});
  }
  if (source > 0) {
    require<ConfigError>(!context.split(),
                         "context parallelism does not split pairs of source and target: give "
                         "context_parallel_size 1 with kind t5");
    const std::int64_t target = length - source;
    for (const auto& [begin, count] : {std::pair{std::int64_t{0}, source}, std::pair{source, target}})
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t i = 0; i < count; ++i)
          kept_.push_back(static_cast<std::int32_t>(r * length + begin + i));
    parts_ = std::make_unique<std::array<nn::BatchView, 2>>();
    const auto segments = [&](const char* name, std::int64_t capacity, std::int64_t queries,
                              std::int64_t keys) {
      parallel::ContextBlock block;
      block.q_count = queries, block.k_count = keys;
      segments_.emplace_back(arena, name, capacity, block);
    };
    segments("source segments", 2 * rows, source, source);  // text and padding
    segments("target segments", rows, target, target);
    segments("cross segments", rows, target, source);
    return;
  }
  // A masked batch may have a segment of filling tokens.
  const std::int64_t segments = masked.used ? rows + 1 : rows;
  for (std::size_t b = 0; b < blocks_.size(); ++b)
    segments_.emplace_back(arena, blocks_.size() == 1 ? "segments" : fmt::format("segments {}", b),
                           packed ? rows * blocks_[b].q_count : segments, blocks_[b]);
  if (masked.used) {
    types_ = declare("token_types", DType::kI32, all);
    rows_id_ = declare("masked.rows", DType::kI32, predicted + rows);
    places_ = declare("masked.places", DType::kI32, all);
    sentence_labels_ = declare("masked.sentence_labels", DType::kI32, rows);
    sentence_weights_ = declare("masked.sentence_weights", DType::kF32, rows);
    if (masked.vector > 0)
      vectors_ = arena.declare(MemoryCategory::kBatch,
                               {"batch.masked.vector_gradients", DType::kF32, Shape{rows, masked.vector}});
  }
  if (!context.split()) return;
  order_ = parallel::context_order(context, rows, length);
  if (order_.to_ranks.empty()) return;
  const auto count = static_cast<std::int64_t>(order_.to_ranks.size());
  to_attention_ = declare("to_attention", DType::kI32, count);
  to_ranks_ = declare("to_ranks", DType::kI32, count);
}

void DeviceBatch::bind() {
  if (bound_) return;
  bound_ = true;
  view_.rows = rows_;
  view_.length = length_;
  view_.tokens = arena_->view(tokens_);
  view_.labels = arena_->view(labels_);
  view_.loss_mask = arena_->view(mask_);
  view_.positions = arena_->view(positions_);
  view_.context = context_;
  if (top_ > 0) {
    view_.distillation.kept_ids = arena_->view(kept_ids_);
    view_.distillation.kept_log_probabilities = arena_->view(kept_log_probabilities_);
  }
  if (masked_.used) {
    view_.token_types = arena_->view(types_);
    view_.masked = {arena_->view(rows_id_),
                    arena_->view(places_),
                    view_.labels,
                    view_.loss_mask,
                    arena_->view(sentence_labels_),
                    arena_->view(sentence_weights_),
                    {},
                    vectors_ ? arena_->view(vectors_) : TensorView()};
  }
  if (source_ > 0) return bind_parts();
  if (segments_.size() > 1) view_.context_segments.resize(segments_.size());
  if (order_.to_ranks.empty()) return;
  view_.to_attention = arena_->view(to_attention_);
  view_.to_ranks = arena_->view(to_ranks_);
}

void DeviceBatch::bind_parts() {
  const std::int64_t first = rows_ * source_, rest = rows_ * (length_ - source_);
  const auto bind = [&](nn::BatchView& part, std::int64_t begin, std::int64_t count) {
    part.rows = rows_;
    part.length = count / rows_;
    part.tokens = view_.tokens.slice(begin, count);
    part.labels = view_.labels.slice(begin, count);
    part.loss_mask = view_.loss_mask.slice(begin, count);
    part.positions = view_.positions.slice(begin, count);
  };
  bind((*parts_)[0], 0, first);
  bind((*parts_)[1], first, rest);
  (*parts_)[0].source = (*parts_)[1].source = view_.source = &(*parts_)[0];
  view_.target = &(*parts_)[1];
}

const nn::BatchView& DeviceBatch::dry() {
  bind();
  if (masked_.used) {
    host_masked_.tokens.resize(static_cast<std::size_t>(view_.tokens.rows()));
    host_masked_.labels.resize(static_cast<std::size_t>(view_.labels.rows()));
    host_masked_.rows.resize(host_masked_.labels.size());
    std::iota(host_masked_.rows.begin(), host_masked_.rows.end(), 0);
    view_.masked.asked = asked();
  }
  if (source_ > 0) {
    (*parts_)[0].segments = segments_[0].dry();
    (*parts_)[1].segments = segments_[1].dry();
    (*parts_)[1].cross_segments = segments_[2].dry();
    return view_;
  }
  if (segments_.size() == 1) {
    view_.segments = segments_[0].dry();
  } else {
    for (std::size_t b = 0; b < segments_.size(); ++b) view_.context_segments[b] = segments_[b].dry();
  }
  return view_;
}

// A step may be recorded, so the host waits for no copy: what copy_from_host() was given is free when it
// returns.
const nn::BatchView& DeviceBatch::stage(const data::Batch& batch, std::int64_t first,
                                        std::int64_t first_sample, Stream& stream, double sentence_weight) {
  require<InternalError>(batch.sequence_length == length_ && first + rows_ <= batch.rows,
                         "rows [{}, {}) of length {} are staged from a batch of {} rows of length {}", first,
                         first + rows_, length_, batch.rows, batch.sequence_length);
  bind();
  view_.first_sample = first_sample;
  require<InternalError>(batch.masked == masked_.used, "a batch of another kind of model");
  if (masked_.used) return stage_masked(batch, first, stream, sentence_weight);
  const std::int64_t at = first * length_;
  const auto copy = [&](TensorView to, const auto* from, auto& kept) {
    if (!kept_.empty()) {
      kept.clear();
      for (const std::int32_t token : kept_) kept.push_back(from[token]);
      from = kept.data();
    }
    arena_->device().copy_from_host(to.data, from, to.bytes(), stream);
  };
  copy(view_.tokens, batch.tokens.data() + at, host_ints_);
  copy(view_.labels, batch.labels.data() + at, host_ints_);
  copy(view_.loss_mask, batch.loss_mask.data() + at, host_floats_);
  copy(view_.positions, batch.position_ids.data() + at, host_ints_);
  stage_segments(batch, first, first_sample, stream);
  if (top_ > 0) stage_kept(batch, first, stream);
  if (!order_.to_ranks.empty() && !ordered_) {
    const auto put = [&](TensorView to, const std::vector<std::int32_t>& from) {
      arena_->device().copy_from_host(to.data, from.data(), to.bytes(), stream);
    };
    put(view_.to_attention, order_.to_attention);
    put(view_.to_ranks, order_.to_ranks);
    ordered_ = true;
  }
  return view_;
}

void DeviceBatch::stage_kept(const data::Batch& batch, std::int64_t first, Stream& stream) {
  const auto put = [&](TensorView to, const auto& from, auto& local) {
    const auto width = static_cast<std::size_t>(to.shape[1]),
               at = static_cast<std::size_t>(first * length_) * width;
    require<InternalError>(from.size() == static_cast<std::size_t>(batch.rows * length_) * width,
                           "{} numbers kept of the teacher for {} rows of {} tokens, expected {} a token",
                           from.size(), batch.rows, length_, width);
    const auto* values = from.data() + at;
    if (!kept_.empty()) {
      local.clear();
      for (const std::int32_t token : kept_) {
        const auto* own = values + static_cast<std::size_t>(token) * width;
        local.insert(local.end(), own, own + width);
      }
      values = local.data();
    }
    arena_->device().copy_from_host(to.data, values, to.bytes(), stream);
  };
  put(view_.distillation.kept_ids, batch.kept_ids, host_ints_);
  put(view_.distillation.kept_log_probabilities, batch.kept_log_probabilities, host_floats_);
}

const nn::BatchView& DeviceBatch::stage_masked(const data::Batch& batch, std::int64_t first, Stream& stream,
                                               double sentence_weight) {
  HostMasked& h = host_masked_;
  h.row_begin.assign(1, 0);
  for (auto* values : {&h.tokens, &h.positions, &h.types, &h.rows, &h.places, &h.labels, &h.sentence_labels})
    values->clear();
  h.mask.clear();
  for (auto* values : {&host_.q_begin, &host_.k_begin, &host_.k_count, &host_.position}) values->clear();
  host_.sample.clear();
  host_.longest_q = 0;
  constexpr std::int32_t kNowhere = -1;
  for (std::int64_t r = 0; r < rows_; ++r) {
    const std::int32_t length = batch.boundaries(first + r).back();
    const auto at = static_cast<std::size_t>((first + r) * length_);
    host_.q_begin.push_back(h.row_begin.back());
    host_.k_begin.push_back(h.row_begin.back());
    host_.k_count.push_back(length);
    host_.position.push_back(0);
    host_.sample.push_back(view_.first_sample + r);
    host_.longest_q = std::max<std::int64_t>(host_.longest_q, length);
    for (std::size_t i = 0; i < static_cast<std::size_t>(length); ++i) {
      const bool predicted = batch.loss_mask[at + i] != 0;
      h.places.push_back(predicted ? static_cast<std::int32_t>(h.rows.size()) : kNowhere);
      if (predicted) {
        h.rows.push_back(static_cast<std::int32_t>(h.tokens.size()));
        h.labels.push_back(batch.labels[at + i]);
        h.mask.push_back(batch.loss_mask[at + i]);
      }
      h.tokens.push_back(batch.tokens[at + i]);
      h.positions.push_back(batch.position_ids[at + i]);
      h.types.push_back(batch.token_types[at + i]);
    }
    if (masked_.averaged)
      std::fill(h.places.begin() + h.row_begin.back(), h.places.end(), static_cast<std::int32_t>(r));
    h.row_begin.push_back(static_cast<std::int32_t>(h.tokens.size()));
  }
  if (h.labels.empty()) {  // operations have at least one row
    h.rows.push_back(0);
    h.labels.push_back(0);
    h.mask.push_back(0);
  }
  for (std::size_t r = 0; r < static_cast<std::size_t>(rows_); ++r) {
    if (masked_.sentences)
      h.places[static_cast<std::size_t>(h.row_begin[r])] = static_cast<std::int32_t>(h.rows.size());
    h.rows.push_back(h.row_begin[r]);
    h.sentence_labels.push_back(batch.sentence_labels[static_cast<std::size_t>(first) + r]);
  }
  for (std::int32_t& place : h.places)
    if (place == kNowhere) place = static_cast<std::int32_t>(h.rows.size());
  h.sentence_weights.assign(static_cast<std::size_t>(rows_), static_cast<float>(sentence_weight));
  // Tokens that fill up to a multiple: a segment of their own, without loss.
  const auto filling = static_cast<std::int32_t>(
      (masked_.multiple - static_cast<std::int64_t>(h.tokens.size()) % masked_.multiple) % masked_.multiple);
  if (filling > 0) {
    host_.q_begin.push_back(h.row_begin.back());
    host_.k_begin.push_back(h.row_begin.back());
    host_.k_count.push_back(filling);
    host_.position.push_back(0);
    host_.sample.push_back(view_.first_sample);
    for (auto* values : {&h.tokens, &h.positions, &h.types})
      values->resize(values->size() + static_cast<std::size_t>(filling), 0);
    h.places.resize(h.tokens.size(), static_cast<std::int32_t>(h.rows.size()));
    h.row_begin.back() += filling;
  }
  view_.filling = filling;
  host_.q_begin.push_back(h.row_begin.back());
  host_.longest_k = host_.longest_q;

  const auto put = [&](Arena::Id id, const auto& from) {
    const TensorView to = arena_->view(id).slice(0, static_cast<std::int64_t>(from.size()));
    arena_->device().copy_from_host(to.data, from.data(), to.bytes(), stream);
    return to;
  };
  view_.tokens = put(tokens_, h.tokens);
  view_.positions = put(positions_, h.positions);
  view_.token_types = put(types_, h.types);
  view_.row_begin = h.row_begin;
  view_.masked = {put(rows_id_, h.rows),
                  put(places_, h.places),
                  put(labels_, h.labels),
                  put(mask_, h.mask),
                  put(sentence_labels_, h.sentence_labels),
                  put(sentence_weights_, h.sentence_weights),
                  asked()};
  if (!batch.vector_gradients.empty()) {
    const TensorView to = arena_->view(vectors_);
    arena_->device().copy_from_host(to.data, batch.vector_gradients.data() + first * masked_.vector,
                                    to.bytes(), stream);
    view_.masked.vector_gradients = to;
  }
  view_.labels = view_.masked.labels;
  view_.loss_mask = view_.masked.mask;
  view_.segments = segments_[0].stage(host_, stream);
  return view_;
}

std::span<const std::int32_t> DeviceBatch::asked() {
  HostMasked& h = host_masked_;
  if (!masked_.all_asked) return std::span(h.rows).first(h.labels.size());
  h.all.resize(h.tokens.size() - static_cast<std::size_t>(view_.filling));
  std::iota(h.all.begin(), h.all.end(), 0);
  return h.all;
}

void DeviceBatch::stage_parts(const data::Batch& batch, std::int64_t first, std::int64_t first_sample,
                              Stream& stream) {
  std::array<parallel::ContextSegments, 3> parts;
  const std::int64_t target = length_ - source_;
  for (std::int64_t r = 0; r < rows_; ++r) {
    const auto boundaries = batch.boundaries(first + r);
    const std::int64_t text = boundaries[1], sample = first_sample + r;
    require<InternalError>(text <= source_, "a source of {} tokens in rows of {}", text, source_);
    infer::add_segment(parts[0], text, r * source_, text, sample, 0);
    if (text < source_)
      infer::add_segment(parts[0], source_ - text, r * source_ + text, source_ - text, sample, text);
    infer::add_segment(parts[1], target, r * target, target, sample, 0);
    infer::add_segment(parts[2], target, r * source_, text, sample, 0);
  }
  (*parts_)[0].first_sample = (*parts_)[1].first_sample = first_sample;
  (*parts_)[0].segments = segments_[0].stage(parts[0], stream);
  (*parts_)[1].segments = segments_[1].stage(parts[1], stream);
  (*parts_)[1].cross_segments = segments_[2].stage(parts[2], stream);
}

void DeviceBatch::stage_segments(const data::Batch& batch, std::int64_t first, std::int64_t first_sample,
                                 Stream& stream) {
  if (source_ > 0) return stage_parts(batch, first, first_sample, stream);
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    host_.fill(blocks_[b], rows_, first_sample, [&](std::int64_t row) {
      return std::span<const std::int32_t>(batch.boundaries(first + row));
    });
    const ops::AttentionSegments staged = segments_[b].stage(host_, stream);
    if (blocks_.size() == 1) {
      view_.segments = staged;
      return;
    }
    view_.context_segments[b] = staged;
  }
}

}  // namespace stoa::run

// A whole model with its memory, for tests: any backend, any type.
#pragma once

#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <vector>

#include "device/host/host_device.h"
#include "model/chunk.h"
#include "model/init.h"
#include "nn/packed_weight.h"
#include "nn/partial_gradients.h"
#include "ops/cpu/cpu_backend.h"
#include "ops/optimizer.h"
#include "ops/reference/reference_backend.h"
#include "ops/step_state.h"

namespace stoa::model::testing {

// Pseudo-random ids below `vocabulary`.
inline std::vector<std::int32_t> ids(std::int64_t count, std::int64_t vocabulary, std::uint64_t seed) {
  const PhiloxKey key = philox_key(seed, RandomPurpose::kTest, "ids");
  std::vector<std::int32_t> out;
  for (std::int64_t i = 0; i < count; ++i)
    out.push_back(static_cast<std::int32_t>(philox_word(key, static_cast<std::uint64_t>(i)) %
                                            static_cast<std::uint32_t>(vocabulary)));
  return out;
}

// Rows of tokens with labels; documents of a row attend to themselves alone.
struct Batch {
  std::int64_t rows = 1, length = 0, first_sample = 0;
  std::vector<std::int32_t> tokens, labels, positions, q_begin, k_begin, k_count, position;
  std::vector<float> mask;
  std::vector<std::int64_t> sample;
  std::int64_t longest = 0;
  double valid = -1;  // tokens of the global batch; -1: those of the mask

  // Of a masked language model.
  std::vector<std::int32_t> types, row_begin, masked_rows, places, masked_labels, sentence_labels;
  std::vector<float> masked_mask, sentence_weights;

  // Of a rank of a context-parallel group.
  parallel::ContextPlace context;
  parallel::ContextOrder order;
  std::vector<parallel::ContextSegments> parts;

  // Of an encoder-decoder: source tokens, attention of sources, of targets, of targets to sources.
  std::int64_t source = 0;
  std::array<parallel::ContextSegments, 3> part_segments;
  nn::BatchView source_view, target_view;

  // `documents`: lengths of the documents of every row (one document when empty).
  Batch(std::int64_t rows_, std::vector<std::int32_t> tokens_, std::vector<std::int32_t> labels_,
        const std::vector<std::int64_t>& documents = {})
      : rows(rows_),
        length(static_cast<std::int64_t>(tokens_.size()) / rows_),
        tokens(std::move(tokens_)),
        labels(std::move(labels_)),
        mask(tokens.size(), 1.0f) {
    const std::vector<std::int64_t> lengths =
        documents.empty() ? std::vector<std::int64_t>{length} : documents;
    std::int32_t at = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      std::int32_t inside = 0;
      for (const std::int64_t n : lengths) {
        q_begin.push_back(at);
        k_begin.push_back(at);
        k_count.push_back(static_cast<std::int32_t>(n));
        sample.push_back(first_sample + r);
        position.push_back(inside);
        for (std::int32_t i = 0; i < n; ++i) positions.push_back(i);
        at += static_cast<std::int32_t>(n);
        inside += static_cast<std::int32_t>(n);
        longest = std::max(longest, n);
      }
    }
    q_begin.push_back(at);
  }

  // Rows for a masked language model: of this many tokens each, padding removed; two of every five tokens are
  // to be predicted, never the first of a row.
  static Batch masked(const std::vector<std::int64_t>& lengths, std::int64_t length, std::int64_t vocabulary,
                      std::uint64_t seed);

  // Of an encoder-decoder: sources of `rows` rows, then targets. Labels are those of the targets.
  static Batch pairs(std::int64_t rows, std::vector<std::int32_t> sources,
                     const std::vector<std::int32_t>& targets,
                     const std::vector<std::int32_t>& target_labels) {
    const std::size_t n = sources.size();
    std::vector<std::int32_t> all = sources, labels(n, 0);
    all.insert(all.end(), targets.begin(), targets.end());
    labels.insert(labels.end(), target_labels.begin(), target_labels.end());
    Batch out(rows, all, labels);
    out.source = static_cast<std::int64_t>(n);
    std::fill_n(out.mask.begin(), n, 0.0f);
    out.positions.clear();
    for (const std::size_t part : {n, targets.size()})
      for (std::size_t i = 0; i < part; ++i)
        out.positions.push_back(static_cast<std::int32_t>(i % (part / static_cast<std::size_t>(rows))));
    const auto lengths = [&](std::size_t part) {
      return static_cast<std::int32_t>(part) / static_cast<std::int32_t>(rows);
    };
    const std::int32_t s = lengths(n), t = lengths(targets.size());
    out.part_segments[0] = segments(rows, s, s), out.part_segments[1] = segments(rows, t, t);
    out.part_segments[2] = segments(rows, t, s);
    return out;
  }
  static parallel::ContextSegments segments(std::int64_t rows, std::int32_t queries, std::int32_t keys) {
    parallel::ContextSegments out;
    out.q_begin.push_back(0);
    for (std::int64_t r = 0; r < rows; ++r) {
      out.q_begin.push_back(out.q_begin.back() + queries);
      out.k_begin.push_back(static_cast<std::int32_t>(r) * keys);
      out.k_count.push_back(keys);
      out.sample.push_back(r);
      out.position.push_back(0);
    }
    out.longest_q = queries, out.longest_k = keys;
    return out;
  }

  // Keeps the tokens of one rank.
  void cut(const parallel::ContextPlace& place) {
    valid = std::accumulate(mask.begin(), mask.end(), 0.0);
    context = place;
    order = parallel::context_order(place, rows, length);
    std::vector<std::int32_t> boundaries;  // the same in every row
    for (std::size_t i = 0; i < k_begin.size() && sample[i] == sample[0]; ++i)
      boundaries.push_back(position[i]);
    boundaries.push_back(static_cast<std::int32_t>(length));
    parts.clear();
    for (const auto& block : parallel::context_blocks(place, length))
      parts.emplace_back().fill(block, rows, first_sample,
                                [&](std::int64_t) { return std::span<const std::int32_t>(boundaries); });
    const auto kept = parallel::local_tokens(place, rows, length);
    const auto keep = [&](auto& values) {
      auto all = values;
      values.clear();
      for (const std::int32_t token : kept) values.push_back(all[static_cast<std::size_t>(token)]);
    };
    keep(tokens), keep(labels), keep(mask), keep(positions);
  }

  nn::BatchView view() {
    const auto of = [](auto& values) {
      using T = typename std::decay_t<decltype(values)>::value_type;
      return TensorView(values.data(), dtype_of<T>(), {static_cast<std::int64_t>(values.size())});
    };
    nn::BatchView out;
    out.rows = rows;
    out.length = length;
    out.first_sample = first_sample;
    out.tokens = of(tokens);
    out.labels = of(labels);
    out.loss_mask = of(mask);
    out.positions = of(positions);
    out.segments.q_begin = of(q_begin);
    out.segments.k_begin = of(k_begin);
    out.segments.k_count = of(k_count);
    out.segments.sample = of(sample);
    out.segments.position = of(position);
    out.segments.count = static_cast<std::int64_t>(k_begin.size());
    out.segments.longest_q = out.segments.longest_k = longest;
    if (!types.empty()) {
      out.token_types = of(types);
      out.row_begin = row_begin;
      out.masked = {of(masked_rows),
                    of(places),
                    of(masked_labels),
                    of(masked_mask),
                    of(sentence_labels),
                    of(sentence_weights),
                    std::span(masked_rows).first(masked_labels.size())};
    }
    const auto segments_of = [&](parallel::ContextSegments& p) {
      ops::AttentionSegments s;
      s.q_begin = of(p.q_begin), s.k_begin = of(p.k_begin), s.k_count = of(p.k_count);
      s.sample = of(p.sample), s.position = of(p.position);
      s.count = static_cast<std::int64_t>(p.k_begin.size());
      s.longest_q = p.longest_q, s.longest_k = p.longest_k;
      return s;
    };
    if (source > 0) {
      const auto part = [&](nn::BatchView& to, std::int64_t begin, std::int64_t count, std::size_t which) {
        to = {};
        to.rows = rows;
        to.length = count / rows;
        to.first_sample = first_sample;
        to.tokens = out.tokens.slice(begin, count);
        to.labels = out.labels.slice(begin, count);
        to.loss_mask = out.loss_mask.slice(begin, count);
        to.positions = out.positions.slice(begin, count);
        to.segments = segments_of(part_segments[which]);
      };
      part(source_view, 0, source, 0);
      part(target_view, source, out.tokens.rows() - source, 1);
      target_view.cross_segments = segments_of(part_segments[2]);
      source_view.source = target_view.source = &source_view;
      out.source = &source_view, out.target = &target_view;
    }
    if (!context.split()) return out;
    out.context = context;
    out.to_attention = of(order.to_attention);
    out.to_ranks = of(order.to_ranks);
    for (auto& p : parts)
      out.context_segments.push_back({of(p.q_begin), of(p.k_begin), of(p.k_count), of(p.sample),
                                      of(p.position), of(p.behind),
                                      static_cast<std::int64_t>(p.k_begin.size()), p.longest_q, p.longest_k});
    return out;
  }
};

inline Batch Batch::masked(const std::vector<std::int64_t>& lengths, std::int64_t length,
                           std::int64_t vocabulary, std::uint64_t seed) {
  const std::int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  Batch out(1, ids(tokens, vocabulary, seed), ids(tokens, vocabulary, seed + 1), lengths);
  out.rows = static_cast<std::int64_t>(lengths.size());
  out.length = length;
  out.row_begin = out.q_begin;
  out.types = ids(tokens, 2, seed + 2);
  out.places.assign(static_cast<std::size_t>(tokens), -1);
  std::fill(out.mask.begin(), out.mask.end(), 0.0f);
  for (std::size_t r = 0; r < lengths.size(); ++r) {
    out.sample[r] = out.first_sample + static_cast<std::int64_t>(r);
    out.position[r] = 0;
    for (std::int32_t t = out.row_begin[r] + 1; t < out.row_begin[r + 1]; ++t) {
      if ((t - out.row_begin[r]) % 5 > 1) continue;
      out.places[static_cast<std::size_t>(t)] = static_cast<std::int32_t>(out.masked_rows.size());
      out.masked_rows.push_back(t);
      out.masked_labels.push_back(out.labels[static_cast<std::size_t>(t)]);
      out.masked_mask.push_back(1);
      out.mask[static_cast<std::size_t>(t)] = 1;
    }
  }
  for (std::size_t r = 0; r < lengths.size(); ++r) {
    out.places[static_cast<std::size_t>(out.row_begin[r])] =
        static_cast<std::int32_t>(out.masked_rows.size());
    out.masked_rows.push_back(out.row_begin[r]);
    out.sentence_labels.push_back(static_cast<std::int32_t>((seed + r) % 2));
  }
  for (auto& place : out.places)
    if (place < 0) place = static_cast<std::int32_t>(out.masked_rows.size());
  out.sentence_weights.assign(
      lengths.size(), static_cast<float>(out.masked_labels.size()) / static_cast<float>(lengths.size()));
  return out;
}

// A backend and the workers that it runs on.
struct Machine {
  std::unique_ptr<WorkerPool> pool;
  std::unique_ptr<ops::Backend> backend;
};
inline Machine reference() { return {nullptr, std::make_unique<ops::ReferenceBackend>()}; }
inline Machine cpu(int workers = 2) {
  Machine out{std::make_unique<WorkerPool>(workers), nullptr};
  out.backend = std::make_unique<ops::cpu::CpuBackend>(*out.pool);
  return out;
}

class Model : public nn::ParamAccess, public nn::GradAccess {
 public:
  Model(const ModelSpec& spec, ChunkOptions options, Machine machine, std::int64_t sequence = 0)
      : spec_(spec),
        chunk(spec, options),
        machine_(std::move(machine)),
        parallel_(parallel::ParallelContext::single(device_)),
        stream_(device_.create_stream()),
        scratch_memory_(new_memory(DType::kU8, {std::int64_t{4} << 20})),
        scratch_(scratch_memory_) {
    const nn::Precision precision = options.precision;
    for (const auto& parameter : chunk.params().specs()) {
      const DType type = parameter.is_matrix() ? precision.compute : precision.vectors();
      values_.push_back(parameter.holds_bytes() ? new_memory(DType::kU8, {nn::memory_elements(parameter)})
                                              : new_memory(type, parameter.shard.local));
    }
    for (const nn::ParamId id : chunk.params().grads())
      gradients_.push_back(new_memory(
          precision.vectors(), chunk.params().specs()[static_cast<std::size_t>(id.index)].shard.local));
    written_.assign(gradients_.size(), 0);
    std::vector<TensorView> constants;
    for (const auto& constant : chunk.constants()) {
      constants.push_back(new_memory(constant.tensor.dtype, constant.tensor.shape));
      const auto bytes = constant.bytes(sequence);
      std::copy(bytes.begin(), bytes.end(), static_cast<std::byte*>(constants.back().data));
    }
    chunk.bind_constants(constants);
    slot_memory_ = new_memory(DType::kU8, {static_cast<std::int64_t>(chunk.saved_bytes())});
    if (options.split_backward)
      stash_memory_ = new_memory(DType::kU8, {static_cast<std::int64_t>(chunk.stash_bytes())});
    state_ = new_memory(DType::kF64, {static_cast<int>(ops::StepSlot::kCount)});
    slot(ops::StepSlot::kLossScale) = 1;
  }

  TensorView get(nn::ParamId id) override { return values_[static_cast<std::size_t>(id.index)]; }
  nn::GradTarget target(nn::GradId id) override {
    return {gradients_[static_cast<std::size_t>(id.index)],
            written_[static_cast<std::size_t>(id.index)] != 0};
  }
  void notify(nn::GradId id) override { written_[static_cast<std::size_t>(id.index)] = 1; }

  void initialize_all(std::uint64_t seed) {
    WorkerPool pool(1);
    for (std::size_t i = 0; i < values_.size(); ++i)
      initialize(chunk.params().specs()[i], seed, values_[i], pool);
  }

  double& slot(ops::StepSlot which) { return state_.as<double>()[static_cast<int>(which)]; }

  nn::Pass pass(const nn::BatchView& batch, bool training) {
    context_ =
        std::make_unique<ops::OpContext>(ops::OpContext{*machine_.backend, *stream_, scratch_, nullptr});
    return {.ops = *context_,
            .parallel = group ? *group : parallel_,
            .params = *this,
            .grads = this,
            .batch = batch,
            .state = state_,
            .seed = dropout_seed,
            .training = training};
  }

  // One step of several microbatches: gradients of the mean loss. Returns the loss.
  double step(std::vector<Batch>& batches, bool split = false) {
    std::fill(written_.begin(), written_.end(), 0);
    double tokens = 0;
    for (const auto& batch : batches)
      tokens += batch.valid >= 0 ? batch.valid : std::accumulate(batch.mask.begin(), batch.mask.end(), 0.0);
    for (auto& batch : batches) {
      const nn::BatchView view = batch.view();
      nn::Pass p = pass(view, true);
      if (&batch == batches.data()) ops::run(p.ops, ops::BeginStep{.state = state_, .tokens = tokens});
      auto place = chunk.make_slot(slot_memory_, stash_memory_);
      if (before_forward) before_forward(slot_memory_);
      chunk.forward(p, place, {}, {});
      if (before_backward) before_backward(slot_memory_);
      if (split) {
        chunk.backward(p, place, nn::Which::kInput, {}, {});
        chunk.backward(p, place, nn::Which::kWeight, {}, {});
      } else {
        chunk.backward(p, place, nn::Which::kBoth, {}, {});
      }
    }
    return slot(ops::StepSlot::kLossSum) / tokens;
  }
  double step(Batch& batch, bool split = false) {
    std::vector<Batch> batches{batch};
    return step(batches, split);
  }

  // All logits [T, vocabulary] and token losses; of an encoder-decoder the targets' logits.
  std::vector<double> logits(Batch& batch, std::vector<double>* losses = nullptr) {
    const nn::BatchView view = batch.view();
    nn::Pass p = pass(view, false);
    p.state = {};
    std::vector<std::int32_t> rows(batch.tokens.size() - static_cast<std::size_t>(batch.source));
    std::iota(rows.begin(), rows.end(), static_cast<std::int32_t>(batch.source));
    const std::int64_t tokens = static_cast<std::int64_t>(rows.size());
    const DType type = chunk.options().precision.vectors();
    const TensorView out = new_memory(type, {tokens, spec_.padded_vocabulary});
    const TensorView loss = new_memory(type, {tokens + batch.source});
    Chunk::Outputs outputs;
    outputs.losses = loss;
    outputs.rows = rows;
    outputs.logits = out;
    chunk.infer(p, {}, outputs);
    if (losses) *losses = doubles(loss);
    std::vector<double> result;
    const std::vector<double> all = doubles(out);
    for (std::int64_t t = 0; t < tokens; ++t)
      result.insert(result.end(), all.begin() + t * spec_.padded_vocabulary,
                    all.begin() + t * spec_.padded_vocabulary + spec_.vocabulary);
    return result;
  }

  // Canonical tensor or its gradient (both accumulators of a tied weight together).
  std::vector<double> canonical(const std::string& name, bool gradient = false) const {
    std::vector<double> out;
    const auto& specs = chunk.params().specs();
    for (std::size_t i = 0; i < specs.size(); ++i)
      for (const auto& piece : specs[i].shard.pieces) {
        if (piece.name != name) continue;
        if (!gradient) return doubles(values_[i].slice(piece.memory_row, piece.count));
        for (std::size_t g = 0; g < gradients_.size(); ++g) {
          if (chunk.params().grads()[g].index != static_cast<int>(i)) continue;
          const auto part = doubles(gradients_[g].slice(piece.memory_row, piece.count));
          out.resize(part.size(), 0.0);
          if (!written_[g]) continue;  // nothing used it: no gradient
          for (std::size_t e = 0; e < part.size(); ++e) out[e] += part[e];
        }
        return out;
      }
    fail<InternalError>("no tensor '{}'", name);
  }
  // Place of a canonical element in memory.
  TensorView canonical_view(const std::string& name) const {
    const auto& specs = chunk.params().specs();
    for (std::size_t i = 0; i < specs.size(); ++i)
      for (const auto& piece : specs[i].shard.pieces)
        if (piece.name == name) return values_[i].slice(piece.memory_row, piece.count);
    fail<InternalError>("no tensor '{}'", name);
  }

  static std::vector<double> doubles(TensorView view) {
    std::vector<double> out;
    dispatch_float(view.dtype, [&]<class T>() {
      for (std::int64_t r = 0; r < view.rows(); ++r)
        for (std::int64_t i = 0; i < view.shape.inner(); ++i) {
          if constexpr (std::is_same_v<T, double>)
            out.push_back(view.row<T>(r)[i]);
          else
            out.push_back(static_cast<double>(static_cast<float>(view.row<T>(r)[i])));
        }
    });
    return out;
  }
  static void set(TensorView view, std::int64_t index, double value) {
    dispatch_float(view.dtype, [&]<class T>() {
      if constexpr (std::is_same_v<T, double>)
        view.as<T>()[index] = value;
      else
        view.as<T>()[index] = T(static_cast<float>(value));
    });
  }

  // Gradients by parameter, whole where ranks of the group have parts: all accumulators of a tied weight
  // added into its first.
  std::vector<TensorView> whole_gradients() {
    std::vector<TensorView> out(values_.size());
    Batch none(1, {0}, {0});
    const nn::BatchView view = none.view();
    nn::Pass p = pass(view, true);
    for (std::size_t g = 0; g < gradients_.size(); ++g) {
      TensorView& first = out[static_cast<std::size_t>(chunk.params().grads()[g].index)];
      if (first)
        ops::run(p.ops, ops::AddTo{gradients_[g], first});
      else
        first = gradients_[g];
    }
    for (std::size_t i = 0; i < out.size(); ++i)
      nn::sum_partial_gradient(p.ops, p.parallel, chunk.params().specs()[i], out[i]);
    return out;
  }
  std::vector<std::vector<std::byte>> gradient_bytes() const {
    std::vector<std::vector<std::byte>> out;
    for (const auto& g : gradients_) {
      const auto* data = static_cast<const std::byte*>(g.data);
      out.emplace_back(data, data + g.bytes());
    }
    return out;
  }

  TensorView new_memory(DType type, Shape shape) {
    const std::size_t bytes = static_cast<std::size_t>(shape.elements()) * size_of(type);
    memory_.push_back(device_.allocate(std::max<std::size_t>(bytes, 1)));
    std::fill_n(static_cast<unsigned char*>(memory_.back().data()), bytes, static_cast<unsigned char>(0xff));
    return TensorView(memory_.back().data(), type, shape);
  }

 private:
  ModelSpec spec_;
  HostDevice device_;
  std::vector<Buffer> memory_;

 public:
  Chunk chunk;
  std::uint64_t dropout_seed = 77;
  const parallel::ParallelContext* group = nullptr;  // of ranks that run together; none: alone
  std::function<void(TensorView slot)> before_forward, before_backward;  // look at the slot, or spoil it

 private:
  Machine machine_;
  parallel::ParallelContext parallel_;
  std::unique_ptr<Stream> stream_;
  TensorView scratch_memory_;
  Scratch scratch_;
  std::unique_ptr<ops::OpContext> context_;
  std::vector<TensorView> values_, gradients_;
  std::vector<char> written_;
  TensorView slot_memory_, stash_memory_, state_;
};

inline double norm(const std::vector<double>& values) {
  double squares = 0;
  for (const double v : values) squares += v * v;
  return std::sqrt(squares);
}

inline nn::Precision fp64() { return {DType::kF64, DType::kF64}; }

}  // namespace stoa::model::testing

#include "infer/text_losses.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "infer/host_window.h"

namespace stoa::infer {

TextLosses::TextLosses(Arena& arena, const model::ModelSpec& model, nn::Precision precision,
                       const Options& options)
    : arena_(&arena), options_(options), tables_(model.config) {
  const auto declare = [&](const char* name, DType type, Shape shape) {
    return arena.declare(MemoryCategory::kBatch, {std::string("losses.") + name, type, shape});
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
}

nn::BatchView TextLosses::stage(const PassParts& parts, std::span<const std::int32_t> tokens,
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

void TextLosses::stage_segments(const PassParts& parts, nn::BatchView& view,
                                std::span<const std::int32_t> q_begin, std::span<const std::int32_t> k_begin,
                                std::span<const std::int32_t> k_count) {
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

void TextLosses::compute(const PassParts& parts, std::span<const std::int32_t> tokens,
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

void TextLosses::losses_of_all(const PassParts& parts, std::span<const std::int32_t> tokens,
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

bool TextLosses::losses_by_length(const PassParts& parts, std::span<const std::int32_t> tokens,
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

void TextLosses::dry_run(const PassParts& parts) {
  const std::vector<std::int32_t> zeros(static_cast<std::size_t>(pass_rows()), 0);
  std::vector<float> out(zeros.size());
  std::vector<std::int64_t> lengths;
  for (std::int64_t left = pass_rows(); left > 0; left -= lengths.back())
    lengths.push_back(std::min(left, options_.longest_text() + virtual_tokens()));
  losses_of_all(parts, zeros, zeros, lengths, out);
}

}  // namespace stoa::infer

#include "foreign/checkpoint/megatron_tensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "foreign/checkpoint/megatron_names.h"

namespace stoa::foreign {
namespace {

namespace hf = model::huggingface;
using Sizes = std::vector<std::int64_t>;

std::int64_t product(const Sizes& sizes, std::size_t first = 0) {
  std::int64_t n = 1;
  for (std::size_t d = first; d < sizes.size(); ++d) n *= sizes[d];
  return n;
}

std::string with_number(std::string name, std::int64_t number) {
  return name.replace(name.find("{}"), 2, std::to_string(number));
}

// The number in a name, which a file counts from 0, counted in the model.
std::string shifted(const std::string& name, std::string_view before, std::int64_t first) {
  if (first == 0) return name;
  const auto at = name.find(before);
  if (at == name.npos) return name;
  const auto begin = at + before.size(), end = std::min(name.find('.', begin), name.size());
  std::int64_t number = 0;
  const auto read = std::from_chars(name.data() + begin, name.data() + end, number);
  if (read.ec != std::errc() || read.ptr != name.data() + end) return name;
  return name.substr(0, begin) + std::to_string(number + first) + name.substr(end);
}

// Rows of a vocabulary, which files pad.
bool of_vocabulary(std::string_view name) {
  return name.starts_with("embedding.word_embeddings.") || name.starts_with("output_layer.") ||
         name == "lm_head.weight" || name == "lm_head.bias";
}

}  // namespace

void MegatronTensors::add(const ckpt::TensorSource& source, std::string_view prefix,
                          const MegatronPlace& place) {
  for (const ckpt::TensorEntry* entry : source.entries())
    if (entry->name.starts_with(prefix))
      add(source, *entry, std::string_view(entry->name).substr(prefix.size()), place, 0, entry->shape);
}

void MegatronTensors::add(const ckpt::TensorSource& source, const ckpt::TensorEntry& entry,
                          std::string_view name, const MegatronPlace& place, std::int64_t begin,
                          Sizes shape) {
  const auto read = megatron_name(name, kind_ == model::ModelKind::kGpt);
  if (!read) return;
  const std::size_t stacked = (read->layers ? 1u : 0u) + (read->experts ? 1u : 0u);
  require<DataError>(shape.size() >= stacked,
                     "'{}': tensor '{}' is {}, and its first {} dimensions are its layers",
                     source.directory().string(), entry.name, entry.shape_text(), stacked);
  const std::int64_t layers = read->layers ? shape[0] : 1, experts = read->experts ? shape[stacked - 1] : 1;
  const Sizes one(shape.begin() + static_cast<std::ptrdiff_t>(stacked), shape.end());
  const char* stack = kind_ == model::ModelKind::kBert ? "encoder.layers." : "decoder.layers.";
  for (std::int64_t layer = 0; layer < layers; ++layer)
    for (std::int64_t expert = 0; expert < experts; ++expert) {
      std::string full = read->layers ? with_number(read->name, layer) : read->name;
      if (read->experts) full = with_number(full, expert);
      full = shifted(shifted(full, stack, place.first_layer), ".experts.", place.first_expert);
      shares_[full].push_back({&source, &entry, begin + (layer * experts + expert) * product(one), one,
                               place.order, place.tensor_rank, static_cast<int>(read->half)});
    }
}

std::vector<ckpt::ViewedTensor> MegatronTensors::joined(const std::vector<hf::Tensor>& wanted, bool gated,
                                                        const std::string& what) const {
  std::set<std::string> used, problems;
  std::vector<ckpt::ViewedTensor> out;
  for (const hf::Tensor& tensor : wanted) {
    Sizes shape;
    for (int d = 0; d < tensor.shape.rank(); ++d) shape.push_back(tensor.shape[d]);
    const auto found = shares_.find(tensor.name);
    if (found == shares_.end()) {
      problems.insert(fmt::format("missing: {} [{}]", tensor.name, fmt::join(shape, ", ")));
      continue;
    }
    used.insert(tensor.name);
    // Of what several stages hold, one stage's.
    std::vector<Share> shares = found->second;
    const auto first = std::min_element(shares.begin(), shares.end(), [](const Share& a, const Share& b) {
                         return a.order < b.order;
                       })->order;
    std::erase_if(shares, [&](const Share& share) { return share.order != first; });
    std::stable_sort(shares.begin(), shares.end(), [](const Share& a, const Share& b) {
      return std::pair(a.half, a.tensor_rank) < std::pair(b.half, b.tensor_rank);
    });
    const bool halves = shares.front().half != 0;
    const auto misshapen = [&] {
      std::string shapes;
      for (const Share& share : shares)
        shapes += fmt::format("{}[{}]", shapes.empty() ? "" : ", ", fmt::join(share.shape, ", "));
      problems.insert(
          fmt::format("wrong shape: {} is {}, expected [{}]", tensor.name, shapes, fmt::join(shape, ", ")));
    };
    ckpt::ViewedTensor view;
    view.entry.name = tensor.name;
    view.entry.type = shares.front().entry->type;
    view.entry.shape = shape;
    const std::int64_t inner = shape.empty() ? 1 : product(shape, 1), height = shape.empty() ? 1 : shape[0];
    const auto part = [&](const Share& share, std::int64_t rows, std::int64_t count, std::int64_t from,
                          std::int64_t from_pitch, std::int64_t to, std::int64_t to_pitch) {
      view.parts.push_back(
          {share.source, share.entry, rows, count, share.begin + from, from_pitch, to, to_pitch});
    };
    std::int64_t rows_held = 0;
    bool same_width = true, alike = true, same_height = true;
    std::int64_t columns = 0;
    for (const Share& share : shares) {
      same_width = same_width && share.shape.size() == shape.size() && !shape.empty() &&
                   std::equal(share.shape.begin() + 1, share.shape.end(), shape.begin() + 1);
      same_height = same_height && share.shape.size() == 2 && shape.size() == 2 && share.shape[0] == shape[0];
      alike = alike && share.shape == shape;
      rows_held += share.shape.empty() ? 1 : share.shape[0];
      columns += share.shape.size() == 2 ? share.shape[1] : 0;
    }
    if (alike) {  // whole, and where several ranks hold it, the same on all of them
      part(shares.front(), 1, product(shape), 0, 0, 0, 0);
    } else if (same_width && (rows_held == height || (of_vocabulary(tensor.name) && rows_held > height))) {
      // Each rank's share of a gated projection: gates, then what they gate.
      const bool both = gated && !halves && tensor.name.find("linear_fc1.") != tensor.name.npos;
      std::int64_t row = 0;
      for (const Share& share : shares) {
        const std::int64_t rows = std::min(share.shape[0], height - row);
        if (rows <= 0) break;
        if (both && shares.size() > 1) {
          const std::int64_t half = rows / 2;
          part(share, 1, half * inner, 0, 0, row / 2 * inner, 0);
          part(share, 1, half * inner, half * inner, 0, (height / 2 + row / 2) * inner, 0);
        } else {
          part(share, 1, rows * inner, 0, 0, row * inner, 0);
        }
        row += rows;
      }
    } else if (same_height && columns == shape[1]) {
      std::int64_t column = 0;
      for (const Share& share : shares) {
        part(share, height, share.shape[1], 0, share.shape[1], column, shape[1]);
        column += share.shape[1];
      }
    } else {
      misshapen();
      continue;
    }
    out.push_back(std::move(view));
  }
  for (const auto& [name, shares] : shares_)
    if (!used.contains(name))
      problems.insert(fmt::format("unknown: {} {}", name, shares.front().entry->shape_text()));
  constexpr std::size_t kShown = 20;
  std::string text;
  std::size_t shown = 0;
  for (const auto& problem : problems)
    if (++shown <= kShown) text += "\n  " + problem;
  if (problems.size() > kShown) text += fmt::format("\n  and {} more", problems.size() - kShown);
  require<DataError>(problems.empty(), "the tensors of {} are not those of the model that it describes:{}",
                     what, text);
  return out;
}

}  // namespace stoa::foreign

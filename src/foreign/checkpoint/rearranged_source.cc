#include "foreign/checkpoint/rearranged_source.h"

#include <algorithm>
#include <unordered_map>

#include "ckpt/viewed_source.h"
#include "model/huggingface/tensor_map.h"

namespace stoa::foreign {
namespace {

namespace hf = model::huggingface;

// Rows [row, row + rows) of a canonical tensor: from element `begin` of a tensor in files on, `pitch`
// elements from row to row and `step` from column to column.
struct StoredRows {
  const ckpt::TensorEntry* entry = nullptr;
  std::int64_t row = 0, rows = 0, begin = 0, pitch = 0, step = 1;
};

// Columns of a row.
std::int64_t width_of(const hf::Tensor& tensor) {
  const int leading = tensor.experts > 1 ? 1 : 0;
  if (tensor.transposed) return tensor.shape[leading];
  std::int64_t width = 1;
  for (int d = leading + 1; d < tensor.shape.rank(); ++d) width *= tensor.shape[d];
  return width;
}

// Calls body(part, rows) for every run of rows of a tensor in files.
template <class Body>
void for_each_rows(const hf::Tensor& tensor, const ckpt::TensorEntry* entry, const Body& body) {
  const int leading = tensor.experts > 1 ? 1 : 0;
  const std::int64_t width = width_of(tensor),
                     height = tensor.shape[tensor.transposed ? leading + 1 : leading];
  const std::size_t parts = tensor.parts.size() / static_cast<std::size_t>(tensor.experts);
  for (std::int64_t expert = 0; expert < tensor.experts; ++expert)
    for (const hf::RowRun& run : tensor.runs)
      body(tensor.parts[static_cast<std::size_t>(expert) * parts + run.part],
           tensor.transposed ? StoredRows{entry, run.row, run.rows, expert * width * height + run.file_row,
                                          run.file_step, height}
                             : StoredRows{entry, run.row, run.rows, (expert * height + run.file_row) * width,
                                          run.file_step * width});
}

bool viewable(const std::vector<hf::Tensor>& tensors, bool transposed_too) {
  return std::none_of(tensors.begin(), tensors.end(), [&](const hf::Tensor& tensor) {
    return (tensor.transposed && !transposed_too) || tensor.zero_centered;
  });
}

}  // namespace

std::unique_ptr<ckpt::TensorSource> rearranged(std::shared_ptr<const ckpt::TensorSource> source,
                                               const model::ModelSpec& spec, const hf::Family& from,
                                               const hf::Family& to) {
  const auto stored = hf::tensors(spec, from), wanted = hf::tensors(spec, to);
  if (!viewable(stored, true) || !viewable(wanted, false)) return nullptr;
  std::unordered_map<std::string, std::vector<StoredRows>> rows_of;  // by canonical name
  for (const hf::Tensor& tensor : stored) {
    const ckpt::TensorEntry* entry = source->find_entry(tensor.name);
    if (!entry && !tensor.also.empty()) entry = source->find_entry(tensor.also);
    if (!entry) continue;
    for_each_rows(tensor, entry, [&](const model::CanonicalTensor& part, const StoredRows& rows) {
      rows_of[part.name].push_back(rows);
    });
  }
  std::vector<ckpt::ViewedTensor> out;
  for (const hf::Tensor& tensor : wanted) {
    ckpt::ViewedTensor view;
    view.entry.name = tensor.name;
    for (int d = 0; d < tensor.shape.rank(); ++d) view.entry.shape.push_back(tensor.shape[d]);
    const std::int64_t width = width_of(tensor);
    bool complete = true;
    for_each_rows(tensor, nullptr, [&](const model::CanonicalTensor& part, const StoredRows& here) {
      const auto found = rows_of.find(part.name);
      complete = complete && found != rows_of.end();
      if (!complete) return;
      for (const StoredRows& there : found->second) {
        const std::int64_t first = std::max(here.row, there.row),
                           last = std::min(here.row + here.rows, there.row + there.rows);
        if (first >= last) continue;
        view.entry.type = there.entry->type;
        const std::int64_t begin = there.begin + (first - there.row) * there.pitch,
                           at = here.begin + (first - here.row) * here.pitch;
        if (there.step != 1)
          for (std::int64_t row = 0; row < last - first; ++row)
            view.parts.push_back({source.get(), there.entry, width, 1, begin + row * there.pitch, there.step,
                                  at + row * here.pitch, 1});
        else if (here.pitch == width && there.pitch == width)
          view.parts.push_back({source.get(), there.entry, 1, (last - first) * width, begin, 0, at, 0});
        else
          view.parts.push_back(
              {source.get(), there.entry, last - first, width, begin, there.pitch, at, here.pitch});
      }
    });
    if (complete) out.push_back(std::move(view));
  }
  return std::make_unique<ckpt::ViewedSource>(source->directory(), std::move(out),
                                              std::vector<std::shared_ptr<const ckpt::TensorSource>>{source});
}

std::unique_ptr<ckpt::TensorSource> united(std::shared_ptr<const ckpt::TensorSource> first,
                                           std::shared_ptr<const ckpt::TensorSource> rest) {
  std::vector<ckpt::ViewedTensor> out;
  for (const auto& source : {first, rest})
    for (const ckpt::TensorEntry* entry : source->entries())
      if (source == first || !first->find_entry(entry->name))
        out.push_back({*entry, {{source.get(), entry, 1, entry->elements(), 0, 0, 0, 0}}});
  return std::make_unique<ckpt::ViewedSource>(
      first->directory(), std::move(out),
      std::vector<std::shared_ptr<const ckpt::TensorSource>>{first, rest});
}

}  // namespace stoa::foreign

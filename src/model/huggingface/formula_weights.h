// Weights by an integer formula, the same in Python: reference vectors need no weight files. For tests.
#pragma once

#include <algorithm>

#include "model/huggingface/tensor_map.h"
#include "model/test_model.h"

namespace stoa::model::huggingface::testing {

using model::testing::Model;

// t: ordinal of the tensor in bytewise order of the file's names; i: flat index. In [-.5, .5).
inline double formula(std::uint32_t t, std::uint32_t i) {
  std::uint32_t h = i * 0x9E3779B1u + (t + 1) * 0x85EBCA77u;
  h ^= h >> 15;
  h *= 0x2C1B3C6Du;
  h ^= h >> 12;
  h *= 0x297A2D39u;
  h ^= h >> 15;
  return (static_cast<double>(h >> 8) - 8388608.0) / 16777216.0;
}

inline std::vector<Tensor> sorted_tensors(const ModelSpec& spec, const Family& family) {
  auto all = tensors(spec, family);
  std::sort(all.begin(), all.end(), [](const Tensor& a, const Tensor& b) { return a.name < b.name; });
  return all;
}

// The file's tensor of doubles that `source` (canonical name -> values) makes.
template <class Source>
std::vector<double> file_tensor(const Tensor& tensor, Source source) {
  std::vector<std::vector<double>> parts;
  for (const auto& part : tensor.parts) parts.push_back(source(part.name));
  std::vector<double> file(static_cast<std::size_t>(tensor.shape.elements()));
  std::size_t next = 0;
  gather(
      tensor, DType::kF64,
      [&](const CanonicalTensor&) { return reinterpret_cast<const std::byte*>(parts[next++].data()); },
      reinterpret_cast<std::byte*>(file.data()));
  return file;
}

// Norm weights are 1 + v/2, or v/2 where files hold them minus 1; all else v.
inline void load_formula(Model& model, const ModelSpec& spec, const Family& family) {
  const auto all = sorted_tensors(spec, family);
  for (std::size_t t = 0; t < all.size(); ++t) {
    std::vector<double> file(static_cast<std::size_t>(all[t].shape.elements()));
    const bool norm = all[t].shape.rank() == 1 && all[t].name.ends_with("weight");
    for (std::size_t i = 0; i < file.size(); ++i) {
      const double v = formula(static_cast<std::uint32_t>(t), static_cast<std::uint32_t>(i));
      file[i] = norm ? (all[t].zero_centered ? v / 2 : 1 + v / 2) : v;
    }
    std::vector<std::vector<double>> parts;
    parts.reserve(all[t].parts.size());
    scatter(all[t], DType::kF64, reinterpret_cast<const std::byte*>(file.data()),
            [&](const CanonicalTensor& part) {
              parts.emplace_back(static_cast<std::size_t>(part.shape.elements()));
              return reinterpret_cast<std::byte*>(parts.back().data());
            });
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const TensorView view = model.canonical_view(all[t].parts[p].name);
      for (std::size_t i = 0; i < parts[p].size(); ++i)
        Model::set(view, static_cast<std::int64_t>(i), parts[p][i]);
    }
  }
}

}  // namespace stoa::model::huggingface::testing

#include "eval/compare_tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "ckpt/convert.h"
#include "ckpt/tensor_directory.h"
#include "eval/compare_metrics.h"

namespace stoa::eval {
namespace {

using ckpt::StoredTensor;

// Elements as fp64, a piece at a time: every type that Stoa stores fits in it exactly.
class Elements {
 public:
  static constexpr std::int64_t kPiece = 1 << 16;

  Elements(const StoredTensor& tensor) : tensor_(tensor), type_(tensor.dtype()), buffer_(kPiece) {}
  const std::vector<double>& piece(std::int64_t begin, std::int64_t count) {
    const std::byte* from = tensor_.bytes.data() + static_cast<std::size_t>(begin) * size_of(type_);
    ckpt::convert_elements(from, type_, reinterpret_cast<std::byte*>(buffer_.data()), DType::kF64, count);
    return buffer_;
  }

 private:
  const StoredTensor& tensor_;
  const DType type_;
  std::vector<double> buffer_;
};

template <class Each>
void for_each_piece(std::int64_t elements, Each&& each) {
  for (std::int64_t begin = 0; begin < elements; begin += Elements::kPiece)
    each(begin, std::min(Elements::kPiece, elements - begin));
}

// "adam.m/" of "adam.m/layers.0…"; "" of a model's tensor.
std::string_view kind_of(std::string_view name) {
  return name.substr(0, name.find('/') == name.npos ? 0 : name.find('/') + 1);
}

// The root mean square of all finite floating-point elements of the tensors of a kind.
double root_mean_square(const ckpt::TensorDirectory& tensors, std::string_view kind) {
  double sum = 0, elements = 0;
  for (const StoredTensor* tensor : tensors.tensors()) {
    if (kind_of(tensor->entry.name) != kind || !is_float(tensor->dtype())) continue;
    Elements values(*tensor);
    for_each_piece(tensor->entry.elements(), [&](std::int64_t begin, std::int64_t count) {
      const auto& x = values.piece(begin, count);
      for (std::int64_t i = 0; i < count; ++i)
        if (std::isfinite(x[i])) sum += x[i] * x[i];
      elements += static_cast<double>(count);
    });
  }
  return elements > 0 ? std::sqrt(sum / elements) : 0;
}

std::vector<std::int64_t> index_of(std::int64_t element, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> index(shape.size());
  for (std::size_t d = shape.size(); d-- > 0;) {
    index[d] = element % shape[d];
    element /= shape[d];
  }
  return index;
}

TensorDifference compare_elements(const StoredTensor& a, const StoredTensor& b, double scale,
                                  double tolerance) {
  TensorDifference d;
  d.elements = a.entry.elements();
  Elements left(a), right(b);
  double worst = -1;
  std::int64_t at = 0;
  for_each_piece(d.elements, [&](std::int64_t begin, std::int64_t count) {
    const auto& x = left.piece(begin, count);
    const auto& y = right.piece(begin, count);
    for (std::int64_t i = 0; i < count; ++i) {
      const double relative =
          relative_difference(x[i], y[i], std::max({std::fabs(x[i]), std::fabs(y[i]), scale}));
      if (relative > tolerance) ++d.different;
      if (relative <= worst) continue;
      worst = d.relative = relative;
      at = begin + i;
      d.a = x[i];
      d.b = y[i];
    }
  });
  d.index = index_of(at, a.entry.shape);
  return d;
}

std::string described(const StoredTensor& tensor) {
  return std::string(ckpt::name_of(tensor.entry.type)) + " " + tensor.entry.shape_text();
}

}  // namespace

bool compare_tensors(const ckpt::TensorDirectory& a, const ckpt::TensorDirectory& b, std::string_view prefix,
                     double tolerance, Comparison& out) {
  const std::size_t before = out.different.size();
  std::map<std::string_view, double> scales;
  const auto scale_of = [&](std::string_view name) {
    const auto [place, fresh] = scales.try_emplace(kind_of(name), 0.0);
    if (fresh) place->second = root_mean_square(a, place->first);
    return place->second;
  };
  const auto problem = [&](const StoredTensor& tensor, std::string text) {
    TensorDifference d;
    d.name = std::string(prefix) + tensor.entry.name;
    d.elements = d.different = tensor.entry.elements();
    d.relative = std::numeric_limits<double>::infinity();
    d.problem = std::move(text);
    out.different.push_back(std::move(d));
  };
  for (const StoredTensor* x : a.tensors()) {
    const StoredTensor* y = b.find(x->entry.name);
    if (!y) {
      problem(*x, "only in A");
      continue;
    }
    ++out.tensors;
    if (x->entry.type != y->entry.type || x->entry.shape != y->entry.shape) {
      problem(*x, described(*x) + " and " + described(*y));
      continue;
    }
    if (x->bytes.size() == y->bytes.size() &&
        std::memcmp(x->bytes.data(), y->bytes.data(), x->bytes.size()) == 0) {
      ++out.equal_tensors;
      continue;
    }
    if (!is_float(x->dtype())) {
      problem(*x, "different bytes");
      continue;
    }
    TensorDifference d = compare_elements(*x, *y, scale_of(x->entry.name), tolerance);
    d.name = std::string(prefix) + x->entry.name;
    if (d.different > 0) out.different.push_back(std::move(d));
  }
  for (const StoredTensor* y : b.tensors())
    if (!a.find(y->entry.name)) problem(*y, "only in B");
  return out.different.size() == before;
}

}  // namespace stoa::eval

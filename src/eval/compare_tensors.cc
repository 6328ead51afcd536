#include "eval/compare_tensors.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "ckpt/convert.h"
#include "ckpt/tensor_source.h"
#include "eval/compare_metrics.h"

namespace stoa::eval {
namespace {

using ckpt::TensorEntry;
using ckpt::TensorSource;

// Elements as fp64, a piece at a time: every type that Stoa stores fits in it exactly.
class Elements {
 public:
  static constexpr std::int64_t kPiece = 1 << 16;

  Elements(const TensorSource& source, const TensorEntry& tensor)
      : source_(source), tensor_(tensor), type_(tensor.dtype()), buffer_(kPiece) {}
  const std::vector<double>& piece(std::int64_t begin, std::int64_t count) {
    const auto from = source_.elements(tensor_, begin, begin + count, scratch_);
    ckpt::convert_elements(from.data(), type_, reinterpret_cast<std::byte*>(buffer_.data()), DType::kF64,
                           count);
    return buffer_;
  }

 private:
  const TensorSource& source_;
  const TensorEntry& tensor_;
  const DType type_;
  std::vector<std::byte> scratch_;
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
double root_mean_square(const TensorSource& tensors, std::string_view kind) {
  double sum = 0, elements = 0;
  for (const TensorEntry* tensor : tensors.entries()) {
    if (kind_of(tensor->name) != kind || !is_float(tensor->dtype())) continue;
    Elements values(tensors, *tensor);
    for_each_piece(tensor->elements(), [&](std::int64_t begin, std::int64_t count) {
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

TensorDifference compare_elements(Elements left, Elements right, const TensorEntry& tensor, double scale,
                                  double tolerance) {
  TensorDifference d;
  d.elements = tensor.elements();
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
  d.index = index_of(at, tensor.shape);
  return d;
}

std::string described(const TensorEntry& tensor) {
  return std::string(ckpt::name_of(tensor.type)) + " " + tensor.shape_text();
}

}  // namespace

bool compare_tensors(const TensorSource& a, const TensorSource& b, std::string_view prefix, double tolerance,
                     Comparison& out) {
  const std::size_t before = out.different.size();
  std::map<std::string_view, double> scales;
  const auto scale_of = [&](std::string_view name) {
    const auto [place, fresh] = scales.try_emplace(kind_of(name), 0.0);
    if (fresh) place->second = root_mean_square(a, place->first);
    return place->second;
  };
  const auto problem = [&](const TensorEntry& tensor, std::string text) {
    TensorDifference d;
    d.name = std::string(prefix) + tensor.name;
    d.elements = d.different = tensor.elements();
    d.relative = std::numeric_limits<double>::infinity();
    d.problem = std::move(text);
    out.different.push_back(std::move(d));
  };
  for (const TensorEntry* x : a.entries()) {
    const TensorEntry* y = b.find_entry(x->name);
    if (!y) {
      problem(*x, "only in A");
      continue;
    }
    ++out.tensors;
    if (x->type != y->type || x->shape != y->shape) {
      problem(*x, described(*x) + " and " + described(*y));
      continue;
    }
    if (ckpt::same_elements(a, *x, b, *y)) {
      ++out.equal_tensors;
      continue;
    }
    if (!is_float(x->dtype())) {
      problem(*x, "different bytes");
      continue;
    }
    TensorDifference d = compare_elements({a, *x}, {b, *y}, *x, scale_of(x->name), tolerance);
    d.name = std::string(prefix) + x->name;
    if (d.different > 0) out.different.push_back(std::move(d));
  }
  for (const TensorEntry* y : b.entries())
    if (!a.find_entry(y->name)) problem(*y, "only in B");
  return out.different.size() == before;
}

}  // namespace stoa::eval

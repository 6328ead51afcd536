#include "ops/quantised_linear.h"

#include <algorithm>
#include <cmath>

#include "ops/moe.h"
#include "ops/quantised_codes.h"
#include "ops/reference/reference_backend.h"
#include "ops/reference/values.h"

namespace stoa::ops {
namespace {

// A row as its codes and scales stand for it.
void round_to_codes(double* x, std::int64_t count) {
  for (std::int64_t begin = 0; begin < count; begin += kScaledColumns) {
    double* const block = x + begin;
    const std::int64_t columns = std::min<std::int64_t>(kScaledColumns, count - begin);
    float largest = 0;
    for (std::int64_t i = 0; i < columns; ++i) {
      const float magnitude = std::abs(static_cast<float>(block[i]));
      largest = std::isnan(magnitude) ? magnitude : std::max(largest, magnitude);
    }
    const float scale = largest / (kCoarseCode * kFineCodes),
                inverse = largest <= kLeastRounded ? 0 : kCoarseCode / largest;
    for (std::int64_t i = 0; i < columns; ++i) {
      const float exact = static_cast<float>(block[i]) * inverse, coarse = std::nearbyint(exact),
                  fine = std::nearbyint((exact - coarse) * kFineCodes);
      block[i] = static_cast<double>(scale) * static_cast<double>(kFineCodes * coarse + fine);
    }
  }
}

}  // namespace

void ReferenceBackend::execute(const QuantisedLinear& op, Resources) {
  const std::int64_t tokens = op.x.shape[0], inputs = op.shape.columns, outputs = op.shape.rows();
  Values x = load(op.x);
  const Values bias = load(op.bias);
  for (std::int64_t t = 0; t < tokens; ++t) round_to_codes(x.data() + t * inputs, inputs);
  Values y(static_cast<std::size_t>(tokens * outputs));
  std::vector<float> row(static_cast<std::size_t>(inputs));
  for (std::int64_t n = 0; n < outputs; ++n) {
    quant::unpack_row(op.shape, static_cast<const std::byte*>(op.w.data), n, row.data());
    for (std::int64_t t = 0; t < tokens; ++t) {
      double sum = 0;
      for (std::int64_t k = 0; k < inputs; ++k)
        sum += x[static_cast<std::size_t>(t * inputs + k)] *
               static_cast<double>(row[static_cast<std::size_t>(k)]);
      y[static_cast<std::size_t>(t * outputs + n)] =
          bias.empty() ? sum : sum + bias[static_cast<std::size_t>(n)];
    }
  }
  store(y, op.y);
}

void ReferenceBackend::execute(const GroupedQuantisedLinear& op, Resources resources) {
  for_each_expert(op.sorted_experts, [&](std::int64_t expert, std::int64_t begin, std::int64_t end) {
    execute(op.of_expert(expert, begin, end), resources);
  });
}

void ReferenceBackend::execute(const QuantisedRows& op, Resources) {
  const std::int64_t columns = op.shape.columns, rows = op.shape.rows();
  Values y(static_cast<std::size_t>(op.y.elements()));
  std::vector<float> row(static_cast<std::size_t>(columns));
  for (std::int64_t t = 0; t < op.y.rows(); ++t) {
    const std::int64_t token = op.tokens.as<std::int32_t>()[t];
    if (token < 0 || token >= rows) continue;
    quant::unpack_row(op.shape, static_cast<const std::byte*>(op.w.data), token, row.data());
    std::copy(row.begin(), row.end(), y.begin() + t * columns);
  }
  store(y, op.y);
}

}  // namespace stoa::ops

#include "ops/cuda/quantised_linear.h"

#include "ops/cuda/cuda_backend.h"
#include "ops/cuda/kernels/quantised_linear.h"
#include "ops/cuda/operands.h"
#include "ops/cuda/workspace_parts.h"

namespace stoa::ops::cuda {
namespace {

// Where a row of all parts begins in memory.
const std::uint8_t* groups_of(const TensorView& w, const quant::MatrixShape& shape, int part) {
  const auto* at = static_cast<const std::uint8_t*>(w.data);
  for (int p = 0; p < part; ++p) at += shape.parts[static_cast<std::size_t>(p)].bytes(shape.columns);
  return at;
}

void expect_groups(const char* op, const TensorView& w) {
  require<InternalError>(is_aligned(w.data), "{}: a quantised matrix at an odd address", op);
}

struct CodeBytes {
  std::size_t codes, scales, sums, half_sums;
};
CodeBytes code_bytes_of(const QuantisedLinear& op) {
  const std::int64_t tokens = op.x.shape[0], units = op.shape.columns / quant::kUnitColumns,
                     padded = padded_tokens(tokens);
  const auto bytes = [](std::int64_t count) { return aligned(static_cast<std::size_t>(count)); };
  return {bytes(tokens * op.shape.columns * 2),
          bytes(ceil_div(units, std::int64_t{kScaledUnits}) * padded * 4), bytes(units * padded * 4),
          bytes(units * padded * 8)};
}

}  // namespace

std::size_t CudaBackend::workspace_bytes(const QuantisedLinear& op) const {
  const CodeBytes bytes = code_bytes_of(op);
  return bytes.codes + bytes.scales + bytes.sums + bytes.half_sums + kWorkspaceAlignment;
}

void CudaBackend::execute(const QuantisedLinear& op, Resources resources) {
  run_quantised_linear(op, has_many(op.x.shape[0], op.shape.rows()), resources);
}

void run_quantised_linear(const QuantisedLinear& op, bool many, Resources resources) {
  if (op.x.shape[0] == 0 || op.shape.columns == 0) return;
  require<InternalError>(!many || op.x.shape[0] > kPassTokens, "{} tokens as many", op.x.shape[0]);
  void* const stream = native_stream(resources.stream);
  expect_groups(QuantisedLinear::kName, op.w);
  const CodeBytes bytes = code_bytes_of(op);
  WorkspaceParts parts(resources.workspace);
  EncodeArgs encode;
  encode.x = op.x.data, encode.type = fast_element_of(QuantisedLinear::kName, op.x),
  encode.stride = op.x.stride0;
  encode.to.tokens = op.x.shape[0], encode.to.padded = padded_tokens(op.x.shape[0]);
  encode.to.many = many;
  encode.to.units = op.shape.columns / quant::kUnitColumns;
  encode.to.codes = parts.take(bytes.codes);
  encode.to.scales = static_cast<float*>(parts.take(bytes.scales));
  encode.to.sums = static_cast<std::int32_t*>(parts.take(bytes.sums));
  encode.to.half_sums = static_cast<std::int32_t*>(parts.take(bytes.half_sums));
  launch_encode_tokens(encode, stream);

  QuantisedProductArgs args;
  args.x = encode.to;
  args.segment = ceil_div(ceil_div(args.x.units, std::int64_t{kSegmentUnits}), std::int64_t{kMostSegments});
  args.bias = op.bias ? op.bias.as<float>() : nullptr;
  args.y = op.y.data, args.y_stride = op.y.stride0, args.y_type = element_of(op.y.dtype);
  // All parts of one type at once.
  std::array<bool, quant::MatrixShape::kMostParts> done = {};
  for (int first = 0; first < op.shape.count; ++first) {
    if (done[static_cast<std::size_t>(first)]) continue;
    const quant::BlockType type = op.shape.parts[static_cast<std::size_t>(first)].type;
    args.format = weight_format(type), args.parts = 0;
    std::int64_t row = 0;
    for (int p = 0; p < op.shape.count; ++p) {
      const quant::MatrixPart& part = op.shape.parts[static_cast<std::size_t>(p)];
      if (part.type == type && part.rows > 0)
        args.part[args.parts++] = {groups_of(op.w, op.shape, p), part.rows, row};
      if (part.type == type) args.group_bytes = part.layout().group_bytes(op.shape.columns);
      if (part.type == type) done[static_cast<std::size_t>(p)] = true;
      row += part.rows;
    }
    launch_quantised_product(args, stream);
  }
}

void CudaBackend::execute(const QuantisedRows& op, Resources resources) {
  expect_groups(QuantisedRows::kName, op.w);
  QuantisedRowsArgs args;
  args.tokens = op.tokens.as<std::int32_t>(), args.count = op.tokens.shape[0];
  args.units = op.shape.columns / quant::kUnitColumns;
  args.all_rows = op.shape.rows();
  args.y = op.y.data, args.y_stride = op.y.stride0;
  args.y_type = fast_element_of(QuantisedRows::kName, op.y);
  for (int p = 0; p < op.shape.count; ++p) {
    const quant::MatrixPart& part = op.shape.parts[static_cast<std::size_t>(p)];
    args.format = weight_format(part.type), args.groups = groups_of(op.w, op.shape, p);
    args.group_bytes = part.layout().group_bytes(op.shape.columns);
    args.rows = part.rows;
    launch_quantised_rows(args, native_stream(resources.stream));
    args.first += part.rows;
  }
}

}  // namespace stoa::ops::cuda

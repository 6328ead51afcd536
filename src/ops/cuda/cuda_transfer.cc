#include "ops/cuda/cuda_transfer.h"

#include <algorithm>

#include "base/error.h"
#include "device/native_stream.h"
#include "ops/cuda/kernels/transfer.h"

namespace stoa::ops::cuda {
namespace {

ReducedType reduced_type_of(DType type) {
  switch (type) {
    case DType::kF64:
      return ReducedType::kF64;
    case DType::kF32:
      return ReducedType::kF32;
    case DType::kBF16:
      return ReducedType::kBF16;
    case DType::kF16:
      return ReducedType::kF16;
    case DType::kI64:
      return ReducedType::kI64;
    case DType::kI32:
      return ReducedType::kI32;
    case DType::kU8:
      return ReducedType::kU8;
    default:
      break;  // 8-bit floats are not communicated
  }
  fail<InternalError>("no sums of {}", name_of(type));
}

}  // namespace

void CudaTransfer::copy(void* to, const void* from, std::size_t bytes, Stream& stream) {
  launch_copy_bytes(to, from, static_cast<std::int64_t>(bytes), native_stream(stream));
}

void CudaTransfer::reduce(DType type, bool maximum, std::span<const void* const> inputs,
                          std::span<void* const> outputs, std::int64_t count, Stream& stream) {
  require<DeviceError>(inputs.size() <= kMostReduced && outputs.size() <= kMostReduced,
                       "{} ranks share a GPU and sum a tensor: at most {} can", inputs.size(), kMostReduced);
  RankOrderReduceArgs args;
  args.type = reduced_type_of(type);
  args.maximum = maximum;
  args.count = count;
  args.inputs = static_cast<int>(inputs.size()), args.outputs = static_cast<int>(outputs.size());
  std::copy(inputs.begin(), inputs.end(), args.input);
  std::copy(outputs.begin(), outputs.end(), args.output);
  launch_rank_order_reduce(args, native_stream(stream));
}

}  // namespace stoa::ops::cuda

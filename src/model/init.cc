#include "model/init.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/philox.h"
#include "nn/packed_weight.h"

namespace stoa::model {
namespace {

template <class T>
T from_double(double value) {
  if constexpr (std::is_same_v<T, double>)
    return value;
  else
    return T(static_cast<float>(value));
}

// Element `index` for kinds of initialisation other than normal.
double drawn(const nn::ParamInit& init, PhiloxKey key, std::int64_t index) {
  const double share =
      (static_cast<double>(philox_word(key, static_cast<std::uint64_t>(index))) + 0.5) / 4294967296.0;
  if (init.kind == nn::InitKind::kUniform) return init.deviation * (2 * share - 1);
  if (init.kind == nn::InitKind::kDecayRate) return std::log(16 * share);
  const double least = std::log(0.001), most = std::log(0.1), step = std::exp(least + share * (most - least));
  return step + std::log(-std::expm1(-step));
}

void initialize_packed(const nn::ParamSpec& spec, std::uint64_t seed, TensorView memory, WorkerPool& pool) {
  const auto whole = [&](std::size_t p) {
    const ShardPiece& piece = spec.shard.pieces[p];
    nn::ParamSpec matrix;
    matrix.name = piece.name;
    matrix.shard = ShardSpec::whole(piece.name, piece.global);
    matrix.init = spec.init;
    matrix.scales = {spec.scale(p)};
    std::vector<float> numbers(static_cast<std::size_t>(piece.global.elements()));
    initialize(matrix, seed, TensorView(numbers.data(), DType::kF32, piece.global), pool);
    return numbers;
  };
  nn::pack_weight(spec, whole, static_cast<std::byte*>(memory.data));
}

}  // namespace

void initialize(const nn::ParamSpec& spec, std::uint64_t seed, TensorView values, WorkerPool& pool,
                const std::optional<FlatRange>& flat) {
  if (spec.is_packed()) return initialize_packed(spec, seed, values, pool);
  const FlatRange range = flat.value_or(FlatRange{0, spec.shard.local.elements()});
  require<InternalError>(
      (flat ? values.elements() == range.end - range.begin : values.shape == spec.shard.local) &&
          values.contiguous() && values.device == DeviceKind::kHost,
      "'{}' is {}, expected {} in host memory", spec.name, values.text(), spec.shard.local.text());
  if (values.bytes() > 0) std::memset(values.data, 0, values.bytes());
  dispatch_float(values.dtype, [&]<class T>() {
    for (std::size_t p = 0; p < spec.shard.pieces.size(); ++p) {
      const ShardPiece& piece = spec.shard.pieces[p];
      const double factor = spec.scale(p).multiplier * spec.scale(p).init;
      const PhiloxKey key = philox_key(seed, RandomPurpose::kInit, piece.name);
      const std::int64_t columns = piece.global.rank() >= 2 ? piece.global.inner() : 1;  // canonical
      const std::int64_t width = std::max<std::int64_t>(1, piece.column_count);
      const std::int64_t rows_per_task = std::max<std::int64_t>(1, 65536 / width);
      const std::int64_t tasks = (piece.count + rows_per_task - 1) / rows_per_task;
      pool.run(tasks, [&](std::int64_t task, int) {
        const std::int64_t last = std::min(piece.count, (task + 1) * rows_per_task);
        for (std::int64_t row = task * rows_per_task; row < last; ++row) {
          // The elements of this row within the range.
          const std::int64_t local = (piece.memory_row + row) * spec.shard.local.inner();
          const std::int64_t from = std::clamp(range.begin, local, local + width),
                             held = std::clamp(range.end, from, local + width) - from;
          T* out = values.as<T>() + (from - range.begin);
          const std::int64_t index = (piece.begin + row) * columns + piece.column_begin + (from - local);
          if (spec.init.kind == nn::InitKind::kZeros) continue;
          if (spec.init.kind == nn::InitKind::kOnes) {
            std::fill_n(out, held, from_double<T>(factor));
            continue;
          }
          if (spec.init.kind != nn::InitKind::kNormal) {
            for (std::int64_t i = 0; i < held; ++i)
              out[i] = from_double<T>(factor * drawn(spec.init, key, index + i));
            continue;
          }
          std::array<double, 1024> normal;
          for (std::int64_t begin = 0; begin < held; begin += 1024) {
            const std::int64_t count = std::min<std::int64_t>(1024, held - begin);
            philox_normals(key, static_cast<std::uint64_t>(index + begin), count, normal.data());
            for (std::int64_t i = 0; i < count; ++i)
              out[begin + i] =
                  from_double<T>(factor * spec.init.deviation * normal[static_cast<std::size_t>(i)]);
          }
        }
      });
    }
  });
}

}  // namespace stoa::model

#include "model/init.h"

#include <algorithm>
#include <cstring>

#include "base/philox.h"

namespace stoa::model {
namespace {

template <class T>
T from_double(double value) {
  if constexpr (std::is_same_v<T, double>) return value;
  else return T(static_cast<float>(value));
}

}  // namespace

void initialize(const nn::ParamSpec& spec, std::uint64_t seed, TensorView values, WorkerPool& pool) {
  require<InternalError>(values.shape == spec.shard.local && values.contiguous() && values.device == DeviceKind::kHost,
                         "'{}' is {}, expected {} in host memory", spec.name, values.text(), spec.shard.local.text());
  require<InternalError>(!spec.shard.flat, "'{}' is initialised whole, not as a flat range", spec.name);
  if (values.bytes() > 0) std::memset(values.data, 0, values.bytes());
  dispatch_float(values.dtype, [&]<class T>() {
    for (const auto& piece : spec.shard.pieces) {
      const PhiloxKey key = philox_key(seed, RandomPurpose::kInit, piece.name);
      const std::int64_t columns = piece.global.rank() >= 2 ? piece.global.inner() : 1;  // canonical
      const std::int64_t held = std::max<std::int64_t>(1, piece.column_count);
      const std::int64_t rows_per_task = std::max<std::int64_t>(1, 65536 / held);
      const std::int64_t tasks = (piece.count + rows_per_task - 1) / rows_per_task;
      pool.run(tasks, [&](std::int64_t task, int) {
        const std::int64_t last = std::min(piece.count, (task + 1) * rows_per_task);
        for (std::int64_t row = task * rows_per_task; row < last; ++row) {
          T* out = values.as<T>() + (piece.memory_row + row) * values.shape.inner();
          const std::int64_t index = (piece.begin + row) * columns + piece.column_begin;
          for (std::int64_t i = 0; i < held; ++i) {
            double value = 0;
            if (spec.init.kind == nn::InitKind::kOnes) value = 1;
            else if (spec.init.kind == nn::InitKind::kNormal)
              value = spec.init.deviation * philox_normal(key, static_cast<std::uint64_t>(index + i));
            out[i] = from_double<T>(value);
          }
        }
      });
    }
  });
}

}  // namespace stoa::model

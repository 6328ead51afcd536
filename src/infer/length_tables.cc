#include "infer/length_tables.h"

#include <algorithm>

#include "infer/host_window.h"
#include "nn/rope_length.h"

namespace stoa::infer {

LengthTables::LengthTables(const model::ModelConfig& config) {
  if (config.kind == model::ModelKind::kGpt) ropes_ = model::rope_tables(config);
  any_ = std::any_of(ropes_.begin(), ropes_.end(),
                     [](const auto& rope) { return nn::rope_length_limit(rope).has_value(); });
}

bool LengthTables::remakes_keys(std::int64_t before, std::int64_t now) const {
  return std::any_of(ropes_.begin(), ropes_.end(), [&](const nn::RopeOptions& rope) {
    const auto limit = nn::rope_length_limit(rope);
    if (!limit) return false;
    if (now <= *limit) return before > *limit;
    return before <= *limit && nn::one_rope_beyond_limit(rope);
  });
}

void LengthTables::write(Machine& machine, Arena& arena, const ChunkConstants& constants, std::int64_t first,
                         std::int64_t count, std::int64_t length) const {
  for (std::size_t i = 0; i < ropes_.size(); ++i) {
    if (!nn::rope_length_limit(ropes_[i])) continue;
    const TensorView table = constants.view(arena, i).slice(first, count);
    write_tensor(machine, table, [&](TensorView host) {
      const auto rows = nn::rope_rows(ropes_[i], first, count, length);
      dispatch_float(host.dtype, [&]<class T>() {
        auto* values = static_cast<T*>(host.data);
        if constexpr (std::is_same_v<T, double>)
          std::copy(rows.begin(), rows.end(), values);
        else
          std::transform(rows.begin(), rows.end(), values, [](double x) { return T(static_cast<float>(x)); });
      });
    });
  }
}

std::int64_t usable_positions(const model::ModelConfig& c) {
  const bool dynamic = c.position_embedding_type == model::PositionEmbedding::kRope &&
                       c.rope_scaling.type == model::RopeScaling::kDynamic;
  const double stretch = dynamic ? std::max(1.0, c.rope_scaling.factor.value_or(1)) : 1;
  return static_cast<std::int64_t>(static_cast<double>(c.max_positions()) * stretch);
}

std::int64_t longest_side(const model::ModelConfig& config, std::optional<std::int64_t> most) {
  const std::int64_t positions = config.max_positions(), asked = most.value_or(positions);
  const bool any = config.position_embedding_type == model::PositionEmbedding::kRelative;
  return any ? asked : std::min(asked, positions);
}

}  // namespace stoa::infer

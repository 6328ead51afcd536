// What layers read of positions and do not train.
#pragma once

#include <vector>

#include "model/architecture.h"

namespace stoa::model {

// Tables of the rotary embedding, in the order of rope_tables(): none but with position_embedding_type rope.
std::vector<Constant> rope_constants(const ModelConfig& config, const ChunkOptions& options);
// Rows of tables by position.
inline std::int64_t table_positions(const ModelConfig& c, const ChunkOptions& o) {
  return o.positions > 0 ? o.positions : c.max_positions();
}

}  // namespace stoa::model

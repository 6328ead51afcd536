#include "model/position_constants.h"

namespace stoa::model {

std::vector<Constant> rope_constants(const ModelConfig& c, const ChunkOptions& o) {
  const std::int64_t positions = table_positions(c, o);
  std::vector<Constant> out;
  for (const nn::RopeOptions& rope : rope_tables(c))
    out.push_back(
        {{out.empty() ? "rotary table" : "local rotary table",
          o.precision.vectors(),
          {positions, 2, rope.size / 2}},
         [rope, positions](std::int64_t sequence) { return nn::rope_table(rope, positions, sequence); }});
  return out;
}

}  // namespace stoa::model

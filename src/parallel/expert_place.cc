#include "parallel/expert_place.h"

#include "base/error.h"

namespace stoa::parallel {

void check_experts(const ExpertPlace& place, std::int64_t experts, std::int64_t width) {
  require<InternalError>(place.rank >= 0 && place.rank < place.size && place.tensor_rank >= 0 &&
                             place.tensor_rank < place.tensor_size,
                         "member {} of {} x {}", place.member(), place.size, place.tensor_size);
  if (experts % place.size != 0) {
    std::int64_t below = place.size, above = place.size;
    while (experts % below != 0) --below;
    while (above < experts && experts % above != 0) ++above;
    above = std::min<std::int64_t>(above, experts);
    fail<ConfigError>(
        "expert_model_parallel_size {} must divide num_moe_experts {}: the nearest {}", place.size, experts,
        below == above ? fmt::format("is {}", below) : fmt::format("are {} and {}", below, above));
  }
  require<ConfigError>(place.tensor_size <= width,
                       "expert_tensor_parallel_size {} is more than moe_ffn_hidden_size {}: at most {}",
                       place.tensor_size, width, width);
}

}  // namespace stoa::parallel

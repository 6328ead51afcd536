#include "infer/engine/team_split.h"

#include "base/error.h"

namespace stoa::infer {
namespace {

// The numbers around `asked` for which `fits`, at most `most`: "2 or 4".
std::string nearest_ranks(std::int64_t asked, std::int64_t most,
                          const std::function<bool(std::int64_t)>& fits) {
  std::int64_t below = std::min(asked - 1, most), above = asked + 1;
  while (below > 1 && !fits(below)) --below;
  while (above <= most && !fits(above)) ++above;
  return above <= most ? fmt::format("{} or {}", below, above) : fmt::format("{}", below);
}

}  // namespace

void check_team(const model::ModelSpec& model, const TeamShape& shape) {
  const model::ModelConfig& c = model.config;
  const std::int64_t heads = c.num_attention_heads, groups = c.query_groups(),
                     experts = c.moe.num_moe_experts.value_or(0);
  // Heads of keys of linear attention.
  std::int64_t linear_heads = 0;
  for (std::int64_t l = 0; l < c.num_layers; ++l)
    if (c.linear.is_linear(l)) linear_heads = c.linear.linear_num_key_heads;
  // Whole heads, whole columns, ids; with sums in the order of one rank, equally many on each rank.
  const auto fits = [&](std::int64_t ranks) {
    if (ranks > heads || ranks > c.ffn_size() || ranks > model.vocabulary) return false;
    if (linear_heads > 0 && (ranks > linear_heads || (shape.exact_sum && linear_heads % ranks != 0)))
      return false;
    if (!shape.exact_sum) return true;
    const bool groups_fit =
        ranks <= groups ? groups % ranks == 0 : ranks % groups == 0 && heads / groups % (ranks / groups) == 0;
    return heads % ranks == 0 && groups_fit && c.hidden_size % ranks == 0 && c.ffn_size() % ranks == 0;
  };
  require<ConfigError>(
      fits(shape.tensor),
      "--tp {}{}: the model has {} attention heads with {} heads of keys{}, a hidden size of {} and {} "
      "columns "
      "of its feed-forward layers{}: the nearest is --tp {}",
      shape.tensor, shape.exact_sum ? " --exact-sum" : "", heads, groups,
      linear_heads > 0 ? fmt::format(" ({} in layers of linear attention)", linear_heads) : "", c.hidden_size,
      c.ffn_size(), shape.exact_sum ? ", which the ranks must divide evenly" : "",
      nearest_ranks(shape.tensor, heads, fits));
  require<ConfigError>(shape.pipeline <= c.num_layers,
                       "--pp {}: the model has {} layers: the nearest is --pp {}", shape.pipeline,
                       c.num_layers, c.num_layers);
  require<ConfigError>(shape.expert == 1 || experts > 0,
                       "--ep {} distributes experts, and the model has none: leave it out, or give --tp {}",
                       shape.expert, shape.expert);
  if (experts == 0) return;
  const std::int64_t holders = shape.exact_sum ? shape.tensor * shape.expert : shape.expert;
  require<ConfigError>(
      experts % holders == 0, "{}: the model's {} experts do not divide among {} ranks: the nearest is {}",
      shape.exact_sum && shape.tensor > 1
          ? fmt::format("--tp {} --ep {} --exact-sum", shape.tensor, shape.expert)
          : fmt::format("--ep {}", shape.expert),
      experts, holders, nearest_ranks(holders, experts, [&](std::int64_t n) { return experts % n == 0; }));
}

}  // namespace stoa::infer
